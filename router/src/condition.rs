//! Conditions of policy rules: expressions in CEL (the Common Expression Language) about one call.
//!
//! A condition is compiled when the configuration is read: names, functions and types are checked, and literal patterns
//! are compiled. The crate `cel` parses. The evaluator is our own, since that of the crate bounds neither time nor
//! memory. Tests compare the two.

mod arithmetic;
mod check;
mod convert;
mod evaluate;
mod facts;
mod function;
mod names;
mod node;
mod parse;
mod pattern;
mod reads;
mod shape;
mod size;
mod types;
mod value;

use std::fmt;
use std::sync::Arc;

use evaluate::{Budget, Evaluation, Fault};
use facts::ReadableFacts;
use node::Node;

pub use facts::CallFacts;
pub(crate) use facts::UnknownFacts;
pub(crate) use reads::{ArgsPath, ConditionReads};

/// Compiled condition. Two conditions are equal if their texts are.
///
/// ```
/// use nexus_router::condition::Condition;
///
/// assert!(Condition::compile("args.amount > 100 && caller.name != 'ci'").is_ok());
/// assert!(Condition::compile("caller.nme == 'ci'").unwrap_err().hint().contains("name"));
/// ```
#[derive(Clone)]
pub struct Condition(Arc<Compiled>);

struct Compiled {
    text: String,
    root: Node,
    reads: ConditionReads,
}

impl Condition {
    /// The most bytes of a text.
    pub const MAX_TEXT: usize = 4096;
    /// The most bytes of the arguments' JSON text, if a condition reads them.
    pub const MAX_ARGS: usize = 256 * 1024;
    /// The most steps of all conditions for one call.
    pub const MAX_STEPS: usize = 1_000_000;

    /// Compiles a text.
    ///
    /// # Errors
    /// When the text is too long, is not CEL, or has a wrong name or type.
    pub fn compile(text: &str) -> Result<Self, ConditionError> {
        if text.len() > Self::MAX_TEXT {
            let problem = format!("has {} bytes", text.len());
            let hint = format!("write at most {} bytes", Self::MAX_TEXT);
            return Err(ConditionError { position: None, problem, hint });
        }
        let root = parse::parse(text)?;
        let reads = ConditionReads::of(&root);
        let text = text.to_owned();
        Ok(Self(Arc::new(Compiled { text, root, reads })))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns whether the condition reads the arguments.
    #[must_use]
    pub fn reads_args(&self) -> bool {
        !self.0.reads.args.is_empty()
    }

    /// Returns whether the condition reads hints.
    #[must_use]
    pub fn reads_hints(&self) -> bool {
        self.0.reads.hints.contains(&true)
    }

    /// Returns the facts that the condition reads.
    pub(crate) fn reads(&self) -> &ConditionReads {
        &self.0.reads
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Condition {}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.as_str()).finish()
    }
}

/// Evaluations of all conditions for one call.
#[derive(Debug)]
pub struct CallEvaluation<'a> {
    facts: ReadableFacts<'a>,
    budget: Budget,
    /// Whether the arguments are within their bound, once a condition has read them.
    args_fit: Option<bool>,
    has_hints: bool,
}

impl<'a> CallEvaluation<'a> {
    /// Makes the evaluations for a call.
    #[must_use]
    pub fn new(facts: CallFacts<'a>) -> Self {
        let (facts, budget) = (ReadableFacts::new(facts), Budget::new(Condition::MAX_STEPS));
        Self { facts, budget, args_fit: None, has_hints: true }
    }

    /// Makes the evaluations for a call of which some facts are not known. A result does not depend on them.
    #[must_use]
    pub(crate) fn with_unknown(facts: CallFacts<'a>, unknown: UnknownFacts) -> Self {
        let mut evaluation = Self::new(facts);
        evaluation.facts.unknown = unknown;
        evaluation
    }

    /// Makes the evaluations for a call whose hints are not known yet.
    #[must_use]
    pub(crate) fn without_hints(facts: CallFacts<'a>) -> Self {
        Self { has_hints: false, ..Self::new(facts) }
    }

    /// Adds the hints, unless they are there.
    pub(crate) fn set_hints(&mut self, hints: impl FnOnce() -> [Option<bool>; 4]) {
        if !self.has_hints {
            (self.facts.call.hints, self.has_hints) = (hints(), true);
        }
    }

    /// Returns whether a call meets a condition.
    ///
    /// # Errors
    /// When the condition has no result for the call, or a bound is exceeded.
    pub fn evaluate(&mut self, condition: &Condition) -> Result<bool, EvaluationError> {
        let args = self.facts.call.args;
        if condition.reads_args()
            && !*self.args_fit.get_or_insert_with(|| size::fits(args, Condition::MAX_ARGS))
        {
            return Err(EvaluationError::ArgsTooLarge);
        }
        let result = Evaluation::new(&self.facts, &mut self.budget).boolean(&condition.0.root);
        result.map_err(EvaluationError::Fault)
    }
}

/// Reason why a condition has no result for a call. It shows no value of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationError {
    /// The arguments exceed their bound.
    ArgsTooLarge,
    /// The evaluation failed.
    #[expect(private_interfaces, reason = "only the text of a fault is public")]
    Fault(Fault),
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self {
            Self::ArgsTooLarge => {
                return write!(f, "the arguments exceed {} bytes", Condition::MAX_ARGS);
            }
            Self::Fault(fault) => fault,
        };
        f.write_str(match fault {
            Fault::Member => "a member is missing",
            Fault::Index => "a list has no element at the index",
            Fault::Type => "a value has the wrong type",
            Fault::Overflow => "a number is out of range",
            Fault::Zero => "a number is divided by zero",
            Fault::Conversion => "a value cannot be converted",
            Fault::Key => "a map has a key twice",
            Fault::Unknown => "a fact about the call is not known",
            Fault::Budget => return write!(f, "it takes more than {} steps", Condition::MAX_STEPS),
        })
    }
}

impl std::error::Error for EvaluationError {}

/// Error of a text that is not a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// Line and column inside of the text, from 1.
    position: Option<(usize, usize)>,
    problem: String,
    hint: String,
}

impl ConditionError {
    /// Returns the problem, with its position inside of the text.
    #[must_use]
    pub fn message(&self) -> String {
        match self.position {
            None => self.problem.clone(),
            Some((1, column)) => format!("{} at character {column}", self.problem),
            Some((line, column)) => {
                format!("{} at line {line}, character {column} of its text", self.problem)
            }
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

#[cfg(test)]
mod tests;

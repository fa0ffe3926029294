//! Facts about one call that conditions read.

use std::borrow::Cow;

use super::evaluate::Fault;
use super::node::HintMember;
use crate::clock::Timestamp;
use crate::json::Object;

/// Facts about a call that conditions read. Absent texts are empty.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The arguments as the caller gave them.
    pub args: &'a Object,
    /// The adapter's id. Conditions read it in lower case.
    pub adapter: &'a str,
    /// The tool, by the adapter's own name. Conditions read it in lower case.
    pub tool: &'a str,
    /// The method. Conditions read it in lower case.
    pub method: &'a str,
    /// The class of the operation.
    pub class: &'a str,
    /// The name of the caller.
    pub caller_name: &'a str,
    /// The scope of the caller.
    pub caller_scope: &'a str,
    /// The role of the caller.
    pub caller_role: &'a str,
    /// The known hints: read-only, destructive, idempotent and open-world.
    pub hints: [Option<bool>; 4],
    /// The run's id.
    pub run_id: &'a str,
    /// The run's mode.
    pub run_mode: &'a str,
    /// The run's goal.
    pub run_goal: &'a str,
    /// The moment of the decision.
    pub now: Timestamp,
}

/// Facts that a record lacks. A condition that needs one of them has no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnknownFacts {
    pub(crate) caller_name: bool,
    pub(crate) caller_scope: bool,
    /// Hints in the order of [`CallFacts::hints`].
    pub(crate) hints: [bool; 4],
}

/// Facts as the evaluator reads them.
#[derive(Debug)]
pub(super) struct ReadableFacts<'a> {
    pub(super) call: CallFacts<'a>,
    pub(super) adapter: Cow<'a, str>,
    pub(super) tool: Cow<'a, str>,
    pub(super) method: Cow<'a, str>,
    pub(super) unknown: UnknownFacts,
}

impl<'a> ReadableFacts<'a> {
    pub(super) fn new(call: CallFacts<'a>) -> Self {
        Self {
            adapter: lower_case(call.adapter),
            tool: lower_case(call.tool),
            method: lower_case(call.method),
            unknown: UnknownFacts::default(),
            call,
        }
    }

    pub(super) fn hint(&self, member: HintMember) -> Result<Option<bool>, Fault> {
        let index = member.index();
        if self.unknown.hints[index] { Err(Fault::Unknown) } else { Ok(self.call.hints[index]) }
    }

    pub(super) const fn caller_name(&self) -> Result<&'a str, Fault> {
        if self.unknown.caller_name { Err(Fault::Unknown) } else { Ok(self.call.caller_name) }
    }

    pub(super) const fn caller_scope(&self) -> Result<&'a str, Fault> {
        if self.unknown.caller_scope { Err(Fault::Unknown) } else { Ok(self.call.caller_scope) }
    }
}

/// Folds a name as the patterns of rules do: character by character.
fn lower_case(name: &str) -> Cow<'_, str> {
    if is_lower_case(name) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.chars().flat_map(char::to_lowercase).collect())
    }
}

/// Returns whether folding leaves a text as it is.
pub(super) fn is_lower_case(text: &str) -> bool {
    if text.is_ascii() {
        return !text.bytes().any(|byte| byte.is_ascii_uppercase());
    }
    text.chars().all(|one| one.to_lowercase().eq([one]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_character_by_character() {
        for (name, folded) in [
            ("greeter", "greeter"),
            ("Greeter_2", "greeter_2"),
            ("\u{212a}elvin", "kelvin"),
            ("ÜBER", "über"),
            ("ΑΣ", "ασ"),
        ] {
            assert_eq!(lower_case(name), folded);
            assert_eq!(is_lower_case(name), name == folded);
        }
    }
}

//! Compiled form of a condition: every name is resolved and every literal pattern is compiled.

use super::function::Function;
use super::pattern::CompiledPattern;

/// Part of a condition.
#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    Variable(Variable),
    /// Loop variable, counted from the outermost loop.
    Local(usize),
    /// Member of a map.
    Select(Box<Self>, Box<str>),
    /// Presence of a member.
    Has(Box<Self>, Box<str>),
    /// Presence of a hint.
    HasHint(HintMember),
    Index(Box<Self>, Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Negate(Box<Self>),
    Choose(Box<Self>, Box<Self>, Box<Self>),
    Equal(Box<Self>, Box<Self>),
    NotEqual(Box<Self>, Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    Compute(Arithmetic, Box<Self>, Box<Self>),
    In(Box<Self>, Box<Self>),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// Function call; the receiver is the first argument.
    Call(Function, Vec<Self>),
    Matches(Box<Self>, CompiledPattern),
    Loop(Box<Loop>),
}

/// Literal of the text.
#[derive(Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    /// Name of a type.
    Type(&'static str),
}

/// Loop of a macro over a list, or over the keys of a map.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) kind: LoopKind,
    pub(super) range: Node,
    /// Condition on the elements that `map` and `filter` collect.
    pub(super) guard: Option<Node>,
    pub(super) body: Node,
}

/// Macro of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `filter`.
    Collect,
}

/// Order comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    /// Returns the sign in a text.
    pub(super) const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

/// Value that the gate gives to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Args,
    Adapter,
    Tool,
    Method,
    Class,
    Now,
    CallerName,
    CallerScope,
    CallerRole,
    CallerClaims,
    Hint(HintMember),
    RunId,
    RunMode,
    RunGoal,
}

/// Member of `hints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HintMember {
    ReadOnly,
    Destructive,
    Idempotent,
    OpenWorld,
}

impl HintMember {
    /// Returns the index in [`CallFacts::hints`](super::CallFacts::hints).
    pub(super) const fn index(self) -> usize {
        match self {
            Self::ReadOnly => 0,
            Self::Destructive => 1,
            Self::Idempotent => 2,
            Self::OpenWorld => 3,
        }
    }
}

/// Names of the variables without members.
pub(super) const VARIABLES: &[(&str, Variable)] = &[
    ("args", Variable::Args),
    ("adapter", Variable::Adapter),
    ("tool", Variable::Tool),
    ("method", Variable::Method),
    ("class", Variable::Class),
    ("now", Variable::Now),
];

/// Names of the variables with a fixed set of members.
pub(super) const RECORDS: &[(&str, &[(&str, Variable)])] = &[
    (
        "caller",
        &[
            ("name", Variable::CallerName),
            ("scope", Variable::CallerScope),
            ("role", Variable::CallerRole),
            ("claims", Variable::CallerClaims),
        ],
    ),
    (
        "hints",
        &[
            ("read_only", Variable::Hint(HintMember::ReadOnly)),
            ("destructive", Variable::Hint(HintMember::Destructive)),
            ("idempotent", Variable::Hint(HintMember::Idempotent)),
            ("open_world", Variable::Hint(HintMember::OpenWorld)),
        ],
    ),
    ("run", &[("id", Variable::RunId), ("mode", Variable::RunMode), ("goal", Variable::RunGoal)]),
];

impl Node {
    /// Calls a function with each part of this part.
    pub(super) fn for_each_part<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        match self {
            Self::Literal(_) | Self::Variable(_) | Self::Local(_) | Self::HasHint(_) => {}
            Self::Select(one, _)
            | Self::Has(one, _)
            | Self::Not(one)
            | Self::Negate(one)
            | Self::Matches(one, _) => visit(one),
            Self::Index(one, other)
            | Self::And(one, other)
            | Self::Or(one, other)
            | Self::Equal(one, other)
            | Self::NotEqual(one, other)
            | Self::Compare(_, one, other)
            | Self::Compute(_, one, other)
            | Self::In(one, other) => {
                visit(one);
                visit(other);
            }
            Self::Choose(test, then, otherwise) => {
                visit(test);
                visit(then);
                visit(otherwise);
            }
            Self::List(items) | Self::Call(_, items) => items.iter().for_each(visit),
            Self::Map(entries) => entries.iter().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
            Self::Loop(one) => {
                visit(&one.range);
                one.guard.iter().for_each(&mut *visit);
                visit(&one.body);
            }
        }
    }

    /// Returns the number of parts inside of each other.
    pub(super) fn depth(&self) -> usize {
        let mut deepest = 0;
        self.for_each_part(&mut |part| deepest = deepest.max(part.depth()));
        deepest + 1
    }
}

//! What a provider can express, as data: one table per version of its API.

use crate::name::NameRule;

/// The constraints of one version of a provider's API. They are declared, never discovered.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The stable name of the table; another table has another name.
    pub id: &'static str,
    /// The version of the API that it is for.
    pub api_version: &'static str,
    /// What the content of system messages may be.
    pub system: Form,
    /// What the content of user messages may be.
    pub user: Form,
    /// What the content of the assistant's messages may be.
    pub assistant: Form,
    /// What texts may be.
    pub text: TextRule,
    /// The most messages.
    pub most_messages: Option<u32>,
    /// The most system messages.
    pub most_system: Option<u32>,
    /// Whether there must be a message that is not the system's.
    pub needs_turn: bool,
    /// The most messages of the assistant at the end.
    pub trailing_assistants: Option<u32>,
    /// How no system messages are written.
    pub no_system: Empty,
    /// How no tools are written.
    pub no_tools: Empty,
    /// The most tools.
    pub most_tools: Option<u32>,
    /// The rule for names of tools. Two tools of one name are always refused.
    pub tool_name: NameRule,
    /// The rule for names of parameters, if there is one.
    pub parameter_name: Option<NameRule>,
    /// Whether the description of a tool may be null.
    pub null_description: bool,
    /// Keywords that may not stand at the root of parameters.
    pub refused_at_root: &'static [&'static str],
    /// The only keywords that the provider keeps, if it drops others.
    pub vocabulary: Option<Vocabulary>,
    /// What `strict = true` asks of parameters.
    pub strict: Strict,
    /// Settings of the target that this version of the API refuses.
    pub refused_settings: &'static [&'static str],
    /// Settings that the provider takes only beside tools.
    pub needs_tools: &'static [&'static str],
}

/// What the content of a message may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A text, or a list of at least one item.
    TextOrList,
    /// A text alone.
    Text,
    /// A text, or a list of one item, because each message becomes one block beside those of others.
    Block,
}

impl Form {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TextOrList => "text, or list of one or more",
            Self::Text => "text",
            Self::Block => "text, or list of one, which becomes one block",
        }
    }
}

/// What a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRule {
    /// Anything.
    Any,
    /// Not empty.
    NotEmpty,
    /// Not without a character other than white space (Unicode `White_Space`).
    NotBlank,
}

impl TextRule {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::NotEmpty => "not empty",
            Self::NotBlank => "not blank",
        }
    }
}

/// How an empty list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// As an empty list.
    Written,
    /// Not at all, which is how the provider spells it. No other list is written so.
    Absent,
}

impl Empty {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "[]",
            Self::Absent => "absent",
        }
    }
}

/// The keywords of JSON Schema that a provider keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// At the root of parameters.
    pub root: &'static [&'static str],
    /// In the schema of each parameter. What stands behind them is kept as it is.
    pub property: &'static [&'static str],
}

/// What `strict = true` asks of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// The provider has no such setting.
    None,
    /// Every object is closed.
    Closed,
    /// Every object is closed, all its properties are required, and there is no `oneOf`.
    ClosedAndRequired,
}

impl Strict {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no such setting",
            Self::Closed => "every object closed",
            Self::ClosedAndRequired => "every object closed, every property required, no oneOf",
        }
    }
}

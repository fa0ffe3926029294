//! What the operator lays down for every run: the section `[policy]`.

use std::borrow::Cow;
use std::time::Duration;

use crate::condition::Condition;
use crate::config::pattern::Pattern;
use crate::role::ActionClass;

/// What the operator lets runs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Whether runs may apply; otherwise every run that wants to is refused.
    pub apply: bool,
    /// The most steps of a plan.
    pub max_steps: u64,
    /// The longest time of a run.
    pub max_run: Duration,
    /// The decision about calls that no rule fits; absent means allow.
    pub default: Option<PolicyDefault>,
    /// The first rule that fits a call decides; if none does, `default` decides.
    pub rules: Vec<Rule>,
    /// How people are asked.
    pub approvals: ApprovalSettings,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            apply: true,
            max_steps: 1000,
            max_run: Duration::from_secs(600),
            default: None,
            rules: Vec::new(),
            approvals: ApprovalSettings::default(),
        }
    }
}

/// Decision about calls that no rule fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyDefault {
    /// The call may be made.
    #[default]
    Allow,
    /// The call is denied.
    Deny,
}

impl PolicyDefault {
    /// Every default, with its name.
    pub const ALL: &[(&'static str, Self)] = &[("allow", Self::Allow), ("deny", Self::Deny)];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// How people are asked about calls that need their yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// For how long a question stands; what is not answered by then is refused.
    pub expire: Duration,
    /// Whether the token that asked for a call may decide about it, also without the scope admin.
    pub by_caller: bool,
}

impl ApprovalSettings {
    /// The longest that a question may stand, in seconds: a year.
    pub const LONGEST_S: u64 = 366 * 24 * 60 * 60;
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self { expire: Duration::from_secs(86_400), by_caller: false }
    }
}

/// Allows or denies calls, or has a person asked. What is absent fits anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id that the operator gave the rule; [`Self::id_at`] has the one of a rule without.
    pub id: Option<String>,
    /// What becomes of a call that fits.
    pub effect: Effect,
    /// The adapter's id.
    pub adapter: Option<Pattern>,
    /// The tool.
    pub tool: Option<Pattern>,
    /// The method.
    pub method: Option<Pattern>,
    /// The name of the caller's token.
    pub token: Option<Pattern>,
    /// The class of the operation, as its tool says. One without a class does not fit.
    pub action_class: Option<ActionClass>,
    /// What is hinted of the operation.
    pub annotation: Option<Annotation>,
    /// The condition that the call must meet.
    pub when: Option<Condition>,
    /// What the caller is told, and whoever is asked.
    pub reason: Option<String>,
}

impl Rule {
    /// The most rules of a configuration.
    pub const MAX_COUNT: usize = 1000;
    /// The most characters of an id.
    pub const MAX_ID: usize = 64;

    /// Returns the id of the rule at an index of the policy: the operator's, or `rule-N`, counted from 1.
    #[must_use]
    pub fn id_at(&self, index: usize) -> Cow<'_, str> {
        match &self.id {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(Self::default_id(index)),
        }
    }

    /// Returns the id of a rule without an id of its own.
    #[must_use]
    pub fn default_id(index: usize) -> String {
        format!("rule-{}", index + 1)
    }

    /// Returns whether a text has the form of an id.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts = text.bytes().next().is_some_and(alphanumeric);
        let rest = text.bytes().all(|byte| alphanumeric(byte) || b"_.-".contains(&byte));
        starts && rest && text.len() <= Self::MAX_ID
    }

    /// Returns a rule that fits every call.
    #[must_use]
    pub const fn any(effect: Effect) -> Self {
        Self {
            id: None,
            effect,
            adapter: None,
            tool: None,
            method: None,
            token: None,
            action_class: None,
            annotation: None,
            when: None,
            reason: None,
        }
    }
}

/// Something that may be hinted of an operation, or its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// What is hinted.
    pub property: Property,
    /// Whether it must be so, or must not.
    pub holds: bool,
}

/// What may be hinted of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// It changes nothing.
    ReadOnly,
    /// What it changes may be lost.
    Destructive,
    /// To do it twice is as good as once.
    Idempotent,
    /// It reaches things that nobody here knows.
    OpenWorld,
}

impl Annotation {
    /// Every annotation, with its name.
    pub const ALL: &[(&'static str, Self)] = &[
        ("read_only", Self { property: Property::ReadOnly, holds: true }),
        ("destructive", Self { property: Property::Destructive, holds: true }),
        ("idempotent", Self { property: Property::Idempotent, holds: true }),
        ("open_world", Self { property: Property::OpenWorld, holds: true }),
        ("not_read_only", Self { property: Property::ReadOnly, holds: false }),
        ("not_destructive", Self { property: Property::Destructive, holds: false }),
        ("not_idempotent", Self { property: Property::Idempotent, holds: false }),
        ("not_open_world", Self { property: Property::OpenWorld, holds: false }),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Calls that fit may be made.
    Allow,
    /// Calls that fit are refused.
    Deny,
    /// Calls that fit wait until a person allows or denies them.
    Approve,
}

impl Effect {
    /// Every effect, with its name.
    pub const ALL: &[(&'static str, Self)] =
        &[("allow", Self::Allow), ("deny", Self::Deny), ("approve", Self::Approve)];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

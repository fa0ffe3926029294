//! Keys of a rule that do not fit a call, one by one, for explanations.

use super::{Act, Law};
use crate::config::{Pattern, Rule};
use crate::role::ActionClass;

/// Key of a rule that a call must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKey {
    /// The id of the adapter.
    Adapter,
    /// The tool.
    Tool,
    /// The method.
    Method,
    /// The name of the caller's token.
    Token,
    /// The class of the operation.
    ActionClass,
    /// The hint of the operation.
    Annotation,
}

impl RuleKey {
    /// Returns the key in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adapter => "adapter",
            Self::Tool => "tool",
            Self::Method => "method",
            Self::Token => "token",
            Self::ActionClass => "action_class",
            Self::Annotation => "annotation",
        }
    }
}

impl Law {
    /// Returns the first key about the operation that does not fit. Tokens, hints and conditions are not looked at.
    pub(super) fn operation_mismatch(
        &self,
        rule: &Rule,
        act: Act<'_>,
        class: Option<ActionClass>,
    ) -> Option<RuleKey> {
        let fits = |pattern: &Option<Pattern>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches_name(name))
        };
        if !fits(&rule.adapter, act.adapter_id) {
            return Some(RuleKey::Adapter);
        }
        if !fits(&rule.tool, act.tool) && !self.is_called(rule.tool.as_ref(), act, &|| act.key()) {
            return Some(RuleKey::Tool);
        }
        if !fits(&rule.method, act.method) {
            return Some(RuleKey::Method);
        }
        let is_of_class = rule.action_class.is_none_or(|wanted| self.is_of(wanted, act, class));
        (!is_of_class).then_some(RuleKey::ActionClass)
    }
}

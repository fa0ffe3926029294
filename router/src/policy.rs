//! What the operator lays down for every run, whatever its caller allows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::caller::Caller;
use crate::config::{Effect, PolicySettings, Rule};
use crate::json::Object;
use crate::role::ActionClass;

/// The law of a router. The default allows what the caller's own policy allows.
#[derive(Clone, Debug)]
pub struct Law {
    /// Whether runs may apply at all.
    pub apply: bool,
    /// A plan with more steps is refused.
    pub max_steps: Option<u64>,
    /// No run takes longer.
    pub max_run: Option<Duration>,
    /// The first rule that fits decides.
    pub rules: Vec<Rule>,
    /// The classes of operations, as the tool specs say.
    pub classes: Classes,
}

/// The class of an operation: by adapter, tool and method.
pub type Classes = BTreeMap<(String, String, String), ActionClass>;

/// The call that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// The adapter.
    pub adapter_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The method.
    pub method: &'a str,
}

/// Why a call must not be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// The stable code.
    pub code: &'static str,
    /// What is told.
    pub message: String,
    /// What else is known.
    pub details: Object,
}

impl Default for Law {
    fn default() -> Self {
        Self {
            apply: true,
            max_steps: None,
            max_run: None,
            rules: Vec::new(),
            classes: Classes::new(),
        }
    }
}

impl Law {
    /// Makes the law of a configuration.
    #[must_use]
    pub fn new(settings: &PolicySettings, classes: Classes) -> Self {
        Self {
            apply: settings.apply,
            max_steps: Some(settings.max_steps),
            max_run: Some(settings.max_run),
            rules: settings.rules.clone(),
            classes,
        }
    }

    /// Judges one call of a caller, whether it is made or only simulated.
    ///
    /// # Errors
    /// With the denial, if a rule or the caller's role forbids the call.
    pub fn judge(&self, caller: Option<&Caller>, act: Act<'_>) -> Result<(), Denial> {
        self.judge_by_rules(caller, act)?;
        self.judge_by_role(caller, act)
    }

    fn judge_by_rules(&self, caller: Option<&Caller>, act: Act<'_>) -> Result<(), Denial> {
        let name = caller.map_or("", |caller| caller.name.as_str());
        let fits = |rule: &&Rule| {
            let matches = |pattern: &Option<crate::config::Pattern>, text| {
                pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
            };
            matches(&rule.adapter, act.adapter_id)
                && matches(&rule.tool, act.tool)
                && matches(&rule.method, act.method)
                && matches(&rule.token, name)
        };
        let Some((index, rule)) = self.rules.iter().enumerate().find(|(_, rule)| fits(rule)) else {
            return Ok(());
        };
        if rule.effect == Effect::Allow {
            return Ok(());
        }
        let mut details = Object::new();
        details.insert("denied_by", "rule");
        details.insert("rule", index);
        let why = rule.reason.as_deref().unwrap_or("the operator's policy forbids it");
        let message =
            format!("{}.{} of adapter '{}' is denied: {why}", act.tool, act.method, act.adapter_id);
        Err(Denial { code: "PERMISSION_DENIED", message, details })
    }

    /// A caller with a role carries out only what has a class, and one that the role has.
    fn judge_by_role(&self, caller: Option<&Caller>, act: Act<'_>) -> Result<(), Denial> {
        let Some(role) = caller.and_then(|caller| caller.role) else { return Ok(()) };
        let key = (act.adapter_id.to_owned(), act.tool.to_owned(), act.method.to_owned());
        let class = self.classes.get(&key).copied();
        if class.is_some_and(|class| role.allows(class)) {
            return Ok(());
        }
        let mut details = Object::new();
        details.insert("denied_by", "role");
        details.insert("role", role.name());
        details.insert("action_class", class.map(ActionClass::name));
        let class = class.map_or_else(
            || "which no tool gives an action class".to_owned(),
            |class| format!("which is {}", class.name()),
        );
        let message = format!(
            "Role '{}' may not call {}.{} of adapter '{}', {class}",
            role.name(),
            act.tool,
            act.method,
            act.adapter_id
        );
        Err(Denial { code: "ROLE_REFUSED", message, details })
    }
}

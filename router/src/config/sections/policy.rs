//! Reads `[policy]`: the rules, and how people are asked.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::condition::Condition;
use crate::config::reader::Section;
use crate::config::settings::{
    Annotation, ApprovalSettings, Effect, PolicyDefault, PolicySettings, Rule,
};
use crate::role::ActionClass;

pub(super) fn policy(section: &Section<'_>) -> PolicySettings {
    let default = PolicySettings::default();
    PolicySettings {
        apply: section.flag("apply", default.apply),
        max_steps: section.positive("max_steps").unwrap_or(default.max_steps),
        max_run: section.milliseconds("max_run_ms").unwrap_or(default.max_run),
        default: section.choice("default", PolicyDefault::ALL),
        rules: rules(section),
        approvals: section.within("approvals", approvals),
    }
}

fn approvals(section: &Section<'_>) -> ApprovalSettings {
    let default = ApprovalSettings::default();
    let expire = section.between("expire_s", 1, ApprovalSettings::LONGEST_S);
    ApprovalSettings {
        expire: expire.map_or(default.expire, Duration::from_secs),
        by_caller: section.flag("by_caller", default.by_caller),
    }
}

/// Reads the rules. Ids are unique, and no explicit id equals the default id of another rule.
fn rules(section: &Section<'_>) -> Vec<Rule> {
    if let Some(toml::Value::Array(items)) = section.get("rules")
        && items.len() > Rule::MAX_COUNT
    {
        let key = format!("rules[{}]", Rule::MAX_COUNT);
        let message = format!("is rule {} of {}", Rule::MAX_COUNT + 1, items.len());
        let hint =
            format!("write at most {} rules; patterns and conditions join them", Rule::MAX_COUNT);
        section.wrong(&key, &message, &hint);
        return Vec::new();
    }
    let rules = section.each("rules", rule);
    let mut ids = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let id = rule.id_at(index);
        let Some(first) = ids.insert(id.clone(), index) else { continue };
        // Only an explicit id can be at fault; the default of the other rule stays.
        let place = if rule.id.is_some() { index } else { first };
        let message = format!("is also the id of policy.rules[{}]", first + index - place);
        section.wrong(&format!("rules[{place}].id"), &message, "write another id");
    }
    rules
}

fn rule_id(section: &Section<'_>) -> Option<String> {
    let id = section.text("id")?;
    if !Rule::is_id(&id) {
        let hint = format!(
            "write at most {} lower-case letters, digits, _ . and -, starting with a letter or digit",
            Rule::MAX_ID
        );
        section.wrong("id", "is not an id of a rule", &hint);
        return None;
    }
    Some(id)
}

/// Compiles the condition of a rule. The error names the line of the key, and the position inside of the text.
fn condition(section: &Section<'_>) -> Option<Condition> {
    let text = section.text("when")?;
    match Condition::compile(&text) {
        Ok(condition) => Some(condition),
        Err(error) => {
            section.wrong("when", &error.message(), error.hint());
            None
        }
    }
}

fn rule(section: &Section<'_>) -> Rule {
    let pattern = |key| section.pattern(key, &section.text(key)?);
    let effect = section.choice("effect", Effect::ALL);
    if effect.is_none() && section.get("effect").is_none() {
        let hint = "write effect = \"allow\", effect = \"deny\" or effect = \"approve\"";
        section.wrong("effect", "is missing", hint);
    }
    let classes = ActionClass::ALL.map(|class| (class.name(), class));
    Rule {
        id: rule_id(section),
        effect: effect.unwrap_or(Effect::Deny),
        adapter: pattern("adapter"),
        tool: pattern("tool"),
        method: pattern("method"),
        token: pattern("token"),
        action_class: section.choice("action_class", &classes),
        annotation: section.choice("annotation", Annotation::ALL),
        when: condition(section),
        reason: section.text("reason"),
    }
}

//! Reads `[policy]`: the rules, and how people are asked.

use std::time::Duration;

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
        rules: section.each("rules", rule),
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

fn rule(section: &Section<'_>) -> Rule {
    let pattern = |key| section.pattern(key, &section.text(key)?);
    let effect = section.choice("effect", Effect::ALL);
    if effect.is_none() && section.get("effect").is_none() {
        let hint = "write effect = \"allow\", effect = \"deny\" or effect = \"approve\"";
        section.wrong("effect", "is missing", hint);
    }
    let classes = ActionClass::ALL.map(|class| (class.name(), class));
    Rule {
        effect: effect.unwrap_or(Effect::Deny),
        adapter: pattern("adapter"),
        tool: pattern("tool"),
        method: pattern("method"),
        token: pattern("token"),
        action_class: section.choice("action_class", &classes),
        annotation: section.choice("annotation", Annotation::ALL),
        reason: section.text("reason"),
    }
}

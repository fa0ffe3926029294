//! `nexus-router policy check`.

use std::path::PathBuf;

use super::super::output::{Form, Output};
use super::super::{Answer, Error};
use super::{call_file, outcome_json};
use crate::app::{App, Named};
use crate::config::{ConfigFile, Effect, Environment};
use crate::json::{Object, Value};
use crate::policy::history::{
    DecidedBy, Gap, PolicyCall, PolicyExplanation, PolicyFile, PolicyOutcome, RuleMiss,
};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct CheckArgs {
    /// The file of the call, or - for standard input.
    #[arg(value_name = "CALL")]
    file: PathBuf,
    /// The configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &CheckArgs, environment: &Environment) -> Result<Answer, Error> {
    let call = call_file::read(&arguments.file)?;
    let (config, origins) = ConfigFile::trace(arguments.config_file.as_deref(), environment)?;
    let app = App::new(environment, config, Named::default());
    let mut policy = app.policy_file(&origins)?;
    let explanation = policy.explain(&call);
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&json(&policy, &call, &explanation).into())?,
        Form::Human => {
            for line in human(&policy, &call, &explanation) {
                output.line(&visible(&line))?;
            }
        }
    }
    Ok(match explanation.effect {
        Some(Effect::Allow) => Answer::Yes,
        Some(Effect::Deny) => Answer::No,
        Some(Effect::Approve) => Answer::Waits,
        None => Answer::Unclear,
    })
}

fn human(policy: &PolicyFile, call: &PolicyCall, explanation: &PolicyExplanation) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, miss) in &explanation.misses {
        lines.push(format!(
            "  {}: {}",
            rule_place(policy, *index),
            miss_text(policy, *index, miss)
        ));
    }
    let gaps: Vec<&str> = explanation.gaps.iter().map(|gap| gap.text()).collect();
    let (operation, gaps) = (call.operation(), gaps.join("; "));
    match (explanation.outcome, explanation.effect) {
        (Some(outcome), _) => {
            let reason = reason(policy, call, outcome, explanation.failure.as_deref());
            lines.push(format!("{}: {operation}: {reason}", outcome.effect.name()));
        }
        (None, Some(effect)) => {
            let reasons = explanation.possible.iter();
            let reasons: Vec<String> =
                reasons.map(|outcome| reason(policy, call, *outcome, None)).collect();
            lines.push(format!(
                "{}: {operation}: {}: {gaps}",
                effect.name(),
                reasons.join(", or ")
            ));
        }
        (None, None) => {
            let mut effects: Vec<&str> = Vec::new();
            for name in explanation.possible.iter().map(|outcome| outcome.effect.name()) {
                if !effects.contains(&name) {
                    effects.push(name);
                }
            }
            lines.push(format!("unclear: {operation}: {}: {gaps}", effects.join(" or ")));
        }
    }
    lines
}

/// Returns a rule with its line.
fn rule_place(policy: &PolicyFile, index: usize) -> String {
    let id = policy.rules().get(index).map(|rule| rule.id_at(index)).unwrap_or_default();
    match policy.rule_line(index) {
        Some(line) => format!("{id} (line {line})"),
        None => id.into_owned(),
    }
}

fn miss_text(policy: &PolicyFile, index: usize, miss: &RuleMiss) -> String {
    match miss {
        RuleMiss::Condition => "its condition is false".to_owned(),
        RuleMiss::Key(key) => {
            let value = rule_value(policy, index, key.name());
            format!("{} {value:?} does not fit", key.name())
        }
    }
}

/// Returns the value of a key of a rule.
fn rule_value(policy: &PolicyFile, index: usize, key: &str) -> String {
    let Some(rule) = policy.rules().get(index) else { return String::new() };
    let pattern = match key {
        "adapter" => &rule.adapter,
        "tool" => &rule.tool,
        "method" => &rule.method,
        "token" => &rule.token,
        "action_class" => {
            return rule.action_class.map(|one| one.name().to_owned()).unwrap_or_default();
        }
        _ => return rule.annotation.map(|one| one.name().to_owned()).unwrap_or_default(),
    };
    pattern.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Returns the reason of a decision.
fn reason(
    policy: &PolicyFile,
    call: &PolicyCall,
    outcome: PolicyOutcome,
    failure: Option<&str>,
) -> String {
    match outcome.by {
        DecidedBy::Adapter => {
            format!("the configuration does not have the adapter '{}'", call.adapter_id)
        }
        DecidedBy::Offer => "the operation is not offered to the caller".to_owned(),
        DecidedBy::Contract => "the interface contract does not have the operation".to_owned(),
        DecidedBy::Role => "the role of the caller or of the adapter forbids it".to_owned(),
        DecidedBy::Apply => "policy.apply is false".to_owned(),
        DecidedBy::Default => {
            format!("no rule fits, and policy.default is {}", outcome.effect.name())
        }
        DecidedBy::Condition(index) => {
            let failure = failure.unwrap_or("it has no result");
            format!("the condition of {} fails: {failure}", rule_place(policy, index))
        }
        DecidedBy::Rule(index) => {
            let place = rule_place(policy, index);
            let reason = policy.rules().get(index).and_then(|rule| rule.reason.as_deref());
            match reason {
                Some(reason) => format!("{place} decides: {reason}"),
                None => format!("{place} decides"),
            }
        }
    }
}

fn json(policy: &PolicyFile, call: &PolicyCall, explanation: &PolicyExplanation) -> Object {
    let mut answer = match explanation.outcome {
        Some(outcome) => {
            let mut object = outcome_json(policy, outcome);
            let text = reason(policy, call, outcome, explanation.failure.as_deref());
            object.insert("explanation", text);
            object
        }
        None => {
            let mut object = Object::new();
            object.insert("effect", explanation.effect.map(Effect::name));
            let possible =
                explanation.possible.iter().map(|outcome| outcome_json(policy, *outcome).into());
            object.insert("possible", possible.collect::<Vec<Value>>());
            object
        }
    };
    let gaps = explanation.gaps.iter().map(|gap: &Gap| gap.name().into());
    answer.insert("missing", gaps.collect::<Vec<Value>>());
    let skipped = explanation.misses.iter().map(|(index, miss)| {
        let mut object = Object::new();
        let id = policy.rules().get(*index).map(|rule| rule.id_at(*index)).unwrap_or_default();
        object.insert("rule", id.as_ref());
        if let Some(line) = policy.rule_line(*index) {
            object.insert("line", line);
        }
        match miss {
            RuleMiss::Condition => object.insert("key", "when"),
            RuleMiss::Key(key) => object.insert("key", key.name()),
        }
        object.insert("explanation", miss_text(policy, *index, miss));
        Value::Object(object)
    });
    answer.insert("skipped_rules", skipped.collect::<Vec<_>>());
    let not_judged = NOT_JUDGED.map(Value::from).to_vec();
    answer.insert("not_judged", not_judged);
    answer
}

/// Checks of the gate that need a loaded adapter, or the rest of the request.
pub(super) const NOT_JUDGED: [&str; 5] =
    ["catalogue", "capabilities", "argument_schemas", "plan_grants", "secret_bindings"];

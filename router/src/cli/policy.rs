//! `nexus-router policy …`: one call against the policy, and two policies against the recorded calls.

mod call_file;
mod check;
mod diff;

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;
use crate::json::Object;
use crate::policy::history::{PolicyFile, PolicyOutcome};

const CHECK_HELP: &str = "\
Examples:
  nexus-router policy check call.json
  nexus-router policy check - --config-file router.toml --format json

A call is one JSON object:
  {\"adapter\":\"shop\",\"tool\":\"orders\",\"method\":\"buy\",\"args\":{\"amount\":120},
   \"caller\":{\"name\":\"ci\",\"scope\":\"apply\",\"role\":\"envoy\"},\"mode\":\"apply\",\"now\":\"2026-11-16T08:00:00Z\"}
adapter and tool are needed. Without method it is call; without caller it is the command line; without mode it is apply.

No adapter is loaded. The answer covers offers, interface contracts, rules, policy.default, roles and policy.apply. Not
covered are catalogues, capabilities, schemas of arguments, grants of plans and bindings of secrets.

Exits 0 if the call is allowed, 1 if it is denied, 3 if it needs an approval, and 2 if that depends on a loaded adapter.";

const DIFF_HELP: &str = "\
Examples:
  nexus-router policy diff new.toml
  nexus-router policy diff new.toml --config-file router.toml --since 2026-11-01 --format json
  nexus-router policy diff new.toml --fail-on change --strict

Both files are whole configurations. Every recorded call is decided by both, denied ones included, at its recorded time.
The order is deny, approve, allow:
  equal    no effect changes
  narrows  some calls are permitted less, none more
  widens   some calls are permitted more, none less
  mixed    both

Compared are the listed adapters, offers, interface contracts, rules, policy.default, roles and policy.apply. No adapter
is loaded: catalogues, capabilities, schemas, grants of plans and bindings of secrets are not compared. An offered pattern
is compared with the adapter's own name of a tool. Requests of adapters to their sources are not in the record.
A call cannot be judged if the direction depends on something that its record lacks, such as redacted arguments.

Exits 0 if nothing widens, 1 if something does, and 2 if nothing does but a call that cannot be judged may, or events
cannot be read. --fail-on chooses another change; --strict turns 2 into 1.";

/// Verbs about the policy.
#[derive(Subcommand)]
pub(super) enum PolicyCommand {
    /// Decide about one call, and print the rule that decides and why the earlier rules do not.
    #[command(after_help = CHECK_HELP)]
    Check(check::CheckArgs),
    /// Decide about all recorded calls with two policies, and print what changes.
    #[command(after_help = DIFF_HELP)]
    Diff(diff::DiffArgs),
}

pub(super) fn run(command: &PolicyCommand, environment: &Environment) -> Result<Answer, Error> {
    match command {
        PolicyCommand::Check(arguments) => check::run(arguments, environment),
        PolicyCommand::Diff(arguments) => diff::run(arguments, environment),
    }
}

/// Returns a decision for programs.
fn outcome_json(policy: &PolicyFile, outcome: PolicyOutcome) -> Object {
    let mut object = Object::new();
    object.insert("effect", outcome.effect.name());
    object.insert("by", outcome.by.name());
    if let Some(index) = outcome.by.rule()
        && let Some(rule) = policy.rules().get(index)
    {
        object.insert("rule", rule.id_at(index).as_ref());
        if let Some(line) = policy.rule_line(index) {
            object.insert("line", line);
        }
        if let Some(reason) = &rule.reason {
            object.insert("reason", reason.as_str());
        }
    }
    object
}

/// Returns a decision for people.
fn outcome_text(policy: &PolicyFile, outcome: PolicyOutcome) -> String {
    let by = match outcome.by.rule() {
        None => outcome.by.name().to_owned(),
        Some(index) => {
            let id = policy.rules().get(index).map(|rule| rule.id_at(index));
            let condition = match outcome.by {
                crate::policy::history::DecidedBy::Condition(_) => "condition of ",
                _ => "",
            };
            format!("{condition}{}", id.unwrap_or_default())
        }
    };
    format!("{} ({by})", outcome.effect.name())
}

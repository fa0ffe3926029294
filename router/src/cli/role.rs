//! `nexus-router role …`: the frozen roles, shown, exported and asked.

mod decide;
mod export;
mod show;

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;

const EXPORT_HELP: &str = "\
Examples:
  nexus-router role export --format json
  nexus-router role export --format cedar > roles.cedar
  nexus-router role export --format cedar-schema > roles.cedarschema
  nexus-router role export --format rego > roles.rego
  nexus-router role export --format contract | sha256sum

Everything is written from the tables by which this program decides. Give the schema to Cedar with the policy: it refuses
requests that are none.";

const DECIDE_HELP: &str = "\
Examples:
  nexus-router role decide requests.jsonl
  nexus-router role decide -

A request is one line:
  {\"role\":\"envoy\",\"action\":\"shell_exec\",\"plan_authorized\":true,\"policy_gate\":true,\"network_requested\":false}
Exits 0 if all are allowed, 1 if one is not, and 2 if a line is no request.";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Show the roles, the classes of actions that each may carry out, and the conditions.
    Show(show::Arguments),
    /// Write the roles for a policy engine, or the contract.
    #[command(after_help = EXPORT_HELP)]
    Export(export::Arguments),
    /// Decide about requests, one per line.
    #[command(after_help = DECIDE_HELP)]
    Decide(decide::Arguments),
}

pub(super) fn run(verb: &Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Show(arguments) => show::run(arguments, environment),
        Verb::Export(arguments) => export::run(arguments, environment),
        Verb::Decide(arguments) => decide::run(arguments, environment),
    }
}

//! `nexus-router role export`.

use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::json;
use crate::role::{contract_text, export};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// The table and the conditions as data.
    Json,
    /// A Cedar policy.
    Cedar,
    /// The Cedar schema of requests.
    CedarSchema,
    /// A Rego policy: package `nexus_router.role`, rule allow.
    Rego,
    /// The contract in its canonical form, without an end of line: what the contract's digest is of.
    Contract,
}

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// What is written.
    #[arg(long, value_enum)]
    format: Target,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let text = match arguments.format {
        Target::Json => json::to_pretty(&export::json()) + "\n",
        Target::Cedar => export::cedar(),
        Target::CedarSchema => export::cedar_schema(),
        Target::Rego => export::rego(),
        Target::Contract => contract_text().to_owned(),
    };
    Output::new(environment).text(&text)?;
    Ok(Answer::Yes)
}

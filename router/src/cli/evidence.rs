//! `nexus-router evidence …`: sealed executions, listed, shown and verified offline.

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the sealed executions.
    List,
}

#[expect(clippy::unnecessary_wraps, reason = "it is filled in next")]
pub(super) fn run(verb: &Verb, _environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List => Ok(Answer::No),
    }
}

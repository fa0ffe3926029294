//! `nexus-router role …`: the frozen roles, shown and exported.

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Show the roles and the classes of actions that each may carry out.
    Show,
}

#[expect(clippy::unnecessary_wraps, reason = "it is filled in next")]
pub(super) fn run(verb: &Verb, _environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Show => Ok(Answer::No),
    }
}

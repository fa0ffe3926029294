//! `nexus-router contract pins`.

mod check;

use clap::Subcommand;

use super::super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Hold contracts to the pin file: the gate for continuous integration.
    Check(check::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Check(arguments) => check::run(&arguments, environment),
    }
}

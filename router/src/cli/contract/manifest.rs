//! `nexus-router contract manifest`.

mod build;
mod verify;

use clap::Subcommand;

use super::super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Build a manifest of contracts, and sign it.
    Build(build::Arguments),
    /// Verify a manifest: hashes, signatures, collisions.
    Verify(verify::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Build(arguments) => build::run(&arguments, environment),
        Verb::Verify(arguments) => verify::run(&arguments, environment),
    }
}

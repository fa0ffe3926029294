//! `nexus-router contract bundle`.

mod export;
mod text;
mod verify;

use clap::Subcommand;

use super::super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Write the proof bundle of a run.
    Export(export::Arguments),
    /// Verify a proof bundle, offline.
    Verify(verify::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Export(arguments) => export::run(&arguments, environment),
        Verb::Verify(arguments) => verify::run(&arguments, environment),
    }
}

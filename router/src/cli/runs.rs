//! `nexus-router runs …`: the verbs about recorded runs.

mod export;
mod import;
mod list;
mod recover;
mod replay;
mod show;

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List runs, the newest first.
    List(list::Arguments),
    /// Show a run as it went in time.
    Show(show::Arguments),
    /// Read the record of a run again, and report what cannot be true. Exits 1 if something is.
    Replay(replay::Arguments),
    /// Write a run as a bundle, which this router and the Python router import.
    Export(export::Arguments),
    /// Store the run of a bundle: all of it, or nothing. Exits 1 if it is refused.
    Import(import::Arguments),
    /// Take over runs whose process is gone: each goes on, or is ended.
    Recover(recover::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List(arguments) => list::run(&arguments, environment),
        Verb::Show(arguments) => show::run(&arguments, environment),
        Verb::Replay(arguments) => replay::run(&arguments, environment),
        Verb::Export(arguments) => export::run(&arguments, environment),
        Verb::Import(arguments) => import::run(&arguments, environment),
        Verb::Recover(arguments) => recover::run(&arguments, environment),
    }
}

/// Answers that the store has no such run.
fn not_found(run_id: &str) -> Answer {
    super::report(&Error::NotFound { run_id: run_id.to_owned() });
    Answer::No
}

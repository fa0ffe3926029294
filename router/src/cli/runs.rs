//! `nexus-router runs …`: the verbs about recorded runs.

mod export;
mod import;
mod list;
mod recover;
mod replay;
mod show;

use clap::Subcommand;

pub(super) use list::moment;

use super::{Answer, Error};
use crate::config::Environment;

const LIST_HELP: &str = "\
Examples:
  nexus-router runs list
  nexus-router runs list --status FAILED --limit 10 --format json";

const SHOW_HELP: &str = "\
Examples:
  nexus-router runs show RUN_ID
  nexus-router runs show RUN_ID --follow --format json";

const REPLAY_HELP: &str = "\
Examples:
  nexus-router runs replay RUN_ID
  nexus-router runs replay --all";

const EXPORT_HELP: &str = "\
Examples:
  nexus-router runs export RUN_ID > run.json
  nexus-router runs export RUN_ID | nexus-router runs import - --db other.db";

const IMPORT_HELP: &str = "\
Examples:
  nexus-router runs import run.json
  nexus-router runs import run.json --mode new-id";

const RECOVER_HELP: &str = "\
Examples:
  nexus-router runs recover
  nexus-router runs recover --config-file router.toml";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List runs, the newest first.
    #[command(after_help = LIST_HELP)]
    List(list::Arguments),
    /// Show a run as it went in time.
    #[command(after_help = SHOW_HELP)]
    Show(show::Arguments),
    /// Read the record of a run again, and report what cannot be true. Exits 1 if something is.
    #[command(after_help = REPLAY_HELP)]
    Replay(replay::Arguments),
    /// Write a run as a bundle, which this router and the Python router import.
    #[command(after_help = EXPORT_HELP)]
    Export(export::Arguments),
    /// Store the run of a bundle: all of it, or nothing. Exits 1 if it is refused.
    #[command(after_help = IMPORT_HELP)]
    Import(import::Arguments),
    /// Take over runs whose process is gone: each goes on, or is ended.
    #[command(after_help = RECOVER_HELP)]
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

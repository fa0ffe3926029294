//! `nexus-router runs import FILE`.

use super::super::options::StoreOptions;
use super::super::output::{Form, Output, tell};
use super::super::progress::Progress;
use super::super::run::read_input;
use super::super::{Answer, Error};
use crate::bundle::{self, Check, ImportOptions, Imported, Replays};
use crate::clock::Clock;
use crate::config::Environment;
use crate::json::{self, Limits, Value};
use crate::python_text::visible;
use crate::replay::Strictness;
use crate::request::ImportMode;
use crate::store::Replaced;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The bundle, or - for standard input.
    file: String,
    #[command(flatten)]
    store: StoreOptions,
    /// What to do when the store has a run of that id.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// The id to import under, with --mode new-id.
    #[arg(long, value_name = "ID")]
    new_run_id: Option<String>,
    /// Do not compare the digests that the bundle states.
    #[arg(long)]
    no_verify: bool,
    /// Do not replay the run.
    #[arg(long)]
    no_replay: bool,
    /// Refuse a run whose replay finds violations.
    #[arg(long, conflicts_with = "no_replay")]
    strict: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Change nothing.
    #[default]
    Reject,
    /// Import under another id; without a conflict, too.
    NewId,
    /// Replace the run, which is kept in the store's attic.
    Overwrite,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    if arguments.new_run_id.is_some() && arguments.mode != Mode::NewId {
        let hint = "add --mode new-id";
        return Err(Error::usage("--new-run-id needs --mode new-id", hint));
    }
    let app = arguments.store.app(environment)?;
    let mut progress = Progress::new("importing");
    progress.phase("reading the bundle");
    let text = read_input(&arguments.file, Limits::BUNDLE)?;
    let imported = json::parse(&text, Limits::BUNDLE)
        .map_err(bundle::Error::from)
        .map(artifact)
        .map_err(crate::app::Error::from)
        .and_then(|bundle| {
            drop(text);
            progress.phase("importing the run");
            app.import(&bundle, &options(arguments))
        });
    drop(progress);
    let mut output = Output::new(environment);
    let answer = match imported {
        Ok(imported) => {
            match arguments.format {
                Form::Json => output.value(&imported.to_json())?,
                Form::Human => human(&mut output, &imported)?,
            }
            matches!(imported, Imported::Stored { .. })
        }
        // What is wrong with the bundle is the answer; a store that fails has none.
        Err(crate::app::Error::Bundle(error)) => {
            match arguments.format {
                Form::Json => output.value(&error.to_json())?,
                Form::Human => super::super::report(&Error::App(error.into())),
            }
            false
        }
        Err(error) => return Err(error.into()),
    };
    Ok(if answer { Answer::Yes } else { Answer::No })
}

fn options(arguments: &Arguments) -> ImportOptions {
    let mode = match arguments.mode {
        Mode::Reject => ImportMode::RejectOnConflict,
        Mode::NewId => ImportMode::NewRunId,
        Mode::Overwrite => ImportMode::Overwrite,
    };
    let replays = match (arguments.no_replay, arguments.strict) {
        (true, _) => Replays::Never,
        (false, true) => Replays::Refuse,
        (false, false) => Replays::Report,
    };
    ImportOptions {
        mode,
        new_run_id: arguments.new_run_id.clone(),
        check: if arguments.no_verify { Check::Skip } else { Check::Verify },
        replays,
        ..ImportOptions::new(Clock::System.now())
    }
}

/// Takes a bundle out of the response of an export, if it is one.
fn artifact(value: Value) -> Value {
    match value {
        Value::Object(mut response) if response.contains_key("ok") => {
            response.remove("artifact").unwrap_or(Value::Object(response))
        }
        bundle => bundle,
    }
}

fn human(output: &mut Output, imported: &Imported) -> std::io::Result<()> {
    match imported {
        Imported::Stored { run_id, events, taken, replaced, replay } => {
            output.line(&format!("imported run {}: {events} events", visible(run_id)))?;
            if let Some(taken) = taken {
                tell(&format!("hint: run {} was there already", visible(taken)));
            }
            if *replaced == Replaced::Archived {
                tell("hint: the run that was there is in the store's attic");
            }
            if replay.as_ref().is_some_and(|replay| !replay.is_ok(Strictness::Strict)) {
                tell(&format!(
                    "warning: its record has violations; nexus-router runs replay {}",
                    visible(run_id)
                ));
            }
            Ok(())
        }
        Imported::Skipped { existing_run_id, identical } => {
            let existing = visible(existing_run_id);
            let how = if *identical { "is there already" } else { "is there already, and differs" };
            output.line(&format!("skipped: run {existing} {how}"))?;
            tell("hint: --mode new-id imports it under another id, --mode overwrite replaces it");
            Ok(())
        }
    }
}

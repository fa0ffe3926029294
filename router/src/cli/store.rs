//! `nexus-router store …`: the verbs about the store itself.

mod check;

use std::path::PathBuf;

use clap::Subcommand;

use super::options::StoreOptions;
use super::output::{Form, Output, tell};
use super::progress::Progress;
use super::{Answer, Error};
use crate::clock::Clock;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::store::{self, Adoption};
use crate::takeover::{self, Left, Report, Unreadable};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Check the whole store: the file, the hash chains, the numbers. Exits 0 if it is sound, 1 if something is wrong, 2 if
    /// it could not be looked at; standard output always says which, and why.
    Check(check::CheckArguments),
    /// Copy the store to a new file, while others use it.
    Backup(CopyArguments),
    /// Put a copy in the place of the store; what was there is kept under another name.
    Restore(CopyArguments),
    /// Continue a store that was moved, copied or restored by other means; no other copy of it may be in use.
    Adopt(AdoptArguments),
    /// Turn a store of the Python router into one of this program, and keep a copy of the old one.
    TakeOver(TakeOverArguments),
}

#[derive(clap::Args)]
pub(super) struct CopyArguments {
    /// The copy.
    file: PathBuf,
    #[command(flatten)]
    store: StoreOptions,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(super) struct AdoptArguments {
    #[command(flatten)]
    store: StoreOptions,
    /// Continue without a key that is lost: remove the held arguments that the present key cannot decrypt. Runs that need
    /// them fail.
    #[arg(long)]
    without_key: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(super) struct TakeOverArguments {
    #[command(flatten)]
    store: StoreOptions,
    /// Leave runs that JSON cannot say, such as those with NaN, in the copy alone.
    #[arg(long)]
    leave_unreadable: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Check(arguments) => check::check(&arguments, environment),
        Verb::Backup(arguments) => backup(&arguments, environment),
        Verb::Restore(arguments) => restore(&arguments, environment),
        Verb::Adopt(arguments) => adopt(&arguments, environment),
        Verb::TakeOver(arguments) => take_over(&arguments, environment),
    }
}

fn backup(arguments: &CopyArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let mut progress = Progress::new("copying pages");
    store::backup(&app.db()?, &arguments.file, |done, total| progress.tell(done, total))?;
    drop(progress);
    let file = arguments.file.display().to_string();
    done(environment, arguments.format, &[("backup", Some(file))])
}

fn restore(arguments: &CopyArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let mut progress = Progress::new("copying pages");
    let kept =
        store::restore(&arguments.file, &app.db()?, |done, total| progress.tell(done, total))?;
    drop(progress);
    let store = app.db()?.display().to_string();
    let kept = kept.map(|kept| kept.display().to_string());
    done(environment, arguments.format, &[("restored", Some(store)), ("kept", kept)])
}

fn adopt(arguments: &AdoptArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let db = app.db()?;
    let Adoption { store_id, previous_id, moved } = store::adopt(&db)?;
    let forgotten = arguments.without_key.then(|| app.forget_store_key()).transpose()?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => {
            let mut response = Object::new();
            response.insert("ok", true);
            response.insert("moved", moved);
            response.insert("store", db.display().to_string());
            response.insert("store_id", store_id);
            response.insert("previous_id", previous_id);
            if let Some(runs) = forgotten {
                response.insert("runs_without_arguments", runs);
            }
            output.value(&response.into())?;
        }
        Form::Human => {
            let shown = db.display().to_string();
            let verb = if moved { "adopted" } else { "not moved, nothing to adopt:" };
            output.line(&format!("{verb} {}", visible(&shown)))?;
            if let Some(runs) = forgotten {
                output.line(&format!("removed the held arguments of {runs} runs"))?;
                output.line(
                    "deny those that wait for an approval; the others fail when they are recovered",
                )?;
            }
        }
    }
    Ok(Answer::Yes)
}

fn take_over(arguments: &TakeOverArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let unreadable =
        if arguments.leave_unreadable { Unreadable::Leave } else { Unreadable::Refuse };
    let mut progress = Progress::new("taking over runs");
    let taken = takeover::take_over(&app.db()?, unreadable, Clock::System.now(), |done, total| {
        progress.tell(done, total);
    });
    drop(progress);
    if let Err(takeover::Error::Unreadable(left)) = &taken {
        tell_left(left);
    }
    let report = taken.map_err(|error| Error::App(error.into()))?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&taken_json(&report))?,
        Form::Human => {
            tell_left(&report.left);
            let Report { runs, events, backup, .. } = &report;
            output.line(&format!("took over {runs} runs with {events} events"))?;
            output.line(&format!("kept {}", visible(&backup.display().to_string())))?;
        }
    }
    Ok(Answer::Yes)
}

fn tell_left(left: &[Left]) {
    for Left { run_id, reason } in left {
        tell(&format!("cannot take over run {}: {}", visible(run_id), visible(reason)));
    }
}

fn taken_json(report: &Report) -> Value {
    let left = report.left.iter().map(|left| {
        let mut object = Object::new();
        object.insert("run_id", left.run_id.as_str());
        object.insert("reason", left.reason.as_str());
        Value::Object(object)
    });
    let mut response = Object::new();
    response.insert("left", left.collect::<Vec<_>>());
    response.insert("ok", true);
    response.insert("runs", report.runs);
    response.insert("events", report.events);
    response.insert("backup", report.backup.display().to_string());
    response.into()
}

/// Tells which files are where now.
fn done(
    environment: &Environment,
    form: Form,
    files: &[(&str, Option<String>)],
) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    match form {
        Form::Json => {
            let mut response = Object::new();
            response.insert("ok", true);
            for (label, file) in files {
                response.insert(*label, file.clone());
            }
            output.value(&response.into())?;
        }
        Form::Human => {
            for (label, file) in files {
                if let Some(file) = file {
                    output.line(&format!("{label} {}", visible(file)))?;
                }
            }
        }
    }
    Ok(Answer::Yes)
}

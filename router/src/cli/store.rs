//! `nexus-router store …`: the verbs about the store itself.

use std::path::PathBuf;

use clap::Subcommand;

use super::options::StoreOptions;
use super::output::{Form, Output};
use super::progress::Progress;
use super::{Answer, Error};
use crate::check;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::store::{self, Finding, Health};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Check the whole store: the file, the hash chains, the numbers. Exits 1 if something is wrong.
    Check(CheckArguments),
    /// Copy the store to a new file, while others use it.
    Backup(CopyArguments),
    /// Put a copy in the place of the store; what was there is kept under another name.
    Restore(CopyArguments),
}

#[derive(clap::Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    store: StoreOptions,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
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

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Check(arguments) => check(&arguments, environment),
        Verb::Backup(arguments) => backup(&arguments, environment),
        Verb::Restore(arguments) => restore(&arguments, environment),
    }
}

fn check(arguments: &CheckArguments, environment: &Environment) -> Result<Answer, Error> {
    let store = arguments.store.app(environment)?.reader()?;
    let mut progress = Progress::new("checking runs");
    let health = store.check(move |done, total| progress.tell(done, total))?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&as_json(&health))?,
        Form::Human => human(&mut output, &health)?,
    }
    Ok(if health.findings.is_empty() { Answer::Yes } else { Answer::No })
}

fn human(output: &mut Output, health: &Health) -> std::io::Result<()> {
    let sign = output.sign(check::Status::Fail);
    for Finding { run_id, problem } in &health.findings {
        let problem = visible(problem);
        match run_id {
            Some(run_id) => output.line(&format!("{sign} run {}: {problem}", visible(run_id)))?,
            None => output.line(&format!("{sign} {problem}"))?,
        }
    }
    let verdict = if health.findings.is_empty() { "ok" } else { "not ok" };
    let Health { runs, events, findings } = health;
    output.line(&format!("{verdict}: {runs} runs, {events} events, {} findings", findings.len()))
}

fn as_json(health: &Health) -> Value {
    let findings = health.findings.iter().map(|finding| {
        let mut object = Object::new();
        object.insert("run_id", finding.run_id.clone());
        object.insert("problem", finding.problem.as_str());
        Value::Object(object)
    });
    let mut response = Object::new();
    response.insert("findings", findings.collect::<Vec<_>>());
    response.insert("ok", health.findings.is_empty());
    response.insert("runs", health.runs);
    response.insert("events", health.events);
    response.into()
}

fn backup(arguments: &CopyArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let mut progress = Progress::new("copying pages");
    store::backup(app.db()?, &arguments.file, |done, total| progress.tell(done, total))?;
    drop(progress);
    let file = arguments.file.display().to_string();
    done(environment, arguments.format, &[("backup", Some(file))])
}

fn restore(arguments: &CopyArguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let mut progress = Progress::new("copying pages");
    let kept =
        store::restore(&arguments.file, app.db()?, |done, total| progress.tell(done, total))?;
    drop(progress);
    let store = app.db()?.display().to_string();
    let kept = kept.map(|kept| kept.display().to_string());
    done(environment, arguments.format, &[("restored", Some(store)), ("kept", kept)])
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

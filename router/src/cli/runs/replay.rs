//! `nexus-router runs replay ID`, or `--all`.

use std::collections::HashSet;

use super::super::options::StoreOptions;
use super::super::output::{Form, Output};
use super::super::progress::Progress;
use super::super::{Answer, Error};
use crate::check;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::replay::{self, Replay, Strictness, Violation};
use crate::store::{Filter, Status, Store};

/// Runs that are listed at a time.
const PAGE: usize = 1000;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The run.
    #[arg(required_unless_present = "all")]
    run_id: Option<String>,
    /// Replay every run that is over.
    #[arg(long, conflicts_with = "run_id")]
    all: bool,
    #[command(flatten)]
    store: StoreOptions,
    /// Report violations, but do not fail because of them.
    #[arg(long)]
    lenient: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let store = arguments.store.app(environment)?.reader()?;
    let strictness = if arguments.lenient { Strictness::Lenient } else { Strictness::Strict };
    let mut output = Output::new(environment);
    match &arguments.run_id {
        Some(run_id) => one(&mut output, &store, run_id, strictness, arguments.format),
        None => all(&mut output, &store, strictness, arguments.format),
    }
}

fn one(
    output: &mut Output,
    store: &Store,
    run_id: &str,
    strictness: Strictness,
    form: Form,
) -> Result<Answer, Error> {
    let Some(log) = store.log(run_id)? else {
        if form == Form::Human {
            return Ok(super::not_found(run_id));
        }
        output.value(&replay::not_found(run_id))?;
        return Ok(Answer::No);
    };
    let mut progress = Progress::new("replaying events");
    let replay = replay::replay_with(&log, |done, total| progress.tell(done, total));
    drop(progress);
    let ok = replay.is_ok(strictness);
    match form {
        Form::Json => output.value(&replay.to_json(strictness))?,
        Form::Human => {
            human(output, &replay)?;
            let verdict = if ok { "ok" } else { "not ok" };
            output.line(&format!("{verdict}: {}", counted(&replay)))?;
        }
    }
    Ok(if ok { Answer::Yes } else { Answer::No })
}

fn human(output: &mut Output, replay: &Replay) -> std::io::Result<()> {
    let mut list = |status, violations: &[Violation]| {
        let sign = output.sign(status);
        violations
            .iter()
            .try_for_each(|violation| output.line(&format!("{sign} {}", told(violation))))
    };
    list(check::Status::Fail, &replay.violations)?;
    list(check::Status::Warn, &replay.warnings)
}

fn told(violation: &Violation) -> String {
    let Violation { code, message, event } = violation;
    match event {
        Some(event) => format!("{code} at seq {}: {}", event.seq, visible(message)),
        None => format!("{code}: {}", visible(message)),
    }
}

fn counted(replay: &Replay) -> String {
    let plural = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let events = usize::try_from(replay.events).unwrap_or(usize::MAX);
    let mut text = plural(events, "event");
    text.push_str(&format!(", {}", plural(replay.violations.len(), "violation")));
    if !replay.warnings.is_empty() {
        text.push_str(&format!(", {}", plural(replay.warnings.len(), "warning")));
    }
    text
}

/// Replays every run that is over; what goes on has no end yet.
fn all(
    output: &mut Output,
    store: &Store,
    strictness: Strictness,
    form: Form,
) -> Result<Answer, Error> {
    let ids = finished(store)?;
    let total = ids.len() as u64;
    let mut progress = Progress::new("replaying runs");
    let mut failed = Vec::new();
    for (done, run_id) in (1..).zip(&ids) {
        // A run may have been replaced since it was listed.
        let Some(log) = store.log(run_id)? else { continue };
        let replay = replay::replay(&log);
        if !replay.violations.is_empty() {
            failed.push((run_id, replay));
        }
        progress.tell(done, total);
    }
    drop(progress);
    let ok = strictness == Strictness::Lenient || failed.is_empty();
    match form {
        Form::Json => output.value(&all_json(ok, total, &failed))?,
        Form::Human => {
            for (run_id, replay) in &failed {
                output.line(&format!("run {}", visible(run_id)))?;
                human(output, replay)?;
            }
            let verdict = if ok { "ok" } else { "not ok" };
            let runs = if total == 1 { "run" } else { "runs" };
            let with = failed.len();
            output.line(&format!("{verdict}: {total} {runs} replayed, {with} with violations"))?;
        }
    }
    Ok(if ok { Answer::Yes } else { Answer::No })
}

fn all_json(ok: bool, total: u64, failed: &[(&String, Replay)]) -> Value {
    let runs = failed.iter().map(|(run_id, replay)| {
        let mut object = Object::new();
        object.insert("run_id", run_id.as_str());
        object.insert("violations", replay::listed(&replay.violations));
        Value::Object(object)
    });
    let mut response = Object::new();
    response.insert("runs", runs.collect::<Vec<_>>());
    response.insert("ok", ok);
    response.insert("replayed", total);
    response.into()
}

/// Lists every run that is over. A run that is added meanwhile moves others to the next page, where they
/// are met again.
fn finished(store: &Store) -> Result<Vec<String>, Error> {
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    for status in [Status::Completed, Status::Failed] {
        for page in 0.. {
            let offset = page * PAGE;
            let filter = Filter { status: Some(status), limit: PAGE, offset, ..Filter::default() };
            let listed = store.list(&filter)?.runs;
            let count = listed.len();
            let run_ids = listed.into_iter().map(|listed| listed.record.header.run_id);
            ids.extend(run_ids.filter(|run_id| seen.insert(run_id.clone())));
            if count < PAGE {
                break;
            }
        }
    }
    Ok(ids)
}

//! `nexus-router run REQUEST`.

use std::io::Read as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::options::RouterOptions;
use super::output::{Form, Output, tell};
use super::timeline::{self, Bars};
use super::{Answer, Error};
use crate::app::{Absent, Timeline};
use crate::approval::told_grants;
use crate::config::Environment;
use crate::json::Limits;
use crate::loader::{Notice, NoticeSink, log_notices};
use crate::outcome::{Outcome, Waiting};
use crate::python_text::visible;
use crate::request::Request;
use crate::router::{self, How, Recovered, Resumable, Router};
use crate::store::Status;

/// How often a run is asked to end that has not entered its name yet.
const AGAIN: Duration = Duration::from_millis(20);

const EXAMPLES: &str = "\
Examples:
  nexus-router run plan.json --adapter nexus_router_adapter_echo:create_adapter
  nexus-router run plan.json --config-file router.toml --format json
  echo '{\"goal\": \"look around\"}' | nexus-router run -
  nexus-router runs show $(nexus-router run plan.json --id-only)

It exits 0 if the run was completed, 1 if it failed, 2 if there is no answer, and 3 if it waits for an
approval, which `nexus-router approvals approve` gives.

`nexus-router schema nexus-router.run.request.v0.7` prints what a request may say.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The file with the request, or - for standard input.
    request: String,
    #[command(flatten)]
    router: RouterOptions,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Print nothing but the id of the run.
    #[arg(long, conflicts_with = "format")]
    id_only: bool,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    // Everything that may be refused comes before the store, which may have to be made.
    let request = Request::parse(&read_input(&arguments.request, Limits::REQUEST)?)
        .map_err(|error| Error::App(error.into()))?;
    let app = arguments.router.app(environment)?.with_notices(notices());
    let router = app.router(Absent::Create)?;
    let options = || arguments.router.command_options(&app);
    recover(&router, options);
    let answer = interruptible(&router, request)?;
    let mut output = Output::new(environment);
    match (arguments.id_only, known(&answer)) {
        (true, Some(outcome)) => output.line(&outcome.run_id)?,
        _ => told(&mut output, &router, &answer, arguments.format, options)?,
    }
    let outcome = answer.map_err(|error| Error::App(error.into()))?;
    Ok(answered(&outcome))
}

/// Returns what came of a run, also where that is an error.
fn known(answer: &Result<Outcome, router::Error>) -> Option<&Outcome> {
    match answer {
        Ok(outcome) => Some(outcome),
        Err(error) => error.outcome(),
    }
}

/// Writes what came of a run.
pub(super) fn told(
    output: &mut Output,
    router: &Router,
    answer: &Result<Outcome, router::Error>,
    form: Form,
    options: impl Fn() -> String,
) -> std::io::Result<()> {
    let Some(outcome) = known(answer) else { return Ok(()) };
    match form {
        Form::Json => output.value(&router::response(answer))?,
        Form::Human => human(output, router, outcome)?,
    }
    if let Some(waiting) = &outcome.waiting {
        wait(waiting, &options());
    }
    Ok(())
}

/// Returns the answer that a run is.
pub(super) fn answered(outcome: &Outcome) -> Answer {
    match outcome.status {
        Status::Completed => Answer::Yes,
        Status::Failed => Answer::No,
        Status::Running if outcome.waiting.is_some() => Answer::Waits,
        Status::Running => Answer::No,
    }
}

/// Prints what a run waits for, and the commands that decide.
fn wait(waiting: &Waiting, options: &str) {
    let Waiting { approval_id, tool, method, adapter_id, reason, grants, expires_at, .. } = waiting;
    let granted = match grants.as_slice() {
        [] => String::new(),
        grants => format!(", to which the plan grants {}", visible(&told_grants(grants))),
    };
    let why = reason.as_ref().map_or_else(String::new, |why| format!(": {}", visible(why)));
    tell(&format!(
        "it waits until {expires_at} for somebody to approve {}.{} of adapter '{}'{granted}{why}",
        visible(tool),
        visible(method),
        visible(adapter_id)
    ));
    for verb in ["approve", "deny"] {
        tell(&format!("hint: nexus-router approvals {verb} {approval_id}{}", visible(options)));
    }
}

/// Reads a file or standard input, but no more than shows that it is too large.
pub(super) fn read_input(name: &str, limits: Limits) -> Result<Vec<u8>, Error> {
    let limit = u64::try_from(limits.bytes).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = match name {
        "-" => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        file => std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        Error::usage(format!("cannot read {name}: {error}"), "name a file, or - for standard input")
    })?;
    Ok(bytes)
}

/// Shows people what adapters produce for them, and leaves the rest to the log.
fn notices() -> NoticeSink {
    let log = log_notices();
    Arc::new(move |notice| match notice {
        Notice::Output { text, .. } => tell(&format!("output: {}", visible(text.trim_end()))),
        other => log(other),
    })
}

/// Ends runs of processes that are gone and cannot go on. Those that can are somebody else's plans, which
/// are carried out only when they are asked for.
fn recover(router: &Router, options: impl Fn() -> String) {
    match router.store().orphans() {
        Ok(orphans) if orphans.is_empty() => return,
        Ok(_) => {}
        Err(error) => {
            return tracing::warn!(%error, "the store could not be asked for runs left behind");
        }
    }
    let recovered = match router.recover_blocking(Resumable::Leave) {
        Ok(recovered) => recovered,
        Err(error) => return tracing::warn!(%error, "runs left behind could not be ended"),
    };
    for Recovered { run_id, how, .. } in &recovered {
        if let How::Ended { why, .. } = how {
            tell(&format!("ended run {}: {}", visible(run_id), visible(why)));
        }
    }
    let left = recovered.iter().filter(|one| matches!(one.how, How::Left { .. })).count();
    if left > 0 {
        let runs = if left == 1 { "a run was" } else { &format!("{left} runs were") };
        let options = options();
        tell(&format!("{runs} left by a process that is gone"));
        tell(&format!("hint: nexus-router runs recover{}", visible(&options)));
    }
}

/// Carries out a request. The first interrupt ends the run in order, the second this process.
fn interruptible(
    router: &Router,
    request: Request,
) -> Result<Result<Outcome, router::Error>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| router::Error::Threads(error.to_string()));
    let runtime = runtime.map_err(|error| Error::App(error.into()))?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut run = pin!(router.run(request));
        let mut ending = false;
        loop {
            tokio::select! {
                answer = &mut run => return Ok(answer),
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = tokio::time::sleep(AGAIN), if ending => {
                    cancel(router);
                    continue;
                }
            }
            if ending {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL)
                    .map_err(std::io::Error::from)?;
            }
            tell("cancelling the run; interrupt again to kill this process");
            ending = true;
            cancel(router);
        }
    })
}

fn cancel(router: &Router) {
    for run_id in router.live() {
        router.cancel(&run_id);
    }
}

fn human(output: &mut Output, router: &Router, outcome: &Outcome) -> std::io::Result<()> {
    // The record has the times. A store that fails now must not hide what came of the run.
    let log = router.store().log(&outcome.run_id).unwrap_or_else(|error| {
        tracing::warn!(%error, "the record of the run could not be read");
        None
    });
    let Some(log) = log else {
        let dry = if outcome.mode == "dry_run" { "DRY RUN " } else { "" };
        return output.line(&format!("{dry}{} run {}", outcome.status.name(), outcome.run_id));
    };
    let timeline = Timeline::of(&log);
    if timeline.is_dry_run() {
        output.line("DRY RUN: no effects")?;
    }
    for line in timeline::steps(output, &timeline, Bars::Left) {
        output.line(&line)?;
    }
    output.line(&timeline::summary(&timeline))?;
    for line in timeline::forecast(&timeline) {
        output.line(&line)?;
    }
    Ok(())
}

//! `nexus-router approvals approve` and `deny`.

use super::super::output::{Form, Output};
use super::super::reach::{encoded, refused};
use super::super::run::{answered, told};
use super::super::{Answer, Error};
use super::{Door, MAX_ANSWER, PATH, Place};
use crate::app::{Absent, App};
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::router::{self, Decider};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The id of the approval.
    #[arg(value_name = "ID")]
    approval_id: String,
    /// Why; it is recorded.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(
    arguments: &Arguments,
    answer: router::Answer,
    environment: &Environment,
) -> Result<Answer, Error> {
    let Arguments { approval_id, reason, place, format } = arguments;
    let daemon = match place.door(environment)? {
        Door::Daemon(daemon) => daemon,
        Door::Store(app) => return here(arguments, answer, &app, environment),
    };
    let verb = match answer {
        router::Answer::Approve => "approve",
        router::Answer::Deny => "deny",
    };
    let path = format!("{PATH}/{}/{verb}", encoded(approval_id));
    let mut body = Object::new();
    body.insert("reason", reason.as_deref());
    let (status, body) = daemon.post_json(&path, &body.into(), MAX_ANSWER)?;
    let run_id = match (status, body.get("run_id"), body.get("code")) {
        (200, Some(Value::String(run_id)), _) => run_id,
        (400.., _, Some(Value::String(code))) => {
            return Err(refused(&daemon, (code, "admin"), &body));
        }
        _ => return Err(daemon.stranger(&path, status)),
    };
    let mut output = Output::new(environment);
    match format {
        Form::Json => output.value(&body)?,
        Form::Human => {
            let (id, run_id) = (visible(approval_id), visible(run_id));
            output.line(&format!("{}: {id}; run {run_id} goes on", answer.name()))?;
        }
    }
    Ok(Answer::Yes)
}

/// Decides in the store itself, carries the run on in this process, and tells what came of it.
fn here(
    arguments: &Arguments,
    answer: router::Answer,
    app: &App,
    environment: &Environment,
) -> Result<Answer, Error> {
    let Arguments { approval_id, reason, format, .. } = arguments;
    let failed = |error: router::Error| Error::App(error.into());
    app.check_callers_by_file();
    let router = app.router(Absent::Refuse)?;
    // Whoever may write to the store may do so in any name; the user is what the system knows.
    let name = format!("local:{}", rustix::process::getuid().as_raw());
    let decider = Decider { name, token_id: None, admin: true };
    let decided = router.decide_blocking(approval_id, answer, &decider, reason.as_deref());
    let decided = decided.map_err(failed)?;
    let outcome = router.outcome_blocking(decided.run);
    let mut output = Output::new(environment);
    let options = || arguments.place.router.command_options(app);
    told(&mut output, &router, &outcome, *format, options)?;
    let outcome = outcome.map_err(failed)?;
    // Who says no has been heard, whatever becomes of the rest of the plan.
    Ok(match (answer, answered(&outcome)) {
        (router::Answer::Deny, Answer::No) => Answer::Yes,
        (_, answer) => answer,
    })
}

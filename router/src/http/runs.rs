//! Runs: submit, list, show, cancel, replay, export, import.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;

use super::guard::Context;
use super::problem::Problem;
use super::{reply, streamed};
use crate::access::Scope;
use crate::bundle::{self, ImportOptions, Imported, Provenance};
use crate::caller::Caller;
use crate::clock::{Clock, Timestamp};
use crate::inspect;
use crate::json::{Object, Value};
use crate::offload;
use crate::outcome::Outcome;
use crate::replay::{self, Strictness};
use crate::request::{ImportMode, Mode, Request};
use crate::router::{Accepted, Canceller, HeldRetention, Submission};
use crate::store::{Filter, Log, RecordSize, Status, VisibleRuns};

/// The longest time that a caller may ask to wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a caller waits for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// To its end.
    End,
    /// So long.
    For(Duration),
}

/// Carries out the request in the body.
pub(super) async fn submit(mut context: Context) -> Result<Response, Problem> {
    let wait = wait(&context)?;
    let cancels = cancels(&context)?;
    let mut request = context.json().await?;
    add_key(&context, &mut request)?;
    let request = Request::read(request)?.without_interaction()?;
    let outcome = run(&mut context, request, wait, cancels).await?;
    Ok(context.memory.metered(answer(&outcome)))
}

/// Carries out a request in the name of the caller, as far as its scope reaches.
pub(super) async fn carry_out(context: &mut Context, request: Request) -> Result<Outcome, Problem> {
    let cancels = cancels(context)?;
    run(context, request, Wait::End, cancels).await
}

async fn run(
    context: &mut Context,
    request: Request,
    wait: Wait,
    cancels: bool,
) -> Result<Outcome, Problem> {
    if request.mode() == Mode::Apply {
        context.require(Scope::Apply)?;
    }
    if context.service.is_draining() {
        return Err(Problem::draining());
    }
    let mut submission = Submission::from(request).by(caller(context));
    if let Some(trace) = &context.trace {
        submission = submission.traced(*trace);
    }
    if let Some(reservation) = context.body.take_reservation() {
        submission = submission.holding(Arc::new(reservation));
    }
    let router = context.service.router();
    let context = &*context;
    let canceller = cancels.then(|| (submission.canceller(), submission.run_id().to_owned()));
    let mut guard = CancelOnDrop { context, canceller };
    let outcome = match wait {
        Wait::End => router.run(submission).await?,
        Wait::For(time) => match router.accept(submission).await? {
            Accepted::Over(outcome) => *outcome,
            Accepted::UnderWay(mut run) => match tokio::time::timeout(time, run.outcome()).await {
                Ok(outcome) => outcome?,
                Err(_) => match router.progress_of(run.run_id(), Some(&caller(context))).await? {
                    outcome if outcome.status == Status::Running => outcome,
                    // It ended meanwhile; a bug is no answer then either.
                    _ => run.outcome().await?,
                },
            },
        },
    };
    guard.canceller = None;
    offload::step_aside(offload::is_large_outcome(&outcome)).await;
    Ok(outcome)
}

/// Cancels a run whose caller went away, if that was asked for.
struct CancelOnDrop<'a> {
    context: &'a Context,
    canceller: Option<(Canceller, String)>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((canceller, run_id)) = &self.canceller {
            canceller.cancel();
            record_cancelled(self.context, run_id);
        }
    }
}

fn caller(context: &Context) -> Arc<Caller> {
    Arc::clone(&context.bearer.caller)
}

fn answer(outcome: &Outcome) -> Response {
    let status = match outcome.status {
        Status::Running => StatusCode::ACCEPTED,
        Status::Completed | Status::Failed => StatusCode::OK,
    };
    let mut text = String::new();
    outcome.write_compact(&mut text);
    reply::at_run(reply::text(status, "application/json", text), &outcome.run_id)
}

/// Reads how long to wait: from the query, or from the header `Prefer` (RFC 7240).
fn wait(context: &Context) -> Result<Wait, Problem> {
    let seconds = |text: &str| {
        let seconds: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST)
    };
    match context.query("wait") {
        None => {}
        Some("true") => return Ok(Wait::End),
        Some("false") => return Ok(Wait::For(Duration::ZERO)),
        Some(text) => {
            return seconds(text).map(Wait::For).ok_or_else(|| {
                Problem::query("wait must be true, false or a number of seconds up to 3600")
            });
        }
    }
    // A preference that is not understood is passed over, as the RFC wants it.
    let preferences = context.header("prefer").unwrap_or_default().split(',').map(str::trim);
    let mut wait = Wait::End;
    for preference in preferences {
        if preference.eq_ignore_ascii_case("respond-async") && wait == Wait::End {
            wait = Wait::For(Duration::ZERO);
        } else if let Some(time) = preference.strip_prefix("wait=").and_then(seconds) {
            wait = Wait::For(time);
        }
    }
    Ok(wait)
}

fn cancels(context: &Context) -> Result<bool, Problem> {
    match context.query("on_disconnect") {
        None | Some("continue") => Ok(false),
        Some("cancel") => Ok(true),
        Some(_) => Err(Problem::query("on_disconnect must be continue or cancel")),
    }
}

/// Puts the key of the header into a request that has none.
pub(super) fn add_key(context: &Context, request: &mut Value) -> Result<(), Problem> {
    let (Some(key), Value::Object(members)) = (idempotency_key(context)?, request) else {
        return Ok(());
    };
    match members.get("idempotency_key").map(Value::as_str) {
        Some(Some(same)) if same == key => Ok(()),
        Some(_) => Err(Problem::query("Idempotency-Key and idempotency_key differ")),
        None => {
            members.insert("idempotency_key", key);
            Ok(())
        }
    }
}

/// Returns the key of the header.
pub(super) fn idempotency_key(context: &Context) -> Result<Option<&str>, Problem> {
    let Some(header) = context.headers.get("idempotency-key") else { return Ok(None) };
    // As a structured field it stands in quotes; most clients send it plain.
    let key = header.to_str().ok().map(|text| text.trim().trim_matches('"'));
    match key {
        Some(key) if (1..=256).contains(&key.len()) => Ok(Some(key)),
        _ => Err(Problem::query("Idempotency-Key must have 1 to 256 visible characters")),
    }
}

/// Lists runs.
pub(super) async fn list(context: Context) -> Result<Response, Problem> {
    let status = match context.query("status") {
        None => None,
        Some(name) => Some(
            Status::from_name(name)
                .ok_or_else(|| Problem::query("status must be RUNNING, COMPLETED or FAILED"))?,
        ),
    };
    let since = match context.query("since") {
        None => None,
        Some(text) => Some(Timestamp::parse(text).ok_or_else(|| {
            Problem::query("since must be a time such as 2026-07-01T12:00:00Z")
                .hint("in a query, + is written %2B")
        })?),
    };
    let filter = Filter {
        run_id: None,
        status,
        since: since.map(|since| since.to_string()),
        visible: context.bearer.visible_runs(),
        limit: number(&context, "limit", 1..=1000)?.unwrap_or(50),
        offset: number(&context, "offset", 0..=usize::MAX >> 11)?.unwrap_or(0),
    };
    context
        .blocking(move |context| {
            let runs = inspect::inspect(context.service.store(), &filter)?;
            Ok(reply::json(StatusCode::OK, &runs.to_json()))
        })
        .await
}

/// Reads a number of the query.
pub(super) fn number(
    context: &Context,
    name: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, Problem> {
    let Some(text) = context.query(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => {
            let (first, last) = range.into_inner();
            Err(Problem::query(format!("{name} must be a number from {first} to {last}")))
        }
    }
}

fn switch(context: &Context, name: &str, default: bool) -> Result<bool, Problem> {
    match context.query(name) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(Problem::query(format!("{name} must be true or false"))),
    }
}

fn log(context: &Context) -> Result<Log, Problem> {
    let (run_id, visible) = (context.param("run_id"), context.bearer.visible_runs());
    let found = context.service.store().log_visible(run_id, &visible)?;
    found.ok_or_else(|| Problem::no_run(run_id))
}

/// Returns a run as it is recorded; its own caller gets answers that are still held.
pub(super) async fn show(context: Context) -> Result<Response, Problem> {
    match small_record(context, show_small).await? {
        (context, SizedRecord::Small(response)) => Ok(context.memory.metered(response)),
        (context, SizedRecord::Large(size)) => streamed::show(context, size).await,
    }
}

fn show_small(context: &Context) -> Result<Response, Problem> {
    let log = log(context)?;
    let mut outcome = Outcome::of_log(&log);
    // The answer to HEAD has no body, so nothing is fetched.
    if !context.is_head() {
        let (router, caller) = (context.service.router(), Some(&*context.bearer.caller));
        router.restore_answers(&mut outcome, caller, HeldRetention::Remove)?;
    }
    let mut response = outcome.to_json().into_object().unwrap_or_default();
    response.insert("goal", log.record.header.goal.as_str());
    response.insert("created_at", log.record.header.created_at.as_str());
    Ok(reply::json(StatusCode::OK, &response.into()))
}

/// Records up to this size are read at once; larger ones page by page.
const STREAMED: usize = 256 * 1024;

/// Record of a run: the answer about a small one, or the size of a large one.
enum SizedRecord {
    Small(Response),
    Large(RecordSize),
}

/// Answers about the run that a request names, if its record is small.
async fn small_record(
    context: Context,
    answer: impl FnOnce(&Context) -> Result<Response, Problem> + Send + 'static,
) -> Result<(Context, SizedRecord), Problem> {
    context
        .ask_with(|context| {
            let (run_id, visible) = (context.param("run_id"), context.bearer.visible_runs());
            let size = context.service.store().record_size(run_id, &visible)?;
            let size = size.ok_or_else(|| Problem::no_run(run_id))?;
            match size.with_held() {
                0..=STREAMED => answer(context).map(SizedRecord::Small),
                _ => Ok(SizedRecord::Large(size)),
            }
        })
        .await
}

/// Asks a run to end: one's own, or with scope admin any.
pub(super) async fn cancel(context: Context) -> Result<Response, Problem> {
    let run_id = context.param("run_id").to_owned();
    let bearer = &context.bearer;
    let may = |caller: Option<&Caller>| {
        // Two who show no token are not the same for that.
        let token_id = caller.and_then(|caller| caller.token_id.as_ref());
        let is_own = token_id.is_some() && token_id == bearer.caller.token_id.as_ref();
        is_own || bearer.may(Scope::Admin)
    };
    let router = context.service.router();
    let mut cancelled = router.cancel_if(&run_id, may);
    if cancelled.is_none() {
        // It may wait for an approval; then nobody carries it out.
        let name = Some(bearer.caller.name.as_str());
        cancelled = router.cancel_waiting(&run_id, name, may).await?;
    }
    let visible = bearer.visible_runs();
    // A run that the caller does not see is answered like one that does not exist.
    if cancelled == Some(false) && visible == VisibleRuns::All {
        context.require(Scope::Admin)?;
    }
    if cancelled == Some(true) {
        record_cancelled(&context, &run_id);
        let mut answer = Object::new();
        answer.insert("run_id", run_id.as_str());
        answer.insert("cancelling", true);
        return Ok(reply::at_run(reply::json(StatusCode::ACCEPTED, &answer.into()), &run_id));
    }
    context
        .blocking(move |context| {
            let found = context.service.store().find_visible(&run_id, &visible)?;
            let record = found.ok_or_else(|| Problem::no_run(&run_id))?;
            let detail = match record.progress.status {
                Status::Running => format!("run {run_id} is not carried out by this daemon"),
                over => format!("run {run_id} is over: {}", over.name()),
            };
            let problem = Problem::new(StatusCode::CONFLICT, "RUN_NOT_CANCELLABLE", detail);
            Err(problem.with("run_id", run_id.as_str()))
        })
        .await
}

fn record_cancelled(context: &Context, run_id: &str) {
    let mut payload = Object::new();
    payload.insert("run_id", run_id);
    payload.insert("name", context.bearer.caller.name.as_str());
    context.service.audit().record("run.cancelled", payload);
}

/// Reads the record of a run again.
pub(super) async fn replay(context: Context) -> Result<Response, Problem> {
    let strict = switch(&context, "strict", true)?;
    let strictness = if strict { Strictness::Strict } else { Strictness::Lenient };
    let answer = move |context: &Context| {
        let report = replay::replay(&log(context)?);
        Ok(reply::json(StatusCode::OK, &report.to_json(strictness)))
    };
    match small_record(context, answer).await? {
        (context, SizedRecord::Small(response)) => Ok(context.memory.metered(response)),
        (context, SizedRecord::Large(size)) => {
            // The whole record, and the text of its largest answer.
            let reservation = context.memory.wait(size.bytes + size.largest).await?;
            let response = context.blocking(answer).await;
            drop(reservation);
            response
        }
    }
}

/// Returns a run as a bundle.
pub(super) async fn export(context: Context) -> Result<Response, Problem> {
    let included = switch(&context, "provenance", true)?;
    let provenance = if included { Provenance::Include } else { Provenance::Omit };
    let answer = move |context: &Context| {
        let log = log(context)?;
        let service = &context.service;
        let exported = service.app().export(service.store(), &log, provenance)?;
        Ok(reply::text(StatusCode::OK, "application/json", exported.text))
    };
    match small_record(context, answer).await? {
        (context, SizedRecord::Small(response)) => Ok(context.memory.metered(response)),
        (context, SizedRecord::Large(size)) => streamed::export(context, size, provenance).await,
    }
}

/// Stores the run of a bundle.
pub(super) async fn import(mut context: Context) -> Result<Response, Problem> {
    context.memory.weigh_values(&mut context.body)?;
    let mode = context.query("mode").map(|name| {
        ImportMode::from_name(name).ok_or_else(|| {
            Problem::query("mode must be reject_on_conflict, new_run_id or overwrite")
        })
    });
    let mode = mode.transpose()?.unwrap_or_default();
    let new_run_id = context.query("new_run_id").map(str::to_owned);
    if new_run_id.is_some() && mode != ImportMode::NewRunId {
        return Err(Problem::query("new_run_id is for mode=new_run_id"));
    }
    let options = ImportOptions { mode, new_run_id, ..ImportOptions::new(Clock::System.now()) };
    context
        .blocking(move |context| {
            let imported = bundle::import(context.service.store(), &context.body.bytes, &options)
                .map_err(crate::app::Error::from)?;
            if let Imported::Stored { run_id, .. } = &imported {
                let mut payload = Object::new();
                payload.insert("run_id", run_id.as_str());
                payload.insert("mode", mode.name());
                payload.insert("name", context.bearer.caller.name.as_str());
                context.service.audit().record("run.imported", payload);
            }
            Ok(reply::json(StatusCode::OK, &imported.to_json()))
        })
        .await
}

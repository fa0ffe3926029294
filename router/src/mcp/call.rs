//! One call of a caller: made as a run, heard while it is under way, cancelled when the caller is gone.
#![expect(deprecated, reason = "callers of the older era still ask for log lines")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{
    ErrorCode, ErrorData, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::approval_notice::NoticeChannel;
use super::asking::is_stateless;
use super::sessions::Asked;
use super::{Asker, Handler, REFUSED, refused, refused_with};
use crate::access::Scope;
use crate::digest::Digest;
use crate::json::Object;
use crate::listener::Listener;
use crate::loader::Notice;
use crate::offload;
use crate::outcome::Outcome;
use crate::policy::Act;
use crate::request::{Mode, Request};
use crate::router::{Accepted, Canceller, Submission, UnderWay};
use crate::store::Status;
use crate::toolspec::OneCall;

/// The level of a session that wants to hear no log lines.
pub(super) const SILENT: u8 = u8::MAX;
/// What a call tells is kept for so many notices; more are lost if the caller does not take them.
const HEARD: usize = 256;
/// After so long, a call that may take long is a task.
const SOON: Duration = Duration::from_millis(200);
/// How long the last of what a call told may take to be told after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The member of `_meta` by which a caller makes a call only once.
const KEY: &str = "nexus-router/idempotencyKey";

/// A call that is to be made.
pub(super) struct Calling<'a> {
    pub(super) goal: &'a str,
    pub(super) act: Act<'a>,
    pub(super) timeout: Option<Duration>,
    pub(super) args: Object,
    pub(super) interaction: Option<Object>,
    /// The key under which it is made only once.
    pub(super) key: Option<&'a str>,
    /// Whether it may become a task.
    pub(super) following: Following,
}

/// How a caller waits for its call.
pub(super) struct Wait<'a> {
    /// Tells that the caller is gone, or wants the answer no more.
    pub(super) gone: &'a CancellationToken,
    /// Whether it can follow a task.
    can_follow: bool,
    /// What it hears meanwhile.
    ear: Option<Ear<'a>>,
    /// The request of a session that is answered without the library.
    asked: Option<&'a Asked>,
}

impl<'a> Wait<'a> {
    /// Returns how the caller of a request waits.
    pub(super) fn of(handler: &Handler, context: &'a RequestContext<RoleServer>) -> Self {
        Self {
            gone: &context.ct,
            can_follow: can_follow(context),
            ear: Some(Ear::of(handler, context)),
            asked: None,
        }
    }

    /// Returns how somebody waits who wants the answer and nothing else.
    pub(super) const fn silently(gone: &'a CancellationToken, asked: Option<&'a Asked>) -> Self {
        Self { gone, can_follow: false, ear: None, asked }
    }

    /// Returns the way to reach the client while its call waits for a person.
    pub(super) const fn notice_channel(&self) -> NoticeChannel<'_> {
        match (&self.ear, self.asked) {
            (Some(ear), _) => NoticeChannel::Library(ear),
            (None, Some(asked)) => NoticeChannel::Stream(asked),
            (None, None) => NoticeChannel::None,
        }
    }
}

/// Returns the key under which the call of a request is made only once.
pub(super) fn key_of(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.meta.get(KEY).and_then(serde_json::Value::as_str)
}

/// When a call becomes a task, if its caller can follow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// Never: the answer has no such form.
    Never,
    /// When it waits for a person.
    Waiting,
    /// Also when it is not over soon.
    Long,
    /// Like `Long`, but nobody can answer its questions: it is a plan and not one call.
    Plan,
}

/// What came of a call.
pub(super) enum Came {
    /// It is over.
    Over(Box<Outcome>),
    /// It goes on, and can be followed as a task.
    UnderWay(String),
}

impl Handler {
    /// Makes a call.
    pub(super) async fn make(
        &self,
        wait: &Wait<'_>,
        asker: &Asker,
        calling: Calling<'_>,
    ) -> Result<Came, ErrorData> {
        let Calling { goal, act, timeout, args, interaction, key, following } = calling;
        if key.is_some_and(|key| key.starts_with(super::tasks::KEYS)) {
            let message =
                format!("keys that begin with {} are the router's own", super::tasks::KEYS);
            return Err(refused(ErrorCode::INVALID_PARAMS, "REQUEST_INVALID", message));
        }
        // A call that is made again with answers is another one.
        let key = match (key, interaction.as_ref().and_then(|said| said.get("inputs"))) {
            (Some(key), Some(inputs)) => {
                let digest = Digest::of(crate::json::to_canonical(inputs).as_bytes());
                Some(format!("{key}/{digest}"))
            }
            (key, _) => key.map(str::to_owned),
        };
        let call = OneCall { goal, act, timeout, interaction };
        let request = call.request(Mode::Apply, args, key.as_deref()).map_err(|error| {
            refused_with(ErrorCode::INVALID_PARAMS, error.code(), error.to_string(), &error.hint())
        })?;
        self.run(wait, asker, request, following).await
    }

    /// Carries out a run.
    pub(super) async fn run(
        &self,
        wait: &Wait<'_>,
        asker: &Asker,
        request: Request,
        following: Following,
    ) -> Result<Came, ErrorData> {
        if request.mode() == Mode::Apply {
            self.require(asker, Scope::Apply, request.goal())?;
        }
        if self.service().is_draining() {
            return Err(refused(REFUSED, "DRAINING", "the router is about to stop"));
        }
        let has_key = request.idempotency_key().is_some();
        let mut submission = Submission::from(request).by(Arc::clone(&asker.bearer.caller));
        if let Some(trace) = asker.trace {
            submission = submission.traced(trace);
        }
        if let Some(held) = &asker.held {
            submission = submission.holding(Arc::clone(held));
        }
        let mut hearing = None;
        if let Some(ear) = wait.ear.as_ref().filter(|ear| ear.hears()) {
            let (heard, notices) = mpsc::channel(HEARD);
            hearing = Some((ear, notices));
            submission = submission.heard_by(Listener::new(move |notice| {
                // Who does not listen misses something; the call does not wait.
                drop(heard.try_send(notice.clone()));
            }));
        }
        let run_id = submission.run_id().to_owned();
        let mut left =
            Left { handler: self, asker, run_id, canceller: Some(submission.canceller()) };
        let router = self.service().router();
        let follows = matches!(following, Following::Long | Following::Plan) && wait.can_follow;
        let is_task = matches!(following, Following::Waiting | Following::Long) && wait.can_follow;
        if is_task {
            submission = submission.as_task();
        }
        let run = async {
            if !follows {
                return router.run(submission).await.map(Box::new).map(Came::Over);
            }
            match router.accept(submission).await? {
                Accepted::Over(outcome) => Ok(Came::Over(outcome)),
                Accepted::UnderWay(run) => soon(run).await,
            }
        };
        // Beside the run, so that whoever does not read keeps only itself waiting.
        let mut told = hearing.is_none();
        let telling = async {
            let Some((ear, hearing)) = &mut hearing else { return };
            while let Some(notice) = hearing.recv().await {
                ear.tell(&notice).await;
            }
        };
        let (mut run, mut telling) = (pin!(run), pin!(telling));
        let came = loop {
            tokio::select! {
                came = run.as_mut() => break came,
                () = telling.as_mut(), if !told => told = true,
                () = wait.gone.cancelled(), if left.canceller.is_some() => left.cancel(),
            }
        };
        if !told {
            // What was told before the answer is heard before it.
            drop(tokio::time::timeout(LAST_WORDS, telling).await);
        }
        left.canceller = None;
        let is_large =
            matches!(&came, Ok(Came::Over(outcome)) if offload::is_large_outcome(outcome));
        offload::step_aside(is_large).await;
        match came.map_err(|error| self.failed(&error))? {
            // The caller repeats the arguments with its answer, so no task is needed. A run that an idempotency key
            // found may be a task that others follow.
            Came::Over(outcome)
                if is_task && outcome.run_id == left.run_id && ends_with_question(&outcome) =>
            {
                router.remove_held_steps(&outcome.run_id).await;
                Ok(Came::Over(outcome))
            }
            Came::Over(outcome) if outcome.status == Status::Running => {
                // It waits for a person, and is in the store.
                if following != Following::Never && wait.can_follow {
                    return Ok(Came::UnderWay(outcome.run_id));
                }
                let outcome = Box::pin(self.wait_out(wait, asker, outcome, has_key)).await?;
                Ok(Came::Over(outcome))
            }
            came => Ok(came),
        }
    }

    /// Lets pass who has a scope, and records who has not.
    pub(super) fn require(&self, asker: &Asker, scope: Scope, what: &str) -> Result<(), ErrorData> {
        asker.bearer.require(scope).map_err(|denial| {
            let name = Some(asker.bearer.caller.name.as_str());
            self.service().refused(&denial, what, "mcp", name);
            refused_with(REFUSED, denial.code(), denial.to_string(), denial.hint())
        })
    }

    pub(super) fn record_cancelled(&self, asker: &Asker, run_id: &str) {
        let mut payload = Object::new();
        payload.insert("run_id", run_id);
        payload.insert("name", asker.bearer.caller.name.as_str());
        self.service().audit().record("run.cancelled", payload);
    }

    /// Tells why there is no answer.
    pub(super) fn failed(&self, error: &crate::router::Error) -> ErrorData {
        use crate::router::Error;
        let kind = match error {
            Error::Request(_) | Error::KeyTaken { .. } => ErrorCode::INVALID_PARAMS,
            Error::Busy { .. }
            | Error::Unavailable(_)
            | Error::Share(_)
            | Error::Memory(_)
            | Error::Store(_)
            | Error::Unrecorded { .. } => REFUSED,
            _ => ErrorCode::INTERNAL_ERROR,
        };
        let mut data = json!({ "code": error.code(), "hint": error.hint() });
        if let Error::Share(refusal) = error {
            self.service().metrics().refused(refusal.code());
            let milliseconds = refusal.retry_after().as_millis();
            data["retry_after_ms"] = u64::try_from(milliseconds).unwrap_or(u64::MAX).into();
        }
        if let Some(run_id) = error.run_id() {
            data["run_id"] = run_id.into();
        }
        if let Some(steps) = error.steps() {
            data["steps"] = crate::json::Value::from(steps).to_serde();
        }
        ErrorData::new(kind, self.scrubbed(&error.to_string()), Some(data))
    }

    /// Returns a text without secrets.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        match self.service().app().secrets() {
            Ok(secrets) => secrets.scrub(text),
            Err(_) => text.to_owned(),
        }
    }
}

/// Cancels a run that its caller left: by saying so, or by being gone.
struct Left<'a> {
    handler: &'a Handler,
    asker: &'a Asker,
    run_id: String,
    /// Gone when the run is over, or is cancelled.
    canceller: Option<Canceller>,
}

impl Left<'_> {
    fn cancel(&mut self) {
        if let Some(canceller) = self.canceller.take() {
            canceller.cancel();
            self.handler.record_cancelled(self.asker, &self.run_id);
        }
    }
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Returns whether a call ended with a question to its caller.
fn ends_with_question(outcome: &Outcome) -> bool {
    let error = outcome.results.first().and_then(|result| result.error.as_ref());
    error.is_some_and(|error| error.code == nexus_router_sdk::code::INPUT_REQUIRED)
}

/// Waits a moment for the end of a run that may take long.
async fn soon(mut run: UnderWay) -> Result<Came, crate::router::Error> {
    match tokio::time::timeout(SOON, run.outcome()).await {
        Ok(Ok(outcome)) if outcome.status != Status::Running => Ok(Came::Over(Box::new(outcome))),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => Ok(Came::UnderWay(run.run_id().to_owned())),
    }
}

/// Says whether the caller can follow tasks. The older era has no word for them.
fn can_follow(context: &RequestContext<RoleServer>) -> bool {
    is_stateless(context)
        && context.client_capabilities().is_some_and(|client| client.supports_tasks())
}

/// What a caller wants to hear of a call under way.
pub(super) struct Ear<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) token: Option<ProgressToken>,
    /// The least level of log lines.
    pub(super) level: u8,
    /// The bits of the last progress value, which must grow.
    progress: AtomicU64,
}

impl<'a> Ear<'a> {
    fn of(handler: &Handler, context: &'a RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let asked = context.meta.log_level().map(weight);
        let level = asked.unwrap_or_else(|| handler.level.load(Ordering::Relaxed));
        Self { context, token, level, progress: AtomicU64::new(0) }
    }

    /// Returns a progress value that is larger than all before.
    pub(super) fn next_progress(&self) -> f64 {
        let next = f64::from_bits(self.progress.load(Ordering::Relaxed)) + 1.0;
        self.progress.store(next.to_bits(), Ordering::Relaxed);
        next
    }

    const fn hears(&self) -> bool {
        self.token.is_some() || self.level != SILENT
    }

    /// Passes a notice on. One that cannot be told is lost: the answer comes, or the caller is gone.
    async fn tell(&self, notice: &Notice) {
        let peer = &self.context.peer;
        let told = match (notice, &self.token) {
            (Notice::Progress { done, total, message, .. }, Some(token)) => {
                self.progress.store(done.to_bits(), Ordering::Relaxed);
                let mut progress = ProgressNotificationParam::new(token.clone(), *done);
                progress.total = *total;
                progress.message = Some(message.clone()).filter(|message| !message.is_empty());
                peer.notify_progress(progress).await
            }
            (Notice::Log { level, message, fields, .. }, _) => {
                let level = level_of(level);
                if self.level == SILENT || weight(level) < self.level {
                    return;
                }
                let data = match fields.is_empty() {
                    true => json!(message),
                    false => json!({ "message": message, "fields": fields }),
                };
                peer.notify_logging_message(LoggingMessageNotificationParam::new(level, data)).await
            }
            _ => return,
        };
        if let Err(error) = told {
            tracing::debug!(%error, "a caller was not told how its call goes on");
        }
    }
}

fn level_of(name: &str) -> LoggingLevel {
    match name {
        "error" => LoggingLevel::Error,
        "warn" => LoggingLevel::Warning,
        "info" => LoggingLevel::Info,
        _ => LoggingLevel::Debug,
    }
}

/// Returns how much a level matters.
pub(super) const fn weight(level: LoggingLevel) -> u8 {
    level as u8
}

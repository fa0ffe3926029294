//! What a client is told when there is no answer: RFC 9457, with the stable codes.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use crate::access::Denial;
use crate::budget::Shortage;
use crate::json::{self, Object, Value};
use crate::offload;
use crate::registry::Unavailability;
use crate::router::{Error as RouterError, Refusal, ShareRefusal};
use crate::secret::Secrets;
use crate::service::StreamRefusal;
use crate::store::Error as StoreError;
use crate::{app, code, request, service};

/// The media type of problems.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// After so long, somebody may have loaded an adapter that failed.
const FAILED_RETRY: Duration = Duration::from_secs(60);

/// Refusals that are counted and not recorded: they say nothing about who asked.
const REFUSALS: [&str; 9] = [
    "BODY_TOO_LARGE",
    "JSON_TOO_LARGE",
    "JSON_TOO_MANY_VALUES",
    "BODY_TIMEOUT",
    "OVERLOADED",
    "MEMORY_SHARE_USED",
    "ROUTER_BUSY",
    "DRAINING",
    Unavailability::CODE,
];

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: String,
    detail: String,
    hint: String,
    retry_after: Option<Duration>,
    /// What else is told: the pointer, the run, what came of it.
    more: Object,
}

impl Problem {
    /// Makes a problem whose remedy stands in the table of codes.
    pub(super) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let hint = code::find(code).next().map(|known| known.remedy.to_owned());
        Self {
            status,
            code: code.to_owned(),
            detail: detail.into(),
            hint: hint.unwrap_or_default(),
            retry_after: None,
            more: Object::new(),
        }
    }

    /// Says that there is no such run.
    pub(super) fn no_run(run_id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "RUN_NOT_FOUND", format!("there is no run {run_id}"))
    }

    /// Says that a query or a header is not understood.
    pub(super) fn query(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "HTTP_QUERY_INVALID", detail)
    }

    /// Says that it is too much at present.
    pub(super) fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail)
            .retry_after(Duration::from_secs(1))
    }

    /// Reports that the memory budget has no room.
    pub(super) fn no_memory(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Share => Self::share_used(shortage.to_string()),
            Shortage::Total => Self::overloaded(shortage.to_string()),
        }
    }

    /// Reports that a token uses its own share.
    pub(super) fn share_used(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "MEMORY_SHARE_USED", detail)
            .retry_after(Duration::from_secs(1))
    }

    /// Reports an adapter that is being loaded, or failed to load.
    pub(super) fn unavailable(unavailable: &Unavailability) -> Self {
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Unavailability::CODE,
            unavailable.to_string(),
        );
        let problem = problem.hint(unavailable.hint());
        match unavailable.is_loading() {
            true => problem.retry_after(Duration::from_secs(1)),
            false => problem.retry_after(FAILED_RETRY),
        }
    }

    /// Says that nothing new is taken.
    pub(super) fn draining() -> Self {
        let detail = "the daemon finishes its runs and stops";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "DRAINING", detail)
            .retry_after(Duration::from_secs(5))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(super) fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key, value);
        self
    }

    /// Returns whether redaction takes long.
    pub(super) fn is_large(&self) -> bool {
        self.detail.len() >= offload::LARGE
    }

    /// Redacts the detail: a caller may have sent a secret where it does not belong. The hint is the router's own
    /// text, so only exact values of known secrets are replaced in it.
    pub(super) fn without(mut self, secrets: &Secrets) -> Self {
        self.detail = secrets.scrub(&self.detail);
        self.hint = secrets.without_known(&self.hint);
        // A pointer holds keys of the caller.
        if let Some(pointer) = self.more.get("pointer").and_then(Value::as_str) {
            let pointer = secrets.scrub(pointer);
            self.more.insert("pointer", pointer);
        }
        self
    }

    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(6);
        // An adapter may have codes of its own, which are explained nowhere.
        let known = code::find(&self.code).next().is_some();
        let kind =
            if known { format!("/v1/codes/{}", self.code) } else { "about:blank".to_owned() };
        object.insert("type", kind);
        object.insert("title", self.status.canonical_reason().unwrap_or("Error"));
        object.insert("status", u64::from(self.status.as_u16()));
        object.insert("detail", self.detail.as_str());
        object.insert("code", self.code.as_str());
        if !self.hint.is_empty() {
            object.insert("hint", self.hint.as_str());
        }
        for (key, value) in self.more.iter() {
            object.insert(key, value.clone());
        }
        object.into()
    }

    /// Returns the code of a request that was not worked on because it was, or there was, too much.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        let shares = ShareRefusal::TABLE.iter().map(|(code, ..)| *code);
        REFUSALS.into_iter().chain(shares).find(|code| *code == self.code)
    }

    /// Returns the body.
    pub(super) fn text(&self) -> String {
        json::to_compact(&self.to_json())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.text();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(time) = self.retry_after {
            // In whole seconds, and never too early.
            let seconds = time.as_millis().div_ceil(1000).max(1);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                headers.insert(RETRY_AFTER, value);
            }
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"nexus-router\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<&Denial> for Problem {
    fn from(denial: &Denial) -> Self {
        let status = match denial {
            Denial::TokenMissing | Denial::TokenInvalid(_) => StatusCode::UNAUTHORIZED,
            Denial::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Denial::ScopeMissing { .. } | Denial::Origin(_) => StatusCode::FORBIDDEN,
        };
        let problem = Self::new(status, denial.code(), denial.to_string());
        match denial {
            Denial::RateLimited { retry_after } => problem.retry_after(*retry_after),
            _ => problem,
        }
    }
}

impl From<StreamRefusal> for Problem {
    fn from(refusal: StreamRefusal) -> Self {
        match refusal {
            StreamRefusal::Overloaded => Self::overloaded("the limit of event streams is reached"),
            StreamRefusal::Share(refusal) => refusal.into(),
        }
    }
}

impl From<ShareRefusal> for Problem {
    fn from(refusal: ShareRefusal) -> Self {
        RouterError::from(refusal).into()
    }
}

impl From<request::Error> for Problem {
    fn from(error: request::Error) -> Self {
        app::Error::from(error).into()
    }
}

impl From<RouterError> for Problem {
    fn from(error: RouterError) -> Self {
        app::Error::from(error).into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        app::Error::from(error).into()
    }
}

impl From<app::Error> for Problem {
    fn from(error: app::Error) -> Self {
        let status = status_of(&error);
        let problem = Self::new(status, error.code(), app::full_text(&error)).hint(error.hint());
        let problem = match error.pointer() {
            Some(pointer) => problem.with("pointer", pointer),
            None => problem,
        };
        let problem = match status {
            StatusCode::SERVICE_UNAVAILABLE => problem.retry_after(Duration::from_secs(1)),
            _ => problem,
        };
        let app::Error::Router(error) = &error else { return problem };
        match error {
            RouterError::Share(refusal) => return problem.retry_after(refusal.retry_after()),
            RouterError::Memory(shortage) => return Self::no_memory(*shortage),
            RouterError::Unavailable(unavailable) => return Self::unavailable(unavailable),
            _ => {}
        }
        let problem = match error.run_id() {
            Some(run_id) => problem.with("run_id", run_id),
            None => problem,
        };
        let problem = match error.steps() {
            Some(steps) => problem.with("steps", steps),
            None => problem,
        };
        match error.outcome() {
            Some(outcome) => problem.with("run", outcome.to_json()),
            None => problem,
        }
    }
}

impl From<service::Error> for Problem {
    fn from(error: service::Error) -> Self {
        match error {
            service::Error::App(error) => error.into(),
            other => Self::new(StatusCode::UNPROCESSABLE_ENTITY, other.code(), other.full_text())
                .hint(other.hint()),
        }
    }
}

fn status_of(error: &app::Error) -> StatusCode {
    match error {
        app::Error::Request(error) | app::Error::Router(RouterError::Request(error)) => {
            // Text that is no JSON is one thing, JSON that asks for nonsense another.
            match error.code() {
                "JSON_TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
                request::Error::CODE => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::BAD_REQUEST,
            }
        }
        app::Error::Router(RouterError::KeyTaken { .. })
        | app::Error::Tool { .. }
        | app::Error::Bundle(_)
        | app::Error::Load(_)
        | app::Error::Registry(_)
        | app::Error::ToolSpec(_)
        | app::Error::Secret { .. }
        | app::Error::Config(_)
        | app::Error::Misplaced { .. }
        | app::Error::UnknownContract { .. }
        | app::Error::UnknownSignal { .. }
        | app::Error::Source { .. }
        | app::Error::Signals { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        app::Error::UnknownTool { .. } => StatusCode::NOT_FOUND,
        app::Error::Router(RouterError::Refused(refusal)) => match refusal {
            Refusal::Unknown { .. } => StatusCode::NOT_FOUND,
            Refusal::AlreadyDecided { .. }
            | Refusal::Expired { .. }
            | Refusal::CallerGone { .. }
            | Refusal::NotExecutable { .. } => StatusCode::CONFLICT,
            Refusal::OwnCall { .. } | Refusal::NotYours { .. } => StatusCode::FORBIDDEN,
            Refusal::ReasonTooLong { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        },
        app::Error::Router(RouterError::Share(_)) => StatusCode::TOO_MANY_REQUESTS,
        app::Error::Router(RouterError::Busy { .. } | RouterError::Unavailable(_))
        | app::Error::Overloaded(_) => StatusCode::SERVICE_UNAVAILABLE,
        app::Error::Router(RouterError::Bug { .. }) => StatusCode::BAD_GATEWAY,
        app::Error::Store(error) | app::Error::Router(RouterError::Store(error))
            if error.is_passing() =>
        {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

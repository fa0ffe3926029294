//! How a call can fail, as the caller is told. No text here repeats a header, a password or a query.

use std::io;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, CallContext, code, redact};
use serde_json::{Number, json};
use ureq::Error;

use crate::dial::Unreached;

/// A redirect leads to a host that is not in `allowed_hosts`.
pub(crate) const HOST_NOT_ALLOWED: &str = "HOST_NOT_ALLOWED";

/// The codes that calls end with, as the manifest lists them.
pub(crate) const CODES: &[&str] = &[
    code::TIMEOUT,
    code::CONNECTION_FAILED,
    code::HTTP_ERROR,
    code::INVALID_JSON,
    code::INVALID_ARGUMENT,
    code::OUTPUT_TOO_LARGE,
    HOST_NOT_ALLOWED,
    code::CANCELLED,
];

/// The time that a call may take.
pub(crate) struct Limit<'a> {
    ends: Option<Instant>,
    timeout: Duration,
    timeout_s: &'a Number,
    by_deadline: bool,
}

impl<'a> Limit<'a> {
    /// Starts the time: what the configuration says, or less if the host waits less.
    pub(crate) fn start(timeout: Duration, timeout_s: &'a Number, context: &CallContext) -> Self {
        let granted = context.remaining(timeout);
        Self {
            ends: Instant::now().checked_add(granted),
            timeout,
            timeout_s,
            by_deadline: granted < timeout,
        }
    }

    /// Returns the time that is left; zero when there is none.
    pub(crate) fn left(&self) -> Duration {
        self.ends.map_or(self.timeout, |ends| ends.saturating_duration_since(Instant::now()))
    }

    /// Says that the time is over.
    pub(crate) fn exceeded(&self, url: &str) -> AdapterError {
        let seconds = self.timeout_s;
        let message = if self.by_deadline {
            format!(
                "HTTP request met the deadline of the call before its own timeout of {seconds}s"
            )
        } else {
            format!("HTTP request timed out after {seconds}s")
        };
        AdapterError::operational(code::TIMEOUT, message)
            .details(json!({ "url": url, "timeout_s": seconds }))
    }
}

/// Says that the caller gave up.
pub(crate) fn cancelled(url: &str) -> AdapterError {
    AdapterError::operational(code::CANCELLED, "the call was cancelled")
        .details(json!({ "url": url }))
}

/// Says that the request or the response did not get through.
pub(crate) fn transport(error: &Error, url: &str, limit: &Limit<'_>) -> AdapterError {
    match error {
        Error::Timeout(_) => limit.exceeded(url),
        Error::Other(cause) if cause.is::<Unreached>() => unreached(&cause.to_string(), url),
        Error::Io(cause) if cause.kind() == io::ErrorKind::NotConnected => {
            unreached("the adapter was shut down", url)
        }
        Error::Io(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            broken("server closed the connection before the response was complete", url)
        }
        Error::Io(cause) => broken(&cause.to_string(), url),
        other => broken(&other.to_string(), url),
    }
}

/// Adds to a failure behind redirects that the server before it may have carried out the call.
pub(crate) fn after_redirects(mut error: AdapterError, followed: usize) -> AdapterError {
    if followed > 0 {
        error.details.insert("may_have_been_carried_out".to_owned(), true.into());
    }
    error
}

fn unreached(cause: &str, url: &str) -> AdapterError {
    AdapterError::operational(code::CONNECTION_FAILED, format!("Failed to connect to {url}"))
        .details(json!({ "url": url, "error": redact::text(cause) }))
}

fn broken(cause: &str, url: &str) -> AdapterError {
    let cause = redact::text(cause);
    AdapterError::operational(code::HTTP_ERROR, format!("HTTP error: {cause}"))
        .details(json!({ "url": url, "error": cause }))
}

/// A response that is not what was asked for, with what is known of it.
pub(crate) struct Refusal<'a> {
    pub(crate) url: &'a str,
    pub(crate) status: u16,
    pub(crate) reason: &'a str,
    /// Seconds that the server wants to be left alone.
    pub(crate) retry_after: Option<u64>,
}

impl Refusal<'_> {
    /// Says that the status is an error.
    pub(crate) fn status(&self) -> AdapterError {
        let error = self.error("");
        match self.retry_after {
            Some(seconds) => error.details(json!({ "retry_after": seconds })),
            None => error,
        }
    }

    /// Says that a redirect was not followed.
    pub(crate) fn redirect(&self, why: &str, host: Option<&str>) -> AdapterError {
        self.error(&format!(" ({why})")).details(json!({ "location_host": host }))
    }

    fn error(&self, remark: &str) -> AdapterError {
        let Self { url, status, reason, .. } = self;
        AdapterError::operational(code::HTTP_ERROR, format!("HTTP {status}: {reason}{remark}"))
            .details(json!({ "url": url, "status_code": status, "reason": reason }))
    }
}

/// Says that a redirect leads to a host that may not be reached.
pub(crate) fn host_not_allowed(url: &str, host: &str) -> AdapterError {
    AdapterError::operational(
        HOST_NOT_ALLOWED,
        format!("redirect leads to {host}, which is not in allowed_hosts"),
    )
    .details(json!({ "url": url, "location_host": host }))
}

/// Says that the body is larger than allowed.
pub(crate) fn too_large(url: &str, status: u16, max_response_bytes: u64) -> AdapterError {
    AdapterError::operational(
        code::OUTPUT_TOO_LARGE,
        format!("Response is larger than {max_response_bytes} bytes"),
    )
    .details(json!({
        "url": url, "status_code": status, "max_response_bytes": max_response_bytes
    }))
}

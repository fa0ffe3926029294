//! Meaning of a failed call: whether the service failed, whether anything was done, when to ask again.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, ErrorKind, code};

use crate::breaker::ServiceOutcome;
use crate::policy::KeptOperation;

/// The code of a call whose worker crashed.
const CRASHED: &str = "ADAPTER_CRASHED";
/// The code of a call that found no worker.
const UNAVAILABLE: &str = "ADAPTER_UNAVAILABLE";
/// The code of a service that is there and does not work.
const SERVICE_UNAVAILABLE: &str = "SERVICE_UNAVAILABLE";
/// The code of a service that takes no more requests for a while.
const RATE_LIMITED: &str = "RATE_LIMITED";
/// The longest time that a service is believed to want as a pause.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// Returns what an answer says about the service. `is_narrowed` tells that the caller gave the call less time than usual:
/// its timeout says nothing, or callers could open circuits.
pub(super) fn service_outcome<T>(
    answer: &Result<T, AdapterError>,
    is_narrowed: bool,
) -> ServiceOutcome<'_> {
    let Err(error) = answer else { return ServiceOutcome::Answered };
    if was_not_called(error) {
        return ServiceOutcome::Unknown;
    }
    match error.code.as_str() {
        code::TIMEOUT if is_narrowed => ServiceOutcome::Unknown,
        code::CANCELLED => ServiceOutcome::Unknown,
        code::TIMEOUT | code::CONNECTION_FAILED | CRASHED | SERVICE_UNAVAILABLE => {
            ServiceOutcome::Failed(&error.code)
        }
        // Without a status, the connection broke.
        code::HTTP_ERROR if status(error).is_none_or(|status| status >= 500) => {
            ServiceOutcome::Failed(&error.code)
        }
        _ => ServiceOutcome::Answered,
    }
}

/// Reports whether a call may be made again after this failure: the failure may pass, and either two equal calls do what
/// one does, or the first one did nothing.
pub(crate) fn is_retryable(error: &AdapterError, operation: &KeptOperation) -> bool {
    if error.kind == ErrorKind::Bug {
        return false;
    }
    if was_not_called(error) {
        // Other refusals hold for longer than a retry waits.
        return error.code == UNAVAILABLE && retry_after(error).is_some();
    }
    let declares = |code: &str| operation.failure_codes.contains(code);
    match error.code.as_str() {
        // By their meaning, nothing was done; a contract that lists them says that it keeps to the meaning.
        code @ (code::CONNECTION_FAILED | RATE_LIMITED) => {
            operation.may_be_repeated() || (declares(code) && !may_have_done(error))
        }
        code::TIMEOUT | SERVICE_UNAVAILABLE => operation.may_be_repeated(),
        code::HTTP_ERROR => {
            operation.may_be_repeated()
                && status(error).is_none_or(|status| matches!(status, 408 | 425 | 429 | 502..=504))
        }
        _ => false,
    }
}

/// Returns how long the service wants to be left alone: `retry_after_ms` or `retry_in_ms`, or `retry_after` in seconds.
pub(crate) fn retry_after(error: &AdapterError) -> Option<Duration> {
    let number = |key: &str| {
        let value = error.details.get(key)?;
        value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
    };
    let seconds = match number("retry_after_ms").or_else(|| number("retry_in_ms")) {
        Some(milliseconds) => milliseconds / 1000.0,
        None => number("retry_after")?,
    };
    if seconds.is_nan() || seconds < 0.0 {
        return None;
    }
    Some(Duration::from_secs_f64(seconds.min(MAX_RETRY_AFTER.as_secs_f64())))
}

/// Reports whether the router or the adapter says that nothing was called.
fn was_not_called(error: &AdapterError) -> bool {
    error.details.get("called").and_then(serde_json::Value::as_bool) == Some(false)
}

/// Reports whether the adapter says that the request may have got through before the connection broke.
fn may_have_done(error: &AdapterError) -> bool {
    let said = error.details.get("may_have_been_carried_out");
    said.is_some_and(|said| said.as_bool() != Some(false))
}

/// Returns the HTTP status in the details of an error.
fn status(error: &AdapterError) -> Option<u64> {
    ["status_code", "status"].into_iter().find_map(|key| error.details.get(key)?.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::policy::Keeping;
    use serde_json::{Value, json};

    fn error(code: &str, details: Value) -> AdapterError {
        AdapterError::operational(code, "failed").details(details)
    }

    fn outcome(code: &str, details: Value, is_narrowed: bool) -> &'static str {
        match service_outcome::<()>(&Err(error(code, details)), is_narrowed) {
            ServiceOutcome::Answered => "answered",
            ServiceOutcome::Failed(_) => "failed",
            ServiceOutcome::Unknown => "unknown",
        }
    }

    #[test]
    fn only_failures_of_the_service_count() {
        assert_eq!(service_outcome(&Ok(()), false), ServiceOutcome::Answered);
        for (code, details, expected) in [
            ("TIMEOUT", json!({}), "failed"),
            ("CONNECTION_FAILED", json!({}), "failed"),
            ("ADAPTER_CRASHED", json!({}), "failed"),
            ("SERVICE_UNAVAILABLE", json!({}), "failed"),
            ("HTTP_ERROR", json!({ "status_code": 500 }), "failed"),
            ("HTTP_ERROR", json!({ "status": 503 }), "failed"),
            ("HTTP_ERROR", json!({ "error": "connection reset" }), "failed"),
            ("HTTP_ERROR", json!({ "status_code": 404 }), "answered"),
            ("RATE_LIMITED", json!({}), "answered"),
            ("BAD_REQUEST", json!({}), "answered"),
            ("CANCELLED", json!({}), "unknown"),
            ("ADAPTER_QUARANTINED", json!({ "called": false }), "unknown"),
            ("TIMEOUT", json!({ "called": false }), "unknown"),
        ] {
            assert_eq!(outcome(code, details, false), expected, "{code}");
        }
        assert_eq!(outcome("TIMEOUT", json!({}), true), "unknown");
        assert_eq!(outcome("CONNECTION_FAILED", json!({}), true), "failed");
    }

    fn retried(idempotent: bool, modes: &[&str], error: &AdapterError) -> bool {
        let modes: Vec<Value> = modes
            .iter()
            .map(|code| json!({ "code": code, "severity": "error", "halts": true }))
            .collect();
        let contract = json!({
            "format": "nexus-router.interface/1", "adapter_id": "shop", "version": "1.0.0",
            "description": "A shop.", "operations": { "buy": {
                "description": "Buys.", "input_schema": { "type": "object" },
                "output_schema": { "type": "object" }, "timeout_ms": 1000,
                "idempotent": idempotent, "read_only": false, "failure_modes": modes,
                "retry": { "attempts": 2, "base_ms": 1, "max_ms": 1 }, "examples": [],
            } },
        });
        let contract = Interface::read(contract.to_string().as_bytes()).unwrap();
        let keeping = Keeping::of(&contract).unwrap();
        is_retryable(error, keeping.operation("shop", "buy").unwrap())
    }

    #[test]
    fn calls_are_retried_when_repeating_does_no_harm() {
        let both = |modes: &[&str], error: AdapterError| {
            (retried(true, modes, &error), retried(false, modes, &error))
        };
        let plain = |code: &str| error(code, json!({}));
        let http = |status: u16| error("HTTP_ERROR", json!({ "status_code": status }));
        assert_eq!(both(&[], plain("TIMEOUT")), (true, false));
        assert_eq!(both(&["TIMEOUT"], plain("TIMEOUT")), (true, false));
        assert_eq!(both(&[], plain("CONNECTION_FAILED")), (true, false));
        // What a contract lists, it means.
        assert_eq!(both(&["CONNECTION_FAILED"], plain("CONNECTION_FAILED")), (true, true));
        let sent =
            |sent: bool| error("CONNECTION_FAILED", json!({ "may_have_been_carried_out": sent }));
        assert_eq!(both(&["CONNECTION_FAILED"], sent(false)), (true, true));
        assert_eq!(both(&["CONNECTION_FAILED"], sent(true)), (true, false));
        assert_eq!(both(&["RATE_LIMITED"], plain("RATE_LIMITED")), (true, true));
        assert_eq!(both(&[], http(503)), (true, false));
        assert_eq!(both(&[], http(429)), (true, false));
        for never in [http(500), http(404), plain("BAD_REQUEST"), plain("CANCELLED")] {
            assert_eq!(both(&[], never), (false, false));
        }
        assert_eq!(both(&[], AdapterError::bug_with_code("TIMEOUT", "a bug")), (false, false));
        let pausing = json!({ "called": false, "retry_after_ms": 100 });
        assert_eq!(both(&[], error("ADAPTER_UNAVAILABLE", pausing)), (true, true));
        let gone = json!({ "called": false });
        assert_eq!(both(&[], error("ADAPTER_UNAVAILABLE", gone)), (false, false));
    }

    #[test]
    fn retry_after_is_read_in_its_forms() {
        let read = |details: Value| retry_after(&error("RATE_LIMITED", details));
        assert_eq!(read(json!({ "retry_after": 2 })), Some(Duration::from_secs(2)));
        assert_eq!(read(json!({ "retry_after": "0.5" })), Some(Duration::from_millis(500)));
        assert_eq!(
            read(json!({ "retry_after_ms": 70, "retry_after": 9 })),
            Some(Duration::from_millis(70))
        );
        for none in
            [json!({}), json!({ "retry_after": -1 }), json!({ "retry_after": "Fri, 31 Dec" })]
        {
            assert_eq!(read(none), None);
        }
        assert_eq!(read(json!({ "retry_after": 1e300 })), Some(MAX_RETRY_AFTER));
    }
}

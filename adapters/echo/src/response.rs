//! The configured responses: how an entry is read, which calls it answers, and what it does.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, Object, code, redact};
use serde_json::{Value, json};

/// The name that stands for every tool or every method.
const ANY: &str = "*";

const ENTRY_HINT: &str = "an entry has tool, method, optionally delay_ms, and exactly one of \
                          return, operational_error, bug_error, panic";
const ERROR_HINT: &str = "a configured error has message, error_code and optionally details; the \
                          code is made of upper-case letters, digits and single underscores, such \
                          as TIMEOUT";

/// What the adapter does when a call matches.
#[derive(Debug)]
pub(crate) struct Response {
    tool: String,
    method: String,
    delay: Option<Duration>,
    behaviour: Behaviour,
}

#[derive(Debug)]
enum Behaviour {
    Return(Object),
    Fail(AdapterError),
    Panic(String),
}

/// Why an entry is refused. Values are never quoted, because they may be secrets.
struct Refusal {
    reason: String,
    hint: &'static str,
}

impl Refusal {
    fn entry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: ENTRY_HINT }
    }

    fn error(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: ERROR_HINT }
    }
}

impl Response {
    /// Reads all entries.
    ///
    /// # Errors
    /// Returns `CONFIG_REJECTED` with the index of the first wrong entry.
    pub(crate) fn read_all(entries: Vec<Value>) -> Result<Vec<Self>, AdapterError> {
        let read = |(index, entry)| {
            Self::read(entry).map_err(|Refusal { reason, hint }| {
                let message = format!("responses[{index}]: {reason}");
                AdapterError::operational(code::CONFIG_REJECTED, message)
                    .details(json!({ "entry": index, "hint": hint }))
            })
        };
        entries.into_iter().enumerate().map(read).collect()
    }

    /// Says whether this response is meant for a call.
    pub(crate) fn matches(&self, tool: &str, method: &str) -> bool {
        (self.tool == ANY || self.tool == tool) && (self.method == ANY || self.method == method)
    }

    /// Returns the delay that takes the place of the adapter's own, if there is one.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// Returns the configured output or error, or panics if that is configured.
    pub(crate) fn perform(&self) -> Result<Object, AdapterError> {
        match &self.behaviour {
            Behaviour::Return(output) => Ok(output.clone()),
            Behaviour::Fail(error) => Err(error.clone()),
            Behaviour::Panic(text) => panic!("{text}"),
        }
    }

    fn read(entry: Value) -> Result<Self, Refusal> {
        let Value::Object(members) = entry else {
            return Err(Refusal::entry("must be an object"));
        };
        let (mut tool, mut method, mut delay) = (None, None, None);
        let mut behaviour: Option<(String, Behaviour)> = None;
        for (key, value) in members {
            match (key.as_str(), value) {
                ("tool", Value::String(name)) => tool = Some(name),
                ("method", Value::String(name)) => method = Some(name),
                ("tool" | "method", _) => {
                    return Err(Refusal::entry(format!("{key} must be a string")));
                }
                ("delay_ms", value) => {
                    let read = value.as_f64().and_then(milliseconds);
                    delay = Some(read.ok_or_else(|| {
                        Refusal::entry("delay_ms must be a number of milliseconds, 0 or more")
                    })?);
                }
                (_, value) => {
                    let read = Behaviour::read(&key, value)?;
                    if let Some((other, _)) = &behaviour {
                        let reason = format!("has two behaviours, {other} and {key}");
                        return Err(Refusal::entry(reason));
                    }
                    behaviour = Some((key, read));
                }
            }
        }
        let (_, behaviour) = behaviour.ok_or_else(|| Refusal::entry("has no behaviour"))?;
        Ok(Self {
            tool: tool.ok_or_else(|| Refusal::entry("tool is missing"))?,
            method: method.ok_or_else(|| Refusal::entry("method is missing"))?,
            delay,
            behaviour,
        })
    }
}

impl Behaviour {
    fn read(key: &str, value: Value) -> Result<Self, Refusal> {
        match (key, value) {
            ("return", Value::Object(output)) => Ok(Self::Return(output)),
            ("panic", Value::String(text)) => Ok(Self::Panic(text)),
            ("operational_error", Value::Object(members)) => {
                read_error(key, members, AdapterError::operational).map(Self::Fail)
            }
            ("bug_error", Value::Object(members)) => {
                read_error(key, members, AdapterError::bug_with_code).map(Self::Fail)
            }
            ("panic", _) => Err(Refusal::entry("panic must be a string")),
            ("return" | "operational_error" | "bug_error", _) => {
                Err(Refusal::entry(format!("{key} must be an object")))
            }
            (unknown, _) => Err(Refusal::entry(format!("unknown key {:?}", redact::text(unknown)))),
        }
    }
}

fn read_error(
    behaviour: &str,
    members: Object,
    make: fn(String, String) -> AdapterError,
) -> Result<AdapterError, Refusal> {
    let (mut message, mut error_code, mut details) = (None, None, Object::new());
    for (key, value) in members {
        match (key.as_str(), value) {
            ("message", Value::String(text)) => message = Some(text),
            ("error_code", Value::String(text)) if code::is_well_formed(&text) => {
                error_code = Some(text);
            }
            ("details", Value::Object(members)) => details = members,
            ("message", _) => {
                return Err(Refusal::error(format!("{behaviour}.message must be a string")));
            }
            ("error_code", _) => {
                return Err(Refusal::error(format!("{behaviour}.error_code is not well-formed")));
            }
            ("details", _) => {
                return Err(Refusal::error(format!("{behaviour}.details must be an object")));
            }
            (unknown, _) => {
                let unknown = redact::text(unknown);
                return Err(Refusal::error(format!("unknown key {unknown:?} in {behaviour}")));
            }
        }
    }
    let missing = |key: &str| Refusal::error(format!("{behaviour}.{key} is missing"));
    let error_code = error_code.ok_or_else(|| missing("error_code"))?;
    let message = message.ok_or_else(|| missing("message"))?;
    Ok(make(error_code, message).details(Value::Object(details)))
}

/// Returns a number of milliseconds as a duration; none if it is negative or beyond all measure.
pub(crate) fn milliseconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::ErrorKind;

    fn one(entry: Value) -> Response {
        Response::read_all(vec![entry]).unwrap().remove(0)
    }

    fn refusal(entry: Value) -> AdapterError {
        let good = json!({ "tool": "*", "method": "*", "return": {} });
        Response::read_all(vec![good, entry]).unwrap_err()
    }

    #[test]
    fn star_stands_for_every_name() {
        let cases = [
            ("a", "b", true, false, false),
            ("*", "b", true, true, false),
            ("a", "*", true, false, true),
            ("*", "*", true, true, true),
        ];
        for (tool, method, same, other_tool, other_method) in cases {
            let response = one(json!({ "tool": tool, "method": method, "return": {} }));
            assert_eq!(response.matches("a", "b"), same, "{tool}.{method}");
            assert_eq!(response.matches("x", "b"), other_tool, "{tool}.{method}");
            assert_eq!(response.matches("a", "x"), other_method, "{tool}.{method}");
        }
    }

    #[test]
    fn both_kinds_of_error_keep_their_code_message_and_details() {
        for (key, kind) in
            [("operational_error", ErrorKind::Operational), ("bug_error", ErrorKind::Bug)]
        {
            let error = json!({ "message": "no", "error_code": "E_1", "details": { "n": 1 } });
            let response = one(json!({ "tool": "*", "method": "*", key: error }));
            let error = response.perform().unwrap_err();
            assert_eq!(error.kind, kind);
            assert_eq!(error.to_string(), "E_1: no");
            assert_eq!(Value::Object(*error.details), json!({ "n": 1 }));
        }
    }

    #[test]
    fn details_of_an_error_may_be_left_out() {
        let error = json!({ "message": "no", "error_code": "TIMEOUT" });
        let response = one(json!({ "tool": "*", "method": "*", "operational_error": error }));
        assert!(response.perform().unwrap_err().details.is_empty());
    }

    #[test]
    fn delay_may_be_a_fraction_of_a_millisecond() {
        let entry = |delay| json!({ "tool": "*", "method": "*", "return": {}, "delay_ms": delay });
        assert_eq!(one(entry(json!(1500))).delay(), Some(Duration::from_millis(1500)));
        assert_eq!(one(entry(json!(0.5))).delay(), Some(Duration::from_micros(500)));
        assert_eq!(one(json!({ "tool": "*", "method": "*", "return": {} })).delay(), None);
    }

    #[test]
    fn wrong_entry_is_refused_with_its_index() {
        let error = |members: Value| json!({ "tool": "t", "method": "m", "bug_error": members });
        let cases = [
            (json!(7), "must be an object"),
            (json!({ "method": "m", "return": {} }), "tool is missing"),
            (json!({ "tool": "t", "return": {} }), "method is missing"),
            (json!({ "tool": 1, "method": "m", "return": {} }), "tool must be a string"),
            (json!({ "tool": "t", "method": null, "return": {} }), "method must be a string"),
            (json!({ "tool": "t", "method": "m" }), "has no behaviour"),
            (json!({ "tool": "t", "method": "m", "delay_ms": 1 }), "has no behaviour"),
            (
                json!({ "tool": "t", "method": "m", "return": {}, "panic": "p" }),
                "has two behaviours, return and panic",
            ),
            (json!({ "tool": "t", "method": "m", "retrun": {} }), "unknown key \"retrun\""),
            (
                json!({ "tool": "t", "method": "m", "return": {}, "times": 2 }),
                "unknown key \"times\"",
            ),
            (json!({ "tool": "t", "method": "m", "return": [] }), "return must be an object"),
            (json!({ "tool": "t", "method": "m", "panic": {} }), "panic must be a string"),
            (error(json!("x")), "bug_error must be an object"),
            (error(json!({ "error_code": "X" })), "bug_error.message is missing"),
            (error(json!({ "message": "m" })), "bug_error.error_code is missing"),
            (
                error(json!({ "message": 1, "error_code": "X" })),
                "bug_error.message must be a string",
            ),
            (
                error(json!({ "message": "m", "error_code": "not so" })),
                "bug_error.error_code is not well-formed",
            ),
            (
                error(json!({ "message": "m", "error_code": "X", "details": 1 })),
                "bug_error.details must be an object",
            ),
            (
                error(json!({ "message": "m", "error_code": "X", "code": 1 })),
                "unknown key \"code\" in bug_error",
            ),
        ];
        for (entry, reason) in cases {
            let error = refusal(entry);
            assert_eq!(error.kind, ErrorKind::Operational);
            assert_eq!(error.to_string(), format!("CONFIG_REJECTED: responses[1]: {reason}"));
            assert_eq!(error.details["entry"], 1);
            assert!(error.details["hint"].is_string());
        }
    }

    #[test]
    fn delay_that_is_no_time_is_refused() {
        for delay in [json!(-1), json!("1"), json!(1e300), json!(null)] {
            let entry = json!({ "tool": "*", "method": "*", "return": {}, "delay_ms": delay });
            let message = refusal(entry).message;
            assert_eq!(
                message,
                "responses[1]: delay_ms must be a number of milliseconds, 0 or more"
            );
        }
    }

    #[test]
    fn refusal_quotes_no_value() {
        let secret = "hunter2hunter2";
        let entries = [
            json!(secret),
            json!({ "tool": [secret] }),
            json!({ "tool": "t", "method": "m", "return": secret }),
            json!({ "tool": "t", "method": "m", "delay_ms": secret }),
            json!({ "tool": "t", "method": "m", "bug_error": { "error_code": secret } }),
            json!({ "tool": "t", "method": "m", "password": secret }),
            json!({ "tool": "t", "method": "m", format!("password={secret}"): 1 }),
        ];
        for entry in entries {
            assert!(!serde_json::to_string(&refusal(entry)).unwrap().contains(secret));
        }
    }
}

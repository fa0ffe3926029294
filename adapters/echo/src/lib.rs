//! An adapter that returns its arguments, or does whatever its configuration says.
//!
//! It stands in for real adapters in tests of plans, policies and hosts. The arguments come back as
//! they are, secrets included: whoever stores or shows an output redacts it.
#![forbid(unsafe_code)]

mod response;

use std::time::Duration;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, ValueType, code,
    export_adapter,
};
use serde::Deserialize;
use serde_json::Value;

use crate::response::{Response, milliseconds};

const KIND: &str = "echo";
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(&[
        ConfigKey::optional(
            "responses",
            ValueType::Array,
            "What to do instead of echoing. Each entry has tool and method (\"*\" stands for any; \
             the first entry that matches wins), exactly one of return (an object), \
             operational_error and bug_error (message, error_code, optional details), panic (a \
             text), and optionally delay_ms, which takes the place of the delay of every call",
        )
        .default_json("[]"),
        ConfigKey::optional(
            "delay_ms",
            ValueType::Number,
            "How many milliseconds every call takes, unless it is cancelled or its deadline passes",
        )
        .default_json("0"),
    ])
    .error_codes(&[code::CANCELLED, code::TIMEOUT]);

/// The configuration. Entries stay as they are until they are read, so that a refusal can name one.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Config {
    responses: Vec<Value>,
    delay_ms: f64,
}

/// The adapter.
pub struct Echo {
    adapter_id: String,
    responses: Vec<Response>,
    delay: Duration,
}

impl Adapter for Echo {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let response = self.responses.iter().find(|response| response.matches(tool, method));
        let delay = response.and_then(Response::delay).unwrap_or(self.delay);
        if !delay.is_zero() {
            context.sleep(delay)?;
        }
        let mut output = match response {
            Some(response) => response.perform()?,
            None => echo(tool, method, args),
        };
        if context.dry_run() {
            output.insert("dry_run".to_owned(), true.into());
        }
        Ok(output)
    }

    fn starts_at_once(&self) -> bool {
        // Whatever it does is done at once, unless it was told to take its time.
        let waits = |response: &Response| response.delay().is_some_and(|delay| !delay.is_zero());
        self.delay.is_zero() && !self.responses.iter().any(waits)
    }
}

fn echo(tool: &str, method: &str, args: Object) -> Object {
    Object::from_iter([
        ("echo".to_owned(), true.into()),
        ("tool".to_owned(), tool.into()),
        ("method".to_owned(), method.into()),
        ("args".to_owned(), args.into()),
    ])
}

/// Makes the adapter.
///
/// # Errors
/// `CONFIG_REJECTED` when an entry of `responses` is not what it should be.
pub fn create_adapter(adapter_id: Option<&str>, config: Config) -> Result<Echo, AdapterError> {
    let delay = milliseconds(config.delay_ms).ok_or_else(|| {
        let message = "delay_ms must be a number of milliseconds, 0 or more";
        AdapterError::operational(code::CONFIG_REJECTED, message)
    })?;
    Ok(Echo {
        adapter_id: adapter_id.unwrap_or(KIND).to_owned(),
        responses: Response::read_all(config.responses)?,
        delay,
    })
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::{Recorder, call};
    use serde_json::json;

    /// Longer than a test takes; a call that would sleep it out fails its test.
    const MINUTE_MS: u64 = 60_000;

    fn make(config: Value) -> Echo {
        create_adapter(None, serde_json::from_value(config).unwrap()).unwrap()
    }

    fn call_in(context: &CallContext, echo: &Echo, tool: &str) -> Result<Object, AdapterError> {
        echo.call(context, tool, "m", Object::new())
    }

    #[test]
    fn call_without_a_response_returns_what_it_was_given() {
        let args = json!({ "z": 1, "a": [null, 1.5, "é"], "password": "kept" });
        let output = call(&make(json!({})), "mail", "send", args.clone()).unwrap();
        assert_eq!(
            serde_json::to_string(&output).unwrap(),
            json!({ "echo": true, "tool": "mail", "method": "send", "args": args }).to_string()
        );
    }

    #[test]
    fn adapter_is_named_echo_unless_told_otherwise() {
        assert_eq!(make(json!({})).adapter_id(), "echo");
        assert_eq!(create_adapter(Some("mine"), Config::default()).unwrap().adapter_id(), "mine");
    }

    #[test]
    fn first_response_that_matches_wins() {
        let echo = make(json!({ "responses": [
            { "tool": "mail", "method": "send", "return": { "n": 1 } },
            { "tool": "mail", "method": "*",
              "operational_error": { "message": "no box", "error_code": "NO_BOX" } },
            { "tool": "*", "method": "send", "return": { "n": 3 } },
        ]}));
        assert_eq!(call(&echo, "mail", "send", json!({})).unwrap()["n"], 1);
        assert_eq!(call(&echo, "mail", "read", json!({})).unwrap_err().code, "NO_BOX");
        assert_eq!(call(&echo, "post", "send", json!({})).unwrap()["n"], 3);
        assert_eq!(call(&echo, "post", "read", json!({})).unwrap()["echo"], true);
    }

    #[test]
    fn dry_run_is_marked_in_every_output() {
        let echo = make(json!({ "responses": [
            { "tool": "fixed", "method": "*", "return": { "n": 1 } },
        ]}));
        let recorder = Recorder::default();
        for tool in ["fixed", "free"] {
            let output = call_in(&recorder.dry_run_context(), &echo, tool).unwrap();
            assert_eq!(output["dry_run"], true);
            assert_eq!(call_in(&recorder.context(), &echo, tool).unwrap().get("dry_run"), None);
        }
    }

    #[test]
    fn delay_ends_at_the_deadline() {
        let echo = make(json!({ "delay_ms": MINUTE_MS }));
        let context = Recorder::default().context_with_time(Duration::from_millis(1));
        assert_eq!(call_in(&context, &echo, "t").unwrap_err().code, code::TIMEOUT);
    }

    #[test]
    fn delay_ends_when_the_call_is_cancelled() {
        let echo = make(json!({ "delay_ms": MINUTE_MS }));
        let (context, cancel) = Recorder::default().cancellable_context();
        let answer = std::thread::scope(|scope| {
            let caller = scope.spawn(|| call_in(&context, &echo, "t"));
            cancel();
            caller.join().unwrap()
        });
        assert_eq!(answer.unwrap_err().code, code::CANCELLED);
    }

    #[test]
    fn delay_of_a_response_takes_the_place_of_the_general_one() {
        let echo = make(json!({ "delay_ms": MINUTE_MS, "responses": [
            { "tool": "*", "method": "*", "return": { "n": 1 }, "delay_ms": 0 },
        ]}));
        let context = Recorder::default().context_with_time(Duration::from_millis(MINUTE_MS / 2));
        assert_eq!(call_in(&context, &echo, "t").unwrap()["n"], 1);
    }

    #[test]
    fn short_delay_passes_and_the_call_goes_on() {
        let echo = make(json!({ "delay_ms": 0.5 }));
        assert_eq!(call(&echo, "t", "m", json!({})).unwrap()["echo"], true);
    }

    #[test]
    fn only_an_adapter_that_never_waits_starts_at_once() {
        let response =
            |delay| json!([{ "tool": "*", "method": "*", "return": {}, "delay_ms": delay }]);
        assert!(make(json!({})).starts_at_once());
        assert!(make(json!({ "responses": response(0) })).starts_at_once());
        assert!(!make(json!({ "delay_ms": 1 })).starts_at_once());
        assert!(!make(json!({ "responses": response(1) })).starts_at_once());
    }

    #[test]
    fn wrong_configuration_is_refused_by_the_factory() {
        for (config, message) in [
            (json!({ "delay_ms": -1 }), "delay_ms must be a number of milliseconds, 0 or more"),
            (json!({ "responses": [{}] }), "responses[0]: has no behaviour"),
        ] {
            let config = serde_json::from_value(config).unwrap();
            let error = create_adapter(None, config).err().unwrap();
            assert_eq!(error.to_string(), format!("{}: {message}", code::CONFIG_REJECTED));
        }
    }
}

//! An adapter that writes one line about each call to the host's output sink.
//!
//! It never touches the process' standard output, which belongs to the host. Secrets in the
//! arguments are redacted, in the line and in what the call returns. A dry run writes nothing.
#![forbid(unsafe_code)]

mod timestamp;

use std::time::SystemTime;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, ValueType,
    canonical, export_adapter, redact,
};
use serde::Deserialize;
use serde_json::Value;

const KIND: &str = "stdout";
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

/// The longest text of arguments that a line shows whole.
const ARGS_CHARS: usize = 100;
const ELLIPSIS: &str = "...";

const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(&[
        ConfigKey::optional("prefix", ValueType::String, "How each line begins; not used in JSON")
            .default_json(r#""[nexus]""#),
        ConfigKey::optional(
            "include_timestamp",
            ValueType::Boolean,
            "Whether a line tells the time of the call, in UTC",
        )
        .default_json("true"),
        ConfigKey::optional(
            "include_args",
            ValueType::Boolean,
            "Whether a line shows the arguments, with secrets redacted",
        )
        .default_json("true"),
        ConfigKey::optional(
            "json_output",
            ValueType::Boolean,
            "Whether a line is a JSON object instead of text for people",
        )
        .default_json("false"),
        ConfigKey::optional(
            "return_echo",
            ValueType::Boolean,
            "Whether a call returns what it was given, with secrets redacted, or an empty object",
        )
        .default_json("true"),
    ])
    .error_codes(&[]);

/// The configuration; the defaults are those of the manifest.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(default)]
struct Config {
    prefix: String,
    include_timestamp: bool,
    include_args: bool,
    json_output: bool,
    return_echo: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix: "[nexus]".to_owned(),
            include_timestamp: true,
            include_args: true,
            json_output: false,
            return_echo: true,
        }
    }
}

struct Stdout {
    adapter_id: String,
    config: Config,
}

impl Adapter for Stdout {
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
        let args = redact::value(&Value::Object(args));
        if !context.dry_run() {
            context.output(&self.line(SystemTime::now(), tool, method, &args));
        }
        let mut output = Object::new();
        if self.config.return_echo {
            output.insert("echoed".to_owned(), true.into());
            output.insert("tool".to_owned(), tool.into());
            output.insert("method".to_owned(), method.into());
            output.insert("args".to_owned(), args);
            output.insert("adapter_id".to_owned(), self.adapter_id.as_str().into());
        }
        if context.dry_run() {
            output.insert("dry_run".to_owned(), true.into());
        }
        Ok(output)
    }
}

impl Stdout {
    /// Returns the line with its end, so that it reaches the sink in one piece.
    fn line(&self, now: SystemTime, tool: &str, method: &str, args: &Value) -> String {
        let timestamp = self.config.include_timestamp.then(|| timestamp::iso(now));
        let args = Some(args).filter(|_| self.config.include_args);
        if self.config.json_output {
            json_line(timestamp, tool, method, args)
        } else {
            self.human_line(timestamp, tool, method, args)
        }
    }

    fn human_line(
        &self,
        timestamp: Option<String>,
        tool: &str,
        method: &str,
        args: Option<&Value>,
    ) -> String {
        let mut parts = vec![self.config.prefix.clone()];
        parts.extend(timestamp);
        parts.push(format!("{}.{}", printable(tool), printable(method)));
        let has_members = |args: &&Value| args.as_object().is_some_and(|args| !args.is_empty());
        parts.extend(
            args.filter(has_members).map(|args| shorten(canonical::to_string_spaced(args))),
        );
        parts.join(" ") + "\n"
    }
}

fn json_line(timestamp: Option<String>, tool: &str, method: &str, args: Option<&Value>) -> String {
    let mut line = Object::new();
    line.insert("tool".to_owned(), tool.into());
    line.insert("method".to_owned(), method.into());
    if let Some(timestamp) = timestamp {
        line.insert("timestamp".to_owned(), timestamp.into());
    }
    if let Some(args) = args {
        line.insert("args".to_owned(), args.clone());
    }
    canonical::to_string_spaced(&Value::Object(line)) + "\n"
}

/// Cuts a text that is longer than a line shows.
fn shorten(text: String) -> String {
    if text.chars().count() <= ARGS_CHARS {
        return text;
    }
    text.chars().take(ARGS_CHARS - ELLIPSIS.len()).chain(ELLIPSIS.chars()).collect()
}

/// Escapes control characters: a name must not begin a line of its own or command a terminal.
fn printable(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            text.extend(character.escape_unicode());
        } else {
            text.push(character);
        }
    }
    text
}

fn create_adapter(adapter_id: Option<&str>, config: Config) -> Result<Stdout, AdapterError> {
    Ok(Stdout { adapter_id: adapter_id.unwrap_or(KIND).to_owned(), config })
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::{Recorder, call, manifest};
    use serde_json::json;

    const GOLDEN: &str = include_str!("../../../tests/golden/nexus/stdout_adapter.json");

    fn make(adapter_id: Option<&str>, config: Value) -> Stdout {
        create_adapter(adapter_id, serde_json::from_value(config).unwrap()).unwrap()
    }

    /// Makes a call and returns what reached the host's sink.
    fn printed(config: Value, tool: &str, method: &str, args: Value) -> String {
        let recorder = Recorder::default();
        let Value::Object(args) = args else { panic!("args must be an object") };
        make(None, config).call(&recorder.context(), tool, method, args).unwrap();
        recorder.output()
    }

    #[test]
    fn every_golden_case_is_printed_and_returned_alike() {
        let cases: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
        assert_eq!(cases.len(), 7);
        for case in cases {
            let mut config = case["config"].clone();
            let adapter_id = config.as_object_mut().unwrap().shift_remove("adapter_id");
            let adapter = make(adapter_id.as_ref().and_then(Value::as_str), config);
            assert_eq!(adapter.adapter_id(), case["adapter_id"].as_str().unwrap());

            let request = &case["call"];
            let args = &request["args"];
            assert_eq!(&redact::value(args), args, "no golden case holds what is redacted");
            let recorder = Recorder::default();
            let returned = adapter
                .call(
                    &recorder.context(),
                    request["tool"].as_str().unwrap(),
                    request["method"].as_str().unwrap(),
                    args.as_object().unwrap().clone(),
                )
                .unwrap();
            assert_eq!(recorder.output(), case["stdout"].as_str().unwrap());
            assert_eq!(recorder.notices().len(), 1, "a line is sent in one piece");
            // As text, so that the order of the members counts too.
            assert_eq!(Value::Object(returned).to_string(), case["returned"].to_string());
        }
    }

    #[test]
    fn secrets_are_neither_printed_nor_returned() {
        let args = json!({ "user": "ada", "password": "hunter2", "in": [{ "api_key": "k-77" }] });
        for json_output in [false, true] {
            let config = json!({ "json_output": json_output, "include_timestamp": false });
            let line = printed(config.clone(), "t", "m", args.clone());
            let output = call(&make(None, config), "t", "m", args.clone()).unwrap();
            let returned = Value::Object(output).to_string();
            for text in [&line, &returned] {
                assert!(text.contains("ada") && text.contains("[REDACTED]"), "{text}");
                assert!(!text.contains("hunter2") && !text.contains("k-77"), "{text}");
            }
        }
    }

    #[test]
    fn timestamp_stands_before_the_call() {
        let time = SystemTime::UNIX_EPOCH;
        let line = make(None, json!({})).line(time, "t", "m", &json!({ "a": 1 }));
        assert_eq!(line, "[nexus] 1970-01-01T00:00:00.000000+00:00 t.m {\"a\": 1}\n");
        let adapter = make(None, json!({ "json_output": true }));
        let line = adapter.line(time, "t", "m", &json!({}));
        assert_eq!(
            line,
            "{\"tool\": \"t\", \"method\": \"m\", \
             \"timestamp\": \"1970-01-01T00:00:00.000000+00:00\", \"args\": {}}\n"
        );
    }

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let config = json!({ "include_timestamp": false });
        let line = printed(config, "t", "m", json!({ "x": [1e16, 1.0, 0.00001, 7] }));
        assert_eq!(line, "[nexus] t.m {\"x\": [1e+16, 1.0, 1e-05, 7]}\n");
    }

    #[test]
    fn arguments_are_cut_after_a_hundred_characters() {
        assert_eq!(shorten("é".repeat(100)), "é".repeat(100));
        assert_eq!(shorten("é".repeat(101)), "é".repeat(97) + "...");
    }

    #[test]
    fn name_cannot_begin_a_line_of_its_own() {
        let config = json!({ "include_timestamp": false });
        let line = printed(config, "a\n[nexus] b", "\u{1b}[2Jé", json!({}));
        assert_eq!(line, "[nexus] a\\u{a}[nexus] b.\\u{1b}[2Jé\n");
    }

    #[test]
    fn defaults_are_those_of_the_manifest() {
        let manifest = manifest(&MANIFEST);
        let keys = manifest["config_schema"].as_object().unwrap();
        let defaults: Object =
            keys.iter().map(|(name, key)| (name.clone(), key["default"].clone())).collect();
        assert_eq!(defaults.len(), 5);
        let from_manifest: Config = serde_json::from_value(Value::Object(defaults)).unwrap();
        assert_eq!(from_manifest, Config::default());
    }

    #[test]
    fn dry_run_writes_nothing_and_says_so() {
        let recorder = Recorder::default();
        let adapter = make(None, json!({ "return_echo": false }));
        let output = adapter.call(&recorder.dry_run_context(), "t", "m", Object::new()).unwrap();
        assert_eq!(Value::Object(output), json!({ "dry_run": true }));
        assert!(recorder.notices().is_empty());
    }
}

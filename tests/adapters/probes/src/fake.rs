//! An adapter that does what its configuration says: answers, errors, panics, waits, leaves traces.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Level, Object};
use serde_json::{Value, json};

pub(crate) const KIND: &str = "fake";

pub(crate) struct Fake {
    adapter_id: String,
    capabilities: Vec<Capability>,
    responses: Vec<Value>,
    /// Where every call leaves a line before it does anything else.
    traces: Option<PathBuf>,
    /// Whether it leaves another line when it is done.
    trace_ends: bool,
    /// Whether the line of a call has its arguments.
    trace_args: bool,
    /// Answers immediately, on the thread of whoever starts a call.
    at_once: bool,
    /// Where it tells when it is made and when it is shut down.
    life: Option<PathBuf>,
    /// Calls that failed because they are to fail some times.
    failed: AtomicU64,
}

impl Fake {
    pub(crate) fn new(adapter_id: Option<&str>, config: &Object) -> Result<Self, AdapterError> {
        let names = config.get("capabilities").and_then(Value::as_array);
        let capabilities = match names {
            None => vec![Capability::DryRun, Capability::Apply],
            Some(names) => names
                .iter()
                .map(|name| {
                    Capability::from_name(name.as_str().unwrap_or_default())
                        .ok_or_else(|| AdapterError::bug(format!("no capability {name}")))
                })
                .collect::<Result<_, _>>()?,
        };
        let responses = config.get("responses").and_then(Value::as_array);
        if let Some(refusal) = config.get("refuses") {
            return Err(caused_error(refusal));
        }
        let fake = Self {
            adapter_id: adapter_id.unwrap_or(KIND).to_owned(),
            capabilities,
            responses: responses.cloned().unwrap_or_default(),
            traces: config.get("traces").and_then(Value::as_str).map(PathBuf::from),
            trace_ends: config.get("trace_ends").and_then(Value::as_bool).unwrap_or_default(),
            trace_args: config.get("trace_args").and_then(Value::as_bool).unwrap_or_default(),
            at_once: config.get("at_once").and_then(Value::as_bool).unwrap_or_default(),
            life: config.get("life").and_then(Value::as_str).map(PathBuf::from),
            failed: AtomicU64::new(0),
        };
        fake.tell_life("made");
        Ok(fake)
    }

    fn tell_life(&self, what: &str) {
        let Some(path) = &self.life else { return };
        let line = format!("{what} {} {}\n", self.adapter_id, std::process::id());
        let file = OpenOptions::new().append(true).create(true).open(path);
        // Whoever only examines it does not let it write.
        drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
    }

    fn behaviour(&self, tool: &str, method: &str) -> Option<&Object> {
        let fits = |response: &&Value| response["tool"] == tool && response["method"] == method;
        self.responses.iter().find(fits).and_then(|response| response["behaviour"].as_object())
    }

    fn leave_trace(&self, line: &str) {
        let Some(path) = &self.traces else { return };
        let file = OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("a trace can be left");
    }
}

/// Error with a source.
#[derive(Debug)]
struct Cause {
    text: String,
    source: Option<Box<Self>>,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

/// Makes an error whose sources have the texts `causes`, outermost first.
fn caused_error(value: &Value) -> AdapterError {
    let error = AdapterError::operational(text(value, "error_code"), "it did not work");
    let causes = value["causes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let chain = causes
        .rev()
        .fold(None, |source, text| Some(Box::new(Cause { text: text.to_owned(), source })));
    match chain {
        Some(cause) => error.caused_by(&*cause),
        None => error,
    }
}

/// Makes the error that a behaviour describes.
fn described_error(value: &Value) -> AdapterError {
    let error = AdapterError::operational(text(value, "error_code"), text(value, "message"));
    error.details(value.get("details").cloned().unwrap_or_else(|| json!({})))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

impl Adapter for Fake {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let mut line = context.call_id().unwrap_or_default().to_owned();
        if self.trace_args {
            line.push_str(&format!(" {}", Value::Object(args.clone())));
        }
        self.leave_trace(&line);
        let answer = self.answer(context, tool, method, &args);
        if self.trace_ends {
            self.leave_trace("end");
        }
        answer
    }

    fn starts_at_once(&self) -> bool {
        self.at_once
    }

    fn shutdown(&self) {
        self.tell_life("shut down");
    }
}

impl Fake {
    fn answer(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: &Object,
    ) -> Result<Object, AdapterError> {
        let Some(behaviour) = self.behaviour(tool, method) else {
            let output = json!({
                "fake": true, "tool": tool, "method": method, "args_echo": args, "result": null,
            });
            return Ok(output.as_object().cloned().unwrap_or_default());
        };
        let Some((what, value)) = behaviour.iter().next() else { return Ok(Object::new()) };
        match what.as_str() {
            "return" => Ok(value.as_object().cloned().unwrap_or_default()),
            // As text, so that the configuration has no members whose names make their values secret.
            "return_json" => serde_json::from_str(value.as_str().unwrap_or_default())
                .map_err(|error| AdapterError::bug(error.to_string())),
            "operational_error" => Err(described_error(value)),
            "fails_times" => {
                let failed = self.failed.fetch_add(1, Ordering::Relaxed);
                if failed < value["times"].as_u64().unwrap_or_default() {
                    return Err(described_error(value));
                }
                Ok(Object::new())
            }
            "fails_while" if Path::new(text(value, "file")).exists() => Err(described_error(value)),
            "fails_while" => Ok(Object::new()),
            "bug_error" => {
                Err(AdapterError::bug_with_code(text(value, "error_code"), text(value, "message")))
            }
            "permission_error" => Err(AdapterError::operational(
                "PERMISSION_DENIED",
                value.as_str().unwrap_or_default(),
            )),
            "unknown_exception" => panic!("{}", value.as_str().unwrap_or_default()),
            "caused_error" => Err(caused_error(value)),
            "print" => {
                let mut stdout = std::io::stdout();
                let printed = writeln!(stdout, "{}", value.as_str().unwrap_or_default());
                printed.and_then(|()| stdout.flush()).expect("it can be printed");
                Ok(Object::new())
            }
            "log" => {
                for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
                    context.log(level, value.as_str().unwrap_or_default());
                }
                context.output(value.as_str().unwrap_or_default());
                Ok(Object::new())
            }
            "process_dies" => std::process::abort(),
            "sleep_ms" => {
                context.sleep(Duration::from_millis(value.as_u64().unwrap_or_default()))?;
                Ok(Object::new())
            }
            "deaf_ms" => {
                // Does not listen to anyone, as a library that blocks in a system call.
                std::thread::sleep(Duration::from_millis(value.as_u64().unwrap_or_default()));
                Ok(Object::new())
            }
            "wait_for" => {
                while !Path::new(text(value, "file")).exists() {
                    context.sleep(Duration::from_millis(5))?;
                }
                context.log(Level::Info, text(value, "tell"));
                Ok(Object::new())
            }
            other => Err(AdapterError::bug(format!("no behaviour {other}"))),
        }
    }
}

//! `nexus-router adapter list --running` and `release`: asks a daemon how its adapters do, and helps one on.

use std::path::{Path, PathBuf};

use super::super::daemon::Daemon;
use super::super::output::{Format, Output, columns, shortened};
use super::super::reach::{Reach, encoded, refused};
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;

/// What is asked for.
const PATH: &str = "/v1/adapters";
/// The largest answer that is read: a thousand adapters take a tenth of it.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;

const HEADINGS: [&str; 10] = [
    "ADAPTER",
    "KIND",
    "CAPABILITIES",
    "ISOLATION",
    "STATE",
    "WORKERS",
    "RESTARTS",
    "LAST END",
    "CIRCUIT",
    "UNDECLARED ERRORS",
];

/// Which daemon, and how it is asked.
#[derive(clap::Args)]
pub(super) struct Running {
    /// List the adapters of a running daemon, and how they do. A token of scope read is needed: that of
    /// --token-file, of `NEXUS_ROUTER_TOKEN`, or, without --url, the first one of the data directory.
    #[arg(long, conflicts_with = "adapter_path")]
    running: bool,
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL", requires = "running", conflicts_with = "config_file")]
    url: Option<String>,
    /// The file with the token to show.
    #[arg(long, value_name = "FILE", requires = "running")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE", requires = "running")]
    ca: Option<PathBuf>,
}

impl Running {
    /// Says whether a daemon is asked for.
    pub(super) const fn is_wanted(&self) -> bool {
        self.running
    }

    /// Asks the daemon, and writes what it answers.
    pub(super) fn list(
        &self,
        config_file: Option<&Path>,
        format: Format,
        environment: &Environment,
    ) -> Result<Answer, Error> {
        let daemon = self.daemon(config_file, environment)?;
        let (status, body) = daemon.get(PATH, MAX_ANSWER)?;
        let adapters = match (status, body.get("adapters"), body.get("code")) {
            (200, Some(Value::Array(adapters)), _) => adapters,
            (400.., _, Some(Value::String(code))) => {
                return Err(refused(&daemon, (code, "read"), &body));
            }
            _ => return Err(daemon.stranger(PATH, status)),
        };
        let mut output = Output::new(environment);
        if format == Format::Json {
            output.value(&body)?;
            return Ok(Answer::Yes);
        }
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(adapters.iter().map(row));
        for line in columns(&rows) {
            output.line(&line)?;
        }
        for line in adapters.iter().flat_map(failure) {
            output.line(&line)?;
        }
        Ok(Answer::Yes)
    }

    fn daemon(
        &self,
        config_file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Daemon, Error> {
        let Self { url, token_file, ca, .. } = self;
        let reach = Reach { url: url.clone(), token_file: token_file.clone(), ca: ca.clone() };
        reach.daemon(config_file, environment)
    }
}

/// Which adapter, and whose.
#[derive(clap::Args)]
pub(in crate::cli) struct RunningAdapter {
    /// The id of the adapter, as `adapter list --running` shows it.
    #[arg(value_name = "ID")]
    adapter_id: String,
    /// The daemon's configuration file.
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL", conflicts_with = "config_file")]
    url: Option<String>,
    /// The file with the token to show, which needs scope admin.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl RunningAdapter {
    /// Asks the daemon to do something with the adapter. Returns what it answers, and the member of that which says
    /// whether it did.
    fn post(
        &self,
        (verb, done): (&str, &str),
        environment: &Environment,
    ) -> Result<(Value, bool), Error> {
        let Self { adapter_id, config_file, url, token_file, ca, .. } = self;
        let (url, token_file, ca) = (url.clone(), token_file.clone(), ca.clone());
        let running = Running { running: true, url, token_file, ca };
        let daemon = running.daemon(config_file.as_deref(), environment)?;
        let path = format!("{PATH}/{}/{verb}", encoded(adapter_id));
        let (status, body) = daemon.post(&path, MAX_ANSWER)?;
        match (status, body.get(done), body.get("code")) {
            (200 | 202, Some(Value::Bool(done)), _) => {
                let done = *done;
                Ok((body, done))
            }
            (400.., _, Some(Value::String(code))) => Err(refused(&daemon, (code, "admin"), &body)),
            _ => Err(daemon.stranger(&path, status)),
        }
    }
}

/// Lets an adapter of a daemon out of quarantine, and closes its circuit. The answer is no if there was neither to do.
pub(super) fn release(
    arguments: &RunningAdapter,
    environment: &Environment,
) -> Result<Answer, Error> {
    let (body, released) = arguments.post(("release", "released"), environment)?;
    let mut output = Output::new(environment);
    let shown = visible(&arguments.adapter_id);
    match (arguments.format, released) {
        (Format::Json, _) => output.value(&body)?,
        (_, true) => output.line(&format!("released: {shown}"))?,
        (_, false) => {
            output.line(&format!("not in quarantine, and its circuit is closed: {shown}"))?;
        }
    }
    Ok(if released { Answer::Yes } else { Answer::No })
}

/// Has a daemon load an adapter again that failed. The answer is no if it had not failed.
pub(super) fn retry(
    arguments: &RunningAdapter,
    environment: &Environment,
) -> Result<Answer, Error> {
    let (body, retried) = arguments.post(("retry", "retried"), environment)?;
    let mut output = Output::new(environment);
    let shown = visible(&arguments.adapter_id);
    let state = body.get("state").and_then(Value::as_str).map(visible).unwrap_or_default();
    match (arguments.format, retried) {
        (Format::Json, _) => output.value(&body)?,
        (_, true) => output.line(&format!("{state}: {shown}"))?,
        (_, false) => output.line(&format!("not failed: {shown} is {state}"))?,
    }
    Ok(if retried { Answer::Yes } else { Answer::No })
}

/// Returns the lines about an adapter that failed to load or is disabled: the message and the remedy.
fn failure(adapter: &Value) -> Vec<String> {
    let text = |key: &str| adapter.get(key).and_then(Value::as_str).map(visible);
    let (Some(adapter_id), Some(message)) = (text("adapter_id"), text("message")) else {
        return Vec::new();
    };
    let hint = text("hint").map(|hint| format!("  hint: {hint}"));
    let state = if text("contract").is_some() { "is disabled" } else { "failed" };
    [format!("{adapter_id} {state}: {message}")].into_iter().chain(hint).collect()
}

/// Returns the cells of an adapter. What the daemon does not say is a dash.
fn row(adapter: &Value) -> Vec<String> {
    let cell = |key: &str| match adapter.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let capabilities = match adapter.get("capabilities") {
        Some(Value::Array(names)) if !names.is_empty() => {
            let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names.join(",")
        }
        _ => "-".to_owned(),
    };
    let text = |key: &str| adapter.get(key).and_then(Value::as_str);
    let state = match (text("until"), text("reason")) {
        (Some(until), _) => format!("{} until {until}", cell("state")),
        (None, Some(reason)) => format!("{}: {reason}", cell("state")),
        (None, None) => cell("state"),
    };
    let cells = [
        cell("adapter_id"),
        cell("adapter_kind"),
        capabilities,
        cell("isolation"),
        state,
        cell("workers"),
        cell("restarts"),
        cell("last_end"),
        circuit(adapter),
        undeclared(adapter),
    ];
    cells.iter().map(|cell| shortened(&visible(cell))).collect()
}

/// Returns the state of the circuit breaker of an adapter: until when it is open, and after which error.
fn circuit(adapter: &Value) -> String {
    let text = |key: &str| adapter.get(key).and_then(Value::as_str);
    match (text("circuit"), text("circuit_until"), text("circuit_error")) {
        (None, _, _) => "-".to_owned(),
        (Some(state), Some(until), Some(code)) => format!("{state} until {until}: {code}"),
        (Some(state), None, Some(code)) => format!("{state}: {code}"),
        (Some(state), _, None) => state.to_owned(),
    }
}

/// Returns the error codes that an adapter returned without having declared them, each with its number. Before those that
/// its interface contract does not list stands the operation.
fn undeclared(adapter: &Value) -> String {
    let Some(Value::Object(codes)) = adapter.get("undeclared_error_codes") else {
        return "-".to_owned();
    };
    let counted = |operation: &str, codes: &Object| -> Vec<String> {
        let code = |(code, count): (&str, &Value)| match count {
            Value::Int(count) => Some(format!("{operation}{code} {count}")),
            _ => None,
        };
        codes.iter().filter_map(code).collect()
    };
    let operations = adapter.get("undeclared_failure_codes").and_then(Value::as_object);
    let of_contract = operations.into_iter().flat_map(Object::iter).flat_map(|(name, codes)| {
        codes.as_object().map(|codes| counted(&format!("{name} "), codes)).unwrap_or_default()
    });
    let counted = counted("", codes).into_iter().chain(of_contract);
    match counted.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "-".to_owned(),
        counted => counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn a_row_tells_how_an_adapter_does_as_far_as_it_is_known() {
        let shown = |text: &str| row(&parse(text.as_bytes(), Limits::REQUEST).unwrap());
        let whole = r#"{"adapter_id": "shop", "adapter_kind": "http", "capabilities": ["external", "apply"],
            "isolation": "worker", "state": "quarantined", "workers": 0, "restarts": 5,
            "last_end": "crashed with SIGSEGV (signal 11)", "until": "2030-01-01T00:00:00Z",
            "undeclared_error_codes": {"SOLD_OUT": 3, "TIMEOUT": 1},
            "undeclared_failure_codes": {"search": {"TIMEOUT": 2}},
            "circuit": "open", "circuit_until": "2030-01-01T00:00:01Z", "circuit_error": "TIMEOUT"}"#;
        assert_eq!(
            shown(whole),
            [
                "shop",
                "http",
                "apply,external",
                "worker",
                "quarantined until 2030-01-01T00:00:00Z",
                "0",
                "5",
                "crashed with SIGSEGV (signal 11)",
                "open until 2030-01-01T00:00:01Z: TIMEOUT",
                "SOLD_OUT 3, TIMEOUT 1, search TIMEOUT 2"
            ]
        );
        let bare =
            r#"{"adapter_id": "a\u001b[2J", "capabilities": [], "until": null, "last_end": null}"#;
        let bare = shown(bare);
        assert!(bare[0].starts_with('a') && !bare[0].contains('\u{1b}'), "{bare:?}");
        assert_eq!(bare[1..], ["-"; 9]);
        assert_eq!(shown("1"), ["-"; 10]);
    }

    #[test]
    fn failed_adapters_have_their_reason_and_remedy() {
        let text = r#"{"adapter_id": "bad", "state": "failed", "reason": "LIBRARY_CRASHED",
            "message": "it crashed", "hint": "do not load it"}"#;
        let failed = parse(text.as_bytes(), Limits::REQUEST).unwrap();
        assert_eq!(row(&failed)[4], "failed: LIBRARY_CRASHED");
        assert_eq!(failure(&failed), ["bad failed: it crashed", "  hint: do not load it"]);
        let text = r#"{"adapter_id": "shop", "state": "disabled", "contract": "shop",
            "reason": "CONTRACT_REMOVED", "message": "it was removed", "hint": "freeze it"}"#;
        let disabled = parse(text.as_bytes(), Limits::REQUEST).unwrap();
        assert_eq!(row(&disabled)[4], "disabled: CONTRACT_REMOVED");
        assert_eq!(failure(&disabled), ["shop is disabled: it was removed", "  hint: freeze it"]);
        let ready = parse(br#"{"adapter_id": "good", "state": "ready"}"#, Limits::REQUEST).unwrap();
        assert!(failure(&ready).is_empty());
    }
}

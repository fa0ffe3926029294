//! `nexus-router role decide`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::files::read_named;
use crate::json::{self, Limits, Object, Value};
use crate::role::{Request, decide};

/// The most that requests may take, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The members of a request, all of which are needed.
const MEMBERS: [&str; 5] =
    ["action", "network_requested", "plan_authorized", "policy_gate", "role"];

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The file of requests, one JSON object per line, or - for standard input.
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let shown = arguments.file.display();
    let bytes = read_named(&arguments.file, MAX_BYTES).map_err(|error| {
        Error::usage(format!("cannot read {shown}: {error}"), "name a file of requests, or -")
    })?;
    if bytes.len() > MAX_BYTES {
        let message = format!("{shown} is longer than {MAX_BYTES} bytes");
        return Err(Error::usage(message, "ask in several calls"));
    }
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let mut text = String::new();
    let mut all = true;
    for (index, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let decision = answer(line).map_err(|problem| {
            let hint = format!("a request has exactly {}", MEMBERS.join(", "));
            Error::usage(format!("{shown}, line {}: {problem}", index + 1), hint)
        })?;
        all &= decision.get("allow") == Some(&Value::Bool(true));
        text.push_str(&json::to_compact(&decision));
        text.push('\n');
    }
    if text.is_empty() {
        return Err(Error::usage(
            format!("{shown} has no request"),
            "write one JSON object per line",
        ));
    }
    Output::new(environment).text(&text)?;
    Ok(if all { Answer::Yes } else { Answer::No })
}

fn answer(line: &[u8]) -> Result<Value, String> {
    let request = json::parse(line, Limits::REQUEST).map_err(|error| error.to_string())?;
    let request = request.as_object().ok_or("it is no object")?;
    if let Some(name) = request.keys().find(|name| !MEMBERS.contains(name)) {
        return Err(format!("there is no member {name}"));
    }
    let text = |name: &str| {
        request.get(name).and_then(Value::as_str).ok_or(format!("{name} is no string"))
    };
    let flag = |name: &str| {
        request
            .get(name)
            .and_then(Value::as_bool)
            .ok_or(format!("{name} is neither true nor false"))
    };
    let decision = decide(Request {
        role: text("role")?,
        action: text("action")?,
        plan_authorized: flag("plan_authorized")?,
        policy_gate: flag("policy_gate")?,
        network_requested: flag("network_requested")?,
    });
    let mut object = Object::new();
    object.insert("allow", decision.allow);
    object.insert("reason", decision.reason.code());
    object.insert("explanation", decision.reason.to_string());
    Ok(Value::Object(object))
}

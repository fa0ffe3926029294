//! `nexus-router tool check` and `register`: tool specs at the gates.

use std::path::{Path, PathBuf};

use super::super::interface::tell_findings;
use super::super::output::{Format, Output, tell};
use super::super::{Answer, Error};
use super::Place;
use crate::app::Judged;
use crate::config::Environment;
use crate::files;
use crate::interface::Verified;
use crate::json::{Object, Value};
use crate::mapping::{Fragment, Known, MAX_BYTES, Violation, check_mapping};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct CheckArguments {
    /// The tool specs.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The files are only mappings: `execution_mode`, `adapter_id`, `adapter_operation` and
    /// `adapter_contract_version`. Only the mapping rules are looked at, and nothing is recorded.
    #[arg(long)]
    mapping: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(in crate::cli) struct RegisterArguments {
    /// The tool specs.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

/// A file, and what came of it.
type Row = (String, Judged);

pub(super) fn check(
    arguments: &CheckArguments,
    environment: &Environment,
) -> Result<Answer, Error> {
    let texts = texts(&arguments.files)?;
    let app = arguments.place.app(environment)?;
    if arguments.mapping {
        return mappings(&texts, &app.verified_contracts()?, arguments.format, environment);
    }
    let judged = app.check_tools(&texts.1)?;
    let rows: Vec<Row> = texts.0.into_iter().zip(judged).collect();
    tell_all(&rows, "passes", arguments.format, environment)
}

pub(super) fn register(
    arguments: &RegisterArguments,
    environment: &Environment,
) -> Result<Answer, Error> {
    let texts = texts(&arguments.files)?;
    let app = arguments.place.app(environment)?;
    let judged = app.register_tools(&texts.1)?;
    let all = judged.iter().all(Judged::passed);
    if !all {
        tell("nothing was registered");
    }
    let rows: Vec<Row> = texts.0.into_iter().zip(judged).collect();
    let passed = if all { "is registered" } else { "passes" };
    let answer = tell_all(&rows, passed, arguments.format, environment)?;
    if all {
        let registered = rows.iter().filter_map(|(_, judged)| judged.tool_id.as_ref());
        let registered: Vec<&String> = registered.collect();
        for standing in app.registered()? {
            let Some(why) = &standing.unavailable else { continue };
            if registered.contains(&&standing.tool_id) {
                tell(&visible(&format!("{} is unavailable: no adapter: {why}", standing.tool_id)));
            }
        }
    }
    Ok(answer)
}

/// Reads all files, or tells which cannot be read; returns their names and their texts.
fn texts(files: &[PathBuf]) -> Result<(Vec<String>, Vec<Vec<u8>>), Error> {
    let read = |path: &PathBuf| {
        let text =
            files::read_bounded(path, MAX_BYTES).map_err(|error| unreadable(path, &error))?;
        Ok((path.display().to_string(), text))
    };
    files.iter().map(read).collect()
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot read {}: {error}", path.display());
    Error::usage(message, "check the path, and that this user may read it")
}

fn mappings(
    texts: &(Vec<String>, Vec<Vec<u8>>),
    Verified { interfaces, unusable, .. }: &Verified,
    format: Format,
    environment: &Environment,
) -> Result<Answer, Error> {
    let builtins: Vec<&str> = crate::app::TOOLS.iter().map(|tool| tool.id).collect();
    let invalid = unusable.invalid_ids();
    let known = Known::new(interfaces, &builtins).with_unfrozen(&invalid);
    let (mut rows, mut readable) = (Vec::new(), true);
    for (file, text) in texts.0.iter().zip(&texts.1) {
        match Fragment::read(text) {
            Ok(fragment) => {
                let violations = check_mapping(&fragment, &known);
                rows.push((file.clone(), Judged { tool_id: None, violations, record: None }));
            }
            Err(findings) => {
                tell_findings(file, &findings);
                readable = false;
            }
        }
    }
    let answer = tell_all(&rows, "passes", format, environment)?;
    Ok(if readable { answer } else { Answer::No })
}

fn tell_all(
    rows: &[Row],
    passed: &str,
    format: Format,
    environment: &Environment,
) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    let all = rows.iter().all(|(_, judged)| judged.violations.is_empty());
    match format {
        Format::Json => {
            let list: Vec<Value> = rows.iter().map(as_json).collect();
            output.value(&list.into())?;
        }
        Format::Github => {
            for (file, judged) in rows {
                for violation in &judged.violations {
                    output.line(&visible(&format!(
                        "::error file={file},title={}::{violation}",
                        violation.code
                    )))?;
                }
            }
        }
        Format::Human => {
            for (file, judged) in rows {
                for violation in &judged.violations {
                    output.line(&visible(&format!("✗ {file}: {}", told(violation))))?;
                }
                if judged.violations.is_empty() {
                    let shown = judged.tool_id.as_deref().unwrap_or(file);
                    output.line(&visible(&format!("✓ {shown} {passed}")))?;
                }
                if let Some(record) = &judged.record {
                    tell(&format!("recorded as {record}; nexus-router tool records prints it"));
                }
            }
        }
    }
    Ok(if all { Answer::Yes } else { Answer::No })
}

fn told(violation: &Violation) -> String {
    let gate = violation.gate.number();
    match violation.rule {
        Some(rule) => format!("gate {gate}, rule {rule}: {violation}"),
        None => format!("gate {gate}: {violation}"),
    }
}

fn as_json((file, judged): &Row) -> Value {
    let mut object = Object::with_capacity(5);
    object.insert("file", file.as_str());
    object.insert("tool_id", judged.tool_id.as_deref());
    object.insert("ok", judged.violations.is_empty());
    object.insert("record", judged.record.as_deref());
    let violation = |violation: &Violation| {
        let mut object = Object::with_capacity(6);
        object.insert("gate", u32::from(violation.gate.number()));
        object.insert("rule", violation.rule.map(u32::from));
        object.insert("check_id", violation.check_id);
        object.insert("code", violation.code);
        object.insert("pointer", violation.pointer.as_str());
        object.insert("message", violation.message.as_str());
        Value::Object(object)
    };
    object.insert("violations", judged.violations.iter().map(violation).collect::<Vec<_>>());
    object.into()
}

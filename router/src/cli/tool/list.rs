//! `nexus-router tool list` and `show`.

use super::super::output::{Form, Output, columns, shortened, tell};
use super::super::{Answer, Error};
use super::Place;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::register::Standing;

#[derive(clap::Args)]
pub(in crate::cli) struct ListArguments {
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(in crate::cli) struct ShowArguments {
    /// The tool.
    name: String,
    #[command(flatten)]
    place: Place,
}

pub(super) fn list(arguments: &ListArguments, environment: &Environment) -> Result<Answer, Error> {
    let standings = arguments.place.app(environment)?.registered()?;
    let mut output = Output::new(environment);
    if arguments.format == Form::Json {
        let list: Vec<Value> = standings.iter().map(as_json).collect();
        output.value(&list.into())?;
        return Ok(Answer::Yes);
    }
    let mut rows = vec![["TOOL", "VERSION", "CARRIED OUT BY", "STATE"].map(str::to_owned).to_vec()];
    rows.extend(standings.iter().map(|standing| {
        let state = match (&standing.disabled, &standing.unavailable) {
            (None, None) => "enabled".to_owned(),
            (None, Some(_)) => "unavailable: no adapter".to_owned(),
            (Some(reason), _) => shortened(&visible(&format!("disabled: {reason}"))),
        };
        let target = target(standing);
        vec![standing.tool_id.clone(), standing.entry.version.clone(), target, state]
    }));
    for line in columns(&rows) {
        output.line(&line)?;
    }
    Ok(Answer::Yes)
}

pub(super) fn show(arguments: &ShowArguments, environment: &Environment) -> Result<Answer, Error> {
    let standings = arguments.place.app(environment)?.registered()?;
    let Some(standing) = standings.iter().find(|standing| standing.tool_id == arguments.name)
    else {
        let name = &arguments.name;
        tell(&format!("there is no registered tool {name}; nexus-router tool list lists them"));
        return Ok(Answer::No);
    };
    Output::new(environment).value(&as_json(standing))?;
    Ok(Answer::Yes)
}

fn target(standing: &Standing) -> String {
    let Some(document) = &standing.document else { return "-".to_owned() };
    match (&document.adapter_id, &document.adapter_operation) {
        (Some(adapter), Some(operation)) => format!("{adapter}.{operation}"),
        _ => {
            let target = document.execution_target.as_ref();
            target.and_then(|target| target.service.clone()).unwrap_or_else(|| "-".to_owned())
        }
    }
}

fn as_json(standing: &Standing) -> Value {
    let mut object = Object::with_capacity(9);
    object.insert("tool_id", standing.tool_id.as_str());
    object.insert("version", standing.entry.version.as_str());
    object.insert("sha256", standing.entry.digest.to_string());
    object.insert("registered_at", standing.entry.registered_at.as_str());
    object.insert("enabled", standing.disabled.is_none());
    let (disabled, unavailable) = (standing.disabled.as_deref(), standing.unavailable.as_deref());
    object.insert("available", disabled.is_none() && unavailable.is_none());
    object.insert("reason", disabled.or(unavailable));
    let rule = standing.refused.as_ref().and_then(|report| report.violations.first());
    object.insert("check_id", rule.map(|violation| violation.check_id));
    let document = standing.document.as_ref().map(|document| document.document.clone());
    object.insert("spec", document.unwrap_or(Value::Null));
    object.into()
}

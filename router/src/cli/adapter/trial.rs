//! `nexus-router adapter try REF TOOL METHOD`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::output::{Format, Output, tell};
use super::super::{Answer, Error};
use super::{Target, read_object};
use crate::code;
use crate::config::Environment;
use crate::loader::{Call, Notice, Trial};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The tool.
    tool: String,
    /// The method of the tool.
    method: String,
    /// The arguments as a JSON object, or @FILE to read them from a file.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Ask the adapter only to pretend.
    #[arg(long)]
    dry_run: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let config = arguments.target.config()?;
    let args = read_object("--args", &arguments.args)?;
    let loader = arguments.target.loader(environment)?;
    // The adapter should give up by itself before it is killed.
    let limit = loader.limits.time;
    let time = limit - (limit / 4).min(Duration::from_millis(500));
    let call = Call {
        time: Some(time),
        dry_run: arguments.dry_run,
        ..Call::new(&arguments.tool, &arguments.method, &args)
    };
    let trial = loader.try_call(&arguments.target.request(&config), &call)?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => output.json(&as_json(&trial))?,
        Format::Human | Format::Github => human(&mut output, &trial)?,
    }
    Ok(if trial.answer.is_ok() { Answer::Yes } else { Answer::No })
}

fn as_json(trial: &Trial) -> Value {
    let mut report = match &trial.answer {
        Ok(output) => json!({ "output": output }),
        Err(error) => json!({ "error": error }),
    };
    report["notices"] = json!(trial.notices);
    report["printed"] = trial.printed.as_str().into();
    report
}

fn human(output: &mut Output, trial: &Trial) -> std::io::Result<()> {
    for notice in &trial.notices {
        match notice {
            Notice::Log { level, message, .. } => {
                tell(&format!("{}: {}", visible(level), visible(message)));
            }
            Notice::Progress { done, total: Some(total), message, .. } => {
                tell(&format!("progress: {done} of {total} {}", visible(message)));
            }
            Notice::Progress { done, message, .. } => {
                tell(&format!("progress: {done} {}", visible(message)));
            }
            Notice::CatalogChanged {} => tell("the catalogue changed"),
            Notice::ResourceUpdated { uri } => tell(&format!("changed: {}", visible(uri))),
            Notice::Output { text, .. } => tell(&format!("output: {}", visible(text.trim_end()))),
        }
    }
    match &trial.answer {
        Ok(object) => output.json(&Value::Object(object.clone())),
        Err(error) => {
            tell(&format!("error[{}]: {}", visible(&error.code), visible(&error.message)));
            let adapters = |known: &code::Code| known.kind == code::Kind::Adapter;
            if let Some(known) = code::find(&error.code).find(adapters) {
                tell(&format!("hint: {}", known.remedy));
            }
            if !error.details.is_empty() {
                let details = Value::Object((*error.details).clone()).to_string();
                tell(&format!("details: {}", visible(&details)));
            }
            Ok(())
        }
    }
}

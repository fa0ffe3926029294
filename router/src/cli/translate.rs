//! `nexus-router translate TARGET FILE`.

use std::path::PathBuf;

use nexus_router_sdk::translate::{MAX_BYTES, is_canonical};
use nexus_router_sdk::translator::{RENDER, TOOL};
use nexus_router_sdk::{AdapterError, Object};
use serde_json::{Value, json};

use super::adapter::{Search, read_object};
use super::output::{Form, Output, tell};
use super::{Answer, Error};
use crate::config::Environment;
use crate::files;
use crate::loader::{Call, LoadRequest};
use crate::python_text::visible;

const EXAMPLES: &str = "\
Examples:
  nexus-router translate anthropic canonical.json --config '{\"api_version\": \"2026-10-21\", \
\"model\": \"claude-sonnet-5\", \"max_tokens\": 1024}'
  nexus-router translate openai.responses canonical.json --config @binding.json
  nexus-router translate my_translator:create_adapter canonical.json --config @binding.json --format json

The payload goes to standard output, byte by byte and without a line feed after it: `sha256sum` of it is the
digest that is told. It is the same call as `adapter try REF translate render`, in a confined child.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The target: openai, openai.responses, anthropic, gemini, ollama or llama.cpp; or the factory of a translator.
    target: String,
    /// The canonical document, or - for standard input.
    file: PathBuf,
    /// The binding as a JSON object, or @FILE to read it from a file. Nothing in it has a default.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    config: String,
    /// The format of the answer: the payload alone, or all of it as JSON.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    search: Search,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let config = Value::Object(read_object("--config", &arguments.config)?);
    let shown = arguments.file.display();
    let bytes = files::read_named(&arguments.file, MAX_BYTES)
        .map_err(|error| Error::usage(format!("cannot read {shown}: {error}"), "check the path"))?;
    let mut output = Output::new(environment);
    // What is no text, or too long, cannot be the argument of a call; it is refused by the same rule here.
    let document = match String::from_utf8(bytes) {
        Ok(text) if text.len() <= MAX_BYTES => text,
        Ok(text) => return refuse(&mut output, arguments, &unreadable(text.as_bytes())),
        Err(error) => return refuse(&mut output, arguments, &unreadable(error.as_bytes())),
    };
    let loader = arguments.search.loader(environment)?;
    let factory_ref = factory_ref(&arguments.target);
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
    let args = Object::from_iter([("document".to_owned(), document.into())]);
    let trial = loader.try_call(&request, &Call::new(TOOL, RENDER, &args))?;
    match &trial.answer {
        Ok(rendered) => show(&mut output, arguments.format, rendered)?,
        Err(error) => return refuse(&mut output, arguments, error),
    }
    Ok(Answer::Yes)
}

/// Returns the factory of a target: the library is named like it.
fn factory_ref(target: &str) -> String {
    if target.contains(':') {
        return target.to_owned();
    }
    format!("nexus_router_adapter_{}:create_adapter", target.replace(['.', '-'], "_"))
}

fn unreadable(bytes: &[u8]) -> AdapterError {
    match is_canonical(bytes) {
        Err(refusal) => {
            AdapterError::operational(refusal.rule.code, refusal.message).details(json!({
                "pointer": refusal.pointer,
                "offset": refusal.offset,
                "rule": refusal.rule.meaning,
                "hint": refusal.rule.remedy,
            }))
        }
        Ok(()) => AdapterError::bug("a document was taken for unreadable that is not"),
    }
}

fn show(output: &mut Output, format: Form, rendered: &Object) -> std::io::Result<()> {
    if format == Form::Json {
        return output.json(&Value::Object(rendered.clone()));
    }
    let text = |pointer: &[&str]| {
        let mut found = rendered.get(pointer[0]);
        for name in &pointer[1..] {
            found = found.and_then(|value| value.get(name));
        }
        visible(found.and_then(Value::as_str).unwrap_or_default())
    };
    tell(&format!("sha256:  {}", text(&["sha256"])));
    tell(&format!("of:      {}", text(&["canonical_sha256"])));
    tell(&format!("table:   {}", text(&["table"])));
    tell(&format!("goes to: POST {}", text(&["endpoint", "path"])));
    output.text(rendered.get("payload").and_then(Value::as_str).unwrap_or_default())
}

fn refuse(
    output: &mut Output,
    arguments: &Arguments,
    error: &AdapterError,
) -> Result<Answer, Error> {
    if arguments.format == Form::Json {
        output.json(&json!({ "error": error }))?;
        return Ok(Answer::No);
    }
    let detail = |name: &str| error.details.get(name).and_then(Value::as_str).map(visible);
    tell(&format!("error[{}]: {}", visible(&error.code), visible(&error.message)));
    for (label, name) in [("at", "pointer"), ("rule", "rule"), ("hint", "hint")] {
        if let Some(text) = detail(name) {
            tell(&format!("{label}: {text}"));
        }
    }
    Ok(Answer::No)
}

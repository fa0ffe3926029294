//! `nexus-router translate TARGET FILE`.

use std::path::{Path, PathBuf};

use nexus_router_sdk::translate::{MAX_BYTES, is_canonical, rule, target};
use nexus_router_sdk::translator::{RENDER, TOOL, Translating};
use nexus_router_sdk::{AdapterError, Object};
use serde_json::{Value, json};

use super::adapter::{Search, read_object};
use super::output::{Form, Output, tell};
use super::{Answer, Error};
use crate::config::Environment;
use crate::files;
use crate::loader::{Call, LoadRequest, Loader, Reason};
use crate::python_text::visible;

const EXAMPLES: &str = "\
Examples:
  nexus-router translate anthropic canonical.json --config '{\"api_version\": \"2026-10-21\", \
\"model\": \"claude-sonnet-5\", \"max_tokens\": 1024}'
  nexus-router translate openai.responses canonical.json --config @binding.json
  nexus-router translate my_translator:create_adapter canonical.json --config @binding.json --format json

The payload goes to standard output, byte by byte and without a line feed after it: `sha256sum` of it is the
digest that is told. The program renders for its own targets itself and needs no file but the document. A factory
is called as by `adapter try REF translate render`, in a confined child.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The target: openai, openai.responses, anthropic, gemini, gemini.interactions, ollama or llama.cpp; or the factory of
    /// a translator.
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
    let config = read_object("--config", &arguments.config)?;
    let mut output = Output::new(environment);
    let bytes = match read_document(&arguments.file)? {
        DocumentInput::Whole(bytes) => bytes,
        DocumentInput::TooLarge(size) => {
            return refuse(&mut output, arguments, &too_large(size));
        }
    };
    let answer = match target::find(&arguments.target) {
        Some(target) => Translating::new(target, None, config)
            .map_err(|error| unbound(&arguments.target, &error))?
            .render_document(&bytes),
        None => call_library(arguments, environment, &Value::Object(config), bytes)?,
    };
    match answer {
        Ok(rendered) => show(&mut output, arguments.format, &rendered)?,
        Err(error) => return refuse(&mut output, arguments, &error),
    }
    Ok(Answer::Yes)
}

/// What was read of a document.
enum DocumentInput {
    /// All of it.
    Whole(Vec<u8>),
    /// Nothing, since it is too large: its size, if that is known.
    TooLarge(Option<u64>),
}

fn read_document(path: &Path) -> Result<DocumentInput, Error> {
    let shown = path.display();
    let bytes = files::read_named(path, MAX_BYTES)
        .map_err(|error| Error::usage(format!("cannot read {shown}: {error}"), "check the path"))?;
    if bytes.len() <= MAX_BYTES {
        return Ok(DocumentInput::Whole(bytes));
    }
    // Reading ends behind the limit, so the size is that of the file; a pipe has none.
    let size = std::fs::metadata(path).ok().filter(|it| it.is_file() && path.as_os_str() != "-");
    let size = size.map(|metadata| metadata.len()).filter(|size| *size > MAX_BYTES as u64);
    Ok(DocumentInput::TooLarge(size))
}

/// Calls the library of a translator in a confined child.
fn call_library(
    arguments: &Arguments,
    environment: &Environment,
    config: &Value,
    bytes: Vec<u8>,
) -> Result<Result<Object, AdapterError>, Error> {
    // What is not text cannot be the argument of a call; it is refused by the same rule here.
    let document = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Ok(Err(unreadable(error.as_bytes()))),
    };
    let loader = arguments.search.loader(environment)?;
    let factory_ref = factory_ref(&arguments.target);
    let request = LoadRequest { factory_ref: &factory_ref, adapter_id: None, config, pin: None };
    let args = Object::from_iter([("document".to_owned(), document.into())]);
    let call = Call::new(TOOL, RENDER, &args);
    match loader.try_call(&request, &call) {
        Err(error) if error.reason() == Reason::CacheUnusable => {
            // The private copy of the library is for this call alone, so any private place will do.
            let Ok(place) = tempfile::tempdir() else { return Err(error.into()) };
            let loader = Loader { cache_dir: place.path().to_owned(), ..loader };
            Ok(loader.try_call(&request, &call)?.answer)
        }
        tried => Ok(tried?.answer),
    }
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

fn too_large(size: Option<u64>) -> AdapterError {
    let rule = rule::TOO_LARGE;
    let size = size.map_or_else(|| format!("more than {MAX_BYTES}"), |size| size.to_string());
    let message = format!("the document: it has {size} bytes; the limit is {MAX_BYTES}");
    AdapterError::operational(rule.code, message).details(json!({
        "pointer": "",
        "offset": MAX_BYTES,
        "rule": rule.meaning,
        "hint": rule.remedy,
    }))
}

fn unbound(target: &str, error: &AdapterError) -> Error {
    let hint = error.details.get("hint").and_then(Value::as_str).unwrap_or_default();
    let message =
        format!("--config is not a binding of {target}: {}: {}", error.code, error.message);
    Error::usage(message, hint)
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
    tell(&format!("binding: {}", text(&["binding_sha256"])));
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

//! `nexus-router contract list`: the contracts of a manifest.

use super::super::output::{Form, Output, tell};
use super::super::{Answer, Error};
use super::fetch::{FetchOptions, shown_url};
use super::manifest::{Keys, Unread, tell_all};
use crate::config::Environment;
use crate::json::{Object, Value, to_indented, to_repr};
use crate::python_text::visible;
use crate::signal::Trust;
use crate::signal::manifest::{HashStatus, Malformed, Row, check_row, entries};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The manifest: a file, or with --fetch an https:// URL.
    #[arg(long, value_name = "FILE")]
    manifest: Option<String>,
    /// The same, as the AiGentsy tools name a manifest on the network.
    #[arg(long, value_name = "URL", conflicts_with = "manifest")]
    from: Option<String>,
    #[command(flatten)]
    fetch: FetchOptions,
    #[command(flatten)]
    keys: Keys,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let Some(path) = arguments.manifest.as_ref().or(arguments.from.as_ref()) else {
        let hint = "name a file with --manifest, or an https:// URL with --fetch --manifest";
        return Err(Error::usage("there is no manifest to list", hint));
    };
    let Some(trust) = arguments.keys.trust()? else { return Ok(Answer::No) };
    let document = match arguments.fetch.read(path) {
        Ok(document) => document,
        Err(unread @ Unread::Malformed(_, Malformed::NoObject(_))) => return unread.answer(),
        Err(unread) => return Err(unread.into()),
    };
    let name = shown_url(path);
    let entries = match entries(&document) {
        Ok(entries) => entries,
        Err(wrong) => {
            tell_all(&name, &wrong);
            return Ok(Answer::No);
        }
    };
    let wrong = unlistable(&entries);
    if !wrong.is_empty() {
        tell_all(&name, &wrong);
        return Ok(Answer::No);
    }
    let rows: Vec<Row> = (entries.iter().enumerate())
        .map(|(index, entry)| check_row(index, entry, &trust))
        .collect();
    let mut output = Output::new(environment);
    if arguments.format == Form::Json {
        let listed = entries.iter().zip(&rows).map(|(entry, row)| as_json(entry, row));
        output.line(&to_indented(&Value::Array(listed.collect())))?;
        return Ok(Answer::Yes);
    }
    let mut text = header(&document, entries.len());
    for (entry, row) in entries.iter().zip(&rows) {
        text.push_str(&paragraph(entry, row, &trust));
    }
    text.push_str("NOTE: ");
    text.push_str(match trust.is_somebody() {
        true => "this list shows what the manifest says; nexus-router contract manifest verify holds it to its hash.",
        false => {
            "NOTHING here was verified: no key was given. nexus-router contract manifest verify --require-signature does."
        }
    });
    output.line(&text)?;
    if rows.iter().any(|row| matches!(row.hash, HashStatus::Mismatch { .. })) {
        tell(
            "warning: entries were changed after they were hashed; nexus-router contract manifest verify tells which",
        );
    }
    Ok(Answer::Yes)
}

/// Returns the hashes that cannot be shown, as they are no texts.
fn unlistable(entries: &[&Object]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        for key in ["contract_hash", "input_schema_hash"] {
            if let Some(other) = entry.get(key).filter(|hash| hash.as_str().is_none()) {
                let kind = other.type_name();
                wrong.push(format!("contracts/{index}/{key} is {kind}, and must be a text"));
            }
        }
    }
    wrong
}

fn header(manifest: &Object, count: usize) -> String {
    let said = |key: &str| manifest.get(key).map_or_else(|| "?".to_owned(), shown);
    format!(
        "manifest_version: {}\ngenerated_at:     {}\ncontracts:        {count}\n\n",
        said("manifest_version"),
        said("generated_at")
    )
}

fn paragraph(entry: &Object, row: &Row, trust: &Trust) -> String {
    let status = entry.get("status").map_or_else(|| "active".to_owned(), shown);
    let said = |key: &str, absent: &str| entry.get(key).map_or_else(|| absent.to_owned(), shown);
    let marker = match status.as_str() {
        "active" => "[active]    ".to_owned(),
        "deprecated" => "[DEPRECATED]".to_owned(),
        "revoked" => "[REVOKED]   ".to_owned(),
        other => format!("[{other}]"),
    };
    let name = format!("{}@{}", said("adapter_id", "None"), said("adapter_version", "None"));
    let mut text = format!("  {marker} {name}\n");
    let mut line = |label: &str, value: &str| {
        text.push_str(&format!("    {:<22}{value}\n", format!("{label}:")));
    };
    line("status", &status);
    let channel = entry.get("distribution_channel").filter(|it| is_something(it)).map(shown);
    line("distribution_channel", channel.as_deref().unwrap_or("-"));
    for key in ["replaced_by", "supersedes"] {
        if let Some(pointer) = entry.get(key).filter(|pointer| is_something(pointer)) {
            line(key, &shown(pointer));
        }
    }
    for key in ["contract_hash", "input_schema_hash"] {
        let hash: String =
            entry.get(key).and_then(Value::as_str).unwrap_or_default().chars().take(16).collect();
        line(key, &format!("{}…", visible(&hash)));
    }
    line("declaration_url", &said("declaration_url", "-"));
    let is_replaced = entry.get("replaced_by").is_some_and(is_something);
    match status.as_str() {
        "deprecated" => line("advice", "deprecated — replacement encouraged for new work"),
        "revoked" => {
            line(
                "advice",
                "revoked — new adoption BLOCKED; replay of historical bundles unaffected",
            );
        }
        "active" if is_replaced => {
            line("advice", "superseded — newer version available; adoption still allowed");
        }
        _ => {}
    }
    if trust.is_somebody() {
        line("entry_hash", row.hash.name());
        line("entry_signature", &format!("{}: {}", row.signature.name(), row.signature.meaning()));
    }
    text.push('\n');
    text
}

fn as_json(entry: &Object, row: &Row) -> Value {
    let mut listed = Object::with_capacity(10);
    for key in ["adapter_id", "adapter_version", "status", "distribution_channel"] {
        listed.insert(key, entry.get(key).cloned());
    }
    if !entry.contains_key("status") {
        listed.insert("status", "active");
    }
    for key in ["replaced_by", "supersedes", "contract_hash", "input_schema_hash", "publisher_id"] {
        listed.insert(key, entry.get(key).cloned());
    }
    listed.insert("entry_hash_status", row.hash.name());
    listed.insert("entry_signature_status", row.signature.name());
    listed.into()
}

/// Says whether Python takes a value for true.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => false,
        Value::Float(float) => *float != 0.0,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Int(_) | Value::BigInt(_) => true,
    }
}

/// Returns a value as people see it, on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        other => to_repr(other),
    }
}

//! `nexus-router contract diff OLD NEW`.

use std::path::{Path, PathBuf};

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::report::{annotation, one, print};
use crate::config::Environment;
use crate::interface::Class;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::signal::{Compatibility, Step, Unordered, contract_hash, differences};

/// What the default form says about itself.
const NOTE: &str = "The hash covers no lifecycle key, so a change of those alone keeps it. With another contract_hash the \
                    contract needs a higher adapter_version: nexus-router contract bump; nexus-router contract diff \
                    --format human tells how much higher.";

const HELP: &str = "\
Examples:
  nexus-router contract diff old.json new.json
  nexus-router contract diff old.json new.json --format human

With --format it is also judged whether the version says how much changed, and the exit code is 1 if it says too little:
what was relied on is gone (major), there is more than before (minor), neither (patch). What no hash covers may change
within a version.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct Arguments {
    /// The older contract.
    old: PathBuf,
    /// The newer contract.
    new: PathBuf,
    /// The format of the answer [default: the JSON of the AiGentsy tools, without a verdict].
    #[arg(long, value_enum)]
    format: Option<Format>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let load = |path: &Path| {
        let missing = format!("both files must exist: there is no {}", path.display());
        one(path, &missing, "parse: ")
    };
    let (old, new) = (load(&arguments.old)?, load(&arguments.new)?);
    let hash = |contract: &Object| {
        contract_hash(contract).map_err(|error: Unordered| {
            Error::usage(error.to_string(), "nexus-router contract lint tells what is wrong")
        })
    };
    let hashes = [hash(&old)?, hash(&new)?];
    let mut output = Output::new(environment);
    let Some(format) = arguments.format else {
        print(&mut output, peer(&old, &new, &hashes))?;
        return Ok(Answer::Yes);
    };
    let verdict = Compatibility::of(&old, &new);
    match format {
        Format::Json => print(&mut output, json(&verdict, &old, &new, &hashes))?,
        Format::Human => {
            for change in &verdict.changes {
                let (class, pointer) = (change.class.name(), &change.pointer);
                output.line(&visible(&format!("{class:<5}  {pointer}: {}", change.message)))?;
            }
            output.line(&visible(&sentence(&verdict, &old, &new)))?;
        }
        Format::Github => {
            let file = arguments.new.display().to_string();
            for change in verdict.changes.iter().filter(|change| change.hashed) {
                let message = format!("{}: {} ({})", change.pointer, change.message, change.class);
                output.line(&annotation("notice", &file, &message))?;
            }
            if !verdict.ok() {
                output.line(&annotation("error", &file, &sentence(&verdict, &old, &new)))?;
            }
        }
    }
    Ok(if verdict.ok() { Answer::Yes } else { Answer::No })
}

/// The form of the AiGentsy tools.
fn peer(old: &Object, new: &Object, hashes: &[String; 2]) -> Object {
    let changes: Vec<Value> = differences(old, new)
        .iter()
        .map(|difference| {
            let mut object = Object::with_capacity(4);
            object.insert("field", difference.field);
            object.insert("kind", difference.kind());
            object.insert("old", difference.old.cloned());
            object.insert("new", difference.new.cloned());
            object.into()
        })
        .collect();
    let mut report = Object::with_capacity(7);
    report.insert("ok", true);
    report.insert("diff_field_count", changes.len());
    report.insert("changes", changes);
    recomputed(&mut report, hashes);
    report.insert("note", NOTE);
    report
}

/// Our own form, with the verdict.
fn json(verdict: &Compatibility, old: &Object, new: &Object, hashes: &[String; 2]) -> Object {
    let mut report = Object::with_capacity(12);
    report.insert("ok", verdict.ok());
    report.insert("compatibility", verdict.class().map(Class::name));
    report.insert("required_bump", verdict.required().map(Class::name));
    report.insert("declared_bump", verdict.declared.name());
    report.insert("old_version", old.get("adapter_version").cloned());
    report.insert("new_version", new.get("adapter_version").cloned());
    report.insert("next_version", verdict.next.as_deref());
    let changes: Vec<Value> = verdict
        .changes
        .iter()
        .map(|change| {
            let mut object = Object::with_capacity(4);
            object.insert("class", change.class.name());
            object.insert("hashed", change.hashed);
            object.insert("pointer", change.pointer.as_str());
            object.insert("message", change.message.as_str());
            object.into()
        })
        .collect();
    report.insert("changes", changes);
    recomputed(&mut report, hashes);
    report
}

fn recomputed(report: &mut Object, [old, new]: &[String; 2]) {
    report.insert("recomputed_old_contract_hash", old.as_str());
    report.insert("recomputed_new_contract_hash", new.as_str());
    report.insert("hash_changed", old != new);
}

/// Tells whether the version says enough.
fn sentence(verdict: &Compatibility, old: &Object, new: &Object) -> String {
    let version = |contract: &Object| {
        let version = contract.get("adapter_version").and_then(Value::as_str);
        version.unwrap_or("no version").to_owned()
    };
    let versions = format!("{} to {}", version(old), version(new));
    let needed = verdict.required().map_or("patch", Class::name);
    match (verdict.declared, &verdict.next) {
        (Step::Unknown, _) => format!("not ok: {versions}: one of them is no version like 1.0.0"),
        (Step::Lowered, _) => format!("not ok: {versions} goes back"),
        (_, Some(next)) if !verdict.ok() => {
            format!("not ok: {versions} is too little for a {needed} change; call it {next}")
        }
        _ if verdict.changes.is_empty() => format!("ok: {versions}, nothing differs"),
        _ if verdict.required().is_none() => format!("ok: {versions}, no hash covers what differs"),
        _ => format!("ok: {versions} says that it is a {needed} change"),
    }
}

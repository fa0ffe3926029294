//! `nexus-router interface diff OLD NEW`.

use std::path::Path;

use super::super::output::{Form, Output, tell};
use super::super::{Answer, Error};
use super::{Place, lock, read, tell_findings};
use crate::config::Environment;
use crate::interface::{
    Before, Change, Class, EXTENSION, Interface, Shelf, compare, declared_bump, frozen_interface,
    required_bump,
};
use crate::json::{Object, Value};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The older contract: a file, ID for its newest revision in the lock, or ID@VERSION.
    old: String,
    /// The newer contract: a file, ID or ID@VERSION [default: the file of OLD].
    new: Option<String>,
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, _) = arguments.place.open(environment)?;
    let old = find(&shelf, &arguments.old)?;
    let new = match &arguments.new {
        Some(new) => find(&shelf, new)?,
        None => file_of(&shelf, &arguments.old),
    };
    let (Some(old), Some(new)) = (old, new) else { return Ok(Answer::No) };
    let changes = compare(&old, &new);
    let needed = required_bump(&changes);
    let declared = declared_bump(&old.version, &new.version).ok();
    let enough = declared.is_some_and(|declared| declared >= needed);
    let broken = arguments.place.app(environment)?.tools_broken_by(&old, &new)?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => {
            let mut report = Object::with_capacity(7);
            report.insert("ok", enough);
            report.insert("old", old.version.to_string());
            report.insert("new", new.version.to_string());
            report.insert("needed", needed.map(Class::name));
            report.insert("declared", declared.flatten().map(Class::name));
            report.insert("changes", changes.iter().map(as_json).collect::<Vec<_>>());
            let broken: Vec<Value> = broken.iter().map(|name| name.as_str().into()).collect();
            report.insert("broken_tools", broken);
            output.value(&report.into())?;
        }
        Form::Human => {
            for Change { class, pointer, message, .. } in &changes {
                output.line(&visible(&format!("{:<5}  {pointer}: {message}", class.name())))?;
            }
            if !broken.is_empty() {
                output.line(&visible(&format!("breaks the tools {}", broken.join(", "))))?;
            }
            output.line(&verdict(&old, &new, needed, declared.is_some().then_some(enough)))?;
        }
    }
    Ok(if enough { Answer::Yes } else { Answer::No })
}

/// Tells whether the version says enough; none means that it goes back.
fn verdict(
    old: &Interface,
    new: &Interface,
    needed: Option<Class>,
    enough: Option<bool>,
) -> String {
    let versions = format!("{} to {}", old.version, new.version);
    match (needed, enough) {
        (_, None) => format!("not ok: {versions} goes back"),
        (None, Some(_)) => format!("ok: {versions}, nothing differs"),
        (Some(needed), Some(true)) => format!("ok: {versions} says that it is {}", needed.name()),
        (Some(needed), Some(false)) => {
            let mut next = old.version.clone();
            match needed {
                Class::Major => next = semver::Version::new(next.major + 1, 0, 0),
                Class::Minor => next = semver::Version::new(next.major, next.minor + 1, 0),
                Class::Patch => next.patch += 1,
            }
            format!(
                "not ok: {versions} is too little for a {} change; call it {next}",
                needed.name()
            )
        }
    }
}

fn as_json(change: &Change) -> Value {
    let mut object = Object::with_capacity(4);
    object.insert("class", change.class.name());
    object.insert("pointer", change.pointer.as_str());
    object.insert("operation", change.operation.as_deref());
    object.insert("message", change.message.as_str());
    object.into()
}

/// Returns whether a contract is named by its file.
pub(super) fn is_file(named: &str) -> bool {
    named.contains('/') || named.ends_with(".json")
}

/// Returns the contract in the file of an adapter. What is wrong with it is told, and then there is none.
fn file_of(shelf: &Shelf, named: &str) -> Option<Interface> {
    let name = format!("{named}{EXTENSION}");
    match shelf.files.get(&name) {
        Some(Ok(interface)) => Some(interface.clone()),
        Some(Err(findings)) => {
            tell_findings(&name, findings);
            None
        }
        None => {
            tell(&format!("there is no file {name} to compare with: name one"));
            None
        }
    }
}

/// Finds a contract: a file, the revision `ID@VERSION` of the lock, or the newest revision of an adapter. What is wrong
/// with it is told, and then there is none.
pub(super) fn find(shelf: &Shelf, named: &str) -> Result<Option<Interface>, Error> {
    if is_file(named) {
        return match read(Path::new(named))? {
            Ok(interface) => Ok(Some(interface)),
            Err(findings) => {
                tell_findings(named, &findings);
                Ok(None)
            }
        };
    }
    let (id, version) = match named.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (named, None),
    };
    let lock = lock(shelf)?;
    let newest = Before::of(lock, id);
    let found = match version {
        None => newest.as_ref().and_then(|newest| newest.contract).cloned(),
        Some(version) => {
            let revisions = lock.of(id).rev().filter_map(|revision| revision.contract.as_ref());
            let is_meant = |interface: &&Interface| interface.version.to_string() == version;
            revisions.chain(frozen_interface(id)).find(is_meant).cloned()
        }
    };
    if found.is_none() {
        let has_file = shelf.files.contains_key(&format!("{id}{EXTENSION}"));
        tell(&match newest {
            Some(Before { version: newest, contract: None, .. }) if version.is_none() => {
                format!("{id} is removed in the lock, in version {newest}")
            }
            Some(newest) => {
                format!("there is no contract {named}; the newest of {id} is {}", newest.version)
            }
            None if has_file => {
                format!(
                    "{id} is not locked; name its file, or lock it with nexus-router interface freeze"
                )
            }
            None => format!("there is no contract {named}; nexus-router interface list lists them"),
        });
    }
    Ok(found)
}

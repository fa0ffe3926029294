//! Where manifests are made from: files and directories of contracts, of entries, and of other manifests.

use std::io;
use std::path::{Path, PathBuf};

use super::super::entry::text;
use crate::json::{Object, Value};

/// How deep directories are looked into.
const DEPTH: usize = 32;

/// What a document is.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A contract.
    Declaration(Object),
    /// The entry of a contract, signed or not.
    Entry(Object),
    /// A manifest.
    Manifest(Object),
}

impl Source {
    /// Tells what a document is by its members; what `contract attest` prints is the entry in it.
    #[must_use]
    pub fn of(mut document: Object) -> Self {
        if document.contains_key("contracts") {
            return Self::Manifest(document);
        }
        if text(&document, "adapter_contract_version").is_none() {
            if document.get("entry").is_some_and(|entry| entry.as_object().is_some())
                && let Some(Value::Object(entry)) = document.remove("entry")
            {
                return Self::Entry(entry);
            }
            if document.contains_key("entry_schema_version") {
                return Self::Entry(document);
            }
        }
        Self::Declaration(document)
    }
}

/// Says whether a file of a directory is a contract, or the entry of one, by its name.
#[must_use]
pub fn is_named(name: &str) -> bool {
    !name.starts_with('.')
        && (name == "adapter_contract.json"
            || name.ends_with(".adapter_contract.json")
            || name.ends_with(".entry.json"))
}

/// Returns files as they are named, and for a directory those in it that are named as contracts are, in order.
///
/// # Errors
/// When something cannot be looked at, with its path.
pub fn gather(paths: &[PathBuf]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut found = Vec::new();
    for path in paths {
        let file = std::fs::metadata(path).map_err(|error| (path.clone(), error))?;
        match file.is_dir() {
            true => below(path, DEPTH, &mut found)?,
            false => found.push(path.clone()),
        }
    }
    Ok(found)
}

fn below(
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (directory.to_owned(), error);
    let mut children = std::fs::read_dir(directory)
        .map_err(failed)?
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    children.sort_by_key(std::fs::DirEntry::file_name);
    for child in children {
        let name = child.file_name();
        let name = name.to_string_lossy();
        let kind = child.file_type().map_err(|error| (child.path(), error))?;
        // A link to a directory may lead back to it, so it is not followed.
        if kind.is_dir() && depth > 0 && !name.starts_with('.') {
            below(&child.path(), depth - 1, found)?;
        } else if !kind.is_dir() && is_named(&name) {
            found.push(child.path());
        }
    }
    Ok(())
}

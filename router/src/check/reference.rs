//! The adapters that a reference names: a factory, a library or a kind.

use std::collections::BTreeSet;
use std::path::Path;

use super::docs::DocEntry;
use super::list::{Listed, factories_of, list};
use crate::loader::{Adapter, AdapterLoadError, FactoryRef, Loader, Reason};
use crate::near::likeness;

/// Names that are less alike than this are not suggested.
const ALIKE: f64 = 0.8;
/// Suggestions at most.
const MAX_SUGGESTED: usize = 3;
/// Beginning of conventional module names, which says nothing about an adapter.
const CONVENTION: &str = "nexus_router_adapter_";

/// Why a reference names no adapter.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing on the adapter path has that name.
    #[error("no adapter on the adapter path has the ref, the module or the kind '{reference}'")]
    Unknown {
        /// The reference.
        reference: String,
        /// Names that look like it.
        near: Vec<String>,
    },
    /// The adapter is part of the router.
    #[error("{reference} is part of the router; it has no manifest")]
    BuiltIn {
        /// The reference.
        reference: String,
    },
    /// The named library file cannot be read.
    #[error(transparent)]
    Library(#[from] AdapterLoadError),
}

impl ReferenceError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { near, .. } if near.is_empty() => {
                "nexus-router adapter list shows what there is".to_owned()
            }
            Self::Unknown { near, .. } => format!("did you mean {}?", near.join(" or ")),
            Self::BuiltIn { reference } => {
                format!("run nexus-router adapter inspect {reference}")
            }
            Self::Library(error) => error.hint().to_owned(),
        }
    }
}

/// Returns what the documentation needs of the adapters that a reference names: `module:function` is one factory, a
/// module or the path of a library is all its factories, and a kind is all factories of that kind.
///
/// # Errors
/// When the reference names nothing that can be documented.
pub fn doc_entries_of(loader: &Loader, reference: &str) -> Result<Vec<DocEntry>, ReferenceError> {
    if Adapter::is_built_in(reference) {
        return Err(ReferenceError::BuiltIn { reference: reference.to_owned() });
    }
    let named = match file_of(reference) {
        Some((file, function)) => in_file(file, function, reference)?,
        None => {
            let listed = list(loader).into_iter().filter(|entry| entry.path.is_some());
            let (named, others): (Vec<_>, Vec<_>) =
                listed.partition(|entry| names_of(entry).contains(&reference));
            if named.is_empty() {
                return Err(unknown(reference, &others));
            }
            named
        }
    };
    Ok(named.into_iter().map(DocEntry::from).collect())
}

/// Returns the library file that a reference names by its path, and the function if it names one.
fn file_of(reference: &str) -> Option<(&Path, Option<&str>)> {
    let with_function = FactoryRef::parse(reference).ok();
    if let Some(file) = with_function.as_ref().and_then(FactoryRef::file) {
        let (file, function) = reference.split_at(file.as_os_str().len());
        return Some((Path::new(file), function.strip_prefix(':')));
    }
    let alone = FactoryRef::new(reference, "");
    alone.file().is_some().then(|| (Path::new(reference), None))
}

fn in_file(
    file: &Path,
    function: Option<&str>,
    reference: &str,
) -> Result<Vec<Listed>, ReferenceError> {
    let factories = factories_of(&file.to_string_lossy(), file)?;
    let Some(function) = function else { return Ok(factories) };
    let (named, others): (Vec<_>, Vec<_>) =
        factories.into_iter().partition(|entry| entry.factory_ref == reference);
    if named.is_empty() {
        let exported: Vec<&str> = others.iter().map(function_of).collect();
        let message = format!("{} exports no factory '{function}'", file.display());
        let error = AdapterLoadError::new(reference, Reason::FactoryNotFound, message)
            .with_hint(format!("the library exports {}", exported.join(", ")));
        return Err(error.into());
    }
    Ok(named)
}

fn function_of(entry: &Listed) -> &str {
    entry.factory_ref.rsplit_once(':').map_or("", |(_, function)| function)
}

/// Returns the names by which an adapter can be meant: its ref, its module, its kind.
fn names_of(entry: &Listed) -> Vec<&str> {
    let factory_ref = entry.factory_ref.as_str();
    let module = factory_ref.rsplit_once(':').map(|(module, _)| module);
    let kind = entry.manifest.as_ref().map(|manifest| manifest.kind.as_str());
    [Some(factory_ref), module, kind]
        .into_iter()
        .flatten()
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns how much alike two names are in what tells adapters apart. Most refs end with the same function.
fn score(reference: &str, name: &str) -> f64 {
    let ((module, function), (known, known_function)) = (parts(reference), parts(name));
    let modules = likeness(module, known);
    match (function, known_function) {
        (Some(function), Some(known)) => modules.min(likeness(function, known)),
        _ => modules,
    }
}

/// Returns the module without its conventional beginning, and the function if there is one.
fn parts(name: &str) -> (&str, Option<&str>) {
    let (module, function) = match name.rsplit_once(':') {
        Some((module, function)) => (module, Some(function)),
        None => (name, None),
    };
    (module.strip_prefix(CONVENTION).unwrap_or(module), function)
}

fn unknown(reference: &str, others: &[Listed]) -> ReferenceError {
    let mut scored: Vec<(f64, f64, &str, &Listed)> = others
        .iter()
        .flat_map(|entry| names_of(entry).into_iter().map(move |name| (name, entry)))
        .map(|(name, entry)| (score(reference, name), likeness(reference, name), name, entry))
        .filter(|(score, ..)| *score > ALIKE)
        .collect();
    // Of the names that are as much alike, the one that is written as the reference is.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(b.2)));
    let mut libraries = BTreeSet::new();
    let near = scored.iter().filter(|(.., entry)| libraries.insert(&entry.path));
    let near = near.take(MAX_SUGGESTED).map(|(_, _, name, _)| (*name).to_owned()).collect();
    ReferenceError::Unknown { reference: reference.to_owned(), near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::manifest::ManifestView;

    fn listed(factory_ref: &str, kind: &str) -> Listed {
        Listed {
            factory_ref: factory_ref.to_owned(),
            path: Some(format!("{kind}.so").into()),
            package: None,
            version: None,
            sdk: None,
            manifest: Some(ManifestView { kind: kind.to_owned(), ..ManifestView::default() }),
            problem: None,
        }
    }

    #[test]
    fn paths_are_told_from_names() {
        let parts = |text: &'static str| file_of(text).map(|(file, f)| (file.to_str().unwrap(), f));
        assert_eq!(parts("./libx.so:make"), Some(("./libx.so", Some("make"))));
        assert_eq!(parts("target/libx.so"), Some(("target/libx.so", None)));
        assert_eq!(parts("libx.so"), Some(("libx.so", None)));
        for name in ["http", "nexus_router_adapter_http:create_adapter", "a:", ""] {
            assert_eq!(parts(name), None, "{name}");
        }
    }

    #[test]
    fn near_names_are_suggested_and_others_are_not() {
        let others = [
            listed("nexus_router_adapter_http:create_adapter", "http"),
            listed("nexus_router_adapter_echo:create_adapter", "echo"),
        ];
        let hint = |reference: &str| unknown(reference, &others).hint();
        assert_eq!(hint("htpt"), "did you mean http?");
        assert_eq!(hint("nexus_router_adapter_htpt"), "did you mean nexus_router_adapter_http?");
        let typo = "nexus_router_adapter_htpt:create_adapter";
        assert_eq!(hint(typo), "did you mean nexus_router_adapter_http:create_adapter?");
        assert_eq!(hint("weather"), "nexus-router adapter list shows what there is");
        assert_eq!(hint(&"x".repeat(100_000)), "nexus-router adapter list shows what there is");
    }
}

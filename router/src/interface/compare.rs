//! What differs between two contracts, and which version that needs.

mod alike;
mod defaults;
mod index;
mod items;
mod logic;
mod members;
mod operation;
#[cfg(test)]
mod pairs;
mod place;
mod proof;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod tests;
mod values;
mod walk;
mod words;

use std::collections::{HashMap, HashSet};
use std::fmt;

use semver::Version;

use super::document::{Interface, Operation};
use super::finding::below;
use crate::json::{Value, to_canonical};
use walk::Walk;

/// So many pairs of schemas are compared for one contract.
const MAX_STEPS: usize = 400_000;

/// How much a change means for whoever relies on a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing: it is documentation.
    Patch,
    /// More than before is possible; whatever was, still is.
    Minor,
    /// Something that was relied on may be gone.
    Major,
}

impl Class {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How much it means.
    pub class: Class,
    /// Where, as a JSON pointer into the newer contract, or into the older one where it is gone.
    pub pointer: String,
    /// What it is.
    pub message: String,
    /// The operation that it is about, if it is about one.
    pub operation: Option<String>,
}

/// A version is lower than the one before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version {new} is lower than {old}, which is there already")]
pub struct Lowered {
    /// The version that is there.
    pub old: Version,
    /// The version that is lower.
    pub new: Version,
}

/// Lists everything that differs between two contracts of one adapter, the worst first.
#[must_use]
pub fn compare(old: &Interface, new: &Interface) -> Vec<Change> {
    if old.digest == new.digest {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut tell = |class, pointer: &str, message: String| {
        changes.push(Change { class, pointer: pointer.to_owned(), message, operation: None });
    };
    if old.adapter_id != new.adapter_id {
        let message = format!("adapter_id {} became {}", old.adapter_id, new.adapter_id);
        tell(Class::Major, "/adapter_id", message);
    }
    if old.description != new.description {
        tell(Class::Patch, "/description", "the description changed".to_owned());
    }
    operations(old, new, &mut changes);
    if changes.is_empty() && old.version == new.version {
        let message = "is written differently, and means the same".to_owned();
        changes.push(Change {
            class: Class::Patch,
            pointer: String::new(),
            message,
            operation: None,
        });
    }
    // Stable, so that the changes of a class stay in the order of the documents.
    changes.sort_by_key(|change| std::cmp::Reverse(change.class));
    changes
}

fn operations(old: &Interface, new: &Interface, changes: &mut Vec<Change>) {
    let renamed = renamed(old, new);
    let mut left = MAX_STEPS;
    for (name, was) in &old.operations {
        match (new.operations.get(name), renamed.get(name.as_str())) {
            (Some(is), _) => operation::compare(name, was, is, &mut left, changes),
            (None, Some(other)) => changes.push(Change {
                class: Class::Major,
                pointer: below("/operations", other),
                message: format!("operation {name} was renamed to {other}"),
                operation: Some(name.clone()),
            }),
            (None, None) => changes.push(Change {
                class: Class::Major,
                pointer: below("/operations", name),
                message: format!("operation {name} is gone"),
                operation: Some(name.clone()),
            }),
        }
    }
    let taken: HashSet<&str> = renamed.into_values().collect();
    for name in new.operations.keys().filter(|name| !old.operations.contains_key(*name)) {
        if !taken.contains(name.as_str()) {
            changes.push(Change {
                class: Class::Minor,
                pointer: below("/operations", name),
                message: format!("operation {name} is new"),
                operation: Some(name.clone()),
            });
        }
    }
}

/// Finds for operations that are gone the new ones that take and give the same.
fn renamed<'a>(old: &'a Interface, new: &'a Interface) -> HashMap<&'a str, &'a str> {
    let schemas = |operation: &Operation| {
        (to_canonical(&operation.input_schema), to_canonical(&operation.output_schema))
    };
    let mut candidates: HashMap<(String, String), Vec<&str>> = HashMap::new();
    if old.operations.keys().all(|name| new.operations.contains_key(name)) {
        return HashMap::new();
    }
    for (name, operation) in new.operations.iter().rev() {
        if !old.operations.contains_key(name) {
            candidates.entry(schemas(operation)).or_default().push(name);
        }
    }
    let mut renamed = HashMap::new();
    for (name, operation) in &old.operations {
        if !new.operations.contains_key(name)
            && let Some(other) = candidates.get_mut(&schemas(operation)).and_then(Vec::pop)
        {
            renamed.insert(name.as_str(), other);
        }
    }
    renamed
}

/// Lists what differs between two schemas of arguments: what refuses something that was accepted is major.
///
/// A change without a proof that everything accepted before is still accepted is major, too. A default that is gone is major, and so
/// is one that changed, unless the new one includes the old one: a larger number, or a list or an object with
/// everything that was in the old one.
#[must_use]
pub fn compare_schemas(old: &Value, new: &Value, pointer: &str) -> Vec<Change> {
    Walk::new(old, new, false, walk::MAX_STEPS).run(pointer).0
}

/// Lists what differs between two schemas of outputs: what may give more than before is major.
/// A change without a proof that only former outputs remain possible is major, and so are members that are new or gone.
#[must_use]
pub fn compare_outputs(old: &Value, new: &Value, pointer: &str) -> Vec<Change> {
    Walk::new(old, new, true, walk::MAX_STEPS).run(pointer).0
}

/// Returns the part of the version that changes need; none if nothing changed.
#[must_use]
pub fn required_bump(changes: &[Change]) -> Option<Class> {
    changes.iter().map(|change| change.class).max()
}

/// Returns the highest part of a version that was increased; none if they are equal.
///
/// # Errors
/// If the newer version is lower.
pub fn declared_bump(old: &Version, new: &Version) -> Result<Option<Class>, Lowered> {
    let parts = |version: &Version| [version.major, version.minor, version.patch];
    let classes = [Class::Major, Class::Minor, Class::Patch];
    for ((was, is), class) in parts(old).into_iter().zip(parts(new)).zip(classes) {
        if is > was {
            return Ok(Some(class));
        }
        if is < was {
            return Err(Lowered { old: old.clone(), new: new.clone() });
        }
    }
    Ok(None)
}

//! A contract gets a higher version.

use super::declaration::{Unordered, rehash};
use super::pattern::{is_pointer, is_semver};
use crate::json::{Object, Value, to_repr};

/// Why a contract keeps its version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BumpError {
    /// What it shall have is no version.
    #[error("--version must be semver MAJOR.MINOR.PATCH")]
    Version,
    /// It has it already.
    #[error("adapter_version already {0}; no change")]
    Same(String),
    /// It has a higher one.
    #[error("refuse to bump backwards ({old} -> {new}). Use a strictly higher semver.")]
    Backwards {
        /// The version that it has.
        old: String,
        /// The version that it shall have.
        new: String,
    },
    /// What it is now cannot be pointed to.
    #[error("{0} cannot be superseded: it is no ID@VERSION")]
    Supersedes(String),
    /// The hashes cannot be computed.
    #[error(transparent)]
    Unordered(#[from] Unordered),
}

impl BumpError {
    /// Returns what to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Version | Self::Same(_) | Self::Backwards { .. } => {
                "write three numbers with dots between them that are higher than the present ones"
            }
            Self::Supersedes(_) => {
                "mend adapter_id and adapter_version, or leave out --set-supersedes"
            }
            Self::Unordered(_) => {
                "nexus-router contract lint tells what is wrong with the lists of fields"
            }
        }
    }
}

/// Gives a declaration a higher version and computes its hashes anew. Returns the version that it had; an empty text if
/// it had none. If `set_supersedes`, it points to what it was.
///
/// # Errors
/// When the version is none or not higher, or the hashes cannot be computed; then the declaration is as before.
pub fn bump(
    declaration: &mut Object,
    version: &str,
    set_supersedes: bool,
) -> Result<Value, BumpError> {
    if !is_semver(version) {
        return Err(BumpError::Version);
    }
    let previous = declaration.get("adapter_version").cloned().unwrap_or_else(|| "".into());
    if previous.as_str() == Some(version) {
        return Err(BumpError::Same(version.to_owned()));
    }
    let old = shown(&previous);
    if numbers(&old).is_some_and(|old| numbers(version).is_none_or(|new| new <= old)) {
        return Err(BumpError::Backwards { old, new: version.to_owned() });
    }
    let mut bumped = declaration.clone();
    if set_supersedes {
        let id = declaration.get("adapter_id").map(shown).unwrap_or_default();
        let pointer = format!("{id}@{old}");
        if !is_pointer(&pointer) {
            return Err(BumpError::Supersedes(pointer));
        }
        bumped.insert("supersedes", pointer);
    }
    bumped.insert("adapter_version", version);
    rehash(&mut bumped)?;
    *declaration = bumped;
    Ok(previous)
}

/// Returns Python's `str()` of a value.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| to_repr(value), str::to_owned)
}

/// Returns the numbers of a version of any length, each as its length and its digits, which compare as numbers do. What
/// is no such version is lower than every one.
fn numbers(version: &str) -> Option<Vec<(usize, &str)>> {
    let number = |part: &'_ str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    version.split('.').all(number).then(|| {
        version
            .split('.')
            .map(|part| part.trim_start_matches('0'))
            .map(|it| (it.len(), it))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{lint, scaffold};
    use super::*;

    #[test]
    fn only_a_higher_version_is_taken() {
        for (old, new, expected) in [
            ("0.9.0", "0.10.0", true),
            ("1.0.0", "1.0.00", false),
            ("1.0.0", "01.0.1", true),
            ("1.2", "1.2.0", true),
            ("1.2.0.5", "1.2.0", false),
            ("abc", "0.0.0", true),
            ("", "0.0.0", true),
            ("99999999999999999999.0.0", "100000000000000000000.0.0", true),
        ] {
            let mut contract = scaffold("acme.x", "1.0.0", "a").unwrap();
            contract.insert("adapter_version", old);
            let before = contract.clone();
            let answer = bump(&mut contract, new, false);
            assert_eq!(answer.is_ok(), expected, "{old} to {new}: {answer:?}");
            assert_eq!(contract != before, expected);
        }
    }

    #[test]
    fn it_points_to_what_it_was_if_asked() {
        let mut contract = scaffold("acme.x", "1.0.0", "a").unwrap();
        assert_eq!(bump(&mut contract, "1.1.0", true), Ok("1.0.0".into()));
        assert_eq!(contract.get("supersedes"), Some(&"acme.x@1.0.0".into()));
        assert_eq!(lint(&contract), []);
        contract.insert("adapter_version", "one");
        let error = bump(&mut contract, "2.0.0", true).unwrap_err();
        assert_eq!(error, BumpError::Supersedes("acme.x@one".to_owned()));
    }

    #[test]
    fn what_cannot_be_hashed_stays_as_it_is() {
        let mut contract = scaffold("acme.x", "1.0.0", "a").unwrap();
        contract.insert("output_fields", vec!["a".into(), Value::Int(1), "b".into()]);
        let before = contract.clone();
        let error = bump(&mut contract, "2.0.0", false).unwrap_err();
        assert!(matches!(&error, BumpError::Unordered(it) if it.key == "output_fields"), "{error}");
        assert_eq!(contract, before);
    }
}

//! A new contract: every key in its place, both hashes computed.

use std::collections::HashSet;

use super::declaration::{Unordered, rehash};
use super::pattern::{is_id, is_semver, is_snake_case};
use super::validator::STARTER;
use crate::json::{Object, Value};
use crate::python_text::repr_str;

/// The file in which a new contract is written.
pub const SCAFFOLD_FILE: &str = "adapter_contract.json";

/// The fields of a contract whose author names none.
const FIELDS: [&str; 3] = ["signal_a", "signal_b", "signal_c"];

const COMMENT: &str = "Written by `nexus-router contract scaffold`. Put the fields that your adapter gives into \
                       output_fields, and those that a policy may see into allowed_policy_fields. Then compute the hashes \
                       anew with `nexus-router contract rehash`, which also tells what is wrong.";
const BOUNDARY: &str = "This contract says which signals an adapter gives, of which form they are, and which of them may \
                        enter a policy. Whether they add up to acceptable work is decided by the policy alone.";

/// Why there is no new contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// The id is none.
    #[error("--id must be reverse-DNS style (got {})", repr_str(.0))]
    Id(String),
    /// The version is none.
    #[error("--version must be semver (got {})", repr_str(.0))]
    Version(String),
    /// A field has no good name.
    #[error("field name {} is not snake_case", repr_str(.0))]
    Field(String),
    /// A field is named twice, which no lint would let pass.
    #[error("field name {} is given twice", repr_str(.0))]
    Twice(String),
    /// The hashes cannot be computed.
    #[error(transparent)]
    Unordered(#[from] Unordered),
}

impl ScaffoldError {
    /// Returns what to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Id(_) => {
                "write two or more parts of small letters, digits and underscores with dots between them, like \
                 acme.eval_suite.v0"
            }
            Self::Version(_) => "write three numbers with dots between them, like 0.1.0",
            Self::Field(_) => {
                "begin with a small letter, and go on with small letters, digits and underscores"
            }
            Self::Twice(_) | Self::Unordered(_) => "name each field once",
        }
    }
}

/// Makes a new contract. `fields` has their names with commas between them; without any it gets three to begin with.
///
/// # Errors
/// When the id, the version or a field is not named as it must be.
pub fn scaffold(id: &str, version: &str, fields: &str) -> Result<Object, ScaffoldError> {
    if !is_id(id) {
        return Err(ScaffoldError::Id(id.to_owned()));
    }
    if !is_semver(version) {
        return Err(ScaffoldError::Version(version.to_owned()));
    }
    let mut names: Vec<&str> =
        fields.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let mut seen = HashSet::new();
    for name in &names {
        if !is_snake_case(name) {
            return Err(ScaffoldError::Field((*name).to_owned()));
        }
        if !seen.insert(*name) {
            return Err(ScaffoldError::Twice((*name).to_owned()));
        }
    }
    if names.is_empty() {
        names.extend(FIELDS);
    }
    let names: Vec<Value> = names.into_iter().map(Value::from).collect();
    let mut contract = Object::with_capacity(12);
    contract.insert("_comment", COMMENT);
    contract.insert("_layer_boundary", BOUNDARY);
    contract.insert("adapter_contract_version", "1.0.0");
    contract.insert("adapter_id", id);
    contract.insert("adapter_version", version);
    contract.insert("input_schema_version", "1.0.0");
    contract.insert("output_fields", names.clone());
    contract.insert("allowed_policy_fields", names);
    contract.insert("validator_name", STARTER.0);
    contract.insert("validator_version", "1.0.0");
    rehash(&mut contract)?;
    Ok(contract)
}

#[cfg(test)]
mod tests {
    use super::super::lint;
    use super::*;

    #[test]
    fn what_is_made_is_clean() {
        for fields in ["", " , ,", "a", " b_2 ,a,"] {
            let contract = scaffold("acme.x", "0.1.0", fields).unwrap();
            assert_eq!(lint(&contract), [], "{fields}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_a_remedy() {
        for (id, version, fields, expected) in [
            ("acme", "1.0.0", "", "--id must be reverse-DNS style (got 'acme')"),
            ("acme.x\n", "1.0.0", "", "--id must be reverse-DNS style (got 'acme.x\\n')"),
            ("acme.x", "1.0", "", "--version must be semver (got '1.0')"),
            ("acme.x", "1.0.0", "a,it's", "field name \"it's\" is not snake_case"),
            ("acme.x", "1.0.0", "a,b, a", "field name 'a' is given twice"),
        ] {
            let error = scaffold(id, version, fields).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!error.hint().is_empty());
        }
    }
}

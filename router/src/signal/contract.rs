//! A contract that can be used: a declaration without a mistake, and what is read off it once.

use super::declaration::{LIMITS, without_comments};
use super::lint::{Finding, Severity, lint};
use super::pattern::{SemverParts, semver_parts};
use super::validator::{UnknownValidator, Validator};
use crate::json::{self, Object, Value};

/// Where a contract comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is part of this program.
    Builtin,
    /// It was read from a file.
    File(std::path::PathBuf),
}

/// What became of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifecycle {
    /// It is in use.
    Active,
    /// It is in use, and there is a newer one.
    Superseded,
    /// It should not be used for new work.
    Deprecated,
    /// It must not be used for new work.
    Revoked,
}

impl Lifecycle {
    /// Returns the name in warnings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Deprecated => "deprecated",
            Self::Revoked => "revoked",
        }
    }

    /// Says whether a contract may be the one that an id alone stands for.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Superseded)
    }

    fn of(declaration: &Object) -> Self {
        let text = |key: &str| declaration.get(key).and_then(Value::as_str);
        match (text("status"), text("replaced_by")) {
            (Some("revoked"), _) => Self::Revoked,
            (Some("deprecated"), _) => Self::Deprecated,
            (_, Some(_)) => Self::Superseded,
            (_, None) => Self::Active,
        }
    }
}

/// A contract that can be used.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The declaration as it was written, without its comments.
    pub declaration: Object,
    /// Its id.
    pub adapter_id: String,
    /// Its version.
    pub adapter_version: String,
    /// The numbers of its version.
    pub order: SemverParts,
    /// The hash that binds it.
    pub contract_hash: String,
    /// The hash of what it says of its fields.
    pub input_schema_hash: String,
    /// The fields that the adapter gives.
    pub output_fields: Vec<String>,
    /// Those of them that may enter a policy.
    pub allowed_policy_fields: Vec<String>,
    /// What became of it.
    pub lifecycle: Lifecycle,
    /// The version that takes its place.
    pub replaced_by: Option<String>,
    /// Whoever looks at the fields, if that is known here.
    pub validator: Result<Validator, UnknownValidator>,
    /// Where it comes from.
    pub source: Source,
}

impl Contract {
    /// Reads a contract from the text of a file.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(text: &[u8], source: Source) -> Result<Self, Vec<Finding>> {
        let value = json::parse(text, LIMITS).map_err(|error| {
            let message = format!("json_parse_failed: {}: {error}", error.code());
            vec![Finding::error(error.pointer(), message)]
        })?;
        match value.into_object() {
            Some(declaration) => Self::of(&declaration, source),
            None => Err(vec![Finding::error("", "the declaration is not a JSON object")]),
        }
    }

    /// Takes a declaration.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn of(declaration: &Object, source: Source) -> Result<Self, Vec<Finding>> {
        let declaration = without_comments(declaration);
        let mut findings = lint(&declaration);
        findings.retain(|finding| finding.severity == Severity::Error);
        let text = |key: &str| declaration.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| -> Vec<String> {
            let entries = declaration.get(key).and_then(Value::as_array).unwrap_or_default();
            entries.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let version = text("adapter_version").unwrap_or_default();
        let Some(order) = semver_parts(&version).filter(|_| findings.is_empty()) else {
            return Err(findings);
        };
        Ok(Self {
            adapter_id: text("adapter_id").unwrap_or_default(),
            adapter_version: version,
            order,
            contract_hash: text("contract_hash").unwrap_or_default(),
            input_schema_hash: text("input_schema_hash").unwrap_or_default(),
            output_fields: list("output_fields"),
            allowed_policy_fields: list("allowed_policy_fields"),
            lifecycle: Lifecycle::of(&declaration),
            replaced_by: text("replaced_by"),
            validator: Validator::of(&declaration),
            source,
            declaration,
        })
    }

    /// Returns `ID@VERSION`.
    #[must_use]
    pub fn pointer(&self) -> String {
        format!("{}@{}", self.adapter_id, self.adapter_version)
    }
}

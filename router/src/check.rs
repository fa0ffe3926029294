//! Judging an adapter: every check on an opened candidate, the inspection report, the documentation.
//!
//! A library is opened in the confined child only, never in this process.

pub mod docs;
mod inspect;
mod list;
mod reference;
mod render;

use serde_json::{Map, Value, json};

pub use inspect::{Inspection, LibraryFacts, inspect};
pub use list::{Listed, built_ins, doc_entries, list};
pub use reference::{ReferenceError, doc_entries_of};

use crate::config::Environment;
use crate::loader::wire::Observations;
use crate::loader::{
    AdapterLoadError, Candidate, LoadRequest, Loader, Opened, Reason, load_failure, run_checks,
    run_failing_checks, shown_manifest,
};
pub use crate::loader::{CHECKS, Check, CheckResult, Status, Strictness};

/// The result of validating an adapter.
#[derive(Debug)]
pub struct Validation {
    /// What the instance says of itself, and its manifest; nothing when it did not load.
    pub metadata: Option<Value>,
    /// Every check, in order. After a failed `LOAD_OK` come only those that fail on the file itself.
    pub checks: Vec<CheckResult>,
    /// Why it did not load.
    pub error: Option<AdapterLoadError>,
}

impl Validation {
    /// Says whether no check failed.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.with_status(Status::Fail).next().is_none()
    }

    /// Returns the checks that ended with a status.
    pub fn with_status(&self, status: Status) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(move |check| check.status == status)
    }

    /// Returns the report for programs: the peer's members, and `load_error` when it did not load.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut report = json!({
            "ok": self.ok(),
            "metadata": self.metadata,
            "checks": self.checks,
            "errors": self.with_status(Status::Fail).collect::<Vec<_>>(),
            "warnings": self.with_status(Status::Warn).collect::<Vec<_>>(),
        });
        if let Some(error) = &self.error {
            report["error"] = error.to_string().into();
            report["load_error"] = json!({
                "code": error.code(),
                "reason": error.reason().code(),
                "details": error.details(),
                "hint": error.hint(),
            });
        }
        report
    }
}

/// Validates an adapter.
///
/// # Errors
/// Only when there is no answer: the child could not be started, or private copies not be kept. Whatever
/// is wrong with the adapter is in the validation.
pub fn validate(
    loader: &Loader,
    request: &LoadRequest<'_>,
    strictness: Strictness,
) -> Result<Validation, AdapterLoadError> {
    examine(loader, request, strictness).map(|examined| examined.validation)
}

/// Validates an adapter with what the environment says, as [`load_adapter`](crate::load_adapter) does.
///
/// # Errors
/// As [`validate`].
pub fn validate_adapter(
    factory_ref: &str,
    config: &Value,
    strictness: Strictness,
) -> Result<Validation, AdapterLoadError> {
    let loader = Loader::from_environment(&Environment::read());
    let request = LoadRequest { factory_ref, adapter_id: None, config, pin: None };
    validate(&loader, &request, strictness)
}

/// Inspects an adapter with what the environment says, as [`load_adapter`](crate::load_adapter) does.
///
/// # Errors
/// As [`validate`].
pub fn inspect_adapter(factory_ref: &str, config: &Value) -> Result<Inspection, AdapterLoadError> {
    let loader = Loader::from_environment(&Environment::read());
    let request = LoadRequest { factory_ref, adapter_id: None, config, pin: None };
    inspect(&loader, &request, Strictness::Strict)
}

/// Result of an examination, with what it was read from.
struct ExaminedAdapter {
    validation: Validation,
    /// What the file tells, if it could be read.
    opened: Option<Opened>,
    /// What the child saw, if it made an instance.
    observations: Option<Observations>,
}

/// Checks that need no instance: what they look at is in the file.
const CHECKS_OF_THE_FILE: &[&str] = &[
    "MANIFEST_SCHEMA",
    "ABI_COMPATIBLE",
    "ROUTER_VERSION_SUPPORTED",
    "MANIFEST_FIELDS_KNOWN",
    "MANIFEST_DEFAULTS_TYPED",
    "ERROR_CODES_FORMAT",
    "CONFIG_ACCEPTED",
];

/// Validates an adapter, and returns what was opened for the inspection.
fn examine(
    loader: &Loader,
    request: &LoadRequest<'_>,
    strictness: Strictness,
) -> Result<ExaminedAdapter, AdapterLoadError> {
    let unanswered = |error: &AdapterLoadError| {
        matches!(error.reason(), Reason::DryRunUnavailable | Reason::CacheUnusable)
    };
    match loader.examine(request) {
        Ok((opened, Ok(observations))) => {
            let rehearsal = loader.rehearse_examples(&opened, &observations)?;
            let candidate = Candidate::new(&opened, &observations, strictness, rehearsal);
            let checks = run_checks(&candidate);
            if !checks.iter().any(|check| check.status == Status::Fail) {
                // What was remembered is outdated, and a load is to say the same as the gate.
                loader.forget_refusal_of(&opened)?;
            }
            let metadata = Some(metadata(&candidate));
            let validation = Validation { metadata, checks, error: None };
            Ok(ExaminedAdapter {
                validation,
                opened: Some(opened),
                observations: Some(observations),
            })
        }
        Err(error) | Ok((_, Err(error))) if unanswered(&error) => Err(error),
        Ok((opened, Err(error))) => {
            let mut checks = vec![load_failure(&error)];
            checks.extend(failures_of_the_file(&opened, strictness));
            let validation = Validation { metadata: None, checks, error: Some(error) };
            Ok(ExaminedAdapter { validation, opened: Some(opened), observations: None })
        }
        Err(error) => {
            let checks = vec![load_failure(&error)];
            let validation = Validation { metadata: None, checks, error: Some(error) };
            Ok(ExaminedAdapter { validation, opened: None, observations: None })
        }
    }
}

/// Returns what is wrong with the file of a library that made no instance.
fn failures_of_the_file(opened: &Opened, strictness: Strictness) -> Vec<CheckResult> {
    let observations = Observations::default();
    let candidate = Candidate::new(opened, &observations, strictness, None);
    run_failing_checks(&candidate, CHECKS_OF_THE_FILE)
}

fn metadata(candidate: &Candidate<'_>) -> Value {
    let mut metadata = Map::new();
    for field in ["adapter_id", "adapter_kind", "capabilities"] {
        let value = match (field, candidate.capabilities()) {
            ("capabilities", Some(sorted)) => sorted.into(),
            _ => candidate.field(field).cloned().unwrap_or(Value::Null),
        };
        metadata.insert(field.to_owned(), value);
    }
    if let Some(manifest) = candidate.manifest() {
        metadata.insert("manifest".to_owned(), shown_manifest(manifest));
    }
    metadata.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn checks_of_the_file_are_checks() {
        for id in CHECKS_OF_THE_FILE {
            assert!(CHECKS.iter().any(|check| check.id == *id), "{id}");
        }
    }

    #[test]
    fn check_table_is_well_formed_and_only_grows() {
        let ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "an id stands twice");
        for check in CHECKS {
            assert!(nexus_router_sdk::code::is_well_formed(check.id), "{}", check.id);
            assert!(check.doc.ends_with('.') && !check.remedy.is_empty(), "{}", check.id);
        }
        let golden = include_str!("../../tests/golden/check_ids.txt");
        let golden: Vec<&str> = golden.lines().collect();
        assert_eq!(&ids[..golden.len()], golden, "an id was renamed, removed or moved");
        assert_eq!(ids.len(), golden.len(), "add the new id to tests/golden/check_ids.txt");
    }
}

//! Judging an adapter: every check on an opened candidate, the inspection report, the documentation.
//!
//! A library is opened in the confined child only, never in this process.

pub mod docs;
mod inspect;
mod list;
mod render;

use serde_json::{Map, Value, json};

pub use inspect::{Inspection, LibraryFacts, inspect};
pub use list::{Listed, built_ins, doc_entries, list};

use crate::config::Environment;
use crate::loader::wire::Observations;
use crate::loader::{
    AdapterLoadError, Candidate, LoadRequest, Loader, Opened, Reason, load_failure, run_checks,
};
pub use crate::loader::{CHECKS, Check, CheckResult, Status, Strictness};

/// The result of validating an adapter.
#[derive(Debug)]
pub struct Validation {
    /// What the instance says of itself, and its manifest; nothing when it did not load.
    pub metadata: Option<Value>,
    /// Every check, in order. A failed `LOAD_OK` stands alone.
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
    examine(loader, request, strictness).map(|(validation, _)| validation)
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

/// Validates an adapter, and returns what was opened for the inspection.
fn examine(
    loader: &Loader,
    request: &LoadRequest<'_>,
    strictness: Strictness,
) -> Result<(Validation, Option<(Opened, Observations)>), AdapterLoadError> {
    let examined = loader.examine(request).and_then(|(opened, tried)| Ok((opened, tried?)));
    match examined {
        Ok((opened, observations)) => {
            let rehearsal = loader.rehearse_examples(&opened, &observations)?;
            let candidate = Candidate::new(&opened, &observations, strictness, rehearsal);
            let checks = run_checks(&candidate);
            if !checks.iter().any(|check| check.status == Status::Fail) {
                // What was remembered is outdated, and a load is to say the same as the gate.
                loader.forget_refusal_of(&opened)?;
            }
            let metadata = Some(metadata(&candidate));
            Ok((Validation { metadata, checks, error: None }, Some((opened, observations))))
        }
        Err(error) => match error.reason() {
            Reason::DryRunUnavailable | Reason::CacheUnusable => Err(error),
            _ => {
                let checks = vec![load_failure(&error)];
                Ok((Validation { metadata: None, checks, error: Some(error) }, None))
            }
        },
    }
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
        metadata.insert("manifest".to_owned(), manifest.clone());
    }
    metadata.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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

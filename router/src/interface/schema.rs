//! Which JSON Schemas a contract may have.

use super::finding::Findings;
use crate::json::Value;

/// Tells everything that is wrong with a schema that stands at a place of a document.
pub(super) fn lint(schema: &Value, place: &str, findings: &mut Findings) {
    if let Err(problem) = crate::conform::Schema::read(&schema.to_serde()) {
        findings.add(place, "SCHEMA_INVALID", problem);
    }
}

//! The role contract: the document in the tree, its digest, and the revisions it has been through.
//!
//! A changed document has another digest than the pinned one, so that evidence that names the digest names one
//! document. How it may change is held up by a test: a revision, code that validates it, tests, and golden data.

use std::sync::LazyLock;

use crate::digest::Digest;
use crate::json::{self, Limits, Value};

/// The document as it is in the tree.
const TEXT: &str = include_str!("contract.json");

/// The SHA-256 of the canonical text (RFC 8785) of the contract.
pub const CONTRACT_SHA256: &str =
    "d7a9d0f56743ff09acdef534f3f7948c4632f46902e005cd3df667f843473a3b";

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| json::parse(TEXT.as_bytes(), Limits::REQUEST).unwrap_or(Value::Null));

static CANONICAL: LazyLock<String> = LazyLock::new(|| json::to_jcs(&DOCUMENT).unwrap_or_default());

/// Returns the contract.
#[must_use]
pub fn contract() -> &'static Value {
    &DOCUMENT
}

/// Returns the canonical text of the contract, whose SHA-256 is [`CONTRACT_SHA256`].
#[must_use]
pub fn contract_text() -> &'static str {
    &CANONICAL
}

/// Returns the digest of the contract, as evidence names it. A test holds it to [`CONTRACT_SHA256`].
#[must_use]
pub fn contract_sha256() -> Digest {
    static DIGEST: LazyLock<Digest> = LazyLock::new(|| Digest::of(CANONICAL.as_bytes()));
    *DIGEST
}

/// A revision of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// What it is called.
    pub id: String,
    /// The version of the contract since then.
    pub version: String,
    /// The day, in the form of RFC 3339.
    pub date: String,
    /// What changed, and why.
    pub note: String,
}

/// Returns the revisions that a contract tells of, the oldest first. What is no revision is left out.
#[must_use]
pub fn revisions(contract: &Value) -> Vec<Revision> {
    let told = contract.get("contract_revisions").and_then(Value::as_array).unwrap_or_default();
    told.iter()
        .filter_map(|revision| {
            let member = |name: &str| Some(revision.get(name)?.as_str()?.to_owned());
            Some(Revision {
                id: member("id")?,
                version: member("version")?,
                date: member("date")?,
                note: member("note")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Role, TABLE_SHA256, VALIDATES, export, table};
    use super::*;

    #[test]
    fn the_document_is_the_one_that_is_pinned() {
        assert_eq!(contract_sha256().to_string(), CONTRACT_SHA256);
        assert_eq!(Digest::of(contract_text().as_bytes()), contract_sha256());
    }

    #[test]
    fn the_document_says_what_the_program_holds_to() {
        let contract = contract();
        assert_eq!(contract.get("contract_version"), Some(&Value::from(VALIDATES)));
        assert_eq!(contract.get("role_table_sha256"), Some(&Value::from(TABLE_SHA256)));
        let roles = contract.get("roles").unwrap().as_object().unwrap();
        assert_eq!(roles.len(), 2);
        for (name, actions) in table().as_object().unwrap().iter() {
            assert_eq!(roles.get(name).unwrap().get("actions"), Some(actions));
            let version = Role::from_name(name).unwrap().adapter_version();
            assert_eq!(roles.get(name).unwrap().get("adapter_version"), Some(&version.into()));
        }
        assert_eq!(contract.get("conditions"), export::json().get("conditions"));
        let revisions = revisions(contract);
        assert_eq!(revisions.last().unwrap().version, VALIDATES);
    }
}

//! The lock: every revision of every contract, each pinned by its digest, bound to the one before, and whole, so
//! that what changed can be told without any other record.

use std::collections::BTreeMap;

use semver::Version;

use super::document::Interface;
use super::finding::{Finding, Findings, below};
use super::signoff::{Capacity, SignOff};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};

/// What a lock says that it is.
pub const LOCK_FORMAT: &str = "nexus-router.interface-lock/1";
/// The name of the lock beside the contracts.
pub const LOCK_NAME: &str = "interfaces.lock";
/// A longer lock is none.
pub(super) const MAX_LOCK_BYTES: usize = 64 << 20;
const LIMITS: Limits = Limits { bytes: MAX_LOCK_BYTES, depth: 70, values: 4_000_000 };

/// All revisions, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// The revisions.
    pub revisions: Vec<Revision>,
}

/// One revision of a contract.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The adapter.
    pub adapter_id: String,
    /// The version.
    pub version: Version,
    /// The digest of the revision before; none for the first.
    pub previous: Option<Digest>,
    /// The contract; none where the adapter was removed.
    pub contract: Option<Interface>,
    /// Who approved it.
    pub approvals: Vec<SignOff>,
    /// On what its examples passed.
    pub tested: Option<Tested>,
}

/// That the examples of all operations passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// The operations.
    pub operations: Vec<String>,
    /// The digest of the library that they passed on.
    pub library: Digest,
    /// When.
    pub at: String,
}

impl Lock {
    /// Reads a lock.
    ///
    /// # Errors
    /// With everything that is wrong with its form. What it says is looked at by `verify`.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Finding>> {
        Self::read_beside(text, &BTreeMap::new())
    }

    /// The same beside contracts that were read already: those are not looked at again.
    pub(super) fn read_beside(text: &[u8], known: &Known<'_>) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::default();
        let document = match json::parse(text, LIMITS) {
            Ok(document) => document,
            Err(error) => {
                findings.add("", "LOCK_MALFORMED", error.to_string());
                return Err(findings.into_vec());
            }
        };
        if document.get("format").and_then(Value::as_str) != Some(LOCK_FORMAT) {
            findings.add("/format", "LOCK_MALFORMED", format!("must be {LOCK_FORMAT:?}"));
        }
        only(&document, "", &["format", "revisions"], &mut findings);
        let Value::Object(mut document) = document else { return Err(findings.into_vec()) };
        let Some(Value::Array(listed)) = document.remove("revisions") else {
            findings.add("/revisions", "LOCK_MALFORMED", "must be a list");
            return Err(findings.into_vec());
        };
        let mut revisions = Vec::with_capacity(listed.len());
        for (index, revision) in listed.into_iter().enumerate() {
            let place = below("/revisions", &index.to_string());
            revisions.extend(read_revision(revision, &place, known, &mut findings));
        }
        findings.or(Self { revisions })
    }

    /// Returns the text of its file: one revision after the other, for people to review.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut object = Object::with_capacity(2);
        object.insert("format", LOCK_FORMAT);
        object.insert("revisions", self.revisions.iter().map(write_revision).collect::<Vec<_>>());
        json::to_pretty(&object.into()) + "\n"
    }

    /// Lists the revisions of one adapter, the oldest first.
    pub fn of<'a>(&'a self, adapter_id: &str) -> impl DoubleEndedIterator<Item = &'a Revision> {
        self.revisions.iter().filter(move |revision| revision.adapter_id == adapter_id)
    }

    /// Returns the newest revision of an adapter.
    #[must_use]
    pub fn latest(&self, adapter_id: &str) -> Option<&Revision> {
        self.of(adapter_id).next_back()
    }
}

impl Revision {
    /// Returns the digest by which the next revision refers to this one.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.contract.as_ref().map_or(Digest::ZERO, |contract| contract.digest)
    }
}

fn only(value: &Value, place: &str, members: &[&str], findings: &mut Findings) {
    let Some(object) = value.as_object() else {
        findings.add(place, "LOCK_MALFORMED", "must be an object");
        return;
    };
    for name in object.keys().filter(|name| !members.contains(name)) {
        let message = format!("is unknown; known are {}", members.join(", "));
        findings.add(below(place, name), "LOCK_MALFORMED", message);
    }
}

const MEMBERS: [&str; 8] =
    ["adapter_id", "version", "sha256", "previous", "removed", "approvals", "tested", "contract"];

/// Contracts by the digests of their canonical texts.
pub(super) type Known<'a> = BTreeMap<[u8; 32], &'a Interface>;

/// Reads a contract, unless it is known.
fn contract(document: Value, known: &Known<'_>) -> Result<Interface, Vec<Finding>> {
    let digest = json::to_jcs(&document).map(|text| Digest::of(text.as_bytes()));
    match digest.ok().and_then(|digest| known.get(digest.as_bytes())) {
        Some(known) => Ok((*known).clone()),
        None => Interface::from_document(document),
    }
}

fn read_revision(
    value: Value,
    place: &str,
    known: &Known<'_>,
    findings: &mut Findings,
) -> Option<Revision> {
    only(&value, place, &MEMBERS, findings);
    let Value::Object(mut object) = value else { return None };
    let mut wrong = |name: &str, message: String| {
        findings.add(below(place, name), "LOCK_MALFORMED", message);
    };
    let adapter_id = object.get("adapter_id").and_then(Value::as_str).map(str::to_owned);
    if adapter_id.is_none() {
        wrong("adapter_id", "must be a text".to_owned());
    }
    let version = object.get("version").and_then(Value::as_str);
    let version = version.and_then(|text| Version::parse(text).ok());
    if version.is_none() {
        wrong("version", "must be MAJOR.MINOR.PATCH".to_owned());
    }
    let digest = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let digest = value.as_str().and_then(|text| text.parse::<Digest>().ok());
            digest.map(Some).ok_or("must be a SHA-256 in lower-case hexadecimal")
        }
    };
    let (sha256, previous) = (digest("sha256"), digest("previous"));
    for (name, read) in [("sha256", &sha256), ("previous", &previous)] {
        if let Err(message) = read {
            wrong(name, (*message).to_owned());
        }
    }
    let (sha256, previous) = (sha256.ok()?, previous.ok()?);
    let removed = object.contains_key("removed");
    if removed && object.get("removed").and_then(Value::as_bool) != Some(true) {
        wrong("removed", "must be true, or must not be there".to_owned());
    }
    let (approvals, tested) = (object.remove("approvals"), object.remove("tested"));
    let contract = match (object.remove("contract"), removed) {
        (None, true) => None,
        (None, false) => {
            wrong("contract", "is missing; only a removed adapter has none".to_owned());
            return None;
        }
        (Some(_), true) => {
            wrong("contract", "stands beside \"removed\"".to_owned());
            return None;
        }
        (Some(document), false) => match contract(document, known) {
            Ok(contract) => Some(contract),
            Err(found) => {
                for finding in found {
                    let pointer = below(place, "contract") + &finding.pointer;
                    findings.add(pointer, finding.code, finding.message);
                }
                return None;
            }
        },
    };
    if let Some(contract) = &contract {
        let said = (adapter_id.as_deref(), version.as_ref(), sha256);
        let is = (contract.adapter_id.as_str(), &contract.version, contract.digest);
        if said != (Some(is.0), Some(is.1), Some(is.2)) {
            let message = format!(
                "is {} {} with the SHA-256 {}, and not what its revision says",
                is.0, is.1, is.2
            );
            findings.add(below(place, "contract"), "LOCK_BROKEN", message);
        }
    }
    let approvals = read_approvals(approvals, &below(place, "approvals"), findings);
    let tested = read_tested(tested, &below(place, "tested"), findings);
    let (adapter_id, version) = (adapter_id?, version?);
    Some(Revision { adapter_id, version, previous, contract, approvals, tested })
}

fn read_approvals(value: Option<Value>, place: &str, findings: &mut Findings) -> Vec<SignOff> {
    let listed = match value {
        None => return Vec::new(),
        Some(Value::Array(listed)) => listed,
        Some(_) => {
            findings.add(place, "LOCK_MALFORMED", "must be a list");
            return Vec::new();
        }
    };
    let read = |value: &Value| {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let capacity = Capacity::from_name(text("as")?)?;
        let (key, signature) = (text("key")?.parse().ok()?, text("signature")?.parse().ok()?);
        let at = match value.get("at") {
            None => None,
            Some(at) => Some(Timestamp::parse(at.as_str()?)?),
        };
        Some(SignOff { capacity, key, at, signature })
    };
    let mut approvals = Vec::new();
    for (index, value) in listed.iter().enumerate() {
        let place = below(place, &index.to_string());
        only(value, &place, &["as", "key", "at", "signature"], findings);
        match read(value) {
            Some(approval) => approvals.push(approval),
            None => findings.add(
                place,
                "LOCK_MALFORMED",
                "must have \"as\" (author or reviewer), \"key\" (ed25519:…), \"at\" (a time) and \"signature\" (base64)",
            ),
        }
    }
    approvals
}

fn read_tested(value: Option<Value>, place: &str, findings: &mut Findings) -> Option<Tested> {
    let value = value?;
    only(&value, place, &["operations", "library", "at"], findings);
    let read = || {
        let operations = value.get("operations")?.as_array()?;
        let operations = operations.iter().map(|name| name.as_str().map(str::to_owned));
        let library = value.get("library")?.as_str()?.parse().ok()?;
        let at = value.get("at")?.as_str()?.to_owned();
        Some(Tested { operations: operations.collect::<Option<_>>()?, library, at })
    };
    let tested = read();
    if tested.is_none() {
        let message = "must have operations (names), library (SHA-256) and at (a time)";
        findings.add(place, "LOCK_MALFORMED", message);
    }
    tested
}

fn write_revision(revision: &Revision) -> Value {
    let mut object = Object::with_capacity(8);
    object.insert("adapter_id", revision.adapter_id.as_str());
    object.insert("version", revision.version.to_string());
    object.insert("previous", revision.previous.map(|digest| digest.to_string()));
    let approval = |approval: &SignOff| {
        let mut object = Object::with_capacity(4);
        object.insert("as", approval.capacity.name());
        object.insert("key", approval.key.to_string());
        if let Some(at) = approval.at {
            object.insert("at", at.to_string());
        }
        object.insert("signature", approval.signature.to_string());
        Value::Object(object)
    };
    match &revision.contract {
        Some(contract) => object.insert("sha256", contract.digest.to_string()),
        None => object.insert("removed", true),
    }
    object.insert("approvals", revision.approvals.iter().map(approval).collect::<Vec<_>>());
    if let Some(Tested { operations, library, at }) = &revision.tested {
        let names: Vec<Value> = operations.iter().map(|name| name.as_str().into()).collect();
        let mut tested = Object::with_capacity(3);
        tested.insert("operations", names);
        tested.insert("library", library.to_string());
        tested.insert("at", at.as_str());
        object.insert("tested", tested);
    }
    if let Some(contract) = &revision.contract {
        object.insert("contract", contract.document.clone());
    }
    object.into()
}

//! The pin file: which contracts were reviewed, and what their manifest said of them.

mod check;

pub use check::{Contract, Gate, PinFinding, check};

use std::collections::HashSet;

use super::entry::{entry_name, entry_status, text};
use super::manifest::{
    HashStatus, check_freshness, check_row, check_top, entries, find, read_object,
};
use super::publisher::{SignatureStatus, Trust};
use super::{Severity, is_hash};
use crate::clock::Timestamp;
use crate::json::{Object, Value, to_indented};

/// The member of the file that holds the pins.
const MEMBER: &str = "pinned_adapters";
/// What the file tells who opens it.
const NOTE: &str = "Each pin binds adapter_id and adapter_version to the contract_hash that was reviewed. \
                    entry_signature_status tells whether the publisher's signature was checked: anything but ok is not \
                    verified. nexus-router contract pins check holds contracts and manifest to this file.";
const SUPERSEDED: &str =
    "SUPERSEDED — a newer version is available. Adoption is allowed but consider migrating.";
const DEPRECATED: &str = "DEPRECATED — replacement available. New work should migrate to the replacement when ready. \
                          Historical bundles continue to verify from their embedded declarations.";
const INSPECTION: &str = "REVOKED — inspection-only pin. Do not adopt for new work; new evaluations will route to \
                          unknown_adapter.";
const BLOCKED: &str = "Refusing to pin a REVOKED contract for new work: evaluation routes it to unknown_adapter, so that \
                       it can never be accepted automatically. To look at it for legacy or forensic purposes only, run \
                       again with --allow-revoked-for-legacy-inspection.";

/// The pins of a project.
#[derive(Clone, Debug, Default)]
pub struct PinFile {
    /// The file but for its pins, whose member is `null` here.
    document: Object,
    pins: Vec<Object>,
}

impl PinFile {
    /// Reads a pin file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<String>> {
        let mut document = read_object(bytes).map_err(|error| vec![error.to_string()])?;
        // A name that was mistyped must not cost the file that has it.
        if !document.is_empty() && !document.contains_key(MEMBER) {
            return Err(vec![format!("it has no {MEMBER}, so it is no pin file")]);
        }
        let pins = document.get_mut(MEMBER).map(|pins| std::mem::replace(pins, Value::Null));
        let pins = match pins {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(pins)) => pins,
            Some(other) => {
                let kind = other.type_name();
                return Err(vec![format!("{MEMBER} is {kind}, and must be an array")]);
            }
        };
        let mut wrong = Vec::new();
        let mut seen = HashSet::new();
        let mut taken = Vec::with_capacity(pins.len());
        for (at, pin) in pins.into_iter().enumerate() {
            let kind = pin.type_name();
            let Some(pin) = pin.into_object() else {
                wrong.push(format!("{MEMBER}/{at} is {kind}, and must be an object"));
                continue;
            };
            for key in ["adapter_id", "adapter_version"] {
                if text(&pin, key).is_none() {
                    wrong.push(format!("{MEMBER}/{at}/{key} is missing, or no text"));
                }
            }
            if !text(&pin, "contract_hash").is_some_and(is_hash) {
                wrong.push(format!("{MEMBER}/{at}/contract_hash is missing, or no hash"));
            }
            if !seen.insert(entry_name(&pin)) {
                wrong.push(format!("{MEMBER}/{at}: {} is pinned twice", entry_name(&pin)));
            }
            taken.push(pin);
        }
        if wrong.is_empty() { Ok(Self { document, pins: taken }) } else { Err(wrong) }
    }

    /// Returns the pins, in order.
    #[must_use]
    pub fn pins(&self) -> &[Object] {
        &self.pins
    }

    /// Adds a pin, in the place of one of the same version.
    pub fn put(&mut self, pin: Object) {
        let key = |pin: &Object| {
            let part = |key| text(pin, key).unwrap_or_default().to_owned();
            (part("adapter_id"), part("adapter_version"))
        };
        let new = key(&pin);
        self.pins.retain(|old| key(old) != new);
        self.pins.push(pin);
        self.pins.sort_by_cached_key(key);
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut document = self.document.clone();
        document.insert(MEMBER, self.pins.iter().cloned().map(Value::from).collect::<Vec<_>>());
        if !document.contains_key("_note") {
            document.insert("_note", NOTE);
        }
        format!("{}\n", to_indented(&document.into()))
    }
}

/// What is to be pinned.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The id.
    pub id: &'a str,
    /// The version.
    pub version: &'a str,
    /// The hash of the contract that was reviewed.
    pub contract_hash: &'a str,
    /// A revoked contract may be pinned, to be looked at.
    pub allow_revoked: bool,
}

/// A pin, and what people should know of it.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The pin.
    pub pin: Object,
    /// What is told besides.
    pub notice: Option<String>,
}

/// Why something is not pinned.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// It is revoked; what is told of it.
    Revoked(Object),
    /// The manifest contradicts it, or does not hold itself.
    Wrong(Vec<String>),
}

/// Makes a pin of what a manifest says, if there is one.
///
/// # Errors
/// When the contract is revoked, or what the manifest says is not what is to be pinned, or cannot be trusted although keys
/// were given. What was not checked is no error: the pin says so.
pub fn pin(
    wanted: Wanted<'_>,
    manifest: Option<&Object>,
    trust: &Trust,
    now: Timestamp,
) -> Result<Pinned, Refusal> {
    let mut pin = Object::with_capacity(11);
    pin.insert("adapter_id", wanted.id);
    pin.insert("adapter_version", wanted.version);
    pin.insert("contract_hash", wanted.contract_hash);
    let mut unknown = |status: &str| {
        pin.insert("entry_hash_status", status);
        pin.insert("publisher_id", Value::Null);
        Ok(Pinned { pin: pin.clone(), notice: None })
    };
    let Some(manifest) = manifest else { return unknown("no_manifest_supplied") };
    let entries = entries(manifest).map_err(Refusal::Wrong)?;
    let Some((index, entry)) = find(&entries, wanted.id, wanted.version) else {
        return unknown("manifest_entry_not_found");
    };
    let status = entry_status(entry);
    if status == Some("revoked") && !wanted.allow_revoked {
        return Err(Refusal::Revoked(blocked(wanted, entry)));
    }
    let row = check_row(index, entry, trust);
    let mut wrong = contradictions(wanted, &entries, entry);
    if let HashStatus::Mismatch { recomputed, .. } = &row.hash {
        wrong.push(format!("entry_hash does not hold: the entry has {recomputed}"));
    }
    if trust.is_somebody() && row.signature.is_refused() {
        wrong.push(format!("the entry: {}", row.signature.meaning()));
    }
    if status.is_none() {
        wrong.push("its status is none of active, deprecated and revoked".to_owned());
    }
    let top = check_top(manifest, &entries, trust);
    if let HashStatus::Mismatch { recomputed, .. } = &top.hash {
        wrong.push(format!("manifest_hash does not hold: its entries have {recomputed}"));
    }
    if top.signature.is_refused() && top.signature != SignatureStatus::Absent {
        wrong.push(format!("the manifest: {}", top.signature.meaning()));
    }
    let stale = check_freshness(manifest, trust, now);
    let stale = stale.into_iter().filter(|finding| finding.severity == Severity::Error);
    wrong.extend(stale.map(|finding| finding.message));
    if !wrong.is_empty() {
        return Err(Refusal::Wrong(wrong));
    }
    let said = |key: &str, absent: &str| entry.get(key).cloned().unwrap_or(absent.into());
    pin.insert("entry_hash", said("entry_hash", ""));
    pin.insert("publisher_id", said("publisher_id", ""));
    pin.insert("status", said("status", "active"));
    for key in ["replaced_by", "supersedes"] {
        if let Some(pointer) = text(entry, key).filter(|pointer| !pointer.is_empty()) {
            pin.insert(key, pointer);
        }
    }
    let (advice, notice) = lifecycle(wanted, entry);
    if let Some(advice) = advice {
        pin.insert("lifecycle_advice", advice);
    }
    pin.insert(
        "entry_hash_status",
        match row.hash {
            HashStatus::Absent => "unsigned_manifest",
            ref status => status.name(),
        },
    );
    pin.insert("entry_signature_status", row.signature.name());
    Ok(Pinned { pin, notice })
}

/// Returns how a manifest contradicts what is to be pinned.
fn contradictions(wanted: Wanted<'_>, entries: &[&Object], entry: &Object) -> Vec<String> {
    let Wanted { id, version, contract_hash, .. } = wanted;
    let mut wrong = Vec::new();
    let bound = text(entry, "contract_hash").unwrap_or("no contract");
    if bound != contract_hash {
        wrong.push(format!(
            "the manifest binds {id}@{version} to {bound}, and --hash is {contract_hash}; review the contract again"
        ));
    }
    let is_other = |other: &&&Object| {
        text(other, "adapter_id") == Some(id)
            && text(other, "adapter_version") == Some(version)
            && other.get("contract_hash") != entry.get("contract_hash")
    };
    if entries.iter().any(|other| is_other(&other)) {
        wrong.push(format!("the manifest binds {id}@{version} to more than one contract"));
    }
    wrong
}

fn blocked(wanted: Wanted<'_>, entry: &Object) -> Object {
    let mut told = Object::with_capacity(7);
    told.insert("ok", false);
    told.insert("error", "pin_blocked_revoked");
    told.insert("adapter_id", wanted.id);
    told.insert("adapter_version", wanted.version);
    told.insert("status", "revoked");
    told.insert("replaced_by", entry.get("replaced_by").cloned().unwrap_or("".into()));
    told.insert("advice", BLOCKED);
    told
}

/// Returns what the pin says of what became of the contract, and what is told.
fn lifecycle(wanted: Wanted<'_>, entry: &Object) -> (Option<&'static str>, Option<String>) {
    let Wanted { id, version, .. } = wanted;
    let newer = text(entry, "replaced_by").filter(|newer| !newer.is_empty());
    match (entry_status(entry), newer) {
        (Some("revoked"), _) => {
            let notice =
                format!("WARNING: pinning REVOKED contract {id}@{version} as inspection-only.");
            (Some(INSPECTION), Some(notice))
        }
        (Some("deprecated"), newer) => {
            let newer = newer.unwrap_or("(none declared)");
            let notice = format!("WARNING: {id}@{version} is DEPRECATED. Replacement: {newer}");
            (Some(DEPRECATED), Some(notice))
        }
        (Some("active"), Some(newer)) => {
            let notice = format!("NOTICE: {id}@{version} is superseded by {newer}.");
            (Some(SUPERSEDED), Some(notice))
        }
        _ => (None, None),
    }
}

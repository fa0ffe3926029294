//! The eight contracts of the specification: part of this program, and pinned by their digests.
//!
//! A file that was edited is no contract any more: its pin does not fit, [`frozen`] does not have it and
//! [`check_frozen`] reports it. A lasting change needs a new version and a line in `tests/golden/interface_pins.txt`.
//! Lines of a released version never change.

use std::sync::LazyLock;

use super::document::Interface;
use super::finding::{Finding, Findings, below};
use crate::digest::Digest;
use crate::json::{self, Value};

/// The adapters by id, each with the text of its contract and the SHA-256 of the canonical form of that.
pub const FROZEN: [(&str, &str, &str); 8] = [
    (
        "cloudflare-r2",
        include_str!("frozen/cloudflare-r2.json"),
        "c7f12bc5561b2e8fade7fbcfc00b4964fc6cf9796c67f257152775c101722e38",
    ),
    (
        "grafana",
        include_str!("frozen/grafana.json"),
        "bc28d05319a1afdf6bd921a11ec6c33530b733588b5df4a253d29dc34925ef6d",
    ),
    (
        "livekit",
        include_str!("frozen/livekit.json"),
        "a2429af5caeb122c12f1abc560d0f16ee6ded8155a3f210ed40b1aa4d312f135",
    ),
    (
        "loki",
        include_str!("frozen/loki.json"),
        "abded2f62b6334d7f456e80e75a960e46f24dd8bb1c746b9d24050bb05d1c93e",
    ),
    (
        "meilisearch",
        include_str!("frozen/meilisearch.json"),
        "c7dc9d1ef29817543337f2f00ecc6ea8dbfdd9c19ff1c651708ba41c39bd5cde",
    ),
    (
        "prometheus",
        include_str!("frozen/prometheus.json"),
        "99c4d39e2d544cc5e4cd066e50f016152b4f6053f484a63e532e3019bcf05f25",
    ),
    (
        "qdrant-vector",
        include_str!("frozen/qdrant-vector.json"),
        "45092a2055fd4a07b496b2ed30ea3f2a6a3df7252c2aeff75922cc74400ee654",
    ),
    (
        "supabase-postgres",
        include_str!("frozen/supabase-postgres.json"),
        "5e24e641f1b89fa31b54f442e8ef551da2435a0acf581cc8d3a3d71170a4c241",
    ),
];

/// The SHA-256 of the canonical text of [`operation_table`].
pub const OPERATION_TABLE_SHA256: &str =
    "541ddf3826725acf379f70b6df9baaa4d3ebd97498713f7853ca42f8719f6672";

/// Reading them takes longer than any call should.
static READ: LazyLock<Vec<Interface>> =
    LazyLock::new(|| FROZEN.iter().filter_map(|entry| read(entry).ok()).collect());

/// Returns the frozen contracts in the order of the adapters' ids.
#[must_use]
pub fn frozen() -> &'static [Interface] {
    &READ
}

/// Returns the frozen contract of an adapter.
#[must_use]
pub fn frozen_interface(adapter_id: &str) -> Option<&'static Interface> {
    frozen().iter().find(|interface| interface.adapter_id == adapter_id)
}

/// Returns which operations the frozen contracts have: the adapters' ids, each with a sorted list of names.
#[must_use]
pub fn operation_table() -> Value {
    table_of(frozen())
}

/// Tells everything in which the contracts of this program are not those that were pinned.
///
/// The first part of each pointer is the adapter's id.
#[must_use]
pub fn check_frozen() -> Vec<Finding> {
    let mut findings = Findings::default();
    for entry in &FROZEN {
        for finding in read(entry).err().unwrap_or_default() {
            let pointer = below("", entry.0) + &finding.pointer;
            findings.add(pointer, finding.code, finding.message);
        }
    }
    if digest_of(&operation_table()).as_deref() != Some(OPERATION_TABLE_SHA256) {
        findings.add("", "INTERFACE_NOT_PINNED", "the table of operations is not the frozen one");
    }
    findings.into_vec()
}

fn read((adapter_id, text, sha256): &(&str, &str, &str)) -> Result<Interface, Vec<Finding>> {
    let interface = Interface::read(text.as_bytes())?;
    let mut findings = Findings::default();
    if interface.adapter_id != *adapter_id {
        let message = format!("the contract is that of {:?}", interface.adapter_id);
        findings.add("/adapter_id", "INTERFACE_NOT_PINNED", message);
    }
    let digest = interface.digest.to_string();
    if digest != *sha256 {
        let message = format!("its SHA-256 is {digest}; {sha256} is pinned");
        findings.add("", "INTERFACE_NOT_PINNED", message);
    }
    findings.or(interface)
}

fn table_of(interfaces: &[Interface]) -> Value {
    let row = |interface: &Interface| {
        let names = interface.operations.keys().map(|name| Value::from(name.as_str()));
        (interface.adapter_id.clone(), Value::Array(names.collect()))
    };
    Value::Object(interfaces.iter().map(row).collect())
}

fn digest_of(value: &Value) -> Option<String> {
    Some(Digest::of(json::to_jcs(value).ok()?.as_bytes()).to_string())
}

#[cfg(test)]
mod tests;

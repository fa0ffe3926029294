//! Libraries that say of themselves whatever a test wants: patched copies of `tests/adapters/mimic`.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::built_library;

/// What stands before the two reserved texts of the built file, and how long each of them is.
const SCRIPT: &[u8] = b"MIMIC SCRIPT 01:";
const RECORD: &[u8] = b"NXADPT01\0\0\x04\0";
const RESERVED: usize = 256 * 1024;

/// The record and the behaviour of a copy.
pub struct Mimic {
    record: Value,
    script: Value,
}

impl Mimic {
    /// Makes a well-behaved adapter that describes itself like this and carries this manifest.
    pub fn new(description: &Value, manifest: &Value) -> Self {
        Self {
            record: json!({
                "abi": 1, "sdk": "1.2.0", "package": "mimic", "version": "0.1.0",
                "factory": "create_adapter", "manifest": manifest,
            }),
            script: json!({ "description": description.to_string() }),
        }
    }

    /// Makes a well-behaved adapter of this kind.
    pub fn of_kind(kind: &str) -> Self {
        Self::new(
            &json!({"adapter_id": kind, "adapter_kind": kind, "capabilities": ["apply"]}),
            &json!({"schema_version": 1, "kind": kind, "capabilities": ["apply"]}),
        )
    }

    /// Sets a member of the record: `abi`, `package`, `manifest` and so on.
    pub fn record(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.record[member] = value.into();
        self
    }

    /// Sets a member of the manifest.
    pub fn manifest(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.record["manifest"][member] = value.into();
        self
    }

    /// Sets what the instance says of itself, be it JSON or not.
    pub fn description(self, text: &str) -> Self {
        self.script("description", text)
    }

    /// Sets a member of the script: `abort_when_opened`, `factory_error`, `leave_thread`, `constructor_effect` and so on.
    pub fn script(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.script[member] = value.into();
        self
    }

    /// Writes the copy.
    pub fn write(&self, path: &Path) {
        static BUILT: OnceLock<(Vec<u8>, usize, usize)> = OnceLock::new();
        let (built, script, record) = BUILT.get_or_init(|| {
            let built = std::fs::read(built_library("mimic_adapter")).unwrap();
            let (script, record) = (end_of(&built, SCRIPT), end_of(&built, RECORD));
            (built, script, record)
        });
        let mut bytes = built.clone();
        for (at, value) in [(*script, &self.script), (*record, &self.record)] {
            let text = value.to_string();
            assert!(text.len() <= RESERVED, "{} bytes do not fit", text.len());
            let (place, blank) = bytes[at..at + RESERVED].split_at_mut(text.len());
            place.copy_from_slice(text.as_bytes());
            blank.fill(b' ');
        }
        std::fs::write(path, bytes).unwrap();
    }
}

/// Returns where the only occurrence of some bytes ends.
fn end_of(haystack: &[u8], needle: &[u8]) -> usize {
    let mut found = (0..haystack.len()).filter(|at| haystack[*at..].starts_with(needle));
    let start = found.next().unwrap();
    assert_eq!(found.next(), None, "the bytes stand twice in the file");
    start + needle.len()
}

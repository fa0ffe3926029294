//! The eight contracts of the specification: part of this program, and pinned by their digests.
//!
//! A file that was edited is no contract any more: its pin does not fit, [`frozen`] does not have it and
//! [`check_frozen`] tells it. Whoever changes one for good raises its version and adds a line to
//! `tests/golden/interface_pins.txt`, from which nothing is ever taken.

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
        "db1058339e646e1bdddb55ef5f5b8941f23ebb09d402b02b3d832349b3479281",
    ),
    (
        "grafana",
        include_str!("frozen/grafana.json"),
        "05db40499bd98f9c688c1a543f545dae8f99bc0a04121dd3ad1995fba05e9334",
    ),
    (
        "livekit",
        include_str!("frozen/livekit.json"),
        "4434b8c82a0863997a04f3cb2f4df705fe0fd15509fe36cce46ea9beff349d96",
    ),
    (
        "loki",
        include_str!("frozen/loki.json"),
        "b2f0f4491b4ab59175f8b6b846ac8920f31bec6069cf3c411cf51e79865132ba",
    ),
    (
        "meilisearch",
        include_str!("frozen/meilisearch.json"),
        "4c32daabefa41f030f339aab2dd5a32cd8bca0547ab49a98b64333b0f277a6db",
    ),
    (
        "prometheus",
        include_str!("frozen/prometheus.json"),
        "b423963678292139296c0f76d5f29a2cef70713fcdfee4caa46c3219e62f4152",
    ),
    (
        "qdrant-vector",
        include_str!("frozen/qdrant-vector.json"),
        "ff82f00c09db28760228a77aa2dc5c0eea023e19515607faa6ca9a1bc70e8043",
    ),
    (
        "supabase-postgres",
        include_str!("frozen/supabase-postgres.json"),
        "f692c8ae2b2d0a56bd3ff1aee4aba835ae2d41173a33b22651c01eaee6bbe668",
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
mod tests {
    use super::*;
    use crate::interface::Severity;
    use semver::Version;

    /// As the specification lists them.
    const SPECIFIED: [(&str, &[&str]); 8] = [
        ("supabase-postgres", &["query", "vector_search"]),
        ("qdrant-vector", &["search", "upsert", "create_collection", "health_check"]),
        ("meilisearch", &["search"]),
        ("cloudflare-r2", &["put_object", "get_object"]),
        ("prometheus", &["query_metrics"]),
        ("loki", &["query_logs"]),
        ("grafana", &["query_dashboard"]),
        ("livekit", &["create_room", "join_room"]),
    ];

    #[test]
    fn every_contract_is_the_one_that_was_pinned() {
        assert_eq!(check_frozen(), []);
        assert_eq!(frozen().len(), FROZEN.len());
        assert!(FROZEN.is_sorted_by_key(|(adapter_id, _, _)| *adapter_id));
    }

    #[test]
    fn adapters_and_operations_are_those_of_the_specification() {
        assert_eq!(frozen().len(), SPECIFIED.len());
        for (adapter_id, operations) in SPECIFIED {
            let interface = frozen_interface(adapter_id).unwrap();
            assert_eq!(interface.version, Version::new(1, 0, 0), "{adapter_id}");
            let mut expected = operations.to_vec();
            expected.sort_unstable();
            let names: Vec<&str> = interface.operations.keys().map(String::as_str).collect();
            assert_eq!(names, expected, "{adapter_id}");
        }
        assert!(frozen_interface("invalid-adapter").is_none());
    }

    #[test]
    fn table_of_operations_has_its_hash() {
        assert_eq!(digest_of(&operation_table()).unwrap(), OPERATION_TABLE_SHA256);
        assert_ne!(digest_of(&table_of(&frozen()[1..])).unwrap(), OPERATION_TABLE_SHA256);
    }

    #[test]
    fn every_operation_shows_what_it_gives_and_how_it_fails() {
        for interface in frozen() {
            for (name, operation) in &interface.operations {
                let place = format!("{}.{name}", interface.adapter_id);
                assert!(operation.examples.iter().any(|it| it.comes.is_ok()), "{place}");
                assert!(operation.examples.iter().any(|it| it.comes.is_err()), "{place}");
                for schema in [&operation.input_schema, &operation.output_schema] {
                    let closed = schema.get("additionalProperties");
                    assert_eq!(closed, Some(&Value::Bool(false)), "{place}");
                }
                // Whoever is told an error has no answer to go on with.
                let halts = |it: &crate::interface::FailureMode| it.halts;
                for mode in operation.failure_modes.iter().filter(|mode| halts(mode)) {
                    assert_eq!(mode.severity, Severity::Error, "{place}: {}", mode.code);
                }
                for pointer in &operation.volatile {
                    let member = operation.output_schema.get("properties").unwrap();
                    assert!(member.pointer(pointer).is_some(), "{place}: {pointer}");
                }
            }
        }
    }

    #[test]
    fn calls_are_not_repeated_unless_that_does_no_harm() {
        for interface in frozen() {
            for (name, operation) in &interface.operations {
                assert!(
                    operation.retry.attempts == 1 || operation.idempotent,
                    "{}.{name}",
                    interface.adapter_id
                );
            }
        }
    }

    #[test]
    fn files_are_laid_out_as_this_program_lays_them_out() {
        for ((adapter_id, text, _), interface) in FROZEN.iter().zip(frozen()) {
            let pretty = json::to_pretty(&interface.document) + "\n";
            assert_eq!(*text, pretty, "{adapter_id}");
        }
    }

    #[test]
    fn no_contract_has_numbers_that_programs_write_differently() {
        fn whole(value: &Value) -> bool {
            match value {
                Value::Float(_) | Value::BigInt(_) => false,
                Value::Array(items) => items.iter().all(whole),
                Value::Object(object) => object.iter().all(|(_, member)| whole(member)),
                _ => true,
            }
        }
        for interface in frozen() {
            assert!(whole(&interface.document), "{}", interface.adapter_id);
        }
    }

    #[test]
    fn edited_contract_is_told_and_one_with_other_blanks_is_not() {
        let (adapter_id, text, sha256) = FROZEN[0];
        let told = |adapter_id, text: &str| {
            let findings = read(&(adapter_id, text, sha256)).err().unwrap_or_default();
            findings
                .into_iter()
                .map(|it| format!("{}: {}", it.pointer, it.code))
                .collect::<Vec<_>>()
        };
        let interface = Interface::read(text.as_bytes()).unwrap();
        assert!(told(adapter_id, &json::to_compact(&interface.document)).is_empty());
        let edited = text.replace("60000", "60001");
        assert_eq!(told(adapter_id, &edited), [": INTERFACE_NOT_PINNED"]);
        assert_eq!(told("other", text), ["/adapter_id: INTERFACE_NOT_PINNED"]);
        assert_eq!(told(adapter_id, "{"), [": INTERFACE_MALFORMED"]);
    }

    #[test]
    fn pins_are_written_down() {
        let mut known: Vec<(&str, Version, &str)> = Vec::new();
        for line in include_str!("../../../tests/golden/interface_pins.txt").lines() {
            let [adapter_id, version, sha256] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}: an adapter, a version and a SHA-256 were expected");
            };
            let version = Version::parse(version).unwrap();
            let older = known.iter().rfind(|(id, _, _)| *id == adapter_id);
            assert!(older.is_none_or(|(_, older, _)| *older < version), "{line}: goes back");
            assert!(sha256.parse::<Digest>().is_ok(), "{line}");
            known.push((adapter_id, version, sha256));
        }
        for ((adapter_id, _, sha256), interface) in FROZEN.iter().zip(frozen()) {
            let newest = known.iter().rfind(|(id, _, _)| id == adapter_id).unwrap();
            assert_eq!((newest.1.clone(), newest.2), (interface.version.clone(), *sha256));
        }
    }
}

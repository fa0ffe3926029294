//! The frozen contracts: their pins, their form, what they promise, and the recorded answers of the real services.

mod promises;
mod recorded;

use super::*;
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
fn reports_edited_contract_but_not_whitespace() {
    let (adapter_id, text, sha256) = FROZEN[0];
    let told = |adapter_id, text: &str| {
        let findings = read(&(adapter_id, text, sha256)).err().unwrap_or_default();
        findings.into_iter().map(|it| format!("{}: {}", it.pointer, it.code)).collect::<Vec<_>>()
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
    for line in include_str!("../../../../tests/golden/interface_pins.txt").lines() {
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

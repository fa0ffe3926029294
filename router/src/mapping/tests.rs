//! What the tests of tool specs share: contracts and documents.

mod documents;
mod records;
mod rules;
mod schemas;
mod specification;

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::interface::Interface;
use crate::json::Value;

/// The adapters of the specification and their operations.
const ADAPTERS: [(&str, &[&str]); 8] = [
    ("supabase-postgres", &["query", "vector_search"]),
    ("qdrant-vector", &["search", "upsert", "create_collection", "health_check"]),
    ("meilisearch", &["search"]),
    ("cloudflare-r2", &["put_object", "get_object"]),
    ("prometheus", &["query_metrics"]),
    ("loki", &["query_logs"]),
    ("grafana", &["query_dashboard"]),
    ("livekit", &["create_room", "join_room"]),
];
/// What the router can do itself.
const BUILTINS: &[&str] = &["inspect", "replay"];

type Interfaces = BTreeMap<String, Interface>;

fn value(text: &serde_json::Value) -> Value {
    Value::from(text)
}

/// What the operations of the test contracts take.
fn input_schema() -> serde_json::Value {
    json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"],
        "additionalProperties": false })
}

/// What they give.
fn output_schema() -> serde_json::Value {
    json!({ "type": "object", "properties": { "hits": { "type": "array" } }, "required": ["hits"] })
}

fn contract(adapter_id: &str, version: &str, operations: &[&str]) -> Interface {
    let operation = json!({
        "description": "does it", "input_schema": input_schema(), "output_schema": output_schema(),
        "timeout_ms": 1000, "idempotent": true, "read_only": true, "failure_modes": [],
    });
    let operations: serde_json::Map<_, _> =
        operations.iter().map(|name| ((*name).to_owned(), operation.clone())).collect();
    let document = json!({
        "format": crate::interface::FORMAT, "adapter_id": adapter_id, "version": version,
        "description": "for tests", "operations": operations,
    });
    Interface::from_document(value(&document)).unwrap()
}

/// The eight contracts, frozen at 1.0.0.
fn frozen() -> Interfaces {
    let made = ADAPTERS.map(|(id, operations)| (id.to_owned(), contract(id, "1.0.0", operations)));
    made.into_iter().collect()
}

/// The eight contracts, with another of `qdrant-vector`.
fn with_qdrant(version: &str, operations: &[&str]) -> Interfaces {
    let mut interfaces = frozen();
    let changed = contract("qdrant-vector", version, operations);
    interfaces.insert(changed.adapter_id.clone(), changed);
    interfaces
}

/// A remote tool that keeps every rule.
fn remote() -> serde_json::Value {
    json!({
        "tool_id": "vector-search", "version": "1.2.3", "description": "Searches among the vectors.",
        "input_schema": input_schema(), "output_schema": output_schema(),
        "execution_mode": "remote", "credentials_required": ["QDRANT_API_KEY"],
        "side_effects": [{ "effect_type": "network_request", "description": "asks", "reversible": true }],
        "rollback_strategy": "none", "timeout_seconds": 30, "resource_class": "compute",
        "adapter_id": "qdrant-vector", "adapter_operation": "search",
        "adapter_contract_version": "1.0.0",
        "execution_target": { "mode": "cloud", "provider": "northflank", "service": "qdrant" },
        "dependencies": { "tools": ["other"], "services": ["qdrant"],
            "minimum_resources": { "memory_mb": 64, "cpu_cores": 0.5, "disk_mb": 0 } },
        "validation": { "pre_conditions": ["the collection is there"], "invariants": [] },
        "metadata": { "author": "Ada", "tags": ["x"] },
    })
}

/// A local tool that keeps every rule.
fn local() -> serde_json::Value {
    json!({
        "tool_id": "look", "version": "1.0.0", "description": "Looks at the runs that there were.",
        "input_schema": { "type": "object" }, "output_schema": { "type": "object" },
        "execution_mode": "local", "credentials_required": [], "side_effects": [],
        "rollback_strategy": "none", "timeout_seconds": 5, "resource_class": "control",
        "execution_target": { "service": "inspect" },
    })
}

#[track_caller]
fn read(document: &serde_json::Value) -> ToolDocument {
    ToolDocument::read(document.to_string().as_bytes())
        .unwrap_or_else(|findings| panic!("{findings:#?}"))
}

/// Changes the member to which a pointer leads; null takes it away.
fn with(
    mut document: serde_json::Value,
    pointer: &str,
    value: serde_json::Value,
) -> serde_json::Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match parent {
        serde_json::Value::Object(members) if value.is_null() => drop(members.remove(name)),
        serde_json::Value::Object(members) => drop(members.insert(name.to_owned(), value)),
        _ => *parent.get_mut(name.parse::<usize>().unwrap()).unwrap() = value,
    }
    document
}

/// The ids of the rules that are broken.
fn ids(violations: &[Violation]) -> Vec<&'static str> {
    violations.iter().map(|violation| violation.check_id).collect()
}

//! The table `normalize.v1`: which names and pointers are taken out. Frozen, with its digest pinned.

use super::redact::Redactor;
use crate::json::{Object, Value};

/// The id of the table.
pub const TABLE_ID: &str = "normalize.v1";

/// The SHA-256 of the canonical text of [`table`]. Who changes the table follows the contract update process.
pub const TABLE_SHA256: &str = "c110d6a17de941cf8008012380ff69fe8a4a2df748716236e1d31ab02b943307";

/// The names that are removed from what a scout found, by why.
pub const NAMES: [(&str, &[&str]); 5] = [
    (
        "latency",
        &[
            "duration_ms",
            "elapsed",
            "elapsed_ms",
            "latency",
            "latency_ms",
            "processing_time_ms",
            "query_time_ms",
            "response_time_ms",
        ],
    ),
    (
        "model",
        &[
            "finish_reason",
            "logprobs",
            "model",
            "model_version",
            "provider_metadata",
            "seed",
            "service_tier",
            "stop_reason",
            "system_fingerprint",
        ],
    ),
    (
        "request_ids",
        &[
            "conversation_id",
            "correlation_id",
            "invocation_id",
            "message_id",
            "request_id",
            "response_id",
            "session_id",
            "span_id",
            "trace_id",
            "x_request_id",
        ],
    ),
    (
        "timestamps",
        &[
            "accessed_at",
            "completed_at",
            "created",
            "created_at",
            "expires_at",
            "fetched_at",
            "finished_at",
            "generated_at",
            "retrieved_at",
            "started_at",
            "time_utc",
            "timestamp",
            "ts",
            "ts_utc",
            "updated_at",
        ],
    ),
    (
        "tokens",
        &[
            "cached_tokens",
            "completion_tokens",
            "cost",
            "cost_usd",
            "input_tokens",
            "output_tokens",
            "prompt_tokens",
            "reasoning_tokens",
            "token_count",
            "total_tokens",
            "usage",
        ],
    ),
];

/// What becomes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It is removed.
    Remove,
    /// It is a credential: its digest is kept under this name, and itself nowhere.
    Digest(&'static str),
}

/// What is taken out of the outputs of one operation.
type Row = (&'static str, &'static [(&'static str, Means)]);

/// The operations of the frozen services, each with pointers into its output.
const SERVICES: [Row; 14] = [
    ("cloudflare-r2.get_object", &[]),
    ("cloudflare-r2.put_object", &[("/version_id", Means::Remove)]),
    ("grafana.query_dashboard", &[]),
    ("livekit.create_room", &[("/creation_time", Means::Remove), ("/sid", Means::Remove)]),
    (
        "livekit.join_room",
        &[("/expires_at", Means::Remove), ("/token", Means::Digest("token_sha256"))],
    ),
    ("loki.query_logs", &[]),
    ("meilisearch.search", &[("/processing_time_ms", Means::Remove)]),
    ("prometheus.query_metrics", &[]),
    ("qdrant-vector.create_collection", &[]),
    ("qdrant-vector.health_check", HEALTH),
    ("qdrant-vector.search", &[("/time", Means::Remove)]),
    ("qdrant-vector.upsert", &[("/operation_id", Means::Remove)]),
    ("supabase-postgres.query", &[]),
    ("supabase-postgres.vector_search", &[]),
];

/// The same of every service.
const HEALTH: &[(&str, Means)] = &[("/latency_ms", Means::Remove)];

/// Returns what is taken out of the output of `<adapter>.<operation>`; none if the table does not know it.
#[must_use]
pub fn pointers(operation: &str) -> Option<&'static [(&'static str, Means)]> {
    let known = SERVICES.iter().find(|(name, _)| *name == operation);
    let health = || {
        let adapter = operation.strip_suffix(".health_check")?;
        let of = |name: &str| name.split_once('.').is_some_and(|(known, _)| known == adapter);
        SERVICES.iter().any(|(name, _)| of(name)).then_some(HEALTH)
    };
    known.map(|(_, pointers)| *pointers).or_else(health)
}

/// Says whether members of this name are removed.
pub(super) fn is_removed(name: &str) -> bool {
    NAMES.iter().any(|(_, names)| names.binary_search(&name).is_ok())
}

/// Returns the table, with everything that decides what is taken out.
#[must_use]
pub fn table() -> Value {
    let list = |texts: &[&str]| -> Value {
        texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>().into()
    };
    let names: Object = NAMES.iter().map(|(why, names)| ((*why).to_owned(), list(names))).collect();
    let mut services: Object = SERVICES
        .iter()
        .map(|(operation, pointers)| ((*operation).to_owned(), row(pointers)))
        .collect();
    services.insert("*.health_check", row(HEALTH));
    let redactors: Object = Redactor::ALL
        .map(|redactor| (redactor.id().to_owned(), redactor.steps()))
        .into_iter()
        .collect();
    let mut scout = Object::new();
    scout.insert("fields", list(&super::SCOUT_FIELDS));
    scout.insert("remove", names);
    scout.insert("sort_unique", list(&["sources"]));
    let mut envoy = Object::new();
    envoy.insert("redact", list(&["stdout", "stderr"]));
    let mut object = Object::new();
    object.insert("envoy", envoy);
    object.insert("id", TABLE_ID);
    object.insert("redactors", redactors);
    object.insert("scout", scout);
    object.insert("services", services);
    object.into()
}

/// Returns pointers and what becomes of each: null for what is removed, else the name under which its digest is kept.
fn row(pointers: &[(&str, Means)]) -> Value {
    let means = |means: &Means| match means {
        Means::Remove => Value::Null,
        Means::Digest(name) => (*name).into(),
    };
    let members = pointers.iter().map(|(pointer, what)| ((*pointer).to_owned(), means(what)));
    members.collect::<Object>().into()
}

//! The tables of what each request may hold; the published schemas say the same to others.

use super::shape::{Key, Kind, Need, Others, Shape};

const fn required(name: &'static str, kind: Kind) -> Key {
    Key { name, need: Need::Required, kind }
}

const fn optional(name: &'static str, kind: Kind) -> Key {
    Key { name, need: Need::Optional, kind }
}

const fn closed(keys: &'static [Key]) -> Shape {
    Shape { keys, others: Others::Refused }
}

/// The name of the published schema of a run request.
pub(super) const RUN_SCHEMA: &str = "nexus-router.run.request.v0.7";

pub(super) static RUN: Shape = closed(&[
    required("goal", Kind::NAME),
    optional("mode", Kind::Word(&["dry_run", "apply"])),
    optional("dispatch", Kind::Object(&DISPATCH)),
    optional("context", Kind::Object(&CONTEXT)),
    optional("policy", Kind::Object(&POLICY)),
    optional("plan_override", Kind::List(&STEP)),
    optional("timeout_ms", Kind::COUNT),
    optional("idempotency_key", Kind::Name { max: 256 }),
]);

static DISPATCH: Shape =
    closed(&[optional("adapter_id", Kind::NAME), optional("require_capabilities", Kind::Names)]);

static POLICY: Shape = closed(&[
    optional("allow_apply", Kind::Bool),
    optional("max_steps", Kind::COUNT),
    optional("on_error", Kind::Word(&["stop", "continue"])),
    optional("simulate", Kind::Bool),
]);

static CONTEXT: Shape = closed(&[optional("artifacts", Kind::List(&ARTIFACT))]);

static ARTIFACT: Shape = closed(&[
    required("artifact_id", Kind::NAME),
    required("media_type", Kind::NAME),
    optional("locator", Kind::Text),
    optional("digest", Kind::Object(&DIGEST)),
]);

static DIGEST: Shape =
    closed(&[required("alg", Kind::Word(&["sha256"])), required("value", Kind::NAME)]);

pub(super) static STEP: Shape = closed(&[
    required("step_id", Kind::NAME),
    required("intent", Kind::Text),
    required("call", Kind::Object(&CALL)),
    optional("expected_output_pointer", Kind::Text),
    optional("dispatch", Kind::Object(&DISPATCH)),
    optional("timeout_ms", Kind::COUNT),
    optional("grants", Kind::List(&GRANT)),
    optional("expect", Kind::Word(&["success", ANY])),
]);

/// The expectation of a step that accepts an output which reports a failure.
pub(super) const ANY: &str = "any";

/// What the plan grants to a step beyond its role.
static GRANT: Shape = closed(&[
    required("grant", Kind::Word(&[SHELL_EXEC, NETWORK])),
    optional("targets", Kind::Names),
]);

pub(super) const SHELL_EXEC: &str = "shell_exec";
pub(super) const NETWORK: &str = "network";

static CALL: Shape = closed(&[
    required("tool", Kind::NAME),
    required("method", Kind::NAME),
    required("args", Kind::AnyObject),
    optional("interaction", Kind::Object(&INTERACTION)),
]);

/// What the caller says besides the arguments, to an adapter that asked.
static INTERACTION: Shape = closed(&[
    optional("inputs", Kind::AnyObject),
    optional("state", Kind::Text),
    optional("client", Kind::AnyObject),
]);

/// The name of the published schema of an inspect request.
pub(super) const INSPECT_SCHEMA: &str = "nexus-router.inspect.request.v0.2";

pub(super) static INSPECT: Shape = closed(&[
    required("db_path", Kind::NAME),
    optional("run_id", Kind::NAME),
    optional("status", Kind::Word(&["RUNNING", "COMPLETED", "FAILED"])),
    optional("limit", Kind::Integer { min: 1, max: 1000 }),
    optional("offset", Kind::Integer { min: 0, max: u64::MAX }),
    optional("since", Kind::Text),
]);

/// The name of the published schema of a replay request.
pub(super) const REPLAY_SCHEMA: &str = "nexus-router.replay.request.v0.2";

pub(super) static REPLAY: Shape = closed(&[
    required("db_path", Kind::NAME),
    required("run_id", Kind::NAME),
    optional("strict", Kind::Bool),
]);

/// The name of the published schema of an export request.
pub(super) const EXPORT_SCHEMA: &str = "nexus-router.export.request.v0.3";

// The Python router takes an empty path and an empty id here; they lead nowhere, which is told later.
pub(super) static EXPORT: Shape = closed(&[
    required("db_path", Kind::Text),
    required("run_id", Kind::Text),
    optional("include_provenance", Kind::Bool),
    optional("format", Kind::Word(&["bundle_v0_3"])),
]);

/// The name of the published schema of an import request.
pub(super) const IMPORT_SCHEMA: &str = "nexus-router.import.request.v0.3";

pub(super) static IMPORT: Shape = closed(&[
    required("db_path", Kind::Text),
    required("bundle", Kind::Object(&BUNDLE)),
    optional("mode", Kind::Word(&["reject_on_conflict", "new_run_id", "overwrite"])),
    optional("new_run_id", Kind::Text),
    optional("verify_digest", Kind::Bool),
    optional("replay_after_import", Kind::Bool),
]);

/// Only the frame: what is wrong inside is the result of the import, not a mistake of the request.
static BUNDLE: Shape = Shape {
    keys: &[
        required("bundle_version", Kind::Text),
        required("run", Kind::AnyObject),
        required("events", Kind::AnyList),
        required("digests", Kind::AnyObject),
    ],
    others: Others::Ignored,
};

//! The table of routes: what there is, who may, and who answers. The OpenAPI document is read off it.

use std::pin::Pin;

use axum::response::Response;
use http::Method;

use super::guard::Context;
use super::problem::Problem;
use super::{adapters, approvals, daemon, events, mcp, runs, signals, tools};
use crate::access::Scope;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, also without a token.
    Public,
    /// Who shows a token with this scope.
    Scope(Scope),
}

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// Nothing.
    None,
    /// JSON, described by a schema of this name.
    Json(&'static str),
    /// A bundle.
    Bundle,
    /// A message of MCP.
    Message,
}

/// A parameter of the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    /// Its JSON schema.
    pub(super) schema: &'static str,
    pub(super) doc: &'static str,
}

/// What a client gets when all is well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Good {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    /// The name of a schema, if it has one.
    pub(super) schema: Option<&'static str>,
    pub(super) doc: &'static str,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A route.
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    /// The name of the operation.
    pub id: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    pub(super) query: &'static [Query],
    pub(super) payload: Payload,
    pub(super) good: &'static [Good],
    pub(super) handler: fn(Context) -> Answer,
}

impl Route {
    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> Method {
        Method::from_bytes(self.method.as_bytes()).unwrap_or(Method::GET)
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

const JSON: &str = "application/json";
const READ: Access = Access::Scope(Scope::Read);
const RUN: Access = Access::Scope(Scope::Run);
const ADMIN: Access = Access::Scope(Scope::Admin);

const fn json(status: u16, schema: Option<&'static str>, doc: &'static str) -> Good {
    Good { status, media_type: JSON, schema, doc }
}

macro_rules! route {
    ($method:literal $path:literal, $access:expr, $id:literal, $doc:literal,
     query: $query:expr, takes: $payload:expr, gives: $good:expr, $handler:path) => {
        Route {
            method: $method,
            path: $path,
            access: $access,
            id: $id,
            doc: $doc,
            query: $query,
            payload: $payload,
            good: $good,
            handler: |context| Box::pin($handler(context)),
        }
    };
}

const WAIT: Query = Query {
    name: "wait",
    schema: r#"{"oneOf":[{"type":"boolean"},{"type":"number","minimum":0,"maximum":3600}],"default":true}"#,
    doc: "Whether to wait for the end of the run, or for how many seconds. Who does not wait any more \
          gets 202 when the run is on disk.",
};
const ON_DISCONNECT: Query = Query {
    name: "on_disconnect",
    schema: r#"{"type":"string","enum":["continue","cancel"],"default":"continue"}"#,
    doc: "What becomes of a run whose caller goes away while it waits.",
};
const LIMIT: Query = Query {
    name: "limit",
    schema: r#"{"type":"integer","minimum":1,"maximum":1000,"default":50}"#,
    doc: "At most so many.",
};
const OFFSET: Query = Query {
    name: "offset",
    schema: r#"{"type":"integer","minimum":0,"maximum":9007199254740991,"default":0}"#,
    doc: "Without the first so many.",
};
const NO: &[Query] = &[];
const UNCHANGED: Good =
    Good { status: 304, media_type: "", schema: None, doc: "It is what If-None-Match names." };

/// Every route. Those that are public are seen here, and nowhere else.
pub const ROUTES: &[Route] = &[
    route!("GET" "/healthz", Access::Public, "healthz", "Says that the process answers.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "It does.")], daemon::healthz),
    route!("GET" "/readyz", Access::Public, "readyz",
        "Says whether runs should be sent here, and counts adapters by state: 503 until every adapter is \
         ready or failed, and while the daemon drains or cannot write.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "They should.")], daemon::readyz),
    route!("GET" "/openapi.json", Access::Public, "openapi", "Returns this document.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "The document.")], daemon::description),
    route!("GET" "/protocol/adapter-contracts", Access::Public, "listContracts",
        "Lists the signal contracts, also those that are deprecated or revoked, and which version of each is the active head.",
        query: NO, takes: Payload::None,
        gives: &[json(200, Some("contracts"), "The contracts, by id and version."), UNCHANGED], signals::list),
    route!("GET" "/protocol/adapter-contracts/{adapter_id}", Access::Public, "showContract",
        "Returns the active head and all versions of a signal contract, or one version.",
        query: &[Query { name: "version", schema: r#"{"type":"string","minLength":1}"#,
            doc: "Only this version, whatever became of it." }],
        takes: Payload::None,
        gives: &[json(200, Some("contract.answer"), "The contract."), UNCHANGED], signals::show),
    route!("GET" "/specs/adapter-contract.schema.json", Access::Public, "contractSchema",
        "Returns the JSON Schema of signal contracts.",
        query: NO, takes: Payload::None,
        gives: &[Good { status: 200, media_type: signals::SCHEMA_TYPE, schema: None, doc: "The schema, draft-07." }, UNCHANGED],
        signals::schema),
    route!("GET" "/specs/adapter-contracts.manifest.json", Access::Public, "contractManifest",
        "Returns the signed manifest of signal contracts, if the operator publishes one.",
        query: NO, takes: Payload::None,
        gives: &[json(200, None, "The manifest, byte for byte."), UNCHANGED], signals::manifest),
    route!("GET" "/.well-known/aigentsy-publisher.json", Access::Public, "publisher",
        "Tells who signs the manifest and with which key, if the operator publishes that.",
        query: NO, takes: Payload::None,
        gives: &[json(200, Some("publisher"), "The document of the publisher."), UNCHANGED], signals::publisher),
    route!("GET" "/protocol/merkle/public-key", Access::Public, "publicKey",
        "Returns the key of the publisher alone.",
        query: NO, takes: Payload::None,
        gives: &[json(200, Some("public_key"), "The key."), UNCHANGED], signals::public_key),
    route!("GET" "/metrics", READ, "metrics", "Returns the metrics, for Prometheus.",
        query: NO, takes: Payload::None,
        gives: &[Good { status: 200, media_type: crate::metrics::CONTENT_TYPE, schema: None,
            doc: "The metrics as OpenMetrics text." }], daemon::metrics),
    route!("GET" "/v1/status", READ, "status", "Tells what the daemon is and does.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "The state.")], daemon::status),
    route!("POST" "/v1/runs", RUN, "submitRun",
        "Runs a plan. A run that applies needs scope apply. The header Idempotency-Key, or \
         idempotency_key in the request, gives the first run back when the request is sent again.",
        query: &[WAIT, ON_DISCONNECT], takes: Payload::Json("run.request.v0.7"),
        gives: &[json(200, Some("run.response.v0.7"), "The run is over; status tells how."),
            json(202, Some("run.response.v0.7"),
                "The run is on disk and goes on, or waits for an approval; see Location and waiting.")],
        runs::submit),
    route!("GET" "/v1/runs", READ, "listRuns", "Lists the runs that the token sees, the newest first.",
        query: &[
            Query { name: "status", schema: r#"{"type":"string","enum":["RUNNING","COMPLETED","FAILED"]}"#,
                doc: "Only runs of this status." },
            Query { name: "since", schema: r#"{"type":"string","format":"date-time","examples":["2026-11-16T08:30:00+01:00"]}"#,
                doc: "Only runs that were created at this time (RFC 3339) or later." },
            LIMIT, OFFSET,
        ],
        takes: Payload::None,
        gives: &[json(200, Some("inspect.response.v0.2"), "The runs.")], runs::list),
    route!("GET" "/v1/runs/{run_id}", READ, "showRun", "Returns a run as it is recorded.",
        query: NO, takes: Payload::None,
        gives: &[json(200, Some("run.response.v0.7"), "The run.")], runs::show),
    route!("POST" "/v1/runs/{run_id}/cancel", RUN, "cancelRun",
        "Asks a run to end: one that was submitted with the same token, or with scope admin any.",
        query: NO, takes: Payload::None,
        gives: &[json(202, None, "It was asked to end.")], runs::cancel),
    route!("GET" "/v1/runs/{run_id}/events", READ, "runEvents",
        "Streams the events of a run, those to come too. The id of an event is its number; after the \
         last one there is an event `end`. The header Last-Event-ID goes on after that event.",
        query: &[Query { name: "after", schema: r#"{"type":"integer","minimum":-1,"maximum":9007199254740991}"#,
            doc: "As Last-Event-ID; the header comes first." }],
        takes: Payload::None,
        gives: &[
            Good { status: 200, media_type: "text/event-stream", schema: None, doc: "The events." },
            Good { status: 204, media_type: "", schema: None, doc: "The run is over, and there are no more events." },
        ],
        events::stream),
    route!("GET" "/v1/runs/{run_id}/replay", READ, "replayRun",
        "Reads the record of a run again, and reports what cannot be true.",
        query: &[Query { name: "strict", schema: r#"{"type":"boolean","default":true}"#,
            doc: "Whether a violation means that the replay is not ok." }],
        takes: Payload::None,
        gives: &[json(200, Some("replay.response.v0.2"), "The report.")], runs::replay),
    route!("GET" "/v1/runs/{run_id}/bundle", READ, "exportRun",
        "Returns a run as a bundle, which this router and the Python router import.",
        query: &[Query { name: "provenance", schema: r#"{"type":"boolean","default":true}"#,
            doc: "Whether the bundle says where it comes from." }],
        takes: Payload::None,
        gives: &[json(200, Some("bundle.v0.3"), "The bundle.")], runs::export),
    route!("POST" "/v1/bundles", ADMIN, "importRun", "Stores the run of a bundle: all of it, or nothing.",
        query: &[
            Query { name: "mode", schema: r#"{"type":"string","enum":["reject_on_conflict","new_run_id","overwrite"],"default":"reject_on_conflict"}"#,
                doc: "What to do when there is a run of this id." },
            Query { name: "new_run_id", schema: r#"{"type":"string","minLength":1}"#,
                doc: "The id that the run gets, in mode new_run_id." },
        ],
        takes: Payload::Bundle,
        gives: &[json(200, Some("import.response.v0.3"), "What came of it.")], runs::import),
    route!("GET" "/v1/approvals", READ, "listApprovals",
        "Lists the approvals that visible runs wait for, or waited for, the newest first.",
        query: &[
            Query { name: "state", schema: r#"{"type":"string","enum":["open","decided","all"],"default":"open"}"#,
                doc: "Those that are waited for, those that are decided, or all." },
            Query { name: "run_id", schema: r#"{"type":"string","minLength":1}"#, doc: "Only those of this run." },
            LIMIT, OFFSET,
        ],
        takes: Payload::None, gives: &[json(200, Some("approvals"), "The approvals.")], approvals::list),
    route!("GET" "/v1/approvals/{approval_id}", READ, "showApproval",
        "Returns an approval: what is asked, and what was said.",
        query: NO, takes: Payload::None,
        gives: &[json(200, Some("approval"), "The approval.")], approvals::show),
    route!("POST" "/v1/approvals/{approval_id}/approve", RUN, "approve",
        "Lets the call be made that an approval is about; its run goes on. It needs scope admin, unless \
         policy.approvals.by_caller lets a token decide about what it asked for itself.",
        query: NO, takes: Payload::Json("decision.request"),
        gives: &[json(200, Some("approval"), "The decision is on disk.")], approvals::approve),
    route!("POST" "/v1/approvals/{approval_id}/deny", RUN, "deny",
        "Refuses the call that an approval is about; its run goes on without it. Who may is as for approve.",
        query: NO, takes: Payload::Json("decision.request"),
        gives: &[json(200, Some("approval"), "The decision is on disk.")], approvals::deny),
    route!("GET" "/v1/adapters", READ, "listAdapters", "Lists the adapters.",
        query: &[Query { name: "capability", schema: r#"{"type":"string"}"#,
            doc: "Only adapters that declare it." }],
        takes: Payload::None, gives: &[json(200, None, "The adapters.")], adapters::list),
    route!("GET" "/v1/adapters/{adapter_id}", READ, "showAdapter", "Tells what is known of an adapter.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "The adapter.")], adapters::show),
    route!("GET" "/v1/adapters/{adapter_id}/health", READ, "adapterHealth",
        "Tells how an adapter does: the calls that it carries out, of how many, and whether it is in quarantine or its \
         circuit is open.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "Its health.")], adapters::health),
    route!("POST" "/v1/adapters/{adapter_id}/release", ADMIN, "releaseAdapter",
        "Lets an adapter out of quarantine, forgets its crashes, and closes its circuit.",
        query: NO, takes: Payload::None,
        gives: &[json(200, None, "Whether it was in quarantine or its circuit was open, and how it does now.")], adapters::release),
    route!("POST" "/v1/adapters/{adapter_id}/retry", ADMIN, "retryAdapter",
        "Loads an adapter again that failed to load, and forgets that its library was refused.",
        query: NO, takes: Payload::None,
        gives: &[json(202, None, "It is loaded in the background."),
            json(200, None, "It is being loaded, or ready, already.")], adapters::retry),
    route!("POST" "/v1/adapters/validate", ADMIN, "validateAdapter",
        "Validates an adapter library on the adapter path, in a confined child.",
        query: NO, takes: Payload::Json("validate.request"),
        gives: &[json(200, None, "The checks.")], adapters::validate),
    route!("POST" "/v1/adapters/inspect", ADMIN, "inspectAdapter",
        "Validates an adapter library on the adapter path, and reports everything that is known of it.",
        query: NO, takes: Payload::Json("inspect_adapter.request"),
        gives: &[json(200, None, "The report.")], adapters::inspect),
    route!("GET" "/v1/tools", READ, "listTools", "Lists the tools that the caller may call.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "The tools.")], tools::list),
    route!("POST" "/v1/tools/{name}", RUN, "callTool",
        "Calls a tool, which is a run of one step. A call that applies, as it does unless mode says \
         dry_run, needs scope apply; the tools nexus-router.* need scope admin.",
        query: &[ON_DISCONNECT], takes: Payload::Json("tool.request"),
        gives: &[json(200, Some("tool.response"), "What came of the call."),
            json(202, Some("tool.response"),
                "A call under the same key is under way, or the call waits for an approval.")],
        tools::call),
    route!("GET" "/v1/codes/{code}", READ, "explainCode", "Explains a stable code.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "Its meaning and the remedy.")],
        daemon::explain),
    route!("GET" "/v1/audit", ADMIN, "audit",
        "Returns what happened to the daemon itself, as JSON lines, the oldest first.",
        query: &[
            Query { name: "after", schema: r#"{"type":"integer","minimum":0,"maximum":9007199254740991,"default":0}"#,
                doc: "Only events after this one." },
            Query { name: "limit", schema: r#"{"type":"integer","minimum":1,"maximum":10000,"default":1000}"#,
                doc: "At most so many." },
        ],
        takes: Payload::None,
        gives: &[Good { status: 200, media_type: "application/jsonl", schema: None, doc: "The events." }],
        daemon::audit),
    route!("GET" "/v1/log", ADMIN, "logLevel", "Tells what is logged.",
        query: NO, takes: Payload::None, gives: &[json(200, Some("log"), "The level.")], daemon::log_level),
    route!("PUT" "/v1/log", ADMIN, "setLogLevel", "Changes what is logged, until a reload finds another level in the configuration, or a restart.",
        query: NO, takes: Payload::Json("log"), gives: &[json(200, Some("log"), "The level.")],
        daemon::set_log_level),
    route!("POST" "/v1/reload", ADMIN, "reload",
        "Reads the configuration again. If it cannot be used, the old one stays in force.",
        query: NO, takes: Payload::None, gives: &[json(200, None, "What changed.")], daemon::reload),
    route!("POST" "/mcp", READ, "mcpMessage",
        "Takes a message of the Model Context Protocol, of 2026-07-28 or of an older revision.",
        query: NO, takes: Payload::Message,
        gives: &[json(200, None, "The answer; a stream of events if something is told before it."),
            json(202, None, "A notification was taken.")], mcp::post),
    route!("GET" "/mcp", READ, "mcpStream",
        "Streams what a session of the older revisions is told besides answers.",
        query: NO, takes: Payload::None,
        gives: &[Good { status: 200, media_type: "text/event-stream", schema: None,
            doc: "The stream." }], mcp::get),
    route!("DELETE" "/mcp", READ, "mcpEnd", "Ends a session of the older revisions.",
        query: NO, takes: Payload::None, gives: &[Good { status: 204, media_type: "", schema: None, doc: "It is ended." }],
        mcp::delete),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_is_known() {
        let public: Vec<&str> = ROUTES
            .iter()
            .filter(|route| route.access == Access::Public)
            .map(|route| route.path)
            .collect();
        let about_the_daemon = ["/healthz", "/readyz", "/openapi.json"];
        let about_contracts = [
            "/protocol/adapter-contracts",
            "/protocol/adapter-contracts/{adapter_id}",
            "/specs/adapter-contract.schema.json",
            crate::signal::MANIFEST_URL,
            "/.well-known/aigentsy-publisher.json",
            crate::signal::KEY_URL,
        ];
        assert_eq!(public, [&about_the_daemon[..], &about_contracts].concat());
    }

    #[test]
    fn rows_are_told_apart() {
        for (place, route) in ROUTES.iter().enumerate() {
            assert!(route.doc.ends_with('.'), "{route:?}");
            assert_eq!(route.method().as_str(), route.method);
            for other in &ROUTES[..place] {
                assert_ne!(route.id, other.id);
                assert_ne!((route.method, route.path), (other.method, other.path));
            }
        }
    }
}

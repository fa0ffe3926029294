//! The OpenAPI document, made of the table of routes and the published schemas.

use super::problem::MEDIA_TYPE;
use super::routes::{Access, Good, Payload, ROUTES, Route};
use crate::json::{self, Limits, Object, Value};
use crate::schema;

/// The schemas that only HTTP has.
const OWN: &[(&str, &str)] = &[
    (
        "mcp.message",
        r#"{"type":"object","description":"A JSON-RPC message of the Model Context Protocol.","required":["jsonrpc"],
            "properties":{"jsonrpc":{"const":"2.0"},"id":{"type":["string","integer"]},"method":{"type":"string"},
            "params":{"type":"object"}}}"#,
    ),
    (
        "problem",
        r#"{"type":"object","description":"Why there is no answer (RFC 9457).","required":["type","title","status","detail","code"],
            "properties":{"type":{"type":"string","format":"uri-reference"},"title":{"type":"string"},
            "status":{"type":"integer"},"detail":{"type":"string"},
            "code":{"type":"string","pattern":"^[A-Z][A-Z0-9_]*$","description":"Stable; GET /v1/codes/{code} explains it."},
            "hint":{"type":"string"},"pointer":{"type":"string","description":"The JSON pointer of what is wrong in the body."},
            "run_id":{"type":"string"},"run":{"type":"object","description":"What came of the run."}}}"#,
    ),
    (
        "tool.request",
        r#"{"type":"object","additionalProperties":false,"properties":{"args":{"type":"object"},
            "mode":{"type":"string","enum":["dry_run","apply"],"default":"apply"}}}"#,
    ),
    (
        "tool.response",
        r#"{"type":"object","properties":{"run_id":{"type":"string"},"status":{"type":"string","enum":["RUNNING","COMPLETED","FAILED"]},
            "simulated":{"type":"boolean"},"output":{"description":"The adapter's output; a failed tool may have one too."},
            "redacted":{"type":"array","items":{"type":"string"},"description":"Pointers to redacted parts of the output."},
            "review":{"const":"required","description":"A person has to look at what the call gave."},
            "waiting":{"type":"object","description":"The approval that the call waits for.","required":["approval_id","expires_at"],
            "properties":{"approval_id":{"type":"string"},"expires_at":{"type":"string"}}},"error":{"type":"object","required":["kind","code","message"],
            "properties":{"kind":{"type":"string","enum":["operational","bug"]},"code":{"type":"string"},
            "message":{"type":"string"},"details":{"type":"object"}}}}}"#,
    ),
    (
        "approval",
        r#"{"type":"object","required":["approval_id","state","run_id","step_id","adapter_id","call","grants","args_digest",
            "policy_version","rule","reason","caller","requested_at","expires_at","decided"],
            "properties":{"approval_id":{"type":"string"},
            "state":{"type":"string","enum":["open","approved","denied","expired","void"]},
            "run_id":{"type":"string"},"step_id":{"type":"string"},"adapter_id":{"type":"string"},
            "call":{"type":"object","description":"Tool, method and arguments as recorded: without secrets."},
            "grants":{"type":"array","items":{"type":"object"},"description":"What the plan grants to the step beyond its role."},
            "args_digest":{"type":"string","description":"Of the recorded arguments, the grants, and a keyed digest of the original arguments."},"policy_version":{"type":"string"},"rule":{"type":"string","description":"The id of the rule that asks."},
            "reason":{"type":["string","null"],"description":"Why it is asked, in the operator's words."},
            "caller":{"type":["object","null"],"description":"Who wants the call made."},
            "requested_at":{"type":"string","format":"date-time"},"expires_at":{"type":"string","format":"date-time"},
            "decided":{"type":["object","null"],"required":["decision","by","reason","at"],"properties":{
            "decision":{"type":"string","enum":["approved","denied","expired","void"]},"by":{"type":["string","null"]},
            "reason":{"type":["string","null"]},"at":{"type":"string","format":"date-time"}}}}}"#,
    ),
    (
        "approvals",
        r##"{"type":"object","required":["total","approvals"],"properties":{"total":{"type":"integer","minimum":0},
            "approvals":{"type":"array","items":{"$ref":"#/components/schemas/approval"}}}}"##,
    ),
    (
        "decision.request",
        r#"{"type":"object","additionalProperties":false,"properties":{
            "reason":{"type":["string","null"],"maxLength":2000,"description":"Why; it is recorded."}}}"#,
    ),
    (
        "contracts",
        r##"{"type":"object","required":["active_heads","contracts","count"],"properties":{
            "active_heads":{"type":"object","additionalProperties":{"type":"string"},
            "description":"By id, the highest version that is neither deprecated nor revoked."},
            "contracts":{"type":"array","items":{"$ref":"#/components/schemas/contract"}},
            "count":{"type":"integer","minimum":0}}}"##,
    ),
    (
        "contract",
        r##"{"type":"object","required":["adapter_id","adapter_version","contract_hash","declaration","distribution_channel",
            "input_schema_hash","is_active_head","min_verifier_version","published_at","replaced_by","status","supersedes"],
            "properties":{"adapter_id":{"type":"string"},"adapter_version":{"type":"string"},"contract_hash":{"type":"string"},
            "declaration":{"$ref":"#/components/schemas/adapter_contract.v1"},"distribution_channel":{"type":["string","null"]},
            "input_schema_hash":{"type":"string"},"is_active_head":{"type":"boolean"},
            "min_verifier_version":{"type":["string","null"]},"published_at":{"type":["string","null"]},
            "replaced_by":{"type":["string","null"]},"status":{"type":"string","enum":["active","deprecated","revoked"]},
            "supersedes":{"type":["string","null"]}}}"##,
    ),
    (
        "contract.answer",
        r##"{"anyOf":[{"$ref":"#/components/schemas/contract"},{"type":"object",
            "required":["active_head","adapter_id","count","versions"],"properties":{
            "active_head":{"anyOf":[{"$ref":"#/components/schemas/contract"},{"type":"null"}]},"adapter_id":{"type":"string"},
            "count":{"type":"integer","minimum":1},
            "versions":{"type":"array","items":{"$ref":"#/components/schemas/contract"}}}}]}"##,
    ),
    (
        "publisher",
        r#"{"type":"object","required":["publisher_id","publisher_key_id","public_key_base64","algorithm","verify_url"],
            "properties":{"publisher_id":{"type":"string"},"publisher_key_id":{"type":"string"},
            "public_key_base64":{"type":"string"},"algorithm":{"const":"Ed25519"},"verify_url":{"type":"string"},
            "manifest_url":{"type":"string"}}}"#,
    ),
    (
        "public_key",
        r#"{"type":"object","required":["algorithm","key_id","public_key_base64"],"properties":{"algorithm":{"const":"Ed25519"},
            "key_id":{"type":"string"},"public_key_base64":{"type":"string"},"status":{"type":"string"}}}"#,
    ),
    (
        "validate.request",
        r#"{"type":"object","additionalProperties":false,"required":["factory_ref"],"properties":{
            "factory_ref":{"type":"string","description":"module:function, on the adapter path"},
            "config":{"type":"object"},"strict":{"type":"boolean","default":true}}}"#,
    ),
    (
        "inspect_adapter.request",
        r#"{"type":"object","additionalProperties":false,"required":["factory_ref"],"properties":{
            "factory_ref":{"type":"string","description":"module:function, on the adapter path"},
            "config":{"type":"object"},"strict":{"type":"boolean","default":true},
            "render":{"type":"boolean","default":false}}}"#,
    ),
    (
        "log",
        r#"{"type":"object","additionalProperties":false,"required":["level"],"properties":{"level":{"type":"string",
            "examples":["info","warn,nexus_router::store=debug"]}}}"#,
    ),
];

/// Bodies that may be left out.
const MAY_BE_EMPTY: [&str; 2] = ["tool.request", "decision.request"];

/// Returns the document.
pub(super) fn document() -> Value {
    let mut paths = Object::new();
    for route in ROUTES {
        let mut item = paths.remove(route.path).and_then(Value::into_object).unwrap_or_default();
        item.insert(&*route.method.to_ascii_lowercase(), operation(route));
        paths.insert(route.path, item);
    }
    let bearer = read(
        r#"{"type":"http","scheme":"bearer","description":"nexus-router token new makes one."}"#,
    );
    let components = object([
        ("schemas", schemas().into()),
        ("securitySchemes", object([("bearer", bearer)]).into()),
    ]);
    let info = object([
        ("title", "nexus-router".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        (
            "description",
            "Stands between an agent and everything it may touch: runs plans, records them, and proves \
             what was recorded. Errors are problem+json with stable codes."
                .into(),
        ),
        ("license", object([("name", "MIT".into()), ("identifier", "MIT".into())]).into()),
    ]);
    object([
        ("openapi", "3.1.0".into()),
        ("info", info.into()),
        ("jsonSchemaDialect", "https://json-schema.org/draft/2020-12/schema".into()),
        ("servers", Value::Array(vec![object([("url", "/".into())]).into()])),
        ("paths", paths.into()),
        ("components", components.into()),
    ])
    .into()
}

fn operation(route: &Route) -> Value {
    let mut operation = object([("operationId", route.id.into()), ("summary", route.doc.into())]);
    let in_path = parameters_of(route.path).map(|name| {
        object([
            ("name", name.into()),
            ("in", "path".into()),
            ("required", true.into()),
            ("schema", read(r#"{"type":"string","minLength":1}"#)),
        ])
        .into()
    });
    let in_query = route.query.iter().map(|query| {
        object([
            ("name", query.name.into()),
            ("in", "query".into()),
            ("description", query.doc.into()),
            ("schema", read(query.schema)),
        ])
        .into()
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    if !parameters.is_empty() {
        operation.insert("parameters", parameters);
    }
    let body = match route.payload {
        Payload::None => None,
        Payload::Json(name) => Some((name, !MAY_BE_EMPTY.contains(&name))),
        Payload::Bundle => Some(("bundle.v0.3", true)),
        Payload::Message => Some(("mcp.message", true)),
    };
    if let Some((name, required)) = body {
        let content = object([("application/json", object([("schema", reference(name))]).into())]);
        let body = object([("required", required.into()), ("content", content.into())]);
        operation.insert("requestBody", body);
    }
    let mut responses = Object::new();
    for good in route.good {
        responses.insert(&*good.status.to_string(), response(good));
    }
    let problem = object([(MEDIA_TYPE, object([("schema", reference("problem"))]).into())]);
    let problem =
        object([("description", "There is no answer.".into()), ("content", problem.into())]);
    responses.insert("default", problem);
    operation.insert("responses", responses);
    match route.access {
        Access::Public => {
            operation.insert("security", Value::Array(Vec::new()));
        }
        Access::Scope(scope) => {
            let bearer = object([("bearer", Value::Array(Vec::new()))]);
            operation.insert("security", Value::Array(vec![bearer.into()]));
            operation.insert("x-scope", scope.name());
        }
    }
    operation.into()
}

fn response(good: &Good) -> Value {
    let mut response = object([("description", good.doc.into())]);
    if !good.media_type.is_empty() {
        let schema = good.schema.map(|name| object([("schema", reference(name))]));
        let content = object([(good.media_type, schema.unwrap_or_default().into())]);
        response.insert("content", content);
    }
    response.into()
}

/// Returns the names of a path's parameters.
fn parameters_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn reference(name: &str) -> Value {
    object([("$ref", format!("#/components/schemas/{name}").into())]).into()
}

fn schemas() -> Object {
    let published = schema::SCHEMAS.iter().map(|schema| {
        let name = schema.name.strip_prefix("nexus-router.").unwrap_or(schema.name);
        (name.to_owned(), relocated(read(schema.text), name))
    });
    let own = OWN.iter().map(|(name, text)| ((*name).to_owned(), read(text)));
    published.chain(own).collect()
}

/// Lets the references inside a schema point to its new place.
fn relocated(value: Value, name: &str) -> Value {
    match value {
        Value::Object(object) => {
            let member = |(key, value): (&str, &Value)| {
                let value = match (key, value) {
                    ("$ref", Value::String(text)) => match text.strip_prefix('#') {
                        Some(rest) => format!("#/components/schemas/{name}{rest}").into(),
                        None => value.clone(),
                    },
                    _ => relocated(value.clone(), name),
                };
                (key.to_owned(), value)
            };
            // What names the schema, and its old dialect, would make it a document of its own.
            let members = object.iter().filter(|(key, _)| !["$id", "$schema"].contains(key));
            Value::Object(members.map(member).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| relocated(item, name)).collect())
        }
        other => other,
    }
}

/// Reads JSON that stands in this program.
fn read(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::BUNDLE).unwrap_or(Value::Null)
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Object {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

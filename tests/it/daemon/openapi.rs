//! The OpenAPI document, held against the routes and against what the daemon answers.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use nexus_router::http::{Access, ROUTES};
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan};

const HERE: &str = "http://localhost/openapi.json";
/// A signal contract that every daemon has.
const STARTER: &str = "aigentsy.settlement_native_mcp.starter";
const STARTER_EXACTLY: &str = "aigentsy.settlement_native_mcp.starter?version=1.0.0";

#[test]
fn the_document_has_every_route_and_no_other() {
    let daemon = Daemon::start("", &[]);
    let document = daemon.get("/openapi.json").by_nobody().ok();
    let text: Value = serde_json::from_str(&nexus_router::http::openapi()).unwrap();
    assert_eq!(document, text);
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            described.insert((method.to_ascii_uppercase(), path.clone()));
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
            assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{operation}");
            let named: BTreeSet<&str> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|one| one["in"] == "path")
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            let in_path: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(named, in_path, "{path}");
        }
    }
    let routes: BTreeSet<_> =
        ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    assert_eq!(described, routes);
    assert_eq!(routes.len(), ROUTES.len());
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
        match route.access {
            Access::Public => assert_eq!(operation["security"], json!([]), "{route:?}"),
            Access::Scope(scope) => {
                assert_eq!(operation["x-scope"], scope.name(), "{route:?}");
                assert_eq!(operation["security"], json!([{ "bearer": [] }]), "{route:?}");
            }
        }
    }
    let mut references = 0;
    for_each_reference(&document, &mut |reference| {
        references += 1;
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference}"));
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    });
    assert!(references > ROUTES.len(), "{references}");
}

fn for_each_reference(value: &Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("$ref", Value::String(reference)) => tell(reference),
                    _ => for_each_reference(value, tell),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| for_each_reference(item, tell)),
        _ => {}
    }
}

#[test]
fn answers_are_what_the_document_says() {
    let tools = "[[tools]]\nname = \"greet\"\ndescription = \"Greets.\"\nadapter = \"echo\"\nmethod = \"m\"\n\
                 [[tools]]\nname = \"refuse\"\ndescription = \"No.\"\nadapter = \"fake\"\ntool = \"t\"\nmethod = \"refuse\"\n\
                 [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n\
                 [signals]\nmanifest = \"manifest.json\"\npublisher = \"publisher.json\"\n";
    let stage = Stage::new(&format!("{ADAPTERS}{tools}"));
    std::fs::write(stage.path("manifest.json"), "{}").unwrap();
    let publisher = json!({ "publisher_id": "acme", "publisher_key_id": "k1",
        "public_key_base64": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" });
    std::fs::write(stage.path("publisher.json"), publisher.to_string()).unwrap();
    let daemon = stage.start(&[]);
    let document = daemon.get("/openapi.json").ok();
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource(HERE, document.clone()).unwrap();
    let mut judge = |pointer: &str, value: &Value| {
        let schema = compiler.compile(&format!("{HERE}#{pointer}"), &mut schemas);
        let schema = schema.unwrap_or_else(|error| panic!("{pointer}: {error:#}"));
        if let Err(error) = schemas.validate(value, schema) {
            panic!("{pointer}: {error:#}\n{value}");
        }
    };
    let run_id = daemon.post("/v1/runs", &plan("echo", "t", "m")).send().run_id();
    let held = daemon.hold();
    let asked = || {
        let run = daemon.post("/v1/runs", &plan("echo", "risk", "m")).send().json();
        run["waiting"]["approval_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (asked(), asked());
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let echo = json!({ "factory_ref": "nexus_router_adapter_echo:create_adapter" });
    let cases: Vec<(&str, &str, &str, Value)> = vec![
        ("GET", "/v1/runs", "", Value::Null),
        ("GET", "/v1/runs/{run_id}", &run_id, Value::Null),
        ("GET", "/v1/runs/{run_id}", &held, Value::Null),
        ("GET", "/v1/runs/{run_id}/replay", &run_id, Value::Null),
        ("GET", "/v1/runs/{run_id}/bundle", &run_id, Value::Null),
        ("GET", "/v1/approvals", "", Value::Null),
        ("GET", "/v1/approvals/{approval_id}", &first, Value::Null),
        ("POST", "/v1/approvals/{approval_id}/approve", &first, json!({ "reason": "yes" })),
        ("POST", "/v1/approvals/{approval_id}/deny", &second, Value::Null),
        ("GET", "/v1/approvals/{approval_id}", &second, Value::Null),
        ("POST", "/v1/runs", "", plan("echo", "risk", "m")),
        ("GET", "/v1/adapters", "", Value::Null),
        ("GET", "/v1/adapters/{adapter_id}", "echo", Value::Null),
        ("GET", "/v1/adapters/{adapter_id}/health", "echo", Value::Null),
        ("POST", "/v1/adapters/{adapter_id}/release", "echo", Value::Null),
        ("POST", "/v1/adapters/{adapter_id}/retry", "echo", Value::Null),
        ("GET", "/v1/tools", "", Value::Null),
        ("GET", "/v1/codes/{code}", "TIMEOUT", Value::Null),
        ("GET", "/v1/log", "", Value::Null),
        ("GET", "/v1/status", "", Value::Null),
        ("GET", "/protocol/adapter-contracts", "", Value::Null),
        ("GET", "/protocol/adapter-contracts/{adapter_id}", STARTER, Value::Null),
        ("GET", "/protocol/adapter-contracts/{adapter_id}", STARTER_EXACTLY, Value::Null),
        ("GET", "/specs/adapter-contracts.manifest.json", "", Value::Null),
        ("GET", "/.well-known/aigentsy-publisher.json", "", Value::Null),
        ("GET", "/protocol/merkle/public-key", "", Value::Null),
        ("GET", "/healthz", "", Value::Null),
        ("GET", "/readyz", "", Value::Null),
        ("PUT", "/v1/log", "", json!({ "level": "info" })),
        ("POST", "/v1/runs", "", plan("echo", "t", "m")),
        ("POST", "/v1/runs", "", plan("fake", "t", "refuse")),
        ("POST", "/v1/runs", "", plan("nobody", "t", "m")),
        ("POST", "/v1/runs", "", json!({ "goal": "look" })),
        ("POST", "/v1/bundles", "", bundle),
        ("POST", "/v1/tools/{name}", "greet", json!({ "args": {} })),
        ("POST", "/v1/tools/{name}", "greet", json!({ "mode": "dry_run" })),
        ("POST", "/v1/tools/{name}", "refuse", json!({})),
        ("POST", "/v1/tools/{name}", "nexus-router.inspect", json!({})),
        ("POST", "/v1/adapters/validate", "", echo.clone()),
        ("POST", "/v1/adapters/inspect", "", echo),
        ("POST", "/v1/reload", "", Value::Null),
        // Last: the held run ends with it.
        ("POST", "/v1/runs/{run_id}/cancel", &held, Value::Null),
    ];
    let mut judged = BTreeSet::new();
    for (method, path, name, body) in cases {
        let parts: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { name } else { part }).collect();
        let ask = daemon.ask(method, &parts.join("/"));
        let answer = if body.is_null() { ask } else { ask.json(&body) }.send();
        let operation =
            format!("/paths/{}/{}", path.replace('/', "~1"), method.to_ascii_lowercase());
        let described = document.pointer(&operation).unwrap();
        if !body.is_null() {
            judge(&format!("{operation}/requestBody/content/application~1json/schema"), &body);
        }
        let good = &described["responses"][answer.status.to_string()];
        assert!(
            good.is_object(),
            "{method} {path}: {} is not described: {answer:?}",
            answer.status
        );
        if good["content"]["application/json"].get("schema").is_some() {
            let schema =
                format!("{operation}/responses/{}/content/application~1json/schema", answer.status);
            judge(&schema, &answer.json());
        }
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method} {path}");
        judged.insert(described["operationId"].as_str().unwrap().to_owned());
    }
    for problem in [
        daemon.get("/v1/runs").by_nobody().send(),
        daemon.get("/v1/runs/nobody").send(),
        daemon.post("/v1/runs", &plan("fake", "t", "break")).send(),
        daemon.post("/v1/runs", &json!({ "goal": 1 })).send(),
    ] {
        judge("/components/schemas/problem", &problem.json());
    }
    // The others answer with text or a schema, or speak MCP, which other tests read.
    let all: BTreeSet<String> = ROUTES.iter().map(|route| route.id.to_owned()).collect();
    let left: Vec<&String> = all.difference(&judged).collect();
    let expected = [
        "audit",
        "contractSchema",
        "mcpEnd",
        "mcpMessage",
        "mcpStream",
        "metrics",
        "openapi",
        "runEvents",
    ];
    assert_eq!(left, expected);
}

#[test]
fn parameters_mean_what_the_document_says() {
    let daemon = Daemon::usual();
    let run_id = daemon.post("/v1/runs", &plan("echo", "t", "m")).send().run_id();
    let document = daemon.get("/openapi.json").ok();
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(operation) = item.get("get") else { continue };
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|one| one["in"] == "query") {
            let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
            let path = path.replace("{run_id}", &run_id);
            let status = |value: &str| daemon.get(&format!("{path}?{name}={value}")).send().status;
            for bound in ["minimum", "maximum"] {
                let Some(number) = schema[bound].as_i64() else { continue };
                assert!(
                    [200, 204].contains(&status(&number.to_string())),
                    "{path} {name}={number}"
                );
                let beyond = if bound == "minimum" { number - 1 } else { number + 1 };
                assert_eq!(status(&beyond.to_string()), 400, "{path} {name}={beyond}");
            }
            for value in schema["enum"].as_array().into_iter().flatten() {
                assert_eq!(status(value.as_str().unwrap()), 200, "{path} {name}={value}");
            }
            if schema["enum"].is_array()
                || schema["type"] != "string"
                || schema["format"].is_string()
            {
                assert_eq!(status("nonsense"), 400, "{path} {name}");
            }
        }
    }
}

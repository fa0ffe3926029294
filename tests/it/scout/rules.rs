//! What decides about what a scout asks for: the operator's sources, rules, roles and limits.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Service, assert_genuine, broker_log, config, daemon, request, run};
use crate::daemon::support::{Daemon, Stage, until};

fn asked(daemon: &Daemon, tool: &str, ask: &Value) -> (Value, Value) {
    let run = run(daemon, "asker", tool, json!({ "asks": [ask] }));
    let answer = run["results"][0]["output"]["result"]["answers"][0].clone();
    (answer, broker_log(daemon, &run)[0].clone())
}

fn retrieve(source: &str, input: &Value) -> Value {
    json!({ "type": "retrieve", "source": source, "input": input })
}

#[test]
fn what_is_not_a_source_of_the_call_is_refused_and_nothing_is_fetched() {
    let service = Service::start();
    let secrets = "[secrets]\nTOKEN = \"env:HOME\"\n";
    let daemon = daemon(&format!("{}{secrets}", config(&service)));
    // As a text: in arguments of a step the router itself would put the secret there.
    let refers = retrieve("docs", &json!({ "id": [{ "a": { "$secret": "TOKEN" } }] })).to_string();
    for (tool, ask, code, told) in [
        (
            "doc_retrieval",
            retrieve("nothing", &json!({})),
            "SOURCE_UNKNOWN",
            "there is no source 'nothing'",
        ),
        ("doc_retrieval", retrieve("library", &json!({})), "SOURCE_UNKNOWN", "docs, slow, closed"),
        ("doc_retrieval", retrieve("web", &json!({})), "ASK_REFUSED", "is of class web_search"),
        ("transform_text", retrieve("docs", &json!({})), "ASK_REFUSED", "of class transform_text"),
        (
            "doc_retrieval",
            retrieve("docs", &json!({ "language": "fr" })),
            "ASK_REFUSED",
            "stands fast",
        ),
        ("doc_retrieval", json!(refers), "ASK_REFUSED", "refers to a secret"),
        ("doc_retrieval", retrieve("docs", &json!([1])), "ASK_REFUSED", "must be an object"),
        ("doc_retrieval", json!({ "type": "run" }), "UNSUPPORTED", "only requests of type"),
        ("doc_retrieval", json!({ "source": "docs" }), "UNSUPPORTED", "only requests of type"),
        ("doc_retrieval", json!({ "type": "retrieve" }), "SOURCE_UNKNOWN", "there is no source ''"),
    ] {
        let (answer, line) = asked(&daemon, tool, &ask);
        assert_eq!(answer["error"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(told), "{answer}");
        assert_eq!((&line["outcome"], &line["code"]), (&json!("refused"), &json!(code)), "{line}");
    }
    assert!(service.asked().is_empty(), "{:?}", service.asked());
    assert_genuine(&daemon);
}

#[test]
fn the_gate_judges_what_is_asked_for_as_it_judges_steps() {
    let service = Service::start();
    let rules = "[[policy.rules]]\neffect = \"deny\"\nadapter = \"library\"\nmethod = \"rows\"\n\
                 reason = \"no rows today\"\n\
                 [[policy.rules]]\neffect = \"deny\"\nadapter = \"library\"\naction_class = \"web_search\"\n\
                 [[policy.rules]]\neffect = \"approve\"\nadapter = \"library\"\nmethod = \"get\"\n";
    let daemon = daemon(&format!("{}{rules}", config(&service)));
    for (tool, source, code, told) in [
        ("data_lookup", "rows", "PERMISSION_DENIED", "no rows today"),
        ("web_search", "web", "PERMISSION_DENIED", "the operator's policy forbids it"),
        ("doc_retrieval", "docs", "SOURCE_NEEDS_APPROVAL", "the call of a source cannot wait"),
    ] {
        let (answer, line) = asked(&daemon, tool, &retrieve(source, &json!({})));
        assert_eq!(answer["error"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(told), "{answer}");
        assert_eq!(line["outcome"], "refused", "{line}");
    }
    assert!(service.asked().is_empty(), "{:?}", service.asked());
    let denied =
        |event: &Value| event["kind"] == "call_denied" || event.to_string().contains("library");
    let audited = daemon.audited(denied);
    assert!(audited.to_string().contains("library"), "{audited}");
}

#[test]
fn default_deny_holds_for_sources() {
    let service = Service::start();
    let rules = |adapter: &str| {
        format!(
            "{}[policy]\ndefault = \"deny\"\n[[policy.rules]]\neffect = \"allow\"\nadapter = \"{adapter}\"\n",
            config(&service)
        )
    };
    let denied = daemon(&rules("asker"));
    let (answer, line) = asked(&denied, "doc_retrieval", &retrieve("docs", &json!({})));
    assert_eq!(
        (&answer["error"], &line["outcome"]),
        (&json!("PERMISSION_DENIED"), &json!("refused"))
    );
    assert!(service.asked().is_empty(), "{:?}", service.asked());
    let allowed = daemon(&rules("*"));
    let (answer, _) = asked(&allowed, "doc_retrieval", &retrieve("docs", &json!({})));
    assert_eq!(answer["error"], json!(null), "{answer}");
}

#[test]
fn a_source_opens_its_operation_to_nobody_else() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    for (token, adapter_id, tool, code) in [
        ("scout", "library", "documents", "NOT_OFFERED"),
        ("apply", "library", "documents", "NOT_OFFERED"),
        ("envoy", "scout", "doc_retrieval", "ROLE_REFUSED"),
        ("envoy", "library", "documents", "NOT_OFFERED"),
        ("scout", "scout", "shell_exec", "NOT_OFFERED"),
    ] {
        let mut request = request(adapter_id, tool, json!({}));
        if adapter_id == "library" {
            request["plan_override"][0]["call"]["method"] = json!("get");
        }
        let run = daemon.post("/v1/runs", &request).by(token).ok();
        assert_eq!(run["results"][0]["error"]["code"], code, "{token}: {run}");
    }
    assert!(service.asked().is_empty());
}

#[test]
fn a_dry_run_asks_for_nothing() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let mut request = request("scout", "doc_retrieval", json!({ "source": "docs" }));
    request["mode"] = json!("dry_run");
    let run = daemon.post("/v1/runs", &request).by("scout").ok();
    assert_eq!(run["results"][0]["output"]["simulated"], true, "{run}");
    assert!(service.asked().is_empty());
}

#[test]
fn a_slow_source_ends_in_its_callers_time_and_costs_no_worker() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let mut request = request("scout", "doc_retrieval", json!({ "source": "slow" }));
    request["plan_override"][0]["timeout_ms"] = json!(1000);
    let began = Instant::now();
    let run = daemon.post("/v1/runs", &request).by("scout").ok();
    assert_eq!(run["results"][0]["error"]["code"], "TIMEOUT", "{run}");
    assert!(began.elapsed().as_secs() < 15, "the service takes longer");
    assert_eq!(broker_log(&daemon, &run)[0]["code"], "TIMEOUT");
    let shown = daemon.get("/v1/adapters/scout").ok();
    assert_eq!(shown["restarts"], 0, "{shown}");
    assert_genuine(&daemon);
}

#[test]
fn whoever_gives_up_a_run_gives_up_what_it_waits_for() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let request = request("scout", "doc_retrieval", json!({ "source": "slow" }));
    let run_id = daemon.post("/v1/runs?wait=false", &request).by("scout").send().run_id();
    until("the request", || (!service.asked().is_empty()).then_some(()));
    let began = Instant::now();
    daemon.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).send();
    let run = daemon.ended(&run_id);
    assert_eq!(run["status"], "FAILED", "{run}");
    assert!(began.elapsed().as_secs() < 15, "the service takes longer");
    let calls = || daemon.calls_in_flight("library");
    until("the end of the call", || (calls() == 0).then_some(()));
}

#[test]
fn sources_that_cannot_be_are_refused_before_anything_serves() {
    let config = config(&Service::start());
    for (from, to, told) in [
        (
            "adapter = \"library\"\ntool = \"data\"",
            "adapter = \"libary\"\ntool = \"data\"",
            "there is no adapter 'libary'",
        ),
        (
            "adapter = \"library\"\ntool = \"data\"",
            "adapter = \"asker\"\ntool = \"data\"",
            "answers as a scout",
        ),
        (
            "adapter = \"library\"\ntool = \"data\"",
            "adapter = \"null\"\ntool = \"data\"",
            "does not declare apply",
        ),
        ("role = \"scout\"", "role = \"envoy\"", "stand without role"),
        (
            "action_class = \"data_lookup\"",
            "action_class = \"shell_exec\"",
            "is not one of the names",
        ),
        (
            "role = \"scout\"\n",
            "role = \"scout\"\ngrants = { connect = [\"*:*\"] }\n",
            "does not declare 'external'",
        ),
    ] {
        assert!(config.contains(from), "{from}");
        let config = format!("require_all = true\n{}", config.replace(from, to));
        let refused = Stage::bare(&config).refused(&["--data-dir", "data"]);
        assert!(refused.stderr().contains(told), "{told}: {}", refused.stderr());
    }
}

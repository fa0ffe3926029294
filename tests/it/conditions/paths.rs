//! Every path to a call evaluates the conditions.

use serde_json::{Value, json};

use super::{assert_decided, config, payment};
use crate::daemon::support::{Daemon, Stage, plan};
use crate::mcp::support::{Session, able, answer, modern, result};
use crate::offers::{code, dry, step_code};
use crate::scout;

/// Arguments, with the code of the call, and the effect and the rule of the recorded decision.
fn cases() -> [(Value, &'static str, &'static str, Option<&'static str>); 5] {
    [
        (json!({ "amount": 50 }), "ok", "allow", Some("small")),
        (json!({ "amount": 5000 }), "PERMISSION_DENIED", "deny", Some("too-large")),
        (json!({ "amount": 50_000 }), "PERMISSION_DENIED", "deny", None),
        (json!({ "amount": "50" }), "CONDITION_FAILED", "deny", Some("small")),
        (json!({}), "CONDITION_FAILED", "deny", Some("small")),
    ]
}

#[test]
fn runs_over_http_meet_conditions() {
    let daemon = Daemon::start(&config(), &[]);
    for (args, expected, effect, rule) in cases() {
        for (token, plan) in [("apply", payment(&args)), ("run", dry(payment(&args)))] {
            let run = daemon.post("/v1/runs", &plan).by(token).ok();
            assert_eq!(step_code(&run), expected, "{plan}");
            assert_decided(&daemon, run["run"]["run_id"].as_str().unwrap(), effect, rule);
        }
        let accepted = daemon.post("/v1/runs?wait=false", &payment(&args)).by("apply").send();
        assert_eq!(step_code(&daemon.ended(&accepted.run_id())), expected, "{args}");
        // A later step is decided like the first.
        let mut plan = payment(&json!({ "amount": 1 }));
        let mut second = payment(&args)["plan_override"][0].clone();
        second["step_id"] = json!("s2");
        plan["plan_override"].as_array_mut().unwrap().push(second);
        let run = daemon.post("/v1/runs", &plan).by("apply").ok();
        let last = json!({ "results": [run["results"][1]] });
        assert_eq!(step_code(&last), expected, "{args}");
    }
}

#[test]
fn failed_condition_is_explained_and_audited() {
    let daemon = Daemon::start(&config(), &[]);
    let args = json!({ "amount": "hunter2" });
    let run = daemon.post("/v1/runs", &payment(&args)).by("apply").ok();
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "CONDITION_FAILED", "{run}");
    assert_eq!(
        error["details"],
        json!({ "denied_by": "rule", "rule": "small", "reason": "a value has the wrong type" })
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("rule 'small'") && !message.contains("hunter2"), "{message}");
    let run_id = &run["run"]["run_id"];
    let event = daemon.audited(|event| event["payload"]["run_id"] == *run_id);
    assert_eq!(event["payload"]["reason"], "CONDITION_FAILED", "{event}");
}

#[test]
fn arguments_beyond_the_bound_are_denied() {
    let daemon = Daemon::start(&config(), &[]);
    let large = json!({ "amount": 1, "note": "x".repeat(256 * 1024) });
    let run = daemon.post("/v1/runs", &payment(&large)).by("apply").ok();
    let details = &run["results"][0]["error"]["details"];
    assert_eq!(details["reason"], "the arguments exceed 262144 bytes", "{run}");
    let fits = json!({ "amount": 1, "note": "x".repeat(256 * 1024 - 100) });
    assert_eq!(code(&daemon, "apply", &payment(&fits)), "ok");
}

#[test]
fn costly_conditions_end_and_deny() {
    let rules =
        "[[policy.rules]]\neffect = 'allow'\nwhen = 'args.l.all(x, args.l.all(y, x == y))'\n";
    let daemon = Daemon::start(&format!("{}{rules}", super::TOOLS), &[]);
    let run = daemon.post("/v1/runs", &payment(&json!({ "l": vec![0; 120_000] }))).ok();
    let details = &run["results"][0]["error"]["details"];
    assert_eq!(details["reason"], "it takes more than 1000000 steps", "{run}");
    assert_eq!(code(&daemon, "apply", &payment(&json!({ "l": vec![0; 100] }))), "ok");
}

#[test]
fn tools_over_http_and_mcp_meet_conditions() {
    let daemon = Daemon::start(&config(), &[]);
    let session = Session::open(&daemon, "apply");
    for (args, expected, ..) in cases() {
        let called = daemon.post("/v1/tools/pay", &json!({ "args": args })).by("apply").send();
        let text = called.text();
        assert!(expected == "ok" && called.status == 200 || text.contains(expected), "{text}");
        let params = json!({ "name": "pay", "arguments": args });
        let stateless = modern(&daemon, "tools/call", params.clone(), &json!({})).by("apply");
        let task = modern(&daemon, "tools/call", params.clone(), &able()).by("apply");
        for answer in [&stateless, &session.ask("tools/call", &params), &task].map(answer) {
            if expected == "ok" {
                assert!(answer["result"]["content"].is_array(), "{answer}");
            } else {
                assert!(answer.to_string().contains(expected), "{args}: {answer}");
            }
        }
    }
}

#[test]
fn task_waits_for_the_approval_of_a_condition() {
    let daemon = Daemon::start(&config(), &[]);
    let params = json!({ "name": "pay", "arguments": { "amount": 500 } });
    let task = answer(&modern(&daemon, "tools/call", params, &able()).by("apply"));
    let run_id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let listed = daemon.get("/v1/approvals").ok();
    assert_eq!(listed["approvals"][0]["rule"], "rule-2", "{listed}");
    let approval_id = listed["approvals"][0]["approval_id"].as_str().unwrap().to_owned();
    daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({})).ok();
    daemon.ended(&run_id);
    assert_decided(&daemon, &run_id, "approve", Some("rule-2"));
    // The administrator is not meant by the condition.
    let params = json!({ "name": "pay", "arguments": { "amount": 500 } });
    let refused = answer(&modern(&daemon, "tools/call", params, &json!({})));
    assert!(refused.to_string().contains("PERMISSION_DENIED"), "{refused}");
    let allowed = result(
        &daemon,
        "tools/call",
        json!({ "name": "pay", "arguments": { "amount": 5 } }),
        &json!({}),
    );
    assert!(allowed["content"].is_array(), "{allowed}");
}

#[test]
fn command_line_meets_conditions() {
    let stage = Stage::new(&config());
    for (args, expected, ..) in cases() {
        std::fs::write(stage.path("plan.json"), payment(&args).to_string()).unwrap();
        let mut command = stage.program();
        command.args([
            "run",
            "plan.json",
            "--config",
            "router.toml",
            "--db",
            "own.db",
            "--format",
            "json",
        ]);
        let output = command.output().unwrap();
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(step_code(&run), expected, "{run}");
    }
}

#[test]
fn sources_meet_conditions() {
    let service = scout::Service::start();
    let rules = "[policy]\ndefault = 'deny'\n[[policy.rules]]\neffect = 'allow'\nadapter = 'asker'\n\
                 [[policy.rules]]\nid = 'open-docs'\neffect = 'allow'\nadapter = 'library'\n\
                 when = \"class == 'doc_retrieval' && args.language == 'en' && args.id < 10\"\n";
    let daemon = scout::daemon(&format!("{}{rules}", scout::config(&service)));
    for (id, error) in [
        (json!(3), None),
        (json!(30), Some("PERMISSION_DENIED")),
        (json!("3"), Some("CONDITION_FAILED")),
    ] {
        let ask = json!({ "type": "retrieve", "source": "docs", "input": { "id": id } });
        let run = scout::run(&daemon, "asker", "doc_retrieval", json!({ "asks": [ask] }));
        let answer = &run["results"][0]["output"]["result"]["answers"][0];
        match error {
            None => assert!(answer["told"]["output"].is_object(), "{run}"),
            Some(code) => assert_eq!(answer["error"], code, "{run}"),
        }
        let file = scout::evidence(&daemon, &run).join("volatile/broker.jsonl");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let effect = if error.is_none() { "allow" } else { "deny" };
        assert!(text.contains(&format!(r#""decision":{{"effect":"{effect}""#)), "{text}");
    }
    assert_eq!(service.asked().len(), 1);
}

#[test]
fn condition_reads_references_and_never_secrets() {
    let secrets = "[secrets.KEY]\nfrom = 'env:HOME'\nadapters = ['*']\n";
    let rules = "[[policy.rules]]\neffect = 'deny'\nwhen = \"args.k['$secret'] != 'KEY'\"\n";
    let daemon = Daemon::start(&format!("{}{secrets}{rules}", super::TOOLS), &[]);
    let args = json!({ "k": { "$secret": "KEY" } });
    assert_eq!(code(&daemon, "apply", &payment(&args)), "ok");
    assert_eq!(code(&daemon, "apply", &payment(&json!({ "k": "text" }))), "CONDITION_FAILED");
}

#[test]
fn conditions_and_keys_mean_the_same_call() {
    let offered = "[[adapters]]\nid = \"echo\"\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
                   offer = { tools = [\"*\"], action_class = \"file_write\" }\n";
    for rule in [
        "when = \"class == 'file_write' && tool == 'greeter'\"",
        "action_class = 'file_write'\ntool = 'greeter'",
    ] {
        let rule = format!("[[policy.rules]]\neffect = 'deny'\n{rule}\n");
        let daemon = Daemon::start(&format!("{offered}{rule}"), &[]);
        for tool in ["greeter", "Greeter", "GREETER"] {
            let plan = plan("echo", tool, "hello");
            assert_eq!(code(&daemon, "apply", &plan), "PERMISSION_DENIED", "{rule}: {tool}");
        }
        assert_eq!(code(&daemon, "apply", &plan("echo", "other", "hello")), "ok", "{rule}");
    }
}

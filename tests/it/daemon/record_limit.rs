//! Limit of a run's record: answers by digest, steps that are not begun, recovery, replay, bundles.

use nexus_router::digest::Digest;
use serde_json::{Value, json};

use super::memory::{SIZED, sized_plan};
use super::support::{ADAPTERS, Daemon, Stage};

const LIMIT: &str = "[limits]\nrun_record_bytes = 262144\n";

fn config() -> String {
    format!("{ADAPTERS}{SIZED}{LIMIT}")
}

fn digest_of(bytes: usize) -> Value {
    let text = json!({ "text": "x".repeat(bytes) }).to_string();
    json!({ "bytes": text.len(), "code": "RECORD_LIMIT",
        "sha256": Digest::of(text.as_bytes()).to_string() })
}

fn assert_replays(daemon: &Daemon, run_id: &str) {
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).send().text();
    let imported = daemon.ask("POST", "/v1/bundles?mode=new_run_id").body(bundle).ok();
    assert_eq!(imported["replay_ok"], true, "{imported}");
}

#[test]
fn answers_beyond_the_limit_are_recorded_by_digest() {
    let daemon = Daemon::start(&config(), &[]);
    let sizes = [100_000, 100_000, 100_000, 10, 100_000];
    let run = daemon.post("/v1/runs", &sized_plan(&sizes)).ok();
    assert_eq!(run["status"], "COMPLETED", "{}", run["error"]);
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let shown = daemon.get(&format!("/v1/runs/{run_id}")).ok();
    for answer in [&run, &shown] {
        for (index, bytes) in sizes.into_iter().enumerate() {
            let result = &answer["results"][index];
            assert_eq!(result["status"], "ok");
            if [2, 4].contains(&index) {
                assert_eq!(result["output"], json!({}));
                assert_eq!(result["output_digest"], digest_of(bytes));
            } else {
                assert_eq!(result["output"]["text"].as_str().unwrap().len(), bytes);
                assert_eq!(result["output_digest"], Value::Null);
            }
        }
    }
    assert_replays(&daemon, run_id);
}

#[test]
fn only_step_answers_its_caller_beyond_the_limit() {
    let daemon = Daemon::start(&config(), &[]);
    let run = daemon.post("/v1/runs", &sized_plan(&[300_000])).ok();
    let result = &run["results"][0];
    assert_eq!(result["output"]["text"].as_str().unwrap().len(), 300_000);
    assert_eq!(result["output_digest"], digest_of(300_000));
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let later = &daemon.get(&format!("/v1/runs/{run_id}")).ok()["results"][0];
    assert_eq!((&later["output"], &later["output_digest"]), (&json!({}), &digest_of(300_000)));
    assert_replays(&daemon, run_id);
}

#[test]
fn tools_answer_beyond_the_limit() {
    let tool = "[[tools]]\nname = \"big\"\ndescription = \"d\"\nadapter = \"sized\"\ntool = \"t\"\nmethod = \"m\"\n";
    let daemon = Daemon::start(&format!("{}{tool}", config()), &[]);
    let call = json!({ "args": { "bytes": 300_000 } });
    let answer = daemon.post("/v1/tools/big", &call).ok();
    assert_eq!(answer["output"]["text"].as_str().unwrap().len(), 300_000);
    assert_eq!(answer["output_digest"], digest_of(300_000));
    let params = json!({ "name": "big", "arguments": { "bytes": 300_000 },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answer = daemon
        .post("/mcp", &message)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "big")
        .ok();
    let output = &answer["result"]["structuredContent"]["text"];
    assert_eq!(output.as_str().map(str::len), Some(300_000), "{}", answer["error"]);
}

#[test]
fn run_without_room_for_a_step_fails_with_its_code() {
    let daemon = Daemon::start(&config(), &[]);
    let run = daemon.post("/v1/runs", &sized_plan(&[1; 600])).ok();
    assert_eq!((&run["status"], &run["reason"]), (&json!("FAILED"), &json!("record_limit")));
    assert_eq!(run["error"]["code"], "RECORD_LIMIT");
    let results = run["results"].as_array().unwrap();
    let done = results.iter().take_while(|result| result["status"] == "ok").count();
    assert!(done > 10 && results[done..].iter().all(|result| result["status"] == "skipped"));
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!(replay["ok"], true, "{replay}");
}

#[test]
fn resumed_run_keeps_its_limit_and_its_digests() {
    let stage = Stage::new(&config());
    let mut daemon = stage.start(&[]);
    let mut plan = sized_plan(&[200_000, 200_000, 1, 200_000]);
    let steps = plan["plan_override"].as_array_mut().unwrap();
    for step in steps.iter_mut() {
        step["dispatch"] = json!({ "adapter_id": "sized" });
    }
    steps[2]["dispatch"] = json!({ "adapter_id": "many" });
    steps[2]["call"] = json!({ "tool": "t", "method": "hold", "args": {} });
    let run_id = daemon.post("/v1/runs?wait=false", &plan).send().run_id();
    super::support::until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    daemon.kill();
    let daemon = daemon.again();
    super::support::until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    daemon.release();
    let run = daemon.ended(&run_id);
    assert_eq!(run["status"], "COMPLETED", "{}", run["error"]);
    for index in [1, 3] {
        assert_eq!(run["results"][index]["output_digest"], digest_of(200_000));
    }
    assert_replays(&daemon, &run_id);
}

#[test]
fn oversized_answer_is_recorded_by_digest() {
    let daemon = Daemon::start(&format!("{ADAPTERS}{SIZED}"), &[]);
    let run = daemon.post("/v1/runs", &sized_plan(&[17 * 1024 * 1024])).ok();
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "OUTPUT_TOO_LARGE", "{error}");
    assert!(error["details"]["bytes"].as_u64().unwrap() > 17 * 1024 * 1024);
    assert_eq!(error["details"]["sha256"].as_str().map(str::len), Some(64));
}

//! Memory budget: bodies as they arrive, shares of tokens, large answers page by page, stores in memory.

use std::io::Write as _;

use serde_json::{Value, json};

use super::client::Wire;
use super::support::{ADAPTERS, Daemon, until};

const MIB: usize = 1024 * 1024;

/// Adapter whose answers are as long as its arguments say.
pub const SIZED: &str =
    "[[adapters]]\nref = \"probe_adapters:sized\"\noffer = { tools = [\"*\"] }\n";

fn start(config: &str) -> Daemon {
    Daemon::start(&format!("{ADAPTERS}{SIZED}{config}"), &[])
}

/// Returns a plan of steps that answer so many bytes each.
pub fn sized_plan(sizes: &[usize]) -> Value {
    let steps = sizes.iter().enumerate().map(|(index, bytes)| {
        json!({ "step_id": format!("s{index}"), "intent": "",
            "call": { "tool": "t", "method": "m", "args": { "bytes": bytes } } })
    });
    json!({ "goal": "try it", "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": "sized" }, "plan_override": steps.collect::<Vec<_>>() })
}

fn peak_bytes(daemon: &Daemon) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

fn head(daemon: &Daemon, token: &str, path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {length}\r\n\r\n",
        daemon.token(token)
    )
}

#[test]
fn declared_bodies_that_do_not_arrive_deny_nobody() {
    let daemon = Daemon::usual();
    let mut wires = Vec::new();
    for path in ["/mcp", "/v1/runs", "/v1/tools/greet"] {
        for _ in 0..16 {
            let mut wire = daemon.connect();
            let token = if path == "/mcp" { "read" } else { "apply" };
            let head = head(&daemon, token, path, 16 * MIB);
            wire.stream().write_all(format!("{head}{{").as_bytes()).unwrap();
            wires.push(wire);
        }
        daemon.assert_alive();
        let run = daemon.post("/v1/runs", &super::support::plan("echo", "t", "m")).by("apply").ok();
        assert_eq!(run["status"], "COMPLETED");
    }
    drop(wires);
}

#[test]
fn token_sends_only_so_many_bodies_at_once() {
    let daemon = start("[server]\ntoken_bodies = 2\n");
    let mut wires: Vec<_> = (0..3)
        .map(|_| {
            let mut wire = daemon.connect();
            let head = head(&daemon, "apply", "/v1/runs", 1000);
            wire.stream().write_all(head.as_bytes()).unwrap();
            wire.stream().set_nonblocking(true).unwrap();
            wire
        })
        .collect();
    let is_answered = |wire: &mut Wire| wire.stream().peek(&mut [0]).is_ok();
    let answered = until("a refusal", || wires.iter_mut().position(is_answered));
    let mut wire = wires.swap_remove(answered);
    wire.stream().set_nonblocking(false).unwrap();
    let refused = wire.response();
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("MEMORY_SHARE_USED")));
    assert!(refused.header("retry-after").is_some());
    // Others are not affected, and neither are bodies that arrive with their head.
    daemon.assert_alive();
    let run = daemon.post("/v1/runs", &sized_plan(&[10])).by("apply").ok();
    assert_eq!(run["status"], "COMPLETED");
    assert!(!wires.iter_mut().any(is_answered), "the first two are still being sent");
}

#[test]
fn token_that_uses_its_share_is_refused_alone() {
    let daemon =
        start("[server]\nbody_bytes = 524288\nbundle_bytes = 524288\nmemory_bytes = 2097152\n");
    // A token has a quarter of the budget. One body takes most of it; its last byte is missing.
    let mut held = daemon.connect();
    let head = head(&daemon, "apply", "/v1/runs", 400_001);
    held.stream().write_all(head.as_bytes()).unwrap();
    held.stream().write_all(&vec![b' '; 400_000]).unwrap();
    // It has arrived before the next request is sent: otherwise that one could take its room.
    until("the body", || (reserved(&daemon) >= 400_000.0).then_some(()));
    let large = json!({ "goal": "x".repeat(200_000) }).to_string();
    let ask = |token: &str| daemon.ask("POST", "/v1/runs").by(token).body(large.clone()).send();
    let refused = ask("apply");
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("MEMORY_SHARE_USED")));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(ask("admin").status, 200);
    drop(held);
    until("room", || (ask("apply").status == 200).then_some(()));
    assert!(daemon.metric("nexus_router_refused_total{reason=\"MEMORY_SHARE_USED\"}") >= 1.0);
}

#[test]
fn unread_event_streams_stay_within_the_budget() {
    let daemon = start("[server]\nmemory_bytes = 134217728\n");
    let run_id = daemon.post("/v1/runs", &sized_plan(&[9_000_000])).send().run_id();
    let before = peak_bytes(&daemon);
    let path = format!("/v1/runs/{run_id}/events");
    let wires: Vec<_> = (0..32).map(|_| daemon.get(&path).begin()).collect();
    until("streams", || (reserved(&daemon) > 9_000_000.0).then_some(()));
    daemon.assert_alive();
    let grown = peak_bytes(&daemon) - before;
    assert!(grown < 256 * MIB, "{grown}");
    drop(wires);
    until("room", || (reserved(&daemon) < 1_000_000.0).then_some(()));
}

#[test]
fn messages_with_too_many_values_are_refused_before_parsing() {
    let daemon = Daemon::usual();
    let before = peak_bytes(&daemon);
    let zeros = "0,".repeat(8_000_000 - 100);
    let message = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"greet\",\
         \"arguments\":{{\"a\":[{zeros}0]}}}}}}"
    );
    for version in [None, Some("2026-07-28"), Some("2025-06-18")] {
        let mut ask = daemon.ask("POST", "/mcp").body(message.clone());
        ask = ask.header("Content-Type", "application/json");
        ask = ask.header("Accept", "application/json, text/event-stream");
        if let Some(version) = version {
            ask = ask.header("MCP-Protocol-Version", version);
        }
        ask.refused(400, "JSON_TOO_MANY_VALUES");
    }
    let grown = peak_bytes(&daemon) - before;
    assert!(grown < 128 * MIB, "{grown}");
    daemon.assert_alive();
}

#[test]
fn large_runs_are_shown_as_they_were_answered() {
    let daemon = start("");
    let mut answered = daemon.post("/v1/runs", &sized_plan(&[700_000, 5, 400_000])).ok();
    let run_id = answered["run"]["run_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run_id}");
    let mut shown = daemon.get(&path).ok();
    assert_eq!(shown["results"][0]["output"]["text"].as_str().unwrap().len(), 700_000);
    for key in ["goal", "created_at"] {
        assert!(shown.as_object_mut().unwrap().remove(key).unwrap().is_string());
    }
    // Live answers keep the order of the arguments; JSON objects have none.
    assert_eq!(shown, answered.take());
    assert_eq!(daemon.ask("HEAD", &path).send().status, 200);
    daemon.get(&path).by("apply").refused(404, "RUN_NOT_FOUND");
    let replay = daemon.get(&format!("{path}/replay")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
    let bundle = daemon.get(&format!("{path}/bundle")).send();
    let imported = daemon.ask("POST", "/v1/bundles?mode=new_run_id").body(bundle.text()).ok();
    let copy = imported["imported_run_id"].as_str().unwrap().to_owned();
    let copied = daemon.get(&format!("/v1/runs/{copy}")).ok();
    assert_eq!(copied["results"], shown["results"]);
    let bundle = bundle.json();
    assert!(bundle["digests"]["sha256"].is_string() && bundle["provenance"].is_object());
}

#[test]
fn large_held_answers_are_given_to_their_caller_once() {
    let daemon = start("");
    let mut plan = super::support::plan("echo", "t", "m");
    plan["plan_override"][0]["call"]["args"] =
        json!({ "text": "y".repeat(400_000), "note": "the password: hunter2 is old" });
    let answered = daemon.post("/v1/runs", &plan).by("apply").ok();
    let run_id = answered["run"]["run_id"].as_str().unwrap().to_owned();
    let show = |token: &str| daemon.get(&format!("/v1/runs/{run_id}")).by(token).ok();
    assert_eq!(daemon.ask("HEAD", &format!("/v1/runs/{run_id}")).by("apply").send().status, 200);
    let others = show("admin").to_string();
    assert!(others.contains("[REDACTED]") && !others.contains("hunter2"));
    let own = show("apply");
    assert_eq!(own["results"][0]["output"], answered["results"][0]["output"]);
    assert!(own["results"][0].to_string().contains("hunter2"));
    let again = show("apply");
    assert!(!again.to_string().contains("hunter2"), "it was removed when fetched");
    assert!(again["results"][0]["redacted"].is_array());
}

#[test]
fn unread_answers_do_not_each_take_a_copy() {
    let daemon = start("[server]\nmemory_bytes = 67108864\n");
    let run_id = daemon.post("/v1/runs", &sized_plan(&[9 * MIB])).send().run_id();
    let before = peak_bytes(&daemon);
    let ask = daemon.get(&format!("/v1/runs/{run_id}"));
    let mut wires: Vec<_> = (0..48).map(|_| ask.begin()).collect();
    // Those that find no room are refused; the others wait for their client.
    let refused = wires.split_off(24);
    for mut wire in refused {
        let answer = wire.response();
        assert!([200, 429, 503].contains(&answer.status), "{}", answer.status);
    }
    let grown = peak_bytes(&daemon).saturating_sub(before);
    assert!(grown < 128 * MIB, "{grown}");
    drop(wires);
    until("room", || (ask.send().status == 200).then_some(()));
    daemon.assert_alive();
}

fn reserved(daemon: &Daemon) -> f64 {
    daemon.metric("nexus_router_memory_reserved_bytes")
}

#[test]
fn unread_answers_of_new_runs_count_until_they_are_read() {
    let daemon = start("[server]\nmemory_bytes = 67108864\n");
    let ask = daemon.post("/v1/runs", &sized_plan(&[6 * MIB])).by("apply");
    let mut first = ask.begin();
    // The answer is larger than the buffers of the connection.
    until("the answer", || (reserved(&daemon) >= 6.0 * MIB as f64).then_some(()));
    let second = ask.begin();
    until("another answer", || (reserved(&daemon) >= 12.0 * MIB as f64).then_some(()));
    let answer = first.response();
    assert_eq!(answer.json()["results"][0]["output"]["text"].as_str().unwrap().len(), 6 * MIB);
    drop((first, second));
    until("room", || (reserved(&daemon) < 1_000_000.0).then_some(()));
}

#[test]
fn large_answers_of_one_token_do_not_deny_others() {
    // A token has 16 MiB. Answers count twice: as values, and as the text of the record.
    let config = "[server]\nmemory_bytes = 67108864\n";
    let daemon = start(config);
    let mut request = sized_plan(&[5 * MIB, 5 * MIB, 5 * MIB]);
    request["plan_override"][2]["dispatch"] = json!({ "adapter_id": "many" });
    request["plan_override"][2]["call"] = json!({ "tool": "t", "method": "hold", "args": {} });
    // The first run holds more than the share, and waits for its last call.
    let first = daemon.post("/v1/runs?wait=false", &request).by("apply").send().run_id();
    until("the held call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    // The second one has no room for its second answer.
    let second = daemon.post("/v1/runs", &request).by("apply").ok();
    assert_eq!((&second["status"], &second["reason"]), (&json!("FAILED"), &json!("memory_limit")));
    assert_eq!(second["error"]["code"], "MEMORY_LIMIT", "{}", second["error"]);
    assert_eq!(second["results"][0]["status"], "ok", "the call that was made counts as made");
    // Others have room, and so have small requests of the same token.
    let run = daemon.post("/v1/runs", &sized_plan(&[MIB, MIB])).ok();
    assert_eq!(run["status"], "COMPLETED");
    let dry = json!({ "goal": "small", "plan_override": [] });
    assert_eq!(daemon.post("/v1/runs", &dry).by("apply").ok()["status"], "COMPLETED");
    daemon.release();
    assert_eq!(daemon.ended(&first)["status"], "COMPLETED");
    until("room", || (reserved(&daemon) < 1_000_000.0).then_some(()));
    let third = daemon.post("/v1/runs", &sized_plan(&[5 * MIB, 5 * MIB])).by("apply").ok();
    assert_eq!(third["status"], "COMPLETED");
}

#[test]
fn repeated_keys_of_large_runs_stay_within_the_budget() {
    let daemon = start("[server]\nmemory_bytes = 67108864\n");
    let ask = daemon.post("/v1/runs", &sized_plan(&[7 * MIB])).header("Idempotency-Key", "k");
    let run_id = ask.send().run_id();
    let before = peak_bytes(&daemon);
    let mut wires: Vec<_> = (0..24).map(|_| ask.begin()).collect();
    for wire in &mut wires {
        let answer = wire.response();
        match answer.status {
            200 => assert_eq!(answer.run_id(), run_id),
            status => assert!([429, 503].contains(&status), "{status}"),
        }
    }
    let grown = peak_bytes(&daemon).saturating_sub(before);
    assert!(grown < 192 * MIB, "{grown}");
    until("room", || (reserved(&daemon) < 1_000_000.0).then_some(()));
}

#[test]
fn held_answers_of_small_records_count() {
    let bodies = "body_bytes = 16777216\nbundle_bytes = 16777216\n";
    let daemon = start(&format!("[server]\nmemory_bytes = 33554432\n{bodies}"));
    let mut plan = super::support::plan("echo", "t", "m");
    // The record has one word instead of it.
    plan["plan_override"][0]["call"]["args"] = json!({ "password": "y".repeat(6 * MIB) });
    let run_id = daemon.post("/v1/runs", &plan).by("apply").send().run_id();
    let show = daemon.get(&format!("/v1/runs/{run_id}")).by("apply");
    let before = peak_bytes(&daemon);
    let head = daemon.ask("HEAD", &format!("/v1/runs/{run_id}")).by("apply");
    let wires: Vec<_> = (0..16).map(|_| head.begin()).collect();
    for mut wire in wires {
        assert!([200, 429, 503].contains(&wire.head().status));
    }
    let grown = peak_bytes(&daemon).saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown}");
    let shown = until("the answer", || Some(show.send()).filter(|answer| answer.status == 200));
    assert!(shown.text().len() > 6 * MIB);
}

#[test]
fn lists_cut_long_goals_and_refuse_huge_pages_of_approvals() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n";
    let daemon = start(rule);
    let long = "é".repeat(100_000);
    let request = json!({ "goal": long, "plan_override": [] });
    let run_id = daemon.post("/v1/runs", &request).ok()["run"]["run_id"].clone();
    let listed = daemon.get("/v1/runs").ok()["runs"][0].clone();
    assert_eq!(listed["run_id"], run_id);
    assert_eq!(listed["goal"], format!("{}…", "é".repeat(1024)));
    let shown = daemon.get(&format!("/v1/runs/{}", run_id.as_str().unwrap())).ok();
    assert_eq!(shown["goal"], long);
    let mut risky = super::support::plan("echo", "risk", "m");
    risky["plan_override"][0]["call"]["args"] = json!({ "text": "x".repeat(9 * MIB) });
    for _ in 0..2 {
        assert_eq!(daemon.post("/v1/runs", &risky).send().status, 202);
    }
    let refused = daemon.get("/v1/approvals").refused(400, "HTTP_QUERY_INVALID");
    assert!(refused["hint"].as_str().unwrap().contains("limit"), "{refused}");
    let one = daemon.get("/v1/approvals?limit=1").ok();
    assert_eq!((&one["total"], one["approvals"].as_array().unwrap().len()), (&json!(2), 1));
}

#[test]
fn store_in_memory_without_ended_runs_accepts_no_more() {
    let config = format!(
        "{ADAPTERS}{SIZED}[limits]\nmemory_store_bytes = 4194304\n\
         [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n"
    );
    let daemon = Daemon::start(&config, &["--db", ":memory:"]);
    let mut risky = super::support::plan("echo", "risk", "m");
    risky["plan_override"][0]["call"]["args"] = json!({ "text": "x".repeat(600_000) });
    let refused = until("a refusal", || {
        Some(daemon.post("/v1/runs", &risky).by("apply").send()).filter(|it| it.status != 202)
    });
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("STORE_FULL")));
    let open = daemon.get("/v1/approvals?limit=1000").ok();
    assert!(open["total"].as_u64().unwrap() < 12, "{}", open["total"]);
    for approval in open["approvals"].as_array().unwrap() {
        let id = approval["approval_id"].as_str().unwrap();
        daemon.post(&format!("/v1/approvals/{id}/deny"), &json!({})).ok();
    }
    until("room", || {
        (daemon.post("/v1/runs", &sized_plan(&[10])).send().status == 200).then_some(())
    });
}

#[test]
fn store_in_memory_drops_the_oldest_ended_runs() {
    let config = format!("{ADAPTERS}{SIZED}[limits]\nmemory_store_bytes = 4194304\n");
    let daemon = Daemon::start(&config, &["--db", ":memory:"]);
    let held = daemon.hold();
    let keyed = daemon.post("/v1/runs", &sized_plan(&[10])).header("Idempotency-Key", "k");
    let first = keyed.send().run_id();
    assert_eq!(keyed.send().run_id(), first);
    let runs: Vec<String> = (0..120)
        .map(|_| daemon.post("/v1/runs", &sized_plan(&[100_000])).send().run_id())
        .collect();
    daemon.get(&format!("/v1/runs/{}", runs[0])).refused(404, "RUN_NOT_FOUND");
    assert_ne!(keyed.send().run_id(), first, "the key went with its run");
    let last = daemon.get(&format!("/v1/runs/{}", runs[119])).ok();
    assert_eq!(last["results"][0]["output"]["text"].as_str().unwrap().len(), 100_000);
    assert_eq!(daemon.get(&format!("/v1/runs/{held}")).ok()["status"], "RUNNING");
    let total = daemon.get("/v1/runs").ok()["summary"]["runs_total"].as_u64().unwrap();
    assert!(total < 60, "{total}");
    daemon.release();
    until("the end of the held run", || {
        let answer = daemon.get(&format!("/v1/runs/{held}")).send();
        // As the oldest run that ended, it may make room at once.
        match answer.status {
            404 => Some(()),
            _ => (answer.json()["status"] == "COMPLETED").then_some(()),
        }
    });
}

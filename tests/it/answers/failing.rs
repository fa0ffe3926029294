//! A tool that reports its failure fails its step, on every path.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{approve, toml};
use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::mcp::support::{ADAPTERS, Session, able, answer, modern};
use crate::support::Run;

/// The text of the tool `test_error_handling` of the conformance adapter.
const TEXT: &str = "This tool intentionally returns an error for testing";

fn tool_output() -> Value {
    json!({ "content": [{ "type": "text", "text": TEXT }], "isError": true })
}

/// Returns an output of a scout that reports its failure.
fn role_output() -> Value {
    json!({ "adapter_role": "scout", "adapter_version": "1.0.0", "action_class": "web_search",
        "ok": false, "result": { "token": "abc-secret" }, "sources": [],
        "errors": [{ "message": "nothing was found" }] })
}

/// Returns an output of a program that failed.
fn exit_output() -> Value {
    json!({ "exit_code": 3, "stdout": "1 test failed", "stderr": "password: hunter2" })
}

/// Offers the operation of the second step of [`failing`].
const GREET: &str = "[[tools]]\nname = 'second_step'\ndescription = 'Greets.'\nadapter = 'echo'\n\
                     tool = 'greeter'\nmethod = 'hi'\n";

fn config(more: &str) -> String {
    let response = |method: &str, output: Value| {
        toml(
            &json!({ "tool": "t", "method": method, "behaviour": { "return_json": output.to_string() } }),
        )
    };
    let responses = [response("search", role_output()), response("test", exit_output())].join(", ");
    let fake = |id: &str, more: &str| {
        format!(
            "[[adapters]]\nref = 'probe_adapters:fake'\nid = '{id}'\n{more}\n\
             config = {{ responses = [{responses}] }}\n"
        )
    };
    let tool = |name: &str, adapter: &str, class: &str| {
        format!(
            "[[tools]]\nname = '{name}'\ndescription = 'Fails.'\nadapter = '{adapter}'\ntool = 't'\n\
             method = '{name}'\naction_class = '{class}'\n"
        )
    };
    format!(
        "{ADAPTERS}\n{GREET}{}{}{}{}{more}",
        fake("seeker", "role = 'scout'"),
        fake("runner", ""),
        tool("search", "seeker", "web_search"),
        tool("test", "runner", "test_exec"),
    )
}

/// Returns a plan whose first step fails, and whose second calls the echo adapter.
fn failing(adapter_id: &str, tool: &str, method: &str) -> Value {
    let mut request = plan(adapter_id, tool, method);
    request["plan_override"][0]["call"]["args"] = json!({});
    request["plan_override"].as_array_mut().unwrap().push(json!({ "step_id": "s2", "intent": "",
        "dispatch": { "adapter_id": "echo" }, "call": { "tool": "greeter", "method": "hi", "args": {} } }));
    request
}

/// Returns the three failures: adapter, tool, method, offered name, code and output.
fn failures() -> [(&'static str, &'static str, &'static str, &'static str, &'static str, Value); 3]
{
    [
        (
            "conformance",
            "test_error_handling",
            "call",
            "test_error_handling",
            "TOOL_ERROR",
            tool_output(),
        ),
        ("seeker", "t", "search", "search", "ROLE_FAILED", role_output()),
        ("runner", "t", "test", "test", "NONZERO_EXIT", exit_output()),
    ]
}

fn statuses(run: &Value) -> Vec<&str> {
    let results = run["results"].as_array().unwrap();
    results.iter().map(|result| result["status"].as_str().unwrap()).collect()
}

#[test]
fn reported_failures_stop_the_plan() {
    let daemon = Daemon::start(&config(""), &[]);
    for (adapter_id, tool, method, name, code, output) in failures() {
        let request = failing(adapter_id, tool, method);
        let run = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!((&run["status"], statuses(&run)), (&json!("FAILED"), vec!["error", "skipped"]));
        let result = &run["results"][0];
        assert_eq!(
            (&result["error"]["code"], &result["error"]["kind"]),
            (&json!(code), &json!("operational"))
        );
        assert_eq!(result["output"], output, "unmodified: {run}");
        let called = daemon.post(&format!("/v1/tools/{name}"), &json!({})).by("apply").ok();
        assert_eq!((&called["status"], &called["error"]["code"]), (&json!("FAILED"), &json!(code)));
        assert_eq!(called["output"], output, "{called}");
        let metric = format!(
            "nexus_router_step_duration_seconds_count{{adapter=\"{adapter_id}\",outcome=\"operational\"}}"
        );
        assert!(daemon.metric(&metric) >= 2.0, "{metric}");
        let mut request = request;
        request["policy"]["on_error"] = json!("continue");
        let run = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!((&run["status"], statuses(&run)), (&json!("FAILED"), vec!["error", "ok"]));
    }
}

#[test]
fn expect_any_continues_after_a_reported_failure() {
    let daemon = Daemon::start(&config(""), &[]);
    for (adapter_id, tool, method, _, _, output) in failures() {
        let mut request = failing(adapter_id, tool, method);
        request["plan_override"][0]["expect"] = json!("any");
        let run = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!((&run["status"], statuses(&run)), (&json!("COMPLETED"), vec!["ok", "ok"]));
        assert_eq!(run["results"][0]["output"], output, "{run}");
        request["plan_override"][0]["expect"] = json!("success");
        let run = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!(statuses(&run), ["error", "skipped"]);
        for wrong in [json!("anything"), json!(true), json!(null)] {
            request["plan_override"][0]["expect"] = wrong;
            let refused = daemon.post("/v1/runs", &request).by("apply").send();
            assert_eq!(refused.json()["code"], "REQUEST_INVALID", "{refused:?}");
            assert_eq!(refused.json()["pointer"], "/plan_override/0/expect");
        }
    }
}

#[test]
fn mcp_returns_the_upstream_result_in_both_eras() {
    let daemon = Daemon::start(&config(""), &[]);
    let session = Session::open(&daemon, "apply");
    for (.., name, code, output) in failures() {
        let params = json!({ "name": name, "arguments": {} });
        let alone = answer(&modern(&daemon, "tools/call", params.clone(), &json!({})).by("apply"));
        for answer in [alone, answer(&session.ask("tools/call", &params))] {
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            if code == "TOOL_ERROR" {
                assert_eq!(result["content"], output["content"], "{answer}");
            } else {
                assert_eq!(result["structuredContent"], output, "{answer}");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text.starts_with(code), "{text}");
            }
        }
    }
}

#[test]
fn tasks_and_repeats_return_the_failed_result() {
    let daemon = Daemon::start(
        &config("[[policy.rules]]\neffect = 'approve'\nmethod = 'test'\nadapter = 'runner'\n"),
        &[],
    );
    let params = json!({ "name": "test", "arguments": {},
        "_meta": { "nexus-router/idempotencyKey": "once" } });
    let begin = || answer(&modern(&daemon, "tools/call", params.clone(), &able()).by("apply"));
    let task = begin();
    let task_id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    approve(&daemon);
    daemon.ended(&task_id);
    let repeated = begin();
    assert_eq!(repeated["result"]["isError"], true, "{repeated}");
    assert_eq!(repeated["result"]["structuredContent"], exit_output());
    let read = |token: &str| {
        let params = json!({ "taskId": task_id });
        answer(&modern(&daemon, "tasks/get", params, &able()).by(token))["result"].clone()
    };
    let stderr = |task: &Value| task["result"]["structuredContent"]["stderr"].clone();
    assert_eq!(stderr(&read("admin")), "password=[REDACTED]");
    let done = read("apply");
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    assert_eq!(stderr(&done), "password: hunter2", "{done}");
    let run = daemon.get(&format!("/v1/runs/{task_id}")).ok();
    assert_eq!(run["results"][0]["redacted"], json!(["/stderr"]), "{run}");
    assert_eq!(run["results"][0]["error"]["code"], "NONZERO_EXIT");
}

#[test]
fn records_of_failed_tools_replay_and_move() {
    let daemon = Daemon::start(&config(""), &[]);
    for (adapter_id, tool, method, ..) in failures() {
        let run = daemon.post("/v1/runs", &failing(adapter_id, tool, method)).by("apply").ok();
        let run_id = run["run"]["run_id"].as_str().unwrap();
        let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
        assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])), "{replay}");
        let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
        let other = Daemon::start(ADAPTERS, &[]);
        let imported = other.post("/v1/bundles", &bundle).send();
        assert_eq!(imported.status, 200, "{imported:?}");
        let (here, there) = (recorded(&daemon, run_id), recorded(&other, run_id));
        assert_eq!(here, there);
        assert_eq!(here["status"], "error");
        assert!(!here["output"].as_object().unwrap().is_empty(), "{here}");
    }
}

fn recorded(daemon: &Daemon, run_id: &str) -> Value {
    daemon.get(&format!("/v1/runs/{run_id}")).ok()["results"][0].clone()
}

#[test]
fn failed_steps_stay_failed_through_a_restart() {
    let mut daemon = Daemon::start(&config(""), &[]);
    let mut request = failing("runner", "t", "test");
    request["policy"]["on_error"] = json!("continue");
    request["plan_override"][1]["dispatch"]["adapter_id"] = json!("many");
    request["plan_override"][1]["call"] = json!({ "tool": "t", "method": "hold", "args": {} });
    let run_id = daemon.post("/v1/runs?wait=false", &request).by("apply").send().run_id();
    until("the second call", || (daemon.calls_in_flight("many") > 0).then_some(()));
    daemon.kill();
    let daemon = daemon.again();
    until("the second call again, or the end", || {
        let over = daemon.get(&format!("/v1/runs/{run_id}")).ok()["status"] != "RUNNING";
        (over || daemon.calls_in_flight("many") > 0).then_some(())
    });
    daemon.release();
    let run = daemon.ended(&run_id);
    assert_eq!((&run["status"], &run["results"][0]["status"]), (&json!("FAILED"), &json!("error")));
    assert_eq!(run["results"][0]["error"]["code"], "NONZERO_EXIT", "{run}");
    assert_eq!(run["results"][0]["output"]["exit_code"], 3, "{run}");
    let own = daemon.get(&format!("/v1/runs/{run_id}")).by("apply").ok();
    assert_eq!(own["results"][0]["output"], exit_output(), "{own}");
}

/// Reads a post of a client, answers it, and returns its body.
fn post(stream: TcpStream) -> Vec<u8> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.get_mut().write_all(answer).unwrap();
    body
}

#[test]
fn spans_of_failed_tools_have_the_error_status() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in collector.incoming() {
            drop(tell.send(post(stream.unwrap())));
        }
    });
    let exports = format!("[telemetry]\notlp_endpoint = '{endpoint}'\n");
    let mut daemon = Daemon::start(&config(&exports), &[]);
    let run = daemon.post("/v1/runs", &failing("runner", "t", "test")).by("apply").ok();
    assert_eq!(run["status"], "FAILED", "{run}");
    daemon.stop();
    let mut sent = Vec::new();
    until("the spans", || {
        sent.extend(told.try_iter().flatten());
        let has = |text: &str| sent.windows(text.len()).any(|it| it == text.as_bytes());
        // The statuses of the step and of the run.
        (has("NONZERO_EXIT") && has("step_failed")).then_some(())
    });
}

#[test]
fn command_line_exits_with_one_and_shows_the_code() {
    let stage = Stage::new(&config(""));
    for (adapter_id, tool, method, _, code, output) in failures() {
        std::fs::write(stage.path("plan.json"), failing(adapter_id, tool, method).to_string())
            .unwrap();
        let run = |format: &str| {
            let mut command = stage.program();
            command.args(["run", "plan.json", "--config-file", "router.toml", "--db", "own.db"]);
            Run(command.args(["--format", format]).output().unwrap())
        };
        let (json, human) = (run("json"), run("human"));
        assert_eq!((json.code(), human.code()), (1, 1), "{}", json.stderr());
        assert_eq!(json.json()["results"][0]["output"], output);
        let run_id = json.json()["run"]["run_id"].as_str().unwrap().to_owned();
        let mut command = stage.program();
        let shown =
            Run(command.args(["runs", "show", &run_id, "--db", "own.db"]).output().unwrap());
        for text in [human.stdout(), shown.stdout()] {
            assert!(text.contains(code) && text.contains("FAILED"), "{text}");
        }
    }
}

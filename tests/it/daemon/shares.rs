//! Shares of each token: queues, runs, stored bytes and event streams. One token does not keep others out.

use serde_json::{Value, json};

use super::client::{Ask, Response, Wire};
use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::mcp::support::{Session, able, answer, modern};
use nexus_router::access::Scope;

/// A stage with tokens of the given names, and an adapter that makes one call at a time and leaves a trace of each.
fn stage(tokens: &[&str], limits: &str) -> Stage {
    let mut stage = Stage::new("");
    for token in tokens {
        stage.token(token, Scope::Apply);
    }
    configure(&stage, limits);
    stage
}

fn configure(stage: &Stage, limits: &str) {
    stage.configure(&format!(
        "{ADAPTERS}\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n\
         calls = 1\n[adapters.config]\ncapabilities = [\"apply\", \"external\"]\ntraces = \"{}\"\n\
         responses = [{{ tool = \"t\", method = \"slow\", behaviour = {{ sleep_ms = 600000 }} }}]\n\
         [[tools]]\nname = \"buy\"\ndescription = \"Buys.\"\nadapter = \"shop\"\ntool = \"t\"\nmethod = \"quick\"\n\
         [[tools]]\nname = \"greet\"\ndescription = \"Greets.\"\nadapter = \"echo\"\ntool = \"t\"\nmethod = \"m\"\n\
         {limits}",
        stage.path("traces").display()
    ));
}

fn quick() -> Value {
    plan("shop", "t", "quick")
}

/// A plan whose second step is the one that waits.
fn second_step() -> Value {
    let mut request = quick();
    let mut first = request["plan_override"][0].clone();
    first["step_id"] = json!("s0");
    first["dispatch"] = json!({ "adapter_id": "echo" });
    let second = request["plan_override"][0].take();
    request["plan_override"] = json!([first, second]);
    request
}

/// Returns the runs of the calls that the adapter has seen, in order.
fn called(daemon: &Daemon) -> Vec<String> {
    let traces = std::fs::read_to_string(daemon.stage.path("traces")).unwrap_or_default();
    traces.lines().map(|call| call.split('/').next().unwrap().to_owned()).collect()
}

/// Takes the only slot for a call that does not end, and returns its run.
fn occupy(daemon: &Daemon) -> String {
    let run_id = daemon.post("/v1/runs?wait=false", &plan("shop", "t", "slow")).send().run_id();
    until("the slow call", || (called(daemon).len() == 1).then_some(()));
    run_id
}

fn cancel(daemon: &Daemon, run_id: &str) {
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).send().status, 202);
}

fn until_waiting(daemon: &Daemon, calls: u32) {
    let metric = "nexus_router_calls_waiting{adapter=\"shop\"}";
    until("the queued calls", || (daemon.metric(metric) == f64::from(calls)).then_some(()));
}

/// Begins a run that waits in the queue, and returns its id.
fn queue(daemon: &Daemon, token: &str) -> String {
    let answer = daemon.post("/v1/runs?wait=false", &quick()).by(token).send();
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.run_id()
}

fn buy<'a>(daemon: &'a Daemon, token: &str) -> Ask<'a> {
    modern(daemon, "tools/call", json!({ "name": "buy", "arguments": {} }), &json!({})).by(token)
}

fn retry_after(response: &Response) -> u64 {
    response.header("retry-after").expect("Retry-After").parse().unwrap()
}

/// Asserts that a run is refused with 429 and a code on every path of HTTP and MCP.
fn assert_refused(daemon: &Daemon, token: &str, (tool, request): (&str, &Value), code: &str) {
    let tool_call = format!("/v1/tools/{tool}");
    for (path, body) in
        [("/v1/runs", request), ("/v1/runs?wait=false", request), (tool_call.as_str(), &json!({}))]
    {
        let response = daemon.post(path, body).by(token).send();
        assert_eq!(response.status, 429, "{path}: {response:?}");
        assert_eq!(response.json()["code"], code, "{path}");
        assert!(retry_after(&response) >= 1);
    }
    let params = json!({ "name": tool, "arguments": {} });
    let session = Session::open(daemon, token);
    for ask in [
        modern(daemon, "tools/call", params.clone(), &json!({})).by(token),
        // As a task.
        modern(daemon, "tools/call", params.clone(), &able()).by(token),
        session.ask("tools/call", &params),
    ] {
        let refused = answer(&ask);
        assert_eq!(refused["error"]["data"]["code"], code, "{refused}");
        assert!(refused["error"]["data"]["retry_after_ms"].as_u64().unwrap() > 0, "{refused}");
    }
    session.end();
    assert!(daemon.metric(&format!("nexus_router_refused_total{{reason=\"{code}\"}}")) >= 6.0);
}

#[test]
fn queued_tokens_are_served_round_robin() {
    let tokens = ["crowd", "runs", "tools", "modern", "session", "task", "plan"];
    let daemon = stage(&tokens, "").start(&[]);
    let slow = occupy(&daemon);
    let crowd: Vec<String> = (1..=20)
        .map(|waiting| {
            let run_id = queue(&daemon, "crowd");
            until_waiting(&daemon, waiting);
            run_id
        })
        .collect();
    let session = Session::open(&daemon, "session");
    let params = json!({ "name": "buy", "arguments": {} });
    let others: [Ask<'_>; 6] = [
        daemon.post("/v1/runs", &quick()).by("runs"),
        daemon.post("/v1/tools/buy", &json!({})).by("tools"),
        buy(&daemon, "modern"),
        session.ask("tools/call", &params),
        modern(&daemon, "tools/call", params.clone(), &able()).by("task"),
        daemon.post("/v1/runs", &second_step()).by("plan"),
    ];
    let _wires: Vec<Wire> = (21..)
        .zip(&others)
        .map(|(waiting, ask)| {
            let wire = ask.begin();
            until_waiting(&daemon, waiting);
            wire
        })
        .collect();
    cancel(&daemon, &slow);
    let calls = until("all calls", || Some(called(&daemon)).filter(|calls| calls.len() == 27));
    let first_round = &calls[1..8];
    let of_crowd: Vec<&String> = first_round.iter().filter(|id| crowd.contains(id)).collect();
    assert_eq!(of_crowd, [&crowd[0]], "the crowd has one call in each round");
    let rest: Vec<&String> = calls[8..].iter().collect();
    assert_eq!(rest, crowd[1..].iter().collect::<Vec<_>>(), "in the order of arrival");
}

#[test]
fn a_token_queues_no_more_calls_than_its_share() {
    let mut daemon = stage(&["crowd", "good"], "[limits]\nqueued_per_token = 2\n").start(&[]);
    let slow = occupy(&daemon);
    let mut queued = vec![queue(&daemon, "crowd"), queue(&daemon, "crowd")];
    until_waiting(&daemon, 2);
    let runs = || daemon.get("/v1/runs?limit=1000").ok()["runs"].as_array().unwrap().len();
    let before = runs();
    assert_refused(&daemon, "crowd", ("buy", &quick()), "TOKEN_QUEUE_FULL");
    assert_eq!(runs(), before, "a refused run leaves no record");
    // A later step finds the queue full when the run is under way.
    let run = daemon.post("/v1/runs", &second_step()).by("crowd").ok();
    let error = &run["results"][1]["error"];
    assert_eq!(run["status"], "FAILED", "{run}");
    assert_eq!(
        (&error["code"], &error["details"]["called"]),
        (&json!("TOKEN_QUEUE_FULL"), &json!(false))
    );
    // A dry run calls nothing, and other tokens and adapters are not affected.
    let mut dry = quick();
    dry["mode"] = json!("dry_run");
    assert_eq!(daemon.post("/v1/runs", &dry).by("crowd").ok()["status"], "COMPLETED");
    let echo = daemon.post("/v1/runs", &plan("echo", "t", "m")).by("crowd").ok();
    assert_eq!(echo["status"], "COMPLETED", "{echo}");
    queued.push(queue(&daemon, "good"));
    until_waiting(&daemon, 3);
    // A reload changes the share of calls in line, too.
    configure(&daemon.stage, "[limits]\nqueued_per_token = 3\n");
    daemon.ask("POST", "/v1/reload").ok();
    queued.push(queue(&daemon, "crowd"));
    until_waiting(&daemon, 4);
    daemon.post("/v1/runs", &quick()).by("crowd").refused(429, "TOKEN_QUEUE_FULL");
    // Runs that were accepted before are resumed, even above the current share.
    configure(&daemon.stage, "[limits]\nqueued_per_token = 1\n");
    daemon.kill();
    let daemon = daemon.again();
    assert_eq!(daemon.ended(&slow)["reason"], "interrupted");
    for run_id in &queued {
        assert_eq!(daemon.ended(run_id)["status"], "COMPLETED");
    }
}

#[test]
fn limits_runs_per_token() {
    let daemon = stage(&["crowd", "good"], "[limits]\nruns_in_flight = 4\n").start(&[]);
    let hold = plan("many", "t", "hold");
    for _ in 0..2 {
        let answer = daemon.post("/v1/runs?wait=false", &hold).by("crowd").send();
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let echo = plan("echo", "t", "m");
    assert_refused(&daemon, "crowd", ("greet", &echo), "TOKEN_RUNS_EXCEEDED");
    let good = || daemon.post("/v1/runs", &echo).by("good").ok();
    assert_eq!(good()["status"], "COMPLETED");
    configure(&daemon.stage, "[limits]\nruns_in_flight = 4\nruns_per_token = 3\n");
    daemon.ask("POST", "/v1/reload").ok();
    assert_eq!(daemon.post("/v1/runs", &echo).by("crowd").ok()["status"], "COMPLETED");
    let third = daemon.post("/v1/runs?wait=false", &hold).by("crowd").send();
    assert_eq!(third.status, 202, "{third:?}");
    daemon.post("/v1/runs", &echo).by("crowd").refused(429, "TOKEN_RUNS_EXCEEDED");
    assert_eq!(good()["status"], "COMPLETED");
    daemon.release();
    until("a free share", || {
        (daemon.post("/v1/runs", &echo).by("crowd").send().status == 200).then_some(())
    });
}

#[test]
fn a_token_stores_no_more_bytes_than_its_share() {
    let limits = "[limits]\nstored_bytes_per_hour = 100000\n";
    let mut daemon = stage(&["crowd", "good", "other"], limits).start(&[]);
    let echo = plan("echo", "t", "m");
    let mut large = echo.clone();
    large["mode"] = json!("dry_run");
    large["plan_override"][0]["call"]["args"]["text"] = json!("x".repeat(150_000));
    // The run that exceeds the share is not broken off, and dry runs count like others.
    assert_eq!(daemon.post("/v1/runs", &large).by("crowd").ok()["status"], "COMPLETED");
    let response = daemon.post("/v1/runs", &large).by("crowd").send();
    assert_eq!(response.json()["code"], "TOKEN_STORAGE_EXCEEDED", "{response:?}");
    // It stored half as much again as it may per hour, or more.
    assert!((1800..36_000).contains(&retry_after(&response)), "{response:?}");
    assert_refused(&daemon, "crowd", ("greet", &echo), "TOKEN_STORAGE_EXCEEDED");
    assert_eq!(daemon.post("/v1/runs", &echo).by("good").ok()["status"], "COMPLETED");
    // Arguments that are held count too, though their record is small.
    let mut hidden = plan("many", "t", "hold");
    hidden["plan_override"][0]["call"]["args"] = json!({ "password": "x".repeat(150_000) });
    let held = daemon.post("/v1/runs?wait=false", &hidden).by("other").send();
    assert_eq!(held.status, 202, "{held:?}");
    daemon.post("/v1/runs", &echo).by("other").refused(429, "TOKEN_STORAGE_EXCEEDED");
    daemon.release();
    daemon.ended(&held.run_id());
    // A restart does not forget it.
    daemon.stop();
    let daemon = daemon.again();
    daemon.post("/v1/runs", &echo).by("crowd").refused(429, "TOKEN_STORAGE_EXCEEDED");
    assert_eq!(daemon.post("/v1/runs", &echo).by("good").ok()["status"], "COMPLETED");
    configure(&daemon.stage, "[limits]\nstored_bytes_per_hour = 0\n");
    daemon.ask("POST", "/v1/reload").ok();
    assert_eq!(daemon.post("/v1/runs", &echo).by("crowd").ok()["status"], "COMPLETED");
}

#[test]
fn a_token_opens_no_more_event_streams_than_its_share() {
    let daemon = stage(&["crowd", "good"], "[server]\nstreams_per_token = 2\n").start(&[]);
    let held = |token: &str| {
        let answer =
            daemon.post("/v1/runs?wait=false", &plan("many", "t", "hold")).by(token).send();
        format!("/v1/runs/{}/events", answer.run_id())
    };
    let (crowd, good) = (held("crowd"), held("good"));
    let follow = |path: &str, token: &str| {
        let mut wire = daemon.get(path).by(token).begin();
        assert_eq!(wire.head().status, 200);
        wire
    };
    let session = Session::open(&daemon, "crowd");
    // Streams of runs and of sessions count together.
    let open = (follow(&crowd, "crowd"), session.stream());
    let refused = daemon.get(&crowd).by("crowd").send();
    assert_eq!((refused.status, retry_after(&refused)), (429, 1));
    assert_eq!(refused.json()["code"], "TOKEN_STREAMS_EXCEEDED");
    let again = Session::open(&daemon, "crowd");
    let refused = daemon
        .get("/mcp")
        .by("crowd")
        .header("Accept", "text/event-stream")
        .header("Mcp-Session-Id", &again.id)
        .header("MCP-Protocol-Version", "2025-11-25")
        .send();
    assert_eq!(refused.json()["code"], "TOKEN_STREAMS_EXCEEDED", "{refused:?}");
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let refused = answer(&modern(&daemon, "subscriptions/listen", listen, &json!({})).by("crowd"));
    assert_eq!(refused["error"]["data"]["code"], "TOKEN_STREAMS_EXCEEDED", "{refused}");
    drop((follow(&good, "good"), follow(&good, "good")));
    drop(open);
    until("room for a stream", || {
        let mut wire = daemon.get(&crowd).by("crowd").begin();
        (wire.head().status == 200).then_some(())
    });
    daemon.release();
}

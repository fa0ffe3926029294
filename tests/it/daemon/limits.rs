//! What there may only be so much of: requests, bytes, connections, runs.

use std::io::Write as _;

use serde_json::json;

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use nexus_router::access::Scope;

#[test]
fn who_asks_too_often_is_told_when_to_come_again() {
    let limits = "[[tokens]]\nname = \"read\"\nrequests_per_second = 1\nburst = 1\n";
    let daemon = Daemon::start(limits, &[]);
    let ask = |name: &str| daemon.get("/v1/runs").by(name).send();
    let first = until("a refusal", || Some(ask("read")).filter(|answer| answer.status == 429));
    assert_eq!(first.json()["code"], "RATE_LIMITED");
    assert!(first.header("retry-after").is_some(), "{first:?}");
    // The others have their own measure, and what is public has none.
    for _ in 0..20 {
        assert_eq!(ask("run").status, 200);
        assert_eq!(daemon.get("/healthz").by("read").send().status, 200);
    }
    until("another turn", || (ask("read").status == 200).then_some(()));
    assert!(daemon.metric("nexus_router_refused_total{reason=\"RATE_LIMITED\"}") >= 1.0);
    daemon.audited(|event| event["payload"]["reason"] == "RATE_LIMITED");
}

#[test]
fn who_guesses_tokens_is_slowed_down_and_locks_nobody_out() {
    let daemon = Daemon::usual();
    let ask = |address| {
        let ask = daemon.get("/v1/runs").by_nobody().from(address);
        ask.header("Authorization", "Bearer wrong")
    };
    let guess = |address| ask(address).send();
    let (loud, quiet) = ([127, 0, 0, 9], [127, 0, 0, 10]);
    // All at once on one connection, so that a slow machine does not make them few per second.
    let mut wire = ask(loud).begin();
    wire.stream().write_all(&ask(loud).bytes().repeat(299)).unwrap();
    let answers: Vec<_> = (0..300).map(|_| wire.response()).collect();
    assert!(answers[..100].iter().all(|answer| answer.status == 401));
    let told = answers.iter().find(|answer| answer.status != 401).expect("nothing was refused");
    assert_eq!((told.status, &told.json()["code"]), (429, &json!("RATE_LIMITED")));
    assert_eq!(guess(quiet).status, 401);
    // A good token from the same address is not counted.
    for _ in 0..3 {
        guess(loud);
        assert_eq!(daemon.get("/v1/runs").from(loud).send().status, 200);
    }
    assert!(daemon.metric("nexus_router_refused_total{reason=\"RATE_LIMITED\"}") >= 1.0);
    let event = daemon.audited(|event| event["payload"]["reason"] == "RATE_LIMITED");
    assert_eq!(event["payload"]["from"], "127.0.0.9");
}

#[test]
fn bodies_have_a_largest_size() {
    let server = "[server]\nbody_bytes = 4096\nbundle_bytes = 8192\nmemory_bytes = 8192\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let head = |path: &str, more: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{more}\r\n\r\n",
            daemon.token("admin")
        )
    };
    // Declared: refused before anything of it is there.
    for size in ["4097", "99999999999", "9223372036854775807"] {
        let mut wire = daemon.connect();
        let head = head("/v1/runs", &format!("Content-Length: {size}"));
        wire.stream().write_all(head.as_bytes()).unwrap();
        let answer = wire.response();
        assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("BODY_TOO_LARGE")));
    }
    // Not declared: refused when it is too much.
    let mut wire = daemon.connect();
    wire.stream().write_all(head("/v1/runs", "Transfer-Encoding: chunked").as_bytes()).unwrap();
    for _ in 0..5 {
        let chunk = format!("400\r\n{}\r\n", " ".repeat(1024));
        wire.stream().write_all(chunk.as_bytes()).unwrap();
    }
    let answer = wire.response();
    assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("BODY_TOO_LARGE")));
    // As large as may be.
    let mut body = plan("echo", "t", "m").to_string();
    body.push_str(&" ".repeat(4096 - body.len()));
    assert_eq!(daemon.ask("POST", "/v1/runs").body(body.clone()).ok()["status"], "COMPLETED");
    body.push(' ');
    daemon.ask("POST", "/v1/runs").body(body.clone()).refused(413, "BODY_TOO_LARGE");
    // Bundles have a limit of their own.
    let bundle = daemon.ask("POST", "/v1/bundles").body(body).send();
    assert_eq!(bundle.status, 422, "{bundle:?}");
    daemon.ask("POST", "/v1/bundles").body(" ".repeat(8193)).refused(413, "BODY_TOO_LARGE");
    // Who expects to be told is told before it sends anything.
    let mut wire = daemon.connect();
    let expecting = head("/v1/runs", "Content-Length: 4097\r\nExpect: 100-continue");
    wire.stream().write_all(expecting.as_bytes()).unwrap();
    assert_eq!(wire.response().status, 413);
    daemon.assert_alive();
}

#[test]
fn bodies_together_take_no_more_than_their_memory() {
    let server = "[server]\nbody_bytes = 4096\nbundle_bytes = 4096\nmemory_bytes = 4096\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let ask = daemon.post("/v1/runs", &plan("echo", "t", "m"));
    // One request holds all of it. It may come when another still has some, and is refused itself then.
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Transfer-Encoding: chunked\r\n\r\nfa0\r\n{}\r\n",
        daemon.token("admin"),
        " ".repeat(4000)
    );
    let mut holders = Vec::new();
    until("a refusal", || {
        let mut holder = daemon.connect();
        holder.stream().write_all(head.as_bytes()).unwrap();
        holders.push(holder);
        (ask.send().status == 503).then_some(())
    });
    ask.refused(503, "OVERLOADED");
    // Requests without a body need none.
    assert_eq!(daemon.get("/v1/runs").send().status, 200);
    drop(holders);
    until("room", || (ask.send().status == 200).then_some(()));
}

#[test]
fn what_a_body_does_not_need_is_for_others() {
    let server = "[server]\nbody_bytes = 16384\nbundle_bytes = 16384\nmemory_bytes = 65536\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let plan = plan("many", "t", "hold").to_string();
    let post = |query: &str| {
        let mut wire = daemon.connect();
        let request = format!(
            "POST /v1/runs{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{plan}\r\n0\r\n\r\n",
            daemon.token("admin"),
            plan.len()
        );
        wire.stream().write_all(request.as_bytes()).unwrap();
        wire
    };
    // Four of them could have been as large as all together may be.
    let holders: Vec<_> = (1..=8)
        .map(|held| {
            let wire = post("");
            until("the call", || (daemon.calls_in_flight("many") == held).then_some(()));
            wire
        })
        .collect();
    drop(holders);
    // What is accepted keeps its memory until it is over, and not only until its caller is gone.
    until("a refusal", || (post("?wait=false").response().status == 503).then_some(()));
    daemon.release();
    until("room", || (post("?wait=false").response().status == 202).then_some(()));
    daemon.release();
}

#[test]
fn values_are_counted_besides_their_text() {
    let daemon = Daemon::usual();
    let many = format!("{{\"goal\":\"g\",\"context\":[{}0]}}", "0,".repeat(1_000_000));
    daemon.ask("POST", "/v1/runs").body(many).refused(400, "JSON_TOO_MANY_VALUES");
}

#[test]
fn there_are_only_so_many_runs() {
    let daemon = Daemon::start(&format!("{ADAPTERS}[limits]\nruns_in_flight = 1\n"), &[]);
    let run_id = daemon.hold();
    let ask = daemon.post("/v1/runs", &plan("echo", "t", "m"));
    ask.refused(503, "ROUTER_BUSY");
    let status = daemon.get("/v1/status").ok();
    assert_eq!((&status["runs_in_flight"], &status["runs_limit"]), (&json!(1), &json!(1)));
    daemon.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).send();
    daemon.ended(&run_id);
    until("a place", || (ask.send().status == 200).then_some(()));
}

#[test]
fn a_reload_changes_limits_and_a_broken_file_changes_nothing() {
    let mut stage = Stage::new(ADAPTERS);
    stage.token("slow", Scope::Read);
    let daemon = stage.start(&[]);
    daemon
        .stage
        .configure(&format!("{ADAPTERS}[policy]\napply = false\n[log]\nformat = \"json\"\n"));
    // The daemon may have seen the change by itself.
    let reloaded = daemon.ask("POST", "/v1/reload").ok();
    assert_eq!(reloaded["added"], json!([]));
    let run = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    assert_eq!(run["status"], "FAILED", "{run}");
    daemon.stage.configure("adapter = 1\n");
    let problem = daemon.ask("POST", "/v1/reload").refused(422, "CONFIG_FILE_INVALID");
    assert!(problem["detail"].as_str().unwrap().contains("router.toml"), "{problem}");
    assert_eq!(daemon.get("/v1/adapters").ok()["total"], 4);
    let audit = daemon.audit();
    let kinds: Vec<&str> = audit.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert!(kinds.contains(&"config.reloaded") && kinds.contains(&"config.refused"), "{kinds:?}");
    let level = daemon.ask("PUT", "/v1/log").json(&json!({ "level": "debug" })).ok();
    assert_eq!(level, json!({ "level": "debug" }));
    assert_eq!(daemon.get("/v1/log").ok(), level);
    let problem = daemon.ask("PUT", "/v1/log").json(&json!({ "level": "loud" })).send();
    assert_eq!((problem.status, &problem.json()["pointer"]), (422, &json!("/level")));
    daemon.ask("PUT", "/v1/log").json(&json!({ "levels": 1 })).refused(422, "REQUEST_INVALID");
}

//! Runs over HTTP: submitted, waited for or not, sent again, cancelled, listed, moved.

use nexus_router::access::{Scope, Visibility};
use serde_json::json;

use super::support::{ADAPTERS, Daemon, Stage, plan, until};

#[test]
fn a_submission_waits_for_the_end_of_its_run() {
    let daemon = Daemon::usual();
    let answer = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).by("apply").send();
    assert_eq!(answer.status, 200, "{answer:?}");
    let run = answer.json();
    assert_eq!((&run["status"], &run["summary"]["mode"]), (&json!("COMPLETED"), &json!("apply")));
    assert_eq!(run["results"][0]["output"]["method"], "hello");
    assert_eq!(run["results"][0]["simulated"], false);
    let shown = daemon.get(&format!("/v1/runs/{}", answer.run_id())).ok();
    for key in ["run", "results", "plan", "status", "summary"] {
        assert_eq!(shown[key], run[key], "{key}");
    }
    assert_eq!(shown["goal"], "try it");

    let mut dry = plan("echo", "greeter", "hello");
    dry["mode"] = "dry_run".into();
    let run = daemon.post("/v1/runs", &dry).by("run").ok();
    assert_eq!((&run["status"], &run["summary"]["mode"]), (&json!("COMPLETED"), &json!("dry_run")));
    assert_eq!(run["results"][0]["simulated"], true);
    // Who may only try, does not apply.
    let problem = daemon.post("/v1/runs", &plan("echo", "t", "m")).by("run");
    problem.refused(403, "SCOPE_MISSING");
}

#[test]
fn who_does_not_wait_is_told_where_the_run_is() {
    let daemon = Daemon::usual();
    let request = plan("echo", "t", "m");
    let asks = [
        daemon.post("/v1/runs?wait=false", &request),
        daemon.post("/v1/runs?wait=0", &request),
        daemon.post("/v1/runs", &request).header("Prefer", "respond-async"),
        daemon.post("/v1/runs", &request).header("Prefer", "wait=0, handling=lenient"),
    ];
    for ask in asks {
        let answer = ask.send();
        // A run may be over before the answer is written.
        assert!([200, 202].contains(&answer.status), "{answer:?}");
        let run_id = answer.run_id();
        daemon.get(&format!("/v1/runs/{run_id}")).ok();
        assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
    }
    let slow = plan("many", "t", "hold");
    for query in ["?wait=false", "?wait=0.05", "?wait=5e-2"] {
        let answer = daemon.post(&format!("/v1/runs{query}"), &slow).send();
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.json()["status"], "RUNNING");
        let run_id = answer.run_id();
        assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["status"], "RUNNING");
        until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
        daemon.release();
        let run = daemon.ended(&run_id);
        assert_eq!(run["status"], "COMPLETED", "{run}");
    }
    for query in ["wait=soon", "wait=-1", "wait=3601", "wait=NaN", "wait=", "wait=inf"] {
        let problem = daemon.post(&format!("/v1/runs?{query}"), &request);
        problem.refused(400, "HTTP_QUERY_INVALID");
    }
    // A preference is only that.
    for prefer in ["wait=soon", "respond-async; wait", "nonsense", "wait=99999"] {
        let run = daemon.post("/v1/runs", &request).header("Prefer", prefer).ok();
        assert_eq!(run["status"], "COMPLETED");
    }
}

#[test]
fn a_failed_run_is_an_answer_and_a_bug_is_none() {
    let daemon = Daemon::usual();
    let failed = daemon.post("/v1/runs", &plan("fake", "t", "refuse")).send();
    assert_eq!(failed.status, 200, "{failed:?}");
    let run = failed.json();
    assert_eq!(
        (&run["status"], &run["results"][0]["error"]["code"]),
        (&json!("FAILED"), &json!("TIMEOUT"))
    );

    for query in ["", "?wait=30"] {
        let broken = daemon.post(&format!("/v1/runs{query}"), &plan("fake", "t", "break"));
        let problem = broken.refused(502, "BUG_ERROR");
        let run_id = problem["run_id"].as_str().unwrap();
        assert_eq!(problem["run"]["status"], "FAILED", "{problem}");
        assert_eq!(problem["run"]["run"]["run_id"], run_id, "{problem}");
        let shown = daemon.get(&format!("/v1/runs/{run_id}")).ok();
        assert_eq!(shown["results"], problem["run"]["results"]);
    }
    // Nobody waits for this one.
    let answer = daemon.post("/v1/runs?wait=false", &plan("fake", "t", "break")).send();
    // It may be over before the answer is written, and is as broken as the others then.
    let run_id = match answer.status {
        202 => answer.run_id(),
        status => {
            assert_eq!(status, 502, "{answer:?}");
            answer.json()["run_id"].as_str().unwrap().to_owned()
        }
    };
    assert_eq!(daemon.ended(&run_id)["status"], "FAILED");
}

#[test]
fn the_same_request_again_gives_the_first_run() {
    let daemon = Daemon::usual();
    let request = plan("echo", "t", "m");
    let keyed = |key: &str| daemon.post("/v1/runs", &request).header("Idempotency-Key", key);
    let first = keyed("one").send().run_id();
    assert_eq!(keyed("one").send().run_id(), first);
    // As a structured field it stands in quotes.
    assert_eq!(keyed("\"one\"").send().run_id(), first);
    let mut in_body = request.clone();
    in_body["idempotency_key"] = "one".into();
    assert_eq!(daemon.post("/v1/runs", &in_body).send().run_id(), first);
    assert_eq!(daemon.post("/v1/runs?wait=false", &in_body).send().run_id(), first);
    let both = daemon.post("/v1/runs", &in_body).header("Idempotency-Key", "one");
    assert_eq!(both.send().run_id(), first);
    daemon
        .post("/v1/runs", &in_body)
        .header("Idempotency-Key", "two")
        .refused(400, "HTTP_QUERY_INVALID");
    for bad in ["", "\"\"", &"x".repeat(257)] {
        keyed(bad).refused(400, "HTTP_QUERY_INVALID");
    }
    let other = daemon.post("/v1/runs", &plan("echo", "t", "other"));
    let problem =
        other.clone().header("Idempotency-Key", "one").refused(422, "IDEMPOTENCY_KEY_TAKEN");
    assert_eq!(problem["run_id"], first.as_str());
    // Keys belong to whoever uses them.
    let stranger = keyed("one").by("apply").send().run_id();
    assert_ne!(stranger, first);
    assert_eq!(other.header("Idempotency-Key", "one").by("run").send().status, 403);
    assert_eq!(daemon.get("/v1/runs").ok()["summary"]["runs_total"], 2);
}

#[test]
fn the_same_request_many_times_at_once_is_one_run_and_one_call() {
    let stage = Stage::new("");
    let traces = stage.path("traces");
    stage.configure(&format!(
        "[[adapters]]\nref = \"probe_adapters:fake\"\nisolation = \"inline\"\n[adapters.config]\n\
         capabilities = [\"apply\", \"external\"]\ntraces = \"{}\"\n",
        traces.display()
    ));
    let daemon = stage.start(&[]);
    let ask = daemon.post("/v1/runs", &plan("fake", "t", "m")).header("Idempotency-Key", "once");
    let mut wires: Vec<_> = (0..8).map(|_| ask.begin()).collect();
    // Who finds the run under way is told where it is.
    let ids: std::collections::BTreeSet<String> =
        wires.iter_mut().map(|wire| wire.response().run_id()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(daemon.ended(ids.first().unwrap())["status"], "COMPLETED");
    assert_eq!(daemon.get("/v1/runs").ok()["summary"]["runs_total"], 1);
    assert_eq!(std::fs::read_to_string(traces).unwrap().lines().count(), 1);
}

#[test]
fn a_client_that_goes_away_cancels_its_run_only_if_it_said_so() {
    let daemon = Daemon::usual();
    let leave = |query: &str| {
        let wire = daemon.post(&format!("/v1/runs{query}"), &plan("many", "t", "hold")).begin();
        until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
        drop(wire);
        // The only connection left is that of who asks.
        until("the end of the connection", || {
            let connections = daemon.get("/v1/status").ok()["connections"].as_u64();
            (connections == Some(1)).then_some(())
        });
    };
    let only = |status: &str| {
        until("the end of the run", || {
            let listed = daemon.get(&format!("/v1/runs?status={status}&limit=2")).ok();
            let run_id = listed["runs"][0]["run_id"].as_str()?.to_owned();
            Some(daemon.get(&format!("/v1/runs/{run_id}")).ok())
        })
    };
    leave("?on_disconnect=cancel");
    let run = only("FAILED");
    assert_eq!(run["results"][0]["error"]["code"], "CANCELLED", "{run}");
    for query in ["", "?on_disconnect=continue"] {
        leave(query);
        assert_eq!(daemon.calls_in_flight("many"), 1);
        daemon.release();
    }
    // Two that went on, and two that released them.
    until("the end of all runs", || {
        let summary = daemon.get("/v1/runs").ok()["summary"].clone();
        (summary == json!({ "runs_total": 5, "completed": 4, "failed": 1, "running": 0 }))
            .then_some(())
    });
    // Whoever leaves at once is heard too, whatever the run waits for.
    for (index, query) in
        ["?on_disconnect=cancel", "?on_disconnect=cancel&wait=30"].iter().enumerate()
    {
        for attempt in 0..10 {
            let key = format!("{index}-{attempt}");
            let ask = daemon.post(&format!("/v1/runs{query}"), &plan("many", "t", "hold"));
            drop(ask.header("Idempotency-Key", &key).begin());
        }
    }
    until("no run under way", || {
        (daemon.get("/v1/status").ok()["runs_in_flight"] == 0).then_some(())
    });
    let odd = daemon.post("/v1/runs?on_disconnect=explode", &plan("echo", "t", "m"));
    odd.refused(400, "HTTP_QUERY_INVALID");
}

#[test]
fn runs_are_cancelled_while_they_are_under_way() {
    let daemon = Daemon::usual();
    let run_id = daemon.hold();
    let cancel = daemon.post(&format!("/v1/runs/{run_id}/cancel"), &json!({}));
    let answer = cancel.send();
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({ "run_id": run_id, "cancelling": true }));
    assert_eq!(answer.header("location"), Some(&*format!("/v1/runs/{run_id}")));
    let run = daemon.ended(&run_id);
    assert_eq!(run["results"][0]["error"]["code"], "CANCELLED", "{run}");
    // A run is on disk as over a moment before the daemon lets go of it.
    until("the end of the run", || (cancel.send().status == 409).then_some(()));
    let problem = cancel.refused(409, "RUN_NOT_CANCELLABLE");
    assert!(problem["detail"].as_str().unwrap().contains("is over: FAILED"), "{problem}");
    assert_eq!(problem["run_id"], run_id.as_str());
    let unknown = daemon.post("/v1/runs/nobody/cancel", &json!({}));
    unknown.refused(404, "RUN_NOT_FOUND");
}

#[test]
fn only_its_own_caller_and_an_administrator_cancel_a_run() {
    let mut stage = Stage::new(ADAPTERS);
    stage.token_seeing("observer", Scope::Run, Visibility::All);
    let daemon = stage.start(&[]);
    let hold = || daemon.post("/v1/runs?wait=false", &plan("many", "t", "hold")).by("apply");
    let cancel = |run_id: &str| daemon.post(&format!("/v1/runs/{run_id}/cancel"), &json!({}));
    for name in ["apply", "admin"] {
        let run_id = hold().send().run_id();
        cancel(&run_id).by("run").refused(404, "RUN_NOT_FOUND");
        cancel(&run_id).by("observer").refused(403, "SCOPE_MISSING");
        assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["status"], "RUNNING");
        assert_eq!(cancel(&run_id).by(name).send().status, 202);
        assert_eq!(daemon.ended(&run_id)["results"][0]["error"]["code"], "CANCELLED");
        let event = daemon.audited(|event| event["payload"]["run_id"] == run_id.as_str());
        assert_eq!(event["kind"], "run.cancelled");
        assert_eq!(event["payload"], json!({ "run_id": run_id, "name": name }));
    }
    daemon.audited(|event| event["payload"]["name"] == "observer");
    let open = Stage::bare(ADAPTERS).start(&["--no-tokens"]);
    let held = open.post("/v1/runs?wait=false", &plan("many", "t", "hold")).by_nobody();
    let run_id = held.send().run_id();
    let cancel = open.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).by_nobody();
    assert_eq!(cancel.send().status, 202);
}

#[test]
fn runs_are_listed_by_what_is_asked() {
    let daemon = Daemon::usual();
    let mut ids = Vec::new();
    for request in [plan("echo", "t", "a"), plan("fake", "t", "refuse"), plan("echo", "t", "b")] {
        ids.insert(0, daemon.post("/v1/runs", &request).send().run_id());
    }
    ids.insert(0, daemon.hold());
    let listed = |query: &str| -> Vec<String> {
        let runs = daemon.get(&format!("/v1/runs{query}")).by("read").ok();
        let runs = runs["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
    };
    let created = daemon.get(&format!("/v1/runs/{}", ids[1])).ok();
    let created = created["created_at"].as_str().unwrap();
    for (query, expected) in [
        ("", &ids[..]),
        ("?limit=2", &ids[..2]),
        ("?limit=2&offset=1", &ids[1..3]),
        ("?offset=9007199254740991", &[]),
        ("?status=RUNNING", &ids[..1]),
        ("?status=FAILED", &ids[2..3]),
        ("?status=COMPLETED&limit=1", &ids[1..2]),
        (&format!("?since={}", created.replace('+', "%2B")), &ids[..2]),
        ("?since=9999-01-01T00:00:00Z", &[]),
    ] {
        assert_eq!(listed(query), expected, "{query}");
    }
    for query in [
        "status=running",
        "status=",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "offset=-1",
        "offset=99999999999999999999",
        "limit=1&limit=2",
        "lim=1",
        "since=yesterday",
    ] {
        let problem = daemon.get(&format!("/v1/runs?{query}"));
        problem.refused(400, "HTTP_QUERY_INVALID");
    }
    for path in ["", "/events", "/replay", "/bundle"] {
        daemon.get(&format!("/v1/runs/nobody{path}")).refused(404, "RUN_NOT_FOUND");
    }
}

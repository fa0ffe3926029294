//! Approvals through the daemon's doors: HTTP and the command line, by every token, across reloads and kills.

use nexus_router::access::{Scope, Visibility};
use nexus_router::clock::Clock;
use nexus_router::store::{Status, Store};
use serde_json::{Value, json};

use super::events::stream;
use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::support::Run;

/// A stage on which calls of the tool `risk` wait for a person; each call leaves a trace.
fn stage(more: &str) -> Stage {
    let mut stage = Stage::new("");
    stage.token_seeing("observer", Scope::Run, Visibility::All);
    stage.configure(&config(&stage, "it is risky", more));
    stage
}

fn config(stage: &Stage, reason: &str, more: &str) -> String {
    format!(
        // Inline, for it leaves traces in a file.
        "{ADAPTERS}\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n\
         config = {{ capabilities = [\"apply\", \"external\"], traces = \"{}\" }}\n\
         [[tools]]\nname = \"buy\"\ndescription = \"Buys.\"\nadapter = \"shop\"\ntool = \"risk\"\nmethod = \"buy\"\n\
         [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\nreason = \"{reason}\"\n{more}\n",
        stage.path("traces").display()
    )
}

/// How many calls with effects were made.
fn calls(daemon: &Daemon) -> usize {
    traces(daemon).len()
}

fn traces(daemon: &Daemon) -> Vec<String> {
    let text = std::fs::read_to_string(daemon.stage.path("traces")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Submits a run that comes to wait, and returns its id and that of the approval.
fn waits(daemon: &Daemon, by: &str) -> (String, String) {
    let answer = daemon.post("/v1/runs", &plan("shop", "risk", "buy")).by(by).send();
    assert_eq!(answer.status, 202, "{answer:?}");
    let run = answer.json();
    assert_eq!((&run["status"], &run["outcome"]), (&json!("RUNNING"), &Value::Null));
    let waiting = &run["waiting"];
    assert_eq!((&waiting["tool"], &waiting["method"]), (&json!("risk"), &json!("buy")));
    (answer.run_id(), waiting["approval_id"].as_str().unwrap().to_owned())
}

fn path(approval_id: &str, verb: &str) -> String {
    format!("/v1/approvals/{approval_id}/{verb}")
}

#[test]
fn a_run_waits_and_goes_on_over_http() {
    let daemon = stage("").start(&[]);
    let (run_id, approval_id) = waits(&daemon, "apply");
    let shown = daemon.get(&format!("/v1/runs/{run_id}")).by("read").ok();
    assert_eq!(shown["waiting"]["approval_id"], json!(approval_id));
    assert_eq!(daemon.get("/v1/runs").ok()["runs"][0]["waiting"], true);
    assert_eq!(daemon.metric("nexus_router_approvals_open"), 1.0);
    assert_eq!(daemon.get("/v1/status").ok()["approvals_open"], 1);

    let listed = daemon.get("/v1/approvals").by("read").ok();
    assert_eq!((&listed["total"], &listed["approvals"][0]["state"]), (&json!(1), &json!("open")));
    let approval = daemon.get(&format!("/v1/approvals/{approval_id}")).by("read").ok();
    assert_eq!(approval, listed["approvals"][0]);
    assert_eq!(approval["call"]["args"], json!({ "name": "Ada" }));
    assert_eq!(
        (&approval["caller"]["name"], &approval["reason"]),
        (&json!("apply"), &json!("it is risky"))
    );
    daemon.get("/v1/approvals/nope").refused(404, "APPROVAL_UNKNOWN");
    daemon.get("/v1/approvals?state=closed").refused(400, "HTTP_QUERY_INVALID");

    // Whoever follows the run is told when it goes on.
    let mut events = stream(&daemon, &run_id, None);
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("APPROVAL_REQUESTED") {
        seen.push(events.next().unwrap().kind);
    }
    let approve = path(&approval_id, "approve");
    daemon.post(&approve, &json!({ "reasons": "x" })).refused(422, "REQUEST_INVALID");
    daemon.post(&approve, &json!({ "reason": 5 })).refused(422, "REQUEST_INVALID");
    let long = json!({ "reason": "x".repeat(2001) });
    daemon.post(&approve, &long).refused(422, "APPROVAL_REASON_TOO_LONG");
    assert_eq!(calls(&daemon), 0);
    let decided = daemon.post(&approve, &json!({ "reason": "Ada ordered it" })).ok();
    assert_eq!(
        (&decided["state"], &decided["decided"]["by"]),
        (&json!("approved"), &json!("admin"))
    );
    let rest: Vec<String> = std::iter::from_fn(|| events.next()).map(|event| event.kind).collect();
    assert_eq!(
        rest,
        [
            "APPROVAL_DECIDED",
            "TOOL_CALL_REQUESTED",
            "TOOL_CALL_SUCCEEDED",
            "STEP_COMPLETED",
            "PROVENANCE_EMITTED",
            "RUN_COMPLETED",
            "end"
        ]
    );
    assert_eq!((daemon.ended(&run_id)["status"].as_str(), calls(&daemon)), (Some("COMPLETED"), 1));
    assert_eq!(daemon.get("/v1/runs").ok()["runs"][0].get("waiting"), None);

    let problem = daemon
        .post(&path(&approval_id, "deny"), &json!({}))
        .refused(409, "APPROVAL_ALREADY_DECIDED");
    assert!(problem["detail"].as_str().unwrap().contains("approved by admin at"), "{problem}");
    let recorded = daemon.audited(|event| event["kind"] == "approval.refused");
    assert_eq!(recorded["payload"]["approval_id"], json!(approval_id));
    let recorded = daemon.audited(|event| event["kind"] == "approval.decided");
    assert_eq!(recorded["payload"]["why"], "Ada ordered it");
    assert_eq!(calls(&daemon), 1);
    assert_eq!(daemon.metric("nexus_router_approvals_decided_total{decision=\"approved\"}"), 1.0);
    for (state, total) in [("open", 0), ("decided", 1), ("all", 1)] {
        let listed = daemon.get(&format!("/v1/approvals?state={state}")).ok();
        assert_eq!((&listed["total"], state), (&json!(total), state));
    }
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
}

#[test]
fn tools_wait_and_runs_that_wait_are_cancelled() {
    let daemon = stage("").start(&[]);
    let answer = daemon.post("/v1/tools/buy", &json!({ "args": { "name": "Ada" } })).send();
    let called = answer.json();
    assert_eq!((answer.status, &called["status"]), (202, &json!("RUNNING")));
    let approval_id = called["waiting"]["approval_id"].as_str().unwrap();
    daemon.ask("POST", &path(approval_id, "deny")).ok();
    let run = daemon.ended(called["run_id"].as_str().unwrap());
    assert_eq!(run["results"][0]["error"]["code"], "APPROVAL_DENIED");
    let tried = daemon.post("/v1/tools/buy", &json!({ "mode": "dry_run" })).ok();
    assert_eq!(tried["output"]["approval_required"], true);

    let (run_id, approval_id) = waits(&daemon, "apply");
    let cancel = format!("/v1/runs/{run_id}/cancel");
    daemon.ask("POST", &cancel).by("run").refused(404, "RUN_NOT_FOUND");
    daemon.ask("POST", &cancel).by("observer").refused(403, "SCOPE_MISSING");
    assert_eq!(daemon.ask("POST", &cancel).by("apply").send().status, 202);
    assert_eq!(daemon.ended(&run_id)["reason"], "cancelled");
    let approval = daemon.get(&format!("/v1/approvals/{approval_id}")).ok();
    assert_eq!((&approval["state"], &approval["decided"]["by"]), (&json!("void"), &json!("apply")));
    daemon.ask("POST", &cancel).refused(409, "RUN_NOT_CANCELLABLE");
    daemon.ask("POST", &path(&approval_id, "approve")).refused(409, "APPROVAL_ALREADY_DECIDED");
    assert_eq!(calls(&daemon), 0);
}

#[test]
fn only_who_may_decides() {
    let daemon = stage("").start(&[]);
    let (run_id, approval_id) = waits(&daemon, "apply");
    for verb in ["approve", "deny"] {
        let ask = daemon.ask("POST", &path(&approval_id, verb));
        ask.clone().by_nobody().refused(401, "TOKEN_MISSING");
        ask.clone().by("read").refused(403, "SCOPE_MISSING");
        ask.clone().by("run").refused(404, "APPROVAL_UNKNOWN");
        ask.clone().by("observer").refused(403, "APPROVAL_NOT_YOURS");
        ask.by("apply").refused(403, "APPROVAL_OWN_CALL");
    }
    assert_eq!((calls(&daemon), &daemon.get("/v1/approvals").ok()["total"]), (0, &json!(1)));
    // The operator lets callers decide; the law that asks is the same, so the question stands.
    let more = "[policy.approvals]\nby_caller = true\n";
    daemon.stage.configure(&config(&daemon.stage, "it is risky", more));
    daemon.ask("POST", "/v1/reload").ok();
    let approve = daemon.ask("POST", &path(&approval_id, "approve"));
    approve.by("observer").refused(403, "APPROVAL_NOT_YOURS");
    daemon.ask("POST", &path(&approval_id, "approve")).by("apply").ok();
    assert_eq!((daemon.ended(&run_id)["status"].as_str(), calls(&daemon)), (Some("COMPLETED"), 1));
}

#[test]
fn breaking_reload_keeps_the_approval_open() {
    let daemon = stage("").start(&[]);
    let reload = |config: &str| {
        daemon.stage.configure(config);
        daemon.ask("POST", "/v1/reload").ok();
    };
    let (run_id, planned) = waits(&daemon, "apply");
    let called = daemon.post("/v1/tools/buy", &json!({})).by("apply").send();
    let called = called.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    let changed = config(&daemon.stage, "it is very risky", "");
    let missing = config(&daemon.stage, "it is risky", "").replace("\"shop\"", "\"other\"");
    for (config, why) in [(changed, "the policy is not"), (missing, "there is no adapter 'shop'")] {
        reload(&config);
        for id in [&planned, &called] {
            let refused =
                daemon.ask("POST", &path(id, "approve")).refused(409, "APPROVAL_NOT_EXECUTABLE");
            assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
            assert!(refused["hint"].as_str().unwrap().contains("`--config`"), "{refused}");
        }
    }
    daemon.audited(|event| {
        event["kind"] == "approval.refused"
            && event["payload"]["reason"] == "APPROVAL_NOT_EXECUTABLE"
    });
    assert_eq!((calls(&daemon), daemon.get("/v1/approvals").ok()["total"].clone()), (0, json!(2)));
    reload(&config(&daemon.stage, "it is risky", ""));
    daemon.ask("POST", &path(&called, "approve")).ok();
    daemon.ask("POST", &path(&planned, "approve")).ok();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
    until("both calls", || (calls(&daemon) == 2).then_some(()));
}

#[test]
fn waiting_outlives_the_daemon_whatever_becomes_of_other_runs() {
    let stage = stage("");
    let ending = format!("recover = \"end\"\n{}", config(&stage, "it is risky", ""));
    stage.configure(&ending);
    let mut daemon = stage.start(&[]);
    let (run_id, approval_id) = waits(&daemon, "apply");
    let (other, _) = waits(&daemon, "apply");
    for kill in [true, false] {
        match kill {
            true => daemon.kill(),
            false => drop(daemon.stop()),
        }
        daemon = daemon.again();
        assert_eq!(daemon.get("/v1/approvals").ok()["total"], 2);
    }
    daemon.ask("POST", &path(&approval_id, "approve")).ok();
    assert_eq!((daemon.ended(&run_id)["status"].as_str(), calls(&daemon)), (Some("COMPLETED"), 1));
    assert_eq!(daemon.get(&format!("/v1/runs/{other}")).ok()["status"], "RUNNING");
}

#[test]
fn a_question_whose_time_is_over_while_nobody_is_there_is_refused_at_the_next_start() {
    let mut daemon = stage("[policy.approvals]\nexpire_s = 1\n").start(&[]);
    let (run_id, approval_id) = waits(&daemon, "apply");
    daemon.kill();
    let store = Store::open_read_only(&daemon.stage.path("data/runs.db")).unwrap();
    let approval = store.approval(&approval_id).unwrap().unwrap();
    // It may have expired before the daemon was killed; then nothing is left to see.
    let end = nexus_router::clock::Timestamp::parse(&approval.expires_at).unwrap();
    until("its time to be over", || (Clock::System.now() > end).then_some(()));
    drop(store);
    let daemon = daemon.again();
    let run = daemon.ended(&run_id);
    assert_eq!(run["results"][0]["error"]["code"], "APPROVAL_EXPIRED");
    daemon.ask("POST", &path(&approval_id, "approve")).refused(409, "APPROVAL_EXPIRED");
    assert_eq!(calls(&daemon), 0);
}

#[test]
fn whoever_is_killed_whenever_no_decision_is_lost_and_nothing_is_called_twice() {
    let mut daemon = stage("").start(&[]);
    let mut acknowledged = Vec::new();
    let mut runs = Vec::new();
    for round in 0..12_u64 {
        let (run_id, approval_id) = waits(&daemon, "apply");
        runs.push(run_id.clone());
        let approve = daemon.ask("POST", &path(&approval_id, "approve"));
        let mut wire = approve.begin();
        // At another moment each time: before the decision, while it is made, during the call, after it.
        if round % 3 == 0 {
            if wire.response().status == 200 {
                acknowledged.push(run_id);
            }
        } else {
            std::thread::sleep(std::time::Duration::from_micros(round * round * 60));
        }
        daemon.kill();
        daemon = daemon.again();
    }
    // What was approved goes on by itself; what was not is asked about still.
    let open = || {
        let listed = daemon.get("/v1/approvals").ok();
        let ids = listed["approvals"].as_array().unwrap().iter();
        ids.map(|one| one["approval_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for approval_id in open() {
        daemon.ask("POST", &path(&approval_id, "approve")).ok();
    }
    let (mut completed, mut in_doubt) = (0, 0);
    for run_id in &runs {
        let run = daemon.ended(run_id);
        let made =
            traces(&daemon).iter().filter(|trace| trace.starts_with(run_id.as_str())).count();
        match run["status"].as_str() {
            Some("COMPLETED") => {
                assert_eq!(made, 1, "{run}");
                completed += 1;
            }
            _ => {
                // Its call was under way; nobody knows what it did, and it is not made again.
                assert_eq!(run["reason"], "interrupted", "{run}");
                assert!(made <= 1, "{run}");
                in_doubt += 1;
            }
        }
        let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
        assert_eq!(replay["violations"], json!([]));
    }
    assert_eq!(completed + in_doubt, runs.len());
    let path = daemon.stage.path("data/runs.db");
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
    for run_id in acknowledged {
        let log = store.log(&run_id).unwrap().unwrap();
        assert_ne!(log.record.progress.status, Status::Running);
        assert!(log.lines().any(|line| line.contains("\"decision\":\"approved\"")));
    }
}

/// Runs the program against a daemon, with a token.
fn run(daemon: &Daemon, by: &str, arguments: &[&str]) -> Run {
    let file = daemon.stage.path(&format!("{by}.token"));
    std::fs::write(&file, daemon.token(by)).unwrap();
    let url = format!("http://{}", daemon.address);
    let mut command = daemon.stage.program();
    command.args(arguments).args(["--url", &url, "--token-file"]).arg(file);
    Run(command.output().unwrap())
}

#[test]
fn the_command_line_decides_through_the_daemon() {
    let daemon = stage("").start(&[]);
    let (run_id, approval_id) = waits(&daemon, "apply");
    let list = run(&daemon, "read", &["approvals", "list"]);
    assert_eq!(list.code(), 0, "{}", list.stderr());
    let shown = list.stdout();
    for text in [approval_id.as_str(), "risk.buy", "shop", "it is risky", r#"{"name":"Ada"}"#] {
        assert!(shown.contains(text), "{shown}");
    }
    let listed = run(&daemon, "read", &["approvals", "list", "--format", "json"]).json();
    assert_eq!(listed["approvals"][0]["run_id"], json!(run_id));
    let own = run(&daemon, "apply", &["approvals", "approve", &approval_id]);
    assert_eq!(own.code(), 2);
    assert!(own.stderr().contains("APPROVAL_OWN_CALL"), "{}", own.stderr());
    let denied =
        run(&daemon, "admin", &["approvals", "deny", &approval_id, "--reason", "too dear"]);
    assert_eq!(denied.code(), 0, "{}", denied.stderr());
    assert_eq!(denied.stdout(), format!("denied: {approval_id}; run {run_id} goes on\n"));
    let ended = daemon.ended(&run_id);
    assert_eq!(ended["results"][0]["error"]["details"]["reason"], "too dear");
    let again = run(&daemon, "admin", &["approvals", "approve", &approval_id]);
    assert_eq!(again.code(), 2);
    assert!(again.stderr().contains("APPROVAL_ALREADY_DECIDED"), "{}", again.stderr());
    let list = run(&daemon, "read", &["approvals", "list"]);
    assert_eq!(list.stdout(), "nothing is waited for\n");
    let all = run(&daemon, "read", &["approvals", "list", "--all"]);
    assert!(all.stdout().contains("denied by admin"), "{}", all.stdout());
}

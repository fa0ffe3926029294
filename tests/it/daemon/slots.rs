//! Slots: a call is recorded when it gets its slot, so that a crash leaves no doubt about calls that waited.

use serde_json::{Value, json};

use super::client::Wire;
use super::support::{ADAPTERS, Daemon, Stage, plan, until};

/// A stage with an adapter that makes one call at a time, with effects, and leaves a trace of each.
fn stage() -> Stage {
    let stage = Stage::new("");
    stage.configure(&format!(
        "{ADAPTERS}\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n\
         calls = 1\n[adapters.config]\ncapabilities = [\"apply\", \"external\"]\ntraces = \"{}\"\n\
         responses = [{{ tool = \"t\", method = \"slow\", behaviour = {{ sleep_ms = 600000 }} }}]\n\
         [[tools]]\nname = \"buy\"\ndescription = \"Buys.\"\nadapter = \"shop\"\ntool = \"t\"\nmethod = \"quick\"\n",
        stage.path("traces").display()
    ));
    stage
}

fn traces(daemon: &Daemon) -> usize {
    std::fs::read_to_string(daemon.stage.path("traces")).unwrap_or_default().lines().count()
}

fn waiting(daemon: &Daemon) -> f64 {
    daemon.metric("nexus_router_calls_waiting{adapter=\"shop\"}")
}

/// Takes the only slot for a call that does not end, and returns its run.
fn occupy(daemon: &Daemon) -> String {
    let run_id = daemon.post("/v1/runs?wait=false", &plan("shop", "t", "slow")).send().run_id();
    until("the slow call", || (traces(daemon) == 1).then_some(()));
    run_id
}

fn kinds(daemon: &Daemon, run_id: &str) -> Vec<String> {
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let events = bundle["events"].as_array().unwrap().iter();
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn run_ids(daemon: &Daemon) -> Vec<String> {
    let listed = daemon.get("/v1/runs").ok();
    let runs = listed["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn queued_calls_resume_after_a_kill() {
    let mut daemon = stage().start(&[]);
    let slow = occupy(&daemon);
    let quick = plan("shop", "t", "quick");
    for _ in 0..2 {
        assert_eq!(daemon.post("/v1/runs?wait=false", &quick).send().status, 202);
    }
    // Callers that wait: their runs are in the store, too.
    let waits: Vec<Wire> = [("/v1/runs", quick), ("/v1/tools/buy", json!({}))]
        .map(|(path, body)| daemon.post(path, &body).by("apply").begin())
        .into();
    until("four queued calls", || (waiting(&daemon) == 4.0).then_some(()));
    let all = until("five runs", || Some(run_ids(&daemon)).filter(|ids| ids.len() == 5));
    let queued: Vec<&String> = all.iter().filter(|id| **id != slow).collect();
    for run_id in &queued {
        assert_eq!(kinds(&daemon, run_id).last().unwrap(), "STEP_STARTED", "{run_id}");
    }
    assert_eq!(kinds(&daemon, &slow).last().unwrap(), "TOOL_CALL_REQUESTED");
    daemon.kill();
    drop(waits);
    let daemon = daemon.again();
    let ended = daemon.ended(&slow);
    assert_eq!(
        (&ended["reason"], &ended["results"][0]["error"]["details"]["in_doubt"]),
        (&json!("interrupted"), &json!(true))
    );
    for run_id in &queued {
        let run = daemon.ended(run_id);
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert_eq!(
            kinds(&daemon, run_id).iter().filter(|kind| *kind == "TOOL_CALL_REQUESTED").count(),
            1
        );
        let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
        assert_eq!(replay["violations"], json!([]));
    }
    assert_eq!(traces(&daemon), 5, "each call was made once");
}

#[test]
fn queue_timeout_fails_the_call() {
    let daemon = stage().start(&[]);
    let slow = occupy(&daemon);
    let mut request = plan("shop", "t", "quick");
    request["plan_override"][0]["timeout_ms"] = json!(50);
    let run = daemon.post("/v1/runs", &request).ok();
    let error = &run["results"][0]["error"];
    assert_eq!((&error["code"], &error["details"]["called"]), (&json!("TIMEOUT"), &json!(false)));
    let run_id = run["run"]["run_id"].as_str().unwrap().to_owned();
    let expected = ["STEP_STARTED", "TOOL_CALL_REQUESTED", "TOOL_CALL_FAILED", "STEP_COMPLETED"];
    assert_eq!(kinds(&daemon, &run_id)[3..7], expected);
    assert_eq!((waiting(&daemon), traces(&daemon)), (0.0, 1));
    // A run that is cancelled in the queue ends at once.
    let queued = daemon.post("/v1/runs?wait=false", &plan("shop", "t", "quick")).send().run_id();
    until("the queued call", || (waiting(&daemon) == 1.0).then_some(()));
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{queued}/cancel")).send().status, 202);
    let ended: Value = daemon.ended(&queued);
    assert_eq!(ended["results"][0]["error"]["code"], "CANCELLED", "{ended}");
    assert_eq!(ended["reason"], "cancelled");
    assert_eq!((waiting(&daemon), traces(&daemon)), (0.0, 1));
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{slow}/cancel")).send().status, 202);
}

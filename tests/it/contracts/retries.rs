//! Further attempts at calls that failed: when they are made, how they are recorded, what ends the wait for one.

use nexus_router::access::{self, Scope};
use serde_json::{Value, json};

use super::calls::stage;
use super::contract;
use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::mcp::support::call;
use crate::support::Run;

/// So long a pause that only something else ends it.
const FOR_EVER: u64 = 120_000;

/// An operation of the contract of the adapter `fake`.
pub struct Operation {
    pub method: &'static str,
    pub idempotent: bool,
    pub read_only: bool,
    pub retry: Value,
    pub codes: &'static [&'static str],
}

impl Operation {
    pub const fn new(method: &'static str) -> Self {
        Self { method, idempotent: true, read_only: false, retry: Value::Null, codes: &[] }
    }

    fn retried(self, attempts: u64, base_ms: u64, max_ms: u64) -> Self {
        let retry = json!({ "attempts": attempts, "base_ms": base_ms, "max_ms": max_ms });
        Self { retry, ..self }
    }
}

/// Returns a contract of the adapter `fake` with operations that take and give any object.
pub fn fake(operations: &[Operation]) -> Value {
    let mut fake = contract("1.0.0");
    let any = json!({ "type": "object" });
    fake["adapter_id"] = json!("fake");
    fake["operations"] = json!({});
    for Operation { method, idempotent, read_only, retry, codes } in operations {
        let modes: Vec<Value> = codes
            .iter()
            .map(|code| json!({ "code": code, "severity": "error", "halts": true }))
            .collect();
        let mut operation = json!({
            "description": "Does what it is configured to do.", "tool": "t", "method": method,
            "input_schema": any, "output_schema": any, "timeout_ms": 5000,
            "idempotent": idempotent, "read_only": read_only, "failure_modes": modes, "examples": [],
        });
        if !retry.is_null() {
            operation["retry"] = retry.clone();
        }
        fake["operations"][*method] = operation;
    }
    fake
}

/// Writes a value as TOML in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let members = object.iter().map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the configuration of the adapter `fake`, which leaves a trace of each call in `traces`.
pub fn adapter(responses: &[(&str, Value)]) -> String {
    let responses: Vec<String> = responses
        .iter()
        .map(|(method, behaviour)| {
            let behaviour = inline(behaviour);
            format!("{{ tool = \"t\", method = \"{method}\", behaviour = {behaviour} }}")
        })
        .collect();
    format!(
        "[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"fake\"\nisolation = \"inline\"\noffer = {{ tools = [\"*\"] }}\n\
         [adapters.config]\ncapabilities = [\"apply\", \"external\"]\ntraces = \"TRACES\"\nresponses = [{}]\n\
         [[tools]]\nname = \"flaky\"\ndescription = \"Fails at first.\"\nadapter = \"fake\"\ntool = \"t\"\nmethod = \"flaky\"\n",
        responses.join(", ")
    )
}

/// Puts the directory of a stage into its configuration, and starts it.
pub fn started(stage: Stage, config: &str) -> Daemon {
    configured(&stage, config);
    stage.start(&[])
}

fn configured(stage: &Stage, config: &str) {
    let place = |name: &str| stage.path(name).display().to_string();
    let config = config.replace("TRACES", &place("traces")).replace("BROKEN", &place("broken"));
    stage.configure(&format!("data_dir = \"data\"\n{config}"));
}

fn daemon(contract: &Value, config: &str) -> Daemon {
    started(stage(contract, ""), config)
}

/// Returns how many calls reached the adapter.
pub fn calls(daemon: &Daemon) -> usize {
    let traces = std::fs::read_to_string(daemon.stage.path("traces")).unwrap_or_default();
    traces.lines().count()
}

/// Returns the events of a run, each with its type and its payload.
pub fn events(daemon: &Daemon, run_id: &str) -> Vec<(String, Value)> {
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let event =
        |event: &Value| (event["type"].as_str().unwrap().to_owned(), event["payload"].clone());
    bundle["events"].as_array().unwrap().iter().map(event).collect()
}

/// Returns the id of a run from the answer about it.
pub fn run_id(run: &Value) -> &str {
    run["run"]["run_id"].as_str().unwrap_or_else(|| panic!("{run}"))
}

/// Returns the types of the events about calls.
fn course(daemon: &Daemon, run_id: &str) -> String {
    let events = events(daemon, run_id);
    let kinds = events.iter().filter_map(|(kind, _)| kind.strip_prefix("TOOL_CALL_"));
    kinds.collect::<Vec<_>>().join(" ")
}

fn assert_sound(daemon: &Daemon, run_id: &str) {
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay?strict=true")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])), "{replay}");
}

/// Holds events to the published schema.
fn assert_published(events: &[(String, Value)]) {
    let (mut compiler, mut schemas) = (boon::Compiler::new(), boon::Schemas::new());
    let text = nexus_router::schema::find("event.v1").unwrap().text;
    let place = "https://schemas.invalid/event";
    compiler.add_resource(place, serde_json::from_str(text).unwrap()).unwrap();
    let schema = compiler.compile(place, &mut schemas).unwrap();
    for (seq, (kind, payload)) in events.iter().enumerate() {
        let event = json!({ "event_id": "e", "run_id": "r", "seq": seq, "ts": "t", "type": kind, "payload": payload });
        if let Err(error) = schemas.validate(&event, schema) {
            panic!("{error}: {event}");
        }
    }
}

fn fails(times: u64, code: &str) -> Value {
    let details = json!({ "retry_after_ms": 20 });
    json!({ "fails_times": { "times": times, "error_code": code, "message": "no", "details": details } })
}

fn broken(code: &str) -> Value {
    json!({ "fails_while": { "file": "BROKEN", "error_code": code, "message": "no" } })
}

/// A daemon whose operation `flaky` fails as long as a file is there, and is retried after a very long pause.
fn waiting(operation: Operation, code: &str) -> Daemon {
    let operation = operation.retried(3, FOR_EVER, FOR_EVER);
    let mut stage = stage(&fake(&[operation]), "");
    stage.token("worker", Scope::Apply);
    std::fs::write(stage.path("broken"), "").unwrap();
    started(stage, &adapter(&[("flaky", broken(code))]))
}

/// Submits a run whose call waits for its second attempt, and returns its id.
fn submitted(daemon: &Daemon, request: &Value) -> String {
    let answer = daemon.post("/v1/runs?wait=false", request).by("worker").send();
    assert_eq!(answer.status, 202, "{answer:?}");
    until("the first attempt", || (calls(daemon) == 1).then_some(()));
    until("the end of the first attempt", || (daemon.calls_in_flight("fake") == 0).then_some(()));
    answer.run_id()
}

fn flaky() -> Value {
    // Time for many pauses.
    let mut request = plan("fake", "t", "flaky");
    request["plan_override"][0]["timeout_ms"] = json!(10 * FOR_EVER);
    request
}

#[test]
fn idempotent_call_is_made_until_it_succeeds() {
    let operation = Operation::new("flaky").retried(3, 1, 10);
    let daemon = daemon(&fake(&[operation]), &adapter(&[("flaky", fails(2, "TIMEOUT"))]));
    let run = daemon.post("/v1/runs", &plan("fake", "t", "flaky")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let run_id = run_id(&run);
    assert_eq!(course(&daemon, run_id), "REQUESTED RETRIED RETRIED SUCCEEDED");
    assert_eq!(calls(&daemon), 3);
    let events = events(&daemon, run_id);
    assert_published(&events);
    let retried: Vec<&Value> =
        events.iter().filter(|(kind, _)| kind == "TOOL_CALL_RETRIED").map(|(_, it)| it).collect();
    for (payload, attempt) in retried.iter().zip([2, 3]) {
        assert_eq!((&payload["attempt"], &payload["step_id"]), (&json!(attempt), &json!("s1")));
        assert_eq!(
            (&payload["error_code"], &payload["message"]),
            (&json!("TIMEOUT"), &json!("no"))
        );
        // The adapter asks for a longer pause than its contract.
        assert_eq!((&payload["adapter_id"], &payload["delay_ms"]), (&json!("fake"), &json!(20)));
    }
    assert_sound(&daemon, run_id);
    assert_eq!(daemon.metric("nexus_router_call_retries_total{adapter=\"fake\"}"), 2.0);
    let shown = daemon.stage.program().args(["runs", "show", run_id, "--format", "json"]).output();
    assert_eq!(Run(shown.unwrap()).json()["timeline"][0]["retries"], 2);
}

#[test]
fn last_attempt_gives_the_error_of_the_call() {
    let operation = Operation::new("flaky").retried(2, 1, 1);
    let daemon = daemon(&fake(&[operation]), &adapter(&[("flaky", fails(9, "TIMEOUT"))]));
    let run = daemon.post("/v1/runs", &plan("fake", "t", "flaky")).ok();
    assert_eq!(
        (&run["status"], &run["results"][0]["error"]["code"]),
        (&json!("FAILED"), &json!("TIMEOUT"))
    );
    let run_id = run_id(&run);
    assert_eq!(course(&daemon, run_id), "REQUESTED RETRIED FAILED");
    assert_sound(&daemon, run_id);
}

#[test]
fn call_that_may_have_done_something_is_made_once() {
    for (idempotent, code, declared, expected) in [
        (true, "TIMEOUT", false, 2),
        (false, "TIMEOUT", true, 1),
        (false, "CONNECTION_FAILED", false, 1),
        (false, "CONNECTION_FAILED", true, 2),
        (true, "BAD_REQUEST", true, 1),
    ] {
        let codes: &[&str] = match (declared, code) {
            (true, "TIMEOUT") => &["TIMEOUT"],
            (true, "CONNECTION_FAILED") => &["CONNECTION_FAILED"],
            (true, _) => &["BAD_REQUEST"],
            (false, _) => &[],
        };
        let operation = Operation { idempotent, codes, ..Operation::new("flaky") }.retried(2, 1, 1);
        let daemon = daemon(&fake(&[operation]), &adapter(&[("flaky", fails(1, code))]));
        drop(daemon.post("/v1/runs", &plan("fake", "t", "flaky")).ok());
        assert_eq!(calls(&daemon), expected, "{idempotent} {code} {declared}");
    }
}

#[test]
fn mcp_and_command_line_retry_too() {
    let operation = Operation::new("flaky").retried(2, 1, 1);
    let stage = stage(&fake(&[operation]), "");
    configured(&stage, &adapter(&[("flaky", fails(1, "CONNECTION_FAILED"))]));
    std::fs::write(stage.path("request.json"), plan("fake", "t", "flaky").to_string()).unwrap();
    let run = stage
        .program()
        .args(["run", "request.json", "--config", "router.toml", "--format", "json"])
        .output();
    let run = Run(run.unwrap());
    assert_eq!(
        (run.code(), run.json()["status"].clone()),
        (0, json!("COMPLETED")),
        "{}",
        run.stderr()
    );
    let daemon = stage.start(&[]);
    assert_eq!(calls(&daemon), 2);
    let result = call(&daemon, "flaky", &json!({}));
    assert_ne!(result["isError"], json!(true), "{result}");
    assert_eq!(calls(&daemon), 4);
}

#[test]
fn pause_beyond_deadline_ends_retries() {
    let operation = Operation::new("flaky").retried(3, FOR_EVER, FOR_EVER);
    let daemon = daemon(&fake(&[operation]), &adapter(&[("flaky", fails(9, "TIMEOUT"))]));
    let mut request = plan("fake", "t", "flaky");
    for (place, time) in [("step", 400), ("run", 400)] {
        match place {
            "step" => request["plan_override"][0]["timeout_ms"] = json!(time),
            _ => request["timeout_ms"] = json!(time),
        }
        let run = daemon.post("/v1/runs", &request).ok();
        assert_eq!(run["results"][0]["error"]["code"], "TIMEOUT", "{place}: {run}");
        assert_eq!(course(&daemon, run_id(&run)), "REQUESTED FAILED");
    }
}

#[test]
fn cancelled_run_does_not_wait_for_the_next_attempt() {
    let daemon = waiting(Operation::new("flaky"), "TIMEOUT");
    let run_id = submitted(&daemon, &flaky());
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).send().status, 202);
    let run = daemon.ended(&run_id);
    assert_eq!(run["reason"], "cancelled", "{run}");
    assert_eq!(run["results"][0]["error"]["details"]["last_error_code"], "TIMEOUT", "{run}");
    assert_eq!(calls(&daemon), 1);
    assert_sound(&daemon, &run_id);
}

#[test]
fn revoked_caller_does_not_get_another_attempt() {
    let daemon = waiting(Operation::new("flaky"), "TIMEOUT");
    let run_id = submitted(&daemon, &flaky());
    access::revoke(&daemon.stage.path("data/tokens.json"), "worker").unwrap();
    let run = daemon.ended(&run_id);
    assert_eq!(
        (&run["reason"], &run["error"]["code"]),
        (&json!("revoked"), &json!("REVOKED")),
        "{run}"
    );
    assert_eq!(calls(&daemon), 1);
    assert_sound(&daemon, &run_id);
}

#[test]
fn contract_in_force_after_the_pause_decides() {
    // Long enough for a reload.
    const PAUSE: u64 = 8_000;
    let operation = |attempts| Operation::new("flaky").retried(attempts, PAUSE, PAUSE);
    let daemon = daemon(&fake(&[operation(3)]), &adapter(&[("flaky", fails(9, "TIMEOUT"))]));
    let mut request = plan("fake", "t", "flaky");
    request["plan_override"][0]["timeout_ms"] = json!(FOR_EVER);
    let run_id = daemon.post("/v1/runs?wait=false", &request).send().run_id();
    until("the first attempt", || (calls(&daemon) == 1).then_some(()));
    let mut once = fake(&[operation(1)]);
    once["version"] = json!("1.1.0");
    let file = daemon.stage.path("data/interfaces/fake.interface.json");
    std::fs::write(&file, once.to_string()).unwrap();
    let freeze = daemon.stage.program().args(["interface", "freeze"]).arg(&file).output().unwrap();
    assert!(freeze.status.success(), "{}", String::from_utf8_lossy(&freeze.stderr));
    daemon.post("/v1/reload", &json!({})).ok();
    let run = daemon.ended(&run_id);
    assert_eq!(run["results"][0]["error"]["code"], "TIMEOUT", "{run}");
    assert_eq!((calls(&daemon), course(&daemon, &run_id).as_str()), (1, "REQUESTED FAILED"));
}

#[test]
fn draining_daemon_does_not_wait_for_the_next_attempt() {
    let mut daemon = waiting(Operation::new("flaky"), "TIMEOUT");
    let run_id = submitted(&daemon, &flaky());
    // The drain would last for half a minute, and then cancel the run.
    assert!(daemon.stop().success());
    let daemon = daemon.again();
    let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
    assert_eq!(
        (&run["status"], &run["results"][0]["error"]["code"]),
        (&json!("FAILED"), &json!("TIMEOUT"))
    );
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn killed_between_attempts_idempotent_calls_are_resumed() {
    for (idempotent, status, expected) in [(true, "COMPLETED", 2), (false, "FAILED", 1)] {
        let codes: &[&str] = &["CONNECTION_FAILED"];
        let operation = Operation { idempotent, codes, ..Operation::new("flaky") };
        let mut daemon = waiting(operation, "CONNECTION_FAILED");
        let run_id = submitted(&daemon, &flaky());
        daemon.kill();
        std::fs::remove_file(daemon.stage.path("broken")).unwrap();
        let daemon = daemon.again();
        let run = daemon.ended(&run_id);
        assert_eq!(run["status"], status, "{run}");
        assert_eq!(calls(&daemon), expected, "{run}");
        let course = course(&daemon, &run_id);
        assert_eq!(course.matches("REQUESTED").count(), expected, "{course}");
        assert_sound(&daemon, &run_id);
    }
}

#[test]
fn bundle_with_retries_is_the_same_in_another_store() {
    let operation = Operation::new("flaky").retried(2, 1, 1);
    let from = daemon(&fake(&[operation]), &adapter(&[("flaky", fails(1, "TIMEOUT"))]));
    let run = from.post("/v1/runs", &plan("fake", "t", "flaky")).ok();
    let path = format!("/v1/runs/{}/bundle", run_id(&run));
    let bundle = from.get(&path).ok();
    let to = Daemon::start("", &[]);
    assert_eq!(to.post("/v1/bundles", &bundle).ok()["status"], "ok");
    let again = to.get(&path).ok();
    for part in ["digests", "run", "events"] {
        assert_eq!(again[part], bundle[part], "{part}");
    }
    assert_sound(&to, run_id(&run));
    let shown = |daemon: &Daemon| daemon.get(path.trim_end_matches("/bundle")).ok();
    assert_eq!(shown(&to), shown(&from));
}

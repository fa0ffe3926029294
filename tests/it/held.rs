//! Held arguments: plans that redaction changes wait, become tasks and resume with their originals.

mod crash;
mod key;
mod paths;
mod store;
mod tasks;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::daemon::support::{ADAPTERS, Daemon, Stage, plan, until};

/// The value that redaction hides.
const ORIGINAL: &str = "correct-horse-battery-staple";

/// Returns arguments that redaction changes.
fn args() -> Value {
    json!({ "password": ORIGINAL, "note": format!("Authorization: Bearer {ORIGINAL}") })
}

/// Returns the configuration of an adapter that makes one call at a time and traces the arguments of each. Calls of the
/// tool `risk` need an approval.
fn config(stage: &Stage, more: &str) -> String {
    format!(
        "{ADAPTERS}\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n\
         calls = 1\noffer = {{ tools = [\"*\"] }}\n[adapters.config]\ncapabilities = [\"apply\", \"external\"]\ntrace_args = true\n\
         traces = \"{}\"\n\
         responses = [{{ tool = \"t\", method = \"slow\", behaviour = {{ sleep_ms = 600000 }} }}]\n\
         [[tools]]\nname = \"buy\"\ndescription = \"Buys.\"\nadapter = \"shop\"\ntool = \"risk\"\nmethod = \"buy\"\n\
         [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\nreason = \"it is risky\"\n{more}\n",
        stage.path("traces").display()
    )
}

fn stage(more: &str) -> Stage {
    let stage = Stage::new("");
    stage.configure(&config(&stage, more));
    stage
}

/// Returns a request whose steps call these tools of the adapter with arguments that redaction changes.
fn request(tools: &[&str]) -> Value {
    let mut request = plan("shop", "t", "m");
    let steps = tools.iter().enumerate().map(|(index, tool)| {
        json!({ "step_id": format!("s{index}"), "intent": "",
            "call": { "tool": tool, "method": "buy", "args": args() } })
    });
    request["plan_override"] = steps.collect();
    request
}

/// Returns the arguments of every call that the adapter got.
fn called_with(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.path("traces")).unwrap_or_default();
    let args = |line: &str| serde_json::from_str(line.split_once(' ').unwrap().1).unwrap();
    text.lines().map(args).collect()
}

/// Returns the id of the only open approval, which shows the recorded form alone.
fn open_approval(daemon: &Daemon) -> String {
    let open = until("the approval", || {
        Some(daemon.get("/v1/approvals").ok()).filter(|open| open["total"] == 1)
    });
    let approval = &open["approvals"][0];
    assert_eq!(approval["call"]["args"]["password"], "[REDACTED]", "{approval}");
    assert!(!open.to_string().contains(ORIGINAL), "{open}");
    approval["approval_id"].as_str().unwrap().to_owned()
}

fn decide(daemon: &Daemon, approval_id: &str, verb: &str) {
    daemon.post(&format!("/v1/approvals/{approval_id}/{verb}"), &json!({})).ok();
}

/// Submits a request over HTTP that comes to wait, and returns its run.
fn waits(daemon: &Daemon, request: &Value) -> String {
    let answer = daemon.post("/v1/runs", request).by("apply").send();
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.run_id()
}

/// Returns the number of plans that a store holds.
fn held(db: &Path) -> i64 {
    let connection = rusqlite::Connection::open(db).unwrap();
    connection.query_row("SELECT count(*) FROM held_arguments", [], |row| row.get(0)).unwrap()
}

fn db(stage: &Stage) -> PathBuf {
    stage.path("data/runs.db")
}

/// Asserts that no file below a directory has the original.
fn assert_no_original(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_original(&path);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes.windows(ORIGINAL.len()).any(|window| window == ORIGINAL.as_bytes());
            assert!(!found, "{} has the original", path.display());
        }
    }
}

/// Asserts that nothing that a daemon wrote or shows of a run has the original.
fn assert_hidden(daemon: &Daemon, run_id: &str) {
    assert_no_original(&daemon.stage.path("data"));
    for text in [daemon.stdout(), daemon.stderr()] {
        assert!(!text.contains(ORIGINAL), "{text}");
    }
    for path in ["", "/bundle", "/replay"] {
        let shown = daemon.get(&format!("/v1/runs/{run_id}{path}")).send().text();
        assert!(!shown.contains(ORIGINAL), "{path}: {shown}");
    }
}

/// Asserts that a run ended well, that the adapter got the originals, and that the store does not hold them any more.
fn assert_done(daemon: &Daemon, run_id: &str, calls: usize) {
    let run = daemon.ended(run_id);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(called_with(&daemon.stage), vec![args(); calls]);
    assert_eq!(held(&db(&daemon.stage)), 0, "the store still holds the plan");
    assert_hidden(daemon, run_id);
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!(replay["violations"], json!([]));
}

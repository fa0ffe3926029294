//! Adapters in workers as clients and operators see them: in the record, in lists, in numbers, in the audit.

use nexus_router::clock::{Clock, Timestamp};
use serde_json::{Value, json};

use super::support::{Daemon, Stage, plan, until};
use crate::support::Run;

/// One whose process dies with every call, one that does not end its calls, and a daemon that soon has enough
/// of it.
pub const FRAGILE: &str = r#"
[[adapters]]
id = "breaks"
ref = "probe_adapters:fake"
config = { responses = [{ tool = "t", method = "m", behaviour = { process_dies = true } }] }
[[adapters]]
id = "hangs"
ref = "probe_adapters:fake"
timeout_ms = 100
config = { responses = [{ tool = "t", method = "m", behaviour = { deaf_ms = 600000 } }] }
[workers]
crashes = 2
"#;

/// Makes a call that fails, and returns the code.
pub fn failing(daemon: &Daemon, id: &str) -> String {
    let answer = daemon.post("/v1/runs", &plan(id, "t", "m")).send().json();
    // A bug is a problem; what else can happen is a result.
    let code = answer.get("code").unwrap_or(&answer["results"][0]["error"]["code"]);
    code.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Lets an adapter out by the command line, and returns how that ended, and whether it said so.
fn said(daemon: &Daemon, id: &str) -> (i32, bool) {
    let mut command = daemon.stage.program();
    let url = format!("http://{}", daemon.address);
    command.args(["adapter", "release", id, "--url", &url]);
    let run = Run(command.env("NEXUS_ROUTER_TOKEN", daemon.token("admin")).output().unwrap());
    (run.code(), run.stdout() == format!("released: {id}\n"))
}

fn selected(daemon: &Daemon, id: &str) -> Value {
    let run_id = daemon.post("/v1/runs", &plan(id, "t", "m")).send().run_id();
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let events = bundle["events"].as_array().unwrap();
    let event = events.iter().find(|event| event["type"] == "DISPATCH_SELECTED");
    event.unwrap_or_else(|| panic!("{bundle}"))["payload"].clone()
}

#[test]
fn where_an_adapter_runs_is_recorded_and_shown() {
    let reference = "ref = \"nexus_router_adapter_echo:create_adapter\"";
    let daemon = Stage::new(&format!(
        "[[adapters]]\n{reference}\n[[adapters]]\n{reference}\nid = \"here\"\nisolation = \"inline\"\n\
         [[adapters]]\nref = \"nexus_router_adapter_http:create_adapter\"\nid = \"web\"\n\
         config = {{ base_url = \"http://127.0.0.1:9\" }}\n\
         grants = {{ connect = [\"127.0.0.1:9\"], env = [\"HOME\"] }}\n"
    ))
    .start(&[]);
    let [echo, here, web] = ["echo", "here", "web"].map(|id| {
        let (recorded, shown) =
            (selected(&daemon, id), daemon.get(&format!("/v1/adapters/{id}")).ok());
        for key in ["isolation", "confinement", "landlock", "missing", "grants", "library"] {
            assert_eq!(recorded.get(key), shown.get(key), "{id} {key}: {recorded} {shown}");
        }
        recorded
    });
    assert_eq!((&echo["isolation"], &echo["confinement"]), (&json!("worker"), &json!("full")));
    assert!(echo["landlock"].as_u64().unwrap() >= 3, "{echo}");
    assert!(echo.get("missing").is_none() && echo.get("grants").is_none(), "{echo}");
    assert_eq!((&here["isolation"], &here["confinement"]), (&json!("inline"), &json!("none")));
    assert!(here.get("landlock").is_none() && here.get("grants").is_none(), "{here}");
    assert_eq!(web["grants"], json!({ "connect": ["127.0.0.1:9"], "env": ["HOME"] }));
    assert_eq!((web.get("missing"), &web["confinement"]), (None, &json!("full")));
}

#[test]
fn an_adapter_that_crashes_is_seen_in_quarantine_and_let_out() {
    let daemon = Daemon::start(FRAGILE, &[]);
    let shown = || daemon.get("/v1/adapters/breaks").by("read").ok();
    let health = || daemon.get("/v1/adapters/breaks/health").by("read").ok();
    let metric = |name: &str| daemon.metric(&format!("nexus_router_adapter_{name}"));
    let release = || daemon.ask("POST", "/v1/adapters/breaks/release");
    assert_eq!(shown()["isolation"], "worker");
    assert_eq!((&shown()["last_end"], &shown()["until"]), (&Value::Null, &Value::Null));
    assert_eq!(health()["status"], "ok");
    assert_eq!(release().ok()["released"], false);

    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
    until("another worker", || (shown()["state"] == "serving").then_some(()));
    assert_eq!((&shown()["workers"], &shown()["restarts"]), (&json!(1), &json!(1)));
    assert!(shown()["last_end"].as_str().unwrap().contains("SIGABRT"), "{}", shown());
    assert_eq!(metric("workers{adapter=\"breaks\"}"), 1.0);

    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
    until("quarantine", || (shown()["state"] == "quarantined").then_some(()));
    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_QUARANTINED");
    let moment = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap();
    let now = Clock::System.now();
    assert!(moment(&shown()["until"]) > now && moment(&health()["until"]) > now, "{}", shown());
    assert_eq!((&shown()["workers"], &health()["status"]), (&json!(0), &json!("quarantined")));
    let listed = daemon.get("/v1/adapters").ok();
    let mut listed = listed["adapters"].as_array().unwrap().iter();
    let listed = listed.find(|one| one["adapter_id"] == "breaks").unwrap();
    for key in ["isolation", "state", "workers", "restarts", "last_end"] {
        assert_eq!(listed[key], shown()[key], "{key}");
    }
    assert_eq!(metric("workers{adapter=\"breaks\"}"), 0.0);
    assert_eq!(metric("quarantined{adapter=\"breaks\"}"), 1.0);
    assert_eq!(metric("quarantined{adapter=\"hangs\"}"), 0.0);
    // They are told after the answer.
    for (kind, count) in [("crashed", 2.0), ("quarantined", 1.0)] {
        let name = format!("incidents_total{{adapter=\"breaks\",kind=\"{kind}\"}}");
        until(kind, || (metric(&name) == count).then_some(()));
    }

    release().by("run").refused(403, "SCOPE_MISSING");
    daemon.ask("POST", "/v1/adapters/nobody/release").refused(404, "UNKNOWN_ADAPTER");
    assert_eq!((said(&daemon, "breaks"), said(&daemon, "breaks")), ((0, true), (1, false)));
    assert_eq!((said(&daemon, "nobody").0, shown()["until"].is_null()), (2, true));
    assert_eq!((&health()["status"], &shown()["state"]), (&json!("ok"), &json!("idle")));
    assert_eq!(metric("incidents_total{adapter=\"breaks\",kind=\"released\"}"), 1.0);
    let event = daemon.audited(|event| event["kind"] == "adapter.released");
    assert_eq!(event["payload"]["name"], "admin", "{event}");
    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
}

#[test]
fn a_quarantine_that_is_over_is_told() {
    let daemon = Daemon::start(&format!("{FRAGILE}quarantine_ms = 200\n"), &[]);
    for _ in 0..2 {
        assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
    }
    let event = daemon.audited(|event| event["kind"] == "adapter.released");
    assert_eq!(event["payload"]["adapter"], "breaks", "{event}");
    assert_eq!(event["payload"].get("name"), None, "{event}");
    assert_eq!(daemon.get("/v1/adapters/breaks").ok()["state"], "idle");
    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
}

#[test]
fn a_crash_costs_no_other_adapter_anything() {
    let echo = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n";
    let daemon = Daemon::start(&format!("{echo}{FRAGILE}"), &[]);
    for _ in 0..3 {
        failing(&daemon, "breaks");
        daemon.assert_alive();
    }
    let echo = daemon.get("/v1/adapters/echo").ok();
    assert_eq!((&echo["restarts"], &echo["last_end"]), (&json!(0), &Value::Null));
}

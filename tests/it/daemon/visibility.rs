//! Visibility: every route, asked with the tokens of two callers, one that sees all runs, and an administrator.

use nexus_router::access::{Scope, Visibility};
use nexus_router::http::{Access, ROUTES, Route};
use nexus_router::store::{Filter, Store, VisibleRuns};
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::mcp::support::{able, answer, modern};

/// The runs of others that a route shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Nothing of any run.
    Nothing,
    /// Only what the request itself makes, or its own session.
    Itself,
    /// Counts of the whole daemon, and no names, arguments or results.
    Counts,
    /// A list of runs or approvals.
    List,
    /// One run.
    Run,
    /// One approval.
    Approval,
    /// Anything, to administrators alone.
    Admin,
}

/// Every route, by its operation. A route that is not here fails the test below.
const CLASSES: &[(&str, Shows)] = &[
    ("healthz", Shows::Nothing),
    ("readyz", Shows::Nothing),
    ("openapi", Shows::Nothing),
    ("listContracts", Shows::Nothing),
    ("showContract", Shows::Nothing),
    ("contractSchema", Shows::Nothing),
    ("contractManifest", Shows::Nothing),
    ("publisher", Shows::Nothing),
    ("publicKey", Shows::Nothing),
    ("metrics", Shows::Counts),
    ("status", Shows::Counts),
    ("submitRun", Shows::Itself),
    ("listRuns", Shows::List),
    ("showRun", Shows::Run),
    ("cancelRun", Shows::Run),
    ("runEvents", Shows::Run),
    ("replayRun", Shows::Run),
    ("exportRun", Shows::Run),
    ("importRun", Shows::Admin),
    ("listApprovals", Shows::List),
    ("showApproval", Shows::Approval),
    ("approve", Shows::Approval),
    ("deny", Shows::Approval),
    ("listAdapters", Shows::Counts),
    ("showAdapter", Shows::Counts),
    ("adapterHealth", Shows::Counts),
    ("releaseAdapter", Shows::Admin),
    ("retryAdapter", Shows::Admin),
    ("validateAdapter", Shows::Admin),
    ("inspectAdapter", Shows::Admin),
    ("listTools", Shows::Nothing),
    ("callTool", Shows::Itself),
    ("explainCode", Shows::Nothing),
    ("audit", Shows::Admin),
    ("logLevel", Shows::Admin),
    ("setLogLevel", Shows::Admin),
    ("reload", Shows::Admin),
    ("mcpMessage", Shows::Itself),
    ("mcpStream", Shows::Itself),
    ("mcpEnd", Shows::Itself),
];

/// Stands in the arguments of every run of `a`; the token `b` never reads it.
const MARK: &str = "only-for-a";

fn stage() -> Stage {
    let mut stage = Stage::new(&format!(
        "{ADAPTERS}\n[[policy.rules]]\neffect = \"approve\"\nmethod = \"ask\"\n\
         [[tools]]\nname = \"ask\"\ndescription = \"Asks.\"\nadapter = \"echo\"\ntool = \"t\"\nmethod = \"ask\"\n"
    ));
    for name in ["a", "b"] {
        stage.token(name, Scope::Apply);
    }
    stage.token_seeing("c", Scope::Apply, Visibility::All);
    stage
}

fn marked(method: &str) -> Value {
    let mut request = plan("echo", "t", method);
    request["goal"] = json!(MARK);
    request["plan_override"][0]["call"]["args"] = json!({ "name": MARK });
    request
}

/// A run of `a` that is over, and one that waits for an approval.
struct Runs {
    over: String,
    waiting: String,
    approval: String,
}

fn runs(daemon: &Daemon) -> Runs {
    let over = daemon.post("/v1/runs", &marked("m")).by("a").send().run_id();
    let answer = daemon.post("/v1/runs", &marked("ask")).by("a").send();
    let approval = answer.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    Runs { over, waiting: answer.run_id(), approval }
}

/// The path of a route with these ids in it.
fn path(route: &Route, run_id: &str, approval_id: &str) -> String {
    let path = route.path.replace("{run_id}", run_id).replace("{approval_id}", approval_id);
    path.replace("{adapter_id}", "echo").replace("{code}", "REVOKED").replace("{name}", "nothing")
}

fn show_class(route: &Route) -> Shows {
    let class = CLASSES.iter().find(|(id, _)| *id == route.id);
    class.unwrap_or_else(|| panic!("{route:?} has no class of visibility")).1
}

#[test]
fn every_route_shows_only_visible_runs() {
    let daemon = stage().start(&[]);
    let made = runs(&daemon);
    for route in ROUTES {
        let class = show_class(route);
        let run_id = if route.id == "cancelRun" { &made.waiting } else { &made.over };
        let ask = |by: &str, run: &str, approval: &str| {
            let ask = daemon.ask(route.method, &path(route, run, approval)).by(by);
            if route.id == "mcpStream" { ask.header("Accept", "text/event-stream") } else { ask }
        };
        match class {
            Shows::Nothing | Shows::Counts | Shows::Itself => {
                // The same for everybody, and nothing of the run of another.
                let text = ask("b", run_id, &made.approval).send().text();
                assert!(!text.contains(MARK), "{route:?}: {text}");
            }
            Shows::Admin => {
                assert_eq!(route.access, Access::Scope(Scope::Admin), "{route:?}");
                for by in ["a", "b", "c"] {
                    ask(by, run_id, &made.approval).refused(403, "SCOPE_MISSING");
                }
            }
            Shows::List => {
                for (by, total) in [("a", 1), ("b", 0), ("c", 1), ("admin", 1)] {
                    let total = if route.id == "listRuns" { total * 2 } else { total };
                    let listed = ask(by, run_id, &made.approval).ok();
                    let counted = listed.get("total").unwrap_or(&listed["summary"]["runs_total"]);
                    assert_eq!(*counted, json!(total), "{route:?} by {by}: {listed}");
                    let rows = listed.get("runs").unwrap_or(&listed["approvals"]);
                    assert_eq!(rows.as_array().unwrap().len(), total, "{route:?} by {by}");
                }
            }
            Shows::Run | Shows::Approval => {
                // Exactly like one that does not exist.
                let found = ask("b", run_id, &made.approval).send();
                let missing = ask("b", "missing-run", "missing-approval").send();
                assert_eq!((found.status, missing.status), (404, 404), "{route:?}");
                let same = missing.text().replace("missing-run", run_id);
                let same = same.replace("missing-approval", &made.approval);
                assert_eq!(found.text(), same, "{route:?}");
                // Those who see it; what changes something is tried by those who may not change it.
                for by in ["a", "c", "admin"] {
                    let changes = route.method == "POST";
                    if changes && by == "admin" || route.id == "cancelRun" && by == "a" {
                        continue;
                    }
                    let status = ask(by, run_id, &made.approval).send().status;
                    let expected = if changes { 403 } else { 200 };
                    assert_eq!(status, expected, "{route:?} by {by}");
                }
            }
        }
    }
    for (id, _) in CLASSES {
        assert!(ROUTES.iter().any(|route| route.id == *id), "there is no route {id}");
    }
    // Nothing was decided or cancelled by all that.
    let run = daemon.get(&format!("/v1/runs/{}", made.waiting)).ok();
    assert_eq!(run["waiting"]["approval_id"], json!(made.approval));
}

#[test]
fn filters_and_counts_are_of_visible_runs() {
    let daemon = stage().start(&[]);
    let made = runs(&daemon);
    daemon.post("/v1/runs", &plan("echo", "t", "m")).by("b").ok();
    for (by, completed, running) in [("a", 1, 1), ("b", 1, 0), ("c", 2, 1), ("admin", 2, 1)] {
        let summary = daemon.get("/v1/runs").by(by).ok()["summary"].clone();
        let counted = (&summary["completed"], &summary["running"], &summary["runs_total"]);
        let expected = (json!(completed), json!(running), json!(completed + running));
        assert_eq!(counted, (&expected.0, &expected.1, &expected.2), "{by}");
        for (query, total) in [
            ("status=COMPLETED", completed),
            ("status=RUNNING", running),
            ("since=2020-01-01T00:00:00Z", completed + running),
            ("since=2120-01-01T00:00:00Z", 0),
            ("limit=1", completed + running),
        ] {
            let listed = daemon.get(&format!("/v1/runs?{query}")).by(by).ok();
            assert_eq!(listed["summary"]["runs_total"], json!(total), "{by} {query}");
        }
        let sees = by != "b";
        let of_run = format!("/v1/approvals?state=all&run_id={}", made.waiting);
        assert_eq!(daemon.get(&of_run).by(by).ok()["total"], json!(u8::from(sees)), "{by}");
    }
}

#[test]
fn runs_without_a_token_are_not_of_every_token() {
    let stage = stage();
    let mut command = stage.program();
    let request = stage.path("request.json");
    std::fs::write(&request, plan("echo", "t", "m").to_string()).unwrap();
    command.args(["run", "--config", "router.toml", "--data-dir", "data"]).arg(&request);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let daemon = stage.start(&[]);
    for (by, total) in [("a", 0), ("c", 1), ("admin", 1)] {
        let listed = daemon.get("/v1/runs").by(by).ok();
        assert_eq!(listed["summary"]["runs_total"], json!(total), "{by}");
    }
    // An imported run has no caller here, also if its log names one.
    let made = runs(&daemon);
    let bundle = daemon.get(&format!("/v1/runs/{}/bundle", made.over)).send().body;
    let import = daemon.ask("POST", "/v1/bundles?mode=new_run_id&new_run_id=copy").body(bundle);
    import.ok();
    daemon.get("/v1/runs/copy").by("a").refused(404, "RUN_NOT_FOUND");
    daemon.get("/v1/runs/copy").by("c").ok();
}

#[test]
fn only_a_token_that_sees_an_approval_decides_it() {
    let daemon = stage().start(&[]);
    let made = runs(&daemon);
    for verb in ["approve", "deny"] {
        let ask = daemon.ask("POST", &format!("/v1/approvals/{}/{verb}", made.approval));
        ask.clone().by("a").refused(403, "APPROVAL_OWN_CALL");
        ask.clone().by("b").refused(404, "APPROVAL_UNKNOWN");
        ask.clone().by("c").refused(403, "APPROVAL_NOT_YOURS");
    }
    daemon.ask("POST", &format!("/v1/approvals/{}/approve", made.approval)).ok();
    assert_eq!(daemon.ended(&made.waiting)["status"], "COMPLETED");
}

#[test]
fn a_recovered_run_is_still_its_callers() {
    let mut daemon = stage().start(&[]);
    let hold = plan("many", "t", "hold");
    let run_id = daemon.post("/v1/runs?wait=false", &hold).by("a").send().run_id();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    daemon.kill();
    let daemon = daemon.again();
    until("the resumed call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    let cancel = daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel"));
    cancel.clone().by("b").refused(404, "RUN_NOT_FOUND");
    cancel.clone().by("c").refused(403, "SCOPE_MISSING");
    daemon.get(&format!("/v1/runs/{run_id}")).by("b").refused(404, "RUN_NOT_FOUND");
    assert_eq!(daemon.get("/v1/runs").by("a").ok()["summary"]["runs_total"], 1);
    assert_eq!(cancel.by("a").send().status, 202);
    assert_eq!(daemon.ended(&run_id)["reason"], "cancelled");
}

#[test]
fn stream_ends_when_its_run_becomes_invisible() {
    let daemon = stage().start(&[]);
    let hold = plan("many", "t", "hold");
    let run_id = daemon.post("/v1/runs?wait=false", &hold).by("a").send().run_id();
    let mut wire = daemon.get(&format!("/v1/runs/{run_id}/events")).by("c").begin();
    assert_eq!(wire.head().status, 200);
    let file = daemon.stage.path("data/tokens.json");
    let tokens = std::fs::read_to_string(&file).unwrap();
    let narrowed = tokens.replace("\"sees\": \"all\"", "\"sees\": \"own\"");
    assert_ne!(narrowed, tokens);
    std::fs::write(&file, narrowed).unwrap();
    let status = || daemon.get(&format!("/v1/runs/{run_id}")).by("c").begin().response().status;
    until("the token to see less", || (status() == 404).then_some(()));
    let mut text = String::new();
    while let Some(chunk) = wire.chunk() {
        text.push_str(&String::from_utf8(chunk).unwrap());
    }
    assert!(text.contains("RUN_STARTED") && !text.contains("event: end"), "{text}");
    daemon.release();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
}

#[test]
fn tasks_over_mcp_are_visible_like_their_runs() {
    let daemon = stage().start(&[]);
    let params = json!({ "name": "ask", "arguments": {} });
    let task = answer(&modern(&daemon, "tools/call", params, &able()).by("a"));
    let task_id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}"));
    let ask = |method: &str, by: &str, id: &str| {
        answer(&modern(&daemon, method, json!({ "taskId": id }), &able()).by(by))
    };
    for (by, sees) in [("a", true), ("b", false), ("c", true), ("admin", true)] {
        let got = ask("tasks/get", by, task_id);
        assert_eq!(got["result"]["taskId"] == json!(task_id), sees, "{by}: {got}");
        if !sees {
            let missing = ask("tasks/get", by, "missing").to_string();
            assert_eq!(got.to_string(), missing.replace("missing", task_id));
        }
    }
    assert_eq!(ask("tasks/cancel", "b", task_id)["error"]["data"]["code"], "UNKNOWN_TASK");
    // Seeing a task is not yet the right to end it.
    assert_eq!(ask("tasks/cancel", "c", task_id)["error"]["data"]["code"], "SCOPE_MISSING");
    assert!(ask("tasks/cancel", "a", task_id)["error"].is_null());
    assert_eq!(daemon.ended(task_id)["reason"], "cancelled");
}

#[test]
fn an_idempotency_key_is_its_tokens_own() {
    let daemon = stage().start(&[]);
    let submit = |by: &str| {
        daemon.post("/v1/runs", &marked("m")).by(by).header("Idempotency-Key", "k").send().run_id()
    };
    let (first, again, other) = (submit("a"), submit("a"), submit("b"));
    assert_eq!(first, again);
    assert_ne!(first, other);
    daemon.get(&format!("/v1/runs/{first}")).by("b").refused(404, "RUN_NOT_FOUND");
}

#[test]
fn status_names_what_the_token_sees() {
    let daemon = stage().start(&[]);
    for (by, sees) in [("a", "own"), ("c", "all"), ("admin", "all")] {
        assert_eq!(daemon.get("/v1/status").by(by).ok()["you"]["sees"], sees, "{by}");
    }
}

#[test]
fn runs_of_a_token_use_an_index() {
    let daemon = stage().start(&[]);
    let made = runs(&daemon);
    let store = Store::open_read_only(&daemon.stage.path("data/runs.db")).unwrap();
    for plan in store.query_plans().unwrap() {
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
        if plan.contains("of a token") {
            assert!(plan.contains("runs_by_token"), "{plan}");
        }
    }
    let token_id = &daemon.token("a")[4..16];
    let visible = VisibleRuns::OfToken(token_id.to_owned());
    assert!(store.find_visible(&made.over, &visible).unwrap().is_some());
    let listed = store.list(&Filter { visible, ..Filter::default() }).unwrap();
    assert_eq!(listed.counted.total, 2);
    let stranger = VisibleRuns::OfToken("000000000000".to_owned());
    assert!(store.log_visible(&made.over, &stranger).unwrap().is_none());
    assert!(store.tail_visible(&made.over, 0, &stranger).unwrap().is_none());
    assert!(store.approval_visible(&made.approval, &stranger).unwrap().is_none());
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
}

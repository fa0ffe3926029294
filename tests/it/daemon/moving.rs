//! Records that are read again, exported and imported, from one daemon to another.

use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, plan};

fn exported(daemon: &Daemon) -> (String, Value) {
    let run_id = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).send().run_id();
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).by("read").ok();
    (run_id, bundle)
}

#[test]
fn a_run_is_replayed() {
    let daemon = Daemon::usual();
    let run_id = daemon.post("/v1/runs", &plan("echo", "t", "m")).send().run_id();
    for query in ["", "?strict=true", "?strict=false"] {
        let report = daemon.get(&format!("/v1/runs/{run_id}/replay{query}")).by("read").ok();
        assert_eq!(report["ok"], true, "{report}");
        assert_eq!(report["violations"], json!([]), "{report}");
    }
    let problem = daemon.get(&format!("/v1/runs/{run_id}/replay?strict=1"));
    problem.refused(400, "HTTP_QUERY_INVALID");
}

#[test]
fn a_bundle_carries_a_run_to_another_daemon() {
    let (from, to) = (Daemon::usual(), Daemon::start("", &[]));
    let (run_id, bundle) = exported(&from);
    let imported = to.post("/v1/bundles", &bundle).ok();
    assert_eq!(imported["status"], "ok", "{imported}");
    let again = to.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    assert_eq!(again["digests"], bundle["digests"]);
    assert_eq!((&again["run"], &again["events"]), (&bundle["run"], &bundle["events"]));
    let shown = |daemon: &Daemon| daemon.get(&format!("/v1/runs/{run_id}")).ok();
    assert_eq!(shown(&to), shown(&from));
    assert_eq!(to.get(&format!("/v1/runs/{run_id}/replay")).ok()["ok"], true);
    let bare = from.get(&format!("/v1/runs/{run_id}/bundle?provenance=false")).ok();
    assert!(
        bundle.get("provenance").is_some() && bare.get("provenance").is_none_or(Value::is_null)
    );
    let event = to.audited(|event| event["kind"] == "run.imported");
    assert_eq!(event["payload"]["run_id"], run_id.as_str());
}

#[test]
fn an_import_does_with_a_known_run_what_it_is_told() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let (run_id, bundle) = exported(&daemon);
    let import = |query: &str| daemon.post(&format!("/v1/bundles{query}"), &bundle).send();
    // The very same run is no conflict; it is there.
    let mut other = bundle.clone();
    other["run"]["goal"] = "something else".into();
    let same = import("");
    let answer = same.json();
    assert!(same.status == 200 && answer["status"] != "ok", "{answer}");
    let fresh = import("?mode=new_run_id").json();
    let fresh_id = fresh["imported_run_id"].as_str().unwrap_or_else(|| panic!("{fresh}"));
    assert_ne!(fresh_id, run_id);
    daemon.get(&format!("/v1/runs/{fresh_id}")).ok();
    import("?mode=new_run_id&new_run_id=mine");
    daemon.get("/v1/runs/mine").ok();
    assert_eq!(import("?mode=overwrite").json()["status"], "ok");
    let total = daemon.get("/v1/runs").ok()["summary"]["runs_total"].clone();
    assert_eq!(total, 3);
    for query in ["?mode=replace", "?new_run_id=x", "?mode=overwrite&new_run_id=x", "?modes=1"] {
        let problem = daemon.post(&format!("/v1/bundles{query}"), &bundle);
        problem.refused(400, "HTTP_QUERY_INVALID");
    }
    daemon.post("/v1/bundles", &bundle).by("apply").refused(403, "SCOPE_MISSING");
}

#[test]
fn a_bad_bundle_is_refused_and_nothing_of_it_is_kept() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let (run_id, bundle) = exported(&daemon);
    let target = Daemon::start("", &[]);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut bundle = bundle.clone();
        change(&mut bundle);
        bundle
    };
    let cases = [
        (json!({}), "INVALID_BUNDLE", None),
        (json!([]), "INVALID_BUNDLE", Some("")),
        (changed(&|bundle| bundle["events"] = json!("none")), "INVALID_BUNDLE", Some("/events")),
        (changed(&|bundle| bundle["run"]["goal"] = json!("other")), "DIGEST_MISMATCH", None),
        (
            changed(&|bundle| drop(bundle["events"].as_array_mut().unwrap().pop())),
            "DIGEST_MISMATCH",
            None,
        ),
    ];
    for (bundle, code, pointer) in cases {
        let problem = target.post("/v1/bundles", &bundle).refused(422, code);
        if let Some(pointer) = pointer {
            let told = problem["pointer"].as_str().unwrap_or_else(|| panic!("{problem}"));
            assert!(told.starts_with(pointer), "{problem}");
        }
    }
    let text = target.ask("POST", "/v1/bundles").body("{\"run\": ");
    let problem = text.send();
    assert!([400, 422].contains(&problem.status), "{problem:?}");
    target.get(&format!("/v1/runs/{run_id}")).refused(404, "RUN_NOT_FOUND");
    assert_eq!(target.get("/v1/runs").ok()["summary"]["runs_total"], 0);
}

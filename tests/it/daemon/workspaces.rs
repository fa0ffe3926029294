//! Workspaces of envoys in a daemon: a reload checks where they are.

use std::path::Path;

use serde_json::json;

use super::support::Stage;

fn envoy(workspace: &Path) -> String {
    let workspace = workspace.to_str().unwrap();
    format!(
        "[[adapters]]\nref = \"builtin:envoy\"\n[adapters.config]\nworkspace = {workspace:?}\n\
         [adapters.grants]\nrun = [\"/bin/sh\"]\n"
    )
}

#[test]
fn a_reload_refuses_a_misplaced_workspace() {
    let stage = Stage::new("");
    let workspace = stage.path("workspace");
    std::fs::create_dir(&workspace).unwrap();
    stage.configure(&envoy(&workspace));
    let daemon = stage.start(&[]);
    let own = daemon.stage.path("");
    daemon.stage.configure(&envoy(&own));
    let problem = daemon.ask("POST", "/v1/reload").refused(422, "CONFIG_FILE_INVALID");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("adapters[0].config.workspace contains"), "{problem}");
    assert!(detail.contains("line 4"), "{problem}");
    // The former configuration stays in force.
    let step = json!({ "step_id": "s1", "intent": "", "call": { "tool": "file_write", "method": "run",
        "args": { "path": "made", "text": "x" } } });
    let plan = json!({ "goal": "work", "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": "envoy" }, "plan_override": [step] });
    let run = daemon.post("/v1/runs", &plan).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert!(workspace.join("made").exists() && !own.join("made").exists());
}

#[test]
fn a_reload_refuses_a_workspace_over_files_in_use() {
    let stage = Stage::new("");
    for name in ["first", "second"] {
        std::fs::create_dir(stage.path(name)).unwrap();
    }
    let db = |name: &str| format!("db = {:?}\n", stage.path(name).join("runs.db"));
    let (first, second) = (db("first"), db("second"));
    stage.configure(&first);
    let daemon = stage.start(&[]);
    // The store that the new configuration names is used only after a restart.
    let in_use = daemon.stage.path("first");
    for workspace in [in_use.clone(), in_use.join("sealed"), in_use.join("runs.db-owners")] {
        daemon.stage.configure(&format!("{second}{}", envoy(&workspace)));
        let problem = daemon.ask("POST", "/v1/reload").send().json();
        assert_eq!(problem["code"], "WORKSPACE_MISPLACED", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("of the router"), "{problem}");
    }
    let free = daemon.stage.path("free");
    std::fs::create_dir(&free).unwrap();
    daemon.stage.configure(&format!("{second}{}", envoy(&free)));
    drop(daemon.ask("POST", "/v1/reload").ok());
}

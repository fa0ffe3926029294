//! What people read of a dry run, and of a run without steps.

use serde_json::{Value, json};

use crate::daemon::support::Daemon;
use crate::run_cli::{ECHO, run_id, write};
use crate::support::World;

const RULES: &str = "[[policy.rules]]\neffect = 'approve'\nmethod = 'risky'\n\
                     [[policy.rules]]\neffect = 'deny'\nmethod = 'forbidden'\nreason = 'never'\n";

fn world() -> World {
    let world = World::new();
    let config = format!(
        "db = 'runs.db'\n[[adapters]]\nref = '{ECHO}'\nid = 'echo'\n\
         [[tools]]\nname = 'strict'\ndescription = 'd'\nadapter = 'echo'\ntool = 't'\nmethod = 'strict'\n\
         input_schema = {{ type = 'object', required = ['name'] }}\n{RULES}"
    );
    std::fs::write(world.path("router.toml"), config).unwrap();
    world
}

fn request(methods: &[&str]) -> Value {
    let mut request = crate::engine::plan(methods);
    request["mode"] = json!("dry_run");
    request
}

#[test]
fn human_output_says_dry_run_and_lists_the_forecast() {
    let world = world();
    let file = write(
        &world,
        "request.json",
        &request(&["plain", "risky", "forbidden", "strict", "risky", "forbidden"]),
    );
    let run = world.run(&["run", &file]);
    assert_eq!(run.code(), 1, "{}", run.stderr());
    let text = run.stdout();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "DRY RUN: no effects", "{text}");
    assert!(lines[1].contains("simulated") && lines[1].contains("t.plain"), "{text}");
    assert!(lines[2].contains("would need approval"), "{text}");
    assert!(lines[3].contains("would be denied: PERMISSION_DENIED"), "{text}");
    assert!(lines[4].contains("would be denied: ARGUMENTS_INVALID"), "{text}");
    assert!(lines[7].starts_with("DRY RUN FAILED run "), "{text}");
    assert_eq!(lines[8], "would need approval: s2, s5", "{text}");
    assert_eq!(lines[9], "would be denied: s3, s4, s6", "{text}");
    assert_eq!(lines.len(), 10, "{text}");
}

#[test]
fn json_has_the_forecast_of_every_step() {
    let world = world();
    let file = write(&world, "request.json", &request(&["forbidden", "plain", "risky", "strict"]));
    let run = world.run(&["run", &file, "--format", "json"]);
    let response = run.json();
    assert_eq!((&response["status"], run.code()), (&json!("FAILED"), 1));
    let results = response["results"].as_array().unwrap();
    let word = |index: usize| results[index]["status"].as_str().unwrap();
    assert_eq!([word(0), word(1), word(2), word(3)], ["error", "ok", "ok", "error"]);
    assert_eq!(results[0]["error"]["details"]["denied_by"], "rule");
    assert_eq!(results[2]["output"]["approval_required"], true);
    assert_eq!(results[3]["error"]["details"]["denied_by"], "schema");
    let run_id = run_id(&response);
    assert_eq!(world.run(&["runs", "replay", &run_id]).code(), 0);
    // An apply still stops at the first failure.
    let mut apply = request(&["forbidden", "plain"]);
    apply["mode"] = json!("apply");
    let file = write(&world, "apply.json", &apply);
    let response = world.run(&["run", &file, "--format", "json"]).json();
    assert_eq!(response["results"][1]["status"], "skipped", "{response}");
}

#[test]
fn apply_is_not_called_a_dry_run() {
    let world = world();
    let mut apply = request(&["plain"]);
    apply["mode"] = json!("apply");
    let run = world.run(&["run", &write(&world, "request.json", &apply)]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(
        !run.stdout().contains("DRY RUN") && !run.stdout().contains("simulated"),
        "{}",
        run.stdout()
    );
}

#[test]
fn simulated_steps_are_shown_as_dry_run() {
    let world = world();
    let mut request = request(&["plain"]);
    request["policy"]["simulate"] = json!(true);
    let file = write(&world, "request.json", &request);
    let run = world.run(&["run", &file]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stdout().starts_with("DRY RUN: "), "{}", run.stdout());
    let response = world.run(&["run", &file, "--format", "json"]).json();
    assert_eq!(response["results"][0]["output"]["dry_run"], true, "{response}");
}

#[test]
fn empty_plan_is_reported_as_empty() {
    let world = world();
    for (request, dry) in [
        (json!({ "goal": "look" }), true),
        (json!({ "goal": "look", "plan_override": [] }), true),
        (json!({ "goal": "look", "mode": "apply", "policy": { "allow_apply": true } }), false),
    ] {
        let file = write(&world, "request.json", &request);
        let run = world.run(&["run", &file]);
        assert_eq!(run.code(), 0, "{}", run.stderr());
        let text = run.stdout();
        let last = text.lines().last().unwrap();
        assert!(
            last.contains("COMPLETED run ")
                && last.ends_with("the plan is empty: nothing was done"),
            "{text}"
        );
        assert_eq!(text.contains("DRY RUN"), dry, "{text}");
        let response = world.run(&["run", &file, "--format", "json"]).json();
        assert_eq!(response["status"], "COMPLETED");
        assert_eq!(response["note"], "the plan is empty: nothing was done", "{response}");
    }
    let file = write(&world, "request.json", &request(&["plain"]));
    assert_eq!(world.run(&["run", &file, "--format", "json"]).json().get("note"), None);
}

#[test]
fn empty_plan_is_reported_over_http() {
    let daemon = Daemon::usual();
    let run = daemon.post("/v1/runs", &json!({ "goal": "look" })).by("run").ok();
    assert_eq!(run["note"], "the plan is empty: nothing was done", "{run}");
    let run_id = run["run"]["run_id"].as_str().unwrap();
    assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["note"], run["note"]);
}

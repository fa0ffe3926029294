//! Running plans, and looking at their record, with the real program and real adapters.

mod bad_input;
pub mod interrupted;
mod moving;
mod places;
mod showing;
mod terminal;

use std::path::{Path, PathBuf};

use nexus_router::store::Store;
use serde_json::{Value, json};

use crate::support::{Run, World};

pub const ECHO: &str = "nexus_router_adapter_echo:create_adapter";
pub const SUBPROCESS: &str = "nexus_router_adapter_subprocess:create_adapter";
pub const FAKE: &str = "probe_adapters:fake";

/// A request that calls `hello` and `bye`.
pub fn request() -> Value {
    let step = |id: &str, method: &str| {
        json!({ "step_id": id, "intent": "",
            "call": { "tool": "greeter", "method": method, "args": { "name": "Ada" } } })
    };
    json!({ "goal": "greet", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [step("s1", "hello"), step("s2", "bye")] })
}

/// Writes a request to a file of a world, and returns its name.
pub fn write(world: &World, name: &str, request: &Value) -> String {
    let file = world.path(name);
    std::fs::write(&file, request.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Runs a request with an adapter, in the store `runs.db` of the world.
pub fn run(world: &World, request: &Value, adapter: &[&str]) -> Run {
    let file = write(world, "request.json", request);
    world.run(&[&["run", &file, "--db", "runs.db", "--format", "json"], adapter].concat())
}

/// Runs the request of [`request`], and returns the id of the run.
pub fn completed(world: &World) -> String {
    let run = run(world, &request(), &["--adapter", ECHO]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    run_id(&run.json())
}

pub fn run_id(response: &Value) -> String {
    response["run"]["run_id"].as_str().unwrap().to_owned()
}

/// Says which files of a world are there besides requests and the cache.
pub fn traces(world: &World) -> Vec<PathBuf> {
    let known = |path: &Path| {
        path.ends_with("cache") || path.extension().is_some_and(|e| e == "json" || e == "toml")
    };
    let entries = std::fs::read_dir(world.directory.path()).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| !known(path)).collect()
}

#[test]
fn completed_run_answers_with_its_record() {
    let world = World::new();
    let run = run(&world, &request(), &["--adapter", ECHO]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let response = run.json();
    assert_eq!(response["status"], "COMPLETED");
    assert_eq!(response["summary"]["adapter_id"], "echo");
    assert_eq!(response["results"][1]["output"]["method"], "bye");
    assert_eq!(response["plan"], request()["plan_override"]);
    let store = Store::open_read_only(&world.path("runs.db")).unwrap();
    let log = store.log(&run_id(&response)).unwrap().unwrap();
    assert_eq!(log.lines().count(), 13);
    assert_eq!(response["run"]["events_committed"], 13);
}

#[test]
fn people_see_a_line_per_step_and_one_for_the_run() {
    let world = World::new();
    let file = write(&world, "request.json", &request());
    let run = world.run(&["run", &file, "--db", "runs.db", "--adapter", ECHO]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let shown = run.stdout();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("✓ s1  greeter.hello  "), "{shown}");
    assert!(lines[1].starts_with("✓ s2  greeter.bye    "), "{shown}");
    assert!(lines[2].starts_with("COMPLETED run ") && lines[2].contains(" 2 steps in "), "{shown}");
    assert_eq!(lines.len(), 3);
    let run = world.run(&["run", &file, "--db", "runs.db", "--adapter", ECHO, "--id-only"]);
    assert_eq!(run.stdout().trim_end().len(), 36, "{}", run.stdout());
}

#[test]
fn failed_run_is_no_and_tells_why() {
    let world = World::new();
    let file = write(&world, "request.json", &request());
    // The built-in adapter is the default, and calls nothing.
    let run = world.run(&["run", &file, "--db", "runs.db"]);
    assert_eq!(run.code(), 1);
    let shown = run.stdout();
    assert!(shown.contains("✗ s1  greeter.hello  "), "{shown}");
    assert!(shown.contains("CAPABILITY_MISSING: Adapter 'null' lacks"), "{shown}");
    assert!(shown.contains("○ s2  greeter.bye    skipped"), "{shown}");
    assert!(shown.contains("1 of 2 steps"), "{shown}");
    let mut denied = request();
    denied["policy"]["allow_apply"] = false.into();
    let run = self::run(&world, &denied, &["--adapter", ECHO]);
    assert_eq!(run.code(), 1);
    assert_eq!(run.json()["results"][0]["error"]["code"], "PERMISSION_DENIED");
    let mut long = request();
    long["policy"]["max_steps"] = 1.into();
    let file = write(&world, "request.json", &long);
    let run = world.run(&["run", &file, "--db", "runs.db", "--adapter", ECHO]);
    let told = "max_steps_exceeded: the plan has 2 steps, and the policy allows 1";
    assert!(run.code() == 1 && run.stdout().contains(told), "{}", run.stdout());
    let mut unknown = request();
    unknown["dispatch"] = json!({ "adapter_id": "nobody" });
    let run = self::run(&world, &unknown, &["--adapter", ECHO]);
    assert_eq!((run.code(), run.json()["error"]["code"].as_str()), (1, Some("UNKNOWN_ADAPTER")));
}

#[test]
fn configured_adapter_that_fails_costs_its_own_calls_alone() {
    let world = World::new();
    let config = format!(
        "default_adapter = 'good'\n[[adapters]]\nref = '{ECHO}'\nid = 'good'\n\
         [[adapters]]\nref = 'bad_adapters:factory_segfaults'\nid = 'bad'\n\
         [[tools]]\nname = 'broken'\ndescription = 'Never works.'\nadapter = 'bad'\nmethod = 'm'\n"
    );
    std::fs::write(world.path("router.toml"), &config).unwrap();
    let good = run(&world, &request(), &[]);
    assert_eq!(good.code(), 0, "{}", good.stderr());
    let mut addressed = request();
    addressed["dispatch"] = json!({ "adapter_id": "bad" });
    let mut named = request();
    named["plan_override"][0]["call"] = json!({ "tool": "broken", "method": "call", "args": {} });
    for request in [addressed, named] {
        let failed = run(&world, &request, &[]);
        assert_eq!(failed.code(), 1, "{}", failed.stderr());
        let error = failed.json()["error"].clone();
        assert_eq!(error["code"], "ADAPTER_UNAVAILABLE", "{error}");
        assert!(error["message"].as_str().unwrap().contains("LIBRARY_CRASHED"), "{error}");
        let told = failed.stderr();
        assert!(told.contains("adapter failed to load") && told.contains("hint="), "{told}");
    }
    // One that is named for this very use has to load, and so have all if they are required.
    let strict = run(&world, &request(), &["--adapter", "bad_adapters:factory_segfaults"]);
    assert!(
        strict.code() == 2 && strict.stderr().contains("LIBRARY_CRASHED"),
        "{}",
        strict.stderr()
    );
    std::fs::write(world.path("router.toml"), format!("require_all = true\n{config}")).unwrap();
    let strict = run(&world, &request(), &[]);
    assert!(
        strict.code() == 2 && strict.stderr().contains("LIBRARY_CRASHED"),
        "{}",
        strict.stderr()
    );
    let check = world.run(&["config", "check", "--load"]);
    assert_eq!(check.code(), 1, "{}", check.stdout());
}

#[test]
fn bug_of_an_adapter_is_no_answer_and_names_the_run() {
    let world = World::new();
    let config = json!({ "responses": [{ "tool": "greeter", "method": "bye",
        "behaviour": { "bug_error": { "error_code": "BROKEN", "message": "all wrong" } } }] });
    let adapter = ["--adapter", FAKE, "--adapter-config", &config.to_string()];
    let run = run(&world, &request(), &adapter);
    assert_eq!(run.code(), 2);
    let response = run.json();
    assert_eq!(response["status"], "FAILED");
    assert_eq!(response["error"]["code"], "BROKEN");
    let run_id = run_id(&response);
    assert!(run.stderr().contains("error[BROKEN]: "), "{}", run.stderr());
    assert!(run.stderr().contains(&run_id), "{}", run.stderr());
    let shown = world.run(&["runs", "show", &run_id, "--db", "runs.db"]).stdout();
    assert!(shown.contains("failed    bug_error"), "{shown}");
}

#[test]
fn programs_are_called_by_the_subprocess_adapter() {
    let world = World::new();
    let config = json!({ "base_cmd": ["/bin/sh", "-c", "echo '{\"said\": \"'$2'\"}'", "sh"] });
    let adapter = ["--adapter", SUBPROCESS, "--adapter-config", &config.to_string()];
    let named = ["--adapter-id", "shell", "--isolation", "inline"];
    let run = run(&world, &request(), &[&adapter[..], &named].concat());
    assert_eq!(run.code(), 0, "{}\n{}", run.stdout(), run.stderr());
    let response = run.json();
    assert_eq!(response["results"][0]["output"]["said"], "greeter");
    assert_eq!(response["dispatch"]["adapter_id"], "shell");
}

#[test]
fn steps_choose_among_several_adapters() {
    let world = World::new();
    let mut chosen = request();
    chosen["plan_override"][1]["dispatch"] = json!({ "adapter_id": "other" });
    let adapters =
        ["--adapter", ECHO, "--adapter-id", "first", "--adapter", FAKE, "--adapter-id", "other"];
    let run = run(&world, &chosen, &adapters);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(run.json()["dispatch"]["adapter_id"], "first");
    assert_eq!(run.json()["results"][1]["output"]["fake"], true);
}

#[test]
fn idempotency_key_gives_the_first_answer_again() {
    let world = World::new();
    let mut keyed = request();
    keyed["idempotency_key"] = "once".into();
    let first = run(&world, &keyed, &["--adapter", ECHO]).json();
    let again = run(&world, &keyed, &["--adapter", ECHO]).json();
    assert_eq!(run_id(&first), run_id(&again));
    assert_eq!(first["results"], again["results"]);
    keyed["goal"] = "something else".into();
    let other = run(&world, &keyed, &["--adapter", ECHO]);
    assert_eq!(other.code(), 2);
    assert!(other.stderr().contains("error[IDEMPOTENCY_KEY_TAKEN]"), "{}", other.stderr());
}

#[test]
fn output_of_adapters_is_shown_beside_the_answer() {
    let world = World::new();
    let stdout = ["--adapter", "nexus_router_adapter_stdout:create_adapter"];
    let run = run(&world, &request(), &stdout);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stderr().contains("output: [nexus]"), "{}", run.stderr());
    assert_eq!(run.json()["status"], "COMPLETED");
}

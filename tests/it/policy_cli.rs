//! `nexus-router policy`: one call against the policy, and two policies against the recorded calls.

mod check;
mod diff;
mod recorded;

use serde_json::{Value, json};

use crate::run_cli::ECHO;
use crate::support::{Run, World};

/// Returns a configuration with the adapter `echo` and policy rules.
pub fn config(rules: &str) -> String {
    format!("default_adapter = 'echo'\n[[adapters]]\nid = 'echo'\nref = '{ECHO}'\n{rules}")
}

pub fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.path(name), text).unwrap();
}

/// Records a run of calls of `greeter`, each a method with arguments, under the configuration `old.toml`.
pub fn record(world: &World, mode: &str, calls: &[(&str, Value)]) {
    let step = |(index, (method, args)): (usize, &(&str, Value))| {
        json!({ "step_id": format!("s{}", index + 1), "intent": "",
            "call": { "tool": "greeter", "method": method, "args": args } })
    };
    let plan: Vec<Value> = calls.iter().enumerate().map(step).collect();
    let request = json!({ "goal": "greet", "mode": mode, "plan_override": plan,
        "policy": { "allow_apply": true, "on_error": "continue" } });
    write(world, "request.json", &request.to_string());
    let run = world.run(&["run", "request.json", "--config", "old.toml", "--db", "runs.db"]);
    assert!([0, 1, 3].contains(&run.code()), "{}{}", run.stdout(), run.stderr());
}

/// Compares `old.toml` with a new configuration over the recorded calls.
pub fn diff(world: &World, new: &str, options: &[&str]) -> Run {
    write(world, "new.toml", new);
    let fixed = ["policy", "diff", "new.toml", "--config", "old.toml", "--db", "runs.db"];
    world.run(&[&fixed[..], options].concat())
}

/// Returns the verdict of a comparison and its exit code.
pub fn verdict(world: &World, new: &str) -> (String, i32) {
    let run = diff(world, new, &["--format", "json"]);
    (run.json()["verdict"].as_str().unwrap().to_owned(), run.code())
}

//! Answers reach their caller unmodified, on every path; everybody else reads the recorded form.

mod failing;
mod held;
mod whole;

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::mcp::support::ADAPTERS;

/// The value of the secret that the router knows.
const KNOWN: &str = "known-value-4711";

/// Returns the output of the tool `leak`, as its adapter gives it.
fn given() -> Value {
    json!({ "text": "The password: hunter2 is in this file.", "token": "eyJ0b2tlbiI6MX0",
        "rows": [{ "api_key": "k-123456" }], "size": 7, "known": format!("<{KNOWN}>") })
}

/// Returns the same output as its caller gets it: only the known secret is replaced.
fn expected() -> Value {
    let mut output = given();
    output["known"] = json!("<[REDACTED]>");
    output
}

/// Returns the pointers to what the recorded form of that output lacks.
fn pointers() -> Value {
    json!(["/known", "/rows/0/api_key", "/text", "/token"])
}

/// Starts a daemon with the tool `leak`, and more configuration.
fn daemon(more: &str) -> Daemon {
    let stage = Stage::new("");
    std::fs::write(stage.path("known.txt"), KNOWN).unwrap();
    let response = json!({ "tool": "t", "method": "leak", "behaviour": { "return_json": given().to_string() } });
    let config = format!(
        "{ADAPTERS}\n[[adapters]]\nref = 'probe_adapters:fake'\n[adapters.config]\nresponses = [{}]\n\
         [[tools]]\nname = 'leak'\ndescription = 'Answers.'\nadapter = 'fake'\ntool = 't'\nmethod = 'leak'\n\
         [secrets]\nKNOWN = 'file:{}'\n{more}",
        toml(&response),
        stage.path("known.txt").display(),
    );
    stage.configure(&config);
    stage.start(&[])
}

/// Returns a run of one step that calls `leak`.
fn leak() -> Value {
    plan("fake", "t", "leak")
}

/// Approves the only open approval.
fn approve(daemon: &Daemon) {
    let approval_id = until("the approval", || {
        let open = daemon.get("/v1/approvals").ok();
        open["approvals"][0]["approval_id"].as_str().map(str::to_owned)
    });
    let path = format!("/v1/approvals/{approval_id}/approve");
    let approved = daemon.post(&path, &json!({})).send();
    assert!(approved.status < 300, "{approved:?}");
}

/// Asserts that a result of a run is the recorded form: redacted, with pointers.
fn assert_recorded(result: &Value) {
    let output = &result["output"];
    for (pointer, shown) in [
        ("/text", "The password=[REDACTED] is in this file."),
        ("/token", "[REDACTED]"),
        ("/rows/0/api_key", "[REDACTED]"),
        ("/known", "<[REDACTED]>"),
    ] {
        assert_eq!(output.pointer(pointer), Some(&json!(shown)), "{result}");
    }
    assert_eq!(sorted(&result["redacted"]), pointers(), "{result}");
}

/// Asserts that a result of a run is the caller's form.
fn assert_whole(result: &Value) {
    assert_eq!(result["output"], expected(), "{result}");
    assert_eq!(result["redacted"], json!(["/known"]), "only the known secret: {result}");
}

fn sorted(pointers: &Value) -> Value {
    let mut pointers: Vec<Value> = pointers.as_array().cloned().unwrap_or_default();
    pointers.sort_by_key(Value::to_string);
    pointers.into()
}

/// Writes a value as inline TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key} = {}", toml(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

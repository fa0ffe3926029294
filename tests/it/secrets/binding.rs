//! Bindings to adapters that do not exist: the configuration is refused with file and line.

use serde_json::json;

use super::{ADAPTERS, BINDING, refers, secrets, stage};
use crate::daemon::support::until;
use crate::offers::step_code;

const UNKNOWN: &str = "adapters = [\"shop\", \"nobody\"]";
const MESSAGE: &str = "secrets.BOUND.adapters[1] matches no adapter: \"nobody\"";

fn config(binding: &str) -> String {
    format!("{ADAPTERS}{}", secrets(binding))
}

/// Returns the line of the binding.
fn line() -> String {
    let text = config(UNKNOWN);
    let before = text.lines().position(|line| line == UNKNOWN).unwrap();
    format!("line {}", before + 1)
}

#[test]
fn unknown_adapters_are_refused_by_every_verb() {
    let stage = stage(&config(UNKNOWN));
    std::fs::write(stage.path("plan.json"), refers("shop", "orders", "BOUND").to_string()).unwrap();
    for arguments in [
        &["config", "check", "--config", "router.toml"][..],
        &["config", "check", "--load", "--config", "router.toml"],
        &["run", "plan.json", "--config", "router.toml", "--db", "own.db"],
        &["serve", "--config", "router.toml"],
    ] {
        let output = stage.program().args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!output.status.success(), "{arguments:?}: {text}");
        assert!(text.contains(MESSAGE) && text.contains(&line()), "{arguments:?}: {text}");
        assert!(text.contains("router.toml") && text.contains("hint"), "{arguments:?}: {text}");
        assert_eq!(text.matches(MESSAGE).count(), 1, "{arguments:?}: {text}");
    }
}

#[test]
fn adapters_of_the_command_line_count() {
    let stage = stage("[secrets.BOUND]\nfrom = \"file:bound.txt\"\nadapters = [\"echo\"]\n");
    std::fs::write(stage.path("plan.json"), refers("echo", "orders", "BOUND").to_string()).unwrap();
    let run = |adapter: &[&str]| {
        let mut command = stage.program();
        command.args(["run", "plan.json", "--config", "router.toml", "--db", "own.db"]);
        command.args(adapter).output().unwrap()
    };
    let with = run(&["--adapter", "nexus_router_adapter_echo:create_adapter"]);
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    let without = run(&[]);
    let text = String::from_utf8_lossy(&without.stderr);
    assert!(text.contains("matches no adapter: \"echo\"") && text.contains("line 3"), "{text}");
}

#[test]
fn reload_with_an_unknown_adapter_changes_nothing() {
    let hold = "[[adapters]]\nref = \"probe_adapters:many_calls\"\nid = \"many\"\n";
    let daemon = stage(&format!("{}{hold}", config(BINDING))).start(&[]);
    let bound = refers("shop", "orders", "BOUND");
    let run = daemon.hold();
    until("the call", || (daemon.calls_in_flight("many") > 0).then_some(()));
    daemon.stage.configure(&format!("{}{hold}", config(UNKNOWN)));
    let refused = daemon.post("/v1/reload", &json!({})).send();
    let answer = refused.json();
    let detail = answer["detail"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(refused.status >= 400 && answer["code"] == "CONFIG_FILE_INVALID", "{answer}");
    assert!(detail.contains(MESSAGE) && detail.contains(&line()), "{answer}");
    assert_eq!(step_code(&daemon.post("/v1/runs", &bound).by("apply").ok()), "ok");
    daemon.release();
    assert_eq!(daemon.ended(&run)["status"], "COMPLETED");
    daemon.stage.configure(&format!("{}{hold}", config(BINDING)));
    daemon.post("/v1/reload", &json!({})).ok();
}

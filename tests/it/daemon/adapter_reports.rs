//! What a daemon tells of its adapters' errors and log lines: undeclared codes, causes, whose line it is.

use serde_json::{Value, json};

use super::support::{Daemon, Stage, plan, until};
use crate::support::Run;

/// An adapter that is `place`d in a worker or in the router, and answers every method in its own way.
fn shop(id: &str, place: &str) -> String {
    format!(
        r#"
[[adapters]]
id = "{id}"
ref = "probe_adapters:fake"
isolation = "{place}"
[adapters.config]
responses = [
    {{ tool = "t", method = "sold", behaviour = {{ operational_error = {{ error_code = "SOLD_OUT", message = "no" }} }} }},
    {{ tool = "t", method = "odd", behaviour = {{ operational_error = {{ error_code = "not a code", message = "no" }} }} }},
    {{ tool = "t", method = "bug", behaviour = {{ bug_error = {{ error_code = "BUG_ERROR", message = "no" }} }} }},
    {{ tool = "t", method = "why", behaviour = {{ caused_error = {{ error_code = "SOLD_OUT", causes = [
        "request failed", "login with token=abcdef123456 refused", "connection reset" ] }} }} }},
    {{ tool = "t", method = "log", behaviour = {{ log = "I am speaking" }} }},
    {{ tool = "t", method = "print", behaviour = {{ print = "I am shouting" }} }},
]
"#
    )
}

fn both() -> String {
    shop("far", "worker") + &shop("near", "inline")
}

/// Returns what a list of adapters says of one.
fn listed(daemon: &Daemon, id: &str) -> Value {
    let adapters = daemon.get("/v1/adapters").ok()["adapters"].take();
    let mut adapters = adapters.as_array().unwrap().iter();
    adapters.find(|adapter| adapter["adapter_id"] == id).unwrap().clone()
}

#[test]
fn undeclared_error_codes_are_counted_and_shown() {
    let daemon = Daemon::start(&both(), &[]);
    for id in ["far", "near"] {
        assert_eq!(listed(&daemon, id)["undeclared_error_codes"], json!({}));
        for method in ["sold", "odd", "bug", "sold", "missing"] {
            drop(daemon.post("/v1/runs", &plan(id, "t", method)).send());
        }
        let counted = json!({ "(malformed)": 1, "SOLD_OUT": 2 });
        assert_eq!(listed(&daemon, id)["undeclared_error_codes"], counted);
        let shown = daemon.get(&format!("/v1/adapters/{id}")).ok();
        assert_eq!(shown["undeclared_error_codes"], counted);
        let metric = format!("nexus_router_adapter_undeclared_errors{{adapter=\"{id}\"}}");
        assert_eq!(daemon.metric(&metric), 3.0);
    }
    let mut command = daemon.stage.program();
    let url = format!("http://{}", daemon.address);
    command.args(["adapter", "list", "--running", "--url", &url]);
    let run = Run(command.env("NEXUS_ROUTER_TOKEN", daemon.token("read")).output().unwrap());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let rows = run.stdout();
    for row in rows.lines().filter(|row| row.starts_with("far") || row.starts_with("near")) {
        assert!(row.trim_end().ends_with("(malformed) 1, SOLD_OUT 2"), "{rows}");
    }
}

#[test]
fn causes_of_an_error_are_recorded_without_secrets() {
    let daemon = Daemon::start(&both(), &[]);
    for id in ["far", "near"] {
        let run = daemon.post("/v1/runs", &plan(id, "t", "why")).ok();
        let details = &run["results"][0]["error"]["details"];
        let causes = ["request failed", "login with token=[REDACTED] refused", "connection reset"];
        assert_eq!(details["causes"], json!(causes), "{run}");
        let bundle =
            daemon.get(&format!("/v1/runs/{}/bundle", run["run"]["run_id"].as_str().unwrap()));
        let bundle = bundle.ok().to_string();
        assert!(
            bundle.contains("connection reset") && !bundle.contains("abcdef123456"),
            "{bundle}"
        );
    }
}

#[test]
fn log_lines_name_their_adapter_in_both_formats() {
    for format in ["text", "json"] {
        let log = format!("[log]\nformat = \"{format}\"\nlevel = \"debug\"\n{}", both());
        let daemon = Stage::new(&log).start(&[]);
        for id in ["far", "near"] {
            let own = match format {
                "json" => format!("\"adapter_id\":\"{id}\""),
                _ => format!(" adapter_id={id} "),
            };
            assert_eq!(daemon.post("/v1/runs", &plan(id, "t", "log")).ok()["status"], "COMPLETED");
            // Four levels, and what is for people.
            until("the lines of the call", || {
                let stderr = daemon.stderr();
                let spoken = stderr.lines().filter(|line| line.contains("I am speaking"));
                let of_this: Vec<&str> = spoken.filter(|line| line.contains(&own)).collect();
                (of_this.len() == 5).then_some(())
            });
        }
        assert_eq!(daemon.post("/v1/runs", &plan("far", "t", "print")).ok()["status"], "COMPLETED");
        let printed = until("what was printed", || {
            let stderr = daemon.stderr();
            stderr.lines().find(|line| line.contains("I am shouting")).map(str::to_owned)
        });
        let own = if format == "json" { "\"adapter_id\":\"far\"" } else { "adapter_id=far" };
        assert!(printed.contains(own), "{printed}");
        if format == "json" {
            let line: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(line["adapter_id"], "far", "{line}");
        }
    }
}

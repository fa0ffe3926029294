//! Commands that the program prints about approvals, run as a shell runs them.

use serde_json::json;

use crate::run_cli::{ECHO, request, write};
use crate::support::{Run, World};

const RULE: &str =
    "[[policy.rules]]\neffect = \"approve\"\nmethod = \"bye\"\nreason = \"partings are hard\"\n";

/// Returns the commands that a run printed as hints.
fn hints(run: &Run) -> Vec<String> {
    let lines = run.stderr();
    lines.lines().filter_map(|line| line.strip_prefix("hint: ")).map(str::to_owned).collect()
}

/// Writes a configuration in which no daemon listens.
fn configure(world: &World, file: &str, more: &str) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listener = format!("[[listeners]]\naddress = \"127.0.0.1:{port}\"\n");
    std::fs::write(world.path(file), format!("{more}\n{listener}{RULE}")).unwrap();
}

/// Runs the plan with options; it waits. Then pastes what the program prints.
fn approve_as_printed(world: &World, options: &[&str]) {
    let file = write(world, "request.json", &request());
    let run = world.run(&[&["run", &file], options].concat());
    assert_eq!(run.code(), 3, "{options:?}: {}", run.stderr());
    let [approve, deny] = &hints(&run)[..] else { panic!("{}", run.stderr()) };
    let pasted = world.paste(approve);
    assert_eq!(pasted.code(), 0, "{approve}: {}", pasted.stderr());
    assert!(pasted.stdout().contains("COMPLETED run"), "{}", pasted.stdout());
    let late = world.paste(deny);
    assert!(late.stderr().contains("error[APPROVAL_ALREADY_DECIDED]"), "{}", late.stderr());
    let again = world.run(&[&["run", &file], options].concat());
    let pasted = world.paste(&hints(&again)[1]);
    assert_eq!(pasted.code(), 0, "{}", pasted.stderr());
}

#[test]
fn printed_approve_command_works_as_pasted() {
    let adapter = format!("[[adapters]]\nref = \"{ECHO}\"\n");
    let world = World::new();
    configure(&world, "router.toml", &format!("db = \"runs.db\"\n{adapter}"));
    approve_as_printed(&world, &[]);

    let world = World::new();
    configure(&world, "it's mine.toml", &adapter);
    approve_as_printed(&world, &["--config", "it's mine.toml", "--db", "my runs.db"]);
    approve_as_printed(&world, &["--config", "it's mine.toml", "--data-dir", "my data"]);

    configure(&world, "asks.toml", "");
    let options = ["--config", "asks.toml", "--db", "a.db", "--adapter", ECHO, "--adapter-id", "e"];
    approve_as_printed(&world, &options);
    let options = ["--config", "asks.toml", "--db", "b.db", "--adapter", ECHO, "--adapter-config"];
    let more = ["{}", "--isolation", "inline"];
    approve_as_printed(&world, &[&options[..], &more].concat());
}

#[test]
fn printed_command_does_not_show_secret_adapter_configuration() {
    let world = World::new();
    configure(&world, "asks.toml", "");
    let file = write(&world, "request.json", &request());
    let config = json!({ "password": "hunter22" }).to_string();
    let adapter = ["--adapter", "probe_adapters:fake", "--adapter-config", &config];
    let options = ["--config", "asks.toml", "--db", "runs.db"];
    let run = world.run(&[&["run", &file], &options[..], &adapter].concat());
    let printed = run.stderr();
    assert!(!printed.contains("hunter22"), "{printed}");
    assert!(run.code() != 3 || printed.contains("--adapter-config @FILE"), "{printed}");
}

#[test]
fn approval_without_configuration_is_refused_and_kept() {
    let world = World::new();
    configure(&world, "asks.toml", &format!("[[adapters]]\nref = \"{ECHO}\"\n"));
    let file = write(&world, "request.json", &request());
    let options = ["--config", "asks.toml", "--db", "runs.db"];
    let run = world.run(&[&["run", &file, "--format", "json"], &options[..]].concat());
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let waiting = &run.json()["waiting"];
    let approval_id = waiting["approval_id"].as_str().unwrap();
    // As the program printed it before: without the configuration of the run.
    for _ in 0..2 {
        let refused = world.run(&["approvals", "approve", approval_id, "--db", "runs.db"]);
        assert_eq!(refused.code(), 2, "{}", refused.stdout());
        let told = refused.stderr();
        for text in [
            "error[APPROVAL_NOT_EXECUTABLE]",
            "there is no adapter 'echo'",
            "repeat the command with `--config`",
        ] {
            assert!(told.contains(text), "{told}");
        }
    }
    let listed = world.run(&["approvals", "list", "--db", "runs.db", "--format", "json"]).json();
    assert_eq!(listed["total"], 1, "{listed}");
    let approved = world.run(&[&["approvals", "approve", approval_id], &options[..]].concat());
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    assert!(approved.stdout().contains("COMPLETED run"), "{}", approved.stdout());
}

#[test]
fn denial_without_configuration_is_recorded() {
    let world = World::new();
    configure(&world, "asks.toml", &format!("[[adapters]]\nref = \"{ECHO}\"\n"));
    let file = write(&world, "request.json", &request());
    let options = ["--config", "asks.toml", "--db", "runs.db", "--format", "json"];
    let run = world.run(&[&["run", &file], &options[..]].concat());
    let waiting = &run.json()["waiting"];
    let approval_id = waiting["approval_id"].as_str().unwrap();
    let denied = world.run(&["approvals", "deny", approval_id, "--db", "runs.db"]);
    assert_eq!(denied.code(), 0, "{}", denied.stderr());
    let listed = world.run(&["approvals", "list", "--all", "--db", "runs.db", "--format", "json"]);
    assert_eq!(listed.json()["approvals"][0]["state"], "denied");
}

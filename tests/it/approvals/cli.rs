//! Approvals on the command line where no daemon is: `run` waits, and `approvals` decides and goes on.

use serde_json::{Value, json};

use crate::run_cli::{ECHO, request, run_id, write};
use crate::support::{Run, World};

/// A world in whose configuration a person is asked about the method `bye`. No daemon is at its address.
fn world() -> World {
    let world = World::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "db = \"runs.db\"\n[[adapters]]\nref = \"{ECHO}\"\n[[listeners]]\naddress = \"127.0.0.1:{port}\"\n\
         [[policy.rules]]\neffect = \"approve\"\nmethod = \"bye\"\nreason = \"partings are hard\"\n"
    );
    std::fs::write(world.path("router.toml"), config).unwrap();
    world
}

/// Runs a plan that comes to wait, and returns what was told and the id of the approval.
fn waits(world: &World) -> (Run, Value, String) {
    let file = write(world, "request.json", &request());
    let run = world.run(&["run", &file, "--format", "json"]);
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let response = run.json();
    let approval_id = response["waiting"]["approval_id"].as_str().unwrap().to_owned();
    (run, response, approval_id)
}

#[test]
fn a_run_that_waits_says_for_what_and_is_carried_on_by_who_approves() {
    let world = world();
    let (told, response, approval_id) = waits(&world);
    assert_eq!((&response["status"], &response["outcome"]), (&json!("RUNNING"), &Value::Null));
    let told = told.stderr();
    for text in [
        "greeter.bye of adapter 'echo': partings are hard",
        "nexus-router approvals approve",
        &approval_id,
    ] {
        assert!(told.contains(text), "{told}");
    }
    let id = run_id(&response);
    let shown = world.run(&["runs", "show", &id]);
    let shown = (shown.code(), shown.stdout());
    for text in ["waits", "for approval", "needs approval", "partings are hard"] {
        assert!(shown.1.contains(text), "{}", shown.1);
    }
    let listed = world.run(&["runs", "list"]);
    assert_eq!(listed.code(), 0);
    assert!(listed.stdout().contains("RUNNING, waits"), "{}", listed.stdout());
    let recovered = world.run(&["runs", "recover"]);
    assert_eq!((recovered.code(), recovered.stdout().as_str()), (0, "no run was left behind\n"));
    let list = world.run(&["approvals", "list"]);
    assert_eq!(list.code(), 0, "{}", list.stderr());
    assert!(list.stdout().contains(&approval_id), "{}", list.stdout());

    let approved = world.run(&["approvals", "approve", &approval_id, "--reason", "so be it"]);
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    let told = approved.stdout();
    assert!(told.contains("COMPLETED run") && told.contains("so be it"), "{told}");
    let again = world.run(&["approvals", "approve", &approval_id]);
    assert_eq!(again.code(), 2);
    assert!(again.stderr().contains("error[APPROVAL_ALREADY_DECIDED]"), "{}", again.stderr());
    assert!(again.stderr().contains("approved by local:"), "{}", again.stderr());
    let replayed = world.run(&["runs", "replay", &id]);
    assert_eq!(replayed.code(), 0, "{}", replayed.stdout());
    let shown = world.run(&["runs", "show", &id, "--format", "json"]);
    assert_eq!(shown.code(), 0);
    assert!(shown.stdout().contains("so be it"), "{}", shown.stdout());
}

#[test]
fn who_denies_is_heard_and_sees_what_became_of_the_run() {
    let world = world();
    let (_, response, approval_id) = waits(&world);
    let denied = world.run(&["approvals", "deny", &approval_id, "--format", "json"]);
    assert_eq!(denied.code(), 0, "{}", denied.stderr());
    let outcome = denied.json();
    assert_eq!((run_id(&outcome), &outcome["status"]), (run_id(&response), &json!("FAILED")));
    assert_eq!(outcome["results"][1]["error"]["code"], "APPROVAL_DENIED");
    let list = world.run(&["approvals", "list", "--all", "--format", "json"]).json();
    assert_eq!((&list["total"], &list["approvals"][0]["state"]), (&json!(1), &json!("denied")));
    let unknown = world.run(&["approvals", "approve", "nope"]);
    assert_eq!(unknown.code(), 2);
    assert!(unknown.stderr().contains("APPROVAL_UNKNOWN"), "{}", unknown.stderr());
}

#[test]
fn a_daemon_that_is_named_and_not_there_is_an_error_and_a_store_that_is_not_there_too() {
    let world = world();
    let gone = world.run(&["approvals", "list", "--url", "http://127.0.0.1:1"]);
    assert_eq!(gone.code(), 2);
    assert!(gone.stderr().contains("does not answer"), "{}", gone.stderr());
    let none = world.run(&["approvals", "list"]);
    assert_eq!(none.code(), 2);
    assert!(none.stderr().contains("STORE_NOT_FOUND"), "{}", none.stderr());
}

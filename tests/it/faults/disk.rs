//! Disks that fail or are full, and processes that die: what was acknowledged stays, and the rest is told.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output};

use nexus_router::router::Error;
use nexus_router::store::{self, Status, Store};
use serde_json::{Value, json};

use super::{Place, assert_sound, external, namespaces, request, wait_for_run};
use crate::engine::{answers, assert_clean, payloads, plan, set};
use crate::support::{PROGRAM, built_directory};

/// Files have so many blocks at most, and the signal that says so is not heard.
const SMALL_FILES: &str = "trap '' XFSZ; ulimit -f 600; exec \"$@\"";
const LARGER_FILES: &str = "trap '' XFSZ; ulimit -f 4000; exec \"$@\"";
const ANY_FILES: &str = "exec \"$@\"";

/// A plan that needs so much room.
fn large(bytes: usize) -> Value {
    set(external(&["a"]), "/plan_override/0/call/args", json!({ "text": "x".repeat(bytes) }))
}

/// Runs the program in a shell that prepares for it.
fn program(place: &Place, script: &str, arguments: &[&str]) -> Output {
    let output = Command::new("sh")
        .args(["-c", script, "sh", PROGRAM])
        .args(arguments)
        .args(["--db", "runs.db"])
        .current_dir(&place.directory)
        .env("NEXUS_ROUTER_CACHE_DIR", place.path("cache"))
        .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
        .output();
    output.unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_disk_that_fails_takes_nothing_that_was_acknowledged() {
    const NAME: &str = "faults::disk::a_disk_that_fails_takes_nothing_that_was_acknowledged";
    if let Some(place) = Place::inside() {
        let router = place.router();
        let mut acknowledged = fs::File::create(place.path("acknowledged")).unwrap();
        let error = loop {
            match router.run_blocking(request(&large(300))) {
                Ok(outcome) => writeln!(acknowledged, "{}", outcome.run_id).unwrap(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error.code(), "STORE_DISK_FAILED" | "STORE_FULL"), "{error}");
        assert!(error.hint().contains("disk") || error.hint().contains("room"), "{}", error.hint());
        // What is there can still be read, and nobody is told that more was recorded.
        for run_id in fs::read_to_string(place.path("acknowledged")).unwrap().lines() {
            assert_clean(&router.store().log(run_id).unwrap().unwrap());
        }
        let error = router.run_blocking(request(&large(300))).unwrap_err();
        assert!(matches!(error.code(), "STORE_DISK_FAILED" | "STORE_FULL"), "{error}");
        return place.done();
    }
    let place = Place::new();
    // The adapters are judged before, in files as large as they like.
    drop(place.router());
    place.run_again(NAME, LARGER_FILES);
    let router = place.router();
    let acknowledged = fs::read_to_string(place.path("acknowledged")).unwrap();
    assert!(acknowledged.lines().count() > 3, "{acknowledged}");
    for run_id in acknowledged.lines() {
        let record = router.store().find(run_id).unwrap().unwrap();
        assert_eq!(record.progress.status, Status::Completed);
    }
    router.recover_blocking(Default::default()).unwrap();
    router.run_blocking(request(&large(300))).unwrap();
    assert_sound(router.store());
    let counted = router.store().list(&Default::default()).unwrap().counted;
    assert_eq!(counted.running, 0);
}

#[test]
fn the_program_says_that_the_disk_failed_and_goes_on_when_it_does_not() {
    let place = Place::new();
    let write = |name: &str, plan: &Value| fs::write(place.path(name), plan.to_string()).unwrap();
    write("small.json", &plan(&["a"]));
    write("large.json", &set(large(400_000), "/dispatch", json!({})));
    let run = |script: &str, file: &str| {
        program(
            &place,
            script,
            &["run", file, "--format", "json", "--adapter", "probe_adapters:fake"],
        )
    };
    let first = json_of(&run(ANY_FILES, "small.json"))["run"]["run_id"].clone();
    let failed = run(SMALL_FILES, "large.json");
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    let said = stderr(&failed);
    assert!(said.contains("error[STORE_DISK_FAILED]: nothing was recorded"), "{said}");
    assert!(said.contains("\nhint: check the disk"), "{said}");
    json_of(&run(SMALL_FILES, "small.json"));
    json_of(&run(ANY_FILES, "large.json"));
    let store = Store::open_read_only(&place.db()).unwrap();
    assert!(store.find(first.as_str().unwrap()).unwrap().is_some());
    assert_eq!(store.list(&Default::default()).unwrap().counted.completed, 3);
    assert_sound(&store);
}

#[test]
fn a_full_disk_is_told_and_what_is_owed_is_written_when_there_is_room() {
    const NAME: &str =
        "faults::disk::a_full_disk_is_told_and_what_is_owed_is_written_when_there_is_room";
    if let Some(place) = Place::inside() {
        on_a_small_disk(&place);
        return place.done();
    }
    if !namespaces("-rm") {
        return;
    }
    let place = Place::new();
    drop(place.router());
    fs::create_dir(place.path("disk")).unwrap();
    let script = format!(
        "exec unshare -rm sh -c 'mount -t tmpfs -o size=4m none \"{}\" && exec \"$@\"' sh \"$@\"",
        place.path("disk").display()
    );
    place.run_again(NAME, &script);
}

fn on_a_small_disk(place: &Place) {
    let db = place.path("disk/runs.db");
    let router = place.router_with(&db, &json!({ "sleep_ms": 600_000 }));
    let store = router.store();
    let mut acknowledged = vec![router.run_blocking(request(&large(300))).unwrap().run_id];
    // A call is made while there is room, and answered when there is none.
    fs::remove_file(place.path("traces")).unwrap();
    let error = std::thread::scope(|scope| {
        let mut held = place.hold_calls();
        let running = scope.spawn(|| router.run_blocking(request(&external(&["a"]))).unwrap_err());
        wait_for_run(store, Status::Running);
        fill(place);
        held.release();
        running.join().unwrap()
    });
    let Error::Unrecorded { run_id, cause: store::Error::Full(_), .. } = &error else {
        panic!("{error:?}");
    };
    assert!(error.hint().contains("make room"), "{}", error.hint());
    for _ in 0..3 {
        let error = router.run_blocking(request(&plan(&["a"]))).unwrap_err();
        assert!(matches!(error, Error::Store(store::Error::Full(_))), "{error:?}");
    }
    assert_eq!(store.find(run_id).unwrap().unwrap().progress.status, Status::Running);
    // Another store has no room either, and says so.
    let error = Store::open(&place.path("disk/other.db")).unwrap_err();
    assert!(matches!(error.code(), "STORE_FULL" | "STORE_DISK_FAILED"), "{error}");
    fs::remove_file(place.path("disk/fill")).unwrap();
    // The owed end is written by itself, and the same router goes on.
    acknowledged.push(run_id.clone());
    super::wait_until(|| {
        (store.find(run_id).unwrap().unwrap().progress.status == Status::Completed).then_some(())
    });
    acknowledged.push(router.run_blocking(request(&plan(&["a"]))).unwrap().run_id);
    Store::open(&place.path("disk/other.db")).unwrap();
    for run_id in &acknowledged {
        assert_clean(&store.log(run_id).unwrap().unwrap());
    }
    assert_eq!(store.list(&Default::default()).unwrap().counted.completed, 3);
    // The traces are a pipe without a reader by now; nothing more is called.
    fill_with_runs(&router);
    assert_sound(store);
}

/// Leaves no room at all.
fn fill(place: &Place) {
    let mut file = fs::File::create(place.path("disk/fill")).unwrap();
    for size in [65_536, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Fills the disk with runs themselves: the last commit that fits is whole, and the next one is refused.
fn fill_with_runs(router: &nexus_router::router::Router) {
    let large = set(large(50_000), "/dispatch", json!({}));
    let error = loop {
        if let Err(error) = router.run_blocking(request(&large)) {
            break error;
        }
    };
    assert!(matches!(error, Error::Store(store::Error::Full(_))), "{error:?}");
}

#[test]
fn full_disk_error_says_which_steps_were_done() {
    const NAME: &str = "faults::disk::full_disk_error_says_which_steps_were_done";
    if let Some(place) = Place::inside() {
        let db = place.path("disk/runs.db");
        let router = place.router_with(&db, &json!({ "sleep_ms": 600_000 }));
        // The first step is called while there is room, and the second would be when there is none.
        let plan = external(&["a", "b", "c"]);
        let error = std::thread::scope(|scope| {
            let mut held = place.hold_calls();
            let running = scope.spawn(|| router.run_blocking(request(&plan)).unwrap_err());
            wait_for_run(router.store(), Status::Running);
            fill(&place);
            held.release();
            running.join().unwrap()
        });
        assert_eq!(error.code(), "STORE_FULL", "{error:?}");
        assert!(error.to_string().ends_with("steps: 1 done: s1; 2 not begun: s2, s3"), "{error}");
        assert!(!error.hint().contains("can be sent again"), "{}", error.hint());
        let run_id = error.run_id().unwrap();
        assert!(error.hint().contains(&format!("look at run {run_id}")), "{}", error.hint());
        let steps = nexus_router::json::to_compact(&error.steps().unwrap().into());
        let expected = r#"{"done":["s1"],"failed":[],"in_doubt":[],"not_begun":["s2","s3"]}"#;
        assert_eq!(steps, expected);
        return place.done();
    }
    if !namespaces("-rm") {
        return;
    }
    let place = Place::new();
    drop(place.router());
    fs::create_dir(place.path("disk")).unwrap();
    let script = format!(
        "exec unshare -rm sh -c 'mount -t tmpfs -o size=4m none \"{}\" && exec \"$@\"' sh \"$@\"",
        place.path("disk").display()
    );
    place.run_again(NAME, &script);
}

#[test]
fn an_adapter_that_takes_the_process_with_it_leaves_a_run_that_is_ended() {
    let place = Place::new();
    let config = json!({ "capabilities": ["apply", "external"],
        "responses": [answers("dies", json!({ "process_dies": true }))] });
    fs::write(place.path("request.json"), plan(&["a", "dies", "c"]).to_string()).unwrap();
    let config = config.to_string();
    let adapter = ["--adapter", "probe_adapters:fake", "--adapter-config", &config];
    // Only inline can it: in a worker it takes nobody with it.
    let adapter = [&adapter[..], &["--isolation", "inline"]].concat();
    let died = program(&place, ANY_FILES, &[&["run", "request.json"], &adapter[..]].concat());
    assert_eq!(died.status.code(), None, "{died:?}");
    let store = Store::open_read_only(&place.db()).unwrap();
    let run_id = wait_for_run(&store, Status::Running);
    let log = store.log(&run_id).unwrap().unwrap();
    assert_eq!(log.record.progress.steps_executed, 2);
    assert_eq!(store.orphans().unwrap(), [run_id.as_str()]);
    let recover = [&["runs", "recover", "--format", "json"], &adapter[..]].concat();
    let recovered = json_of(&program(&place, ANY_FILES, &recover));
    assert_eq!(recovered["recovered"][0]["run_id"], json!(run_id));
    assert_eq!(recovered["recovered"][0]["in_doubt"], json!(true));
    assert_eq!(json_of(&program(&place, ANY_FILES, &recover))["recovered"], json!([]));
    let log = store.log(&run_id).unwrap().unwrap();
    assert_clean(&log);
    let events = payloads(&log);
    let (_, failed) = events.iter().find(|(kind, _)| kind == "TOOL_CALL_FAILED").unwrap();
    assert_eq!(
        (&failed["step_id"], &failed["details"]),
        (&json!("s2"), &json!({ "in_doubt": true }))
    );
    let (_, last) = events.last().unwrap();
    assert_eq!((&last["reason"], &last["in_doubt"]), (&json!("interrupted"), &json!(true)));
    assert_sound(&store);
}

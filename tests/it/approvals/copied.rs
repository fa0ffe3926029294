//! Stores that were moved, copied or restored: they can be read, and answer nothing until they are adopted.

use nexus_router::store::{self, Store};
use rusqlite::Connection;
use serde_json::Value;

use super::{Office, asks, risky, waits};
use crate::daemon::support::{Stage, until};
use crate::run_cli::{ECHO, request, write};
use crate::support::{Run, World, copy_directory, workspace};

/// A world with a run that waits, and the id of its approval. Everything is in the directory `data`.
fn world() -> (World, String) {
    let world = World::new();
    std::fs::create_dir(world.path("data")).unwrap();
    let config = format!(
        "db = \"data/runs.db\"\n[[adapters]]\nref = \"{ECHO}\"\n[[listeners]]\naddress = \"127.0.0.1:1\"\n\
         [[policy.rules]]\neffect = \"approve\"\nmethod = \"bye\"\n"
    );
    std::fs::write(world.path("router.toml"), config).unwrap();
    let file = write(&world, "request.json", &request());
    let run = world.run(&["run", &file, "--format", "json"]);
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let response = run.json();
    let approval_id = response["waiting"]["approval_id"].as_str().unwrap().to_owned();
    (world, approval_id)
}

fn assert_moved(run: &Run) {
    assert_eq!(run.code(), 2, "{}", run.stdout());
    assert!(run.stderr().contains("error[STORE_MOVED]"), "{}", run.stderr());
}

fn audited(world: &World, db: &str, kind: &str) -> bool {
    let exported = world.run(&["audit", "export", "--db", db]);
    assert_eq!(exported.code(), 0, "{}", exported.stderr());
    exported.stdout().contains(&format!("\"kind\":\"{kind}\""))
}

#[test]
fn copied_store_answers_only_after_adoption() {
    let (world, approval_id) = world();
    copy_directory(&world.path("data"), &world.path("copy"));
    let db = ["--db", "copy/runs.db"];
    let all = |verb: &[&str]| world.run(&[verb, &db[..]].concat());
    let file = world.path("request.json").to_str().unwrap().to_owned();
    for verb in [
        &["approvals", "approve", &approval_id][..],
        &["approvals", "deny", &approval_id],
        &["run", &file],
        &["runs", "recover"],
        &["evidence", "begin"],
    ] {
        assert_moved(&all(verb));
    }
    let exported = all(&["runs", "list", "--format", "json"]);
    let run_id = exported.json()["runs"][0]["run_id"].as_str().unwrap().to_owned();
    for verb in [
        &["runs", "list"][..],
        &["runs", "show", &run_id],
        &["runs", "replay", &run_id],
        &["runs", "export", &run_id],
        &["approvals", "list"],
        &["store", "check"],
        &["audit", "export"],
    ] {
        let read = all(verb);
        assert!(read.code() <= 1 && !read.stdout().is_empty() || verb[0] == "audit", "{verb:?}");
        assert!(read.stderr().contains("STORE_MOVED"), "{verb:?}: {}", read.stderr());
    }
    assert_eq!(all(&["store", "check", "--format", "json"]).json()["moved"], true);
    let imported = all(&["runs", "export", &run_id]);
    std::fs::write(world.path("bundle.json"), imported.stdout()).unwrap();
    assert_moved(&all(&["runs", "import", "bundle.json", "--mode", "new-id"]));

    // The hint works as pasted.
    let refused = all(&["approvals", "approve", &approval_id]);
    let told = refused.stderr();
    let (_, command) = told.rsplit_once("continue it with `").unwrap();
    let adopted = world.paste(command.split('`').next().unwrap());
    assert_eq!(adopted.code(), 0, "{}", adopted.stderr());
    assert!(adopted.stdout().starts_with("adopted "), "{}", adopted.stdout());
    assert!(audited(&world, "copy/runs.db", "store.adopted"));
    assert_eq!(all(&["store", "check", "--format", "json"]).json()["moved"], false);
    let approved = all(&["approvals", "approve", &approval_id]);
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    assert!(approved.stdout().contains("COMPLETED run"), "{}", approved.stdout());
}

#[test]
fn daemon_does_not_start_on_a_copied_store() {
    let (world, _) = world();
    let stage = Stage::bare("[[listeners]]\naddress = \"127.0.0.1:0\"\n");
    copy_directory(&world.path("data"), &stage.path("data"));
    let refused = stage.refused(&["--data-dir", "data"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr().contains("STORE_MOVED"), "{}", refused.stderr());
    assert!(refused.stderr().contains("store adopt --db"), "{}", refused.stderr());
    let mut mcp = stage.program();
    let mcp = mcp.args(["mcp", "--config", "router.toml", "--data-dir", "data"]).output().unwrap();
    assert!(String::from_utf8(mcp.stderr).unwrap().contains("STORE_MOVED"));
}

#[test]
fn renamed_store_is_not_moved() {
    let (world, approval_id) = world();
    std::fs::rename(world.path("data"), world.path("other")).unwrap();
    let options = ["--db", "other/runs.db"];
    let approved = world.run(&[&["approvals", "approve", &approval_id], &options[..]].concat());
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    let unmoved = world.run(&[&["store", "adopt", "--format", "json"], &options[..]].concat());
    assert_eq!((unmoved.code(), &unmoved.json()["moved"]), (0, &Value::Bool(false)));
    assert!(!audited(&world, "other/runs.db", "store.adopted"));
}

#[test]
fn restored_store_has_a_new_identity_and_is_usable() {
    let (world, _) = world();
    let db = ["--db", "data/runs.db"];
    for verb in [&["store", "backup", "b.db"][..], &["store", "restore", "b.db"]] {
        let run = world.run(&[verb, &db[..]].concat());
        assert_eq!(run.code(), 0, "{}", run.stderr());
    }
    assert!(audited(&world, "data/runs.db", "store.restored"));
    let new = world.run(&["store", "restore", "b.db", "--db", "new.db"]);
    assert_eq!(new.code(), 0, "{}", new.stderr());
    for file in ["data/runs.db", "new.db"] {
        let path = world.path(file);
        assert!(!Store::open(&path).unwrap().is_moved().unwrap());
    }
    // A backup itself is a copy.
    assert_eq!(Store::open(&world.path("b.db")).unwrap_err().code(), "STORE_MOVED");
    let ids = ["data/runs.db", "new.db", "b.db"].map(|file| {
        let connection = Connection::open(world.path(file)).unwrap();
        let sql = "SELECT store_id FROM identity";
        connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    });
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
}

#[test]
fn adoption_waits_until_the_process_of_the_original_is_gone() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, _) = waits(&router, &risky());
    let copy = office.world.path("copy.db");
    for file in ["", "-wal", "-shm", ".key"] {
        let name = |path: &std::path::Path| format!("{}{file}", path.display());
        drop(std::fs::copy(name(&office.db()), name(&copy)));
    }
    let error = store::adopt(&copy).unwrap_err();
    let process = format!("process {} uses the store", std::process::id());
    assert_eq!(error.code(), "STORE_BUSY");
    assert!(error.to_string().contains(&process), "{error}");
    drop(router);
    // The last to leave takes the write-ahead log into the file.
    let log = format!("{}-wal", office.db().display());
    until("the store to be closed", || (!std::path::Path::new(&log).exists()).then_some(()));
    let adoption = store::adopt(&copy).unwrap_err();
    assert!(adoption.to_string().contains(&process), "{adoption}");
    // The copy knows the process from its own record; a later copy knows that it is gone.
    std::fs::remove_file(&copy).unwrap();
    drop(std::fs::remove_file(format!("{}-wal", copy.display())));
    drop(std::fs::remove_file(format!("{}-shm", copy.display())));
    std::fs::copy(office.db(), &copy).unwrap();
    let adoption = store::adopt(&copy).unwrap();
    assert!(adoption.moved && adoption.store_id != adoption.previous_id, "{adoption:?}");
    let store = Store::open(&copy).unwrap();
    assert!(store.find(&run_id).unwrap().unwrap().waits);
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
}

#[test]
fn older_and_python_stores_are_bound_to_their_file() {
    let world = World::new();
    let (old, python) = (world.path("old.db"), world.path("python.db"));
    let golden = workspace().join("tests/golden");
    std::fs::copy(golden.join("store_v4.db"), &old).unwrap();
    assert!(!store::adopt(&old).unwrap().moved, "it has no identity yet");
    std::fs::copy(golden.join("nexus/runs.db"), &python).unwrap();
    assert_eq!(store::adopt(&python).unwrap_err().code(), "STORE_PYTHON");
    let now = nexus_router::clock::Clock::System.now();
    let leave = nexus_router::takeover::Unreadable::Leave;
    nexus_router::takeover::take_over(&python, leave, now, |_, _| ()).unwrap();
    for path in [old, python] {
        drop(Store::open(&path).unwrap());
        drop(Store::open(&path).unwrap());
        let copy = path.with_extension("copy");
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(Store::open(&copy).unwrap_err().code(), "STORE_MOVED");
        assert!(Store::open_read_only(&copy).unwrap().is_moved().unwrap());
        assert!(store::adopt(&copy).unwrap().moved);
        drop(Store::open(&copy).unwrap());
    }
    assert!(!Store::in_memory().unwrap().is_moved().unwrap());
    let missing = store::adopt(&world.path("missing.db")).unwrap_err();
    assert_eq!(missing.code(), "STORE_NOT_FOUND");
}

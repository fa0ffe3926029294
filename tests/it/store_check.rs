//! `nexus-router store check`: a verdict with a reason, whatever is wrong with the store.

use std::os::unix::fs::FileExt as _;

use nexus_router::store::Store;
use serde_json::{Value, json};

use crate::support::{Run, World};

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

/// What is done to the bytes of a store.
type Damage = Box<dyn FnOnce(&mut Vec<u8>)>;

/// A world with a sound store of some runs.
fn world() -> World {
    let world = World::new();
    let steps: Vec<Value> = (0..20)
        .map(|number| {
            json!({ "step_id": format!("s{number}"), "intent": "",
                "call": { "tool": "t", "method": "m", "args": { "text": "x".repeat(2000) } } })
        })
        .collect();
    let plan = json!({ "goal": "g", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": steps });
    std::fs::write(world.path("plan.json"), plan.to_string()).unwrap();
    for _ in 0..3 {
        let run = world.run(&["run", "plan.json", "--db", "runs.db", "--adapter", ECHO]);
        assert_eq!(run.code(), 0, "{}", run.stderr());
    }
    world
}

fn check(world: &World, format: &str) -> Run {
    world.run(&["store", "check", "--db", "runs.db", "--format", format])
}

/// Both formats give the same verdict: its exit code, its name, and a reason that has a text.
fn assert_verdict(world: &World, code: i32, verdict: &str, reason: &str, case: &str) {
    let human = check(world, "human");
    assert_eq!(human.code(), code, "{case}: {}{}", human.stdout(), human.stderr());
    assert!(human.stdout().contains(reason), "{case}: {}", human.stdout());
    let said = if code == 2 { "not checked: " } else { "not ok: " };
    assert!(human.stdout().contains(said), "{case}: {}", human.stdout());
    let json = check(world, "json");
    assert_eq!(json.code(), code, "{case}");
    let json = json.json();
    assert_eq!((&json["ok"], &json["verdict"]), (&json!(false), &json!(verdict)), "{case}: {json}");
    assert!(json["reason"].as_str().unwrap().contains(reason), "{case}: {json}");
}

fn rewrite(world: &World, change: impl FnOnce(&mut Vec<u8>)) {
    let file = world.path("runs.db");
    let mut bytes = std::fs::read(&file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn sound_store_has_a_verdict_too() {
    let world = world();
    let human = check(&world, "human");
    assert_eq!(human.code(), 0, "{}", human.stderr());
    assert!(human.stdout().starts_with("ok: 3 runs, "), "{}", human.stdout());
    let json = check(&world, "json").json();
    assert_eq!((&json["ok"], &json["verdict"]), (&json!(true), &json!("ok")));
    assert_eq!((&json["reason"], &json["runs"]), (&Value::Null, &json!(3)));
}

#[test]
fn every_damage_has_a_verdict_with_a_reason() {
    let world = world();
    let sound = std::fs::read(world.path("runs.db")).unwrap();
    let half = sound.len() / 2;
    let cases: [(&str, &str, Damage); 5] = [
        ("truncated", "", Box::new(move |bytes| bytes.truncate(half))),
        ("zeroed magic", "its header is damaged", Box::new(|it| it[..16].fill(0))),
        ("zeroed header", "its header is damaged", Box::new(|it| it[..100].fill(0))),
        ("garbage pages", "", Box::new(move |bytes| bytes[half..].fill(0xA5))),
        ("empty", "the file holds no store", Box::new(Vec::clear)),
    ];
    for (case, reason, change) in cases {
        rewrite(&world, change);
        assert_verdict(&world, 1, "damaged", reason, case);
        std::fs::write(world.path("runs.db"), &sound).unwrap();
    }
    assert_eq!(check(&world, "human").code(), 0);
}

#[test]
fn other_files_are_told_apart() {
    let world = world();
    let sound = std::fs::read(world.path("runs.db")).unwrap();
    // Bytes 68 to 71 are the application id.
    rewrite(&world, |bytes| bytes[68..72].fill(7));
    assert_verdict(&world, 1, "damaged", "its header is damaged", "application id");
    std::fs::write(
        world.path("runs.db"),
        "just some notes that are longer than a header".repeat(9),
    )
    .unwrap();
    assert_verdict(&world, 2, "not_a_store", "is not a database", "no database");
    std::fs::write(world.path("runs.db"), &sound[..10]).unwrap();
    assert_verdict(&world, 2, "not_a_store", "is not a database", "cut to less than a header");
    std::fs::remove_file(world.path("runs.db")).unwrap();
    let other = rusqlite::Connection::open(world.path("runs.db")).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(other);
    assert_verdict(&world, 2, "not_a_store", "database of another program", "other tables");
    std::fs::write(world.path("runs.db"), sound).unwrap();
    let newer = std::fs::File::options().write(true).open(world.path("runs.db")).unwrap();
    // Bytes 60 to 63 are the version of the tables.
    newer.write_all_at(&999_u32.to_be_bytes(), 60).unwrap();
    assert_verdict(&world, 2, "not_checked", "version 999", "newer");
}

#[test]
fn store_that_cannot_be_looked_at_has_a_verdict() {
    let world = world();
    let sound = world.path("runs.db");
    let locked = rusqlite::Connection::open(&sound).unwrap();
    locked.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    assert_verdict(&world, 2, "not_checked", "locked by another process", "locked");
    drop(locked);
    std::fs::remove_file(&sound).unwrap();
    assert_verdict(&world, 2, "not_checked", "there is no store", "missing");
    std::os::unix::fs::symlink("runs.db", &sound).unwrap();
    assert_verdict(&world, 2, "not_checked", "symbolic links", "link to itself");
    std::fs::remove_file(&sound).unwrap();
    std::fs::create_dir(&sound).unwrap();
    assert_verdict(&world, 2, "not_checked", "it is a directory", "directory");
}

#[test]
fn removed_log_of_a_killed_process_is_noticed() {
    let world = world();
    // The store as it is while a process has it open: its log has content that the file has not.
    let store = Store::open(&world.path("runs.db")).unwrap();
    let killed = World::new();
    for name in ["runs.db", "runs.db-wal", "runs.db-shm"] {
        std::fs::copy(world.path(name), killed.path(name)).unwrap();
    }
    drop(store);
    assert_eq!(check(&killed, "human").code(), 0, "with its log it is whole");
    let store = Store::open(&world.path("runs.db")).unwrap();
    for name in ["runs.db", "runs.db-shm"] {
        std::fs::copy(world.path(name), killed.path(name)).unwrap();
    }
    std::fs::remove_file(killed.path("runs.db-wal")).unwrap();
    drop(store);
    assert_verdict(
        &killed,
        1,
        "damaged",
        "the write-ahead log was removed or truncated with",
        "removed log",
    );
}

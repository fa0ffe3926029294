//! Logs that were lost, put back from an older copy, or replaced: none is continued, and the operator is told what to do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use super::engine::copy;
use crate::daemon::support::plan;
use crate::support::{Run, World};

const ADAPTER: [&str; 2] = ["--adapter", "nexus_router_adapter_echo:create_adapter"];

fn world() -> World {
    let world = World::new();
    fs::write(world.path("plan.json"), plan("echo", "t", "m").to_string()).unwrap();
    world
}

fn run(world: &World) -> Run {
    world.run(&["run", "plan.json", "--db", "runs.db", "--id-only", ADAPTER[0], ADAPTER[1]])
}

/// Runs the plan, and returns the id of the run.
fn sealed(world: &World) -> String {
    let run = run(world);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    run.stdout().trim().to_owned()
}

fn assert_refused(run: &Run, said: &str) {
    let told = run.stderr();
    assert_eq!(run.code(), 2, "{}{told}", run.stdout());
    assert!(told.contains("error[LOG_NOT_OF_STORE]") && told.contains(said), "{told}");
    assert!(told.contains("nexus-router evidence begin"), "{told}");
}

fn exported(world: &World, run_id: &str) -> Value {
    world.run(&["runs", "export", run_id, "--db", "runs.db"]).json()
}

/// Returns the bytes of every file below a directory.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_log_put_back_from_an_older_copy_is_not_continued_after_a_restart() {
    for part in ["sealed", "sealed/log"] {
        let world = world();
        sealed(&world);
        copy(&world.path(part), &world.path("old"));
        sealed(&world);
        fs::rename(world.path(part), world.path("new")).unwrap();
        copy(&world.path("old"), &world.path(part));
        if part == "sealed" {
            let keys = world.path("sealed/keys");
            fs::set_permissions(&keys, fs::metadata(world.path("new/keys")).unwrap().permissions())
                .unwrap();
        }
        let before = files(&world.path(part));
        for _ in 0..2 {
            assert_refused(
                &run(&world),
                "the log has 1 entries, and the store has the seal of entry 1",
            );
        }
        assert_eq!(files(&world.path(part)), before, "nothing was signed");
        fs::remove_dir_all(world.path(part)).unwrap();
        fs::rename(world.path("new"), world.path(part)).unwrap();
        sealed(&world);
        let run = world.run(&["evidence", "verify", "--root", "sealed"]);
        assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    }
}

#[test]
fn a_key_is_not_rotated_in_an_older_log() {
    let world = world();
    fs::write(world.path("router.toml"), "db = \"runs.db\"\n").unwrap();
    sealed(&world);
    copy(&world.path("sealed/log"), &world.path("old"));
    sealed(&world);
    let rotate = ["evidence", "keys", "rotate", "log"];
    assert_eq!(world.run(&rotate).code(), 0);
    sealed(&world);
    fs::remove_dir_all(world.path("sealed")).unwrap();
    assert_refused(&world.run(&rotate), "there is no log");
    assert!(!world.path("sealed").exists(), "nothing was made");
}

#[test]
fn another_log_that_has_grown_as_far_is_not_taken_for_the_one_that_was() {
    let (world, other) = (world(), world());
    let run_id = sealed(&world);
    for _ in 0..3 {
        sealed(&other);
    }
    fs::rename(world.path("sealed"), world.path("aside")).unwrap();
    fs::rename(other.path("sealed"), world.path("sealed")).unwrap();
    assert_refused(&run(&world), "entry 0 of the log is not the seal that the store has of it");
    fs::remove_dir_all(world.path("sealed")).unwrap();
    fs::rename(world.path("aside"), world.path("sealed")).unwrap();
    sealed(&world);
    assert!(exported(&world, &run_id)["proof"].is_string());
}

#[test]
fn a_log_that_is_gone_is_begun_anew_only_by_the_word_of_the_operator() {
    let world = world();
    let first = sealed(&world);
    fs::rename(world.path("sealed"), world.path("aside")).unwrap();
    assert_refused(&run(&world), "there is no log, and the store has the seal of entry 0 of one");
    assert!(!world.path("sealed").exists(), "nothing was made");
    let begin = ["evidence", "begin", "--db", "runs.db"];
    let begun = world.run(&begin);
    assert_eq!(begun.code(), 0, "{}", begun.stderr());
    assert!(begun.stdout().contains("is begun"), "{}", begun.stdout());
    let second = sealed(&world);
    // Nobody can prove any more what was sealed in the lost log; the rest goes on.
    assert_eq!(exported(&world, &first).get("proof"), None);
    assert!(exported(&world, &second)["proof"].is_string());
    let run = world.run(&["evidence", "verify", "--root", "sealed"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    // A log that is there is not replaced by it, and the new one is missed like the old one.
    let again = world.run(&begin);
    assert_eq!(again.code(), 2, "{}", again.stdout());
    assert!(again.stderr().contains("there is a log with 1 entries"), "{}", again.stderr());
    fs::remove_dir_all(world.path("sealed")).unwrap();
    assert_refused(&self::run(&world), "there is no log");
}

#[test]
fn a_store_that_is_older_than_its_log_goes_on() {
    let world = world();
    sealed(&world);
    let backup = world.run(&["store", "backup", "copy.db", "--db", "runs.db"]);
    assert_eq!(backup.code(), 0, "{}", backup.stderr());
    sealed(&world);
    let restore = world.run(&["store", "restore", "copy.db", "--db", "runs.db"]);
    assert_eq!(restore.code(), 0, "{}", restore.stderr());
    let run_id = sealed(&world);
    assert!(exported(&world, &run_id)["proof"].is_string());
}

#[test]
fn links_are_followed_only_where_the_operator_put_one() {
    let world = world();
    sealed(&world);
    for part in ["sealed", "sealed/log", "sealed/keys"] {
        fs::rename(world.path(part), world.path("aside")).unwrap();
        symlink(world.path("aside"), world.path(part)).unwrap();
        let refused = run(&world);
        assert_eq!(refused.code(), 2, "{part}: {}", refused.stdout());
        let said = format!("{part}: it is a link, and is not followed");
        assert!(refused.stderr().contains(&said), "{}", refused.stderr());
        assert!(refused.stderr().contains("evidence.directory"), "{}", refused.stderr());
        if part == "sealed/log" {
            let verified = world.run(&["evidence", "verify", "--root", "sealed"]);
            assert_eq!(verified.code(), 1, "{}", verified.stdout());
            assert!(verified.stdout().contains("symlink:log:log"), "{}", verified.stdout());
        }
        fs::remove_file(world.path(part)).unwrap();
        fs::rename(world.path("aside"), world.path(part)).unwrap();
    }
    // The one that router.toml names is the operator's own.
    fs::rename(world.path("sealed"), world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path("named")).unwrap();
    fs::write(world.path("router.toml"), "[evidence]\ndirectory = \"named\"\n").unwrap();
    sealed(&world);
}

#[test]
fn a_lock_that_is_a_pipe_is_not_waited_for() {
    for lock in ["sealed/keys/lock", "sealed/log/lock"] {
        let world = world();
        sealed(&world);
        fs::remove_file(world.path(lock)).unwrap();
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, world.path(lock), kind, mode, 0).unwrap();
        let refused = run(&world);
        assert_eq!(refused.code(), 2, "{}", refused.stdout());
        let said = format!("{lock}: it is no regular file");
        assert!(refused.stderr().contains(&said), "{}", refused.stderr());
    }
}

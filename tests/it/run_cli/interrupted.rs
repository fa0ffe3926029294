//! Runs that are interrupted: by the user, and by the death of their process.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{SUBPROCESS, request, run, write};
use crate::support::{PROGRAM, Run, World, built_directory};

/// A run whose first call has begun, and goes on until it is let go.
pub struct Held {
    pub world: World,
    process: Child,
    hold: PathBuf,
    config: String,
}

impl Held {
    pub fn new() -> Self {
        let world = World::new();
        let [begun, hold] = ["begun", "hold"].map(|name| world.path(name));
        for pipe in [&begun, &hold] {
            rustix::fs::mknodat(rustix::fs::CWD, pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        // The shell tells that it is there by opening a pipe, and then waits for the other one.
        let script = format!(": > '{}'; cat < '{}'", begun.display(), hold.display());
        let config = json!({ "base_cmd": ["/bin/sh", "-c", script, "sh"] }).to_string();
        let file = write(&world, "request.json", &request());
        let process = Command::new(PROGRAM)
            .args(["run", &file, "--db", "runs.db", "--format", "json"])
            .args(["--adapter", SUBPROCESS, "--adapter-config", &config])
            .args(["--isolation", "inline"])
            .current_dir(world.directory.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("NEXUS_ROUTER_CACHE_DIR", world.path("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        File::open(&begun).unwrap().read_to_end(&mut Vec::new()).unwrap();
        Self { world, process, hold, config }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Lets the call go on: whoever waits for the pipe sees its end.
    fn release(&self) {
        drop(File::options().read(true).write(true).open(&self.hold).unwrap());
    }

    /// Kills the process of the run, and lets go of what it had called.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait().unwrap();
        self.release();
    }

    /// Lets the call go on, and waits for the end of the run. Its directory is there until the world is dropped.
    pub fn released(self) -> (Run, World) {
        self.release();
        (Run(self.process.wait_with_output().unwrap()), self.world)
    }

    pub fn run_id(&self) -> String {
        self.listed().lines().nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }

    fn listed(&self) -> String {
        self.world.run(&["runs", "list", "--db", "runs.db"]).stdout()
    }
}

#[test]
fn interrupt_ends_the_run_in_order() {
    for signal in [Signal::INT, Signal::TERM] {
        let held = Held::new();
        assert!(held.listed().contains("RUNNING"), "{}", held.listed());
        held.signal(signal);
        let run = Run(held.process.wait_with_output().unwrap());
        assert_eq!(run.code(), 1, "{}", run.stderr());
        assert!(run.stderr().contains("cancelling the run"), "{}", run.stderr());
        let response = run.json();
        assert_eq!(response["status"], "FAILED");
        assert_eq!(response["results"][0]["error"]["code"], "CANCELLED");
        assert_eq!(response["results"][1]["status"], "skipped");
    }
}

#[test]
fn follower_sees_a_run_to_its_end() {
    let held = Held::new();
    let id = held.run_id();
    let shown = held.world.run(&["runs", "show", &id, "--db", "runs.db"]).stdout();
    assert!(shown.contains("▶ s1  greeter.hello"), "{shown}");
    assert!(shown.contains("○ s2  greeter.bye") && shown.contains("waiting"), "{shown}");
    let followers = [&["--format", "json"][..], &[]].map(|form| {
        Command::new(PROGRAM)
            .args([&["runs", "show", &id, "--db", "runs.db", "--follow"], form].concat())
            .current_dir(held.world.directory.path())
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let (run, _world) = held.released();
    // What was let go says nothing, which is no JSON.
    assert_eq!(run.code(), 1, "{}", run.stderr());
    let [events, lines] = followers.map(|follower| Run(follower.wait_with_output().unwrap()));
    assert_eq!((events.code(), lines.code()), (1, 1), "{}{}", events.stderr(), lines.stderr());
    let last: serde_json::Value =
        serde_json::from_str(events.stdout().lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "RUN_FAILED");
    assert_eq!(events.stdout().lines().count() as u64, run.json()["run"]["events_committed"]);
    assert!(lines.stdout().contains("✗ s1  greeter.hello"), "{}", lines.stdout());
    assert!(lines.stdout().contains("INVALID_JSON_OUTPUT"), "{}", lines.stdout());
}

#[test]
fn next_run_ends_what_is_in_doubt() {
    let mut held = Held::new();
    held.kill();
    let other = run(&held.world, &json!({ "goal": "look" }), &[]);
    assert_eq!(other.code(), 0);
    let told = other.stderr();
    assert!(told.starts_with("ended run ") && told.contains("nobody knows"), "{told}");
    let list = held.world.run(&["runs", "list", "--db", "runs.db", "--format", "json"]).json();
    let summary = json!({ "runs_total": 2, "completed": 1, "failed": 1, "running": 0 });
    assert_eq!(list["summary"], summary);
}

#[test]
fn killed_run_is_recovered() {
    let mut held = Held::new();
    held.kill();
    let world = &held.world;
    let recover = |arguments: &[&str]| {
        let base = ["runs", "recover", "--db", "runs.db", "--format", "json"];
        let run = world.run(&[&base[..], arguments].concat());
        assert_eq!(run.code(), 0, "{}", run.stderr());
        run.json()
    };
    let listed = recover(&["--dry-run"]);
    let left = listed["orphans"][0].as_str().unwrap().to_owned();
    assert_eq!(listed["orphans"].as_array().unwrap().len(), 1);
    let follow = world.run(&["runs", "show", &left, "--db", "runs.db", "--follow"]);
    assert_eq!(follow.code(), 1);
    assert!(follow.stderr().contains("no process executes this run"), "{}", follow.stderr());
    // What the call did is not known, so it is not made again.
    let recovered = recover(&[
        "--adapter",
        SUBPROCESS,
        "--adapter-config",
        &held.config,
        "--isolation",
        "inline",
    ]);
    let run = &recovered["recovered"][0];
    assert_eq!((&run["how"], &run["status"]), (&json!("ended"), &json!("FAILED")));
    assert_eq!((&run["run_id"], &run["in_doubt"]), (&json!(left), &json!(true)));
    assert_eq!(recover(&[])["recovered"], json!([]));
    let shown = world.run(&["runs", "show", &left, "--db", "runs.db"]).stdout();
    assert!(shown.contains("failed    interrupted: "), "{shown}");
    assert_eq!(world.run(&["runs", "replay", &left, "--db", "runs.db"]).code(), 0);
}

//! Whoever is killed, nothing that an adapter started is left behind, and no process stays unburied.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::client::{Response, Wire};
use super::support::{Daemon, Stage, plan, until};

/// A process as the kernel tells of it; its start tells it from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    id: u32,
    pub parent: u32,
    start: u64,
    state: String,
    command: String,
}

impl Seen {
    fn of(id: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        Some(Self {
            id,
            parent: fields[1].parse().ok()?,
            start: fields[19].parse().ok()?,
            state: fields[0].to_owned(),
            command: String::from_utf8_lossy(&command).replace('\0', " "),
        })
    }

    fn is_zombie(&self) -> bool {
        self.state == "Z"
    }

    /// Says whether it runs no more. Whoever inherits it may leave it unburied for a while.
    pub fn is_over(&self) -> bool {
        Self::of(self.id).is_none_or(|now| now.start != self.start || now.is_zombie())
    }

    /// Sends a signal, unless it is gone already.
    pub fn signal(&self, signal: Signal) {
        match kill_process(Pid::from_raw(self.id.cast_signed()).unwrap(), signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("{self:?}: {error}"),
        }
    }

    /// Has it stand still, with all of its threads.
    fn stop(&self) {
        self.signal(Signal::STOP);
        until("it stands still", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.id)).unwrap().flatten();
            let mut stats = threads.map(|one| std::fs::read_to_string(one.path().join("stat")));
            stats.all(|stat| stat.is_ok_and(|stat| stat.contains(") T "))).then_some(())
        });
    }
}

fn all() -> Vec<Seen> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Seen::of).collect()
}

/// Returns the children of a process and theirs, and so on.
pub fn descendants(id: u32) -> Vec<Seen> {
    let (all, mut found) = (all(), Vec::<Seen>::new());
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        for one in all.iter().filter(|one| one.parent == parent) {
            parents.push(one.id);
            found.push(one.clone());
        }
    }
    found
}

/// A daemon with an adapter that runs programs, and one that does not.
struct Yard {
    daemon: Daemon,
    /// How long its programs sleep: nobody else sleeps so long.
    sleep: String,
}

fn program(name: &str) -> PathBuf {
    std::fs::canonicalize(format!("/bin/{name}")).unwrap()
}

fn stage(more: &str) -> Stage {
    let [shell, sleep] = ["sh", "sleep"].map(program);
    Stage::new(&format!(
        "{more}\n[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
         [[adapters]]\nref = \"escape_adapters:escapes_external\"\ngrants = {{ run = [{shell:?}, {sleep:?}] }}\n\
         [[adapters]]\nref = \"probe_adapters:many_calls\"\nid = \"many\"\ntimeout_ms = 300\n"
    ))
}

/// A program that sleeps, beside others that were left to themselves by their parents.
const CROWD: &str = "(SLEEP &); ( (SLEEP & SLEEP) & ); trap '' TERM HUP INT; SLEEP; echo over";
/// How many processes are in it that sleep.
const SLEEPERS: usize = 4;

impl Yard {
    fn new(more: &str) -> Self {
        Self::of(stage(more).start(&[]))
    }

    fn of(daemon: Daemon) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let yard = Self { daemon, sleep: format!("1000.{}{next:03}", std::process::id()) };
        yard.daemon.assert_alive();
        yard
    }

    /// Starts the programs, and waits until all of them sleep. The answer is left on the wire.
    fn begin(&self) -> Wire {
        let sleep = format!("{} {}", program("sleep").display(), self.sleep);
        let script = CROWD.replace("SLEEP", &sleep);
        let wire = self.daemon.post("/v1/runs", &running(&script)).begin();
        until("the programs", || (self.sleepers().len() == SLEEPERS).then_some(()));
        wire
    }

    fn sleepers(&self) -> Vec<Seen> {
        let is_sleep = |one: &Seen| one.command.split(' ').nth(1) == Some(self.sleep.as_str());
        all().into_iter().filter(is_sleep).collect()
    }

    /// The guard of the adapter that runs programs, and its worker.
    fn guard_and_worker(&self) -> [Seen; 2] {
        let tree = descendants(self.daemon.process_id());
        let guard = tree.iter().find(|one| one.command.trim_end().ends_with(" guard")).unwrap();
        let is_worker =
            |one: &&Seen| one.parent == guard.id && one.command.contains("__adapter-child");
        [guard.clone(), tree.iter().find(is_worker).unwrap().clone()]
    }

    /// Asserts that all of these are gone, that the daemon has buried them, and that it serves.
    fn assert_clean(&self, before: &[Seen]) {
        until("they end", || before.iter().all(Seen::is_over).then_some(()));
        let daemon = self.daemon.process_id();
        until("no zombies", || (!descendants(daemon).iter().any(Seen::is_zombie)).then_some(()));
        self.daemon.assert_alive();
        let run = self.daemon.post("/v1/runs", &running("echo alive")).ok();
        assert_eq!(run["results"][0]["output"]["data"]["out"], "alive\n", "{run}");
    }
}

fn running(script: &str) -> Value {
    let mut plan = plan("escapes", "escape", "run");
    plan["plan_override"][0]["call"]["args"] =
        json!({ "path": program("sh"), "args": ["-c", script] });
    plan
}

/// Asserts that a call was lost with its worker.
fn assert_crashed(answer: &Response, says: &str) {
    let problem = answer.json();
    assert_eq!(problem["code"], "ADAPTER_CRASHED", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
}

#[test]
fn nothing_is_left_of_a_daemon_that_is_killed() {
    let mut yard = Yard::new("");
    let _waiting = yard.begin();
    let before = descendants(yard.daemon.process_id());
    assert!(before.len() >= 3 + SLEEPERS, "{before:#?}");
    yard.daemon.kill();
    until("all end", || before.iter().all(Seen::is_over).then_some(()));
    assert_eq!(yard.sleepers(), []);
}

#[test]
fn nothing_is_left_of_a_daemon_that_is_stopped() {
    let mut yard = Yard::new("[server]\ndrain_ms = 200");
    let _waiting = yard.begin();
    let before = descendants(yard.daemon.process_id());
    yard.daemon.stop();
    until("all end", || before.iter().all(Seen::is_over).then_some(()));
    assert_eq!(yard.sleepers(), []);
}

#[test]
fn programs_end_with_the_worker_that_started_them() {
    let yard = Yard::new("");
    let mut waiting = yard.begin();
    let before = [&yard.guard_and_worker()[..], &yard.sleepers()].concat();
    yard.guard_and_worker()[1].signal(Signal::KILL);
    assert_crashed(&waiting.response(), "SIGKILL (signal 9)");
    yard.assert_clean(&before);
}

#[test]
fn programs_end_with_the_guard_of_their_worker() {
    let yard = Yard::new("");
    let mut waiting = yard.begin();
    let before = [&yard.guard_and_worker()[..], &yard.sleepers()].concat();
    yard.guard_and_worker()[0].signal(Signal::KILL);
    assert_crashed(&waiting.response(), "SIGKILL (signal 9)");
    yard.assert_clean(&before);
}

#[test]
fn a_program_that_is_killed_is_an_answer_like_any_other() {
    let yard = Yard::new("");
    let mut waiting = yard.begin();
    let shell = yard.guard_and_worker()[1].id;
    let shell = descendants(shell).into_iter().find(|one| one.command.contains("-c")).unwrap();
    let started = descendants(shell.id).into_iter().find(|one| one.parent == shell.id).unwrap();
    started.signal(Signal::KILL);
    // The others hold the pipe; when they have ended, the call has.
    yard.sleepers().iter().for_each(|one| one.signal(Signal::KILL));
    let run = waiting.response().json();
    let data = &run["results"][0]["output"]["data"];
    assert_eq!((&data["code"], &data["out"]), (&json!(0), &json!("over\n")), "{run}");
    let worker = yard.daemon.get("/v1/adapters/escapes").ok();
    assert_eq!((&worker["restarts"], &worker["state"]), (&json!(0), &json!("serving")));
}

#[test]
fn a_worker_that_stands_still_costs_its_call_and_is_ended() {
    let yard = Yard::new("");
    let quick = || yard.daemon.post("/v1/runs", &plan("many", "t", "m")).ok();
    assert_eq!(quick()["status"], "COMPLETED");
    let mut workers = descendants(yard.daemon.process_id());
    workers.retain(|one| one.parent == yard.daemon.process_id());
    workers.iter().for_each(Seen::stop);
    let error = &quick()["results"][0]["error"];
    assert_eq!(error["code"], "TIMEOUT", "{error}");
    assert_eq!(error["details"]["stopped"], false, "{error}");
    assert_eq!(quick()["status"], "COMPLETED");
    until("one is ended", || workers.iter().any(Seen::is_over).then_some(()));
    workers.iter().filter(|one| !one.is_over()).for_each(|one| one.signal(Signal::CONT));
    yard.assert_clean(&[]);
}

#[test]
fn a_daemon_whose_children_leave_no_status_goes_on() {
    let mut yard = Yard::of(stage("").start_ignoring("CHLD"));
    let status = format!("/proc/{}/status", yard.daemon.process_id());
    let status = std::fs::read_to_string(status).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert!(ignored & 1 << (Signal::CHILD.as_raw() - 1) != 0, "{status}");
    let mut waiting = yard.begin();
    let before = [&yard.guard_and_worker()[..], &yard.sleepers()].concat();
    yard.guard_and_worker()[1].signal(Signal::KILL);
    assert_crashed(&waiting.response(), "SIGKILL (signal 9)");
    yard.assert_clean(&before);
    // Of the guard itself no status is left, and so not how it ended.
    let mut waiting = yard.begin();
    let before = [&yard.guard_and_worker()[..], &yard.sleepers()].concat();
    yard.guard_and_worker()[0].signal(Signal::KILL);
    assert_crashed(&waiting.response(), "");
    yard.assert_clean(&before);
    let _waiting = yard.begin();
    let before = descendants(yard.daemon.process_id());
    yard.daemon.kill();
    until("all end", || before.iter().all(Seen::is_over).then_some(()));
}

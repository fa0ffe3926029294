//! What disks, other processes and other programs do to a store, and what must hold all the same.

mod copies;
mod damage;
#[path = "../hammer/dice.rs"]
mod dice;
mod disk;
mod evidence;
mod kinds;
mod locked;
mod rules;
mod versions;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nexus_router::clock::Timestamp;
use nexus_router::config::Environment;
use nexus_router::mapping::{self, Failure, RunRecord};
use nexus_router::replay;
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::{self, Log, Status, Store};
use nexus_router::{LoadRequest, Loader, Registry};
use serde_json::{Value, json};

use crate::engine::{answers, plan};
use crate::support::{PROGRAM, built_directory};

/// Tells the second process of a test where its place is.
const INSIDE: &str = "NEXUS_ROUTER_FAULT_PLACE";
/// What the second process leaves when it came to its end.
const DONE: &str = "done";

/// So long is waited for what must come, and on a good machine comes at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directory of a test, which a second process may share.
struct Place {
    directory: PathBuf,
    /// Removed by the process that made it.
    _made: Option<tempfile::TempDir>,
}

impl Place {
    fn new() -> Self {
        let made = tempfile::tempdir().unwrap();
        Self { directory: made.path().to_owned(), _made: Some(made) }
    }

    /// A place without a disk, for tests that open very many stores.
    fn new_in_memory() -> Self {
        let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { directory: made.path().to_owned(), _made: Some(made) }
    }

    /// The place of a test's first process, when this is the second.
    fn inside() -> Option<Self> {
        let directory = PathBuf::from(std::env::var_os(INSIDE)?);
        Some(Self { directory, _made: None })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn db(&self) -> PathBuf {
        self.path("runs.db")
    }

    /// A router on the store of the place, which does not wait long for others.
    fn router(&self) -> Router {
        self.router_with(&self.db(), &json!({ "sleep_ms": 600_000 }))
    }

    /// A router on a store; `waits` says what the method of that name does. The adapter `quiet` has no
    /// effects, and `external` leaves a trace of every call.
    fn router_with(&self, db: &Path, waits: &Value) -> Router {
        let responses = json!([
            answers("waits", waits.clone()),
            answers("dies", json!({ "process_dies": true })),
        ]);
        let external = json!({ "capabilities": ["apply", "external"], "responses": responses,
            "traces": self.path("traces") });
        let quiet = json!({ "responses": responses });
        let environment = Environment {
            adapter_path: vec![built_directory()],
            cache_dir: self.path("cache"),
            helper: Some(PROGRAM.into()),
            ..Environment::default()
        };
        let loader = Loader::from_environment(&environment);
        let mut registry = Registry::new("quiet");
        for (adapter_id, config) in [("quiet", quiet), ("external", external)] {
            let request = LoadRequest {
                factory_ref: "probe_adapters:fake",
                adapter_id: Some(adapter_id),
                config: &config,
                pin: None,
            };
            registry.register(loader.load(&request).unwrap()).unwrap();
        }
        let store = Store::open_with(
            db,
            store::Options { busy: Duration::from_millis(20), ..Default::default() },
        )
        .unwrap();
        Router::new(store, registry, Options { threads: Some(2), ..Options::default() }).unwrap()
    }

    /// How many calls with effects were made.
    fn calls(&self) -> usize {
        std::fs::read_to_string(self.path("traces")).map_or(0, |text| text.lines().count())
    }

    /// Makes the traces a pipe: calls with effects wait until they are released.
    fn hold_calls(&self) -> Held {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        let traces = self.path("traces");
        rustix::fs::mknodat(rustix::fs::CWD, &traces, kind, mode, 0).unwrap();
        Held { traces, opened: None }
    }

    /// Runs a test again in a process of its own, which a shell script prepares: `"$@"` is the process.
    fn again(&self, test: &str, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, &self.directory)
            .stdin(Stdio::null());
        command
    }

    /// Runs a test again to its end.
    fn run_again(&self, test: &str, script: &str) {
        let Output { status, stdout, stderr } = self.again(test, script).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
        assert!(self.path(DONE).exists(), "{test} did not come to its end\n{stdout}");
    }

    /// Says that the second process came to its end.
    fn done(&self) {
        std::fs::write(self.path(DONE), "").unwrap();
    }
}

/// Calls that wait. They are released at the latest when this is dropped, also by a test that fails.
struct Held {
    traces: PathBuf,
    opened: Option<File>,
}

impl Held {
    fn release(&mut self) {
        // Open for both, so that there is no end to wait for.
        let pipe = OpenOptions::new().read(true).write(true).open(&self.traces);
        self.opened = pipe.ok();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.opened.is_none() {
            self.release();
        }
    }
}

fn request(request: &Value) -> Request {
    Request::parse(request.to_string().as_bytes()).unwrap()
}

/// Calls of the adapter with effects, in apply mode.
fn external(methods: &[&str]) -> Value {
    let mut plan = plan(methods);
    plan["dispatch"] = json!({ "adapter_id": "external" });
    plan
}

/// Waits until there is a run of the status, and returns its id.
fn wait_for_run(store: &Store, status: Status) -> String {
    let filter = store::Filter { status: Some(status), ..Default::default() };
    wait_until(|| Some(store.list(&filter).unwrap().runs.pop()?.record.header.run_id))
}

/// Asks until there is an answer; what never comes is a failure, not a test that hangs.
fn wait_until<T>(mut question: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < end, "what was waited for did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Nothing is wrong with a store, and every run in it can be replayed.
fn assert_sound(store: &Store) {
    let health = store.check(|_, _| ()).unwrap();
    assert_eq!(health.findings, []);
    let filter = store::Filter { limit: usize::MAX, ..Default::default() };
    for listed in store.list(&filter).unwrap().runs {
        let log = store.log(&listed.record.header.run_id).unwrap().unwrap();
        assert!(is_sound(&log), "{log:?}");
    }
}

/// Says whether a log has no fault, but perhaps no end yet.
fn is_sound(log: &Log) -> bool {
    let replayed = replay::replay(log);
    let unended = |violation: &replay::Violation| {
        violation.code == "NO_TERMINAL_EVENT" && log.record.progress.status == Status::Running
    };
    replayed.violations.iter().all(unended) && replayed.warnings.is_empty()
}

/// Says whether a namespace of its own can be had; if not, the operator must have said so.
fn namespaces(flags: &str) -> bool {
    let allowed = Command::new("unshare").args([flags, "true"]).status();
    if allowed.is_ok_and(|status| status.success()) {
        return true;
    }
    let known = std::env::var_os("NEXUS_ROUTER_NO_MOUNT").is_some_and(|value| value == "1");
    assert!(known, "no namespace with `unshare {flags}`; NEXUS_ROUTER_NO_MOUNT=1 does without");
    false
}

/// Makes a run record, of a tool spec that is no JSON.
fn run_record() -> RunRecord {
    let nothing = nexus_router::json::Value::Null;
    RunRecord::of_failure(&Failure {
        report: &mapping::unreadable(&mapping::ToolDocument::read(b"{").unwrap_err()),
        intent_id: None,
        tool_id: None,
        tool_version: None,
        intent: &nothing,
        toolspec: &nothing,
        inputs: &nothing,
        started: Timestamp::from_millis(1_800_000_000_000),
        finished: Timestamp::from_millis(1_800_000_000_001),
        logs_ref: "audit",
    })
}

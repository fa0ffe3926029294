//! A daemon with adapters that can be held in a call, and that tell when they are made and shut down.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nexus_router::store::{Status, Store};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::daemon::{Daemon, until};
use crate::support::{PROGRAM, World};

/// A directory in which daemons live, one after the other.
pub struct Home {
    world: World,
}

/// A call that goes on until it is let go, and the client that waits for it.
pub struct Held {
    client: JoinHandle<std::io::Result<Answer>>,
    go: PathBuf,
}

impl Home {
    pub fn new(config: &str) -> Self {
        let home = Self { world: World::new() };
        std::fs::create_dir(home.path("plugins")).unwrap();
        home.configure(config);
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    pub fn directory(&self) -> &Path {
        self.world.directory.path()
    }

    /// Puts another configuration in the place of the one that is there, as a whole.
    pub fn configure(&self, config: &str) {
        let new = self.path("router.toml.new");
        std::fs::write(&new, complete(config)).unwrap();
        std::fs::rename(new, self.path("router.toml")).unwrap();
    }

    /// Makes a token, as an operator does while the daemon runs.
    pub fn make_token(&self, name: &str) {
        let data = self.path("data");
        let run = self.world.run_with(&["token", "new", name, "--scope", "read"], |command| {
            command.env("NEXUS_ROUTER_DATA_DIR", data)
        });
        assert_eq!(run.code(), 0, "{}", run.stderr());
    }

    pub fn start(&self) -> Daemon {
        Daemon::start(PROGRAM.as_ref(), self.directory(), &[]).unwrap()
    }

    /// The entry of an adapter whose method `hold` waits for the file `go-ID`. `more` are lines of its
    /// configuration.
    pub fn fake(&self, id: &str, more: &str) -> String {
        self.fake_of("probe_adapters:fake", id, more)
    }

    /// The same, of another factory.
    pub fn fake_of(&self, factory: &str, id: &str, more: &str) -> String {
        let go = self.path(&format!("go-{id}"));
        format!(
            // Inline: it writes files, and tells the process in which it lives.
            "[[adapters]]\nid = \"{id}\"\nref = \"{factory}\"\nisolation = \"inline\"\n[adapters.config]\n\
             life = \"{}\"\ntraces = \"{}\"\n\
             responses = [{{ tool = \"t\", method = \"hold\", behaviour.wait_for = \
             {{ file = \"{}\", tell = \"let go\" }} }},\n\
             {{ tool = \"t\", method = \"deaf\", behaviour.deaf_ms = 600000 }}]\n{more}\n",
            self.path("life").display(),
            self.path(&format!("traces-{id}")).display(),
            go.display()
        )
    }

    /// Counts what an adapter told of its life in this process: `made` or `shut down`.
    pub fn lives(&self, daemon: &Daemon, what: &str, id: &str) -> usize {
        let told = std::fs::read_to_string(self.path("life")).unwrap_or_default();
        let line = format!("{what} {id} {}", daemon.id());
        told.lines().filter(|told| **told == line).count()
    }

    fn begun(&self, id: &str) -> usize {
        let traces = std::fs::read_to_string(self.path(&format!("traces-{id}")));
        traces.unwrap_or_default().lines().count()
    }

    /// Begins a run whose call goes on until it is let go, and waits until the call is under way.
    pub fn hold(&self, daemon: &Daemon, id: &str) -> Held {
        self.begin(daemon, id, "hold")
    }

    /// Begins a run, and waits until its call is under way and can be seen by others.
    pub fn begin(&self, daemon: &Daemon, id: &str, method: &str) -> Held {
        let running = || self.statuses().iter().filter(|one| **one == Status::Running).count();
        let (before, seen, request) = (self.begun(id), running(), request(id, method));
        let mut client = daemon.client();
        let client = std::thread::spawn(move || client.post("/v1/runs", &request));
        until("the call to begin", || (self.begun(id) > before).then_some(()));
        until("the run to be seen", || (running() > seen).then_some(()));
        Held { client, go: self.path(&format!("go-{id}")) }
    }

    /// Returns the status of every run, the oldest first.
    pub fn statuses(&self) -> Vec<Status> {
        let store = Store::open_read_only(&self.path("data/runs.db")).unwrap();
        let mut runs = store.list(&nexus_router::store::Filter::default()).unwrap().runs;
        runs.reverse();
        runs.iter().map(|run| run.record.progress.status).collect()
    }

    /// Returns what happened to daemons, as lines.
    pub fn audit(&self) -> String {
        let store = Store::open_read_only(&self.path("data/runs.db")).unwrap();
        store.audit_page(0, 10_000).unwrap().join("\n")
    }
}

impl Held {
    /// Lets the call go on, and returns the answer.
    pub fn release(self) -> Answer {
        std::fs::write(&self.go, "").unwrap();
        self.answer()
    }

    pub fn answer(self) -> Answer {
        self.client.join().unwrap().unwrap()
    }

    /// Waits for the client whose connection broke.
    pub fn broken(self) {
        assert!(self.client.join().unwrap().is_err());
    }
}

fn complete(config: &str) -> String {
    // Adapters that tell of their lives write a file when they are made, which no valid one does.
    let lax = config.contains("life = ") && !config.contains("[workers]");
    let config = &match lax {
        true => format!("{config}\n[workers]\nrequire_valid = false\n"),
        false => config.to_owned(),
    };
    // Of the same name, so that a test can say otherwise.
    match config.contains("[[listeners]]") {
        true => config.to_owned(),
        false => {
            format!("{config}\n[[listeners]]\naddress = \"127.0.0.1:0\"\ntokens = false\n")
        }
    }
}

pub fn request(id: &str, method: &str) -> Value {
    json!({
        "goal": "live", "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": id },
        "plan_override": [{ "step_id": "s1", "intent": "do",
            "call": { "tool": "t", "method": method, "args": {} } }],
    })
}

/// Makes calls one after the other until it is over, and counts them.
pub fn call_until(over: &AtomicBool, client: &mut Client, id: &str) -> usize {
    let mut runs = 0;
    while !over.load(Ordering::Relaxed) {
        assert_eq!(quick(client, id), "COMPLETED");
        runs += 1;
    }
    runs
}

/// Carries out a run of one quick call, and returns how it ended.
pub fn quick(client: &mut Client, id: &str) -> String {
    let answer = client.post("/v1/runs", &request(id, "quick")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["status"].as_str().unwrap().to_owned()
}

/// Asks for a reload that must go well, and returns what it says.
pub fn reload(client: &mut Client) -> Value {
    let answer = client.post("/v1/reload", &json!({})).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until the daemon has recorded so many events of a kind.
pub fn audited(client: &mut Client, kind: &str, count: usize) {
    let kind = format!("\"{kind}\"");
    until(&kind, || {
        let audit = client.get("/v1/audit").unwrap().text();
        (audit.matches(&kind).count() >= count).then_some(())
    });
}

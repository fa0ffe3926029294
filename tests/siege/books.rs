//! What was acknowledged, and whether the store has it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nexus_router::store::{Filter, Status, Store};
use rustix::process::Signal;

use crate::crowd::Notes;
use crate::daemon::{Daemon, until};
use crate::scene;

/// What all clients know together.
pub struct Books {
    notes: Vec<Notes>,
    times: Vec<Duration>,
}

impl Books {
    pub fn of(notes: Vec<Notes>) -> Self {
        let mut times: Vec<Duration> =
            notes.iter().flat_map(|notes| notes.times.iter().copied()).collect();
        times.sort_unstable();
        Self { notes, times }
    }

    fn sum(&self, of: impl Fn(&Notes) -> u64) -> u64 {
        self.notes.iter().map(of).sum()
    }

    pub fn acknowledged(&self) -> u64 {
        self.sum(|notes| notes.acknowledged.len() as u64)
    }

    pub fn requests(&self) -> u64 {
        self.sum(|notes| notes.requests)
    }

    pub fn broken(&self) -> u64 {
        self.sum(|notes| notes.broken)
    }

    pub fn runs_with_key(&self) -> u64 {
        self.sum(|notes| notes.keys.len() as u64)
    }

    pub fn keys_told(&self) -> String {
        format!("{} / {}", self.runs_with_key(), self.sum(|notes| notes.retried))
    }

    /// Returns the time within which this share of the runs was answered.
    pub fn time(&self, share: f64) -> Duration {
        let mut rest = self.times.len() as f64 * (1.0 - share);
        for time in self.times.iter().rev() {
            rest -= 1.0;
            if rest <= 0.0 {
                return *time;
            }
        }
        Duration::ZERO
    }

    /// Lets the daemon end, and holds the store against what it had acknowledged.
    pub fn check(&self, directory: &Path, daemon: Daemon) {
        let mut client = daemon.administrator();
        let running = |status: &serde_json::Value| status["runs_in_flight"].as_u64().unwrap();
        until("the end of every run", || {
            (running(&client.get("/v1/status").unwrap().json()) == 0).then_some(())
        });
        client.break_off();
        daemon.signal(Signal::TERM);
        let ended = daemon.ended();
        assert!(ended.success(), "{ended}");
        let file = directory.join("data/runs.db");
        let store = Store::open_read_only(&file).unwrap();
        let runs =
            store.list(&Filter { limit: usize::MAX >> 12, ..Filter::default() }).unwrap().runs;
        let mut known: HashMap<&str, Status> = HashMap::new();
        let mut goals: HashMap<&str, usize> = HashMap::new();
        for run in &runs {
            let (header, progress) = (&run.record.header, &run.record.progress);
            assert_ne!(progress.status, Status::Running, "{}", header.run_id);
            known.insert(&header.run_id, progress.status);
            *goals.entry(&header.goal).or_default() += 1;
        }
        let mut seen = HashSet::new();
        for notes in &self.notes {
            for (run_id, told) in &notes.acknowledged {
                let status = known.get(run_id.as_str());
                let status = status.unwrap_or_else(|| panic!("run {run_id} is lost"));
                if let Some(told) = told {
                    assert_eq!(told, status.name(), "{run_id}");
                }
            }
            for (key, run_id) in &notes.keys {
                assert_eq!(goals.get(key.as_str()), Some(&1), "{key} has not one run");
                assert!(seen.insert(run_id), "{run_id} belongs to two keys");
            }
        }
        for words in [&["runs", "replay", "--all"][..], &["store", "check"]] {
            let run = Command::new(scene::program())
                .args(words)
                .arg("--db")
                .arg(&file)
                .current_dir(directory)
                .output()
                .unwrap();
            assert!(run.status.success(), "{words:?}: {run:?}");
        }
    }
}

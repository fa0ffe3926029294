//! What must be true of a store after its process was killed.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use nexus_router::event::Line;
use nexus_router::registry::Registry;
use nexus_router::replay;
use nexus_router::router::{How, Resumable, Router};
use nexus_router::store::{Filter, Log, Status, Store};
use serde_json::Value;

use crate::stage::{self, EXTERNAL, Stage};
use crate::victim::Acknowledged;

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub acknowledged: usize,
    pub runs: usize,
    pub calls: usize,
    pub resumed: usize,
    pub in_doubt: usize,
    pub ended: usize,
}

/// What is known of one store, over all the processes that wrote to it.
pub struct Ledger {
    pub store: PathBuf,
    stage: Stage,
    registry: Registry,
    /// Every call that was made, by its name.
    calls: HashSet<String>,
    /// How much of the traces was read.
    read: u64,
    runs: HashSet<String>,
    pub tally: Tally,
}

/// A store that is looked after while others may still use it.
pub struct Recovery {
    router: Router,
    /// The runs that were taken over.
    pub recovered: Vec<String>,
}

impl Ledger {
    pub fn new(stage: &Stage, store: PathBuf, registry: Registry) -> Self {
        Self {
            store,
            stage: stage.clone(),
            registry,
            calls: HashSet::new(),
            read: 0,
            runs: HashSet::new(),
            tally: Tally::default(),
        }
    }

    /// Begins a round. The traces so far were looked at, or are of another store.
    pub fn begin(&mut self) {
        self.read = std::fs::metadata(self.stage.traces()).map_or(0, |traces| traces.len());
    }

    /// Looks at the store as the killed process left it, then takes over what it left.
    pub fn recover(&mut self) -> Recovery {
        let traces = self.new_traces();
        if !traces.is_empty() {
            let store = Store::open_read_only(&self.store).unwrap();
            self.assert_on_record(&store, &traces);
        }
        let router = stage::router(&self.store, self.registry.clone());
        let mut recovered = Vec::new();
        for one in router.recover_blocking(Resumable::Resume).unwrap() {
            match &one.how {
                How::Resumed => self.tally.resumed += 1,
                How::Ended { in_doubt: true, .. } => self.tally.in_doubt += 1,
                How::Ended { .. } => self.tally.ended += 1,
                how => panic!("run {} was left: {how:?}", one.run_id),
            }
            assert_ne!(one.status, Status::Running, "{one:?}");
            recovered.push(one.run_id);
        }
        assert_eq!(router.store().orphans().unwrap(), Vec::<String>::new());
        Recovery { router, recovered }
    }

    /// Holds the store against all that was answered, when nobody else uses it any more.
    pub fn settle(&mut self, recovery: &Recovery, answers: &[Acknowledged]) {
        let store = recovery.router.store();
        let traces = self.new_traces();
        self.assert_on_record(store, &traces);
        for answer in answers {
            let Acknowledged { run_id, status, events } = answer;
            let record = store.find(run_id).unwrap();
            let progress = record.unwrap_or_else(|| panic!("{answer:?} is lost")).progress;
            assert_eq!((progress.status, progress.events), (*status, *events), "{run_id}");
        }
        self.tally.acknowledged += answers.len();
        for log in self.new_runs(store) {
            self.assert_sound(&log);
        }
        let counted = store.list(&Filter::default()).unwrap().counted;
        assert_eq!((counted.running, counted.total), (0, self.runs.len() as u64));
        let owners = std::fs::read_dir(format!("{}-owners", self.store.display())).unwrap();
        assert_eq!(owners.count(), 1, "only this process has the store open");
    }

    /// Checks every byte of the store.
    pub fn check(&self) {
        let health = Store::open_read_only(&self.store).unwrap().check(|_, _| ()).unwrap();
        assert_eq!(health.findings, [], "{health:?}");
        assert_eq!(health.runs, self.runs.len() as u64);
    }

    fn new_runs(&mut self, store: &Store) -> Vec<Log> {
        let total = store.list(&Filter::default()).unwrap().counted.total;
        let new = usize::try_from(total).unwrap() - self.runs.len();
        // A few more, in case the clock was set back.
        let filter = Filter { limit: new + 64, ..Filter::default() };
        let listed = store.list(&filter).unwrap().runs.into_iter();
        let ids = listed.map(|listed| listed.record.header.run_id);
        let ids: Vec<String> = ids.filter(|run_id| self.runs.insert(run_id.clone())).collect();
        assert_eq!(ids.len(), new, "every run is listed");
        self.tally.runs += new;
        ids.iter().map(|run_id| store.log(run_id).unwrap().unwrap()).collect()
    }

    fn new_traces(&mut self) -> Vec<String> {
        let Ok(mut file) = File::open(self.stage.traces()) else { return Vec::new() };
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        // A line is written at once; one without an end is still on its way.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let traces: Vec<String> = text[..whole].lines().map(str::to_owned).collect();
        for call in &traces {
            assert!(self.calls.insert(call.clone()), "call {call} was made twice");
        }
        self.tally.calls += traces.len();
        traces
    }

    /// A call that was made is on record.
    fn assert_on_record(&self, store: &Store, calls: &[String]) {
        let mut requested: HashMap<&str, HashSet<String>> = HashMap::new();
        for call in calls {
            let (run_id, index) = call.rsplit_once('/').unwrap();
            let known = requested.entry(run_id).or_insert_with(|| {
                let log = store.log(run_id).unwrap();
                let log =
                    log.unwrap_or_else(|| panic!("call {call} is of a run that is not there"));
                let of = |(kind, payload): &(String, Value)| {
                    kind == "TOOL_CALL_REQUESTED" && is_external(payload)
                };
                payloads(&log)
                    .into_iter()
                    .filter(of)
                    .map(|(_, payload)| step_of(&payload))
                    .collect()
            });
            let step = format!("s{}", index.parse::<usize>().unwrap() + 1);
            assert!(known.contains(&step), "call {call} was made, and is not on record");
        }
    }

    /// A run is over, its log is without a fault, and what it says was done was done.
    fn assert_sound(&self, log: &Log) {
        let run_id = &log.record.header.run_id;
        assert_ne!(log.record.progress.status, Status::Running, "{run_id}");
        let replayed = replay::replay(log);
        assert_eq!(
            (&replayed.violations[..], &replayed.warnings[..]),
            (&[][..], &[][..]),
            "{run_id}"
        );
        for (kind, payload) in payloads(log) {
            let answered = kind == "TOOL_CALL_SUCCEEDED" && log.record.header.mode == "apply";
            if answered && is_external(&payload) {
                let step = step_of(&payload);
                let index = step[1..].parse::<usize>().unwrap() - 1;
                let call = format!("{run_id}/{index}");
                assert!(self.calls.contains(&call), "call {call} is on record, and was not made");
            }
        }
    }
}

fn payloads(log: &Log) -> Vec<(String, Value)> {
    log.lines()
        .map(|line| Line::read(line).unwrap())
        .map(|line| (line.kind.into_owned(), serde_json::from_str(line.payload).unwrap()))
        .collect()
}

fn is_external(payload: &Value) -> bool {
    payload["adapter_id"] == EXTERNAL
}

fn step_of(payload: &Value) -> String {
    payload["step_id"].as_str().unwrap().to_owned()
}

//! Brings a bundle into a store: all of it, or nothing.

use super::Error;
use super::export::{Provenance, Source, splice};
use super::lines::renamed;
use super::prepare::{Prepared, prepare, prepare_lines};
use super::read::Bundle;
use super::transcode::{Transcoded, transcode};
use crate::clock::Timestamp;
use crate::id;
use crate::json::{self, Limits, Object, Value};
use crate::replay::{self, Replay, Strictness};
use crate::request::ImportMode;
use crate::store::{self, Conflict, Log, NewRun, Progress, Replaced, RunRecord, Store};
use crate::view::View;

/// How to import a bundle.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// What happens when the store has a run of that id.
    pub mode: ImportMode,
    /// The id to import under, with [`ImportMode::NewRunId`]; a fresh one if absent.
    pub new_run_id: Option<String>,
    /// What is done with the digests that the bundle states.
    pub check: Check,
    /// Whether the run is replayed.
    pub replays: Replays,
    /// The time of the import.
    pub now: Timestamp,
}

impl ImportOptions {
    /// Returns the options that are meant when none are given.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self {
            mode: ImportMode::RejectOnConflict,
            new_run_id: None,
            check: Check::Verify,
            replays: Replays::Report,
            now,
        }
    }
}

/// What is done with the digests that a bundle states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// They must be those of its run and events.
    #[default]
    Verify,
    /// Nothing.
    Skip,
}

/// Whether a run is replayed before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replays {
    /// It is not.
    Never,
    /// It is, and what was found is reported.
    #[default]
    Report,
    /// It is, and a run with violations is not imported.
    Refuse,
}

/// What became of an import.
#[derive(Clone, Debug)]
pub enum Imported {
    /// The run is stored.
    Stored {
        /// Its id in this store.
        run_id: String,
        /// How many events it has.
        events: u64,
        /// The id that was asked for, if another run had it and a fresh one was taken.
        taken: Option<String>,
        /// Whether it replaced another run.
        replaced: Replaced,
        /// What its replay found.
        replay: Option<Box<Replay>>,
    },
    /// Nothing was changed, for there is a run of the same id.
    Skipped {
        /// That run.
        existing_run_id: String,
        /// Whether it is the same in all that a bundle says.
        identical: bool,
    },
}

impl Imported {
    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut response = Object::new();
        match self {
            Self::Stored { run_id, events, taken, replay, .. } => {
                response.insert("status", "ok");
                response.insert("imported_run_id", run_id.as_str());
                response.insert("events_inserted", *events);
                if let Some(taken) = taken {
                    response.insert("conflict", conflict(taken));
                }
                if let Some(replay) = replay {
                    response.insert("replay_ok", replay.is_ok(Strictness::Strict));
                    for (name, list) in
                        [("violations", &replay.violations), ("warnings", &replay.warnings)]
                    {
                        if !list.is_empty() {
                            response.insert(name, replay::listed(list));
                        }
                    }
                }
            }
            Self::Skipped { existing_run_id, identical } => {
                let mut conflict = conflict(existing_run_id);
                conflict.insert("identical", *identical);
                response.insert("status", "skipped");
                response.insert("conflict", conflict);
            }
        }
        response.into()
    }
}

fn conflict(existing_run_id: &str) -> Object {
    let mut conflict = Object::new();
    conflict.insert("reason", "run_id_exists");
    conflict.insert("existing_run_id", existing_run_id);
    conflict
}

/// Imports a bundle from its text.
///
/// # Errors
/// When it is not a sound bundle, or the store cannot be written. Then nothing was changed.
pub fn import(store: &Store, text: &[u8], options: &ImportOptions) -> Result<Imported, Error> {
    if let Some(Transcoded { frame, texts }) = transcode(text)
        && let Ok(bundle) = Bundle::read(&frame)
        && let Some(prepared) = prepare_lines(bundle, texts, options.check)
    {
        return put(store, prepared?, options);
    }
    // What is wrong with it, if anything, this way finds out.
    import_value(store, &json::parse(text, Limits::BUNDLE)?, options)
}

/// Imports a bundle that was parsed already.
///
/// # Errors
/// When it is not a sound bundle, or the store cannot be written. Then nothing was changed.
pub fn import_value(
    store: &Store,
    bundle: &Value,
    options: &ImportOptions,
) -> Result<Imported, Error> {
    put(store, prepare(Bundle::read(bundle)?, options.check)?, options)
}

fn put(store: &Store, prepared: Prepared<'_>, options: &ImportOptions) -> Result<Imported, Error> {
    let source_run_id = prepared.frame.header.run_id.clone();
    let mut new = NewRun {
        progress: unread(&prepared),
        origin: origin(&prepared, options.now),
        header: prepared.frame.header,
        body: prepared.lines.body,
    };
    if options.mode == ImportMode::NewRunId {
        let wanted = options.new_run_id.clone().filter(|run_id| !run_id.is_empty());
        let wanted = wanted.unwrap_or_else(id::run_id);
        if wanted != source_run_id {
            rename(&mut new, wanted);
        }
    }
    let mut replay = examine(&mut new, options.replays)?;
    let conflict = match options.mode {
        ImportMode::Overwrite => Conflict::Overwrite,
        ImportMode::RejectOnConflict | ImportMode::NewRunId => Conflict::Refuse,
    };
    let mut taken = None;
    loop {
        let (run_id, events) = (new.header.run_id.clone(), new.progress.events);
        let source = Source::of(store);
        let now = options.now;
        let archive = move |log: &Log| splice(log, &source, Provenance::Include, now).text;
        let kept = (options.mode == ImportMode::NewRunId).then(|| new.clone());
        let (header, progress) = (new.header.clone(), new.progress.clone());
        let existing = match store.import(new, conflict, archive)? {
            store::Imported::Stored(replaced) => {
                let replay = replay.map(Box::new);
                return Ok(Imported::Stored { run_id, events, taken, replaced, replay });
            }
            store::Imported::Exists(existing) => existing,
        };
        let Some(again) = kept else {
            let record = &existing.record;
            let identical = record.header == header
                && record.progress.status == progress.status
                && record.progress.head == progress.head;
            return Ok(Imported::Skipped { existing_run_id: run_id, identical });
        };
        // The id is another run's. A fresh one is not, so this is done once.
        new = again;
        rename(&mut new, id::run_id());
        replay = examine(&mut new, options.replays)?;
        taken.get_or_insert(run_id);
    }
}

fn origin(prepared: &Prepared<'_>, now: Timestamp) -> String {
    let mut origin = Object::new();
    origin.insert("bundle_digest", prepared.digest.to_string());
    origin.insert("exported_at", prepared.frame.exported_at);
    origin.insert("imported_at", now.to_string());
    origin.insert("source_run_id", prepared.frame.header.run_id.as_str());
    json::to_canonical(&origin.into())
}

/// Returns what is known of the run before its events are read.
fn unread(prepared: &Prepared<'_>) -> Progress {
    Progress {
        status: prepared.frame.status,
        steps_planned: 0,
        steps_executed: 0,
        tools_used: Vec::new(),
        outcome: None,
        last_failure_reason: None,
        events: prepared.lines.events,
        head: prepared.lines.head,
    }
}

fn rename(new: &mut NewRun, run_id: String) {
    let lines = renamed(&new.body, &run_id);
    new.body = lines.body;
    new.progress.head = lines.head;
    new.header.run_id = run_id;
}

/// Reads the events: for the columns beside them, and to see whether they can be true.
fn examine(new: &mut NewRun, replays: Replays) -> Result<Option<Replay>, Error> {
    let record = RunRecord {
        header: new.header.clone(),
        progress: new.progress.clone(),
        origin: None,
        owned: false,
        waits: false,
    };
    let mut log = Log { record, bodies: vec![std::mem::take(&mut new.body)] };
    let replay = match replays {
        Replays::Never => {
            View::of(&log).summarise(&mut new.progress);
            None
        }
        Replays::Report | Replays::Refuse => {
            let replay = replay::replay_chained(&log);
            replay.view.summarise(&mut new.progress);
            Some(replay)
        }
    };
    new.body = log.bodies.pop().unwrap_or_default();
    match replay {
        Some(replay) if replays == Replays::Refuse && !replay.violations.is_empty() => {
            Err(Error::ReplayFailed(replay.violations))
        }
        replay => Ok(replay),
    }
}

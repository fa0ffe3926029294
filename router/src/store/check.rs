//! Whether a store is sound: the file, the chains, and the numbers kept beside them.

use rusqlite::Connection;

use super::error::CORRUPT_STRUCTURE;
use super::record::{Header, Status};
use super::schema::{self, Layout, POSITION_BITS};
use super::{Error, Store, approvals, audit, held_arguments, reader, run_records, visible};
use crate::digest::Digest;
use crate::event::{Fact, Kind, Line};

/// More findings would not be read.
const MAX_FINDINGS: usize = 100;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The run, if it concerns one.
    pub run_id: Option<String>,
    /// What is wrong.
    pub problem: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Runs that were looked at.
    pub runs: u64,
    /// Events that were looked at.
    pub events: u64,
    /// Lines of the audit log that were looked at.
    pub audit: u64,
    /// Run records that were looked at.
    pub run_records: u64,
    /// Whether the file was moved, copied or restored since it was created or adopted last.
    pub moved: bool,
    /// What is wrong; empty when all is well.
    pub findings: Vec<Finding>,
}

impl Health {
    pub(super) fn find(&mut self, run_id: Option<&str>, problem: String) {
        if self.findings.len() < MAX_FINDINGS {
            let run_id = run_id.map(str::to_owned);
            self.findings.push(Finding { run_id, problem });
        }
    }

    /// Makes damage a finding: what cannot be read does not keep the rest from being looked at.
    fn told(&mut self, run_id: Option<&str>, looked_at: Result<(), Error>) -> Result<(), Error> {
        match looked_at {
            Err(Error::Damaged(problem)) => self.find(run_id, problem),
            looked_at => looked_at?,
        }
        Ok(())
    }
}

impl Store {
    /// Checks the whole store; `progress` hears how many runs are done, and of how many.
    ///
    /// # Errors
    /// When the store cannot be read at all.
    pub fn check(
        &self,
        mut progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Health, Error> {
        let (python, in_memory) = (self.is_python(), self.path().is_none());
        let moved = self.is_moved().unwrap_or_default();
        self.read(move |connection| {
            let mut health = Health { moved, ..Health::default() };
            file(connection, &mut health)?;
            if python || !health.findings.is_empty() {
                return Ok(health);
            }
            // No other program could have changed those of a store in memory.
            if !in_memory {
                rules(connection, &mut health)?;
            }
            let total: i64 =
                connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?;
            let mut ids = connection.prepare("SELECT run_id FROM runs ORDER BY run_no")?;
            let ids = ids.query_map([], |row| row.get::<_, String>(0))?;
            for run_id in ids {
                let run_id = run_id?;
                let looked_at = run(connection, &run_id, &mut health);
                health.told(Some(&run_id), looked_at)?;
                progress(health.runs, total.cast_unsigned());
            }
            let looked_at = numbers(connection, &mut health);
            health.told(None, looked_at)?;
            let looked_at = visible::check(connection, &mut health);
            health.told(None, looked_at)?;
            let looked_at = approvals::check(connection, &mut health);
            health.told(None, looked_at)?;
            let looked_at = held_arguments::check(connection, &mut health);
            health.told(None, looked_at)?;
            let looked_at = audit::check(connection, &mut health);
            health.told(None, looked_at)?;
            let looked_at = run_records::check(connection, &mut health);
            health.told(None, looked_at)?;
            Ok(health)
        })
    }
}

/// Files up to this size are examined before a daemon starts; larger ones meanwhile.
const EXAMINED_AT_START: i64 = 16 * 1024 * 1024;

/// Larger files are not examined at all without `store check`.
const EXAMINED: i64 = 1024 * 1024 * 1024;

impl Store {
    /// Refuses a file whose structure is damaged. A large file is examined by a thread of its own, which marks the store as
    /// damaged; one of more than a gibibyte is not examined.
    ///
    /// # Errors
    /// When the file is damaged, or cannot be read.
    pub fn refuse_damaged(&self) -> Result<(), Error> {
        if self.path().is_none() {
            return Ok(());
        }
        let size = self.read(|connection| {
            let pragma = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            Ok(pragma("PRAGMA page_count")?.saturating_mul(pragma("PRAGMA page_size")?))
        })?;
        if size <= EXAMINED_AT_START {
            return self.examine();
        }
        if size <= EXAMINED {
            let store = self.clone();
            let examine = move || drop(store.examine());
            let thread = std::thread::Builder::new().name("store-check".to_owned());
            if let Err(error) = thread.spawn(examine) {
                tracing::warn!(%error, "cannot examine the store");
            }
        }
        Ok(())
    }

    fn examine(&self) -> Result<(), Error> {
        self.read(|connection| {
            let said: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            match said.as_str() {
                "ok" => Ok(()),
                problem => Err(Error::Damaged(format!("{CORRUPT_STRUCTURE}: {problem}"))),
            }
        })
    }
}

fn file(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    let mut query = connection.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(0)?;
        if said != "ok" {
            health.find(None, said);
        }
    }
    Ok(())
}

/// The tables, and the triggers that keep what is recorded, are those that the file's version has.
fn rules(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    let mut fresh = Connection::open_in_memory()?;
    let transaction = fresh.transaction()?;
    // Whoever only reads leaves a file of an older version as it is.
    let version = match schema::layout(connection)? {
        Layout::Ours(version) => version,
        _ => schema::VERSION,
    };
    schema::make(&transaction, version)?;
    let (found, made) = (schema::texts(connection)?, schema::texts(&transaction)?);
    for (name, sql) in &made {
        match found.get(name) {
            None => health.find(None, format!("{name} is missing")),
            Some(text) if text != sql => health.find(None, format!("{name} was changed")),
            Some(_) => {}
        }
    }
    for name in found.keys().filter(|name| !made.contains_key(*name)) {
        health.find(None, format!("{name} is not of this program"));
    }
    Ok(())
}

fn run(connection: &Connection, run_id: &str, health: &mut Health) -> Result<(), Error> {
    let Some((run_no, record)) = reader::find(connection, run_id)? else { return Ok(()) };
    health.runs += 1;
    let (mut events, mut head, mut last) = (0, Digest::ZERO, None);
    for body in reader::bodies(connection, run_no)? {
        for line in body.lines() {
            head = head.chain(line);
            match Line::read(line) {
                Ok(event) if event.run_id != run_id => {
                    health.find(Some(run_id), format!("event {events} is of run {}", event.run_id));
                }
                Ok(event) => {
                    last = Kind::from_name(&event.kind);
                    if events == 0 && record.origin.is_none() {
                        beginning(&event, &record.header, health);
                    }
                }
                Err(error) => health.find(Some(run_id), format!("event {events}: {error}")),
            }
            events += 1;
        }
    }
    health.events += events;
    let progress = &record.progress;
    if events != progress.events {
        let problem = format!("{events} events are stored, and {} recorded", progress.events);
        health.find(Some(run_id), problem);
    }
    if head != progress.head {
        let problem = format!("the chain ends with {head}, and {} is recorded", progress.head);
        health.find(Some(run_id), problem);
    }
    let said = match last {
        Some(Kind::RunCompleted) => Status::Completed,
        Some(kind) if kind.is_terminal() => Status::Failed,
        _ => Status::Running,
    };
    // A foreign log may say what it likes; replay reports it.
    if record.origin.is_none() && said != progress.status {
        let problem = format!("the status is {}, against the log", progress.status.name());
        health.find(Some(run_id), problem);
    }
    Ok(())
}

/// What is kept beside the events is what the first of them says.
fn beginning(event: &Line<'_>, header: &Header, health: &mut Health) {
    let run_id = Some(header.run_id.as_str());
    let Ok(Fact::RunStarted(started)) = Fact::read(Kind::RunStarted, event.payload) else {
        return health.find(run_id, "the first event cannot be read".to_owned());
    };
    let said = [started.mode.as_deref(), started.goal.as_deref()];
    if said != [Some(header.mode.as_str()), Some(header.goal.as_str())] {
        health.find(run_id, "the mode or the goal is another than in the log".to_owned());
    }
}

fn numbers(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    for status in Status::ALL {
        let one =
            |sql: &str| connection.query_row(sql, [status.name()], |row| row.get::<_, i64>(0));
        let kept = one("SELECT runs FROM counts WHERE status = ?1")?;
        let real = one("SELECT count(*) FROM runs WHERE status = ?1")?;
        if kept != real {
            let problem = format!("{real} runs are {}, and {kept} are counted", status.name());
            health.find(None, problem);
        }
    }
    let stray: i64 = connection.query_row(
        &format!(
            "SELECT count(*) FROM segments WHERE segment_no >> {POSITION_BITS} NOT IN \
             (SELECT run_no FROM runs)"
        ),
        [],
        |row| row.get(0),
    )?;
    if stray > 0 {
        health.find(None, format!("{stray} segments belong to no run"));
    }
    Ok(())
}

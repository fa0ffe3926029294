//! The tables, and how a file comes to have them.
//!
//! Events are stored packed: one row of `segments` holds the events of one run that were committed
//! together, as lines. Measured against one row per event this writes four times as many runs per second.
//! A segment's key is the number of its run, shifted, plus the position of its first event; so the
//! events of a run are one range of one tree, and no second index is needed.

use std::collections::BTreeMap;

use std::path::Path;

use rusqlite::{Connection, Transaction};

use super::Error;

/// Marks a file as ours: "NXRT".
pub(super) const APPLICATION_ID: i64 = 0x4e58_5254;
/// The version of the tables that this program writes.
pub(super) const VERSION: i64 = 7;
/// The first version with the token of each run, held answers and the identity of the store.
pub(super) const CALLERS_SINCE: i64 = 6;
/// Bits of a segment's key that hold the position of its first event.
pub(super) const POSITION_BITS: u32 = 24;
/// No run has more events.
pub(crate) const MAX_EVENTS: u64 = 1 << POSITION_BITS;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// There is nothing in it yet.
    Empty,
    /// Ours, of the given version.
    Ours(i64),
    /// That of the Python router.
    Python,
    /// Of another program.
    Unknown,
}

impl Layout {
    /// Refuses a file that is no store.
    pub(super) fn known(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Empty => Err(Error::Missing(path.to_owned())),
            Self::Unknown => Err(Error::Foreign(path.to_owned())),
            Self::Ours(_) | Self::Python => Ok(()),
        }
    }
}

/// Steps from one version to the next. Each leaves a file that the next begins with.
const MIGRATIONS: &[&str] =
    &[VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7];

const VERSION_1: &str = "
CREATE TABLE owners (
    owner_no INTEGER PRIMARY KEY,
    owner_id TEXT NOT NULL UNIQUE,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    since TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
    run_no INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    mode TEXT NOT NULL,
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    steps_planned INTEGER NOT NULL,
    steps_executed INTEGER NOT NULL,
    tools_used TEXT NOT NULL,
    outcome TEXT,
    last_failure_reason TEXT,
    events INTEGER NOT NULL,
    head BLOB NOT NULL,
    origin TEXT,
    owner INTEGER
) STRICT;
CREATE UNIQUE INDEX runs_by_id ON runs (run_id);
CREATE INDEX runs_by_status ON runs (status, created_at);

CREATE TABLE counts (
    status TEXT PRIMARY KEY,
    runs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
    segment_no INTEGER PRIMARY KEY,
    events INTEGER NOT NULL CHECK (events > 0),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    request_digest BLOB NOT NULL,
    run_no INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attic (
    attic_no INTEGER PRIMARY KEY,
    run_no INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    removed_at TEXT NOT NULL,
    bundle TEXT NOT NULL
) STRICT;
CREATE INDEX attic_by_run_no ON attic (run_no);

CREATE TRIGGER segments_have_no_gap BEFORE INSERT ON segments
WHEN (NEW.segment_no & 0xffffff) != coalesce(
    (SELECT (segment_no & 0xffffff) + events FROM segments
     WHERE segment_no <= NEW.segment_no AND segment_no >= (NEW.segment_no & ~0xffffff)
     ORDER BY segment_no DESC LIMIT 1), 0)
BEGIN SELECT raise(ABORT, 'events are appended without a gap'); END;

CREATE TRIGGER segments_are_not_changed BEFORE UPDATE ON segments
BEGIN SELECT raise(ABORT, 'events are append-only'); END;

CREATE TRIGGER segments_are_not_removed BEFORE DELETE ON segments
WHEN NOT EXISTS (SELECT 1 FROM attic WHERE run_no = OLD.segment_no >> 24)
BEGIN SELECT raise(ABORT, 'events are append-only'); END;

CREATE TRIGGER runs_keep_what_they_are BEFORE UPDATE ON runs
WHEN OLD.status != 'RUNNING' OR OLD.run_no != NEW.run_no OR OLD.run_id != NEW.run_id
    OR OLD.mode != NEW.mode OR OLD.goal != NEW.goal OR OLD.created_at != NEW.created_at
    OR OLD.origin IS NOT NEW.origin OR OLD.events > NEW.events
BEGIN SELECT raise(ABORT, 'a run keeps what it is, and ends once'); END;

CREATE TRIGGER runs_are_not_removed BEFORE DELETE ON runs
WHEN NOT EXISTS (SELECT 1 FROM attic WHERE run_no = OLD.run_no)
BEGIN SELECT raise(ABORT, 'runs are append-only'); END;

-- A row that is replaced is removed without its trigger, so replacing is refused here.
CREATE TRIGGER runs_are_not_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run_no = NEW.run_no)
    OR EXISTS (SELECT 1 FROM runs WHERE run_id = NEW.run_id)
BEGIN SELECT raise(ABORT, 'runs are append-only'); END;

CREATE TRIGGER attic_is_not_replaced BEFORE INSERT ON attic
WHEN EXISTS (SELECT 1 FROM attic WHERE attic_no = NEW.attic_no)
BEGIN SELECT raise(ABORT, 'the attic is append-only'); END;

CREATE TRIGGER attic_is_not_changed BEFORE UPDATE ON attic
BEGIN SELECT raise(ABORT, 'the attic is append-only'); END;

CREATE TRIGGER attic_is_not_removed BEFORE DELETE ON attic
BEGIN SELECT raise(ABORT, 'the attic is append-only'); END;

-- For people with an SQL shell: one row per event.
CREATE VIEW events AS
SELECT line.value ->> '$.event_id' AS event_id, runs.run_id AS run_id, line.value ->> '$.seq' AS seq,
    line.value ->> '$.type' AS type, line.value -> '$.payload' AS payload_json,
    line.value ->> '$.ts' AS ts
FROM runs JOIN segments ON segments.segment_no >= runs.run_no << 24
    AND segments.segment_no < (runs.run_no + 1) << 24,
    json_each('[' || replace(rtrim(segments.body, char(10)), char(10), ',') || ']') AS line;

INSERT INTO counts VALUES ('RUNNING', 0), ('COMPLETED', 0), ('FAILED', 0);
";

/// The audit log: what happened to the daemon itself.
const VERSION_2: &str = "
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    head BLOB NOT NULL
) STRICT;

-- Also refuses to replace a row.
CREATE TRIGGER audit_has_no_gap BEFORE INSERT ON audit
WHEN NEW.seq != coalesce((SELECT max(seq) FROM audit), 0) + 1
BEGIN SELECT raise(ABORT, 'the audit log is append-only, without a gap'); END;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit log is append-only'); END;

CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'the audit log is append-only'); END;
";

/// Approvals: what a person is asked about a step, beside the events that say the same.
const VERSION_3: &str = "
CREATE TABLE approvals (
    approval_id TEXT PRIMARY KEY,
    run_no INTEGER NOT NULL,
    step_id TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    decided_at TEXT,
    decided_by TEXT,
    reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_state ON approvals (state, approval_id);
CREATE INDEX approvals_by_run ON approvals (run_no);
CREATE INDEX approvals_that_expire ON approvals (expires_at) WHERE state = 'open';

-- A row that is replaced is removed without its trigger, so replacing is refused here.
CREATE TRIGGER approvals_begin_open BEFORE INSERT ON approvals
WHEN NEW.state != 'open' OR EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id)
BEGIN SELECT raise(ABORT, 'an approval is asked for once'); END;

CREATE TRIGGER approvals_are_decided_once BEFORE UPDATE ON approvals
WHEN OLD.state != 'open' OR NEW.state = 'open' OR OLD.approval_id != NEW.approval_id
    OR OLD.run_no != NEW.run_no OR OLD.step_id != NEW.step_id
    OR OLD.requested_at != NEW.requested_at OR OLD.expires_at != NEW.expires_at
    OR OLD.request != NEW.request
BEGIN SELECT raise(ABORT, 'an approval is decided once'); END;

CREATE TRIGGER approvals_are_not_removed BEFORE DELETE ON approvals
WHEN NOT EXISTS (SELECT 1 FROM attic WHERE run_no = OLD.run_no)
BEGIN SELECT raise(ABORT, 'approvals are append-only'); END;
";

/// Run records: what gates refused.
const VERSION_4: &str = "
CREATE TABLE run_records (
    seq INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    head BLOB NOT NULL
) STRICT;

-- A row that is replaced is removed without its trigger, so replacing is refused here, also by its id.
CREATE TRIGGER run_records_have_no_gap BEFORE INSERT ON run_records
WHEN NEW.seq != coalesce((SELECT max(seq) FROM run_records), 0) + 1
    OR EXISTS (SELECT 1 FROM run_records WHERE record_id = NEW.record_id)
BEGIN SELECT raise(ABORT, 'run records are append-only, without a gap'); END;

CREATE TRIGGER run_records_are_not_changed BEFORE UPDATE ON run_records
BEGIN SELECT raise(ABORT, 'run records are append-only'); END;

CREATE TRIGGER run_records_are_not_removed BEFORE DELETE ON run_records
BEGIN SELECT raise(ABORT, 'run records are append-only'); END;
";

/// Seals: the attestation of a run that is over, and its place in the log. A run that took the place of another has
/// a number of its own, so the seal of what is in the attic stays what it is.
const VERSION_5: &str = "
CREATE TABLE seals (
    run_no INTEGER PRIMARY KEY,
    leaf INTEGER NOT NULL CHECK (leaf >= 0),
    attestation TEXT NOT NULL
) STRICT;

-- A row that is replaced is removed without its trigger, so replacing is refused here.
CREATE TRIGGER seals_are_of_runs_that_are_over BEFORE INSERT ON seals
WHEN EXISTS (SELECT 1 FROM seals WHERE run_no = NEW.run_no)
    OR NOT EXISTS (SELECT 1 FROM runs WHERE run_no = NEW.run_no AND status != 'RUNNING')
BEGIN SELECT raise(ABORT, 'a run is sealed once, when it is over'); END;

CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
BEGIN SELECT raise(ABORT, 'seals are append-only'); END;

CREATE TRIGGER seals_are_not_removed BEFORE DELETE ON seals
BEGIN SELECT raise(ABORT, 'seals are append-only'); END;
";

/// Returns the token of a run as its first event has it. A damaged event has none.
macro_rules! token_of_log {
    () => {
        "(SELECT CASE WHEN json_valid(line) THEN line ->> '$.payload.caller.token_id' END \
         FROM (SELECT substr(body, 1, instr(body, char(10)) - 1) AS line FROM segments \
         WHERE segment_no = runs.run_no << 24))"
    };
}

/// The token of a run as its first event has it.
pub(super) const TOKEN_OF_LOG: &str = token_of_log!();

/// Callers: the token of each run, answers held for their caller, and the identity of the store. The tokens of runs
/// that are there are read from their logs, in one pass.
const VERSION_6: &str = concat!(
    "
ALTER TABLE runs ADD COLUMN token_id TEXT;
CREATE INDEX runs_by_token ON runs (token_id, status, created_at) WHERE token_id IS NOT NULL;
DROP TRIGGER runs_keep_what_they_are;
UPDATE runs SET token_id = ",
    token_of_log!(),
    " WHERE origin IS NULL;
CREATE TRIGGER runs_keep_what_they_are BEFORE UPDATE ON runs
WHEN OLD.status != 'RUNNING' OR OLD.run_no != NEW.run_no OR OLD.run_id != NEW.run_id
    OR OLD.mode != NEW.mode OR OLD.goal != NEW.goal OR OLD.created_at != NEW.created_at
    OR OLD.origin IS NOT NEW.origin OR OLD.events > NEW.events OR OLD.token_id IS NOT NEW.token_id
BEGIN SELECT raise(ABORT, 'a run keeps what it is, and ends once'); END;

-- Encrypted; removed when fetched or expired.
CREATE TABLE held_answers (
    run_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_answers_by_expiry ON held_answers (expires_at);

-- One row: the file that this store was when it was created or adopted last.
CREATE TABLE identity (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    store_id TEXT NOT NULL,
    inode INTEGER NOT NULL,
    born TEXT NOT NULL
) STRICT;
"
);

/// Held arguments: original plans of runs that are not over.
const VERSION_7: &str = "
-- Encrypted; removed when the run ends.
CREATE TABLE held_arguments (
    run_no INTEGER PRIMARY KEY,
    key_id BLOB NOT NULL,
    expires_at INTEGER,
    arguments BLOB NOT NULL
) STRICT;
";

/// Says what a file is, without changing it.
pub(super) fn layout(connection: &Connection) -> Result<Layout, Error> {
    // Several questions, but one moment: another process may be making the tables just now.
    let alone = connection.is_autocommit();
    let moment = alone.then(|| connection.unchecked_transaction()).transpose()?;
    let layout = layout_now(connection);
    drop(moment);
    layout
}

/// Returns whether the tables have the token of each run, held answers and the identity of the store.
pub(super) fn has_callers(connection: &Connection) -> Result<bool, Error> {
    Ok(matches!(layout(connection)?, Layout::Ours(version) if version >= CALLERS_SINCE))
}

fn layout_now(connection: &Connection) -> Result<Layout, Error> {
    let number = |pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
    };
    let (application_id, version) = (number("application_id")?, number("user_version")?);
    if application_id == APPLICATION_ID {
        return Ok(Layout::Ours(version));
    }
    let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let has = |name: &str| names.iter().any(|other| other == name);
    Ok(if names.is_empty() && version == 0 && application_id == 0 {
        Layout::Empty
    } else if has("runs") && has("events") && is_python(connection)? {
        Layout::Python
    } else {
        Layout::Unknown
    })
}

fn is_python(connection: &Connection) -> Result<bool, Error> {
    let columns = |table: &str| -> Result<Vec<String>, rusqlite::Error> {
        let mut rows = connection.prepare(&format!("PRAGMA table_info({table})"))?;
        let names = rows.query_map([], |row| row.get(1))?;
        names.collect()
    };
    Ok(columns("runs")? == ["run_id", "mode", "goal", "status", "created_at"]
        && columns("events")? == ["event_id", "run_id", "seq", "type", "payload_json", "ts"])
}

/// Brings an empty file, or one of an older version, to the present version.
pub(super) fn migrate(transaction: &Transaction<'_>, from: i64) -> Result<(), Error> {
    step(transaction, from, VERSION)?;
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    ))?;
    Ok(())
}

/// Makes the tables of a version, as they are in a file that was made by it or brought to it.
pub(super) fn make(transaction: &Transaction<'_>, version: i64) -> Result<(), Error> {
    step(transaction, 0, version)
}

fn step(transaction: &Transaction<'_>, from: i64, to: i64) -> Result<(), Error> {
    let [from, to] = [from, to].map(|version| usize::try_from(version).unwrap_or_default());
    for step in MIGRATIONS.iter().take(to).skip(from) {
        transaction.execute_batch(step)?;
    }
    Ok(())
}

/// Takes out of a store in memory what looks at every row that is inserted, which is 40 % of what inserting costs. It
/// guards a file from other programs, and no other program reaches a store in memory; our own appends are held to the
/// same where they are written (`appending`).
pub(super) fn unguard(connection: &Connection) -> Result<(), Error> {
    connection
        .execute_batch("DROP TRIGGER runs_are_not_replaced; DROP TRIGGER segments_have_no_gap;")?;
    // Its oldest runs make room for new ones.
    for trigger in [
        "segments_are_not_removed",
        "runs_are_not_removed",
        "approvals_are_not_removed",
        "seals_are_not_removed",
        "audit_is_not_removed",
        "run_records_are_not_removed",
    ] {
        connection.execute_batch(&format!("DROP TRIGGER {trigger};"))?;
    }
    Ok(())
}

/// Returns the text of every table, index, trigger and view, by kind and name.
pub(super) fn texts(connection: &Connection) -> Result<BTreeMap<String, String>, Error> {
    let mut query = connection
        .prepare("SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql NOT NULL")?;
    let texts = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(texts.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts a run as version 5 has it.
    fn insert(transaction: &Transaction<'_>, run_no: i64, origin: Option<&str>, line: &str) {
        let run = "INSERT INTO runs VALUES (?1, 'r' || ?1, 'apply', 'g', 'COMPLETED', 't', 0, 0, '[]', \
                   'ok', NULL, 1, x'00', ?2, NULL)";
        transaction.execute(run, rusqlite::params![run_no, origin]).unwrap();
        let segment = "INSERT INTO segments VALUES (?1 << 24, 1, ?2)";
        let body = format!("{line}\n");
        transaction.execute(segment, rusqlite::params![run_no, body]).unwrap();
    }

    #[test]
    fn version_6_reads_the_tokens_of_runs_from_their_logs() {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        make(&transaction, 5).unwrap();
        let by = r#"{"payload":{"caller":{"name":"ci","token_id":"abc"}}}"#;
        let local = r#"{"payload":{"caller":{"name":"local"}}}"#;
        for (run_no, origin, line) in [
            (1, None, by),
            (2, None, local),
            (3, Some("{}"), by),
            (4, None, "{\"payload\": damaged"),
            (5, None, by),
        ] {
            insert(&transaction, run_no, origin, line);
        }
        migrate(&transaction, 5).unwrap();
        let mut query = transaction.prepare("SELECT token_id FROM runs ORDER BY run_no").unwrap();
        let tokens = query.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
        let tokens: Vec<Option<String>> = tokens.map(Result::unwrap).collect();
        let tokens: Vec<Option<&str>> = tokens.iter().map(Option::as_deref).collect();
        assert_eq!(tokens, [Some("abc"), None, None, None, Some("abc")]);
        let stolen = transaction.execute("UPDATE runs SET token_id = 'xyz' WHERE run_no = 1", []);
        assert!(stolen.is_err(), "the trigger guards the token");
    }
}

//! Original plans that redaction changed, held encrypted until their run ends.
//!
//! The events of a run have its plan as redaction leaves it. The original is written together with the first events,
//! and removed together with the last one. The encryption binds it to the run. So a run can wait for an approval or
//! resume after a crash, and nobody finds the original in the events.
//!
//! A task whose run ended with a question is answered by a further run. Its original stays for a day.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

use super::audit::{self, AuditEntry};
use super::check::Health;
use super::schema::{self, Layout};
use super::{BUSY_TIMEOUT, Error, Store, StoreKey, identity, open};
use crate::clock::{Clock, Timestamp};
use crate::json::{self, Limits, Object, Value};
use crate::request::Step;

/// The first version of the tables that holds arguments.
pub(super) const SINCE: i64 = 7;
/// Retention of a task's original after a question, in milliseconds.
const ANSWER_MS: i64 = 24 * 60 * 60 * 1000;

/// Encrypted plan of a run.
#[derive(Clone, Debug)]
pub struct HeldArguments {
    /// Identifies the key.
    key_id: Vec<u8>,
    /// Expiry in Unix milliseconds; none while the run is running.
    expires_at: Option<i64>,
    /// The encrypted text.
    arguments: Vec<u8>,
}

/// Change of the held arguments of a run, written with its events.
#[derive(Clone, Debug)]
pub enum HeldArgumentsChange {
    /// Holds them.
    Write(HeldArguments),
    /// Keeps them until this time, in milliseconds since 1970.
    Expire(i64),
    /// Removes them.
    Remove,
}

impl HeldArgumentsChange {
    /// Returns the bytes that the store writes.
    pub(super) fn stored_bytes(&self) -> usize {
        match self {
            Self::Write(held) => held.arguments.len(),
            Self::Expire(_) | Self::Remove => 0,
        }
    }
}

/// Plan of a run as its caller gave it.
#[derive(Debug)]
pub(crate) struct HeldPlan {
    /// The steps.
    pub(crate) steps: Vec<Value>,
    /// True for a task: a further run may answer its question.
    pub(crate) is_task: bool,
}

/// Returns when arguments expire that are kept for the answer to a question.
pub(crate) fn answer_expiry(now: Timestamp) -> i64 {
    now.as_millis().saturating_add(ANSWER_MS)
}

impl HeldArguments {
    /// Encrypts the plan of a run.
    pub(crate) fn encrypt(
        key: &StoreKey,
        run_id: &str,
        steps: &[Step],
        is_task: bool,
        expires_at: Option<i64>,
    ) -> Result<Self, Error> {
        let mut text =
            String::from(if is_task { "{\"task\":true,\"plan\":[" } else { "{\"plan\":[" });
        for (index, step) in steps.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            json::write_compact_object(&mut text, step.raw());
        }
        text.push_str("]}");
        let arguments = key.encrypt(&context(run_id), text.as_bytes())?;
        Ok(Self { key_id: key.id(), expires_at, arguments })
    }

    /// Decrypts the plan of a run.
    ///
    /// # Errors
    /// The reason as text, without the plan.
    pub(crate) fn decrypt(&self, store: &Store, run_id: &str) -> Result<HeldPlan, String> {
        let key = store.key().map_err(|error| error.to_string())?;
        if key.id() != self.key_id {
            return Err("another key encrypted its held arguments".to_owned());
        }
        let text = key.decrypt(&context(run_id), &self.arguments);
        let text = text.ok_or("its held arguments were changed, or belong to another run")?;
        let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
        let object = json::parse(&text, limits).ok().and_then(Value::into_object);
        let mut object = object.ok_or("its held arguments are not a plan")?;
        let is_task = object.contains_key("task");
        match object.remove("plan") {
            Some(Value::Array(steps)) => Ok(HeldPlan { steps, is_task }),
            _ => Err("its held arguments are not a plan".to_owned()),
        }
    }
}

/// Returns the context of the encryption: purpose and run.
fn context(run_id: &str) -> String {
    format!("held arguments\n{run_id}")
}

/// Applies a change to the held arguments of a run.
pub(super) fn apply(
    connection: &Connection,
    run_no: i64,
    change: &HeldArgumentsChange,
) -> Result<(), Error> {
    match change {
        HeldArgumentsChange::Write(HeldArguments { key_id, expires_at, arguments }) => {
            connection
                .prepare_cached("INSERT INTO held_arguments VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![run_no, key_id, expires_at, arguments])?;
        }
        HeldArgumentsChange::Expire(at) => {
            // The changed row moves to other pages.
            with_secure_delete(connection, || {
                let update = "UPDATE held_arguments SET expires_at = ?2 WHERE run_no = ?1";
                Ok(connection.prepare_cached(update)?.execute([run_no, *at])?)
            })?;
        }
        HeldArgumentsChange::Remove => remove(connection, run_no)?,
    }
    Ok(())
}

/// Removes the held arguments of a run, and overwrites them in the file.
pub(super) fn remove(connection: &Connection, run_no: i64) -> Result<(), Error> {
    with_secure_delete(connection, || {
        let delete = "DELETE FROM held_arguments WHERE run_no = ?1";
        Ok(connection.prepare_cached(delete)?.execute([run_no])?)
    })
    .map(drop)
}

/// Removes held arguments that expired or whose run is over.
pub(super) fn remove_leftover(connection: &Connection, now: Timestamp) -> Result<(), Error> {
    let any = "SELECT EXISTS (SELECT 1 FROM held_arguments)";
    if !connection.prepare_cached(any)?.query_row([], |row| row.get(0))? {
        return Ok(());
    }
    let sql = format!("DELETE FROM held_arguments WHERE expires_at <= ?1 OR {LEFT_OVER}");
    with_secure_delete(connection, || Ok(connection.execute(&sql, [now.as_millis()])?)).map(drop)
}

/// Held arguments that nothing needs.
const LEFT_OVER: &str = "expires_at IS NULL AND NOT EXISTS (SELECT 1 FROM runs WHERE \
                         runs.run_no = held_arguments.run_no AND status = 'RUNNING')";

/// Deletes so that SQLite overwrites deleted content with zeros.
fn with_secure_delete<T>(
    connection: &Connection,
    delete: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let set = |on: bool| connection.pragma_update(None, "secure_delete", on);
    set(true)?;
    let deleted = delete();
    set(false)?;
    deleted
}

/// Removes all held arguments from a copy of a store: its runs that were under way do not go on.
pub(super) fn remove_from_copy(copy: &Connection) -> Result<(), Error> {
    if !has_table(copy)? {
        return Ok(());
    }
    with_secure_delete(copy, || Ok(copy.execute("DELETE FROM held_arguments", [])?)).map(drop)
}

/// Reads the held arguments of a run.
pub(super) fn find(connection: &Connection, run_no: i64) -> Result<Option<HeldArguments>, Error> {
    let sql = "SELECT key_id, expires_at, arguments FROM held_arguments WHERE run_no = ?1";
    let found = connection.prepare_cached(sql)?.query_row([run_no], |row| {
        Ok(HeldArguments { key_id: row.get(0)?, expires_at: row.get(1)?, arguments: row.get(2)? })
    });
    Ok(found.optional()?)
}

/// Refuses to use a store without the key that encrypted its held arguments. A new key would not decrypt them.
pub(super) fn require_key(
    connection: &Connection,
    path: &Path,
    key: Option<&StoreKey>,
) -> Result<(), Error> {
    let sql = "SELECT count(*) FROM held_arguments WHERE key_id IS NOT ?1";
    let id = key.map(StoreKey::id);
    let runs: i64 = connection.query_row(sql, [&id], |row| row.get(0))?;
    let (path, runs) = (path.to_owned(), runs.cast_unsigned());
    match key {
        _ if runs == 0 => Ok(()),
        None => Err(Error::KeyMissing { key: StoreKey::path(&path), path, runs }),
        Some(_) => Err(Error::KeyWrong { path, runs }),
    }
}

fn has_table(connection: &Connection) -> Result<bool, Error> {
    Ok(matches!(schema::layout(connection)?, Layout::Ours(version) if version >= SINCE))
}

/// Reports held arguments that nothing needs.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    if !has_table(connection)? {
        return Ok(());
    }
    let sql = format!(
        "SELECT (SELECT run_id FROM runs WHERE runs.run_no = held_arguments.run_no) \
         FROM held_arguments WHERE {LEFT_OVER} ORDER BY run_no"
    );
    let mut query = connection.prepare(&sql)?;
    for run_id in query.query_map([], |row| row.get::<_, Option<String>>(0))? {
        let problem = "its held arguments were not removed when it ended; the next start of the daemon \
                       removes them";
        health.find(run_id?.as_deref(), problem.to_owned());
    }
    Ok(())
}

/// Removes the held arguments that a lost key encrypted, so that the store can be used with `key` or, without it, with
/// the key file. Without either, removes all of them, and held answers. Returns the number of runs that lost their
/// arguments: those that wait for an approval can only be denied, and others fail when they are recovered.
///
/// # Errors
/// When a process has the store open, the key file cannot be read, or the file is not a store of this router.
pub fn forget_key(path: &Path, key: Option<&StoreKey>) -> Result<u64, Error> {
    let path = &open::real(path);
    let found = if key.is_none() { StoreKey::find(path)? } else { None };
    let key_id = key.or(found.as_ref()).map(StoreKey::id);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::opening(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    open::layout(&connection, path)?.known(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !has_table(&transaction)? {
        return Ok(0);
    }
    identity::refuse_running_owners(&transaction, path)?;
    let runs = with_secure_delete(&transaction, || {
        if key_id.is_none() {
            transaction.execute("DELETE FROM held_answers", [])?;
        }
        let delete = "DELETE FROM held_arguments WHERE key_id IS NOT ?1";
        Ok(transaction.execute(delete, [&key_id])? as u64)
    })?;
    let mut payload = Object::new();
    payload.insert("runs", runs);
    payload.insert("name", format!("local:{}", rustix::process::getuid().as_raw()));
    let kind = "store.key_forgotten".to_owned();
    let entry = AuditEntry { ts: Clock::System.now(), kind, payload };
    audit::append_within(&transaction, vec![entry])?;
    transaction.commit()?;
    Ok(runs)
}

impl Store {
    /// Reads the original plan of a run, if the store holds it.
    ///
    /// # Errors
    /// When the store cannot be read, or the plan cannot be decrypted.
    pub(crate) fn held_plan(&self, run_id: &str) -> Result<Option<HeldPlan>, Error> {
        let wanted = run_id.to_owned();
        let held = self.read(move |connection| {
            let sql = "SELECT run_no FROM runs WHERE run_id = ?1";
            let run_no = connection.prepare_cached(sql)?.query_row([wanted], |row| row.get(0));
            let run_no: Option<i64> = run_no.optional()?;
            run_no.map_or(Ok(None), |run_no| find(connection, run_no))
        })?;
        let plan = held.map(|held| held.decrypt(self, run_id)).transpose();
        plan.map_err(|why| Error::Damaged(format!("run {run_id}: {why}")))
    }

    /// Removes the held arguments of a run that is over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn remove_held_plan(&self, run_id: &str) -> Result<(), Error> {
        let run_id = run_id.to_owned();
        self.writer()?.write(move |connection| {
            let sql = "SELECT run_no FROM runs WHERE run_id = ?1 AND status != 'RUNNING'";
            let run_no = connection.prepare_cached(sql)?.query_row([run_id], |row| row.get(0));
            run_no.optional()?.map_or(Ok(()), |run_no| remove(connection, run_no))
        })
    }

    /// Removes held arguments that expired or whose run is over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn remove_leftover_arguments(&self, now: Timestamp) -> Result<(), Error> {
        self.writer()?.write(move |connection| remove_leftover(connection, now))
    }
}

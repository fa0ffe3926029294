//! Answers that redaction changed, held encrypted for their caller.
//!
//! A held answer is written together with the events of its step. It stays for an hour, or until its caller fetches the
//! run when that is over. The encryption binds it to the run, the step and the caller, so nobody else can read it.

use rusqlite::{Connection, Transaction, params};

use super::{Error, Store, StoreKey, pages, schema};
use crate::caller::Caller;
use crate::clock::{Clock, Timestamp};
use crate::json::{self, Limits, Object, Value};

/// How long an answer is held, in milliseconds.
const HOLD_MS: i64 = 60 * 60 * 1000;
/// A longer answer is not held; its caller finds the recorded form.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Encrypted answer of a step.
#[derive(Clone, Debug)]
pub struct HeldAnswer {
    /// The index of the step in the plan.
    step: i64,
    /// When the answer is removed, in milliseconds since 1970.
    expires_at: i64,
    /// The encrypted text.
    answer: Vec<u8>,
}

impl HeldAnswer {
    /// Encrypts the answer of a step for the caller of its run. Returns none if the answer is too long.
    pub(crate) fn encrypt(
        key: &StoreKey,
        (run_id, step): (&str, usize),
        caller: Option<&Caller>,
        answer: &Object,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let mut text = String::new();
        json::write_compact_object(&mut text, answer);
        if text.len() > MAX_ANSWER {
            tracing::debug!(run_id, bytes = text.len(), "the answer is too long to be held");
            return Ok(None);
        }
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        let answer = key.encrypt(&context(run_id, step, caller), text.as_bytes())?;
        Ok(Some(Self { step, expires_at: now.as_millis().saturating_add(HOLD_MS), answer }))
    }

    /// Returns the bytes that the store writes.
    pub(super) fn stored_bytes(&self) -> usize {
        self.answer.len()
    }
}

/// Returns the context of the encryption: the run, the step and the caller.
fn context(run_id: &str, step: i64, caller: Option<&Caller>) -> String {
    let holder = match caller {
        None => "host".to_owned(),
        Some(Caller { token_id: Some(token_id), .. }) => format!("token {token_id}"),
        Some(caller) => format!("name {}", caller.name),
    };
    format!("held answer\n{run_id}\n{step}\n{holder}")
}

/// Writes held answers of a run, and removes those that expired.
pub(super) fn write(
    transaction: &Transaction<'_>,
    run_id: &str,
    held: &[HeldAnswer],
) -> Result<(), Error> {
    if held.is_empty() {
        return Ok(());
    }
    remove_expired(transaction, Clock::System.now())?;
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO held_answers VALUES (?1, ?2, ?3, ?4)")?;
    for HeldAnswer { step, expires_at, answer } in held {
        insert.execute(params![run_id, step, expires_at, answer])?;
    }
    Ok(())
}

/// Returns the bytes of all held answers of a run, and of the largest.
pub(super) fn sizes(connection: &Connection, run_id: &str) -> Result<(usize, usize), Error> {
    if !schema::has_callers(connection)? {
        return Ok((0, 0));
    }
    let sql = "SELECT sum(octet_length(answer)), max(octet_length(answer)) FROM held_answers \
               WHERE run_id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([run_id], pages::sum_and_largest)?)
}

/// Removes the held answers of a run.
pub(super) fn remove(connection: &Connection, run_id: &str) -> Result<(), Error> {
    let mut delete = connection.prepare_cached("DELETE FROM held_answers WHERE run_id = ?1")?;
    delete.execute([run_id])?;
    Ok(())
}

/// Removes held answers whose time is over.
pub(super) fn remove_expired(connection: &Connection, now: Timestamp) -> Result<(), Error> {
    let mut delete =
        connection.prepare_cached("DELETE FROM held_answers WHERE expires_at <= ?1")?;
    delete.execute([now.as_millis()])?;
    Ok(())
}

impl Store {
    /// Reads the answers of a run that are held for a caller, with the index of their step. Other callers get none.
    ///
    /// # Errors
    /// When the store or its key cannot be read.
    pub(crate) fn held_answers(
        &self,
        run_id: &str,
        caller: Option<&Caller>,
        now: Timestamp,
    ) -> Result<Vec<(usize, Object)>, Error> {
        self.held_answers_of(run_id, None, caller, now)
    }

    /// As [`held_answers`](Self::held_answers), of one step or of all.
    pub(crate) fn held_answers_of(
        &self,
        run_id: &str,
        step: Option<usize>,
        caller: Option<&Caller>,
        now: Timestamp,
    ) -> Result<Vec<(usize, Object)>, Error> {
        let wanted = run_id.to_owned();
        let step = step.map(|step| i64::try_from(step).unwrap_or(i64::MAX));
        let rows = self.read(move |connection| {
            let mut query = connection.prepare_cached(
                "SELECT step, answer FROM held_answers \
                 WHERE run_id = ?1 AND expires_at > ?2 AND (?3 IS NULL OR step = ?3)",
            )?;
            let rows = query.query_map(params![wanted, now.as_millis(), step], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        })?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.key()?;
        let answers = rows.into_iter().filter_map(|(step, encrypted)| {
            let text = key.decrypt(&context(run_id, step, caller), &encrypted)?;
            let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
            let answer = json::parse(&text, limits).ok().and_then(Value::into_object)?;
            Some((usize::try_from(step).ok()?, answer))
        });
        Ok(answers.collect())
    }

    /// Removes the answers of a run that are held.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn remove_held_answers(&self, run_id: &str) -> Result<(), Error> {
        let run_id = run_id.to_owned();
        self.writer()?.write(move |connection| remove(connection, &run_id))
    }

    /// Removes held answers whose time is over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn remove_expired_answers(&self, now: Timestamp) -> Result<(), Error> {
        self.writer()?.write(move |connection| remove_expired(connection, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(token_id: &str) -> Caller {
        Caller { token_id: Some(token_id.to_owned()), ..Caller::local() }
    }

    fn hold(store: &Store, run_id: &str, caller: Option<&Caller>, now: Timestamp) {
        let answer: Object = [("password".to_owned(), "hunter2".into())].into_iter().collect();
        let key = store.key().unwrap();
        let held = HeldAnswer::encrypt(key, (run_id, 0), caller, &answer, now).unwrap().unwrap();
        assert!(!held.answer.windows(7).any(|window| window == b"hunter2"));
        let run_id = run_id.to_owned();
        let written = store.writer().unwrap().job(move |connection| {
            let transaction = connection.transaction()?;
            write(&transaction, &run_id, &[held])?;
            Ok::<_, Error>(transaction.commit()?)
        });
        written.unwrap().unwrap();
    }

    #[test]
    fn only_the_caller_reads_a_held_answer() {
        let store = Store::in_memory().unwrap();
        let (now, one, other) = (Clock::System.now(), caller("t1"), caller("t2"));
        hold(&store, "a", Some(&one), now);
        let read = |run_id: &str, caller: Option<&Caller>| {
            store.held_answers(run_id, caller, now).unwrap().len()
        };
        assert_eq!(read("a", Some(&one)), 1);
        for stranger in [None, Some(&other), Some(&Caller::local())] {
            assert_eq!(read("a", stranger), 0, "{stranger:?}");
        }
        assert_eq!(read("b", Some(&one)), 0);
        store.remove_held_answers("a").unwrap();
        assert_eq!(read("a", Some(&one)), 0);
    }

    #[test]
    fn held_answers_expire_after_an_hour() {
        let store = Store::in_memory().unwrap();
        let now = Clock::System.now();
        hold(&store, "a", None, now);
        let later = |millis| Timestamp::from_millis(now.as_millis() + millis);
        let read = |now| store.held_answers("a", None, now).unwrap().len();
        assert_eq!(read(later(HOLD_MS - 1)), 1);
        assert_eq!(read(later(HOLD_MS)), 0);
        let rows = || {
            let count = "SELECT count(*) FROM held_answers";
            store.read(move |it| Ok(it.query_row(count, [], |row| row.get::<_, i64>(0))?)).unwrap()
        };
        store.remove_expired_answers(later(HOLD_MS - 1)).unwrap();
        assert_eq!(rows(), 1);
        store.remove_expired_answers(later(HOLD_MS)).unwrap();
        assert_eq!(rows(), 0);
        // The next answer removes those that expired.
        hold(&store, "old", None, Timestamp::from_millis(now.as_millis() - HOLD_MS));
        hold(&store, "new", None, now);
        assert_eq!(rows(), 1);
    }

    #[test]
    fn answers_over_the_limit_are_not_held() {
        let store = Store::in_memory().unwrap();
        let text = "x".repeat(MAX_ANSWER);
        let answer: Object = [("password".to_owned(), text.into())].into_iter().collect();
        let (key, now) = (store.key().unwrap(), Clock::System.now());
        assert!(HeldAnswer::encrypt(key, ("a", 0), None, &answer, now).unwrap().is_none());
    }
}

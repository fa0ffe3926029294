//! The audit log: what happened to the daemon itself, append-only and chained by hash like the runs.

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use super::check::Health;
use super::schema::{self, Layout};
use super::{Error, Store};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};

/// The first version of the tables that has an audit log.
const SINCE: i64 = 2;

/// Something to be recorded in the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// When it happened.
    pub ts: Timestamp,
    /// What it is, such as `config.reloaded`.
    pub kind: String,
    /// What is to be said about it, without secrets.
    pub payload: Object,
}

impl AuditEntry {
    /// Returns the line that is stored: canonical JSON.
    fn line(self, seq: i64) -> String {
        let mut object = Object::with_capacity(4);
        object.insert("kind", self.kind);
        object.insert("payload", self.payload);
        object.insert("seq", seq);
        object.insert("ts", self.ts.to_string());
        json::to_canonical(&object.into())
    }
}

impl Store {
    /// Appends to the audit log in one transaction, and returns when it is durable.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), Error> {
        self.writer()?.job(move |connection| append(connection, entries))?
    }

    /// Returns lines of the audit log, in order, beginning after the one with the number `after`.
    ///
    /// A store that was made before there was an audit log has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn audit_page(&self, after: u64, limit: usize) -> Result<Vec<String>, Error> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            if !is_kept(connection)? {
                return Ok(Vec::new());
            }
            let mut query = connection
                .prepare_cached("SELECT body FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
            let lines = query.query_map(params![after, limit], |row| text(row, 0))?;
            Ok(lines.collect::<Result<_, _>>()?)
        })
    }
}

/// Says whether the file has an audit log. Looked at each time: another process may add it.
fn is_kept(connection: &Connection) -> Result<bool, Error> {
    Ok(matches!(schema::layout(connection)?, Layout::Ours(version) if version >= SINCE))
}

/// Reads a text. A damaged one is shown as far as it can be; the chain tells.
fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

fn append(connection: &mut Connection, entries: Vec<AuditEntry>) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let last = transaction
        .prepare_cached("SELECT seq, head FROM audit ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, Digest::from_bytes(row.get(1)?))))
        .optional()?;
    let (mut seq, mut head) = last.unwrap_or((0, Digest::ZERO));
    let mut insert = transaction.prepare_cached("INSERT INTO audit VALUES (?1, ?2, ?3)")?;
    for entry in entries {
        seq += 1;
        let line = entry.line(seq);
        head = head.chain(&line);
        insert.execute(params![seq, line, &head.as_bytes()[..]])?;
    }
    drop(insert);
    Ok(transaction.commit()?)
}

/// Looks at every line: its number, its form, and its link in the chain.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    if !is_kept(connection)? {
        return Ok(());
    }
    let mut query = connection.prepare("SELECT seq, body, head FROM audit ORDER BY seq")?;
    let mut rows = query.query([])?;
    let (mut before, mut head) = (0, Digest::ZERO);
    while let Some(row) = rows.next()? {
        health.audit += 1;
        let (seq, line): (i64, String) = (row.get(0)?, text(row, 1)?);
        if seq != before + 1 {
            health.find(None, format!("audit event {seq} follows {before}"));
        }
        before = seq;
        head = head.chain(&line);
        let recorded: Vec<u8> = row.get(2)?;
        if recorded != head.as_bytes() {
            health.find(None, format!("audit event {seq}: the chain is broken"));
            // From here on the chain is taken as it is recorded, so that one break is told once.
            if let Ok(bytes) = recorded.try_into() {
                head = Digest::from_bytes(bytes);
            }
        }
        if let Some(problem) = malformed(&line, seq) {
            health.find(None, format!("audit event {seq}: {problem}"));
        }
    }
    Ok(())
}

fn malformed(line: &str, seq: i64) -> Option<String> {
    let value = match json::parse(line.as_bytes(), Limits::BUNDLE) {
        Ok(value) => value,
        Err(error) => return Some(error.to_string()),
    };
    let said = value.get("seq").and_then(Value::as_i64);
    if said != Some(seq) {
        return Some("its line has another number".to_owned());
    }
    let kind = value.get("kind").and_then(Value::as_str);
    let ts = value.get("ts").and_then(Value::as_str).and_then(Timestamp::parse);
    let payload = value.get("payload").and_then(Value::as_object);
    let whole = kind.is_some() && ts.is_some() && payload.is_some();
    (!whole).then(|| "its line lacks the kind, the time or the payload".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: &str) -> AuditEntry {
        let mut payload = Object::new();
        payload.insert("why", "line one\nline two");
        AuditEntry { ts: Timestamp::from_millis(0), kind: kind.to_owned(), payload }
    }

    #[test]
    fn lines_are_numbered_chained_and_paged() {
        let store = Store::in_memory().unwrap();
        assert_eq!(store.audit_page(0, 10).unwrap(), Vec::<String>::new());
        store.append_audit(vec![entry("a"), entry("b")]).unwrap();
        store.append_audit(vec![]).unwrap();
        store.append_audit(vec![entry("c")]).unwrap();
        let lines = store.audit_page(0, 10).unwrap();
        assert_eq!(
            lines[1],
            r#"{"kind":"b","payload":{"why":"line one\nline two"},"seq":2,"ts":"1970-01-01T00:00:00.000Z"}"#
        );
        assert_eq!(store.audit_page(1, 1).unwrap(), lines[1..2]);
        assert_eq!(store.audit_page(2, 10).unwrap(), lines[2..]);
        assert_eq!(store.audit_page(u64::MAX, usize::MAX).unwrap(), Vec::<String>::new());
        let health = store.check(|_, _| ()).unwrap();
        assert_eq!((health.audit, health.findings), (3, vec![]));
    }
}

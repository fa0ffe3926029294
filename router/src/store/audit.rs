//! The audit log: what happened to the daemon itself, append-only and chained by hash like the runs.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::chain::Chain;
use super::check::Health;
use super::{Error, Store};
use crate::clock::Timestamp;
use crate::json::{self, Limits, Object, Value};

const AUDIT: Chain = Chain { table: "audit", since: 2, noun: "audit event" };

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
        self.writer()?.write(move |connection| append(connection, entries))
    }

    /// Returns lines of the audit log, in order, beginning after the one with the number `after`.
    ///
    /// A store that was made before there was an audit log has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn audit_page(&self, after: u64, limit: usize) -> Result<Vec<String>, Error> {
        let lines = self.read(move |connection| AUDIT.page(connection, after, limit))?;
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }
}

fn append(connection: &mut Connection, entries: Vec<AuditEntry>) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    append_within(&transaction, entries)?;
    Ok(transaction.commit()?)
}

/// Appends to the audit log as a part of a transaction.
pub(super) fn append_within(
    transaction: &Transaction<'_>,
    entries: Vec<AuditEntry>,
) -> Result<(), Error> {
    let mut lines = AUDIT.append(transaction)?;
    for entry in entries {
        let line = entry.line(lines.next());
        lines.line(&line, &[])?;
    }
    Ok(())
}

/// Looks at every line: its number, its form, and its link in the chain.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    health.audit = AUDIT.check(connection, health, |_, seq, line| Ok(malformed(line, seq)))?;
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

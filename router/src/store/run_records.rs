//! Run records: what gates refused, append-only and chained by hash like the audit log.

use rusqlite::{Connection, Row, TransactionBehavior};

use super::chain::Chain;
use super::check::Health;
use super::{Error, Store};
use crate::json::{self, Limits, Value};
use crate::mapping;

const RECORDS: Chain = Chain { table: "run_records", since: 4, noun: "run record" };

impl Store {
    /// Appends a run record, and returns its number when it is durable.
    ///
    /// # Errors
    /// When the store cannot be written, or has a record of this id.
    pub fn append_run_record(&self, record: &mapping::RunRecord) -> Result<u64, Error> {
        let (record_id, line) = (record.run_id().to_owned(), record.text());
        self.writer()?.write(move |connection| append(connection, &record_id, &line))
    }

    /// Returns run records with their numbers, in order, beginning after the one with the number `after`.
    ///
    /// A store that was made before there were run records has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn run_records_page(&self, after: u64, limit: usize) -> Result<Vec<(u64, String)>, Error> {
        self.read(move |connection| RECORDS.page(connection, after, limit))
    }
}

fn append(connection: &mut Connection, record_id: &str, line: &str) -> Result<u64, Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let seq = RECORDS.append(&transaction)?.line(line, &[("record_id", &record_id)])?;
    transaction.commit()?;
    Ok(seq.cast_unsigned())
}

/// Looks at every record: its number, its form, and its link in the chain.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    health.run_records = RECORDS.check(connection, health, malformed)?;
    Ok(())
}

fn malformed(row: &Row<'_>, _: i64, line: &str) -> Result<Option<String>, rusqlite::Error> {
    let value = match json::parse(line.as_bytes(), Limits::BUNDLE) {
        Ok(value) => value,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let record_id: String = row.get("record_id")?;
    let said = value.get("run_id").and_then(Value::as_str);
    Ok((said != Some(&record_id)).then(|| "its text has another id".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::interface::Findings;

    fn record() -> mapping::RunRecord {
        let mut findings = Findings::default();
        findings.add("/tool_id", "TOOLSPEC_MALFORMED", "is missing");
        mapping::RunRecord::of_failure(&mapping::Failure {
            report: &mapping::unreadable(&findings.into_vec()),
            intent_id: None,
            tool_id: None,
            tool_version: None,
            intent: &Value::Null,
            toolspec: &Value::Null,
            inputs: &Value::Null,
            started: Timestamp::from_millis(0),
            finished: Timestamp::from_millis(1),
            logs_ref: "audit",
        })
    }

    #[test]
    fn records_are_numbered_chained_and_paged() {
        let store = Store::in_memory().unwrap();
        assert_eq!(store.run_records_page(0, 10).unwrap(), vec![]);
        let records = [record(), record(), record()];
        for (record, seq) in records.iter().zip(1..) {
            assert_eq!(store.append_run_record(record).unwrap(), seq);
        }
        let page = store.run_records_page(0, 10).unwrap();
        assert_eq!(page[1], (2, records[1].text()));
        assert_eq!(store.run_records_page(1, 1).unwrap(), page[1..2]);
        assert_eq!(store.run_records_page(u64::MAX, usize::MAX).unwrap(), vec![]);
        let health = store.check(|_, _| ()).unwrap();
        assert_eq!((health.run_records, health.findings), (3, vec![]));
    }

    #[test]
    fn a_record_is_appended_once() {
        let store = Store::in_memory().unwrap();
        let record = record();
        store.append_run_record(&record).unwrap();
        store.append_run_record(&record).unwrap_err();
        assert_eq!(store.run_records_page(0, 10).unwrap().len(), 1);
    }
}

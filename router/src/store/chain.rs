//! Tables whose rows are lines that are appended, numbered without a gap, and chained by hash like the runs.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, Transaction, params};

use super::Error;
use super::check::Health;
use super::schema::{self, Layout};
use crate::digest::Digest;

/// One such table. It has `seq`, `body` and `head`, and perhaps more.
pub(super) struct Chain {
    /// The table.
    pub(super) table: &'static str,
    /// The first version of the tables that has it.
    pub(super) since: i64,
    /// What a line is called.
    pub(super) noun: &'static str,
}

/// Lines that are being appended, in one transaction.
pub(super) struct Appending<'a> {
    chain: &'a Chain,
    transaction: &'a Transaction<'a>,
    seq: i64,
    head: Digest,
}

impl Chain {
    /// Says whether the file has the table. Looked at each time: another process may add it.
    pub(super) fn is_kept(&self, connection: &Connection) -> Result<bool, Error> {
        Ok(matches!(schema::layout(connection)?, Layout::Ours(version) if version >= self.since))
    }

    /// Begins to append after the last line.
    pub(super) fn append<'a>(
        &'a self,
        transaction: &'a Transaction<'a>,
    ) -> Result<Appending<'a>, Error> {
        let sql = format!("SELECT seq, head FROM {} ORDER BY seq DESC LIMIT 1", self.table);
        let last = transaction
            .prepare_cached(&sql)?
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, Digest::from_bytes(row.get(1)?))))
            .optional()?;
        let (seq, head) = last.unwrap_or((0, Digest::ZERO));
        Ok(Appending { chain: self, transaction, seq, head })
    }

    /// Returns lines with their numbers, in order, beginning after the one with the number `after`. A file
    /// without the table has none.
    pub(super) fn page(
        &self,
        connection: &Connection,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, String)>, Error> {
        if !self.is_kept(connection)? {
            return Ok(Vec::new());
        }
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql =
            format!("SELECT seq, body FROM {} WHERE seq > ?1 ORDER BY seq LIMIT ?2", self.table);
        let mut query = connection.prepare_cached(&sql)?;
        let lines = query.query_map(params![after, limit], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), text(row, 1)?))
        })?;
        Ok(lines.collect::<Result<_, _>>()?)
    }

    /// Looks at every line: its number, its link in the chain, and what `malformed` says of the row. Returns how
    /// many there are.
    pub(super) fn check(
        &self,
        connection: &Connection,
        health: &mut Health,
        malformed: impl Fn(&Row<'_>, i64, &str) -> Result<Option<String>, rusqlite::Error>,
    ) -> Result<u64, Error> {
        if !self.is_kept(connection)? {
            return Ok(0);
        }
        let noun = self.noun;
        let mut query =
            connection.prepare(&format!("SELECT * FROM {} ORDER BY seq", self.table))?;
        let mut rows = query.query([])?;
        let (mut count, mut before, mut head) = (0, 0, Digest::ZERO);
        while let Some(row) = rows.next()? {
            count += 1;
            let seq: i64 = row.get("seq")?;
            let line = text(row, row.as_ref().column_index("body")?)?;
            if seq != before + 1 {
                health.find(None, format!("{noun} {seq} follows {before}"));
            }
            before = seq;
            head = head.chain(&line);
            let recorded: Vec<u8> = row.get("head")?;
            if recorded != head.as_bytes() {
                health.find(None, format!("{noun} {seq}: the chain is broken"));
                // From here on the chain is taken as it is recorded, so that one break is told once.
                if let Ok(bytes) = recorded.try_into() {
                    head = Digest::from_bytes(bytes);
                }
            }
            if let Some(problem) = malformed(row, seq, &line)? {
                health.find(None, format!("{noun} {seq}: {problem}"));
            }
        }
        Ok(count)
    }
}

impl Appending<'_> {
    /// Returns the number of the next line.
    pub(super) const fn next(&self) -> i64 {
        self.seq + 1
    }

    /// Appends a line, with the values of the columns that the table has beside the chain's, and returns its
    /// number.
    pub(super) fn line(&mut self, line: &str, more: &[(&str, &dyn ToSql)]) -> Result<i64, Error> {
        self.seq += 1;
        self.head = self.head.chain(line);
        let names: String = more.iter().map(|(name, _)| format!(", {name}")).collect();
        let places: String = (0..more.len()).map(|index| format!(", ?{}", index + 4)).collect();
        let table = self.chain.table;
        let sql =
            format!("INSERT INTO {table} (seq, body, head{names}) VALUES (?1, ?2, ?3{places})");
        let head = &self.head.as_bytes()[..];
        let mut values: Vec<&dyn ToSql> = vec![&self.seq, &line, &head];
        values.extend(more.iter().map(|(_, value)| *value));
        self.transaction.prepare_cached(&sql)?.execute(&values[..])?;
        Ok(self.seq)
    }
}

/// Reads a text. A damaged one is shown as far as it can be; the chain tells.
fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

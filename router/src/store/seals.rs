//! Seals of runs: their attestations, and their places in the log.

use std::sync::mpsc::Receiver;

use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Row, TransactionBehavior, params,
};

use super::reader;
use super::record::{Log, Status};
use super::schema::{self, Layout};
use super::{Error, Store};

/// The first version of the tables that has seals.
const SINCE: i64 = 5;
/// At most so much of runs is read at once, unless one is larger.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// As many runs as are sealed at once end in any order; the last of their entries is among so many.
const LAST: i64 = 1024;

/// A run that is over and has no seal yet.
#[derive(Clone, Debug)]
pub struct Unsealed {
    /// Its number in this store.
    pub run_no: i64,
    /// The run with its events.
    pub log: Log,
}

/// The seal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeal {
    /// The number of its leaf in the log.
    pub leaf: u64,
    /// The envelope, as one line of JSON without its newline.
    pub attestation: String,
}

impl Store {
    /// Returns who is told the number of every run of this process that is over and durable. There is one at a time:
    /// who asks again takes the place of who asked before.
    ///
    /// # Errors
    /// When the store was opened only for reading.
    pub fn ended(&self) -> Result<Receiver<i64>, Error> {
        Ok(self.writer()?.ended())
    }

    /// Ends that: who was told hears no more, and that it is so.
    pub fn tell_no_more(&self) {
        if let Ok(writer) = self.writer() {
            writer.tell_no_more();
        }
    }

    /// Returns those of some runs that are over and have no seal: as many from the first on as are not too much at
    /// once, one at least. Also returns how many of the numbers that covers.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unsealed(&self, runs: &[i64]) -> Result<(Vec<Unsealed>, usize), Error> {
        let runs = runs.to_owned();
        self.read(move |connection| {
            let (mut found, mut bytes, mut covered) = (Vec::new(), 0, 0);
            for run_no in runs {
                if bytes >= MOST_BYTES {
                    break;
                }
                covered += 1;
                let Some(record) = reader::by_number(connection, run_no)? else { continue };
                if record.progress.status == Status::Running || is_sealed(connection, run_no)? {
                    continue;
                }
                let bodies = reader::bodies(connection, run_no)?;
                bytes += bodies.iter().map(String::len).sum::<usize>();
                found.push(Unsealed { run_no, log: Log { record, bodies } });
            }
            Ok((found, covered))
        })
    }

    /// Returns the numbers of runs of ours that are over and have no seal, in order, after the run of a number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unsealed_after(&self, after: i64, limit: usize) -> Result<Vec<i64>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            let mut query = connection.prepare_cached(
                "SELECT run_no FROM runs WHERE run_no > ?1 AND status != 'RUNNING' \
                 AND origin IS NULL AND NOT EXISTS \
                 (SELECT 1 FROM seals WHERE seals.run_no = runs.run_no) ORDER BY run_no LIMIT ?2",
            )?;
            let numbers = query.query_map([after, limit], |row| row.get(0))?;
            Ok(numbers.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps seals of runs. One that has a seal by now, of another process, keeps that.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_seals(&self, seals: Vec<(i64, RunSeal)>) -> Result<(), Error> {
        self.writer()?.write(move |connection| keep(connection, &seals))
    }

    /// Returns the seal of a run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn seal_of(&self, run_id: &str) -> Result<Option<RunSeal>, Error> {
        Ok(self.numbered_seal_of(run_id)?.map(|(_, seal)| seal))
    }

    /// Returns the seal of a run, with the number of the run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn numbered_seal_of(&self, run_id: &str) -> Result<Option<(i64, RunSeal)>, Error> {
        let run_id = run_id.to_owned();
        let query = "SELECT run_no, leaf, attestation FROM seals JOIN runs USING (run_no) \
             WHERE run_id = ?1";
        self.one_seal(query, move |query| query.query_row([run_id], numbered))
    }

    /// Returns the seal of the run of a number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn seal_of_number(&self, run_no: i64) -> Result<Option<RunSeal>, Error> {
        let query = "SELECT run_no, leaf, attestation FROM seals WHERE run_no = ?1";
        Ok(self.one_seal(query, move |query| query.query_row([run_no], numbered))?.map(|it| it.1))
    }

    /// Returns the seal of the run with the highest number, with that number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn newest_seal(&self) -> Result<Option<(i64, RunSeal)>, Error> {
        let query = "SELECT run_no, leaf, attestation FROM seals ORDER BY run_no DESC LIMIT 1";
        self.one_seal(query, |query| query.query_row([], numbered))
    }

    /// Returns the seal with the last entry of the log among those of the newest runs, after the run of a number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_seal(&self, after: i64) -> Result<Option<RunSeal>, Error> {
        let query = "SELECT run_no, leaf, attestation FROM \
             (SELECT * FROM seals WHERE run_no > ?1 ORDER BY run_no DESC LIMIT ?2) \
             ORDER BY leaf DESC LIMIT 1";
        let found = self.one_seal(query, move |query| query.query_row([after, LAST], numbered))?;
        Ok(found.map(|(_, seal)| seal))
    }

    fn one_seal(
        &self,
        query: &'static str,
        ask: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<(i64, RunSeal)> + Send + 'static,
    ) -> Result<Option<(i64, RunSeal)>, Error> {
        self.read(move |connection| {
            // Another process may have brought the file to this version since it was opened.
            match schema::layout(connection)? {
                Layout::Ours(version) if version >= SINCE => {}
                _ => return Ok(None),
            }
            Ok(ask(&mut connection.prepare_cached(query)?).optional()?)
        })
    }
}

fn numbered(row: &Row<'_>) -> rusqlite::Result<(i64, RunSeal)> {
    let leaf = row.get::<_, i64>(1)?.cast_unsigned();
    Ok((row.get(0)?, RunSeal { leaf, attestation: row.get(2)? }))
}

fn is_sealed(connection: &Connection, run_no: i64) -> Result<bool, Error> {
    let mut query = connection.prepare_cached("SELECT 1 FROM seals WHERE run_no = ?1")?;
    Ok(query.exists([run_no])?)
}

fn keep(connection: &mut Connection, seals: &[(i64, RunSeal)]) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (run_no, RunSeal { leaf, attestation }) in seals {
        // A run that an import took out of the store in the meantime needs none.
        let runs =
            transaction.prepare_cached("SELECT 1 FROM runs WHERE run_no = ?1")?.exists([run_no])?;
        if runs && !is_sealed(&transaction, *run_no)? {
            transaction
                .prepare_cached("INSERT INTO seals VALUES (?1, ?2, ?3)")?
                .execute(params![run_no, leaf.cast_signed(), attestation])?;
        }
    }
    Ok(transaction.commit()?)
}

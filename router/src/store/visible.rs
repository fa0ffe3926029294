//! The runs that a caller sees, as a condition of the questions to the store.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::check::Health;
use super::record::{Log, RunRecord, Status, Tail};
use super::schema::{self, TOKEN_OF_LOG};
use super::{Counted, Error, Filter, Listed, Listing, Store, reader};

pub(super) const NEWEST_OF_TOKEN: &str = "SELECT created_at, run_no FROM runs WHERE token_id = ?4 \
    AND status = ?1 AND created_at >= ?2 ORDER BY created_at DESC, run_no DESC LIMIT ?3";
pub(super) const COUNT_OF_TOKEN: &str =
    "SELECT count(*) FROM runs WHERE token_id = ?3 AND status = ?1 AND created_at >= ?2";

/// The runs that a caller sees. A run that a caller does not see does not exist for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VisibleRuns {
    /// All runs.
    #[default]
    All,
    /// The runs that were started with the token of this id.
    OfToken(String),
}

impl VisibleRuns {
    /// Returns the token whose runs are seen, unless all are.
    pub(super) fn token_id(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::OfToken(token_id) => Some(token_id),
        }
    }
}

impl Store {
    /// Finds a run among those that a caller sees.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find_visible(
        &self,
        run_id: &str,
        visible: &VisibleRuns,
    ) -> Result<Option<RunRecord>, Error> {
        let Some(token_id) = visible.token_id() else { return self.find(run_id) };
        let (run_id, token_id) = (run_id.to_owned(), token_id.to_owned());
        self.read(move |connection| {
            Ok(find(connection, &run_id, &token_id)?.map(|(_, record)| record))
        })
    }

    /// Reads a run with its events, if a caller sees it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn log_visible(&self, run_id: &str, visible: &VisibleRuns) -> Result<Option<Log>, Error> {
        let Some(token_id) = visible.token_id() else { return self.log(run_id) };
        let (run_id, token_id) = (run_id.to_owned(), token_id.to_owned());
        self.read(move |connection| match find(connection, &run_id, &token_id)? {
            Some((run_no, record)) => {
                Ok(Some(Log { record, bodies: reader::bodies(connection, run_no)? }))
            }
            None => Ok(None),
        })
    }

    /// Reads some of the events of a run, from the one with number `from` on, if a caller sees the run.
    ///
    /// # Errors
    /// When the store cannot be read, or is one of the Python router.
    pub fn tail_visible(
        &self,
        run_id: &str,
        from: u64,
        visible: &VisibleRuns,
    ) -> Result<Option<Tail>, Error> {
        let Some(token_id) = visible.token_id() else { return self.tail(run_id, from) };
        let (run_id, token_id) = (run_id.to_owned(), token_id.to_owned());
        self.read(move |connection| match find(connection, &run_id, &token_id)? {
            Some(_) => reader::tail(connection, &run_id, from),
            None => Ok(None),
        })
    }
}

/// Finds a run of a token, and its number.
pub(super) fn find(
    connection: &Connection,
    run_id: &str,
    token_id: &str,
) -> Result<Option<(i64, RunRecord)>, Error> {
    Ok(connection
        .prepare_cached(reader::BY_ID_AND_TOKEN)?
        .query_row([run_id, token_id], reader::record)
        .optional()?)
}

/// Lists the runs of a token, the newest first.
pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    token_id: &str,
) -> Result<Listing, Error> {
    if let Some(run_id) = &filter.run_id {
        let found = find(connection, run_id, token_id)?.map(|(_, record)| record);
        return Ok(reader::list_one(found, filter));
    }
    let wanted: &[Status] = filter.status.as_ref().map_or(&Status::ALL, std::slice::from_ref);
    let since = filter.since.as_deref().unwrap_or("");
    let enough = i64::try_from(filter.offset.saturating_add(filter.limit)).unwrap_or(i64::MAX);
    let mut counted = Counted::default();
    let mut newest: Vec<(String, i64)> = Vec::new();
    for status in wanted {
        let count: i64 = connection
            .prepare_cached(COUNT_OF_TOKEN)?
            .query_row(params![status.name(), since, token_id], |row| row.get(0))?;
        counted.add(Some(*status), count.cast_unsigned());
        let mut query = connection.prepare_cached(NEWEST_OF_TOKEN)?;
        let rows = query.query_map(params![status.name(), since, enough, token_id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        for row in rows {
            newest.push(row?);
        }
    }
    newest.sort_by(|one, other| other.cmp(one));
    let page = newest.iter().skip(filter.offset).take(filter.limit);
    let runs = page.filter_map(|(_, run_no)| {
        reader::by_number(connection, *run_no).map(|found| found.map(Listed::new)).transpose()
    });
    Ok(Listing { runs: runs.collect::<Result<_, _>>()?, counted })
}

/// Checks that the token of each run is the one in its log.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    if !schema::has_callers(connection)? {
        return Ok(());
    }
    let sql = format!(
        "SELECT run_id FROM runs WHERE token_id IS NOT \
         (CASE WHEN origin IS NULL THEN {TOKEN_OF_LOG} END) ORDER BY run_no"
    );
    let mut query = connection.prepare(&sql)?;
    for run_id in query.query_map([], |row| row.get::<_, String>(0))? {
        health.find(Some(&run_id?), "the token differs from the one in the log".to_owned());
    }
    Ok(())
}

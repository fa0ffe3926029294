//! Bytes that the runs of each token stored lately.

use rusqlite::{Connection, params};

use super::record::Status;
use super::{Error, Store, schema};
use crate::clock::Timestamp;

/// Most runs of one status to read, so that a start after a busy hour takes seconds at most.
const MOST_RUNS: i64 = 500_000;

/// `octet_length` reads the length of a segment without the segment.
const STORED_BYTES: &str = "SELECT token_id, sum(octet_length(body)) FROM \
    (SELECT run_no, token_id FROM runs WHERE status = ?1 AND created_at >= ?2 AND token_id IS NOT NULL \
        ORDER BY created_at DESC LIMIT ?3) AS recent \
    JOIN segments ON segment_no >= recent.run_no << 24 AND segment_no < (recent.run_no + 1) << 24 \
    GROUP BY token_id";

impl Store {
    /// Returns the event bytes of the runs of each token that were created since a moment.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn stored_bytes_since(&self, since: Timestamp) -> Result<Vec<(String, u64)>, Error> {
        if self.is_python() {
            return Ok(Vec::new());
        }
        self.read(move |connection| stored_bytes(connection, since))
    }
}

fn stored_bytes(connection: &Connection, since: Timestamp) -> Result<Vec<(String, u64)>, Error> {
    if !schema::has_callers(connection)? {
        return Ok(Vec::new());
    }
    let mut query = connection.prepare(STORED_BYTES)?;
    let mut found = Vec::new();
    for status in [Status::Running, Status::Completed, Status::Failed] {
        let rows = query
            .query_map(params![status.name(), since.to_string(), MOST_RUNS], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })?;
        for row in rows {
            let (token_id, bytes) = row?;
            found.push((token_id, bytes.cast_unsigned()));
        }
    }
    Ok(found)
}

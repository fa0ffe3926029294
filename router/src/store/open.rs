//! How a file comes to be a connection: what it is, who may use it, and what every connection needs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::Error;
use super::owner::Identity;
use super::schema::{self, Layout};
use crate::clock::Clock;

/// How long to wait when another process is in the way.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Opens a file for writing, and makes it if there is none.
pub(super) fn writer(path: &Path) -> Result<Connection, Error> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !directory.is_dir()
    {
        let message = format!("there is no directory {}", directory.display());
        return Err(Error::Unopenable { path: path.to_owned(), message });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| Error::opening(path, &error))
}

/// Opens a file for reading.
pub(super) fn reader(path: &Path, busy: Duration) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |connection: Connection| -> Result<Connection, rusqlite::Error> {
        connection.busy_timeout(busy)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    let opened = Connection::open_with_flags(path, flags).and_then(open);
    let error = match opened {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    // In a directory where nothing can be written there is no room for the shared index of a WAL; a
    // file without a WAL does not need it, as nobody can be writing to it either.
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen)
        && !Path::new(&wal).exists()
        && let Some(text) = path.to_str()
    {
        let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let uri = format!("file:{escaped}?immutable=1");
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        return Connection::open_with_flags(uri, flags)
            .and_then(open)
            .map_err(|error| Error::opening(path, &error));
    }
    Err(Error::opening(path, &error))
}

/// Returns the one name of a file that has several.
pub(super) fn real(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Says what a file is, unless it is of a newer program.
pub(super) fn layout(connection: &Connection, path: &Path) -> Result<Layout, Error> {
    match schema::layout(connection) {
        Ok(Layout::Ours(found)) if found > schema::VERSION => {
            Err(Error::Newer { path: path.to_owned(), found, known: schema::VERSION })
        }
        Err(Error::Damaged(text)) if text.contains("not a database") => {
            Err(Error::Foreign(path.to_owned()))
        }
        other => other,
    }
}

/// Sets what every writing connection needs.
pub(super) fn prepare(connection: &Connection, busy: Duration) -> Result<(), Error> {
    let mode = write_ahead(connection, busy)?;
    if mode != "wal" && mode != "memory" {
        return Err(Error::Disk(format!("the file system does not allow WAL, only {mode}")));
    }
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 2000; \
         PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
    )?;
    Ok(())
}

/// Turns on the WAL. Two processes that do so at once are in each other's way, and SQLite does not wait
/// there by itself.
fn write_ahead(connection: &Connection, busy: Duration) -> Result<String, Error> {
    let end = Instant::now() + busy;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(Error::from) {
            Err(Error::Busy) if Instant::now() < end => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
}

/// Brings the tables to the present version, and records this process as an owner.
pub(super) fn adopt(connection: &mut Connection, identity: &Identity) -> Result<i64, Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at again under the lock: another process may have just made the tables.
    match schema::layout(&transaction)? {
        Layout::Empty => schema::migrate(&transaction, 0)?,
        Layout::Ours(version) if version < schema::VERSION => {
            schema::migrate(&transaction, version)?;
        }
        _ => {}
    }
    transaction.execute(
        "INSERT INTO owners (owner_id, boot_id, pid, started, since) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            identity.owner_id,
            identity.boot_id,
            identity.pid,
            identity.started.cast_signed(),
            Clock::System.now().to_string()
        ],
    )?;
    let owner_no = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(owner_no)
}

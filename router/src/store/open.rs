//! How a file comes to be a connection: what it is, who may use it, and what every connection needs.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::owner::Identity;
use super::schema::{self, Layout};
use super::{Error, held_answer, held_arguments, identity as file_identity};
use crate::clock::Clock;

/// How long to wait when another process is in the way.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Makes an empty file that only its owner can read, where there is none: runs are nobody else's business.
/// SQLite takes it for a new store, and says what is wrong where this fails.
pub(super) fn make_private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    drop(std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
}

/// Opens a file for writing, and makes it if there is none. Also tells which file it is.
pub(super) fn writer(path: &Path) -> Result<(Connection, Option<(u64, u64)>), Error> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !directory.is_dir()
    {
        let message = format!("there is no directory {}", directory.display());
        return Err(Error::Unopenable { path: path.to_owned(), message });
    }
    refuse_other_kinds(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error: rusqlite::Error| Error::opening(path, &error);
    let before = file(path);
    make_private(path);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // SQLite is content with less than it was asked for.
    if connection.is_readonly("main").map_err(failed)? {
        let message = "this user may not write to it".to_owned();
        return Err(Error::Unopenable { path: path.to_owned(), message });
    }
    Ok((connection, before.or_else(|| file(path))))
}

/// Tells which file has a name at present.
pub(super) fn file(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Refuses a path that leads to nothing, or that cannot be looked up.
pub(super) fn require(path: &Path) -> Result<(), Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
            Err(Error::Missing(path.to_owned()))
        }
        Err(error) => Err(Error::Unopenable { path: path.to_owned(), message: error.to_string() }),
    }
}

/// Refuses what is no file: a pipe is waited for without end, and a device keeps nothing.
fn refuse_other_kinds(path: &Path) -> Result<(), Error> {
    for beside in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        if let Ok(found) = std::fs::metadata(&name)
            && !found.is_file()
        {
            let kind = if found.is_dir() { "a directory" } else { "a pipe, a socket or a device" };
            let message = format!("it is {kind}, and no file");
            return Err(Error::Unopenable { path: name.into(), message });
        }
    }
    Ok(())
}

/// Opens a file for reading. What is created for that is gone when it is closed.
pub(super) fn reader(path: &Path, busy: Duration) -> Result<Connection, Error> {
    refuse_other_kinds(path)?;
    let open = |connection: Connection| -> Result<Connection, rusqlite::Error> {
        connection.busy_timeout(busy)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let has_wal = Path::new(&wal).exists();
    // Who may only read cannot take away the WAL that reading makes; who may write would move an old one
    // into the file.
    let access =
        if has_wal { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let opened =
        Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).and_then(open);
    let error = match opened {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    // In a directory where nothing can be written there is no room for the shared index of a WAL; a
    // file without a WAL does not need it, as nobody can be writing to it either.
    let unwritable = error.sqlite_error_code().is_some_and(|code| {
        matches!(code, rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
    });
    if unwritable
        && !has_wal
        && let Some(text) = path.to_str()
    {
        let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let uri = format!("file:{escaped}?immutable=1");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        return Connection::open_with_flags(uri, flags)
            .and_then(open)
            .map_err(|error| Error::opening(path, &error));
    }
    Err(Error::opening(path, &error))
}

/// Returns the one name of a file that has several, as SQLite does; what stands beside the file is named
/// after it.
pub(super) fn real(path: &Path) -> PathBuf {
    let real = path.canonicalize().or_else(|_| std::path::absolute(path));
    real.unwrap_or_else(|_| path.to_owned())
}

/// Says what a file is, unless it is of a newer program.
pub(super) fn layout(connection: &Connection, path: &Path) -> Result<Layout, Error> {
    match schema::layout(connection) {
        Ok(Layout::Ours(found)) if found > schema::VERSION => {
            Err(Error::Newer { path: path.to_owned(), found, known: schema::VERSION })
        }
        Ok(Layout::Ours(found)) if found < 1 => {
            Err(Error::Damaged(format!("its tables have the version {found}")))
        }
        // The file may be written, but what SQLite needs beside it may not.
        Err(Error::Disk(text)) if text.contains("readonly") => {
            let message = "this user may not write in its directory".to_owned();
            Err(Error::Unopenable { path: path.to_owned(), message })
        }
        Err(Error::Damaged(text)) if text.contains("not a database") => {
            Err(Error::Foreign(path.to_owned()))
        }
        other => other,
    }
}

/// Sets what every writing connection needs.
pub(super) fn prepare(connection: &Connection, path: &Path, busy: Duration) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::opening(path, &error);
    let mode = write_ahead(connection, busy).map_err(failed)?;
    if mode != "wal" && mode != "memory" {
        return Err(Error::Disk(format!("the file system does not allow WAL, only {mode}")));
    }
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 2000; \
             PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
        )
        .map_err(failed)
}

/// Turns on the WAL. Two processes that do so at once are in each other's way, and SQLite does not wait
/// there by itself.
fn write_ahead(connection: &Connection, busy: Duration) -> Result<String, rusqlite::Error> {
    let end = Instant::now() + busy;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && Instant::now() < end =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

/// Brings the tables to the present version, binds a new store to its file, and records this process as an owner.
pub(super) fn adopt(
    connection: &mut Connection,
    path: &Path,
    file: Option<&Path>,
    identity: &Identity,
) -> Result<i64, Error> {
    let failed = |error: rusqlite::Error| Error::opening(path, &error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Looked at again under the lock: another process may have just made the tables.
    let version = match layout(&transaction, path)? {
        Layout::Empty => 0,
        Layout::Ours(version) => version,
        Layout::Python | Layout::Unknown => return Err(Error::Foreign(path.to_owned())),
    };
    if version < schema::VERSION {
        schema::migrate(&transaction, version)?;
        if let Some(file) = file.filter(|_| version < schema::CALLERS_SINCE) {
            file_identity::bind(&transaction, file)?;
        }
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
    held_answer::remove_expired(&transaction, Clock::System.now())?;
    held_arguments::remove_leftover(&transaction, Clock::System.now())?;
    transaction.commit()?;
    Ok(owner_no)
}

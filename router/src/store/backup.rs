//! Copies of a store: made while it is in use, and put back.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Transaction};

use super::open::PAUSE;
use super::owner::{COPIED, Identity, Life, identity};
use super::schema::{self, Layout};
use super::{BUSY_TIMEOUT, Error, held_arguments, identity as file_identity, open};

/// Pages that are copied at a time.
const PAGES: i32 = 512;
/// What SQLite keeps beside a file and applies to whatever has the file's name.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// Copies a store to a new file while others use it; `progress` hears how many pages are done, and of
/// how many.
///
/// # Errors
/// When the target exists, or either file cannot be used.
pub fn backup(store: &Path, target: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    open::require(store)?;
    let names = std::iter::once(target.to_owned()).chain(LOGS.map(|log| beside(target, log)));
    if let Some(path) = names.into_iter().find(|name| name.exists()) {
        let message = "the file exists already".to_owned();
        return Err(Error::Unopenable { path, message });
    }
    let source = open::reader(store, BUSY_TIMEOUT)?;
    schema::layout(&source)?.known(store)?;
    copy(&source, target, Purpose::Keep, progress)
}

/// Purpose of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is kept. It keeps the identity of its source, so nothing writes to it unless it is restored or adopted.
    Keep,
    /// It takes the place of a store, and gets an identity of its own.
    Use,
    /// It is what this process saved of a displaced store: the same in everything but its identity.
    Rescue,
}

/// Copies to a file beside the target, and gives it its name when it is whole.
pub(super) fn copy(
    source: &Connection,
    target: &Path,
    purpose: Purpose,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let part = beside(target, ".part");
    drop(std::fs::remove_file(&part));
    let copied = copy_to(source, &part, purpose, progress);
    let moved = copied.and_then(|()| std::fs::rename(&part, target).map_err(|e| io(target, &e)));
    if moved.is_err() {
        drop(std::fs::remove_file(&part));
        return moved;
    }
    sync_directory(target)
}

fn copy_to(
    source: &Connection,
    part: &Path,
    purpose: Purpose,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    open::make_private(part);
    let mut copy = Connection::open(part).map_err(|error| Error::opening(part, &error))?;
    {
        let _moment = moment(source)?;
        let backup = Backup::new(source, &mut copy)?;
        let mut end = Instant::now() + BUSY_TIMEOUT;
        loop {
            let step = backup.step(PAGES)?;
            let state = backup.progress();
            let pages = |count: i32| u64::try_from(count).unwrap_or_default();
            progress(pages(state.pagecount - state.remaining), pages(state.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => end = Instant::now() + BUSY_TIMEOUT,
                _ if Instant::now() < end => std::thread::sleep(PAUSE),
                _ => return Err(Error::Busy),
            }
        }
    }
    let said: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if said != "ok" {
        return Err(Error::Damaged(said));
    }
    if purpose == Purpose::Rescue {
        file_identity::bind_copy(&mut copy, part, "store.rescued")?;
    } else if let Ok(Layout::Ours(1..=schema::VERSION)) = schema::layout(&copy) {
        // They carry out the runs of the store, and not those of its copy.
        copy.execute_batch(&format!(
            "UPDATE runs SET owner = {COPIED} WHERE status = 'RUNNING' AND owner IS NOT NULL; \
             DELETE FROM owners;",
        ))?;
        held_arguments::remove_from_copy(&copy)?;
        if purpose == Purpose::Use {
            file_identity::bind_copy(&mut copy, part, "store.restored")?;
        }
    }
    // A copy is one file; the WAL comes back when it is opened for writing.
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    copy.close().map_err(|(_, error)| Error::from(error))?;
    std::fs::File::open(part).and_then(|file| file.sync_all()).map_err(|error| io(part, &error))
}

/// Holds on to one moment of a store, where that keeps nobody from writing. Without it every write by
/// others would make the copy begin again.
fn moment(source: &Connection) -> Result<Option<Transaction<'_>>, Error> {
    let mode: String = source.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Ok(None);
    }
    let transaction = source.unchecked_transaction()?;
    transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(Some(transaction))
}

/// Puts a copy in the place of a store. What was there is kept under another name, which is returned.
///
/// # Errors
/// When the copy is not a sound store of a known version, or a process has the store open.
pub fn restore(
    copy: &Path,
    store: &Path,
    progress: impl FnMut(u64, u64),
) -> Result<Option<PathBuf>, Error> {
    open::require(copy)?;
    let source = open::reader(copy, BUSY_TIMEOUT)?;
    open::layout(&source, copy)?.known(copy)?;
    let store = &open::real(store);
    let kept = beside(store, &format!(".before-restore-{}", crate::id::run_id()));
    if !store.exists() {
        set_logs_aside(store, &kept)?;
        self::copy(&source, store, Purpose::Use, progress)?;
        return Ok(None);
    }
    let fresh = beside(store, ".restoring");
    drop(std::fs::remove_file(&fresh));
    self::copy(&source, &fresh, Purpose::Use, progress)?;
    let swapped = quiesce(store).and_then(|_held| swap(&fresh, store, &kept));
    if swapped.is_err() {
        drop(std::fs::remove_file(&fresh));
    }
    swapped.map(|()| Some(kept))
}

/// Makes sure that nobody uses the store, and leaves it as one file. Nobody can use it as long as the
/// connection is there that is returned.
fn quiesce(store: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(store, flags).map_err(|error| Error::opening(store, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    refuse_living_owners(&connection, store)?;
    for sql in ["PRAGMA journal_mode = DELETE", "BEGIN EXCLUSIVE"] {
        // A damaged store is what a backup is restored for: then there is nothing to hold.
        if let Err(Error::Busy) = connection.execute_batch(sql).map_err(Error::from) {
            return Err(Error::Busy);
        }
    }
    // One may have come in between.
    refuse_living_owners(&connection, store)?;
    Ok(connection)
}

fn refuse_living_owners(connection: &Connection, store: &Path) -> Result<(), Error> {
    // A damaged store has nobody to ask for.
    let Ok(Layout::Ours(_)) = schema::layout(connection) else { return Ok(()) };
    let Ok(owners) = owners(connection) else { return Ok(()) };
    match owners.iter().find(|owner| owner.life(store) == Life::Alive) {
        None => Ok(()),
        Some(Identity { pid, .. }) => {
            let message = format!("process {pid} has the store open; stop it first");
            Err(Error::Unopenable { path: store.to_owned(), message })
        }
    }
}

pub(super) fn owners(connection: &Connection) -> Result<Vec<Identity>, rusqlite::Error> {
    let mut query = connection.prepare("SELECT owner_id, boot_id, pid, started FROM owners")?;
    let owners = query.query_map([], |row| identity(row, 0))?;
    owners.collect()
}

/// Gives the old file a second name, and the new one the old name: at no time is there none.
fn swap(fresh: &Path, store: &Path, kept: &Path) -> Result<(), Error> {
    std::fs::hard_link(store, kept).map_err(|error| io(kept, &error))?;
    set_logs_aside(store, kept)?;
    std::fs::rename(fresh, store).map_err(|error| io(store, &error))?;
    sync_directory(store)
}

/// Takes away what SQLite would apply to the next file of the name. Only a damaged store still has any.
fn set_logs_aside(store: &Path, kept: &Path) -> Result<(), Error> {
    for log in LOGS {
        match std::fs::rename(beside(store, log), beside(kept, log)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io(&beside(store, log), &error));
            }
            _ => {}
        }
    }
    drop(std::fs::remove_file(beside(store, "-shm")));
    sync_directory(store)
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(file: &Path) -> Result<(), Error> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| io(directory, &error))
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Error::Full(error.to_string()),
        _ => Error::Unopenable { path: path.to_owned(), message: error.to_string() },
    }
}

//! Copies of a store: made while it is in use, and put back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::owner::{Identity, Life};
use super::schema::{self, Layout};
use super::{BUSY_TIMEOUT, Error, open};

/// Pages that are copied at a time; writers get their turn in between.
const PAGES: i32 = 512;
/// How long to wait when a writer is in the way.
const PAUSE: Duration = Duration::from_millis(5);

/// Copies a store to a new file while others use it; `progress` hears how many pages are done, and of
/// how many.
///
/// # Errors
/// When the target exists, or either file cannot be used.
pub fn backup(store: &Path, target: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    if !store.exists() {
        return Err(Error::Missing(store.to_owned()));
    }
    if target.exists() {
        let message = "the file exists already".to_owned();
        return Err(Error::Unopenable { path: target.to_owned(), message });
    }
    let source = open::reader(store, BUSY_TIMEOUT)?;
    if schema::layout(&source)? == Layout::Unknown {
        return Err(Error::Foreign(store.to_owned()));
    }
    copy(&source, target, progress)
}

/// Copies to a file beside the target, and gives it its name when it is whole.
fn copy(source: &Connection, target: &Path, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let part = beside(target, ".part");
    drop(std::fs::remove_file(&part));
    let copied = copy_to(source, &part, progress);
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
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let mut copy = Connection::open(part).map_err(|error| Error::opening(part, &error))?;
    {
        let backup = Backup::new(source, &mut copy)?;
        loop {
            let step = backup.step(PAGES)?;
            let state = backup.progress();
            let pages = |count: i32| u64::try_from(count).unwrap_or_default();
            progress(pages(state.pagecount - state.remaining), pages(state.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
    let said: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if said != "ok" {
        return Err(Error::Damaged(said));
    }
    // A copy is one file; the WAL comes back when it is opened for writing.
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    copy.close().map_err(|(_, error)| Error::from(error))?;
    std::fs::File::open(part).and_then(|file| file.sync_all()).map_err(|error| io(part, &error))
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
    if !copy.exists() {
        return Err(Error::Missing(copy.to_owned()));
    }
    let source = open::reader(copy, BUSY_TIMEOUT)?;
    match schema::layout(&source)? {
        Layout::Ours(found) if found > schema::VERSION => {
            return Err(Error::Newer { path: copy.to_owned(), found, known: schema::VERSION });
        }
        Layout::Ours(_) | Layout::Python => {}
        Layout::Empty | Layout::Unknown => return Err(Error::Foreign(copy.to_owned())),
    }
    if !store.exists() {
        source.query_row("SELECT 1", [], |_| Ok(()))?;
        self::copy(&source, store, progress)?;
        return Ok(None);
    }
    let fresh = beside(store, ".restoring");
    drop(std::fs::remove_file(&fresh));
    self::copy(&source, &fresh, progress)?;
    let kept = quiesce(store).and_then(|()| swap(&fresh, store));
    if kept.is_err() {
        drop(std::fs::remove_file(&fresh));
    }
    kept.map(Some)
}

/// Makes sure that nobody uses the store, and leaves it as one file.
fn quiesce(store: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(store, flags).map_err(|error| Error::opening(store, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A damaged store is what a backup is restored for: then there is nobody to ask.
    if let Ok(Layout::Ours(_)) = schema::layout(&connection)
        && let Ok(owners) = owners(&connection)
        && let Some(owner) = owners.iter().find(|owner| owner.life(store) == Life::Alive)
    {
        let pid = owner.pid;
        let message = format!("process {pid} has the store open; stop it first");
        return Err(Error::Unopenable { path: store.to_owned(), message });
    }
    let quiet: Result<String, _> =
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0));
    match quiet.map_err(Error::from) {
        Err(Error::Busy) => Err(Error::Busy),
        _ => Ok(()),
    }
}

fn owners(connection: &Connection) -> Result<Vec<Identity>, rusqlite::Error> {
    let mut query = connection.prepare("SELECT owner_id, boot_id, pid, started FROM owners")?;
    let owners = query.query_map([], |row| {
        Ok(Identity {
            owner_id: row.get(0)?,
            boot_id: row.get(1)?,
            pid: row.get(2)?,
            started: row.get::<_, i64>(3)?.cast_unsigned(),
        })
    })?;
    owners.collect()
}

/// Gives the old file a second name, and the new one the old name: at no time is there none.
fn swap(fresh: &Path, store: &Path) -> Result<PathBuf, Error> {
    let kept = beside(store, &format!(".before-restore-{}", crate::id::run_id()));
    std::fs::hard_link(store, &kept).map_err(|error| io(&kept, &error))?;
    std::fs::rename(fresh, store).map_err(|error| io(store, &error))?;
    for leftover in ["-wal", "-shm"] {
        drop(std::fs::remove_file(beside(store, leftover)));
    }
    sync_directory(store)?;
    Ok(kept)
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the names in a directory durable.
fn sync_directory(file: &Path) -> Result<(), Error> {
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

//! Who carries out runs: one entry per process that has the store open for writing, with a held lock.
//!
//! The lock is what counts: the kernel lets go of it when the process is gone, however it went. Boot id,
//! process id and start time tell people who it was, and decide when the lock's file is missing.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use super::record::{Log, Status, Ticket};
use super::{Error, Orphan, held_arguments, reader};

/// This process, as the owner of runs.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) identity: Identity,
    lock: Option<(PathBuf, File)>,
}

/// What is recorded of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A name that is used once.
    pub owner_id: String,
    /// The boot of the machine.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// When the process started, in clock ticks since the boot.
    pub started: u64,
}

/// Whether an owner still carries out its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process is there.
    Alive,
    /// Its process is gone.
    Gone,
}

impl Owner {
    /// Makes this process an owner. A store in memory has no other process to tell.
    pub(super) fn register(store: Option<&Path>) -> Result<Self, Error> {
        let pid = std::process::id();
        let identity = Identity {
            owner_id: crate::id::run_id(),
            boot_id: boot_id(),
            pid,
            started: start_time(pid).unwrap_or_default(),
        };
        let Some(store) = store else { return Ok(Self { identity, lock: None }) };
        let directory = directory(store);
        let file = directory.join(&identity.owner_id);
        let failed = |error: std::io::Error| Error::Unopenable {
            path: file.clone(),
            message: error.to_string(),
        };
        let lock = lock(&directory, &file).map_err(failed)?;
        Ok(Self { identity, lock: Some((file, lock)) })
    }

    /// Returns the file that is locked while this process is an owner.
    pub(super) const fn lock(&self) -> Option<&(PathBuf, File)> {
        self.lock.as_ref()
    }
}

/// Makes a file that this process alone has locked.
fn lock(directory: &Path, file: &Path) -> std::io::Result<File> {
    loop {
        make_private(directory)?;
        let lock = match File::create_new(file) {
            // The last one to leave just removed the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lock => lock?,
        };
        lock.lock()?;
        // Before it was locked, another process may have taken it for one that was left behind.
        if lock.metadata()?.nlink() > 0 {
            return Ok(lock);
        }
    }
}

/// Makes the directory for its owner alone: whoever could lock the files would keep the runs of the dead.
fn make_private(directory: &Path) -> std::io::Result<()> {
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some((file, lock)) = self.lock.take() {
            // Removed before it is unlocked: nobody sees a file that is free while runs are finished.
            drop(std::fs::remove_file(&file));
            drop(lock);
            // Only the last one to leave finds it empty.
            if let Some(directory) = file.parent() {
                drop(std::fs::remove_dir(directory));
            }
        }
    }
}

impl Identity {
    /// Says whether the owner's process is there.
    pub(super) fn life(&self, store: &Path) -> Life {
        let file = directory(store).join(&self.owner_id);
        // A shared lock, so that two processes who ask do not take each other for the owner.
        let alive = match File::open(&file).map(|lock| lock.try_lock_shared()) {
            Ok(Ok(())) => false,
            Ok(Err(TryLockError::WouldBlock)) => true,
            // No lock can be asked for; then the process itself is looked for.
            Ok(Err(TryLockError::Error(_))) | Err(_) => self.is_running(),
        };
        if alive { Life::Alive } else { Life::Gone }
    }

    /// Returns whether the owner's process is there, also where the store is a copy without the owner's lock.
    pub(super) fn may_live(&self, store: &Path) -> bool {
        self.is_running() || self.life(store) == Life::Alive
    }

    fn is_running(&self) -> bool {
        self.boot_id == boot_id() && start_time(self.pid) == Some(self.started)
    }
}

/// Removes the lock files of owners that are gone, also of those that died before they were recorded.
fn sweep(store: &Path) {
    let Ok(entries) = std::fs::read_dir(directory(store)) else { return };
    for file in entries.flatten().map(|entry| entry.path()) {
        if let Ok(lock) = File::open(&file)
            && lock.try_lock().is_ok()
        {
            drop(std::fs::remove_file(file));
        }
    }
}

/// The directory with the locks of a store's owners.
pub(super) fn directory(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-owners");
    PathBuf::from(name)
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Reads when a process started. Its name may hold anything, so the fields are counted from its end.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A process that ended and that its parent has not waited for yet does nothing any more.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The owner of runs that were under way in the store of which this one is a copy.
pub(super) const COPIED: i64 = -1;

/// The owner of runs that wait for a person: nobody carries them out, and nobody needs to see to them.
pub(super) const WAITING: i64 = -2;

/// A run that is carried out by nobody.
pub(super) struct Left {
    run_no: i64,
    pub(super) run_id: String,
    copied: bool,
}

/// Reads who an owner is from four columns, the first of which is `first`.
pub(super) fn identity(row: &Row<'_>, first: usize) -> Result<Identity, rusqlite::Error> {
    Ok(Identity {
        owner_id: row.get(first)?,
        boot_id: row.get(first + 1)?,
        pid: row.get(first + 2)?,
        started: row.get::<_, i64>(first + 3)?.cast_unsigned(),
    })
}

/// Lists runs that are carried out by nobody, but for those that wait for a person.
pub(super) fn orphans(connection: &Connection, store: &Path) -> Result<Vec<Left>, Error> {
    let mut query = connection.prepare(
        "SELECT run_no, run_id, owner, owner_id, boot_id, pid, started FROM runs \
         LEFT JOIN owners ON owner_no = owner \
         WHERE status = 'RUNNING' AND owner IS NOT NULL AND owner != ?1 ORDER BY run_no",
    )?;
    let mut rows = query.query([WAITING])?;
    let mut lives: HashMap<String, Life> = HashMap::new();
    let mut orphans = Vec::new();
    while let Some(row) = rows.next()? {
        // An owner without an entry is the Python router whose store was taken over, or that of a copy.
        let life = match row.get::<_, Option<String>>(3)? {
            None => Life::Gone,
            Some(owner_id) => {
                let identity = identity(row, 3)?;
                *lives.entry(owner_id).or_insert_with(|| identity.life(store))
            }
        };
        if life == Life::Gone {
            let copied = row.get::<_, i64>(2)? == COPIED;
            orphans.push(Left { run_no: row.get(0)?, run_id: row.get(1)?, copied });
        }
    }
    Ok(orphans)
}

/// Gives the runs of dead owners to `heir`, or only the one that is asked for, and reads them.
pub(super) fn adopt_orphans(
    connection: &mut Connection,
    store: &Path,
    heir: &str,
    only: Option<&str>,
) -> Result<Vec<Orphan>, Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut adopted = Vec::new();
    let orphans = orphans(&transaction, store)?.into_iter();
    for Left { run_no, run_id, copied } in
        orphans.filter(|orphan| only.is_none_or(|only| only == orphan.run_id))
    {
        // A copy stays one, so that nobody takes its runs for those of a process that died here.
        if !copied {
            transaction.execute(
                "UPDATE runs SET owner = (SELECT owner_no FROM owners WHERE owner_id = ?2) \
                 WHERE run_no = ?1",
                params![run_no, heir],
            )?;
        }
        if let Some(log) = reader::log(&transaction, &run_id)? {
            let ticket = Ticket(Arc::new(AtomicI64::new(run_no)));
            let held = held_arguments::find(&transaction, run_no)?;
            adopted.push(Orphan { ticket, log, copied, held });
        }
    }
    bury_idle(&transaction, store)?;
    transaction.commit()?;
    sweep(store);
    Ok(adopted)
}

/// Reads a run that is not over, to go on with it.
pub(super) fn take_up(connection: &Connection, run_id: &str) -> Result<Option<Orphan>, Error> {
    let Some((run_no, record)) = reader::find(connection, run_id)? else { return Ok(None) };
    if record.progress.status != Status::Running {
        return Ok(None);
    }
    let bodies = reader::bodies(connection, run_no)?;
    let ticket = Ticket(Arc::new(AtomicI64::new(run_no)));
    let held = held_arguments::find(connection, run_no)?;
    Ok(Some(Orphan { ticket, log: Log { record, bodies }, copied: false, held }))
}

/// Forgets owners that are gone and have no run.
fn bury_idle(transaction: &Transaction<'_>, store: &Path) -> Result<(), Error> {
    let mut query = transaction.prepare(
        "SELECT owner_id, boot_id, pid, started FROM owners \
         WHERE owner_no NOT IN (SELECT owner FROM runs WHERE status = 'RUNNING' AND owner IS NOT NULL)",
    )?;
    let identities = query.query_map([], |row| identity(row, 0))?;
    for identity in identities.collect::<Result<Vec<_>, _>>()? {
        if identity.life(store) == Life::Gone {
            transaction.execute("DELETE FROM owners WHERE owner_id = ?1", [identity.owner_id])?;
        }
    }
    Ok(())
}

/// Records that an owner carries out nothing any more.
pub(super) fn close(connection: &Connection, owner_id: &str) -> Result<(), Error> {
    // No process has the number 0, so nobody takes it for one that lives.
    connection.execute("UPDATE owners SET pid = 0, started = 0 WHERE owner_id = ?1", [owner_id])?;
    connection.execute(
        "DELETE FROM owners WHERE owner_id = ?1 \
         AND owner_no NOT IN (SELECT owner FROM runs WHERE status = 'RUNNING' AND owner IS NOT NULL)",
        [owner_id],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_private_and_gone_with_the_last_owner() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("runs.db");
        let owners =
            [Owner::register(Some(&store)).unwrap(), Owner::register(Some(&store)).unwrap()];
        let mode = directory(&store).metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(owners);
        assert!(!directory(&store).exists());
    }

    #[test]
    fn ended_process_is_gone_before_its_parent_waits() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while start_time(child.id()).is_some() {
            assert!(std::time::Instant::now() < end, "the process does not end");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        assert!(child.wait().unwrap().success());
        assert!(start_time(std::process::id()).is_some());
    }
}

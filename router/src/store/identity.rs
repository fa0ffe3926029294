//! Identity of a store: binds the database to the file that it was created in.
//!
//! The table `identity` holds a random id, the inode and the birth time of the file. A copied or restored file has
//! another inode or birth time. Nothing writes to such a store until an operator adopts it. Renaming the file within its file system changes neither. On a file system without birth times only the
//! inodes are compared. A copy of the whole file system keeps both, so it is not detected.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};

use super::audit::{self, AuditEntry};
use super::owner::{COPIED, WAITING};
use super::schema::{self, Layout};
use super::{BUSY_TIMEOUT, Error, Store, backup, open};
use crate::clock::Clock;
use crate::json::Object;

/// Identity of a file: inode and birth time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileIdentity {
    inode: u64,
    /// Seconds and nanoseconds since 1970; empty where the file system does not record it.
    born: String,
}

impl FileIdentity {
    fn of(path: &Path) -> Result<Self, Error> {
        let found = std::fs::metadata(path).map_err(|error| Error::Unopenable {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.map(|born| format!("{}.{:09}", born.as_secs(), born.subsec_nanos()));
        Ok(Self { inode: found.ino(), born: born.unwrap_or_default() })
    }

    fn is_same_file(&self, other: &Self) -> bool {
        let unknown = self.born.is_empty() || other.born.is_empty();
        self.inode == other.inode && (unknown || self.born == other.born)
    }
}

/// Result of adopting a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The id of the store; none if an older program wrote it.
    pub store_id: Option<String>,
    /// The id before; none if the store had no identity.
    pub previous_id: Option<String>,
    /// Whether the store had been moved, copied or restored.
    pub moved: bool,
}

/// Continues a store that was moved, copied or restored: binds it to its present file under a new id, and records that in
/// the audit log. Open approvals stay open. Runs that were under way are ended in doubt, as in a backup. A store that was
/// not moved stays as it is.
///
/// # Errors
/// When a process has the store open, or the file is not a store of this router.
pub fn adopt(path: &Path) -> Result<Adoption, Error> {
    open::require(path)?;
    let path = &open::real(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::opening(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let layout = open::layout(&connection, path)?;
    layout.known(path)?;
    if layout == Layout::Python {
        return Err(Error::Python(path.clone()));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !is_moved(&transaction, path)? {
        let store_id = match schema::has_callers(&transaction)? {
            true => recorded(&transaction)?.map(|(id, _)| id),
            // An older store is bound when it is brought to the present version.
            false => None,
        };
        return Ok(Adoption { previous_id: store_id.clone(), store_id, moved: false });
    }
    refuse_running_owners(&transaction, path)?;
    let previous_id = recorded(&transaction)?.map(|(id, _)| id);
    let store_id = bind(&transaction, path)?;
    // Nobody knows what became of them in the store that this one was copied from.
    transaction.execute(
        "UPDATE runs SET owner = ?1 WHERE status = 'RUNNING' AND owner IS NOT NULL AND owner != ?2",
        [COPIED, WAITING],
    )?;
    transaction.execute("DELETE FROM owners", [])?;
    let adoption = Adoption { store_id: Some(store_id), previous_id, moved: true };
    record(&transaction, "store.adopted", &adoption)?;
    transaction.commit()?;
    Ok(adoption)
}

/// Refuses while a process runs that has the store open, or the one that the store was copied from.
pub(super) fn refuse_running_owners(connection: &Connection, path: &Path) -> Result<(), Error> {
    let owners = backup::owners(connection)?;
    match owners.iter().find(|owner| owner.may_live(path)) {
        None => Ok(()),
        Some(owner) => Err(Error::InUse { path: path.to_owned(), pid: owner.pid }),
    }
}

/// Binds a copy that is put in the place of a store, and records that under `kind`.
pub(super) fn bind_copy(connection: &mut Connection, path: &Path, kind: &str) -> Result<(), Error> {
    if !schema::has_callers(connection)? {
        // It is bound when it is brought to the present version.
        return Ok(());
    }
    let transaction = connection.transaction()?;
    let previous_id = recorded(&transaction)?.map(|(id, _)| id);
    let store_id = bind(&transaction, path)?;
    let adoption = Adoption { store_id: Some(store_id), previous_id, moved: true };
    record(&transaction, kind, &adoption)?;
    Ok(transaction.commit()?)
}

/// Binds the store to its file, under a new random id, which is returned.
pub(super) fn bind(transaction: &Transaction<'_>, path: &Path) -> Result<String, Error> {
    let FileIdentity { inode, born } = FileIdentity::of(path)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Disk(format!("cannot read random bytes: {error}")))?;
    let store_id = uuid::Builder::from_random_bytes(random).into_uuid().to_string();
    transaction.execute(
        "INSERT OR REPLACE INTO identity (only_row, store_id, inode, born) VALUES (1, ?1, ?2, ?3)",
        params![store_id, inode.cast_signed(), born],
    )?;
    Ok(store_id)
}

/// Refuses a store that is not in the file that it was created in or adopted in last.
pub(super) fn verify(connection: &Connection, path: &Path) -> Result<(), Error> {
    if is_moved(connection, path)? { Err(Error::Moved(path.to_owned())) } else { Ok(()) }
}

fn is_moved(connection: &Connection, path: &Path) -> Result<bool, Error> {
    if !schema::has_callers(connection)? {
        return Ok(false);
    }
    let now = FileIdentity::of(path)?;
    Ok(!recorded(connection)?.is_some_and(|(_, file)| file.is_same_file(&now)))
}

fn recorded(connection: &Connection) -> Result<Option<(String, FileIdentity)>, Error> {
    let sql = "SELECT store_id, inode, born FROM identity WHERE only_row = 1";
    let found = connection.query_row(sql, [], |row| {
        let file = FileIdentity { inode: row.get::<_, i64>(1)?.cast_unsigned(), born: row.get(2)? };
        Ok((row.get(0)?, file))
    });
    Ok(found.optional()?)
}

fn record(transaction: &Transaction<'_>, kind: &str, adoption: &Adoption) -> Result<(), Error> {
    let mut payload = Object::new();
    payload.insert("store_id", adoption.store_id.as_deref());
    payload.insert("previous_id", adoption.previous_id.as_deref());
    payload.insert("name", format!("local:{}", rustix::process::getuid().as_raw()));
    let entry = AuditEntry { ts: Clock::System.now(), kind: kind.to_owned(), payload };
    audit::append_within(transaction, vec![entry])
}

impl Store {
    /// Returns whether the file was moved, copied or restored since it was created or adopted last. Such a store can be
    /// read, and nothing writes to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_moved(&self) -> Result<bool, Error> {
        let Some(path) = self.shared.path.clone() else { return Ok(false) };
        self.read(move |connection| is_moved(connection, &path))
    }
}

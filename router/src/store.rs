//! The store: runs and their events in one SQLite file, durable before anyone is told.
//!
//! Callers speak of runs and events; SQL stays in here. One thread writes, and commits together what
//! arrives together (`writer`); readers have connections of their own. In a file of ours events are
//! append-only by trigger and chained by hash (`schema`). A file of the Python router is read as it is
//! (`python`), or taken over.

mod appending;
mod approvals;
mod audit;
mod backup;
mod chain;
mod check;
mod counters;
mod error;
mod file_status;
mod files;
mod gathered;
mod held_answer;
mod held_arguments;
mod identity;
mod import;
mod key;
mod large_appends;
mod listing;
mod lost_log;
mod memory_limit;
mod open;
mod orphan;
mod owner;
mod pages;
mod python;
mod reader;
mod receipt;
mod record;
mod rescue;
mod rows;
mod run_records;
mod scan;
mod schema;
mod seals;
mod takeover;
mod token_usage;
mod visible;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::digest::Digest;
use crate::metrics::Metrics;
use files::StoreFiles;
use memory_limit::MemoryLimit;
use owner::Owner;
use schema::Layout;
use writer::Writer;

pub use approvals::{ApprovalFilter, Ballot, Ruled, Settled};
pub use audit::AuditEntry;
pub use backup::{backup, restore};
pub use check::{Finding, Health};
pub use counters::Work;
pub use error::Error;
pub use files::{Displacement, FileChange, Rescue};
pub use held_answer::HeldAnswer;
pub use held_arguments::{HeldArguments, HeldArgumentsChange, forget_key};
pub(crate) use held_arguments::{HeldPlan, answer_expiry};
pub use identity::{Adoption, adopt};
pub use import::{Conflict, Imported, NewRun, Replaced};
pub use key::StoreKey;
pub use listing::{Counted, Filter, Listed, Listing};
pub use lost_log::lost_log_pages;
pub use orphan::Orphan;
pub use owner::{Identity, Life};
pub use pages::{PageCursor, RecordSize};
pub use receipt::Receipt;
pub use record::{
    Append, ApprovalChange, Claim, Header, Log, Progress, RunRecord, Status, Tail, Ticket,
};
pub use rescue::rescued_copies;
pub use scan::{EventVisitor, ScanReport};
pub use seals::{RunSeal, Unsealed};
pub(crate) use takeover::{Found, Taken, Verdict, take_over};
pub use visible::VisibleRuns;
pub use writer::Unwritten;

/// At most so many appends share a commit; beyond it waiting costs more than the commit.
const MAX_BATCH: usize = 1024;
/// At most so much is written in a commit before it is begun.
const MAX_BATCH_BYTES: usize = 32 * 1024 * 1024;
/// How long another process may hold the lock, by default.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a store in memory, by default.
pub(crate) const MEMORY_BYTES: usize = 256 * 1024 * 1024;
/// Connections that are kept for the next reader.
const MAX_IDLE_READERS: usize = 8;

/// A store. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Dropped in this order: what was handed over is written before the lock is let go.
    writer: Option<Writer>,
    owner: Option<Owner>,
    readers: Mutex<Vec<Connection>>,
    path: Option<PathBuf>,
    /// The files, if the store is open for writing.
    files: Option<Arc<StoreFiles>>,
    layout: Layout,
    busy: Duration,
    key: OnceLock<Arc<StoreKey>>,
}

/// How a store works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long another process may hold the lock before a change is given up.
    pub busy: Duration,
    /// Where commits are counted.
    pub metrics: Metrics,
    /// The secret key; without one, the key file beside the store.
    pub key: Option<Arc<StoreKey>>,
    /// Bytes of a store in memory; beyond them, the oldest runs that ended are removed.
    pub memory_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy: BUSY_TIMEOUT,
            metrics: Metrics::default(),
            key: None,
            memory_bytes: MEMORY_BYTES,
        }
    }
}

impl Store {
    /// Opens a store for writing, and makes it if there is none.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// Opens a store for writing, and makes it if there is none.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn open_with(path: &Path, options: Options) -> Result<Self, Error> {
        let Options { busy, metrics, key, memory_bytes } = options;
        loop {
            let (metrics, key) = (metrics.clone(), key.clone());
            let options = Options { busy, metrics, key, memory_bytes };
            let (connection, file) = open::writer(path)?;
            let real = Some(open::real(path));
            let store = Self::begin(connection, real.zip(Some(path)), options);
            // While it waited for its turn, a backup may have been restored in its place.
            if open::file(path) == file || !matches!(store, Ok(_) | Err(Error::Moved(_))) {
                return store;
            }
        }
    }

    /// Makes a store in memory. It is gone with its last clone.
    ///
    /// # Errors
    /// When there is no memory or no thread.
    pub fn in_memory() -> Result<Self, Error> {
        Self::in_memory_with(Options::default())
    }

    /// Makes a store in memory. It is gone with its last clone.
    ///
    /// # Errors
    /// When there is no memory or no thread.
    pub fn in_memory_with(options: Options) -> Result<Self, Error> {
        Self::begin(Connection::open_in_memory()?, None, options)
    }

    fn begin(
        mut connection: Connection,
        paths: Option<(PathBuf, &Path)>,
        options: Options,
    ) -> Result<Self, Error> {
        let (path, given) = paths.unzip();
        let Options { busy, metrics, key, memory_bytes } = options;
        let limit = path.is_none().then(|| MemoryLimit::new(memory_bytes));
        let shown = path.clone().unwrap_or_else(|| PathBuf::from(":memory:"));
        connection.busy_timeout(busy)?;
        let layout = open::layout(&connection, &shown)?;
        match layout {
            Layout::Python => return Err(Error::Python(shown)),
            Layout::Unknown => return Err(Error::Foreign(shown)),
            // Larger pages hold a whole run of one step, and a larger file needs fewer of them.
            Layout::Empty => connection.pragma_update(None, "page_size", 8192)?,
            Layout::Ours(_) => {}
        }
        if let (Some(path), Layout::Ours(_)) = (&path, layout) {
            identity::verify(&connection, path)?;
        }
        let key = match (key, &path) {
            (None, Some(path)) => StoreKey::find(path)?.map(Arc::new),
            (key, _) => key,
        };
        open::prepare(&connection, &shown, busy)?;
        let owner = Owner::register(path.as_deref())?;
        let owner_no = open::adopt(&mut connection, &shown, path.as_deref(), &owner.identity)?;
        match &path {
            Some(path) => held_arguments::require_key(&connection, path, key.as_deref())?,
            None => schema::unguard(&connection)?,
        }
        connection.set_prepared_statement_cache_capacity(32);
        let files = match path.as_deref().zip(given) {
            Some((path, given)) => Some(Arc::new(StoreFiles::open(path, given, owner.lock())?)),
            None => None,
        };
        let writer = Writer::start(connection, owner_no, (metrics, limit), files.clone())?;
        let shared = Shared {
            writer: Some(writer),
            owner: Some(owner),
            readers: Mutex::default(),
            files,
            path,
            layout: Layout::Ours(schema::VERSION),
            busy,
            key: key.map_or_else(OnceLock::new, OnceLock::from),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens a store only for reading: one of ours, or one of the Python router. Nothing is created.
    ///
    /// # Errors
    /// When there is no such file, or it is of another program.
    pub fn open_read_only(path: &Path) -> Result<Self, Error> {
        open::require(path)?;
        let connection = open::reader(path, BUSY_TIMEOUT)?;
        let layout = open::layout(&connection, path)?;
        layout.known(path)?;
        let shared = Shared {
            writer: None,
            owner: None,
            readers: Mutex::new(vec![connection]),
            path: Some(open::real(path)),
            files: None,
            layout,
            busy: BUSY_TIMEOUT,
            key: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the file, unless the store is in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.shared.path.as_deref()
    }

    /// Says whether the file is one of the Python router.
    #[must_use]
    pub fn is_python(&self) -> bool {
        self.shared.layout == Layout::Python
    }

    fn writer(&self) -> Result<&Writer, Error> {
        self.shared.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// Hands over events; the receipt tells when they are durable.
    ///
    /// # Errors
    /// When the store was opened only for reading.
    pub fn append(&self, append: Append) -> Result<Receipt, Error> {
        Ok(self.writer()?.append(append))
    }

    /// Appends events on the calling thread's time, if nobody else is writing. In memory they are there for all who
    /// read from now on.
    ///
    /// # Errors
    /// When the store was opened only for reading.
    pub(crate) fn append_here(&self, append: Append) -> Result<Receipt, Error> {
        let writer = self.writer()?;
        Ok(match self.shared.path {
            Some(_) => writer.append_here(append),
            None => writer.append_behind(append),
        })
    }

    /// Hands over events that nobody waits for, and that are kept until they can be written.
    pub(crate) fn owe(&self, append: Append) {
        if let Ok(writer) = self.writer() {
            writer.owe(append);
        }
    }

    /// Returns how often the disk was asked since the store was opened.
    #[must_use]
    pub fn work(&self) -> Work {
        self.shared.writer.as_ref().map(Writer::work).unwrap_or_default()
    }

    /// Says whether the last thing that should have been written could not be.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.shared.writer.as_ref().is_some_and(Writer::is_failing)
    }

    /// Returns whether a store in memory has no room for new runs.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.writer.as_ref().is_some_and(Writer::is_full)
    }

    /// Returns how the store was displaced, if a file of it was moved, removed or replaced while it is open. Such a store
    /// takes nothing new.
    #[must_use]
    pub fn displacement(&self) -> Option<Displacement> {
        let files = self.shared.files.as_ref()?;
        files.check().err().and_then(|_| files.displacement())
    }

    /// Refuses a displaced store. A check of the last moment counts.
    ///
    /// # Errors
    /// When the store is displaced.
    pub(crate) fn refuse_displaced(&self) -> Result<(), Error> {
        self.shared.files.as_ref().map_or(Ok(()), |files| files.check_recent())
    }

    /// Returns how SQLite found the file damaged, if it did since the store was opened.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.shared.writer.as_ref()?.damage()
    }

    /// Refuses a store that takes no runs: its files are displaced or damaged.
    ///
    /// # Errors
    /// When the store is displaced or damaged.
    pub(crate) fn refuse_unusable(&self) -> Result<(), Error> {
        if let Some(problem) = self.damage() {
            return Err(Error::Damaged(problem.to_owned()));
        }
        self.refuse_displaced()
    }

    /// Returns what tells of every commit of this process, for those who wait for events.
    ///
    /// # Errors
    /// When the store was opened only for reading.
    pub fn committed(&self) -> Result<tokio::sync::watch::Receiver<()>, Error> {
        Ok(self.writer()?.committed())
    }

    /// Finds a run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find(&self, run_id: &str) -> Result<Option<RunRecord>, Error> {
        let (run_id, python) = (run_id.to_owned(), self.is_python());
        self.read(move |connection| {
            if python {
                return Ok(python::log(connection, &run_id)?.map(|log| log.record));
            }
            Ok(reader::find(connection, &run_id)?.map(|(_, record)| record))
        })
    }

    /// Reads a run with its events.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn log(&self, run_id: &str) -> Result<Option<Log>, Error> {
        let (run_id, python) = (run_id.to_owned(), self.is_python());
        self.read(move |connection| {
            if python { python::log(connection, &run_id) } else { reader::log(connection, &run_id) }
        })
    }

    /// Reads some of the events of a run, from the one with number `from` on.
    ///
    /// # Errors
    /// When the store cannot be read, or is one of the Python router.
    pub fn tail(&self, run_id: &str, from: u64) -> Result<Option<Tail>, Error> {
        let run_id = run_id.to_owned();
        self.read(move |connection| reader::tail(connection, &run_id, from))
    }

    /// Lists runs, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        let (filter, python) = (filter.clone(), self.is_python());
        self.read(move |connection| {
            if python {
                python::list(connection, &filter)
            } else {
                reader::list(connection, &filter)
            }
        })
    }

    /// Finds the run that an idempotency key belongs to, and the digest of its request.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn by_key(&self, key: &str) -> Result<Option<(String, Digest)>, Error> {
        let key = key.to_owned();
        self.read(move |connection| reader::by_key(connection, &key))
    }

    /// Tells which indexes the questions to a store use, for those who want to see.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn query_plans(&self) -> Result<Vec<String>, Error> {
        self.read(reader::query_plans)
    }

    /// Asks a question within one read transaction, so that the answer is of one moment.
    fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(path) = &self.shared.path else {
            return self.writer()?.job(|connection| question(connection))?;
        };
        if self.refuse_displaced().is_err() {
            // A new connection would find other files; this one still has those of the store.
            return self.writer()?.job(|connection| {
                let moment = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
                question(&moment)
            })?;
        }
        let idle = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open::reader(path, self.shared.busy)?,
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let answer = question(&transaction);
        drop(transaction);
        if let (Err(error), Some(writer)) = (&answer, &self.shared.writer) {
            writer.note_damage(error);
        }
        let mut readers = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        answer
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last connection to go tidies up the file, and only one that may write can.
        self.readers.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        let (Some(writer), Some(owner)) = (self.writer.take(), &self.owner) else { return };
        let owner_id = owner.identity.owner_id.clone();
        // Who closes the store carries out nothing any more, though its process may live on.
        let files = self.files.clone();
        let closed = writer.job(move |connection| {
            // What is written to a displaced store may be lost, and looks like a loss.
            match files.and_then(|files| rescue::finish(connection, &files)) {
                Some(_) => Ok(()),
                None => owner::close(connection, &owner_id),
            }
        });
        if let Ok(Err(error)) | Err(error) = closed {
            tracing::warn!(%error, "the store was not closed in order");
        }
    }
}

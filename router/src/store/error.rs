//! What can go wrong with a store, and the remedy.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::files::{Displacement, Rescue, file_name};
use crate::shell::quoted;

/// Begins the text about a file whose structure is damaged.
pub(super) const CORRUPT_STRUCTURE: &str = "the structure of the file is damaged";

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file.
    #[error("there is no store at {0}")]
    Missing(PathBuf),
    /// The file cannot be opened.
    #[error("cannot open the store {path}: {message}")]
    Unopenable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        message: String,
    },
    /// The file is a database of another program.
    #[error("{0} is a database of another program")]
    Foreign(PathBuf),
    /// The file is a database of the Python router, which is read in place but not written.
    #[error("{0} is a store of the Python router; it is read in place, and not written")]
    Python(PathBuf),
    /// The file is one of ours already.
    #[error("{0} is a store of this router already")]
    Ours(PathBuf),
    /// The file is not the one that the store was created in.
    #[error("the store {0} was moved, copied or restored since it was used last")]
    Moved(PathBuf),
    /// The file was written by a newer program.
    #[error("{path} has version {found} of the tables; this program knows versions up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
    /// The file was opened only for reading.
    #[error("the store was opened only for reading")]
    ReadOnly,
    /// Another process kept the file locked.
    #[error("the store is locked by another process")]
    Busy,
    /// A process has the store open, or the store that it is a copy of.
    #[error("process {pid} uses the store {path}, or the store that it is a copy of")]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The secret key cannot be used.
    #[error("cannot use the key of the store: {0}")]
    KeyUnusable(String),
    /// The key file is missing, and the store holds arguments that the key encrypted.
    #[error(
        "the key of the store {path} is missing: {key}; {runs} runs hold arguments that it encrypted"
    )]
    KeyMissing {
        /// The file of the store.
        path: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The number of runs.
        runs: u64,
    },
    /// Another key encrypted the held arguments.
    #[error(
        "the key of the store {path} is wrong: it cannot decrypt the held arguments of {runs} runs"
    )]
    KeyWrong {
        /// The file of the store.
        path: PathBuf,
        /// The number of runs.
        runs: u64,
    },
    /// There is no room on the disk.
    #[error("there is no room for the store: {0}")]
    Full(String),
    /// The disk failed.
    #[error("the store's disk failed: {0}")]
    Disk(String),
    /// The file is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// An idempotency key is in use for another run.
    #[error("the idempotency key belongs to run {run_id}")]
    KeyTaken {
        /// The run that has it.
        run_id: String,
        /// Whether that run had the same request.
        same_request: bool,
    },
    /// A run has more events than a store can hold.
    #[error("a run has at most {} events", super::schema::MAX_EVENTS)]
    TooManyEvents,
    /// The rules of the store, or the program itself, are broken.
    #[error("the store refused a change: {0}")]
    Refused(String),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
    /// A file of the store was moved, removed or replaced while the store was open.
    #[error("the store was displaced: {0}")]
    Displaced(Box<Displacement>),
}

impl Error {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "STORE_NOT_FOUND",
            "There is no store at the path.",
            "check --db; only `run` and `runs import` create a store",
        ),
        (
            "STORE_UNOPENABLE",
            "The store's file cannot be opened.",
            "check that the directory exists and that this user may read and write there",
        ),
        (
            "STORE_FOREIGN",
            "The file is a database of another program.",
            "name another file with --db",
        ),
        (
            "STORE_PYTHON",
            "The file is a store of the Python router and was to be written.",
            "take it over with `nexus-router store take-over`, which keeps a backup, or name another file",
        ),
        (
            "STORE_NEWER",
            "The store was written by a newer program.",
            "use that program, or restore a backup made before the upgrade",
        ),
        ("STORE_READ_ONLY", "The store was opened only for reading.", "open it for writing"),
        (
            "STORE_BUSY",
            "Another process kept the store locked.",
            "stop the process that holds it (`fuser FILE` shows it), and try again",
        ),
        (
            "STORE_FULL",
            "There is no room on the store's disk.",
            "make room on the disk; nothing that was acknowledged is lost",
        ),
        (
            "STORE_DISK_FAILED",
            "The store's disk failed to read or write.",
            "check the disk and its log; then `nexus-router store check`",
        ),
        (
            "STORE_DAMAGED",
            "The store's file is damaged.",
            "run `nexus-router store check`, and restore a backup with `nexus-router store restore`",
        ),
        (
            "IDEMPOTENCY_KEY_TAKEN",
            "The idempotency key belongs to a run with another request.",
            "use a new key for a new request",
        ),
        ("TOO_MANY_EVENTS", "The run has more events than a store holds.", "split the plan"),
        (
            "STORE_REFUSED",
            "A rule of the store was broken.",
            "report it: the store is unharmed, but the program or another one tried to change what is recorded",
        ),
        ("STORE_CLOSED", "The store is being closed.", "open it again"),
        (
            "STORE_OURS",
            "The store to be taken over is one of this router already.",
            "use it as it is",
        ),
        (
            "STORE_MOVED",
            "The store's file was moved, copied or restored by other means than `nexus-router store restore`. It can be read.",
            "if no other copy of it is in use, continue it with `nexus-router store adopt --db FILE`",
        ),
        (
            "STORE_KEY_UNUSABLE",
            "The secret key of the store cannot be read, is not 32 bytes long, or others can read its file.",
            "check the named file or variable; a key file needs the mode 0600",
        ),
        (
            "STORE_KEY_MISSING",
            "The key file is missing, and runs hold arguments that the key encrypted.",
            "restore the key file, or name the configuration that sets store.key; to continue without the key, run \
             `nexus-router store adopt --without-key --db FILE`: runs that hold arguments then fail",
        ),
        (
            "STORE_KEY_WRONG",
            "The key is not the one that encrypted the arguments that runs hold.",
            "restore the former key, or name the configuration that sets store.key; to continue with this key, run \
             `nexus-router store adopt --without-key --db FILE`: runs that hold arguments then fail",
        ),
        (
            "STORE_DISPLACED",
            "A file of the store, or its directory, was moved, removed, replaced or truncated while the store was open. \
             Runs are refused before anything is called.",
            "put back what was moved, or restart the daemon; its log says where everything is that it acknowledged",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::Missing(_) => 0,
            Self::Unopenable { .. } => 1,
            Self::Foreign(_) => 2,
            Self::Python(_) => 3,
            Self::Ours(_) => 14,
            Self::Newer { .. } => 4,
            Self::ReadOnly => 5,
            Self::Busy | Self::InUse { .. } => 6,
            Self::Full(_) => 7,
            Self::Disk(_) => 8,
            Self::Damaged(_) => 9,
            Self::KeyTaken { .. } => 10,
            Self::TooManyEvents => 11,
            Self::Refused(_) => 12,
            Self::Closed => 13,
            Self::Moved(_) => 15,
            Self::KeyUnusable(_) => 16,
            Self::KeyMissing { .. } => 17,
            Self::KeyWrong { .. } => 18,
            Self::Displaced(_) => 19,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        Self::TABLE[self.row()].0
    }

    /// Returns the remedy, with the file where a command needs it.
    #[must_use]
    pub fn hint(&self) -> Cow<'static, str> {
        let hint = Self::TABLE[self.row()].2;
        match self {
            Self::Moved(path) | Self::KeyMissing { path, .. } | Self::KeyWrong { path, .. } => {
                hint.replace("FILE", &quoted(&path.display().to_string())).into()
            }
            Self::Displaced(displacement) => match &displacement.rescue {
                Rescue::Pending => hint.into(),
                Rescue::InPlace => "put back what was moved, or restart the daemon; everything that it acknowledged is in \
                                    the file of the store, and the log of the daemon names its path"
                    .into(),
                Rescue::Copied(copy) if file_name(copy).contains(".rescued-") => format!(
                    "stop the daemon, run `nexus-router store restore {}` in the directory of the store, and restart \
                     the daemon; everything that it acknowledged is in that copy, and the log of the daemon names its path",
                    quoted(&file_name(copy))
                )
                .into(),
                Rescue::Copied(copy) => {
                    let copy = quoted(&file_name(copy));
                    format!(
                        "restart the daemon; everything that it acknowledged is in {copy}, in the directory of the store"
                    )
                    .into()
                }
            },
            _ => hint.into(),
        }
    }

    /// Says whether the same may succeed later.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self, Self::Busy | Self::Full(_) | Self::Disk(_) | Self::Displaced(_))
    }

    /// Returns whether SQLite found the file itself damaged, and not only something that is recorded in it.
    pub(super) fn is_corruption(&self) -> bool {
        let texts = [
            "database disk image is malformed",
            "malformed database schema",
            "not a database",
            CORRUPT_STRUCTURE,
        ];
        matches!(self, Self::Damaged(text) if texts.iter().any(|part| text.contains(part)))
    }

    pub(super) fn opening(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match (error.sqlite_error_code(), Self::from_sqlite(error)) {
            (Some(Code::NotADatabase), _) => Self::Foreign(path.to_owned()),
            (Some(Code::CannotOpen | Code::ReadOnly), _) | (_, Self::Refused(_)) => {
                Self::Unopenable { path: path.to_owned(), message: error.to_string() }
            }
            (_, other) => other,
        }
    }

    fn from_sqlite(error: &rusqlite::Error) -> Self {
        use rusqlite::Error as Sqlite;
        use rusqlite::ErrorCode as Code;
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy,
            Some(Code::DiskFull) => Self::Full(text),
            Some(Code::SystemIoFailure | Code::CannotOpen | Code::ReadOnly) => Self::Disk(text),
            // What we ask is always the same; if it cannot be asked, the tables are not what they were.
            Some(Code::DatabaseCorrupt | Code::NotADatabase | Code::Unknown) => Self::Damaged(text),
            Some(_) => Self::Refused(text),
            None => match error {
                Sqlite::NulError(_) | Sqlite::InvalidPath(_) => Self::Refused(text),
                // A value is not of the kind that we write.
                _ => Self::Damaged(text),
            },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::from_sqlite(&error)
    }
}

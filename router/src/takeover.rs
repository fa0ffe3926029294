//! Turns a database of the Python router into one of ours, and keeps a copy of the old one beside it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::bundle::canonical;
use crate::clock::Timestamp;
use crate::json::{self, Object};
use crate::store::{self, Found, Log, NewRun, Taken, Verdict};
use crate::view::View;

/// What to do with runs that cannot be written as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// Change nothing, and list them.
    #[default]
    Refuse,
    /// Leave them in the copy of the old database alone, and list them.
    Leave,
}

/// A run that cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The run.
    pub run_id: String,
    /// Why.
    pub reason: String,
}

/// What was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Runs that are in the store now.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Runs that are only in the copy of the old database.
    pub left: Vec<Left>,
    /// The copy of the old database.
    pub backup: PathBuf,
}

/// Why a database was not taken over. It is as it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Some runs cannot be written as JSON.
    #[error("{} runs cannot be taken over, the first of them {}", .0.len(), first(.0))]
    Unreadable(Vec<Left>),
    /// The file that would hold the copy of the old database is there.
    #[error("{0} exists already, and a copy of the old database would overwrite it")]
    BackupExists(PathBuf),
    /// The database failed, or is not one of the Python router.
    #[error(transparent)]
    Store(#[from] store::Error),
}

fn first(left: &[Left]) -> String {
    left.first().map(|left| format!("{}: {}", left.run_id, left.reason)).unwrap_or_default()
}

impl Error {
    /// Every code of a takeover's errors, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "RUNS_UNREADABLE",
            "Some runs of a Python store hold what JSON cannot say, or are damaged.",
            "leave them behind with --leave-unreadable; the copy of the old database keeps them",
        ),
        (
            "BACKUP_EXISTS",
            "The file that would hold the copy of the old database is there.",
            "move it away; it may be the copy of an earlier attempt",
        ),
    ];

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => Self::TABLE[0].0,
            Self::BackupExists(_) => Self::TABLE[1].0,
            Self::Store(error) => error.code(),
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> Cow<'static, str> {
        match self {
            Self::Unreadable(_) => Self::TABLE[0].2.into(),
            Self::BackupExists(_) => Self::TABLE[1].2.into(),
            Self::Store(error) => error.hint(),
        }
    }
}

/// Takes over a database; `progress` hears how many runs are done, and of how many. Afterwards runs that
/// were under way belong to nobody, so that they are recovered.
///
/// # Errors
/// When it is not a database of the Python router, is in use, or has runs that cannot be taken over. Then
/// nothing was changed.
pub fn take_over(
    path: &Path,
    unreadable: Unreadable,
    now: Timestamp,
    progress: impl FnMut(u64, u64),
) -> Result<Report, Error> {
    let mut backup = path.as_os_str().to_owned();
    backup.push(".python-backup");
    let backup = PathBuf::from(backup);
    if backup.exists() {
        return Err(Error::BackupExists(backup));
    }
    let mut report = Report { runs: 0, events: 0, left: Vec::new(), backup };
    let judge = |found: Found| {
        let left = match found {
            Found::Run(log) => match anew(&log, now) {
                Ok(new) => {
                    report.runs += 1;
                    report.events += new.progress.events;
                    return Verdict::Take(Box::new(new));
                }
                Err(reason) => Left { run_id: log.record.header.run_id.clone(), reason },
            },
            Found::Damaged { run_id, reason } => Left { run_id, reason },
        };
        report.left.push(left);
        match unreadable {
            Unreadable::Refuse => Verdict::Refuse,
            Unreadable::Leave => Verdict::Leave,
        }
    };
    match store::take_over(path, &report.backup.clone(), judge, progress)? {
        Taken::Over => Ok(report),
        Taken::Refused => Err(Error::Unreadable(report.left)),
    }
}

/// Returns a run as our store keeps it.
fn anew(log: &Log, now: Timestamp) -> Result<NewRun, String> {
    let lines = canonical(log).map_err(|unreadable| unreadable.to_string())?;
    let mut progress = log.record.progress.clone();
    View::of(log).summarise(&mut progress);
    progress.events = lines.events;
    progress.head = lines.head;
    let mut origin = Object::new();
    origin.insert("source", "nexus-router for Python");
    origin.insert("source_run_id", log.record.header.run_id.as_str());
    origin.insert("taken_over_at", now.to_string());
    Ok(NewRun {
        header: log.record.header.clone(),
        progress,
        origin: json::to_canonical(&origin.into()),
        body: lines.body,
    })
}

//! Who seals what this router does, and where that is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{App, Error, lock};
use crate::bundle::{self, Attached, Exported, Provenance, Source};
use crate::clock::Clock;
use crate::config::EVIDENCE_DIRECTORY;
use crate::evidence::Keeper;
use crate::notary::{self, Backlog, Notary};
use crate::seal::{self, Sealer, Trust};
use crate::store::{self, Log, Store};

/// Who seals for a router.
pub(super) struct Sealing {
    pub(super) keeper: Arc<Keeper>,
    /// Dropped with the app: what has ended by then is sealed first.
    _notary: Notary,
}

impl App {
    /// Returns the directory of all that is sealed, whether it is there or not; none for a store in memory.
    #[must_use]
    pub fn sealed_dir(&self) -> Option<PathBuf> {
        let named = self.config().evidence.directory;
        named.or_else(|| beside(&self.db().ok()?))
    }

    /// Begins to seal what is done on a store, if it is to be.
    pub(super) fn begin_sealing(&self, store: &Store) -> Result<(), Error> {
        let mut sealing = lock(&self.sealing);
        let settings = self.config().evidence;
        let Some(path) = store.path().filter(|_| settings.seal && sealing.is_none()) else {
            return Ok(());
        };
        let Some(root) = root(settings.directory, path)? else { return Ok(()) };
        let log_root = self.named.log_root.as_deref().unwrap_or(&root);
        notary::hold(store, log_root)?;
        let sealer = Arc::new(Sealer::open(log_root)?);
        let keeper = Arc::new(Keeper::open(&root, Arc::clone(&sealer), self.metrics.clone())?);
        let backlog = if self.named.seals_backlog { Backlog::Seal } else { Backlog::Leave };
        let notary = Notary::start(store.clone(), sealer, backlog, self.metrics.clone())?;
        *sealing = Some(Sealing { keeper, _notary: notary });
        Ok(())
    }

    /// Begins another log for a store whose former one is lost, and returns where, and the keys of it.
    ///
    /// # Errors
    /// When there is a log, the store cannot be read, or the log cannot be begun.
    pub fn begin_log(&self) -> Result<(PathBuf, Trust), Error> {
        let store = self.reader()?;
        refuse_moved(&store)?;
        let path = store.path().ok_or(Error::NoPlace)?;
        let root = root(self.config().evidence.directory, path)?.ok_or(Error::NoPlace)?;
        let trust = notary::begin(&store, &root)?;
        Ok((root, trust))
    }

    /// Shows that the log is the one that the store knows, if there is a store.
    ///
    /// # Errors
    /// When it is not.
    pub fn hold_log(&self) -> Result<(), Error> {
        let path = self.db()?;
        let Some(root) = root(self.config().evidence.directory, &path)? else { return Ok(()) };
        if path.is_file() {
            let store = self.reader()?;
            refuse_moved(&store)?;
            notary::hold(&store, &root)?;
        }
        Ok(())
    }

    /// Returns the seal of a run, if it has one.
    pub(crate) fn attached(&self, store: &Store, run_id: &str) -> Result<Option<Attached>, Error> {
        let named = self.named.log_root.clone().or_else(|| self.config().evidence.directory);
        match named.or_else(|| beside(store.path()?)) {
            Some(root) if !store.is_python() => Ok(notary::attached(store, run_id, &root)?),
            _ => Ok(None),
        }
    }

    /// Writes a run as a bundle, with its seal if it has one.
    ///
    /// # Errors
    /// When the store or the log cannot be read.
    pub fn export(
        &self,
        store: &Store,
        log: &Log,
        provenance: Provenance,
    ) -> Result<Exported, Error> {
        let attached = self.attached(store, &log.record.header.run_id)?;
        let exported = bundle::export(log, &Source::of(store), provenance, Clock::System.now())?;
        Ok(match attached {
            Some(seal) => exported.sealed(&seal),
            None => exported,
        })
    }
}

/// Returns the directory of all that is sealed. A link that the operator named is followed; one that stands beside the
/// store is not.
fn root(named: Option<PathBuf>, store: &Path) -> Result<Option<PathBuf>, Error> {
    if named.is_some() {
        return Ok(named);
    }
    let Some(path) = beside(store) else { return Ok(None) };
    if path.is_symlink() {
        return Err(seal::Error::Link { path }.into());
    }
    Ok(Some(path))
}

fn beside(store: &Path) -> Option<PathBuf> {
    Some(store.parent()?.join(EVIDENCE_DIRECTORY))
}

/// Refuses to continue or begin the log of a store that was moved, copied or restored.
fn refuse_moved(store: &Store) -> Result<(), Error> {
    match store.path() {
        Some(path) if store.is_moved()? => Err(store::Error::Moved(path.to_owned()).into()),
        _ => Ok(()),
    }
}

//! Runs that nobody carries out any more, and how a process takes them over.

use super::record::{Log, Ticket};
use super::{Error, HeldArguments, Store, owner};

/// A run whose owner is gone.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Its place.
    pub ticket: Ticket,
    /// The run and its events.
    pub log: Log,
    /// Whether the store is a copy that was made while the run was under way.
    pub copied: bool,
    /// The original plan, encrypted, if redaction changed it.
    pub held: Option<HeldArguments>,
}

impl Store {
    /// Takes over every run whose owner is gone, so that no other process does the same.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn adopt_orphans(&self) -> Result<Vec<Orphan>, Error> {
        let (Some(path), Some(owner)) = (self.shared.path.clone(), &self.shared.owner) else {
            return Ok(Vec::new());
        };
        let heir = owner.identity.owner_id.clone();
        self.writer()?.write(move |connection| owner::adopt_orphans(connection, &path, &heir, None))
    }

    /// Takes over a run if its owner is gone.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub(crate) fn adopt_orphan(&self, run_id: &str) -> Result<Option<Orphan>, Error> {
        let (Some(path), Some(owner)) = (self.shared.path.clone(), &self.shared.owner) else {
            return Ok(None);
        };
        let (heir, run_id) = (owner.identity.owner_id.clone(), run_id.to_owned());
        let adopted = self.writer()?.write(move |connection| {
            owner::adopt_orphans(connection, &path, &heir, Some(&run_id))
        })?;
        Ok(adopted.into_iter().next())
    }

    /// Takes up a run of this process that is not over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn take_up(&self, run_id: &str) -> Result<Option<Orphan>, Error> {
        let run_id = run_id.to_owned();
        self.writer()?.job(move |connection| owner::take_up(connection, &run_id))?
    }

    /// Lists the runs whose owner is gone, and changes nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn orphans(&self) -> Result<Vec<String>, Error> {
        let Some(path) = self.shared.path.clone() else { return Ok(Vec::new()) };
        if self.is_python() {
            return Ok(Vec::new());
        }
        self.read(move |connection| {
            let orphans = owner::orphans(connection, &path)?;
            Ok(orphans.into_iter().map(|orphan| orphan.run_id).collect())
        })
    }
}

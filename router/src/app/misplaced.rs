//! Refuses workspaces that overlap with the router's own files.

use super::fleet::Fleet;
use super::{App, Error, Named};
use crate::config::{ConfigFile, Environment, NamedPlaces, OwnPaths};

impl App {
    /// Refuses a workspace that overlaps with the router's own files, including files that the command line or the
    /// environment names, and those that this process uses until it ends.
    pub(super) fn refuse_misplaced(
        &self,
        config: &ConfigFile,
        fleet: Fleet,
    ) -> Result<Fleet, Error> {
        if fleet.workspaces().next().is_none() {
            return Ok(fleet);
        }
        let mut own =
            OwnPaths::of(config, &self.environment, named_places(&self.named, &self.environment));
        own.extend(&self.own_until_restart);
        for (adapter_id, path) in fleet.workspaces() {
            if let Some(overlap) = own.overlap(path) {
                return Err(Error::Misplaced {
                    file: config.source.clone(),
                    adapter_id: adapter_id.to_owned(),
                    workspace: path.to_owned(),
                    overlap: overlap.to_string(),
                });
            }
        }
        Ok(fleet)
    }
}

/// Returns the places that the command line or the environment names.
pub(super) fn named_places<'a>(named: &'a Named, environment: &'a Environment) -> NamedPlaces<'a> {
    NamedPlaces {
        db: named.db.as_deref().or(environment.db.as_deref()),
        data_dir: named.data_dir.as_deref().or(environment.data_dir.as_deref()),
        log_root: named.log_root.as_deref(),
    }
}

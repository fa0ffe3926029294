//! Options with which a command line reaches the same configuration and store from another shell.

use std::path::{Path, PathBuf};

use super::App;
use crate::shell::quoted;

/// Condition under which the options name the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOption {
    /// Always, so that the command does not ask a daemon.
    Always,
    /// If an option or variable names it.
    IfNamed,
}

impl App {
    /// Returns options that a command needs to find this configuration and this store, quoted for a shell. Each is preceded
    /// by a space.
    #[must_use]
    pub fn command_options(&self, store: StoreOption) -> String {
        let (named, environment) = (&self.named, &self.environment);
        let db = named.db.clone().or_else(|| environment.db.clone());
        let db = match store {
            StoreOption::Always => self.db().ok().or(db),
            StoreOption::IfNamed => db,
        };
        let data_dir = named.data_dir.clone().or_else(|| environment.data_dir.clone());
        let mut options = String::new();
        let given = [("--config", self.config().source), ("--data-dir", data_dir), ("--db", db)];
        for (option, path) in given {
            if let Some(path) = path {
                add(&mut options, option, &absolute(path).display().to_string());
            }
        }
        for path in &named.adapter_path {
            add(&mut options, "--adapter-path", &absolute(path.clone()).display().to_string());
        }
        options
    }
}

/// Adds an option to a command line.
pub(crate) fn add(options: &mut String, option: &str, value: &str) {
    options.extend([" ", option, " ", &quoted(value)]);
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute::<&Path>(&path).unwrap_or(path)
}

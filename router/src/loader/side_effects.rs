//! What loading a library changed in the process: threads, descriptors, environment, signals, directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

/// The state of a process, as far as a library must leave it alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessState {
    threads: usize,
    descriptors: BTreeSet<OsString>,
    environment: BTreeMap<OsString, OsString>,
    signals: Vec<String>,
    directory: Option<PathBuf>,
}

impl ProcessState {
    /// Takes note of the present state.
    pub(super) fn now() -> Self {
        let names = |path| -> BTreeSet<OsString> {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let signals = status.lines().filter(|line| {
            ["SigBlk:", "SigIgn:", "SigCgt:"].iter().any(|field| line.starts_with(field))
        });
        Self {
            threads: names("/proc/self/task").len(),
            descriptors: names("/proc/self/fd"),
            environment: std::env::vars_os().collect(),
            signals: signals.map(str::to_owned).collect(),
            directory: std::env::current_dir().ok(),
        }
    }

    /// Tells what changed from `self` to `after`, a line each. Values of variables are not told.
    pub(super) fn changes(&self, after: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if after.threads != self.threads {
            changes.push(format!("threads: {} before, {} after", self.threads, after.threads));
        }
        if after.descriptors.len() != self.descriptors.len() {
            changes.push(format!(
                "open descriptors: {} before, {} after",
                self.descriptors.len(),
                after.descriptors.len()
            ));
        }
        for (name, value) in &after.environment {
            match self.environment.get(name) {
                None => changes.push(format!("environment: {} was set", name.display())),
                Some(old) if old != value => {
                    changes.push(format!("environment: {} was changed", name.display()));
                }
                Some(_) => {}
            }
        }
        for name in self.environment.keys().filter(|name| !after.environment.contains_key(*name)) {
            changes.push(format!("environment: {} was removed", name.display()));
        }
        for (before, after) in self.signals.iter().zip(&after.signals) {
            if before != after {
                changes.push(format!("signal handling: '{before}' before, '{after}' after"));
            }
        }
        if after.directory != self.directory {
            changes.push("the working directory was changed".to_owned());
        }
        changes.into_iter().map(|change| change.replace('\t', " ")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_without_values() {
        let before = ProcessState::now();
        let mut after = ProcessState::now();
        assert_eq!(before.changes(&before), [""; 0]);
        after.threads = before.threads + 1;
        after.environment.insert("NEW".into(), "secret".into());
        after.directory = None;
        let changes = before.changes(&after).join("\n");
        assert!(changes.contains("threads:") && changes.contains("NEW was set"), "{changes}");
        assert!(!changes.contains("secret"), "{changes}");
    }
}

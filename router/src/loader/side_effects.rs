//! What loading a library changed in the process: threads, descriptors, environment, signals, directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::sandbox;

/// The state of a process, as far as a library must leave it alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessState {
    threads: usize,
    /// What each descriptor stands for.
    descriptors: BTreeMap<OsString, Option<PathBuf>>,
    environment: BTreeMap<OsString, OsString>,
    /// What is blocked, and where each signal goes.
    signals: (String, Vec<usize>),
    directory: Option<PathBuf>,
}

impl ProcessState {
    /// Takes note of the present state.
    pub(super) fn now() -> Self {
        let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
        // Of this thread, in which the library is opened: the other one blocks signals while it starts us.
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let blocked = status.lines().find(|line| line.starts_with("SigBlk:")).unwrap_or_default();
        Self {
            threads: entries("/proc/self/task").count(),
            // The descriptor that lists the others has no target any more; it is the same each time.
            descriptors: entries("/proc/self/fd")
                .map(|entry| (entry.file_name(), std::fs::read_link(entry.path()).ok()))
                .collect(),
            environment: std::env::vars_os().collect(),
            signals: (blocked.to_owned(), sandbox::signal_handlers()),
            directory: std::env::current_dir().ok(),
        }
    }

    /// Tells what changed from `self` to `after`, a line each. Values of variables are not told.
    pub(super) fn changes(&self, after: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if after.threads != self.threads {
            changes.push(format!("threads: {} before, {} after", self.threads, after.threads));
        }
        if after.descriptors != self.descriptors {
            changes.push(format!(
                "open descriptors: {} before, {} after, not the same",
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
        if after.signals.0 != self.signals.0 {
            changes.push("signal handling: other signals are blocked".to_owned());
        }
        let handlers = self.signals.1.iter().zip(&after.signals.1);
        for (index, _) in handlers.enumerate().filter(|(_, (before, after))| before != after) {
            changes.push(format!("signal handling: signal {} goes elsewhere", index + 1));
        }
        if after.directory != self.directory {
            changes.push("the working directory was changed".to_owned());
        }
        changes
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

//! Where proofs are kept: one directory with a log for all of them, and a directory for each.

use std::io;
use std::path::{Path, PathBuf};

/// What is proved: that the contract of the roles holds.
pub const INTENT: &str = "role_contract";

/// What stands before the name of a run that is not over. Nobody takes it for one that is.
const UNFINISHED: &str = ".unfinished-";
/// What stands before the number of a run.
const RUN: &str = "run-";

/// The directory in which proofs are kept.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// Names the directory, which need not be there yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory with the keys and the log.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a run from the root.
    #[must_use]
    pub fn store_root(run_id: &str) -> String {
        format!("store/weekly_proof/{INTENT}/{run_id}")
    }

    /// Returns the directory of a run.
    #[must_use]
    pub fn of_run(&self, run_id: &str) -> PathBuf {
        self.root.join(Self::store_root(run_id))
    }

    /// Returns the file with the artifact of the last run.
    #[must_use]
    pub fn artifact(&self) -> PathBuf {
        self.root.join(format!("store/weekly_proof/artifacts/{INTENT}_weekly_proof.json"))
    }

    pub(super) fn unfinished(&self, run_id: &str) -> PathBuf {
        self.of_run(&format!("{UNFINISHED}{run_id}"))
    }

    /// Returns the directory in which a run works. It is not part of the evidence: no workspace may be.
    pub(super) fn scratch(&self, run_id: &str) -> PathBuf {
        self.of_run(&format!("{UNFINISHED}{run_id}-scratch"))
    }

    /// Returns the file that the one process holds that makes a proof here.
    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("proof.lock")
    }

    /// Lists the runs that are over, the oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read. One that is not there has no runs.
    pub fn runs(&self) -> io::Result<Vec<String>> {
        let numbered = |name: &String| number(name).is_some();
        let mut runs: Vec<String> = self.names()?.into_iter().filter(numbered).collect();
        runs.sort_by_key(|name| number(name));
        Ok(runs)
    }

    /// Returns the id of the next run.
    pub(super) fn next(&self) -> io::Result<String> {
        let last = self.runs()?.last().and_then(|name| number(name)).unwrap_or(0);
        Ok(format!("{RUN}{:04}", last + 1))
    }

    /// Removes what a process left that was killed before its run was over. What it sealed stays in the log.
    pub(super) fn sweep(&self) -> io::Result<usize> {
        let mut swept = 0;
        for name in self.names()?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            std::fs::remove_dir_all(self.of_run(name))?;
            swept += 1;
        }
        Ok(swept)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let directory = self.root.join(format!("store/weekly_proof/{INTENT}"));
        match std::fs::read_dir(directory) {
            Ok(entries) => {
                entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn number(run_id: &str) -> Option<u64> {
    let digits = run_id.strip_prefix(RUN)?;
    let plain = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_and_what_is_unfinished_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(directory.path());
        assert_eq!((place.runs().unwrap().len(), place.next().unwrap().as_str()), (0, "run-0001"));
        for name in ["run-0002", "run-10000", "run-0009", "run-9", "other"] {
            std::fs::create_dir_all(place.of_run(name)).unwrap();
        }
        std::fs::create_dir_all(place.unfinished("run-10001").join("evidence")).unwrap();
        assert_eq!(place.runs().unwrap(), ["run-0002", "run-0009", "run-10000"]);
        assert_eq!(place.next().unwrap(), "run-10001");
        assert_eq!((place.sweep().unwrap(), place.sweep().unwrap()), (1, 0));
        assert!(!place.unfinished("run-10001").exists());
    }
}

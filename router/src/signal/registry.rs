//! The contracts that are known: those of this program, and those of a directory.
//!
//! A file that is no contract is told and passed over; so is one that has the id of a contract of this program. Two
//! files that say different things under one id and version are both passed over: nobody knows which is meant.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::builtin::builtins;
use super::contract::{Contract, Lifecycle, Source};
use super::declaration::LIMITS;
use super::lint::Finding;
use super::pattern::SemverParts;
use super::scaffold::SCAFFOLD_FILE;
use crate::files;
use crate::near::likeness;

/// How the names of contracts' files end.
pub const EXTENSION: &str = ".adapter_contract.json";
/// The most files that are read, and how many bytes all of them may have.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 512 << 20;
/// So few files are not worth a thread.
const FEW: usize = 64;

/// What was found wrong with a file, or with the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// Whether it could not even be read.
    pub unreadable: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    fn new(file: &Path, finding: Finding) -> Self {
        Self { file: file.to_owned(), unreadable: false, findings: vec![finding] }
    }

    fn unreadable(file: &Path, error: &io::Error) -> Self {
        let finding = Finding::error("", format!("cannot be read: {error}"));
        Self { unreadable: true, ..Self::new(file, finding) }
    }
}

/// The contracts that are known.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// By id, each version once, the lowest first.
    contracts: BTreeMap<String, Vec<Arc<Contract>>>,
    reports: Vec<Report>,
}

impl Registry {
    /// Reads the contracts of a directory, and of the directories in it, beside those of this program.
    #[must_use]
    pub fn open(directory: Option<&Path>) -> Self {
        let (files, mut reports) = directory.map(list).unwrap_or_default();
        let mut read = Vec::new();
        for (file, contract) in read_all(&files) {
            match contract {
                Ok(contract) => read.push(contract),
                Err(report) => reports.push(Report { file, ..report }),
            }
        }
        Self::of(read, reports)
    }

    /// Reads one file, beside the contracts of this program.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        match read(file) {
            Ok(contract) => Self::of_contract(contract),
            Err(report) => Self::of(Vec::new(), vec![report]),
        }
    }

    /// Takes one contract, beside those of this program.
    #[must_use]
    pub fn of_contract(contract: Contract) -> Self {
        Self::of(vec![contract], Vec::new())
    }

    /// Puts contracts together; those that were read are in the order of their files.
    fn of(read: Vec<Contract>, reports: Vec<Report>) -> Self {
        let mut registry = Self { contracts: BTreeMap::new(), reports };
        for builtin in builtins() {
            let versions = registry.contracts.entry(builtin.adapter_id.clone()).or_default();
            versions.push(Arc::clone(builtin));
        }
        // By the numbers, so that 1.0.0 and 01.0.0 are one version.
        let mut same: BTreeMap<(String, SemverParts), Vec<Contract>> = BTreeMap::new();
        for contract in read {
            if let Some(known) = registry.contracts.get(&contract.adapter_id) {
                let alike = known.iter().any(|it| it.contract_hash == contract.contract_hash);
                let message = format!(
                    "adapter_id {} is that of a contract of this program, which is used instead",
                    contract.adapter_id
                );
                let make = if alike { Finding::warning } else { Finding::error };
                let finding = make("/adapter_id".to_owned(), message);
                registry.reports.push(Report::new(contract.file(), finding));
                continue;
            }
            let key = (contract.adapter_id.clone(), contract.order.clone());
            same.entry(key).or_default().push(contract);
        }
        for contracts in same.into_values() {
            registry.take(contracts);
        }
        for versions in registry.contracts.values_mut() {
            versions.sort_by(|one, two| one.order.cmp(&two.order));
        }
        registry
    }

    /// Takes the files that have one id and version, if all say the same.
    fn take(&mut self, contracts: Vec<Contract>) {
        let files: Vec<PathBuf> = contracts.iter().map(|it| it.file().to_owned()).collect();
        let mut chosen: Option<Contract> = None;
        let mut collides = false;
        for contract in contracts {
            chosen = Some(match chosen.take() {
                None => contract,
                Some(first) => {
                    collides |= first.contract_hash != contract.contract_hash;
                    // Of two that differ only in what became of them, the worse one is believed.
                    if contract.lifecycle > first.lifecycle { contract } else { first }
                }
            });
        }
        let Some(chosen) = chosen else { return };
        if collides {
            let pointer = chosen.pointer();
            for (index, file) in files.iter().enumerate() {
                let other = &files[usize::from(index == 0)];
                let message = format!(
                    "loud collision: {pointer} has another contract_hash in {}; neither is used; give one of them \
                     another version",
                    other.display()
                );
                self.reports.push(Report::new(file, Finding::error("/contract_hash", message)));
            }
            return;
        }
        let versions = self.contracts.entry(chosen.adapter_id.clone()).or_default();
        versions.push(Arc::new(chosen));
    }

    /// Finds a contract: by id and version whatever became of it, or by id alone the highest version that is active.
    #[must_use]
    pub fn get(&self, adapter_id: &str, version: Option<&str>) -> Option<&Arc<Contract>> {
        let mut versions = self.versions(adapter_id).iter();
        match version {
            Some(version) => versions.find(|it| it.adapter_version == version),
            None => versions.rfind(|it| it.lifecycle.is_active()),
        }
    }

    /// Returns the contract that new evaluations use: the exact version; or by id alone the active head, or without
    /// one the highest deprecated version. A deprecated contract may still be used, a revoked one may not.
    #[must_use]
    pub fn resolve(&self, adapter_id: &str, version: Option<&str>) -> Option<&Arc<Contract>> {
        self.get(adapter_id, version).or_else(|| {
            let mut versions = self.versions(adapter_id).iter();
            let highest = versions.rfind(|it| it.lifecycle == Lifecycle::Deprecated);
            highest.filter(|_| version.is_none())
        })
    }

    /// Returns every version of a contract, the lowest first.
    #[must_use]
    pub fn versions(&self, adapter_id: &str) -> &[Arc<Contract>] {
        self.contracts.get(adapter_id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns every contract, by id and version.
    pub fn contracts(&self) -> impl Iterator<Item = &Arc<Contract>> {
        self.contracts.values().flatten()
    }

    /// Returns what was wrong with files.
    #[must_use]
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Returns the id or the pointer that was perhaps meant.
    #[must_use]
    pub fn nearest(&self, adapter_id: &str, version: Option<&str>) -> Option<String> {
        if let (Some(_), Some(newest)) = (version, self.versions(adapter_id).last()) {
            return Some(newest.pointer());
        }
        let scored = self.contracts.keys().map(|id| (likeness(adapter_id, id), id));
        let (score, id) = scored.max_by(|one, two| one.0.total_cmp(&two.0))?;
        (score > 0.8).then(|| id.clone())
    }
}

impl Contract {
    /// Returns the file that it was read from.
    fn file(&self) -> &Path {
        match &self.source {
            Source::File(file) => file,
            Source::Builtin => Path::new(""),
        }
    }
}

/// Lists the contracts of a directory and of the directories in it, in order.
#[must_use]
pub fn files_in(directory: &Path) -> Vec<PathBuf> {
    list(directory).0
}

fn list(directory: &Path) -> (Vec<PathBuf>, Vec<Report>) {
    let (mut found, mut reports, mut bytes) = (Vec::new(), Vec::new(), 0_u64);
    let mut places = vec![directory.to_owned()];
    while let Some(place) = places.pop() {
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) => {
                reports.push(Report::unreadable(&place, &error));
                continue;
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    reports.push(Report::unreadable(&place, &error));
                    break;
                }
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // What is hidden is some program's own, such as the former state of a mounted directory.
            if name.starts_with('.') {
                continue;
            }
            if name.ends_with(EXTENSION) || name == SCAFFOLD_FILE {
                bytes += std::fs::metadata(entry.path()).map_or(0, |file| file.len());
                found.push(entry.path());
            // A link to a directory is not followed, as no other reader of contracts does.
            } else if place == directory && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                places.push(entry.path());
            }
            if found.len() > MAX_FILES || bytes > MAX_BYTES {
                let message = format!(
                    "has more than {MAX_FILES} contracts or {} mebibytes of them; none is read",
                    MAX_BYTES >> 20
                );
                return (Vec::new(), vec![Report::new(directory, Finding::error("", message))]);
            }
        }
    }
    found.sort_unstable();
    (found, reports)
}

fn read(file: &Path) -> Result<Contract, Report> {
    let bytes = files::read_bounded(file, LIMITS.bytes)
        .map_err(|error| Report::unreadable(file, &error))?;
    Contract::read(&bytes, Source::File(file.to_owned())).map_err(|findings| Report {
        file: file.to_owned(),
        unreadable: false,
        findings,
    })
}

/// Reads contracts on all processors: ten thousand of them would keep a start waiting.
fn read_all(files: &[PathBuf]) -> Vec<(PathBuf, Result<Contract, Report>)> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = files.len().div_ceil(processors).max(FEW);
    let one = |file: &PathBuf| (file.clone(), read(file));
    if files.len() <= FEW {
        return files.iter().map(one).collect();
    }
    std::thread::scope(|scope| {
        let shares: Vec<_> = files
            .chunks(share)
            .map(|files| scope.spawn(move || files.iter().map(one).collect::<Vec<_>>()))
            .collect();
        // A thread that panics takes its share with it, and whoever waits for it panics too.
        let joined = shares.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|share| share.unwrap_or_else(|it| std::panic::resume_unwind(it))).collect()
    })
}

#[cfg(test)]
pub(super) mod tests;

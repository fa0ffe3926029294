//! The signal contracts that adapters' outputs are held to, the policies that decide, and what anybody is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_router_sdk::redact::{Class, key_class};

use super::{App, Error};
use crate::config::{AdapterEntry, ConfigFile};
use crate::files;
use crate::policy::Law;
use crate::signal::{
    AcceptancePolicy, Contract, Discovery, Finding, Judge, Lifecycle, MANIFEST_LIMITS,
    PUBLISHER_LIMITS, PublisherPages, Registry, Report, files_in, manifest_page,
};

/// Where the AiGentsy runtime looks for contracts when nobody names a directory.
const DEFAULT_DIRECTORY: &str = "data/adapter_contracts";

impl App {
    /// Returns the directory of signal contracts: the one that the configuration names, that of the environment, or
    /// the one in the working directory if it is there.
    #[must_use]
    pub fn signals_dir(&self) -> Option<PathBuf> {
        self.signals_dir_of(&self.config())
    }

    pub(super) fn signals_dir_of(&self, config: &ConfigFile) -> Option<PathBuf> {
        let named =
            config.signals.directory.clone().or_else(|| self.environment.signals_dir.clone());
        let default = || Some(PathBuf::from(DEFAULT_DIRECTORY)).filter(|it| it.is_dir());
        named.or_else(default)
    }
}

/// Says whether the output of any adapter is held to a signal contract. If not, nothing is read.
pub(super) fn wanted(config: &ConfigFile) -> bool {
    config.adapters.iter().any(|entry| entry.signal.is_some())
}

/// Lists the files that say how outputs are judged, and what is told to anybody if it `publishes`.
pub(super) fn files(
    config: &ConfigFile,
    directory: Option<&Path>,
    publishes: bool,
) -> Vec<PathBuf> {
    let (mut files, signals) = (Vec::new(), &config.signals);
    if publishes || wanted(config) {
        files.extend(directory.map(files_in).unwrap_or_default());
    }
    if wanted(config) {
        files.extend(config.adapters.iter().filter_map(|entry| entry.acceptance.clone()));
        files.extend(signals.policy.clone());
    }
    if publishes {
        files.extend(signals.manifest.iter().chain(&signals.publisher).cloned());
    }
    files
}

/// Reads the contracts. Files that are none are told and passed over.
///
/// A directory that cannot be read keeps a router from being started. One that is running goes on, and every contract
/// of that directory is unknown from then on.
pub(super) fn registry(directory: Option<&Path>, is_running: bool) -> Result<Registry, Error> {
    let registry = Registry::open(directory);
    for Report { file, findings, unreadable } in registry.reports() {
        if *unreadable && Some(file.as_path()) == directory && !is_running {
            return Err(Error::Signals { file: file.clone(), findings: findings.clone() });
        }
        for Finding { pointer, message, .. } in findings {
            let file = file.display();
            tracing::warn!(%file, pointer, message, "a signal contract was not taken");
        }
    }
    Ok(registry)
}

/// Reads what is told to anybody.
pub(super) fn discovery(config: &ConfigFile, registry: &Arc<Registry>) -> Result<Discovery, Error> {
    let signals = &config.signals;
    let manifest = signals.manifest.as_deref();
    let manifest = manifest.map(|file| read_as(file, MANIFEST_LIMITS.bytes, manifest_page));
    let manifest = manifest.transpose()?;
    let document = |bytes| PublisherPages::read(bytes, manifest.is_some());
    let publisher = signals.publisher.as_deref();
    let publisher = publisher.map(|file| read_as(file, PUBLISHER_LIMITS.bytes, document));
    let publisher = publisher.transpose()?;
    Ok(Discovery::new(Arc::clone(registry), manifest, publisher))
}

/// Makes those who judge the outputs of adapters.
pub(super) fn judges<'a>(
    registry: Option<&Arc<Registry>>,
    config: &ConfigFile,
    members: impl Iterator<Item = (&'a str, &'a AdapterEntry)>,
    before: Option<&Law>,
) -> Result<BTreeMap<String, Arc<Judge>>, Error> {
    let mut judges = BTreeMap::new();
    let Some(registry) = registry else { return Ok(judges) };
    let mut policies: BTreeMap<&Path, Arc<AcceptancePolicy>> = BTreeMap::new();
    for (adapter_id, entry) in members {
        let Some(signal) = &entry.signal else { continue };
        let (contract_id, version) = match signal.split_once('@') {
            Some((id, version)) => (id, Some(version)),
            None => (signal.as_str(), None),
        };
        let newest = registry.versions(contract_id).last();
        let contract =
            registry.resolve(contract_id, version).or(newest.filter(|_| version.is_none()));
        let former = before.and_then(|law| law.signals.get(adapter_id));
        let known_before = former.is_some_and(|judge| {
            judge.contract_id == contract_id && judge.version.as_deref() == version
        });
        match contract {
            Some(contract) => tell_lifecycle(adapter_id, contract),
            // It was there when the router was started: what is gone by now is like what is revoked.
            None if known_before => {
                tracing::warn!(
                    adapter_id,
                    signal,
                    "the signal contract is gone; outputs need a review"
                );
            }
            None => {
                return Err(Error::UnknownSignal {
                    adapter_id: adapter_id.to_owned(),
                    signal: signal.clone(),
                    meant: registry.nearest(contract_id, version),
                });
            }
        }
        let file = entry.acceptance.as_deref().or(config.signals.policy.as_deref());
        let policy = match file {
            None => None,
            Some(file) => {
                let policy = match policies.get(file) {
                    Some(policy) => Arc::clone(policy),
                    None => Arc::new(read_policy(file)?),
                };
                policies.insert(file, Arc::clone(&policy));
                let mut findings = contract.map(|it| policy.findings_for(it)).unwrap_or_default();
                if entry.acceptance.is_none() {
                    // The policy of all adapters may speak of fields that only some of them give.
                    findings.retain(|finding| !finding.pointer.ends_with("/field"));
                }
                if !findings.is_empty() {
                    return Err(Error::Signals { file: file.to_owned(), findings });
                }
                Some(policy)
            }
        };
        let judge = Judge {
            registry: Arc::clone(registry),
            contract_id: contract_id.to_owned(),
            version: version.map(str::to_owned),
            pointer: entry.signal_fields.clone().unwrap_or_default(),
            policy,
        };
        judges.insert(adapter_id.to_owned(), Arc::new(judge));
    }
    Ok(judges)
}

fn tell_lifecycle(adapter_id: &str, contract: &Contract) {
    if contract.lifecycle != Lifecycle::Active {
        let (signal, lifecycle) = (contract.pointer(), contract.lifecycle.name());
        let replaced_by = contract.replaced_by.as_deref();
        tracing::warn!(
            adapter_id,
            signal,
            lifecycle,
            replaced_by,
            "an old signal contract is in use"
        );
    }
    // What is judged is what is recorded, and what looks like a secret by its name is not.
    for field in contract.output_fields.iter().filter(|it| key_class(it) == Class::Secret) {
        let message = "the field is hidden in the record by its name, and never passes";
        tracing::warn!(adapter_id, field, message);
    }
    if let Err(unknown) = &contract.validator {
        tracing::warn!(adapter_id, %unknown, "outputs cannot be validated, and need a review");
    }
}

/// Reads an acceptance policy.
pub(super) fn read_policy(file: &Path) -> Result<AcceptancePolicy, Error> {
    read_as(file, AcceptancePolicy::MAX_BYTES, |bytes| AcceptancePolicy::read(&bytes))
}

/// Reads a file of at most so many bytes as something.
fn read_as<T>(
    file: &Path,
    most: usize,
    read: impl FnOnce(Vec<u8>) -> Result<T, Vec<Finding>>,
) -> Result<T, Error> {
    let unreadable = |error| vec![Finding::error("", format!("cannot be read: {error}"))];
    let bytes = files::read_bounded(file, most).map_err(unreadable);
    bytes.and_then(read).map_err(|findings| Error::Signals { file: file.to_owned(), findings })
}

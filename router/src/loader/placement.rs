//! Where an adapter is to run, and what is known of where it runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{AdapterEntry, Workers};
use crate::grant::{Feature, Grants, Isolation};
use crate::sandbox::Confinement;

/// Where an adapter is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// In workers, or in this process.
    pub isolation: Isolation,
    /// What it may reach, if it declares `external`. Only workers are held to it.
    pub grants: Grants,
    /// Workers at once.
    pub processes: usize,
    /// Bytes of address space that each worker may have.
    pub memory: u64,
    /// How long a worker may take until it serves.
    pub start_timeout: Duration,
    /// So many crashes
    pub crashes: usize,
    /// in so long a time
    pub crash_window: Duration,
    /// put it into quarantine for so long.
    pub quarantine: Duration,
    /// Whether an adapter has to pass every check of the gate.
    pub require_valid: bool,
    /// Parts of the kernel that may be missing.
    pub accept_missing: Vec<Feature>,
    /// Whether it is there also where the kernel cannot confine it, and every call of it is rejected. Otherwise it is
    /// not loaded there.
    pub rejects_unconfined: bool,
}

impl Placement {
    /// Where the operator wants an adapter, which may have settings of its own.
    #[must_use]
    pub fn of(entry: &AdapterEntry, all: &Workers) -> Self {
        Self {
            isolation: entry.isolation.unwrap_or(all.isolation),
            grants: entry.grants.clone(),
            processes: entry.processes.unwrap_or(all.processes),
            memory: entry.memory.unwrap_or(all.memory),
            start_timeout: all.start_timeout,
            crashes: all.crashes,
            crash_window: all.crash_window,
            quarantine: all.quarantine,
            require_valid: all.require_valid,
            // A role is what the kernel holds it to: nothing of that may be missing.
            accept_missing: match entry.role {
                Some(_) => Vec::new(),
                None => all.accept_missing.clone(),
            },
            rejects_unconfined: entry.role.is_some(),
        }
    }

    /// In workers to which nothing is granted.
    #[must_use]
    pub fn worker() -> Self {
        Self::of(&AdapterEntry::default(), &Workers::default())
    }

    /// In this process.
    #[must_use]
    pub fn inline() -> Self {
        Self { isolation: Isolation::Inline, ..Self::worker() }
    }
}

/// How an adapter is confined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// Where it runs.
    pub isolation: Isolation,
    /// `none`, `partial` or `full`.
    pub confinement: String,
    /// The version of Landlock that is in force; 0 means none.
    pub landlock: u32,
    /// The errors of Landlock that the kernel has mended, a bit each, if it tells.
    pub landlock_errata: Option<u32>,
    /// What the kernel lacks for it.
    pub missing: Vec<Feature>,
    /// What it may reach.
    pub grants: Grants,
}

impl Confined {
    /// Not at all: it runs in this process.
    pub(super) fn inline() -> Self {
        Self {
            isolation: Isolation::Inline,
            confinement: "none".to_owned(),
            landlock: 0,
            landlock_errata: None,
            missing: Vec::new(),
            grants: Grants::default(),
        }
    }

    /// Returns the version of Landlock that is in force; in this process there is none.
    #[must_use]
    pub fn landlock_in_force(&self) -> Option<u32> {
        (self.isolation != Isolation::Inline).then_some(self.landlock)
    }

    /// Returns the names of what the kernel lacks for it.
    #[must_use]
    pub fn missing_names(&self) -> Vec<&'static str> {
        self.missing.iter().map(|feature| feature.name()).collect()
    }

    /// In a sandbox of its own for every call, as one was that was tried.
    pub(super) fn sandbox(confinement: &Confinement, grants: &Grants) -> Self {
        Self { isolation: Isolation::Sandbox, ..Self::worker(confinement, grants) }
    }

    /// As its worker said, with what it was granted.
    pub(super) fn worker(confinement: &Confinement, grants: &Grants) -> Self {
        let name = match confinement {
            Confinement { landlock: 0, seccomp: false, .. } => "none",
            full if full.is_full() => "full",
            _ => "partial",
        };
        Self {
            isolation: Isolation::Worker,
            confinement: name.to_owned(),
            landlock: confinement.landlock,
            landlock_errata: confinement.errata,
            missing: confinement.missing.clone(),
            grants: grants.clone(),
        }
    }
}

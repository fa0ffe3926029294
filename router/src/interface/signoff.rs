//! Who approved a revision of a contract: two people, each with a key of their own.

use super::lock::Revision;
use crate::key::{PublicKey, Signature, SigningKey};

/// In what capacity somebody approves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capacity {
    /// They made the change.
    Author,
    /// They looked at it.
    Reviewer,
}

impl Capacity {
    /// Every capacity.
    pub const ALL: [Self; 2] = [Self::Author, Self::Reviewer];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Author => "author",
            Self::Reviewer => "reviewer",
        }
    }

    /// Finds a capacity by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capacity| capacity.name() == name)
    }
}

/// The keys that approvals are believed of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvers {
    /// Of those who make changes.
    pub authors: Vec<PublicKey>,
    /// Of those who look at them.
    pub reviewers: Vec<PublicKey>,
}

impl Approvers {
    fn of(&self, capacity: Capacity) -> &[PublicKey] {
        match capacity {
            Capacity::Author => &self.authors,
            Capacity::Reviewer => &self.reviewers,
        }
    }
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOff {
    /// In what capacity.
    pub capacity: Capacity,
    /// By which key.
    pub key: PublicKey,
    /// What it made of the statement.
    pub signature: Signature,
}

impl SignOff {
    /// Approves a revision.
    #[must_use]
    pub fn new(revision: &Revision, capacity: Capacity, key: &SigningKey) -> Self {
        let signature = key.sign(statement(revision, capacity).as_bytes());
        Self { capacity, key: key.public(), signature }
    }

    /// Says whether it is that of its key for a revision as it is now.
    #[must_use]
    pub fn holds(&self, revision: &Revision) -> bool {
        self.key.verifies(statement(revision, self.capacity).as_bytes(), &self.signature)
    }
}

/// Returns what is signed: what the revision is, what it follows, and on what its tests passed.
#[must_use]
pub fn statement(revision: &Revision, capacity: Capacity) -> String {
    let mut text = String::from("nexus-router interface approval 1\n");
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        text.push_str(&format!("{name}: {value}\n"));
    };
    line("as", &capacity.name());
    line("adapter", &revision.adapter_id);
    line("version", &revision.version);
    match &revision.contract {
        Some(contract) => line("sha256", &contract.digest),
        None => line("sha256", &"removed"),
    }
    match &revision.previous {
        Some(previous) => line("previous", previous),
        None => line("previous", &"none"),
    }
    match &revision.tested {
        Some(tested) => {
            line("tested", &tested.operations.join(","));
            line("library", &tested.library);
        }
        None => line("tested", &"none"),
    }
    text
}

/// Tells what a revision that needs approval lacks of it; nothing, if it is approved.
pub(super) fn lacking(revision: &Revision, approvers: &Approvers) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut signed: Vec<(Capacity, PublicKey)> = Vec::new();
    for signoff in &revision.approvals {
        let (capacity, key) = (signoff.capacity, signoff.key);
        if !signoff.holds(revision) {
            lacking.push(format!(
                "the signature of the {} {key} is not for this revision as it is",
                capacity.name()
            ));
        } else if approvers.of(capacity).contains(&key) {
            signed.push((capacity, key));
        } else {
            lacking.push(format!("{key} is no key of a known {}", capacity.name()));
        }
    }
    let by = |capacity: Capacity| signed.iter().filter(move |(one, _)| *one == capacity);
    for capacity in Capacity::ALL {
        if by(capacity).next().is_none() {
            lacking.push(format!("no known {} has signed it", capacity.name()));
        }
    }
    // Two capacities of one key are one person.
    let two = by(Capacity::Author).any(|(_, a)| by(Capacity::Reviewer).any(|(_, r)| a != r));
    if lacking.is_empty() && !two {
        lacking.push("author and reviewer are the same key".to_owned());
    }
    lacking
}

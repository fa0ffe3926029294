//! Anchors: digests of histories in the configuration, out of reach of a writer of the lock.
//!
//! The head of a history is a digest over its newest revision and the head before, so it covers all revisions from
//! the first one on. A configuration that has the head of a history finds out when the history is made anew, cut at
//! its beginning, or rolled back behind that revision.

use std::collections::BTreeMap;

use semver::Version;

use super::document::Interface;
use super::frozen::frozen;
use super::lock::{Lock, Revision};
use crate::digest::Digest;

/// Heads of histories that the configuration has, by the ids of the contracts.
pub type Anchors = BTreeMap<String, Digest>;

/// A revision in a history, with the head of the history up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryHead {
    /// The version of the revision.
    pub version: Version,
    /// The digest of the history up to the revision.
    pub digest: Digest,
}

/// How far the configuration anchors the history of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchoring {
    /// The newest revision.
    pub newest: HistoryHead,
    /// The version up to which the history is anchored.
    pub anchored: Option<Version>,
}

impl Anchoring {
    /// Returns whether the whole history is anchored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.anchored.as_ref() == Some(&self.newest.version)
    }

    /// Returns how far the history is anchored, as a part of a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let newest = &self.newest.version;
        match &self.anchored {
            Some(version) if self.is_complete() => format!("{version} is anchored"),
            Some(version) => format!("{newest} is not anchored, only {version}"),
            None => format!("{newest} is not anchored"),
        }
    }
}

/// Returns the heads of all histories, the oldest first. That of a frozen contract begins with the contract of this
/// program.
pub(super) fn histories(lock: &Lock) -> BTreeMap<&str, Vec<HistoryHead>> {
    let mut histories: BTreeMap<&str, Vec<HistoryHead>> = BTreeMap::new();
    for Interface { adapter_id, version, digest, .. } in frozen() {
        let head = head(None, adapter_id, version, Some(*digest));
        histories.entry(adapter_id).or_default().push(head);
    }
    for Revision { adapter_id, version, contract, .. } in &lock.revisions {
        let history = histories.entry(adapter_id).or_default();
        let digest = contract.as_ref().map(|contract| contract.digest);
        let head = head(history.last(), adapter_id, version, digest);
        history.push(head);
    }
    histories
}

/// Returns how far a history is anchored; none if it lacks the revision that the anchor is of.
pub(super) fn anchoring(history: &[HistoryHead], anchor: Option<&Digest>) -> Option<Anchoring> {
    let newest = history.last()?.clone();
    let Some(anchor) = anchor else { return Some(Anchoring { newest, anchored: None }) };
    let anchored = history.iter().find(|head| head.digest == *anchor)?;
    Some(Anchoring { newest, anchored: Some(anchored.version.clone()) })
}

fn head(
    before: Option<&HistoryHead>,
    adapter_id: &str,
    version: &Version,
    contract: Option<Digest>,
) -> HistoryHead {
    let shown = |digest: Option<Digest>, none: &str| {
        digest.map_or_else(|| none.to_owned(), |digest| digest.to_string())
    };
    let text = format!(
        "nexus-router interface history 1\nbefore: {}\nadapter: {adapter_id}\nversion: {version}\nsha256: {}\n",
        shown(before.map(|head| head.digest), "none"),
        shown(contract, "removed"),
    );
    HistoryHead { version: version.clone(), digest: Digest::of(text.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(adapter_id: &str, major: u64) -> Revision {
        Revision {
            adapter_id: adapter_id.to_owned(),
            version: Version::new(major, 0, 0),
            previous: None,
            contract: None,
            approvals: Vec::new(),
            tested: None,
        }
    }

    fn lock(revisions: &[(&str, u64)]) -> Lock {
        Lock { revisions: revisions.iter().map(|(id, major)| revision(id, *major)).collect() }
    }

    #[test]
    fn head_depends_on_every_revision_before() {
        let whole = lock(&[("shop", 1), ("other", 1), ("shop", 2), ("shop", 3)]);
        let cut = lock(&[("shop", 2), ("shop", 3)]);
        let (whole, cut) = (histories(&whole), histories(&cut));
        assert_eq!(whole["shop"].len(), 3);
        let digests = |heads: &[HistoryHead]| heads.iter().map(|it| it.digest).collect::<Vec<_>>();
        assert!(digests(&whole["shop"]).iter().all(|it| !digests(&cut["shop"]).contains(it)));
        assert_ne!(whole["shop"][0].digest, whole["other"][0].digest);
    }

    #[test]
    fn anchor_is_found_up_to_its_revision() {
        let lock = lock(&[("shop", 1), ("shop", 2)]);
        let history = &histories(&lock)["shop"];
        let at = |anchor: Option<&Digest>| anchoring(history, anchor);
        assert_eq!(at(None).unwrap().describe(), "2.0.0 is not anchored");
        let first = at(Some(&history[0].digest)).unwrap();
        assert_eq!(first.describe(), "2.0.0 is not anchored, only 1.0.0");
        assert!(!first.is_complete());
        assert!(at(Some(&history[1].digest)).unwrap().is_complete());
        assert_eq!(at(Some(&Digest::ZERO)), None);
    }

    #[test]
    fn histories_of_frozen_contracts_begin_with_them() {
        let lock = Lock::default();
        let histories = histories(&lock);
        assert_eq!(histories.len(), frozen().len());
        assert!(histories.values().all(|history| history.len() == 1));
    }
}

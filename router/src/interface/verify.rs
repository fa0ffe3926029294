//! Holds the contracts to the lock: nothing changes without the version that the change needs, and nothing that
//! breaks others without two people's approval and passed tests.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use super::anchor::{Anchoring, Anchors, anchoring, histories};
use super::compare::{Change, Class, compare, declared_bump, required_bump};
use super::document::Interface;
use super::finding::{Finding, Findings, below};
use super::frozen::{check_frozen, frozen, frozen_interface};
use super::lock::{LOCK_NAME, Lock, Revision};
use super::shelf::{EXTENSION, Shelf};
use super::signoff::{Approvers, is_signed, lacking};
use super::unusable::UnusableContracts;
use crate::digest::Digest;

/// A message names so many changes at most.
const SHOWN: usize = 5;

/// What came of looking at a shelf.
#[derive(Debug)]
pub struct Verified {
    /// Everything that is wrong, by file.
    pub findings: Vec<(String, Finding)>,
    /// The contracts that hold, by adapter: those of the shelf that are locked, and those of this program.
    pub interfaces: BTreeMap<String, Interface>,
    /// The contracts that do not hold, and those that were removed.
    pub unusable: UnusableContracts,
    /// The digests of all revisions that hold by adapter, the oldest first.
    pub history: History,
    /// How far the configuration anchors the histories in the lock.
    pub anchoring: BTreeMap<String, Anchoring>,
}

/// What the operator says about contracts: whose approvals count, and which histories are anchored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContractTrust {
    /// The keys that approvals are believed of.
    pub approvers: Approvers,
    /// The heads of histories.
    pub anchors: Anchors,
}

/// The digests of all revisions that hold by adapter, the oldest first.
pub type History = BTreeMap<String, Vec<Digest>>;

/// Tells adapters whose revisions are not those that were there before, and perhaps more.
#[must_use]
pub fn rewritten(before: &History, after: &History) -> Vec<String> {
    let is = |(id, old): &(&String, &Vec<Digest>)| {
        !after.get(*id).is_some_and(|new| new.starts_with(old))
    };
    before.iter().filter(is).map(|(id, _)| id.clone()).collect()
}

/// What the next revision of an adapter follows.
#[derive(Clone, Debug)]
pub struct Before<'a> {
    /// Its digest.
    pub digest: Digest,
    /// Its version.
    pub version: Version,
    /// The contract; none if the adapter was removed.
    pub contract: Option<&'a Interface>,
}

impl<'a> Before<'a> {
    /// Returns what the next revision of an adapter follows: the newest that is locked, or the contract of this
    /// program.
    #[must_use]
    pub fn of(lock: &'a Lock, adapter_id: &str) -> Option<Self> {
        lock.latest(adapter_id).map_or_else(|| Self::frozen(adapter_id), |it| Some(Self::from(it)))
    }

    fn frozen(adapter_id: &str) -> Option<Self> {
        let contract = frozen_interface(adapter_id)?;
        let version = contract.version.clone();
        Some(Self { digest: contract.digest, version, contract: Some(contract) })
    }

    /// Lists what a contract changes.
    #[must_use]
    pub fn changes(&self, next: Option<&Interface>) -> Vec<Change> {
        let whole = |class, message: &str| {
            let (pointer, message) = (String::new(), message.to_owned());
            vec![Change { class, pointer, message, operation: None }]
        };
        match (self.contract, next) {
            (Some(old), Some(new)) => compare(old, new),
            (Some(_), None) => whole(Class::Major, "the adapter is removed"),
            (None, Some(_)) => whole(Class::Minor, "the adapter is there again"),
            (None, None) => Vec::new(),
        }
    }
}

impl<'a> From<&'a Revision> for Before<'a> {
    fn from(revision: &'a Revision) -> Self {
        let (digest, version) = (revision.digest(), revision.version.clone());
        Self { digest, version, contract: revision.contract.as_ref() }
    }
}

/// Looks at everything on a shelf.
#[must_use]
pub fn verify(shelf: &Shelf, trust: &ContractTrust) -> Verified {
    let mut looking = Looking::default();
    looking.look_at_program();
    let none = Lock::default();
    match &shelf.lock {
        Ok(lock) => {
            looking.look_at_lock(lock, &trust.approvers);
            looking.look_at_anchors(lock, &trust.anchors);
            looking.look_at_files(shelf, lock);
        }
        Err(findings) => {
            for finding in findings {
                looking.unusable.add_to_all(LOCK_NAME, finding);
                looking.findings.push((LOCK_NAME.to_owned(), finding.clone()));
            }
            looking.look_at_files(shelf, &none);
        }
    }
    let Looking { findings, mut interfaces, unusable, history, anchoring } = looking;
    interfaces.retain(|id, _| unusable.get(id).is_none());
    Verified { findings, interfaces, unusable, history, anchoring }
}

#[derive(Default)]
struct Looking {
    findings: Vec<(String, Finding)>,
    interfaces: BTreeMap<String, Interface>,
    unusable: UnusableContracts,
    history: History,
    anchoring: BTreeMap<String, Anchoring>,
}

impl Looking {
    /// Adds a finding about the contract of an adapter.
    fn find(
        &mut self,
        id: &str,
        file: &str,
        (pointer, code): (&str, &'static str),
        message: String,
    ) {
        let finding = Finding { pointer: pointer.to_owned(), code, message };
        self.unusable.add(id, file, &finding);
        self.findings.push((file.to_owned(), finding));
    }

    fn look_at_program(&mut self) {
        const FILE: &str = "this program";
        for finding in check_frozen() {
            let id = finding.pointer.split('/').nth(1).filter(|id| frozen_interface(id).is_some());
            match id {
                Some(id) => self.unusable.add(id, FILE, &finding),
                None => self.unusable.add_to_all(FILE, &finding),
            }
            self.findings.push((FILE.to_owned(), finding));
        }
        let own = |one: &Interface| (one.adapter_id.clone(), vec![one.digest]);
        self.history = frozen().iter().map(own).collect();
    }

    fn look_at_lock(&mut self, lock: &Lock, approvers: &Approvers) {
        let mut latest: BTreeMap<&str, Before<'_>> = BTreeMap::new();
        let mut broken = BTreeSet::new();
        for (index, revision) in lock.revisions.iter().enumerate() {
            let id = revision.adapter_id.as_str();
            let before = latest.get(id).cloned().or_else(|| Before::frozen(id));
            let findings = look_at_revision(revision, before.as_ref(), approvers);
            if !findings.is_empty() {
                broken.insert(id);
            }
            for finding in findings {
                let pointer = below("/revisions", &index.to_string()) + &finding.pointer;
                self.find(id, LOCK_NAME, (&pointer, finding.code), finding.message);
            }
            if !broken.contains(id) {
                self.history.entry(id.to_owned()).or_default().push(revision.digest());
            }
            latest.insert(id, Before::from(revision));
        }
        for (id, latest) in latest.iter().filter(|(_, latest)| latest.contract.is_none()) {
            self.unusable.remove(id, &latest.version);
        }
    }

    fn look_at_anchors(&mut self, lock: &Lock, anchors: &Anchors) {
        let histories = histories(lock);
        let anchored = anchors.iter().map(|(id, anchor)| (id.as_str(), anchor));
        for (id, anchor) in anchored {
            let history = histories.get(id).map_or(&[][..], Vec::as_slice);
            if anchoring(history, Some(anchor)).is_some() {
                continue;
            }
            let message = format!(
                "the history of {id} lacks the revision that contracts.anchors.{id} is of: the lock was made anew, \
                 rolled back or cut; restore it from version control"
            );
            self.find(id, LOCK_NAME, ("", "INTERFACE_HISTORY_REPLACED"), message);
        }
        let locked: BTreeSet<&str> =
            lock.revisions.iter().map(|revision| revision.adapter_id.as_str()).collect();
        for id in locked {
            let history = histories.get(id).map_or(&[][..], Vec::as_slice);
            let known = anchoring(history, anchors.get(id)).or_else(|| anchoring(history, None));
            self.anchoring.extend(known.map(|known| (id.to_owned(), known)));
        }
    }

    fn look_at_files(&mut self, shelf: &Shelf, lock: &Lock) {
        for (name, file) in &shelf.files {
            match file {
                Ok(interface) => self.look_at_file(name, interface, (shelf, lock)),
                Err(findings) => {
                    let id = name.strip_suffix(EXTENSION).unwrap_or(name);
                    for Finding { pointer, code, message } in findings {
                        self.find(id, name, (pointer, code), message.clone());
                    }
                }
            }
        }
        let mut seen = BTreeSet::new();
        for revision in lock.revisions.iter().rev() {
            let id = revision.adapter_id.as_str();
            let name = format!("{id}{EXTENSION}");
            if seen.insert(id) && revision.contract.is_some() && !shelf.files.contains_key(&name) {
                let message = format!(
                    "{id} {} is locked and has no file; put it back, or remove the adapter for good with \
                     nexus-router interface freeze --remove {id}",
                    revision.version
                );
                self.find(id, &name, ("", "INTERFACE_REMOVED"), message);
            }
        }
        for interface in frozen() {
            let id = &interface.adapter_id;
            if lock.latest(id).is_none() && !self.interfaces.contains_key(id) {
                self.interfaces.insert(id.clone(), interface.clone());
            }
        }
    }

    fn look_at_file(&mut self, name: &str, interface: &Interface, (shelf, lock): (&Shelf, &Lock)) {
        let Interface { adapter_id: id, version, .. } = interface;
        if *name != format!("{id}{EXTENSION}") {
            let message = format!("is the contract of {id}: call the file {id}{EXTENSION}");
            // The adapter may have its contract in the right file as well.
            let named = name.strip_suffix(EXTENSION).unwrap_or(name);
            self.find(named, name, ("/adapter_id", "INTERFACE_MALFORMED"), message.clone());
            if !shelf.files.contains_key(&format!("{id}{EXTENSION}")) {
                let finding = Finding {
                    pointer: "/adapter_id".to_owned(),
                    code: "INTERFACE_MALFORMED",
                    message,
                };
                self.unusable.add(id, name, &finding);
            }
            return;
        }
        let freeze = format!("lock it with nexus-router interface freeze {name}");
        let Some(before) = Before::of(lock, id) else {
            let message = format!("{id} {version} is not locked; {freeze}");
            return self.find(id, name, ("", "INTERFACE_NOT_LOCKED"), message);
        };
        if before.contract.is_some_and(|contract| contract.digest == interface.digest) {
            self.interfaces.insert(id.clone(), interface.clone());
            return;
        }
        if before.contract.is_none() && *version <= before.version {
            let message =
                format!("{id} is removed in the lock, and its file is still there: delete it");
            return self.find(id, name, ("", "INTERFACE_REMOVED"), message);
        }
        let changes = before.changes(Some(interface));
        match version.cmp(&before.version) {
            std::cmp::Ordering::Less => {
                let message = format!(
                    "{id} {version} is older than {}, which is locked; take up that one again, or write a newer one",
                    before.version
                );
                self.find(id, name, ("/version", "INTERFACE_ROLLED_BACK"), message);
            }
            std::cmp::Ordering::Equal => {
                let needed = required_bump(&changes).unwrap_or(Class::Patch);
                let message = format!(
                    "{id} {version} is not what is locked under this version: {}; put it back, or raise the {} \
                     version",
                    told(&changes),
                    needed.name()
                );
                self.find(id, name, ("", "INTERFACE_CHANGED"), message);
            }
            std::cmp::Ordering::Greater => {
                if let Some(message) = too_small(&before, version, &changes) {
                    self.find(id, name, ("/version", "INTERFACE_BUMP_TOO_SMALL"), message);
                }
                let message = format!(
                    "{id} {version} follows {} and is not locked; {freeze}",
                    before.version
                );
                self.find(id, name, ("", "INTERFACE_NOT_LOCKED"), message);
            }
        }
    }
}

/// Says whether the newest revision of an adapter does not hold yet: nobody can rely on it.
#[must_use]
pub fn is_pending(lock: &Lock, adapter_id: &str, approvers: &Approvers) -> bool {
    let mut revisions = lock.of(adapter_id).rev();
    let Some(latest) = revisions.next() else { return false };
    let before = revisions.next().map(Before::from).or_else(|| Before::frozen(adapter_id));
    !look_at_revision(latest, before.as_ref(), approvers).is_empty()
}

/// Says whether the newest revision of an adapter may give way to another one: it does not hold yet, and the people
/// whom it needs have not signed it. Whose keys they are does not matter.
#[must_use]
pub fn is_droppable(lock: &Lock, adapter_id: &str, approvers: &Approvers) -> bool {
    let latest = lock.latest(adapter_id);
    latest.is_some_and(|latest| !is_signed(latest)) && is_pending(lock, adapter_id, approvers)
}

/// Holds one revision to the one before.
fn look_at_revision(
    revision: &Revision,
    before: Option<&Before<'_>>,
    approvers: &Approvers,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    let previous = before.map(|before| before.digest);
    if revision.previous != previous {
        let shown = |digest: Option<Digest>| digest.map_or("none".to_owned(), |it| it.to_string());
        let message = format!(
            "says that it follows {}, and follows {}: a revision was changed, taken out or put in",
            shown(revision.previous),
            shown(previous)
        );
        findings.add("/previous", "LOCK_BROKEN", message);
    }
    let Some(before) = before else { return findings.into_vec() };
    if revision.version <= before.version {
        let message =
            format!("{} is not newer than {}, which it follows", revision.version, before.version);
        findings.add("/version", "LOCK_BROKEN", message);
        return findings.into_vec();
    }
    let changes = before.changes(revision.contract.as_ref());
    if let Some(message) = too_small(before, &revision.version, &changes) {
        findings.add("/version", "INTERFACE_BUMP_TOO_SMALL", message);
    }
    // Who says that it breaks others is taken at their word: all tools have to be made for it.
    let declared = declared_bump(&before.version, &revision.version).ok().flatten();
    if required_bump(&changes).max(declared) != Some(Class::Major) {
        return findings.into_vec();
    }
    let (id, version) = (&revision.adapter_id, &revision.version);
    for lack in lacking(revision, approvers) {
        let message = format!(
            "{id} {version} breaks others and is not approved: {lack}; nexus-router interface approve {id} \
             --as author|reviewer --key FILE"
        );
        findings.add("/approvals", "INTERFACE_NOT_APPROVED", message);
    }
    let tested = revision.tested.as_ref().map_or(&[][..], |tested| &tested.operations);
    let operations = revision.contract.iter().flat_map(|contract| contract.operations.keys());
    let untested: Vec<&str> =
        operations.filter(|name| !tested.contains(name)).map(String::as_str).collect();
    if !untested.is_empty() {
        let message = format!(
            "{id} {version} breaks others, and the examples of {} have not passed on it; nexus-router interface \
             test {id} --adapter REF",
            untested.join(", ")
        );
        findings.add("/tested", "INTERFACE_NOT_TESTED", message);
    }
    findings.into_vec()
}

/// Tells that a version does not say how much a contract changes, if it does not.
#[must_use]
pub fn too_small(before: &Before<'_>, version: &Version, changes: &[Change]) -> Option<String> {
    let needed = required_bump(changes)?;
    let declared = declared_bump(&before.version, version).ok().flatten();
    if declared >= Some(needed) {
        return None;
    }
    Some(format!(
        "{version} after {} is {}, and the change is {}: {}",
        before.version,
        declared.map_or("no change", Class::name),
        needed.name(),
        told(changes)
    ))
}

/// Names the worst changes.
fn told(changes: &[Change]) -> String {
    let Some(worst) = required_bump(changes) else { return "nothing that counts".to_owned() };
    let worst: Vec<&Change> = changes.iter().filter(|change| change.class == worst).collect();
    let shown: Vec<&str> = worst.iter().take(SHOWN).map(|change| change.message.as_str()).collect();
    match worst.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{}, and {more} more", shown.join("; ")),
        None => shown.join("; "),
    }
}

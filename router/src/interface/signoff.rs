//! Who approved a revision of a contract: two people, each with a key of their own.

use super::lock::Revision;
use crate::clock::Timestamp;
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

/// A key that approvals are believed of, from and until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApproverKey {
    /// The key.
    pub key: PublicKey,
    /// The first moment at which it may sign.
    pub from: Option<Timestamp>,
    /// The moment from which on it may not sign any more. What it signed before stays valid.
    pub until: Option<Timestamp>,
}

/// The keys that approvals are believed of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvers {
    /// Of those who make changes.
    pub authors: Vec<ApproverKey>,
    /// Of those who look at them.
    pub reviewers: Vec<ApproverKey>,
}

/// Reason why a signature of a key does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyProblem {
    /// Nobody has the key in this capacity.
    Unknown,
    /// The key was not valid when the signature was made.
    OutOfTime(ApproverKey),
    /// The key is not valid for ever, and the signature has no time.
    Undated,
}

impl From<PublicKey> for ApproverKey {
    fn from(key: PublicKey) -> Self {
        Self { key, from: None, until: None }
    }
}

impl ApproverKey {
    /// Returns whether it may sign at a moment.
    #[must_use]
    pub fn is_valid_at(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Returns whether it is valid for ever.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Returns when it is valid, as a part of a sentence.
    #[must_use]
    pub fn describe_time(&self) -> String {
        match (self.from, self.until) {
            (None, None) => "always".to_owned(),
            (Some(from), None) => format!("from {from}"),
            (None, Some(until)) => format!("until {until}"),
            (Some(from), Some(until)) => format!("from {from} until {until}"),
        }
    }
}

impl KeyProblem {
    /// Returns the problem, with the key and the capacity.
    #[must_use]
    pub fn describe(&self, capacity: Capacity, key: PublicKey, at: Option<Timestamp>) -> String {
        let name = capacity.name();
        match self {
            Self::Unknown => format!("{key} is not the key of a known {name}"),
            Self::OutOfTime(known) => {
                let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
                let valid = known.describe_time();
                format!("{key} of the {name} is valid {valid}, but the signature was made{at}")
            }
            Self::Undated => format!(
                "{key} of the {name} is not always valid, and its signature has no time: sign again"
            ),
        }
    }
}

impl Approvers {
    fn of(&self, capacity: Capacity) -> &[ApproverKey] {
        match capacity {
            Capacity::Author => &self.authors,
            Capacity::Reviewer => &self.reviewers,
        }
    }

    /// Checks that a key may sign at a moment. A signature without a time needs a key that is always valid.
    ///
    /// # Errors
    /// With the reason why it may not.
    pub fn check(
        &self,
        capacity: Capacity,
        key: PublicKey,
        at: Option<Timestamp>,
    ) -> Result<(), KeyProblem> {
        // A key that was given back later has two entries.
        let known: Vec<&ApproverKey> =
            self.of(capacity).iter().filter(|known| known.key == key).collect();
        let Some(last) = known.last() else { return Err(KeyProblem::Unknown) };
        let fits = |known: &&ApproverKey| match at {
            Some(at) => known.is_valid_at(at),
            None => known.is_unlimited(),
        };
        match (known.iter().any(fits), at) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(KeyProblem::OutOfTime(**last)),
            (false, None) => Err(KeyProblem::Undated),
        }
    }

    /// Returns whether a key is known, in any capacity and at any time.
    #[must_use]
    pub fn knows(&self, key: PublicKey) -> bool {
        self.authors.iter().chain(&self.reviewers).any(|known| known.key == key)
    }
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOff {
    /// In what capacity.
    pub capacity: Capacity,
    /// By which key.
    pub key: PublicKey,
    /// When. Locks of earlier programs do not say it.
    pub at: Option<Timestamp>,
    /// What it made of the statement.
    pub signature: Signature,
}

impl SignOff {
    /// Approves a revision.
    #[must_use]
    pub fn new(
        revision: &Revision,
        capacity: Capacity,
        key: &SigningKey,
        at: Option<Timestamp>,
    ) -> Self {
        let signature = key.sign(statement(revision, capacity, at).as_bytes());
        Self { capacity, key: key.public(), at, signature }
    }

    /// Says whether it is that of its key for a revision as it is now.
    #[must_use]
    pub fn holds(&self, revision: &Revision) -> bool {
        let statement = statement(revision, self.capacity, self.at);
        self.key.verifies(statement.as_bytes(), &self.signature)
    }
}

/// Returns what is signed: what the revision is, what it follows, on what its tests passed, and when it is signed.
#[must_use]
pub fn statement(revision: &Revision, capacity: Capacity, at: Option<Timestamp>) -> String {
    let form = if at.is_some() { 2 } else { 1 };
    let mut text = format!("nexus-router interface approval {form}\n");
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        text.push_str(&format!("{name}: {value}\n"));
    };
    if let Some(at) = at {
        line("at", &at);
    }
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
            continue;
        }
        match approvers.check(capacity, key, signoff.at) {
            Ok(()) => signed.push((capacity, key)),
            Err(problem) => lacking.push(problem.describe(capacity, key, signoff.at)),
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

/// Returns whether the signatures of a revision are complete, for any keys: an author and another one who
/// looked at it have signed it as it is.
pub(super) fn is_signed(revision: &Revision) -> bool {
    let by = |capacity: Capacity| {
        let of = revision.approvals.iter().filter(move |one| one.capacity == capacity);
        of.filter(|one| one.holds(revision)).map(|one| one.key)
    };
    by(Capacity::Author).any(|author| by(Capacity::Reviewer).any(|reviewer| author != reviewer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semver::Version;

    fn key(directory: &tempfile::TempDir, name: &str) -> SigningKey {
        SigningKey::create(&directory.path().join(name)).unwrap()
    }

    fn revision() -> Revision {
        Revision {
            adapter_id: "shop".to_owned(),
            version: Version::new(2, 0, 0),
            previous: None,
            contract: None,
            approvals: Vec::new(),
            tested: None,
        }
    }

    const AT: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn signature_counts_if_its_key_was_valid_then() {
        let directory = tempfile::tempdir().unwrap();
        let (author, reviewer) = (key(&directory, "a"), key(&directory, "b"));
        let mut revision = revision();
        let at = |key: &SigningKey, capacity, at| SignOff::new(&revision, capacity, key, at);
        let approvals = vec![
            at(&author, Capacity::Author, Some(AT)),
            at(&reviewer, Capacity::Reviewer, Some(AT)),
        ];
        revision.approvals = approvals;
        let bounds = |from: Option<i64>, until: Option<i64>| {
            let moment = |millis: Option<i64>| millis.map(Timestamp::from_millis);
            let reviewer =
                ApproverKey { key: reviewer.public(), from: moment(from), until: moment(until) };
            Approvers { authors: vec![author.public().into()], reviewers: vec![reviewer] }
        };
        for (from, until) in
            [(None, None), (Some(1_000), None), (None, Some(1_001)), (Some(1), Some(1_001))]
        {
            assert_eq!(lacking(&revision, &bounds(from, until)), Vec::<String>::new());
        }
        for (from, until) in [(Some(1_001), None), (None, Some(1_000))] {
            let lacks = lacking(&revision, &bounds(from, until));
            assert!(lacks[0].contains("is valid"), "{lacks:?}");
            assert!(
                lacks.iter().any(|lack| lack == "no known reviewer has signed it"),
                "{lacks:?}"
            );
        }
        // Of two entries of one key, one is enough.
        let mut twice = bounds(None, Some(1));
        twice.reviewers.push(bounds(Some(1_000), None).reviewers[0]);
        assert_eq!(lacking(&revision, &twice), Vec::<String>::new());
    }

    #[test]
    fn signature_without_a_time_needs_an_unlimited_key() {
        let directory = tempfile::tempdir().unwrap();
        let author = key(&directory, "a");
        let mut revision = revision();
        revision.approvals = vec![SignOff::new(&revision, Capacity::Author, &author, None)];
        let known = |until| Approvers {
            authors: vec![ApproverKey { key: author.public(), from: None, until }],
            reviewers: Vec::new(),
        };
        assert_eq!(lacking(&revision, &known(None)), ["no known reviewer has signed it"]);
        assert!(lacking(&revision, &known(Some(AT)))[0].contains("has no time"));
    }

    #[test]
    fn time_of_a_signature_cannot_be_changed() {
        let directory = tempfile::tempdir().unwrap();
        let author = key(&directory, "a");
        let revision = revision();
        let signed = SignOff::new(&revision, Capacity::Author, &author, Some(AT));
        assert!(signed.holds(&revision));
        for at in [None, Some(Timestamp::from_millis(999))] {
            assert!(!SignOff { at, ..signed.clone() }.holds(&revision));
        }
    }

    #[test]
    fn complete_signatures_are_two_of_different_keys() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (key(&directory, "a"), key(&directory, "b"));
        let mut revision = revision();
        let signed =
            |key: &SigningKey, capacity| SignOff::new(&self::revision(), capacity, key, Some(AT));
        revision.approvals = vec![signed(&one, Capacity::Author), signed(&one, Capacity::Reviewer)];
        assert!(!is_signed(&revision));
        revision.approvals.push(signed(&other, Capacity::Reviewer));
        assert!(is_signed(&revision));
        revision.version = Version::new(3, 0, 0);
        assert!(!is_signed(&revision), "it is another revision");
    }
}

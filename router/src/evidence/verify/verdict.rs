//! What the verifier says: findings with stable reasons, and what a verdict rests on.

use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::key::PublicKey;
use crate::python_text::visible;

/// What was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What was executed, and what came of it.
    Execution,
    /// What was refused before it ran.
    Rejection,
    /// What was decided about a spec.
    Verification,
    /// A plan, which is named by its digest and carries no seal of its own.
    Plan,
    /// The log in which all seals are.
    Log,
    /// A run that was exported.
    Run,
    /// A cabinet as a whole.
    Cabinet,
    /// Nothing that is known.
    Unknown,
}

impl Kind {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Rejection => "rejection",
            Self::Verification => "verification",
            Self::Plan => "plan",
            Self::Log => "log",
            Self::Run => "run",
            Self::Cabinet => "cabinet",
            Self::Unknown => "unknown",
        }
    }
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Everything was checked and holds.
    Genuine,
    /// Nothing that was checked is wrong, but not everything could be checked.
    Unclear,
    /// Something is wrong.
    Forged,
}

impl Standing {
    /// Returns the name in a verdict.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::Unclear => "could_not_tell",
            Self::Forged => "not_genuine",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $id:literal $standing:ident,)*) => {
        /// Why a bundle is not genuine, or why that cannot be told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the stable name.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            /// Returns what a bundle is that has such a finding.
            #[must_use]
            pub const fn standing(self) -> Standing {
                match self {
                    $(Self::$name => Standing::$standing,)*
                }
            }
        }
    };
}

reasons! {
    /// A file that has to be there is not.
    Missing "missing" Forged,
    /// A file is there that nothing lists.
    Unlisted "unlisted" Forged,
    /// A directory is there that has no place in a bundle.
    UnexpectedDirectory "unexpected_directory" Forged,
    /// A symbolic link.
    Symlink "symlink" Forged,
    /// A pipe, a socket, a device.
    SpecialFile "special_file" Forged,
    /// A name that a bundle cannot have.
    BadName "bad_name" Forged,
    /// The bytes are not those whose digest is recorded.
    HashMismatch "hash_mismatch" Forged,
    /// A document is no JSON, or not as its kind demands.
    Malformed "malformed" Forged,
    /// A document says what it says in other bytes than the canonical ones.
    NotCanonical "not_canonical" Forged,
    /// Two places that have to say the same do not.
    Mismatch "mismatch" Forged,
    /// The bundle lies where another one has to be.
    Misplaced "misplaced" Forged,
    /// The role may not carry out such actions.
    ActionNotAllowed "action_not_allowed" Forged,
    /// The output is none of its role, and yet the execution is said to have succeeded.
    OutputRefused "output_refused" Forged,
    /// The output has what normalization removes.
    NotNormalized "not_normalized" Forged,
    /// There is no attestation.
    Unsealed "unsealed" Forged,
    /// The attestation is signed by no key that is trusted.
    UntrustedKey "untrusted_key" Forged,
    /// The signature is not that of the key that it names.
    BadSignature "bad_signature" Forged,
    /// The key that signed was not good for this leaf of the log.
    ExpiredKey "expired_key" Forged,
    /// The attestation says something else than the files.
    StatementMismatch "statement_mismatch" Forged,
    /// The proof does not show that the log has this seal.
    BadProof "bad_proof" Forged,
    /// The checkpoint is signed by no log key that is trusted for its size.
    UntrustedLog "untrusted_log" Forged,
    /// The log has no such seal, or has it elsewhere.
    NotInLog "not_in_log" Forged,
    /// The log has a seal whose bundle is not there.
    MissingBundle "missing_bundle" Forged,
    /// The log is damaged: its tiles do not give the root that is signed.
    LogDamaged "log_damaged" Forged,
    /// The log does not begin with what an earlier checkpoint says.
    LogRewritten "log_rewritten" Forged,
    /// It cannot be read.
    Unreadable "unreadable" Unclear,
    /// It changed while it was read.
    Changing "changing" Unclear,
    /// There are more entries than the verifier looks at.
    TooManyEntries "too_many_entries" Unclear,
    /// It lies deeper than the verifier looks.
    TooDeep "too_deep" Unclear,
    /// It is larger than the verifier reads.
    FileTooLarge "file_too_large" Unclear,
    /// It is none of the things that can be verified.
    Unrecognized "unrecognized" Unclear,
    /// It is of a kind that carries no seal of its own.
    NoSeal "no_seal" Unclear,
    /// There is nothing to verify.
    Nothing "nothing" Unclear,
    /// No keys are given that could be trusted.
    NoTrust "no_trust" Unclear,
}

/// One thing that is wrong, or that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Why.
    pub reason: Reason,
    /// The file, relative to what was verified; empty if it is about the whole.
    pub file: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(reason: Reason, file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, file: file.into(), message: message.into() }
    }
}

/// Findings, of which only the first are kept.
#[derive(Clone, Debug)]
pub struct Findings {
    list: Vec<Finding>,
    most: usize,
    left_out: usize,
    worst: Standing,
}

impl Findings {
    pub(super) fn new(most: usize) -> Self {
        Self { list: Vec::new(), most, left_out: 0, worst: Standing::Genuine }
    }

    pub(crate) fn push(&mut self, finding: Finding) {
        self.worst = self.worst.max(finding.reason.standing());
        if self.list.len() < self.most {
            self.list.push(finding);
        } else {
            self.left_out += 1;
        }
    }

    /// Takes over those of another.
    pub(super) fn extend(&mut self, other: Self) {
        other.list.into_iter().for_each(|finding| self.push(finding));
        self.left_out += other.left_out;
        self.worst = self.worst.max(other.worst);
    }

    pub(super) fn tell(&mut self, reason: Reason, file: &str, message: impl Into<String>) {
        self.push(Finding::new(reason, file, message));
    }

    /// Returns those that are told, in the order in which they were found.
    #[must_use]
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Returns how many there are beyond those that are told.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns what they come to.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.worst
    }
}

/// The keys and the place in the log that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The key that signed the attestation.
    pub attestation_key: PublicKey,
    /// The leaf of the log.
    pub leaf: u64,
    /// The log key that signed the checkpoint.
    pub log_key: String,
    /// The size of the tree that the checkpoint signs.
    pub tree_size: u64,
    /// The root of that tree.
    pub tree_root: Digest,
}

/// What the verifier says of one bundle.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Where it lies.
    pub place: String,
    /// What it is.
    pub kind: Kind,
    /// What was checked.
    pub checked: Vec<&'static str>,
    /// What was found.
    pub findings: Findings,
    /// The task, as the documents say.
    pub task_id: Option<String>,
    /// The execution, as the documents say.
    pub exec_id: Option<String>,
    /// The digest of the spec.
    pub spec_sha256: Option<Digest>,
    /// The digest of the manifest.
    pub manifest_sha256: Option<Digest>,
    /// What it rests on; none if the seal does not hold or was not asked for.
    pub rests_on: Option<Basis>,
    /// The leaf of the log that this bundle claims, by its hash.
    pub(super) leaf_hash: Option<Digest>,
    /// The plan that an execution names, or that this is.
    pub(super) plan_sha256: Option<Digest>,
}

impl Verdict {
    pub(crate) fn new(place: String, kind: Kind, most_findings: usize) -> Self {
        Self {
            place,
            kind,
            checked: Vec::new(),
            findings: Findings::new(most_findings),
            task_id: None,
            exec_id: None,
            spec_sha256: None,
            manifest_sha256: None,
            rests_on: None,
            leaf_hash: None,
            plan_sha256: None,
        }
    }

    /// Returns what it comes to.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.findings.standing()
    }

    /// Returns the stable id of a finding: its reason, the kind, the place, and the file.
    #[must_use]
    pub fn id(&self, finding: &Finding) -> String {
        let (reason, kind) = (finding.reason.id(), self.kind.name());
        let mut id = format!("{reason}:{kind}:{}", self.place);
        if !finding.file.is_empty() {
            id.push(':');
            id.push_str(&finding.file);
        }
        id
    }

    /// Returns the verdict for programs. Members are only added, never renamed:
    ///
    /// - `place`, `kind`, `verdict` (`genuine`, `not_genuine` or `could_not_tell`)
    /// - `findings`: each has `id` (`<reason>:<kind>:<place>[:<file>]`), `reason`, `file` and `message`; at most some, and
    ///   `findings_left_out` more
    /// - `checked`: what was looked at, as far as it came to that
    /// - `task_id`, `exec_id`, `spec_sha256`, `manifest_sha256`: what the documents say, or null
    /// - `rests_on`: `attestation_key`, `log_key`, `leaf`, `tree_size`, `tree_root`; null if no seal holds
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(11);
        object.insert("place", self.place.as_str());
        object.insert("kind", self.kind.name());
        object.insert("verdict", self.standing().name());
        let findings = self.findings.list().iter().map(|finding| {
            let mut object = Object::with_capacity(4);
            object.insert("id", self.id(finding));
            object.insert("reason", finding.reason.id());
            object.insert("file", finding.file.as_str());
            object.insert("message", finding.message.as_str());
            Value::Object(object)
        });
        object.insert("findings", findings.collect::<Vec<_>>());
        object.insert("findings_left_out", self.findings.left_out());
        object.insert("checked", self.checked.iter().map(|one| (*one).into()).collect::<Vec<_>>());
        object.insert("task_id", self.task_id.clone());
        object.insert("exec_id", self.exec_id.clone());
        let text = |digest: Option<Digest>| digest.map(|digest| digest.to_string());
        object.insert("spec_sha256", text(self.spec_sha256));
        object.insert("manifest_sha256", text(self.manifest_sha256));
        object.insert("rests_on", self.rests_on.as_ref().map(Basis::to_json));
        object.into()
    }

    /// Returns the lines for people: the verdict, what it rests on, and each finding.
    #[must_use]
    pub fn to_lines(&self) -> Vec<String> {
        let sign = match self.standing() {
            Standing::Genuine => "genuine",
            Standing::Unclear => "could not tell",
            Standing::Forged => "NOT GENUINE",
        };
        let mut lines = vec![format!("{sign}: {} {}", self.kind.name(), visible(&self.place))];
        if let Some(basis) = &self.rests_on {
            lines.push(format!(
                "  rests on attestation key {} and log key {}, leaf {} of {}",
                basis.attestation_key,
                visible(&basis.log_key),
                basis.leaf,
                basis.tree_size
            ));
        }
        if !self.checked.is_empty() {
            lines.push(format!("  checked: {}", self.checked.join(", ")));
        }
        for finding in self.findings.list() {
            lines.push(format!("  {}", visible(&self.id(finding))));
            lines.push(format!("    {}", visible(&finding.message)));
        }
        if self.findings.left_out() > 0 {
            lines.push(format!("  and {} findings more", self.findings.left_out()));
        }
        lines
    }
}

impl Basis {
    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(5);
        object.insert("attestation_key", self.attestation_key.to_string());
        object.insert("log_key", self.log_key.as_str());
        object.insert("leaf", self.leaf);
        object.insert("tree_size", self.tree_size);
        object.insert("tree_root", self.tree_root.to_string());
        object.into()
    }
}

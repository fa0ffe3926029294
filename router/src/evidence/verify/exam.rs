//! What the examinations of all kinds of bundles share: documents, closed sets of files, places.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::{Findings, Kind, Reason, Verdict};
use super::walk::Contents;
use crate::attest::{Link, Subject};
use crate::digest::Digest;
use crate::evidence::{self, Manifest, manifest};
use crate::json::Object;
use crate::seal::Leaf;

/// Where a bundle lies.
pub(super) enum Located {
    /// Where its name means nothing.
    Anywhere,
    /// Where the layout says what it is: the names that it must have, the outermost first.
    At { kind: Kind, names: Vec<String> },
}

/// What a seal has to be about.
pub(super) struct Claim {
    pub(super) leaf: Leaf,
    pub(super) subjects: Vec<Subject>,
    /// Makes what has to be said, with the environment that is said.
    pub(super) link: Box<dyn Fn(Object) -> Link>,
}

/// One bundle under examination.
pub(super) struct Exam {
    pub(super) contents: Contents,
    pub(super) verdict: Verdict,
    /// The names that the documents give it, the outermost first.
    names: Option<Vec<String>>,
}

impl Exam {
    pub(super) fn new(contents: Contents, place: String, findings: Findings) -> Self {
        let mut verdict = Verdict::new(place, Kind::Unknown, 0);
        verdict.findings = findings;
        Self { contents, verdict, names: None }
    }

    pub(super) fn tell(&mut self, reason: Reason, file: &str, message: impl Into<String>) {
        self.verdict.findings.tell(reason, file, message);
    }

    /// Tells that something was checked.
    pub(super) fn checked(&mut self, what: &'static str) {
        self.verdict.checked.push(what);
    }

    /// Finds out what a bundle is by what is in it.
    pub(super) fn kind(&self) -> Kind {
        let has = |name: &str| {
            self.contents.files.contains_key(name) || self.contents.directories.contains(name)
        };
        let execution = [
            manifest::SPEC,
            manifest::SUMMARY,
            manifest::STDOUT,
            manifest::STDERR,
            manifest::OUTPUTS,
            manifest::VOLATILE,
        ];
        if has(manifest::REJECTION) {
            Kind::Rejection
        } else if execution.into_iter().any(has) {
            Kind::Execution
        } else if [manifest::MANIFEST, manifest::ATTESTATION, manifest::PROOF].into_iter().any(has)
        {
            Kind::Verification
        } else if has(manifest::PLAN) {
            Kind::Plan
        } else {
            Kind::Unknown
        }
    }

    /// Returns the digest of a file.
    pub(super) fn digest(&self, file: &str) -> Option<Digest> {
        self.contents.files.get(file).map(|file| file.sha256)
    }

    /// Returns the bytes of a file, if they were kept.
    pub(super) fn bytes(&self, file: &str) -> Option<&[u8]> {
        self.contents.files.get(file)?.bytes.as_deref()
    }

    /// Tells that a file is not there, unless that is not certain.
    pub(super) fn missing(&mut self, file: &str) {
        if !self.contents.cut {
            self.tell(Reason::Missing, file, "it has to be there, and is not");
        }
    }

    /// Reads a document that has to be there.
    pub(super) fn document<T>(
        &mut self,
        file: &str,
        read: impl FnOnce(&[u8]) -> Result<T, evidence::Findings>,
    ) -> Option<T> {
        let Some(bytes) = self.bytes(file) else {
            self.missing(file);
            return None;
        };
        match read(bytes) {
            Ok(document) => Some(document),
            Err(wrong) => {
                for finding in wrong.list() {
                    let word = finding.reason.split(':').next().unwrap_or_default();
                    let reason = match word {
                        "not_canonical" => Reason::NotCanonical,
                        "action_not_allowed" => Reason::ActionNotAllowed,
                        _ => Reason::Malformed,
                    };
                    let place = if finding.pointer.is_empty() { "" } else { " at " };
                    let told = format!(
                        "{}{place}{}: {}",
                        finding.reason, finding.pointer, finding.message
                    );
                    self.tell(reason, file, told);
                }
                None
            }
        }
    }

    /// Tells that two places say different things.
    pub(super) fn same<T: PartialEq + std::fmt::Display>(
        &mut self,
        file: &str,
        what: &str,
        found: &T,
        expected: &T,
    ) {
        if found != expected {
            let message = format!("{what} is {found}, and must be {expected}");
            self.tell(Reason::Mismatch, file, message);
        }
    }

    /// Holds the files to the manifest: each that it lists is there and the same, and no other is there but those that
    /// no manifest lists.
    pub(super) fn closed(
        &mut self,
        manifest: &Manifest,
        outer: &[&str],
        volatile: bool,
        belongs: impl Fn(&str) -> bool,
    ) {
        for (file, expected) in manifest.files() {
            if !belongs(file) {
                let message = "the manifest lists what such a bundle does not have";
                self.tell(Reason::Unlisted, file, message);
            }
            match self.digest(file) {
                None => self.missing(file),
                Some(found) if found != *expected => {
                    let message =
                        format!("its SHA-256 is {found}, and the manifest says {expected}");
                    self.tell(Reason::HashMismatch, file, message);
                }
                Some(_) => {}
            }
        }
        let listed = |file: &str| {
            manifest.files().contains_key(file)
                || outer.contains(&file)
                || (volatile && is_volatile(file))
        };
        let files = self.contents.files.keys().filter(|file| !listed(file));
        let unlisted: Vec<String> = files.cloned().collect();
        for file in unlisted {
            self.tell(Reason::Unlisted, &file, "it is in no manifest, and has no place here");
        }
        self.checked("files");
    }

    /// Holds the directories to the files: those that must be there are, and no other is there without a file.
    pub(super) fn directories(&mut self, needed: &[&str]) {
        let mut known: BTreeSet<&str> = needed.iter().copied().collect();
        for file in self.contents.files.keys() {
            known.extend(file.match_indices('/').map(|(end, _)| &file[..end]));
        }
        let extra = self.contents.directories.iter().filter(|name| !known.contains(name.as_str()));
        let extra: Vec<String> = extra.cloned().collect();
        // A directory in which something was not read may have what it needs.
        if !self.contents.cut {
            for name in extra {
                let message = "there is no file of the bundle in this directory";
                self.tell(Reason::UnexpectedDirectory, &name, message);
            }
        }
        for name in needed {
            if !self.contents.directories.contains(*name) {
                self.missing(name);
            }
        }
    }

    /// Returns the volatile files.
    pub(super) fn volatile(&self) -> BTreeMap<String, Digest> {
        let files = self.contents.files.iter().filter(|(name, _)| is_volatile(name));
        files.map(|(name, file)| (name.clone(), file.sha256)).collect()
    }

    /// Takes the names that the documents give.
    pub(super) fn named(&mut self, names: Vec<String>) {
        self.names = Some(names);
    }

    /// Holds the place to the names that the documents give.
    pub(super) fn placed(&mut self, located: &Located) {
        let Located::At { names: found, .. } = located else { return };
        let Some(expected) = &self.names else { return };
        let agree = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| {
                found == expected
                    // The second rejection for a reason has a number.
                    || (self.verdict.kind == Kind::Rejection
                        && found.strip_prefix(expected.as_str()).is_some_and(is_number))
            });
        if !agree {
            let message = format!(
                "it is {}, and lies where {} has to be; a copy may have any name outside of a cabinet",
                expected.join("/"),
                found.join("/")
            );
            self.tell(Reason::Misplaced, "", message);
        }
        self.checked("place");
    }
}

fn is_volatile(file: &str) -> bool {
    file.strip_prefix(manifest::VOLATILE).is_some_and(|rest| rest.starts_with('/'))
}

/// Says whether a text is the number of a second or later rejection: `-2`, `-3`, and so on.
fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('-').and_then(|digits| digits.parse::<u16>().ok());
    number.is_some_and(|number| number >= 2 && text == format!("-{number}"))
}

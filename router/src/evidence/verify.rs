//! Whether evidence is genuine, judged by its bytes and by keys that whoever asks trusts, and by nothing else.
//!
//! A [`Verifier`] opens a bundle once, reads every file of it once, and holds the files against each other, against the
//! rules of roles, against the attestation and against the log. What it cannot judge it does not call genuine: a verdict
//! is [genuine](Standing::Genuine), not genuine, or it could not tell.
//!
//! **The name of a bundle's directory counts where the layout gives it a meaning**: in a cabinet, and wherever the path
//! of a bundle ends like one (`evidence/<task>/<execution>`). Anywhere else a copy may have any name, and the verdict
//! tells which task and execution it is of.

mod cabinet;
mod exam;
mod execution;
mod listing;
mod others;
mod places;
mod plans;
mod sealed;
mod shown;
mod verdict;
mod walk;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::Arc;

use exam::{Exam, Located};
use verdict::Findings as Found;
use walk::{Walker, Wanted};

use super::manifest;
use crate::seal::Trust;

pub use cabinet::{Report, Total};
pub use listing::{Listed, list};
pub(crate) use sealed::{basis, reason};
pub use shown::{Shown, ShownProof, copy, show};
pub use verdict::{Basis, Finding, Findings, Kind, Reason, Standing, Verdict};
pub use walk::Limits;

/// What is asked of a verifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What it takes upon itself.
    pub limits: Limits,
    /// Whether seals do not matter. What is found then is damage, and no forgery.
    pub hashes_only: bool,
}

/// Judges evidence.
pub struct Verifier {
    trust: Option<Arc<Trust>>,
    options: Options,
    walker: Walker,
}

/// Judges one bundle; see [`Verifier::bundle`].
#[must_use]
pub fn verify_bundle(directory: &Path, trust: Option<&Trust>, options: Options) -> Verdict {
    Verifier::new(trust.cloned().map(Arc::new), options).bundle(directory)
}

impl Verifier {
    /// Takes the keys that are trusted. Without any, no seal can be judged.
    #[must_use]
    pub fn new(trust: Option<Arc<Trust>>, options: Options) -> Self {
        Self { trust, options, walker: Walker::new(options.limits) }
    }

    /// Judges the bundle in a directory.
    #[must_use]
    pub fn bundle(&mut self, directory: &Path) -> Verdict {
        let place = directory.display().to_string();
        match walk::open_named(directory) {
            Ok(opened) => {
                let located = located(directory);
                let mut verdict = self.examine(opened, place, &located);
                if verdict.kind == Kind::Plan && !self.options.hashes_only {
                    // The executions of a cabinet vouch for its plans; nobody vouches for one alone.
                    let message =
                        "a plan has no seal of its own; verify the cabinet that it lies in";
                    verdict.findings.push(Finding::new(Reason::NoSeal, "", message));
                }
                verdict
            }
            Err(error) => self.refused(place, &error),
        }
    }

    /// Says whether a directory is a cabinet, and no bundle.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_cabinet(&self, directory: &Path) -> io::Result<bool> {
        let opened = walk::open_named(directory)?;
        let (names, _) =
            walk::list(std::os::fd::AsFd::as_fd(&opened), self.options.limits.entries)?;
        let has = |known: &[&str]| {
            names.iter().any(|(name, _)| known.iter().any(|known| known.as_bytes() == name))
        };
        // Whoever adds a directory to a bundle makes no cabinet of it.
        Ok(!has(&BUNDLE) && has(&[places::EVIDENCE, cabinet::LOG]))
    }

    /// Judges what was opened.
    fn examine(&mut self, directory: OwnedFd, place: String, located: &Located) -> Verdict {
        let mut findings = Found::new(self.options.limits.findings);
        let contents = self.walker.read(directory, &wanted, &mut findings);
        let mut exam = Exam::new(contents, place, findings);
        let kind = match located {
            Located::Anywhere => exam.kind(),
            Located::At { kind, .. } => *kind,
        };
        exam.verdict.kind = kind;
        let claim = match kind {
            Kind::Execution => execution::examine(&mut exam),
            Kind::Rejection => others::rejection(&mut exam),
            Kind::Verification => others::verification(&mut exam),
            Kind::Plan => others::plan(&mut exam),
            Kind::Run | Kind::Log | Kind::Cabinet | Kind::Unknown => {
                let message = "it has no file that an execution, a rejection or a verification has";
                exam.tell(Reason::Unrecognized, "", message);
                None
            }
        };
        exam.placed(located);
        if kind != Kind::Plan && kind != Kind::Unknown {
            sealed::examine(&mut exam, claim, self.trust.as_deref(), self.options.hashes_only);
            // Nothing is genuine because nobody objected.
            let rests = exam.verdict.rests_on.is_some() || self.options.hashes_only;
            if exam.verdict.standing() == Standing::Genuine && !rests {
                exam.tell(Reason::Unrecognized, "", "nothing vouches for it");
            }
        }
        exam.verdict
    }

    /// Returns the verdict about what cannot be opened.
    fn refused(&self, place: String, error: &io::Error) -> Verdict {
        let mut verdict = Verdict::new(place, Kind::Unknown, self.options.limits.findings);
        let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        let (reason, message) = match errno {
            // Asked to follow no link, the system says of a link that it is no directory.
            Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                (Reason::Unrecognized, "it is no directory; links are not followed".to_owned())
            }
            _ => (Reason::Unreadable, format!("it cannot be opened: {error}")),
        };
        verdict.findings.tell(reason, "", message);
        verdict
    }
}

/// The names by which a bundle is known.
const BUNDLE: [&str; 10] = [
    manifest::SPEC,
    manifest::STDOUT,
    manifest::STDERR,
    manifest::SUMMARY,
    manifest::OUTPUTS,
    manifest::VOLATILE,
    manifest::REJECTION,
    manifest::MANIFEST,
    manifest::ATTESTATION,
    manifest::PROOF,
];

/// Says whether the content of a file matters.
fn wanted(path: &str) -> Wanted {
    match path {
        manifest::STDOUT | manifest::STDERR | "volatile/stdout.txt" | "volatile/stderr.txt" => {
            Wanted::IfSmall
        }
        manifest::SPEC
        | manifest::SUMMARY
        | manifest::REJECTION
        | manifest::MANIFEST
        | manifest::PLAN
        | manifest::ATTESTATION
        | manifest::PROOF
        | "outputs/parsed.json"
        | "outputs/inputs.manifest.json"
        | "volatile/removed.json" => Wanted::Always,
        _ => Wanted::Never,
    }
}

/// Finds out whether a path is one of the layout.
fn located(directory: &Path) -> Located {
    let Ok(whole) = std::fs::canonicalize(directory) else { return Located::Anywhere };
    let mut names = whole.components().rev().map(|part| match part {
        Component::Normal(name) => name.to_str().unwrap_or_default(),
        _ => "",
    });
    let mut next = || names.next().unwrap_or_default().to_owned();
    let (own, above, second, third) = (next(), next(), next(), next());
    let (kind, names) = match (third.as_str(), second.as_str(), above.as_str()) {
        (_, places::EVIDENCE, places::VERIFY) => (Kind::Verification, vec![own]),
        (places::EVIDENCE, _, places::REJECTIONS) => (Kind::Rejection, vec![second, own]),
        (_, places::EVIDENCE, _) => (Kind::Execution, vec![above, own]),
        _ => return Located::Anywhere,
    };
    Located::At { kind, names }
}

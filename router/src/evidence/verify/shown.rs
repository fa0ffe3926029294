//! What is in a bundle, for people who look at it, and a copy of it. Nothing of it is verified.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::exam::Exam;
use super::verdict::{Findings, Kind};
use super::walk::{Limits, Walker, Wanted, open_named};
use crate::attest::Envelope;
use crate::digest::Digest;
use crate::evidence::manifest::{ATTESTATION, PROOF};
use crate::json::{self, Object, Value};
use crate::tlog::Proof;

/// Documents that are shown are no larger.
const SHOWN: json::Limits = json::Limits { bytes: 16 << 20, depth: 128, values: 200_000 };

/// What is in a bundle.
#[derive(Debug)]
pub struct Shown {
    /// Where it lies.
    pub place: String,
    /// What it is, by what is in it.
    pub kind: Kind,
    /// The documents by name, and the statement of the attestation.
    pub documents: Vec<(String, Value)>,
    /// The place in the log that its proof tells.
    pub proof: Option<ShownProof>,
    /// All files with their digests.
    pub files: Vec<(String, Digest)>,
    /// What could not be read.
    pub findings: Findings,
}

/// What a proof says.
#[derive(Clone, Debug)]
pub struct ShownProof {
    /// The entry.
    pub index: u64,
    /// How many entries there were.
    pub tree_size: u64,
    /// The name of the log.
    pub origin: String,
}

impl Shown {
    /// Returns it for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(6);
        object.insert("place", self.place.as_str());
        object.insert("kind", self.kind.name());
        object.insert("documents", self.documents.iter().cloned().collect::<Object>());
        object.insert(
            "proof",
            self.proof.as_ref().map(|proof| {
                let mut object = Object::with_capacity(3);
                object.insert("index", proof.index);
                object.insert("origin", proof.origin.as_str());
                object.insert("tree_size", proof.tree_size);
                object
            }),
        );
        let digest = |(name, digest): &(String, Digest)| (name.clone(), digest.to_string().into());
        object.insert("files", self.files.iter().map(digest).collect::<Object>());
        let findings = self
            .findings
            .list()
            .iter()
            .map(|finding| Value::from(format!("{}:{}", finding.reason.id(), finding.file)));
        object.insert("findings", findings.collect::<Vec<_>>());
        object.into()
    }
}

/// Reads what is in a bundle.
///
/// # Errors
/// When its directory cannot be opened.
pub fn show(directory: &Path, limits: Limits) -> io::Result<Shown> {
    let mut findings = Findings::new(limits.findings);
    let opened = open_named(directory)?;
    let wanted = |path: &str| {
        let text = path.ends_with(".json") || matches!(path, ATTESTATION | PROOF);
        if text { Wanted::IfSmall } else { Wanted::Never }
    };
    let contents = Walker::new(limits).read(opened, &wanted, &mut findings);
    let exam = Exam::new(contents, String::new(), Findings::new(limits.findings));
    let documents = exam.contents.files.iter().filter(|(name, _)| name.ends_with(".json"));
    let mut documents: Vec<(String, Value)> = documents
        .filter_map(|(name, file)| {
            let value = json::parse(file.bytes.as_deref()?, SHOWN).ok()?;
            Some((name.clone(), value))
        })
        .collect();
    let envelope = exam.bytes(ATTESTATION).and_then(|bytes| Envelope::parse(bytes).ok());
    if let Some(envelope) = envelope
        && let Ok(value) = json::parse(envelope.payload(), SHOWN)
    {
        documents.push((ATTESTATION.to_owned(), value));
    }
    let proof =
        exam.bytes(PROOF).and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse::<Proof>().ok());
    let proof = proof.and_then(|proof| {
        let mut lines = proof.checkpoint.lines();
        let (origin, size) = (lines.next()?.to_owned(), lines.next()?.parse().ok()?);
        Some(ShownProof { index: proof.index, tree_size: size, origin })
    });
    let files =
        exam.contents.files.iter().map(|(name, file)| (name.clone(), file.sha256)).collect();
    let (place, kind) = (directory.display().to_string(), exam.kind());
    Ok(Shown { place, kind, documents, proof, files, findings })
}

/// Makes a directory into which nobody may look who may not look into another one.
fn make_like(original: &Path, directory: &Path) -> io::Result<()> {
    let mode = fs::metadata(original)?.mode() & 0o777;
    fs::DirBuilder::new().mode(mode | 0o700).create(directory)
}

/// Copies the files and directories of a bundle to a directory that is made for them. Whoever may read an original may read
/// its copy, and nobody else. Links, pipes and the like are not copied, and stop it.
///
/// # Errors
/// When something cannot be read, is no file or directory, or cannot be written.
pub fn copy(from: &Path, to: &Path, limits: Limits) -> io::Result<()> {
    let mut findings = Findings::new(1);
    let contents = Walker::new(limits).read(open_named(from)?, &|_| Wanted::Never, &mut findings);
    if let Some(finding) = findings.list().first() {
        return Err(io::Error::other(format!("{}: {}", finding.file, finding.message)));
    }
    make_like(from, to)?;
    for directory in &contents.directories {
        make_like(&from.join(directory), &to.join(directory))?;
    }
    for (name, file) in &contents.files {
        let mut source = crate::files::open_regular(&from.join(name))?;
        let mode = source.metadata()?.mode() & 0o666;
        let mut options = fs::OpenOptions::new();
        let mut target = options.write(true).create_new(true).mode(mode).open(to.join(name))?;
        io::copy(&mut io::Read::take(&mut source, limits.file_bytes), &mut target)?;
        target.sync_all()?;
        // What was copied is what was looked at.
        let mut again = Walker::new(limits);
        if again.digest(&to.join(name))? != file.sha256 {
            return Err(io::Error::other(format!("{name} changed while it was copied")));
        }
    }
    Ok(())
}

//! Evidence that is staged: written out of sight, to be sealed and then to appear whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cabinet::{Error, STAGING, Shared};
use super::directory::Directory;
use super::manifest::{self, Manifest};
use super::promise::STATEMENT;
use super::settle::{Batch, Part};
use crate::digest::Digest;
use crate::id;

/// What kind of evidence it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StagedKind {
    /// Something was executed.
    Execution,
    /// Something was refused.
    Rejection,
    /// Something was decided about a spec.
    Verification,
    /// Something was planned. Plans are not sealed: the inputs of executions name them.
    Plan,
}

/// The two files of a seal.
#[derive(Clone, Copy, Debug)]
pub struct SealFiles<'a> {
    /// The text of `attestation.intoto.jsonl`.
    pub attestation: &'a str,
    /// The text of `inclusion.tlog-proof`.
    pub proof: &'a str,
}

/// Evidence that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its directory.
    pub path: PathBuf,
    /// Whether it was not there before.
    pub fresh: bool,
}

/// Where it will appear.
#[derive(Debug)]
pub(super) enum Target {
    Execution { task_id: String, exec_id: String },
    Rejection { task_id: String, id: String, text: String },
    Verification { spec_sha256: String, text: String },
    Plan { plan_sha256: String, text: String },
}

/// Staged evidence. When it is dropped before it is published, nothing of it is left.
#[derive(Debug)]
pub struct Staged {
    pub(super) shared: Arc<Shared>,
    kind: StagedKind,
    pub(super) target: Target,
    /// Its name in the staging directory, and that directory, which is locked; none if the same is there already.
    place: Option<(String, Directory)>,
    already: Option<PathBuf>,
    /// Directories inside it.
    directories: BTreeSet<String>,
    /// The directory in which was written last.
    last: Option<(String, Directory)>,
    /// Whether it outlasts this process until it is sealed and has its place.
    promised: bool,
    /// The files inside it, which are not durable yet. None is kept open, for many may be staged at once.
    written: Vec<String>,
    pub(super) subjects: Vec<(&'static str, Digest)>,
    pub(super) spec_sha256: Option<Digest>,
    pub(super) files: Manifest,
    pub(super) volatile: BTreeMap<String, Digest>,
}

impl Staged {
    pub(super) fn new(
        shared: &Arc<Shared>,
        kind: StagedKind,
        target: Target,
    ) -> Result<Self, Error> {
        let mut staged = Self {
            shared: Arc::clone(shared),
            kind,
            target,
            place: None,
            already: None,
            directories: BTreeSet::new(),
            last: None,
            promised: false,
            written: Vec::new(),
            subjects: Vec::new(),
            spec_sha256: None,
            files: Manifest::default(),
            volatile: BTreeMap::new(),
        };
        if let Some(path) = staged.find_same()? {
            staged.already = Some(path);
            return Ok(staged);
        }
        let name = id::run_id();
        let directory = shared.stage(&name).map_err(|source| staged.failed(&name, source))?;
        staged.place = Some((name, directory));
        if kind == StagedKind::Execution {
            staged.make(manifest::OUTPUTS)?;
        }
        Ok(staged)
    }

    /// Takes up what another process left.
    pub(super) fn left(
        shared: &Arc<Shared>,
        (kind, target): (StagedKind, Target),
        (name, held): (&str, Directory),
        (subjects, spec_sha256): (Vec<(&'static str, Digest)>, Option<Digest>),
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            kind,
            target,
            place: Some((name.to_owned(), held)),
            already: None,
            directories: BTreeSet::new(),
            last: None,
            promised: true,
            written: Vec::new(),
            subjects,
            spec_sha256,
            files: Manifest::default(),
            volatile: BTreeMap::new(),
        }
    }

    /// Opens the directory in which it is staged.
    pub(super) fn staging(&self) -> io::Result<Directory> {
        self.shared.staging.again()
    }

    /// Takes note that everything is durable, and that it outlasts this process.
    pub(super) fn promised(&mut self) {
        self.written.clear();
        self.directories.clear();
        self.promised = true;
    }

    /// Takes the promise back: nothing of it stays.
    pub fn withdraw(mut self) {
        self.promised = false;
    }

    /// Returns what kind of evidence it is.
    #[must_use]
    pub const fn kind(&self) -> StagedKind {
        self.kind
    }

    /// Returns where the same evidence is already. Then there is nothing to seal.
    #[must_use]
    pub fn already(&self) -> Option<&Path> {
        self.already.as_deref()
    }

    /// Returns the digest of the spec, for executions and verifications.
    #[must_use]
    pub const fn spec_sha256(&self) -> Option<Digest> {
        self.spec_sha256
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn manifest_sha256(&self) -> Digest {
        self.subjects.first().map_or(Digest::ZERO, |(_, digest)| *digest)
    }

    /// Returns the digest of `run_summary.json`, for executions.
    #[must_use]
    pub fn summary_sha256(&self) -> Option<Digest> {
        let named = self.subjects.iter().find(|(name, _)| *name == manifest::SUMMARY);
        named.map(|(_, digest)| *digest)
    }

    /// Returns what an attestation is about: the manifest first, then what no manifest covers or a reader looks for.
    #[must_use]
    pub fn subjects(&self) -> &[(&'static str, Digest)] {
        &self.subjects
    }

    /// Returns the files that the manifest lists.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Digest> {
        self.files.files()
    }

    /// Returns the files in `volatile/`, which only an attestation covers.
    #[must_use]
    pub const fn volatile(&self) -> &BTreeMap<String, Digest> {
        &self.volatile
    }

    /// Adds the seal, makes everything durable, and lets it appear.
    ///
    /// # Errors
    /// When it cannot be written, or something is in its place; then nothing of it is left.
    pub fn publish(self, seal: Option<SealFiles<'_>>) -> Result<Published, Error> {
        let mut results = Self::publish_all(vec![(self, seal)]);
        // One in, one out.
        results.pop().unwrap_or_else(|| Err(Error::Exists(PathBuf::new())))
    }

    /// Does the same for many, with hardly more waiting for the disk than for one.
    #[must_use]
    pub fn publish_all(list: Vec<(Self, Option<SealFiles<'_>>)>) -> Vec<Result<Published, Error>> {
        let mut ready = Vec::with_capacity(list.len());
        for (mut staged, seal) in list {
            let written = staged.add_seal(seal);
            ready.push((staged, written));
        }
        let mut batch = Batch::default();
        for (owner, (staged, written)) in ready.iter().enumerate() {
            if written.is_ok() {
                staged.parts(&mut |part| batch.push(owner, part));
            }
        }
        let mut unsettled = batch.finish();
        let placed: Vec<_> = ready
            .into_iter()
            .enumerate()
            .map(|(owner, (staged, written))| {
                written?;
                match unsettled.remove(&owner) {
                    Some(source) => Err(staged.failed("", source)),
                    None => staged.appear(),
                }
            })
            .collect();
        settle_parents(placed)
    }

    fn add_seal(&mut self, seal: Option<SealFiles<'_>>) -> Result<(), Error> {
        let Some(seal) = seal else { return Ok(()) };
        self.write(manifest::ATTESTATION, seal.attestation.as_bytes())?;
        self.write(manifest::PROOF, seal.proof.as_bytes())
    }

    /// Makes a directory inside.
    pub(super) fn make(&mut self, name: &str) -> Result<(), Error> {
        let Some((place, directory)) = &self.place else { return Ok(()) };
        directory.ensure(name).map_err(|source| self.failed(place, source))?;
        self.directories.insert(name.to_owned());
        Ok(())
    }

    /// Writes a file, in directories that are made if need be.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let Some((place, directory)) = &self.place else { return Ok(()) };
        let (parent, file) = name.rsplit_once('/').unwrap_or(("", name));
        let written = (|| {
            if parent.is_empty() {
                return directory.write(file, bytes);
            }
            if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
                self.last =
                    Some((parent.to_owned(), walk(directory, parent, &mut self.directories)?));
            }
            let last = self.last.as_ref().map_or(directory, |(_, last)| last);
            last.write(file, bytes)
        })();
        written.map_err(|source| self.failed(&format!("{place}/{name}"), source))?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Tells everything inside that has to become durable.
    pub(super) fn parts(&self, tell: &mut dyn FnMut(io::Result<Part>)) {
        let Some((_, directory)) = &self.place else { return };
        let mut last: Option<(&str, Directory)> = None;
        for name in &self.written {
            let Some((parent, file)) = name.rsplit_once('/') else {
                tell(directory.written(name));
                continue;
            };
            let inside = match last.take() {
                Some((at, inside)) if at == parent => Ok(inside),
                _ => walk(directory, parent, &mut BTreeSet::new()),
            };
            match inside {
                Ok(inside) => {
                    tell(inside.written(file));
                    last = Some((parent, inside));
                }
                Err(error) => tell(Err(error)),
            }
        }
        for inside in &self.directories {
            tell(walk(directory, inside, &mut BTreeSet::new()).map(Directory::named));
        }
        tell(directory.again().map(Directory::named));
    }

    /// Gives it its place. Returns the directories whose names have to become durable.
    fn appear(mut self) -> Result<Placed, Error> {
        if let Some(path) = self.already.take() {
            return Ok((Published { path, fresh: false }, Vec::new()));
        }
        let Some((name, held)) = self.place.take() else {
            return Err(Error::Exists(self.shared.root.clone()));
        };
        let ready = held.unlink(STATEMENT).map_err(|source| self.failed(STATEMENT, source));
        let result = ready.and_then(|()| self.rename(&name));
        let stays = match &result {
            Ok((Published { fresh, .. }, _)) => *fresh,
            Err(Error::Exists(_) | Error::Collision(_) | Error::TooMany { .. }) => false,
            // What was promised is finished when the cabinet is opened next.
            Err(_) => self.promised,
        };
        if !stays {
            drop(self.shared.staging.remove(&name));
        }
        drop(held);
        result
    }

    pub(super) fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::File { path: self.shared.root.join(STAGING).join(name), source }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((name, held)) = self.place.take() {
            if !self.promised {
                // What cannot be removed now is swept when the cabinet is opened next.
                drop(self.shared.staging.remove(&name));
            }
            drop(held);
        }
    }
}

/// What appeared, and the directories in which its name has to become durable.
pub(super) type Placed = (Published, Vec<(PathBuf, Directory)>);

/// Waits until the names of what appeared are durable, for each directory once.
fn settle_parents(placed: Vec<Result<Placed, Error>>) -> Vec<Result<Published, Error>> {
    let mut batch = Batch::default();
    let mut known: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let waiting: Vec<_> = placed
        .into_iter()
        .map(|placed| {
            let (published, parents) = placed?;
            let mut paths = Vec::with_capacity(parents.len());
            for (path, parent) in parents {
                let next = known.len();
                if !known.contains_key(&path) {
                    known.insert(path.clone(), next);
                    batch.push(next, Ok(parent.named()));
                }
                paths.push(path);
            }
            Ok((published, paths))
        })
        .collect();
    let failed = batch.finish();
    let failed: BTreeMap<&PathBuf, &io::Error> =
        known.iter().filter_map(|(path, owner)| Some((path, failed.get(owner)?))).collect();
    let settled = |placed: Result<(Published, Vec<PathBuf>), Error>| {
        let (published, paths) = placed?;
        match paths.iter().find_map(|path| Some((path, failed.get(path)?))) {
            Some((path, error)) => {
                let source = io::Error::new(error.kind(), error.to_string());
                Err(Error::File { path: path.clone(), source })
            }
            None => Ok(published),
        }
    };
    waiting.into_iter().map(settled).collect()
}

/// Goes down a path, makes what is not there, and notes every directory on the way.
fn walk(from: &Directory, path: &str, noted: &mut BTreeSet<String>) -> io::Result<Directory> {
    let mut parts = path.split('/');
    let mut so_far = parts.next().unwrap_or_default().to_owned();
    let mut directory = from.ensure(&so_far)?;
    noted.insert(so_far.clone());
    for part in parts {
        directory = directory.ensure(part)?;
        so_far = format!("{so_far}/{part}");
        noted.insert(so_far.clone());
    }
    Ok(directory)
}

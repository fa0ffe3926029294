//! A proof is made: two rounds, what they left on the disk, and a seal on that.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::artifact::{self, Assignments, Logged};
use super::round::{Round, lacking};
use super::{Place, file};
use crate::app;
use crate::attest::{Subject, TestResult};
use crate::config::Environment;
use crate::digest::Digest;
use crate::files;
use crate::json::Value;
use crate::role;
use crate::seal::{self, Kind, Leaf, Sealer, Trust};
use crate::tlog::{self, Checkpoint, Tree};

/// What a proof is asked to be.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// More directories with adapters.
    pub adapter_path: Vec<PathBuf>,
    /// Who stands behind the roles.
    pub assignments: Assignments,
}

/// A proof cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a directory cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else makes a proof there.
    #[error("another process makes a proof in {}", .0.display())]
    Busy(PathBuf),
    /// A program that envoys start is not there.
    #[error(
        "the program {0:?} is not on the PATH, and a class of actions cannot be executed without it"
    )]
    NoProgram(String),
    /// The service of the proof has no address that could be granted.
    #[error("the address of the service cannot be granted: {0}")]
    Loopback(&'static str),
    /// The router cannot be put together.
    #[error(transparent)]
    App(#[from] app::Error),
    /// The keys or the log cannot be used.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] tlog::Error),
}

impl Error {
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path: path.clone(), source }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File { .. } => "name a directory that this user may write with --root".to_owned(),
            Self::Busy(_) => "wait for it, or name another directory with --root".to_owned(),
            Self::NoProgram(name) => format!("install {name}, or add its directory to PATH"),
            Self::Loopback(_) => "look at the loopback interface of this machine".to_owned(),
            Self::App(error) => error.hint(),
            Self::Seal(error) => error.hint().to_owned(),
            Self::Log(error) => error.hint().to_owned(),
        }
    }
}

/// Makes a proof, and returns the id of its run. Whether it holds is for [`verify`](super::verify()) to say.
///
/// # Errors
/// When it cannot be made. Then there is no run.
pub fn run(place: &Place, wanted: &Wanted, environment: &Environment) -> Result<String, Error> {
    let root = place.root();
    std::fs::create_dir_all(root).map_err(Error::at(root))?;
    let root = &root.canonicalize().map_err(Error::at(root))?;
    let place = &Place::new(root.clone());
    let lock = place.lock();
    let held = File::options().create(true).append(true).open(&lock).map_err(Error::at(&lock))?;
    if held.try_lock().is_err() {
        return Err(Error::Busy(root.clone()));
    }
    place.sweep().map_err(Error::at(root))?;
    let run_id = place.next().map_err(Error::at(root))?;
    let unfinished = place.unfinished(&run_id);
    std::fs::create_dir_all(&unfinished).map_err(Error::at(&unfinished))?;
    // The log is there before anything is executed, and so is what it was then.
    drop(Sealer::open(root)?);
    let before = checkpoint(root)?;
    let previous = unfinished.join(file::PREVIOUS);
    files::write_whole(&previous, before.text().as_bytes()).map_err(Error::at(&previous))?;
    let scout = lacking(environment, &wanted.adapter_path);
    if let Some(why) = &scout {
        tracing::warn!(%why, "scouts are skipped");
    }
    for again in [false, true] {
        let cabinet = if again { unfinished.join(file::AGAIN) } else { unfinished.clone() };
        let scratch = place.scratch(&run_id);
        let round = Round {
            environment,
            adapter_path: &wanted.adapter_path,
            log_root: root,
            cabinet,
            scratch: scratch.clone(),
            scout: scout.is_none(),
        };
        round.carry_out()?;
        std::fs::remove_dir_all(&scratch).map_err(Error::at(&scratch))?;
    }
    seal(place, &unfinished, (&run_id, &before), &wanted.assignments)?;
    let finished = place.of_run(&run_id);
    std::fs::rename(&unfinished, &finished).map_err(Error::at(&finished))?;
    let (made, published) = (finished.join(file::ARTIFACT), place.artifact());
    let bytes = std::fs::read(&made).map_err(Error::at(&made))?;
    if let Some(directory) = published.parent() {
        std::fs::create_dir_all(directory).map_err(Error::at(directory))?;
    }
    files::write_whole(&published, &bytes).map_err(Error::at(&published))?;
    drop(held);
    Ok(run_id)
}

/// Writes the artifact, and has it sealed: what passed, and what did not.
fn seal(
    place: &Place,
    run: &Path,
    (run_id, before): (&str, &Checkpoint),
    assignments: &Assignments,
) -> Result<(), Error> {
    let root = place.root();
    let now = checkpoint(root)?;
    let logged = Logged {
        run_id: run_id.to_owned(),
        prev_tree_size: before.size,
        tree_size: now.size,
        checkpoint_root: now.root.to_string(),
    };
    let artifact = Value::from(artifact::derive(run, assignments, &logged));
    let bytes = artifact::to_bytes(&artifact);
    let write = |name: &str, bytes: &[u8]| {
        let path = run.join(name);
        files::write_whole(&path, bytes).map_err(Error::at(&path))
    };
    write(file::ARTIFACT, &bytes)?;
    let digest = Digest::of(&bytes);
    let leaf = Leaf { kind: Kind::Weekly, manifest_sha256: digest, spec_sha256: None };
    let result = result(&artifact).about(vec![Subject::new(file::ARTIFACT, digest)]);
    let sealed = Sealer::open(root)?.seal(leaf, &result)?;
    write(file::ATTESTATION, sealed.attestation.as_bytes())?;
    write(file::PROOF, sealed.proof.as_bytes())?;
    write(file::CHECKPOINT, sealed.checkpoint.text().as_bytes())
}

/// Returns what is attested of an artifact.
pub(super) fn result(artifact: &Value) -> TestResult {
    let (passed, failed): (Vec<_>, Vec<_>) =
        artifact::tests(artifact).into_iter().partition(|test| test.1);
    let names = |tests: Vec<(String, bool)>| tests.into_iter().map(|test| test.0).collect();
    TestResult {
        configuration: vec![Subject::new("role/contract.json", role::contract_sha256())],
        passed: names(passed),
        warned: Vec::new(),
        failed: names(failed),
    }
}

/// Returns the present checkpoint of the log.
fn checkpoint(root: &Path) -> Result<Checkpoint, Error> {
    let trust = Trust::read(&seal::trust_path(root))?;
    Ok(Tree::open(&seal::log_directory(root))?.checkpoint(&trust.verifiers())?)
}

//! The cabinet: where evidence is kept, staged out of sight and then there whole or not at all.
//!
//! Several processes may share one. What is staged is held by a lock on its directory, so that whoever opens the
//! cabinet next sweeps away what a dead process left, and nothing else.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::docket::{self, CASE, OpenCase};
use super::finding::{Finding, Findings};
use super::inputs::Inputs;
use super::manifest::{self, Manifest};
use super::name;
use super::normalize::{Normalized, Redactor};
use super::output::Output;
use super::plan::Plan;
use super::promise::{self, Leftover};
use super::rejection::Rejection;
use super::spec::ExecutionSpec;
use super::staged::{Staged, StagedKind, Target};
use super::summary::{Outcome, RunSummary};
use super::verification::Verification;
use crate::digest::Digest;

/// Evidence cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something on the disk fails.
    #[error("{}: {source}", path.display())]
    File {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is to be written would not be verified.
    #[error("the evidence would not be valid: {0}")]
    Invalid(#[from] Findings),
    /// There is evidence of such an execution already.
    #[error("{}: there is evidence of this execution already; each execution needs an id of its own", .0.display())]
    Exists(PathBuf),
    /// There is something else under the same digest.
    #[error("{}: there is other evidence in this place; one of the two is not what was decided", .0.display())]
    Collision(PathBuf),
    /// There are too many rejections for one reason.
    #[error("{}: there are {most} different rejections for this reason; begin another task", path.display())]
    TooMany {
        /// The first of them.
        path: PathBuf,
        /// How many there may be.
        most: usize,
    },
    /// The file system cannot rename without replacing.
    #[error("{}: this file system cannot rename without replacing (renameat2 with RENAME_NOREPLACE); \
             keep evidence on ext4, xfs, btrfs or tmpfs", .0.display())]
    NoReplace(PathBuf),
}

/// An execution that is to become evidence. Secrets in it were replaced by whoever made it.
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    /// What was to be executed.
    pub spec: &'a ExecutionSpec,
    /// Its inputs, which the spec names by digest.
    pub inputs: &'a Inputs,
    /// What came of it.
    pub outcome: Outcome,
    /// Why; a stable text.
    pub reason: &'a str,
    /// The key under which it is executed only once; usually the digest of the spec.
    pub idempotency_key: Option<&'a str>,
    /// What was written to standard output, as it came.
    pub stdout: &'a [u8],
    /// What was written to standard error, as it came.
    pub stderr: &'a [u8],
    /// What is applied to both; the inputs name it unless it is [`Redactor::Nothing`].
    pub redactor: Redactor,
    /// The normalized output of the adapter.
    pub parsed: Option<&'a Normalized>,
    /// Files that came out, by name inside `outputs/`.
    pub outputs: BTreeMap<&'a str, &'a [u8]>,
    /// What differs between equal executions, by name inside `volatile/`.
    pub volatile: BTreeMap<&'a str, &'a [u8]>,
}

impl<'a> Execution<'a> {
    /// Returns an execution of which there is nothing to tell but how it ended.
    #[must_use]
    pub fn new(
        spec: &'a ExecutionSpec,
        inputs: &'a Inputs,
        outcome: Outcome,
        reason: &'a str,
    ) -> Self {
        Self {
            spec,
            inputs,
            outcome,
            reason,
            idempotency_key: None,
            stdout: b"",
            stderr: b"",
            redactor: Redactor::Nothing,
            parsed: None,
            outputs: BTreeMap::new(),
            volatile: BTreeMap::new(),
        }
    }
}

/// Where evidence is kept.
#[derive(Debug)]
pub struct Cabinet {
    pub(super) shared: Arc<Shared>,
    swept: usize,
    left: Left,
}

/// What dead processes left to be finished, or what this one could not finish.
#[derive(Debug, Default)]
pub struct Left {
    /// Evidence without its seal or its place.
    pub staged: Vec<Leftover>,
    /// Cases that were opened, and of which nothing else was kept.
    pub cases: Vec<OpenCase>,
}

/// The open directories of a cabinet.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: PathBuf,
    pub(super) evidence: Directory,
    pub(super) plan: Directory,
    pub(super) staging: Directory,
}

impl Shared {
    /// Makes a directory in staging, and holds it.
    pub(super) fn stage(&self, name: &str) -> io::Result<Directory> {
        // Whoever sweeps waits until the new directory is held.
        let sharing = self.staging.again()?;
        sharing.share()?;
        self.staging.make(name)?;
        let directory = self.staging.enter(name)?;
        directory.seize()?;
        Ok(directory)
    }
}

pub(super) const EVIDENCE: &str = "evidence";
pub(super) const PLANS: &str = "plan";
pub(super) const STAGING: &str = "staging";
pub(super) const REJECTIONS: &str = "rejections";
pub(super) const VERIFY: &str = "verify";

impl Cabinet {
    /// Opens a cabinet, makes its directories, and sweeps away what dead processes left half written.
    ///
    /// # Errors
    /// When a directory cannot be made or opened.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let failed = |name: &str| {
            let path = root.join(name);
            move |source: io::Error| Error::File { path: path.clone(), source }
        };
        let directory = Directory::make_all(root).map_err(failed(""))?;
        let part = |name: &str| directory.ensure(name).map_err(failed(name));
        let shared = Shared {
            root: root.to_owned(),
            evidence: part(EVIDENCE)?,
            plan: part(PLANS)?,
            staging: part(STAGING)?,
        };
        directory.sync().map_err(failed(""))?;
        let shared = Arc::new(shared);
        let (swept, left) = sweep(&shared).map_err(failed(STAGING))?;
        Ok(Self { shared, swept, left })
    }

    /// Returns how many leftovers were swept away when it was opened.
    #[must_use]
    pub const fn swept(&self) -> usize {
        self.swept
    }

    /// Takes what dead processes promised to seal; whoever has the keys finishes it. What is not finished stays.
    pub fn take_leftovers(&mut self) -> Left {
        std::mem::take(&mut self.left)
    }

    /// Looks again for what nobody holds.
    ///
    /// # Errors
    /// When the staging directory cannot be read.
    pub fn leftovers(&self) -> Result<Left, Error> {
        let failed = |source| Error::File { path: self.shared.root.join(STAGING), source };
        Ok(sweep(&self.shared).map_err(failed)?.1)
    }

    /// Returns the directory that has everything.
    pub(super) fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Returns the directory of all evidence.
    #[must_use]
    pub fn evidence(&self) -> PathBuf {
        self.shared.root.join(EVIDENCE)
    }

    /// Returns where the evidence of an execution is, or would be.
    #[must_use]
    pub fn execution(&self, task_id: &str, exec_id: &str) -> PathBuf {
        self.evidence().join(task_id).join(exec_id)
    }

    /// Stages an execution: writes all of it but its seal, out of sight.
    ///
    /// # Errors
    /// When it would not be verified, there is evidence of it already, or it cannot be written.
    pub fn stage_execution(&self, execution: &Execution<'_>) -> Result<Staged, Error> {
        check(execution)?;
        let fields = execution.spec.fields();
        let redactor = execution.redactor;
        let (stdout, stderr) =
            (redactor.redact(execution.stdout), redactor.redact(execution.stderr));
        let inputs = execution.inputs.text();
        let removed = execution.parsed.and_then(Normalized::removed_text);

        let target =
            Target::Execution { task_id: fields.task_id.clone(), exec_id: fields.exec_id.clone() };
        let mut staged = Staged::new(&self.shared, StagedKind::Execution, target)?;
        let mut files = BTreeMap::new();
        let mut listed: Vec<(String, &[u8])> = vec![
            (manifest::SPEC.to_owned(), execution.spec.text().as_bytes()),
            (manifest::STDERR.to_owned(), stderr.as_ref()),
            (manifest::STDOUT.to_owned(), stdout.as_ref()),
            (format!("{}/{}", manifest::OUTPUTS, manifest::INPUTS), inputs.as_bytes()),
        ];
        if let Some(parsed) = execution.parsed {
            let name = format!("{}/{}", manifest::OUTPUTS, manifest::PARSED);
            listed.push((name, parsed.text().as_bytes()));
        }
        for (name, bytes) in &execution.outputs {
            listed.push((format!("{}/{name}", manifest::OUTPUTS), bytes));
        }
        listed.sort_unstable();
        for (name, bytes) in listed {
            staged.write(&name, bytes)?;
            files.insert(name, Digest::of(bytes));
        }
        let mut volatile: BTreeMap<&str, &[u8]> = execution.volatile.clone();
        if let Some(removed) = &removed {
            volatile.insert(manifest::REMOVED, removed.as_bytes());
        }
        for (name, given, kept) in [
            (manifest::STDOUT, execution.stdout, stdout.as_ref()),
            (manifest::STDERR, execution.stderr, stderr.as_ref()),
        ] {
            if given != kept {
                volatile.insert(name, given);
            }
        }
        staged.make(manifest::VOLATILE)?;
        for (name, bytes) in &volatile {
            let name = format!("{}/{name}", manifest::VOLATILE);
            staged.write(&name, bytes)?;
            staged.volatile.insert(name, Digest::of(bytes));
        }
        let manifest = Manifest::new(files)?;
        let text = manifest.text();
        let manifest_sha256 = Digest::of(text.as_bytes());
        let summary = RunSummary {
            task_id: fields.task_id.clone(),
            exec_id: fields.exec_id.clone(),
            outcome: execution.outcome,
            reason: execution.reason.to_owned(),
            idempotency_key: execution.idempotency_key.map(str::to_owned),
            inputs_manifest_sha256: fields.inputs_manifest_sha256,
            spec_sha256: execution.spec.digest(),
            manifest_sha256,
        };
        let summary = summary.text()?;
        staged.write(manifest::MANIFEST, text.as_bytes())?;
        staged.write(manifest::SUMMARY, summary.as_bytes())?;
        staged.subjects = vec![
            (manifest::MANIFEST, manifest_sha256),
            (manifest::SPEC, execution.spec.digest()),
            (manifest::SUMMARY, Digest::of(summary.as_bytes())),
        ];
        staged.spec_sha256 = Some(execution.spec.digest());
        staged.files = manifest;
        Ok(staged)
    }

    /// Stages a rejection. The same one again is there already; another one for the same reason gets a number.
    ///
    /// # Errors
    /// When it would not be verified, or cannot be written.
    pub fn stage_rejection(&self, rejection: &Rejection) -> Result<Staged, Error> {
        let text = rejection.text()?;
        let digest = Digest::of(text.as_bytes());
        let files = Manifest::new([(manifest::REJECTION.to_owned(), digest)].into())?;
        let manifest_text = files.text();
        let target = Target::Rejection {
            task_id: rejection.task_id.clone(),
            id: rejection.id(),
            text: text.clone(),
        };
        let mut staged = Staged::new(&self.shared, StagedKind::Rejection, target)?;
        staged.write(manifest::REJECTION, text.as_bytes())?;
        staged.write(manifest::MANIFEST, manifest_text.as_bytes())?;
        staged.subjects = vec![
            (manifest::MANIFEST, Digest::of(manifest_text.as_bytes())),
            (manifest::REJECTION, digest),
        ];
        staged.files = files;
        Ok(staged)
    }

    /// Stages what was decided about a spec. The same again is there already.
    ///
    /// # Errors
    /// When something else was decided about the same spec, it would not be verified, or it cannot be written.
    pub fn stage_verification(&self, verification: &Verification) -> Result<Staged, Error> {
        let text = verification.text()?;
        let target = Target::Verification {
            spec_sha256: verification.spec_sha256.to_string(),
            text: text.clone(),
        };
        let mut staged = Staged::new(&self.shared, StagedKind::Verification, target)?;
        staged.write(manifest::MANIFEST, text.as_bytes())?;
        staged.subjects = vec![(manifest::MANIFEST, Digest::of(text.as_bytes()))];
        staged.spec_sha256 = Some(verification.spec_sha256);
        Ok(staged)
    }

    /// Stages a plan. The same again is there already.
    ///
    /// # Errors
    /// When it cannot be written, or what is in its place was changed.
    pub fn stage_plan(&self, plan: &Plan) -> Result<Staged, Error> {
        let target =
            Target::Plan { plan_sha256: plan.digest().to_string(), text: plan.text().to_owned() };
        let mut staged = Staged::new(&self.shared, StagedKind::Plan, target)?;
        staged.write(manifest::PLAN, plan.text().as_bytes())?;
        staged.subjects = vec![(manifest::PLAN, plan.digest())];
        Ok(staged)
    }
}

/// Removes what nobody holds from the staging directory, but for what was promised to be sealed.
fn sweep(shared: &Arc<Shared>) -> io::Result<(usize, Left)> {
    let staging = &shared.staging;
    // Nobody may be between making a directory and holding it meanwhile.
    let alone = staging.again()?;
    let mut tries = 0;
    while !alone.seize()? {
        tries += 1;
        if tries > 100 {
            // What is left does no harm, and is swept the next time.
            return Ok((0, Left::default()));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (mut swept, mut left) = (0, Left::default());
    for (name, _) in staging.names(MOST_SWEPT)?.into_iter().filter(|(_, directory)| *directory) {
        let Ok(inside) = staging.enter(&name) else { continue };
        if !inside.seize()? {
            continue;
        }
        if inside.has(CASE)? {
            if let Some(case) = docket::take_up(shared, &name, inside) {
                left.cases.push(case);
                continue;
            }
        } else if let Some(leftover) = promise::take_up(shared, &name, inside) {
            left.staged.push(leftover);
            continue;
        }
        // One that cannot be removed is in nobody's way.
        swept += usize::from(staging.remove(&name).is_ok());
    }
    Ok((swept, left))
}

/// Opening a cabinet takes no longer than this many leftovers.
const MOST_SWEPT: usize = 10_000;

/// Refuses an execution that a verifier would refuse.
fn check(execution: &Execution<'_>) -> Result<(), Findings> {
    let mut findings = Findings::default();
    let fields = execution.spec.fields();
    if execution.inputs.digest() != fields.inputs_manifest_sha256 {
        let message = format!(
            "the spec names the inputs {}, and these are {}",
            fields.inputs_manifest_sha256,
            execution.inputs.digest()
        );
        findings.push(Finding::new("inputs_mismatch", "", "/inputs_manifest_sha256", message));
    }
    let named = execution.inputs.get(Inputs::REDACTOR);
    let expected = execution.redactor.digest();
    if named.map_or(execution.redactor != Redactor::Nothing, |named| named != expected) {
        let message = format!("the inputs must name {expected} as {}", Inputs::REDACTOR);
        findings.push(Finding::new(
            "redactor_mismatch",
            execution.redactor.id(),
            "/files",
            message,
        ));
    }
    if let Some(parsed) = execution.parsed {
        match Output::check_for(execution.spec, parsed.value()) {
            Ok(output) if !output.ok && execution.outcome == Outcome::Succeeded => {
                let message = "an output that is not ok is of no execution that succeeded";
                findings.push(Finding::new("outcome_mismatch", "SUCCEEDED", "/outcome", message));
            }
            Ok(_) => {}
            Err(wrong) => wrong.list().iter().cloned().for_each(|finding| findings.push(finding)),
        }
    }
    let reserved = [manifest::INPUTS, manifest::PARSED];
    names(&execution.outputs, manifest::OUTPUTS, &reserved, &mut findings);
    let reserved = [manifest::REMOVED, manifest::STDOUT, manifest::STDERR];
    names(&execution.volatile, manifest::VOLATILE, &reserved, &mut findings);
    findings.or(Some(()))
}

fn names(files: &BTreeMap<&str, &[u8]>, place: &str, reserved: &[&str], findings: &mut Findings) {
    // Room for those that are always there, and for what the directory adds to a name.
    if files.len() > manifest::MOST_FILES - 8 {
        let message = format!("there may be at most {} of them", manifest::MOST_FILES - 8);
        findings.push(Finding::new("too_many_files", place, place, message));
    }
    for name in files.keys() {
        let whole = format!("{place}/{name}");
        if !name::is_output(&whole) || reserved.contains(name) {
            let message = format!(
                "it must be a relative path of A-Z, a-z, 0-9, '.', '_' and '-', and none of {}",
                reserved.join(", ")
            );
            findings.push(Finding::new("bad_name", name, whole, message));
        }
        // A file and a directory cannot have one name.
        let parents = || name.match_indices('/').map(|(end, _)| &name[..end]);
        if parents().any(|parent| files.contains_key(parent) || reserved.contains(&parent)) {
            let message = "another file has the name of the directory in which it would be";
            findings.push(Finding::new("bad_name", name, format!("{place}/{name}"), message));
        }
    }
}

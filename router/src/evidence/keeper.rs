//! Who keeps evidence of what is done in a role: the cabinet and the seals together, for the engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::acting::Acting;
use super::cabinet::{self, Cabinet, Execution, Left};
use super::docket::{CaseFacts, Docket, OpenCase};
use super::finding::Findings;
use super::normalize::{Normalized, Redactor, normalize};
use super::ordered::Report;
use super::output::Output;
use super::plan::Plan;
use super::promise::Leftover;
use super::rejection::Rejection;
use super::spec::{ExecutionSpec, LONGEST_TIMEOUT, SpecFields};
use super::staged::{SealFiles, Staged, StagedKind};
use super::statement::{self, ExecutionFacts};
use super::summary::Outcome;
use super::verification::Verification;
use super::wrap::{Given, wrap};
use crate::attest::{Link, Statement};
use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::metrics::Metrics;
use crate::role;
use crate::seal::{self, Leaf, Sealer};

/// Evidence cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// It cannot be written.
    #[error(transparent)]
    Cabinet(#[from] cabinet::Error),
    /// It cannot be sealed.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// It would not be verified.
    #[error("the evidence would not be valid: {0}")]
    Invalid(#[from] Findings),
    /// Whoever keeps it is gone.
    #[error("the router is being stopped")]
    Stopped,
}

/// A step that may be carried out: so it is on record.
#[derive(Clone, Debug)]
pub struct Case {
    facts: CaseFacts,
    docket: Arc<Docket>,
    report: Report,
}

impl Case {
    /// Adds what is known of the execution besides its output.
    pub fn attach(&mut self, report: Report) {
        for (key, value) in report.sandbox.iter() {
            self.facts.sandbox.insert(key, value.clone());
        }
        self.report.outputs.extend(report.outputs);
        self.report.volatile.extend(report.volatile);
        self.report.reason = report.reason.or(self.report.reason.take());
    }
}

/// Keeps evidence.
#[derive(Debug)]
pub struct Keeper {
    cabinet: Cabinet,
    sealer: Arc<Sealer>,
    metrics: Metrics,
    /// Whether something could not be finished, and has to be tried again.
    owes: AtomicBool,
}

impl Keeper {
    /// Opens the cabinet, and finishes what a process left that was killed while it sealed.
    ///
    /// # Errors
    /// When its directories cannot be made.
    pub fn open(root: &Path, sealer: Arc<Sealer>, metrics: Metrics) -> Result<Self, KeepError> {
        let mut cabinet = Cabinet::open(root)?;
        let left = cabinet.take_leftovers();
        let keeper = Self { cabinet, sealer, metrics, owes: AtomicBool::new(false) };
        keeper.finish_all(left);
        Ok(keeper)
    }

    /// Returns the directory of the evidence.
    pub(crate) fn root(&self) -> &Path {
        self.cabinet.root()
    }

    /// Returns the directory of the keys and the log.
    pub(crate) fn log_root(&self) -> &Path {
        self.sealer.root()
    }

    /// Finishes what was left: what is staged, and then the cases of which nothing else was kept.
    fn finish_all(&self, left: Left) {
        let mut failed = 0;
        for leftover in left.staged {
            match self.finish(leftover) {
                Ok(()) => tracing::info!("evidence that was left without its seal has one now"),
                Err(error) => {
                    failed += 1;
                    tracing::error!(%error, "evidence stays without its seal for now");
                }
            }
        }
        // What is staged may be what came of a case.
        let cases = if failed == 0 { left.cases } else { Vec::new() };
        for case in cases {
            match self.give_up(&case) {
                Ok(()) => tracing::warn!("a call was let through, and nothing else of it was kept"),
                Err(error) => {
                    failed += 1;
                    tracing::error!(%error, "a call that was let through stays without evidence for now");
                }
            }
        }
        self.owes.store(failed > 0, Ordering::Release);
    }

    /// Keeps that a call was let through and that what came of it was not kept, unless it was.
    fn give_up(&self, OpenCase { facts, plan, docket }: &OpenCase) -> Result<(), KeepError> {
        if let Some(plan) = plan {
            self.keep_plan(plan)?;
        }
        let fields = facts.spec.fields();
        if !self.cabinet.execution(&fields.task_id, &fields.exec_id).exists() {
            let nothing = Report::default();
            let (staged, statement) = self.ready(facts, &nothing_kept(), &nothing)?;
            self.seal_staged(staged, &statement)?;
        }
        docket.is_over();
        Ok(())
    }

    fn keep_plan(&self, plan: &Plan) -> Result<(), KeepError> {
        let staged = self.cabinet.stage_plan(plan)?;
        if staged.already().is_none() {
            staged.publish(None)?;
        }
        Ok(())
    }

    /// Seals what was left, if it has no seal, and gives it its place. If its process was killed after the append, the
    /// log has the same entry twice, which says nothing else than once.
    fn finish(&self, leftover: Leftover) -> Result<(), KeepError> {
        let Leftover { staged, statement } = leftover;
        let Some(bytes) = statement else {
            staged.publish(None)?;
            return Ok(());
        };
        let statement = Statement::parse(&bytes).map_err(seal::Error::from)?;
        self.seal_staged(staged, &statement)
    }

    /// Puts on record that a step may be carried out: its spec, the plan it belongs to, and the decision.
    ///
    /// # Errors
    /// When that cannot be kept; then it must not be carried out.
    pub fn open_case(&self, acting: Acting) -> Result<Case, KeepError> {
        if self.owes.load(Ordering::Acquire) {
            self.finish_all(self.cabinet.leftovers()?);
        }
        let task_id = task_id(&acting.run_id);
        // A process that was killed may have kept evidence of an attempt that nobody else knows of.
        let attempts = acting.attempt.max(1)..;
        let mut free = attempts.map(|attempt| exec_id(acting.step, attempt));
        let exec_id = free.find(|exec_id| !self.cabinet.execution(&task_id, exec_id).exists());
        let exec_id = exec_id.unwrap_or_default();
        let planned = Arc::clone(&acting.plan);
        let plan = planned.plan(&task_id, (acting.step, &exec_id))?;
        let inputs = acting.inputs(&plan)?;
        let ordered = acting.ordered();
        let timeout = ordered.timeout.min(acting.timeout).as_millis().div_ceil(1000);
        let timeout = i64::try_from(timeout).unwrap_or(LONGEST_TIMEOUT).clamp(1, LONGEST_TIMEOUT);
        let spec = ExecutionSpec::new(SpecFields {
            action: acting.class,
            cmd_argv: ordered.argv,
            cwd: ordered.cwd,
            env_allowlist: ordered.env,
            exec_id,
            inputs_manifest_sha256: inputs.digest(),
            kind: ordered.kind,
            note: None,
            paths_allowlist: ordered.paths,
            role: acting.class.role(),
            task_id,
            timeout_s: u32::try_from(timeout).unwrap_or(1),
        })?;
        let decisions = acting.decisions(&plan, &spec)?;
        let verification = Verification {
            spec_sha256: spec.digest(),
            reason: "ok".to_owned(),
            idempotency_key: Some(spec.digest().to_string()),
            decisions,
        };
        let mut sandbox = Object::new();
        sandbox.insert("grants", acting.grants);
        sandbox.insert("isolation", acting.isolation);
        let facts = CaseFacts { spec, inputs, native: acting.native, sandbox };
        let new = (!planned.is_kept(&plan)).then_some(&*plan);
        let docket = Arc::new(Docket::new(&self.cabinet.shared, &facts, new)?);
        let kept = self.decide(&verification, &docket).and_then(|()| match new {
            Some(plan) => self.keep_plan(plan),
            None => Ok(()),
        });
        match kept {
            Ok(()) => {
                planned.kept(&plan);
                Ok(Case { facts, docket, report: Report::default() })
            }
            Err(error) => {
                // It is not carried out, so there is nothing to tell of it.
                docket.is_over();
                Err(error)
            }
        }
    }

    /// Keeps a decision, and makes the case durable before anybody can see that it was decided.
    fn decide(&self, verification: &Verification, docket: &Docket) -> Result<(), KeepError> {
        let mut staged = self.cabinet.stage_verification(verification)?;
        if staged.already().is_some() {
            docket.settle()?;
            docket.lasts();
            return Ok(());
        }
        let link = statement::verification(verification, environment());
        let statement = statement::about(&staged, link);
        let bytes = statement.to_bytes().map_err(seal::Error::from)?;
        staged.promise_with(&bytes, Some(docket))?;
        docket.lasts();
        self.seal_staged(staged, &statement)
    }

    /// Keeps what came of a step: its output in the form of its role, normalized and sealed. An output that cannot be
    /// sealed is kept as a failure; returns what is wrong with it then.
    ///
    /// # Errors
    /// When it cannot be kept. Then that is kept instead, now or as soon as something can be written.
    pub fn close_case(&self, case: &Case, given: &Given) -> Result<Vec<String>, KeepError> {
        let Case { facts, docket, report } = case;
        let (ready, findings) = match self.ready(facts, given, report) {
            Err(KeepError::Invalid(findings)) => {
                let findings = findings.reasons();
                let refused = Given::Error {
                    code: "ROLE_OUTPUT_INVALID".to_owned(),
                    message: "the output cannot be sealed".to_owned(),
                    findings: findings.clone(),
                };
                (self.ready(facts, &refused, report), findings)
            }
            ready => (ready, Vec::new()),
        };
        let seal = |(staged, statement): (Staged, Statement)| self.seal_staged(staged, &statement);
        let (closed, kept) = match ready {
            Ok(ready) => {
                let closed = seal(ready);
                let kept = closed.is_ok();
                (closed, kept)
            }
            // There may be no room for what came of it, and room for that.
            Err(error) => {
                let nothing = Report::default();
                let kept = self.ready(facts, &nothing_kept(), &nothing).and_then(seal).is_ok();
                (Err(error), kept)
            }
        };
        if kept {
            docket.is_over();
        } else {
            self.owes.store(true, Ordering::Release);
        }
        closed.map(|()| findings)
    }

    /// Stages what came of a step, with the statement about it: from then on it outlasts this process.
    fn ready(
        &self,
        facts: &CaseFacts,
        given: &Given,
        report: &Report,
    ) -> Result<(Staged, Statement), KeepError> {
        let CaseFacts { spec, inputs, sandbox, native } = facts;
        let class = spec.fields().action;
        let value = match given {
            Given::Output(output) | Given::Failed { output, .. } if *native => {
                output.clone().into()
            }
            _ => wrap(class, env!("CARGO_PKG_VERSION"), given),
        };
        let normalized =
            &normalize(class.role(), None, Redactor::Nothing, value).map_err(Findings::from)?;
        let output = Output::check_for(spec, normalized.value())?;
        let (outcome, reason) = match given {
            Given::Output(_) if output.ok => (Outcome::Succeeded, "ok".to_owned()),
            Given::Output(_) => {
                let reason = report.reason.clone();
                (Outcome::Failed, reason.unwrap_or_else(|| "not_ok".to_owned()))
            }
            Given::Failed { code, .. } => {
                let known = report.reason.clone().or_else(|| native.then(|| "not_ok".to_owned()));
                let reason =
                    known.unwrap_or_else(|| format!("error:{}", code.to_ascii_lowercase()));
                (Outcome::Failed, reason)
            }
            Given::Error { findings, .. } if !findings.is_empty() => {
                (Outcome::Failed, findings[0].clone())
            }
            Given::Error { code, .. } => {
                (Outcome::Failed, format!("error:{}", code.to_ascii_lowercase()))
            }
        };
        let (stdout, stderr) = streams(normalized);
        let key = spec.digest().to_string();
        let execution = Execution {
            idempotency_key: Some(&key),
            stdout: stdout.as_bytes(),
            stderr: stderr.as_bytes(),
            parsed: Some(normalized),
            outputs: files(&report.outputs),
            volatile: files(&report.volatile),
            ..Execution::new(spec, inputs, outcome, &reason)
        };
        let mut staged = self.cabinet.stage_execution(&execution)?;
        let facts = ExecutionFacts {
            spec,
            inputs,
            files: staged.files(),
            volatile: staged.volatile(),
            exit_code: output.exit_code,
        };
        let mut environment = environment();
        environment.insert("sandbox", sandbox.clone());
        let statement = statement::about(&staged, statement::execution(&facts, environment));
        let bytes = statement.to_bytes().map_err(seal::Error::from)?;
        staged.promise(&bytes)?;
        Ok((staged, statement))
    }

    /// Keeps that something was refused. The same refusal again is there already.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn reject(&self, rejection: &Rejection) -> Result<(), KeepError> {
        let staged = self.cabinet.stage_rejection(rejection)?;
        let link = statement::rejection(rejection, environment());
        self.seal(staged, link)
    }

    fn seal(&self, mut staged: Staged, link: Link) -> Result<(), KeepError> {
        if staged.already().is_some() {
            return Ok(());
        }
        let statement = statement::about(&staged, link);
        let bytes = statement.to_bytes().map_err(seal::Error::from)?;
        staged.promise(&bytes)?;
        self.seal_staged(staged, &statement)
    }

    fn seal_staged(&self, staged: Staged, statement: &Statement) -> Result<(), KeepError> {
        let kind = match staged.kind() {
            StagedKind::Execution => seal::Kind::Execution,
            StagedKind::Rejection => seal::Kind::Rejection,
            StagedKind::Verification => seal::Kind::Verification,
            StagedKind::Plan => return Ok(()),
        };
        let (manifest_sha256, spec_sha256) = (staged.manifest_sha256(), staged.spec_sha256());
        let leaf = Leaf { kind, manifest_sha256, spec_sha256 };
        let sealed = match self.sealer.seal(leaf, statement) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.metrics.seals_failed();
                // What was executed is kept until it can be sealed; of what is refused nothing need stay.
                if kind != seal::Kind::Execution {
                    staged.withdraw();
                }
                return Err(error.into());
            }
        };
        let files = SealFiles { attestation: &sealed.attestation, proof: &sealed.proof };
        staged.publish(Some(files))?;
        self.metrics.seals(1);
        Ok(())
    }
}

/// What is said of a call of which nothing came to be kept.
fn nothing_kept() -> Given {
    Given::Error {
        code: "OUTCOME_NOT_KEPT".to_owned(),
        message: "the call was let through, and what came of it was not kept: its process ended, or it could not be \
                  written; it may have been carried out"
            .to_owned(),
        findings: Vec::new(),
    }
}

fn files(files: &[(String, Vec<u8>)]) -> BTreeMap<&str, &[u8]> {
    files.iter().map(|(name, file)| (name.as_str(), &file[..])).collect()
}

/// Says under which contract of roles something is sealed.
fn environment() -> Object {
    let mut environment = Object::with_capacity(3);
    environment.insert("role_contract_sha256", role::CONTRACT_SHA256);
    environment
}

/// Returns the id of a run as that of a task: ids of runs are such ids, unless somebody made one up.
#[must_use]
pub fn task_id(run_id: &str) -> String {
    if super::name::is_task_id(run_id) {
        return run_id.to_owned();
    }
    format!("run-{}", &Digest::of(run_id.as_bytes()).to_string()[..32])
}

/// Returns the id of an attempt at a step.
pub(super) fn exec_id(step: usize, attempt: u64) -> String {
    match attempt {
        0 | 1 => format!("step-{step}"),
        _ => format!("step-{step}-{attempt}"),
    }
}

/// Returns what stands for standard output and error: an envoy's own, and of a scout its output.
fn streams(normalized: &Normalized) -> (String, String) {
    let value = normalized.value();
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("stdout"), text("stderr")) {
        (Some(stdout), Some(stderr)) => (stdout, stderr),
        _ => (format!("{}\n", normalized.text()), String::new()),
    }
}

//! Who keeps evidence of what is done in a role: the cabinet and the seals together, for the engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::cabinet::{self, Cabinet, Execution};
use super::finding::Findings;
use super::inputs::Inputs;
use super::normalize::{self, Normalized, Redactor, normalize};
use super::ordered::{Ordered, Report};
use super::output::Output;
use super::plan::{Grant, Permission, Plan, PlanStep};
use super::promise::Leftover;
use super::rejection::Rejection;
use super::spec::{ExecutionSpec, Kind, LONGEST_TIMEOUT, SpecFields};
use super::staged::{SealFiles, Staged, StagedKind};
use super::statement::{self, ExecutionFacts};
use super::summary::Outcome;
use super::verification::Verification;
use super::wrap::{Given, wrap};
use crate::attest::{Link, Statement};
use crate::digest::Digest;
use crate::json::{self, Object, Value};
use crate::metrics::Metrics;
use crate::role::{self, ActionClass};
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

/// A step that is carried out in a role, and with what. Secrets in it are replaced already.
#[derive(Clone, Debug)]
pub struct Acting {
    /// The run.
    pub run_id: String,
    /// Which step of it, counted from 1.
    pub step: usize,
    /// Which attempt at it.
    pub attempt: u64,
    /// What kind of action it is.
    pub class: ActionClass,
    /// The adapter, the tool and the method.
    pub command: [String; 3],
    /// The call, as it is recorded.
    pub call: Object,
    /// Whether the adapter gives the output of the role itself.
    pub native: bool,
    /// The digest of the adapter's library.
    pub library: Option<Digest>,
    /// The digest of the interface contract that the adapter keeps.
    pub interface: Option<Digest>,
    /// How long it may take.
    pub timeout: Duration,
    /// The steps of the run that are carried out in a role, counted from 1, with their classes.
    pub plan: Vec<(usize, ActionClass)>,
    /// What the plan grants to its steps, counted from 1.
    pub granted: Vec<(usize, Permission, Vec<String>)>,
    /// What the router itself executes, if it does.
    pub ordered: Option<Ordered>,
    /// Where the adapter runs.
    pub isolation: &'static str,
    /// What it is granted there.
    pub grants: Object,
    /// Who asked for it.
    pub caller: Option<String>,
}

/// A step that may be carried out: so it is on record.
#[derive(Clone, Debug)]
pub struct Case {
    spec: ExecutionSpec,
    inputs: Inputs,
    native: bool,
    sandbox: Object,
    report: Report,
}

impl Case {
    /// Adds what is known of the execution besides its output.
    pub fn attach(&mut self, mut report: Report) {
        for (key, value) in std::mem::take(&mut report.sandbox).iter() {
            self.sandbox.insert(key, value.clone());
        }
        self.report = report;
    }

    /// Adds a fact about where the step is carried out.
    pub fn add_fact(&mut self, name: &str, value: impl Into<Value>) {
        self.sandbox.insert(name, value);
    }
}

/// Keeps evidence.
#[derive(Debug)]
pub struct Keeper {
    cabinet: Cabinet,
    sealer: Arc<Sealer>,
    metrics: Metrics,
}

impl Keeper {
    /// Opens the cabinet, and finishes what a process left that was killed while it sealed.
    ///
    /// # Errors
    /// When its directories cannot be made.
    pub fn open(root: &Path, sealer: Arc<Sealer>, metrics: Metrics) -> Result<Self, KeepError> {
        let mut cabinet = Cabinet::open(root)?;
        let left = cabinet.take_leftovers();
        let keeper = Self { cabinet, sealer, metrics };
        for leftover in left {
            match keeper.finish(leftover) {
                Ok(()) => tracing::info!("evidence that was left without its seal has one now"),
                Err(error) => tracing::error!(%error, "evidence stays without its seal for now"),
            }
        }
        Ok(keeper)
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
        let task_id = task_id(&acting.run_id);
        // A process that was killed may have kept evidence of an attempt that nobody else knows of.
        let attempts = acting.attempt.max(1)..;
        let mut free = attempts.map(|attempt| exec_id(acting.step, attempt));
        let exec_id = free.find(|exec_id| !self.cabinet.execution(&task_id, exec_id).exists());
        let exec_id = exec_id.unwrap_or_default();
        let plan = plan(&task_id, &exec_id, &acting)?;
        let staged = self.cabinet.stage_plan(&plan)?;
        if staged.already().is_none() {
            staged.publish(None)?;
        }
        let inputs = inputs(&acting, &plan)?;
        let ordered = acting.ordered.clone().unwrap_or_else(|| Ordered {
            argv: acting.command.to_vec(),
            cwd: ".".to_owned(),
            env: Vec::new(),
            kind: Kind::Python,
            paths: Vec::new(),
            timeout: acting.timeout,
        });
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
        let mut decisions = decisions(&acting);
        if acting.ordered.is_some() {
            // The gate has decided; that the plan says the same is part of what is sealed.
            let network = decisions.get("network_granted").and_then(Value::as_bool);
            let authorized = plan.authorize(&spec, network.unwrap_or_default(), true)?;
            for (key, value) in authorized.decisions().iter() {
                decisions.insert(key, value.clone());
            }
        }
        let verification = Verification {
            spec_sha256: spec.digest(),
            reason: "ok".to_owned(),
            idempotency_key: Some(spec.digest().to_string()),
            decisions,
        };
        let staged = self.cabinet.stage_verification(&verification)?;
        let link = statement::verification(&verification, environment());
        self.seal(staged, link)?;
        let mut sandbox = Object::new();
        sandbox.insert("grants", acting.grants);
        sandbox.insert("isolation", acting.isolation);
        let report = Report::default();
        Ok(Case { spec, inputs, native: acting.native, sandbox, report })
    }

    /// Keeps what came of a step: its output in the form of its role, normalized and sealed. An output that cannot be
    /// sealed is kept as a failure; returns what is wrong with it then.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn close_case(&self, case: &Case, given: &Given) -> Result<Vec<String>, KeepError> {
        let fits = |given: &Given| -> Result<(Normalized, Output), Findings> {
            let class = case.spec.fields().action;
            let value = match given {
                Given::Output(output) if case.native => output.clone().into(),
                _ => wrap(class, env!("CARGO_PKG_VERSION"), given),
            };
            let normalized = normalize(class.role(), None, Redactor::Nothing, value)?;
            let output = Output::check_for(&case.spec, normalized.value())?;
            Ok((normalized, output))
        };
        match fits(given) {
            Ok(fit) => self.keep(case, given, &fit).map(|()| Vec::new()),
            Err(findings) => {
                let findings = findings.reasons();
                let refused = Given::Error {
                    code: "ROLE_OUTPUT_INVALID".to_owned(),
                    message: "the output cannot be sealed".to_owned(),
                    findings: findings.clone(),
                };
                self.keep(case, &refused, &fits(&refused)?)?;
                Ok(findings)
            }
        }
    }

    fn keep(
        &self,
        case: &Case,
        given: &Given,
        (normalized, output): &(Normalized, Output),
    ) -> Result<(), KeepError> {
        let Case { spec, inputs, sandbox, .. } = case;
        let (outcome, reason) = match given {
            Given::Output(_) if output.ok => (Outcome::Succeeded, "ok".to_owned()),
            Given::Output(_) => {
                let reason = case.report.reason.clone();
                (Outcome::Failed, reason.unwrap_or_else(|| "not_ok".to_owned()))
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
            outputs: files(&case.report.outputs),
            volatile: files(&case.report.volatile),
            ..Execution::new(spec, inputs, outcome, &reason)
        };
        let staged = self.cabinet.stage_execution(&execution)?;
        let facts = ExecutionFacts {
            spec,
            inputs,
            files: staged.files(),
            volatile: staged.volatile(),
            exit_code: output.exit_code,
        };
        let mut environment = environment();
        environment.insert("sandbox", sandbox.clone());
        let link = statement::execution(&facts, environment);
        self.seal(staged, link)
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

fn files(files: &[(String, Vec<u8>)]) -> BTreeMap<&str, &[u8]> {
    files.iter().map(|(name, file)| (name.as_str(), &file[..])).collect()
}

/// Reads a digest that is pinned in this program; tests hold each to what it is of.
pub(crate) fn pinned(hex: &str) -> Digest {
    hex.parse().unwrap_or(Digest::ZERO)
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

fn exec_id(step: usize, attempt: u64) -> String {
    match attempt {
        0 | 1 => format!("step-{step}"),
        _ => format!("step-{step}-{attempt}"),
    }
}

fn plan(task_id: &str, own: &str, acting: &Acting) -> Result<Plan, Findings> {
    let step = |(number, class): &(usize, ActionClass)| PlanStep {
        step_id: exec_id(*number, 1),
        role: class.role(),
        action: *class,
        task_id: task_id.to_owned(),
    };
    let steps: Vec<PlanStep> = acting.plan.iter().map(step).collect();
    let grant = |(number, grant, targets): &(usize, Permission, Vec<String>)| Grant {
        exec_id: if *number == acting.step { own.to_owned() } else { exec_id(*number, 1) },
        grant: *grant,
        targets: targets.clone(),
    };
    let grants: Vec<Grant> = acting.granted.iter().map(grant).collect();
    Plan::new(task_id, &steps, &grants)
}

/// Names what the execution depends on.
fn inputs(acting: &Acting, plan: &Plan) -> Result<Inputs, KeepError> {
    let version = env!("CARGO_PKG_VERSION");
    let call = json::to_canonical(&acting.call.clone().into());
    let named = [
        (Inputs::PLAN, Some(plan.digest())),
        (Inputs::ROLES, Some(pinned(role::TABLE_SHA256))),
        (Inputs::ROLE_CONTRACT, Some(pinned(role::CONTRACT_SHA256))),
        (Inputs::ADAPTER_CONTRACT, acting.interface),
        (Inputs::ADAPTER_VERSION, Some(Digest::of(version.as_bytes()))),
        (Inputs::NORMALIZATION, Some(pinned(normalize::TABLE_SHA256))),
        ("adapter/library", acting.library),
        ("input/call", Some(Digest::of(call.as_bytes()))),
    ];
    let mut inputs = Inputs::new();
    for (name, digest) in named {
        let Some(digest) = digest else { continue };
        inputs.add(name, digest).map_err(|finding| KeepError::Invalid(finding.into()))?;
    }
    Ok(inputs)
}

/// Says what was decided: a network that is granted is told as such.
fn decisions(acting: &Acting) -> Object {
    let connect = acting.grants.get("connect").and_then(Value::as_array).unwrap_or_default();
    let mut decisions = Object::with_capacity(7);
    decisions.insert("action", acting.class.name());
    decisions.insert("allowed", true);
    decisions.insert("caller", acting.caller.as_deref());
    decisions.insert("network_granted", !connect.is_empty());
    decisions.insert("network_targets", Value::Array(connect.to_vec()));
    decisions.insert("policy_gate", true);
    decisions.insert("role", acting.class.role().name());
    decisions
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

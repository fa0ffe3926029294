//! The course of a run: plan, selection, steps, provenance, end; from the beginning or from where a
//! process that is gone left off.

mod answer;
mod asking;
mod attesting;
mod ending;
mod failure;
mod feasibility;
mod judging;
mod record_limit;
mod resuming;
mod retrieved;
mod retrieving;
mod retry;
mod revocation;
mod rules;
mod simulation;
mod slot;
mod stepping;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nexus_router_sdk::{ErrorKind, code};
use tokio::sync::{Notify, oneshot};

pub(crate) use resuming::Obstacle;
use revocation::CallerState;
pub(crate) use rules::RulesInForce;

use crate::approval::Approval;
use crate::budget::{MemoryBudget, Reservation};
use crate::caller::{Caller, CallerCheck};
use crate::desk::Desks;
use crate::event::{Failure, Payload, Place, PlanSource};
use crate::evidence::{Keeper, Planned};
use crate::gate::{self, Selection, Source, Witness};
use crate::host::Host;
use crate::json::Object;
use crate::listener::{Listener, Listeners};
use crate::metrics::Metrics;
use crate::outcome::{Choice, StepResult, StepStatus};
use crate::policy::Law;
use crate::recorder::Recorder;
use crate::registry::Registry;
use crate::request::{Dispatch, Mode, OnError, Policy, Request, Step};
use crate::run::{Illegal, Phase};
use crate::secret::Secrets;
use crate::share::{QueueEntry, TokenLedger};
use crate::store;
use crate::trace::TraceContext;

/// What a run needs from its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) registry: Arc<Registry>,
    pub(crate) secrets: Secrets,
    pub(crate) law: Arc<Law>,
    /// The rules in force now, which may be newer.
    pub(crate) rules: Arc<RulesInForce>,
    /// The version of the rules here.
    pub(crate) rules_version: u64,
    /// Checks callers again before each step.
    pub(crate) caller_check: CallerCheck,
    pub(crate) metrics: Metrics,
    pub(crate) witness: Witness,
    pub(crate) listeners: Listeners,
    pub(crate) desks: Desks,
    pub(crate) host: Arc<Host>,
    /// Runs and stored bytes of each token.
    pub(crate) ledger: Arc<TokenLedger>,
    /// Who keeps evidence of what is done in a role.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// Bytes of the record of one run.
    pub(crate) run_record_bytes: usize,
    /// Counts the answers of runs under way.
    pub(crate) memory: MemoryBudget,
}

/// Why a run could not be carried through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The store could not record it.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It would have become illegal, which is a mistake in this program.
    #[error("the run would have become illegal: {0}")]
    Illegal(#[from] Illegal),
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Execution {
    recorder: Recorder,
    /// The request as recorded, without its goal and its plan.
    request: Object,
    /// The plan as given, with its secrets.
    plan: Arc<Vec<Step>>,
    plan_given: bool,
    /// The plan as recorded, where that differs.
    redacted_plan: Option<Vec<Object>>,
    /// Error of an unreadable plan.
    lost_plan: Option<Obstacle>,
    /// The steps that are carried out in a role; found out once.
    planned: OnceLock<Arc<Planned>>,
    mode: Mode,
    policy: Policy,
    timeout: Option<Duration>,
    selected: Vec<Choice>,
    /// The adapter of the last call.
    called: String,
    /// Whether that adapter may have effects; only asked of a run that is taken up.
    called_external: bool,
    results: Vec<StepResult>,
    /// The memory of large results.
    memory: Option<Reservation>,
    /// The text of the provenance.
    provenance: Option<String>,
    failure: Option<Failure>,
    cancelled: Arc<Cancel>,
    origin: Origin,
    caller_state: CallerState,
    /// Queue limit for the caller's token.
    queue_entry: QueueEntry,
    /// What a person was asked last about the step that is open, and what they said.
    approval: Option<Box<Approval>>,
    /// For how long the run was under way before it waited for a person.
    before: Duration,
    /// Since when it is under way.
    since: Instant,
}

/// Whether a run goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It does.
    Goes,
    /// It waits for a person, and nothing of it stays in memory.
    Waits,
}

/// Where a run comes from, and who waits for its first commit.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) caller: Option<Arc<Caller>>,
    /// Somebody asked for it of whom the record does not say enough.
    pub(crate) stranger: bool,
    pub(crate) trace: Option<TraceContext>,
    /// Told when the run is on disk, and before anything is called.
    pub(crate) accepted: Option<oneshot::Sender<()>>,
    /// Hears what calls tell.
    pub(crate) listener: Option<Listener>,
    /// True for a task: a further run may answer its question.
    pub(crate) is_task: bool,
}

/// Whether a caller gave a run up.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    pub(crate) asked: std::sync::atomic::AtomicBool,
    pub(crate) notify: Notify,
}

impl Cancel {
    pub(crate) fn cancel(&self) {
        self.asked.store(true, std::sync::atomic::Ordering::Release);
        self.notify.notify_one();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(std::sync::atomic::Ordering::Acquire)
    }
}

/// A request without its secrets, where that differs from what was given.
#[derive(Debug, Default)]
pub(crate) struct Redacted {
    pub(crate) request: Option<Object>,
    pub(crate) plan: Option<Vec<Object>>,
}

impl Execution {
    /// Begins a run.
    pub(crate) fn begin(
        mut recorder: Recorder,
        request: Request,
        redacted: Redacted,
        cancelled: Arc<Cancel>,
        origin: Origin,
    ) -> Self {
        let (mode, policy, timeout) = (request.mode(), request.policy(), request.timeout());
        let plan_given = request.plan_given();
        let (raw, plan) = request.into_parts();
        let mut request = redacted.request.unwrap_or(raw);
        request.remove("goal");
        let results = Vec::with_capacity(plan.len().min(16));
        let plan = Arc::new(plan);
        if redacted.plan.is_some() {
            recorder.hold_plan(Arc::clone(&plan), origin.is_task);
        }
        Self {
            recorder,
            request,
            plan,
            plan_given,
            redacted_plan: redacted.plan,
            lost_plan: None,
            planned: OnceLock::new(),
            mode,
            policy,
            timeout,
            selected: Vec::new(),
            called: String::new(),
            called_external: false,
            results,
            memory: None,
            provenance: None,
            failure: None,
            cancelled,
            origin,
            caller_state: CallerState::default(),
            queue_entry: QueueEntry::Limited,
            approval: None,
            before: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// Returns the step as it is recorded.
    fn recorded(&self, index: usize) -> &Object {
        match &self.redacted_plan {
            Some(plan) => &plan[index],
            None => self.plan[index].raw(),
        }
    }

    pub(crate) const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn select(&self, around: &Surroundings) -> Result<Selection, Failure> {
        // A run that is taken up again keeps the adapter that was its default when it began.
        let default =
            self.selected.iter().find(|choice| choice.selection_source == Source::Default.name());
        let default =
            default.map_or(around.registry.default_adapter_id(), |choice| &choice.adapter_id);
        let reach = around.law.reach(self.origin.caller.as_deref());
        gate::select(&around.registry, default, Dispatch::of(&self.request), &self.plan, reach)
    }

    /// Carries the run through to its end, or until it waits for a person.
    pub(crate) async fn carry_out(&mut self, around: &Surroundings) -> Result<(), Broken> {
        match self.course(around).await? {
            Course::Over(failure) => self.end(failure).await,
            Course::Parked => Ok(()),
        }
    }

    async fn course(&mut self, around: &Surroundings) -> Result<Course, Broken> {
        if self.recorder.run().phase() == Phase::Empty {
            self.record_beginning()?;
            if let Some(accepted) = self.origin.accepted.take() {
                self.recorder.commit().await?;
                // Whoever waited may have gone; the run goes on.
                accepted.send(()).ok();
            }
        }
        if self.recorder.run().phase() == Phase::Provenanced {
            return Ok(Course::Over(self.failure_of_steps()));
        }
        let selection = match self.select(around) {
            Ok(selection) => selection,
            Err(failure) => {
                return Ok(Course::Over(Some(without_secrets(failure, &around.secrets))));
            }
        };
        self.record_selection(&selection)?;
        let plan_steps = self.plan.len() as u64;
        let allowed = [self.policy.max_steps, around.law.max_steps].into_iter().flatten().min();
        if let Some(max_steps) = allowed.filter(|max| plan_steps > *max) {
            return Ok(Course::Over(Some(Failure::MaxSteps { max_steps, plan_steps })));
        }
        self.timeout = [self.timeout, around.law.max_run].into_iter().flatten().min();
        // Waiting for a person takes nothing of the time of a run.
        self.since = Instant::now();
        let end = self.timeout.map(|timeout| self.since + timeout.saturating_sub(self.before));
        let mut refreshed: Option<Box<Surroundings>> = None;
        // Only a run that is taken up again has one; every other is as small as it can be without that.
        if self.recorder.run().open_step().is_some()
            && Box::pin(self.finish_open_step(around, &selection, end)).await? == Pace::Waits
        {
            return Ok(Course::Parked);
        }
        loop {
            if let Some(failure) = self.bug() {
                return Ok(Course::Over(Some(failure)));
            }
            if let Some(failure) = self.given_up(end).or_else(|| self.revoked()) {
                return Ok(Course::Over(Some(failure)));
            }
            let failed = self.failure_of_steps();
            // A dry run checks every step: it lists everything that would be denied.
            let stops = self.policy.on_error == OnError::Stop && self.mode == Mode::Apply;
            if failed.is_some() && stops {
                return Ok(Course::Over(failed));
            }
            let index = self.recorder.run().steps_started();
            if index >= self.plan.len() {
                return Ok(Course::Over(failed));
            }
            if let Some(newer) = refreshed.as_deref().unwrap_or(around).refreshed() {
                // Evidence names the classes in force.
                self.planned = OnceLock::new();
                refreshed = Some(newer);
            }
            let around = refreshed.as_deref().unwrap_or(around);
            if let Err(revocation) = self.check_caller(around) {
                return Ok(Course::Over(Some(revocation::failure(&revocation))));
            }
            if let Some(failure) = self.record_full(around, index) {
                return Ok(Course::Over(Some(failure)));
            }
            // Rare, and large: it stands beside the future of the run.
            if self.is_crowded(around)
                && let Some(failure) = Box::pin(self.wait_for_memory(around, end)).await
            {
                return Ok(Course::Over(Some(failure)));
            }
            self.recorder.look_after().await?;
            let step_id = Arc::clone(&self.recorder.run().plan()[index]);
            self.recorder.record(&Payload::StepStarted { step_id: &step_id })?;
            if self.step(around, &selection, index, 1, end).await? == Pace::Waits {
                return Ok(Course::Parked);
            }
        }
    }

    fn record_beginning(&mut self) -> Result<(), Illegal> {
        let header = Arc::clone(self.recorder.header());
        let caller = self.origin.caller.as_ref().map(|caller| caller.to_json());
        let trace_id = self.origin.trace.as_ref().map(TraceContext::trace_id_text);
        self.recorder.record(&Payload::RunStarted {
            mode: &header.mode,
            goal: &header.goal,
            request: &self.request,
            continues_on_error: self.policy.on_error == OnError::Continue,
            caller: caller.as_ref(),
            trace_id: trace_id.as_deref(),
        })?;
        let plan: Vec<&Object> = match &self.redacted_plan {
            Some(plan) => plan.iter().collect(),
            None => self.plan.iter().map(Step::raw).collect(),
        };
        self.recorder.record(&Payload::PlanCreated {
            plan: &plan,
            source: if self.plan_given { PlanSource::Request } else { PlanSource::None },
            redacted: self.redacted_plan.is_some(),
        })
    }

    /// Records the adapters that were not recorded before.
    fn record_selection(&mut self, selection: &Selection) -> Result<(), Illegal> {
        self.selected.reserve_exact(selection.adapters.len());
        for chosen in &selection.adapters {
            let adapter_id = chosen.adapter.adapter_id();
            if self.recorder.run().selected().iter().any(|selected| selected == adapter_id) {
                continue;
            }
            let confined = chosen.adapter.confined();
            self.recorder.record(&Payload::DispatchSelected {
                adapter_id,
                adapter_kind: chosen.adapter.adapter_kind(),
                capabilities: &chosen.capabilities,
                selection_source: chosen.source.name(),
                library: chosen.adapter.digest(),
                place: &Place {
                    isolation: confined.isolation.name(),
                    confinement: &confined.confinement,
                    landlock: confined.landlock_in_force(),
                    missing: &confined.missing_names(),
                    grants: &confined.grants.to_json(),
                },
            })?;
            self.selected.push(Choice {
                adapter_id: adapter_id.to_owned(),
                adapter_kind: chosen.adapter.adapter_kind().to_owned(),
                selection_source: chosen.source.name().to_owned(),
            });
        }
        Ok(())
    }

    /// Says why the run ends early though no step is to blame: steps are left or one was cut short, and
    /// nobody waits for them any more.
    fn given_up(&self, end: Option<Instant>) -> Option<Failure> {
        let unfinished = self.results.len() < self.plan.len();
        let cut_short = |code| {
            let last = self.results.last().and_then(|result| result.error.as_ref());
            unfinished || last.is_some_and(|error| error.code == code)
        };
        if self.cancelled.is_asked() && cut_short(code::CANCELLED) {
            return Some(Failure::Cancelled);
        }
        if end.is_some_and(|end| Instant::now() >= end) && cut_short(code::TIMEOUT) {
            let timeout = self.timeout.unwrap_or_default().as_millis();
            let timeout_ms = u64::try_from(timeout).unwrap_or(u64::MAX);
            return Some(Failure::TimedOut { timeout_ms });
        }
        None
    }

    fn bug(&self) -> Option<Failure> {
        let last = self.results.last()?;
        let error = last.error.as_ref().filter(|error| error.kind == ErrorKind::Bug)?;
        Some(Failure::Bug { step_id: last.step_id.clone(), code: error.code.clone() })
    }

    fn failure_of_steps(&self) -> Option<Failure> {
        if let Some(failure) = self.bug() {
            return Some(failure);
        }
        let first = self.results.iter().find(|result| result.status == StepStatus::Error)?;
        let code = first.error.as_ref().map(|error| error.code.clone()).unwrap_or_default();
        Some(Failure::Step { step_id: first.step_id.clone(), code })
    }
}

/// How far a run got.
enum Course {
    /// To its end: what is left is to record it.
    Over(Option<Failure>),
    /// To a question, which is on disk.
    Parked,
}

/// A request may name its adapter by a secret, by mistake.
fn without_secrets(failure: Failure, secrets: &Secrets) -> Failure {
    match failure {
        Failure::Selection { code, message, details } => Failure::Selection {
            code,
            message: secrets.redact_text(&message).unwrap_or(message),
            details: secrets.redact_object(&details).unwrap_or(details),
        },
        other => other,
    }
}

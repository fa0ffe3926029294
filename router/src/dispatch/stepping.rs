//! How a step is carried out: the gate, the call, and what is recorded of both.

use std::fmt::Write as _;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, ErrorKind};
use tokio::sync::Notify;
use tracing::{Instrument as _, Span};

use super::asking::begun_without_asking;
use super::attesting::{ROLE_OUTPUT, confinement};
use super::failure::{FailedCall, reported_failure};
use super::record_limit::result_payload;
use super::retrieving::Retrieving;
use super::retry::Retries;
use super::simulation::simulation;
use super::slot::{Admitted, SlotResult};
use super::{Broken, Execution, Pace, Surroundings};
use crate::approval::Approval;
use crate::caller::Revocation;
use crate::config::Outputs;
use crate::envoy;
use crate::event::Payload;
use crate::evidence::{Acting, Case, Output, Report};
use crate::gate::{Effects, Permit, Selected, Selection, Verdict};
use crate::host::{Answered, CallSlot, Patience};
use crate::json::{Object, Value};
use crate::offload;
use crate::outcome::{StepResult, StepStatus};
use crate::policy::{Act, Law};
use crate::request::Step;
use crate::run::{Illegal, Phase};
use crate::telemetry::{self, work_span};
use crate::trace::TraceContext;

impl Execution {
    /// Requests a call and makes it, if the gate lets it through.
    pub(super) async fn step(
        &mut self,
        around: &Surroundings,
        selection: &Selection,
        index: usize,
        attempt: u64,
        end: Option<Instant>,
    ) -> Result<Pace, Broken> {
        let plan = Arc::clone(&self.plan);
        let step = &plan[index];
        let chosen = &selection.adapters[selection.of_step[index]];
        let adapter_id = chosen.adapter.adapter_id();
        let step_id = Arc::clone(&self.recorder.run().plan()[index]);
        let Admitted { verdict, decision, filled, slot, newer, approval } =
            self.admit_with_slot(around, (chosen, step, index), end).await;
        let around = newer.as_deref().unwrap_or(around);
        let nothing = Object::new();
        let recorded = match (&filled, &self.redacted_plan) {
            (Some(filled), _) => filled,
            (None, Some(plan)) => &plan[index],
            (None, None) => step.raw(),
        };
        let call = recorded.get("call").and_then(Value::as_object).unwrap_or(&nothing);
        if let (Verdict::Ask(question), 1) = (&verdict, attempt) {
            let (question, call) = (question.clone(), call.clone());
            let asked = (&*step_id, adapter_id, call);
            Box::pin(self.ask(around, question, decision.as_deref(), asked)).await?;
            return Ok(Pace::Waits);
        }
        self.recorder.record(&Payload::ToolCallRequested {
            step_id: &step_id,
            call,
            adapter_id,
            adapter_capabilities: &chosen.capabilities,
            attempt,
            policy_decision: decision.as_deref(),
        })?;
        adapter_id.clone_into(&mut self.called);
        let act = Act { adapter_id, tool: step.tool(), method: step.method() };
        let (mut case, mut span) = (None, Span::none());
        let (answer, time, how) = match verdict {
            Verdict::Simulate { asks, call: None } => {
                (Ok(simulation(adapter_id, call, asks)), Duration::ZERO, "simulated")
            }
            Verdict::Simulate { call: Some(permit), .. } => {
                let otherwise = simulation(adapter_id, call, false);
                let slotted = (permit, slot, step.timeout());
                let simulated = self.simulate(around, slotted, otherwise, index, end);
                let (answer, time) = Box::pin(simulated).await?;
                let answer = answer.map_err(FailedCall::from);
                let how = if answer.is_ok() { "simulated" } else { outcome_label(&answer) };
                (answer, time, how)
            }
            Verdict::Ask(_) => (Err(begun_without_asking().into()), Duration::ZERO, "denied"),
            Verdict::Deny(denial) => {
                let run_id = &self.recorder.header().run_id;
                around.witness.see(&denial, run_id, self.origin.caller.as_deref(), act);
                (Err(denial.into()), Duration::ZERO, "denied")
            }
            Verdict::Call(permit) => {
                let acting = self.acting(around, selection, (step, call), (index, attempt));
                span = work_span!("step", step_id = &*step_id, adapter_id);
                let permitted = (permit, slot, acting);
                let made = CallToMake {
                    selected: chosen,
                    step,
                    index,
                    filled: filled.as_ref(),
                    approval: approval.as_deref(),
                    end,
                };
                let made = self.make_call(around, permitted, made, &span);
                let CheckedCall { answer, time, case: opened } = made.await?;
                case = opened;
                let how = outcome_label(&answer);
                (answer, time, how)
            }
        };
        let mut result = self.result(step_id.as_ref().to_owned(), answer, &around.secrets);
        if how == "denied" || unconfined(&result) {
            // What could not be confined was refused like anything else that was not executed.
            case = None;
            Box::pin(self.keep_refusal(around, act, &mut result)).await;
        }
        if let Some(case) = case {
            Box::pin(self.close_case(around, case, &mut result)).await;
        }
        let how = if how == "ok" && result.error.is_some() { "operational" } else { how };
        self.record_result_within(around, &mut result, time)?;
        self.results.push(result);
        self.judge(around)?;
        self.hold_answer(index);
        self.drop_unrecorded();
        let rejected = how == "ok" && self.recorder.run().phase() == Phase::Refused;
        let how = if rejected { "operational" } else { how };
        if let Some(error) = self.results.last().and_then(|result| result.error.as_ref()) {
            telemetry::mark_failed(&span, &error.code);
        }
        around.metrics.step_ended(adapter_id, how, time);
        self.complete_step(index)?;
        Ok(Pace::Goes)
    }

    /// Makes a permitted call and checks its answer. An attested call gets its case first; without one it is refused.
    async fn make_call(
        &mut self,
        around: &Surroundings,
        (permit, slot, acting): (Permit<'_>, Option<SlotResult>, Option<Box<Acting>>),
        made: CallToMake<'_>,
        span: &Span,
    ) -> Result<CheckedCall, Broken> {
        let CallToMake { selected, step, index, end, .. } = made;
        let adapter = &selected.adapter;
        let (adapter_id, holds_secrets) = (adapter.adapter_id(), permit.holds_secrets());
        let act = Act { adapter_id, tool: step.tool(), method: step.method() };
        let opened = match acting {
            Some(acting) => Box::pin(Self::open_case(around, acting)).await,
            None => Ok(None),
        };
        let mut case = match opened {
            Ok(case) => case,
            Err(refused) => {
                let answer = Err(refused.into());
                return Ok(CheckedCall { answer, time: Duration::ZERO, case: None });
            }
        };
        let retries = Retries::of(&permit, case.is_none(), around);
        let permitted = (permit, slot, step.timeout());
        let call = async {
            let first = self.call_in_slot(around, permitted, (index, 1), end).await?;
            match retries {
                Some(retries) if first.0.is_err() => {
                    Box::pin(self.retry_call(around, retries, made, first)).await
                }
                _ => Ok(first),
            }
        };
        let (answer, time, report) = if span.is_disabled() {
            call.await?
        } else {
            Box::pin(call.instrument(span.clone())).await?
        };
        if let Some(case) = &mut case {
            case.attach(confinement(adapter));
            case.attach(report.map(|report| *report).unwrap_or_default());
        }
        let answer = answer.and_then(|output| conforming(around, act, output, holds_secrets));
        let answer = answer.map_err(FailedCall::from).and_then(|output| {
            let failure = || reported_failure(&around.law, adapter.adapter_kind(), act, &output);
            match if step.expects_any() { None } else { failure() } {
                None => Ok(output),
                Some(error) => Err(FailedCall { error, output: Some(output) }),
            }
        });
        Ok(CheckedCall { answer, time, case })
    }

    /// Makes a call in its slot, unless it got none. A run with a large answer leaves the threads that serve others.
    pub(super) async fn call_in_slot(
        &mut self,
        around: &Surroundings,
        (permit, slot, timeout): (Permit<'_>, Option<SlotResult>, Option<Duration>),
        number: (usize, u64),
        end: Option<Instant>,
    ) -> Result<CallResult, Broken> {
        match slot {
            Some(Ok(slot)) => {
                let called = self.call(around, (permit, slot, timeout), number, end).await?;
                offload::step_aside(is_large(&called.0)).await;
                Ok(called)
            }
            Some(Err((error, time))) => Ok((Err(error), time, None)),
            None => Ok((Err(AdapterError::bug("no slot")), Duration::ZERO, None)),
        }
    }

    /// Makes a call in its slot: on disk before, if it may have effects.
    async fn call(
        &mut self,
        around: &Surroundings,
        (permit, slot, timeout): (Permit<'_>, CallSlot, Option<Duration>),
        (index, attempt): (usize, u64),
        end: Option<Instant>,
    ) -> Result<CallResult, Broken> {
        // What a call may ask for is done outside, too.
        let asks =
            !permit.is_dry_run() && around.law.sources.contains_key(permit.adapter().adapter_id());
        if permit.effects() == Effects::External || asks {
            self.recorder.commit().await?;
        } else {
            self.recorder.store().refuse_displaced()?;
        }
        let run_id = &self.recorder.header().run_id;
        let mut call_id = String::with_capacity(run_id.len() + 4);
        // Writing to a string does not fail.
        let _ = write!(call_id, "{run_id}/{index}");
        if attempt > 1 {
            // The attempt before may not have ended yet.
            let _ = write!(call_id, "/retry-{attempt}");
        }
        let listener = self.origin.listener.as_ref();
        let listening = listener.map(|listener| around.listeners.listen(&call_id, listener));
        let cancelled = Arc::clone(&self.cancelled);
        // The span that is exported, or a link of our own in the chain of the caller.
        let exported = telemetry::is_exporting().then(Span::current);
        let trace = exported
            .and_then(|span| telemetry::current(&span))
            .or_else(|| self.origin.trace.as_ref().map(TraceContext::child));
        let by_contract = permit.timeout();
        let patience = Patience {
            call_id: &call_id,
            step: timeout.into_iter().chain(by_contract).min(),
            run: end,
            cancelled: &cancelled.notify,
            trace: trace.as_ref(),
        };
        let answered = if asks {
            let call = Box::pin(self.call_and_answer(around, permit, slot, patience));
            let (answered, revoked) = call.await;
            if let Some(revocation) = revoked {
                self.revoke(revocation);
            }
            answered
        } else {
            let recorder = &mut self.recorder;
            around.host.call(permit, slot, patience, || recorder.flush()).await
        };
        drop(listening);
        Ok((answered.answer, answered.time, answered.report))
    }

    /// Makes a call of an adapter that was given sources, and answers what it asks meanwhile.
    async fn call_and_answer(
        &self,
        around: &Surroundings,
        permit: Permit<'_>,
        slot: CallSlot,
        patience: Patience<'_>,
    ) -> (Answered, Option<Revocation>) {
        let (tool, method, _) = permit.call();
        let adapter_id = permit.adapter().adapter_id();
        let time = around.host.time_of(adapter_id, patience);
        let act = Act { adapter_id, tool, method };
        let retrieving = Retrieving::new(self, around, (act, patience.call_id), time);
        let desk = around.desks.open(patience.call_id);
        // Whoever gives up the run gives up both: the call, and what it waits for.
        let given_up = Notify::new();
        let given = Patience { cancelled: &given_up, ..patience };
        // Everything is on disk already.
        let call = around.host.call(permit, slot, given, || ());
        let serve = retrieving.serve(desk);
        let (mut call, mut serve) = (pin!(call), pin!(serve));
        let pass_on = async {
            patience.cancelled.notified().await;
            retrieving.cancelled.notify_one();
            given_up.notify_one();
            std::future::pending::<()>().await;
        };
        let mut pass_on = pin!(pass_on);
        let answered = std::future::poll_fn(|context| {
            let _: Poll<()> = pass_on.as_mut().poll(context);
            if let Poll::Ready(answered) = call.as_mut().poll(context) {
                return Poll::Ready(answered);
            }
            let _: Poll<()> = serve.as_mut().poll(context);
            Poll::Pending
        });
        let answered = answered.await;
        if retrieving.close() {
            serve.await;
        }
        let report = Some(Box::new(retrieving.take_log().report()));
        (Answered { report, ..answered }, retrieving.revocation())
    }

    pub(super) fn record_result(
        &mut self,
        result: &StepResult,
        time: Duration,
    ) -> Result<(), Illegal> {
        self.recorder.record(&result_payload(result, &self.called, time))
    }

    pub(super) fn complete_step(&mut self, index: usize) -> Result<(), Illegal> {
        let failed = !matches!(self.recorder.run().phase(), Phase::Answered | Phase::Evaluated);
        let status = if failed { StepStatus::Error } else { StepStatus::Ok };
        let step_id = Arc::clone(&self.recorder.run().plan()[index]);
        self.recorder.record(&Payload::StepCompleted { step_id: &step_id, status: status.name() })
    }
}

/// A call that the gate lets through, and where it stands in its run.
#[derive(Clone, Copy)]
pub(super) struct CallToMake<'a> {
    pub(super) selected: &'a Selected,
    pub(super) step: &'a Step,
    /// The index of the step.
    pub(super) index: usize,
    /// The step as recorded, with the defaults of its contract, if it lacked some.
    pub(super) filled: Option<&'a Object>,
    /// What a person was asked about it, and what they said.
    pub(super) approval: Option<&'a Approval>,
    /// The end of the run's time.
    pub(super) end: Option<Instant>,
}

/// Checked answer of a call, with its time and the case of its evidence.
struct CheckedCall {
    answer: Result<Object, FailedCall>,
    time: Duration,
    case: Option<Box<Case>>,
}

/// Answer of a call, its time, and a report of the router.
pub(super) type CallResult = (Result<Object, AdapterError>, Duration, Option<Box<Report>>);

/// Returns whether an answer is large.
fn is_large(answer: &Result<Object, AdapterError>) -> bool {
    match answer {
        Ok(output) => offload::is_large(output),
        Err(error) => offload::is_large_error(error),
    }
}

/// Returns the metrics label of an answer.
fn outcome_label(answer: &Result<Object, FailedCall>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(failed) if failed.error.kind == ErrorKind::Bug => "bug",
        Err(_) => "operational",
    }
}

/// Says whether nothing was executed because it could not be confined.
fn unconfined(result: &StepResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == envoy::UNAVAILABLE)
}

/// Refuses an output that is not what the adapter promised. What the call did, it did.
/// If the output or the arguments hold a secret, the error names only places.
fn conforming(
    around: &Surroundings,
    act: Act<'_>,
    output: Object,
    holds_secrets: bool,
) -> Result<Object, AdapterError> {
    let Surroundings { law, secrets, .. } = around;
    let output = of_role(law, act, output)?;
    let Err(misfit) = law.check_output(act, &output) else { return Ok(output) };
    let holds_secrets = holds_secrets || secrets.replace_known(&output).is_some();
    let misfit = if holds_secrets { misfit.without_values(None, &[]) } else { misfit };
    let message = format!("the output does not fit its schema: {misfit}");
    if law.outputs == Outputs::Warn {
        let Act { adapter_id, tool, method } = act;
        tracing::warn!(adapter_id, tool, method, message, "an output breaks its contract");
        return Ok(output);
    }
    let error = AdapterError::bug_with_code("OUTPUT_INVALID", message);
    Err(error.details(serde_json::json!({ "pointer": misfit.pointer })))
}

/// Holds the output of an adapter that answers in a role to the frozen form of that role.
fn of_role(law: &Law, act: Act<'_>, output: Object) -> Result<Object, AdapterError> {
    let Some(role) = law.roles.get(act.adapter_id).copied() else { return Ok(output) };
    // No program is run for a call, so there need not be an exit code where there is none.
    match Output::check(role, law.class_of(act), true, &output.clone().into()) {
        Ok(_) => Ok(output),
        Err(findings) => {
            let Act { adapter_id, tool, method } = act;
            let message = format!(
                "the output of {tool}.{method} of adapter '{adapter_id}' is not that of role '{}': {}",
                role.name(),
                findings.reasons().join(", ")
            );
            let error = AdapterError::bug_with_code(ROLE_OUTPUT, message);
            Err(error.details(serde_json::json!({ "findings": findings.reasons() })))
        }
    }
}

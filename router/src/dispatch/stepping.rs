//! How a step is carried out: the gate, the call, and what is recorded of both.

use std::fmt::Write as _;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, ErrorKind, code};
use tokio::sync::Notify;
use tracing::{Instrument as _, Span};

use super::asking::begun_without_asking;
use super::attesting::{ROLE_OUTPUT, confinement};
use super::retrieving::Retrieving;
use super::simulation::simulation;
use super::{Broken, Execution, Pace, Surroundings};
use crate::config::Outputs;
use crate::envoy;
use crate::event::Payload;
use crate::evidence::{Output, Report};
use crate::gate::{self, Effects, Grounds, Permit, Selection, Verdict};
use crate::host::{Answered, Patience};
use crate::json::{Object, Value};
use crate::outcome::{StepError, StepResult, StepStatus};
use crate::policy::{Act, Law};
use crate::request::Mode;
use crate::run::{Illegal, Phase};
use crate::secret::Secrets;
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
        let nothing = Object::new();
        let recorded = match &self.redacted_plan {
            Some(plan) => &plan[index],
            None => step.raw(),
        };
        let call = recorded.get("call").and_then(Value::as_object).unwrap_or(&nothing);
        let (caller, approval) = (self.origin.caller.clone(), self.approval.take());
        let grounds = Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &around.law,
            caller: caller.as_deref(),
            secrets: &around.secrets,
            approval: approval.as_ref(),
            redacted: self.redacted_plan.is_some(),
            now: self.recorder.now(),
        };
        let verdict = gate::admit(grounds, chosen, step);
        if let (Verdict::Ask(question), 1) = (&verdict, attempt) {
            let (question, call) = (question.clone(), call.clone());
            Box::pin(self.ask(around, question, (&step_id, adapter_id, call))).await?;
            return Ok(Pace::Waits);
        }
        self.recorder.record(&Payload::ToolCallRequested {
            step_id: &step_id,
            call,
            adapter_id,
            adapter_capabilities: &chosen.capabilities,
            attempt,
        })?;
        adapter_id.clone_into(&mut self.called);
        let act = Act { adapter_id, tool: step.tool(), method: step.method() };
        let mut case = None;
        let (answer, time, how) = match verdict {
            Verdict::Simulate { asks, call: None } => {
                (Ok(simulation(adapter_id, call, asks)), Duration::ZERO, "simulated")
            }
            Verdict::Simulate { call: Some(permit), .. } => {
                let otherwise = simulation(adapter_id, call, false);
                let simulated = self.simulate(around, permit, (step, otherwise), index, end);
                let (answer, time) = Box::pin(simulated).await?;
                let how = if answer.is_ok() { "simulated" } else { kind_of(&answer) };
                (answer, time, how)
            }
            Verdict::Ask(_) => (Err(begun_without_asking()), Duration::ZERO, "denied"),
            Verdict::Deny(denial) => {
                let run_id = &self.recorder.header().run_id;
                around.witness.see(&denial, run_id, caller.as_deref(), act);
                (Err(denial), Duration::ZERO, "denied")
            }
            Verdict::Call(permit) => {
                let holds_secrets = permit.holds_secrets();
                let acting = self.acting(around, selection, (step, call), (index, attempt));
                let span = work_span!("step", step_id = &*step_id, adapter_id);
                let opened = match acting {
                    Some(acting) => Box::pin(Self::open_case(around, acting)).await,
                    None => Ok(None),
                };
                let (answer, time) = match opened {
                    Ok(opened) => {
                        case = opened;
                        let call = self.call(around, permit, step.timeout(), index, end);
                        let (answer, time, report) = if span.is_disabled() {
                            call.await?
                        } else {
                            Box::pin(call.instrument(span)).await?
                        };
                        if let Some(case) = &mut case {
                            case.attach(confinement(&chosen.adapter));
                            case.attach(report.map(|report| *report).unwrap_or_default());
                        }
                        (answer, time)
                    }
                    Err(refused) => (Err(refused), Duration::ZERO),
                };
                let answer =
                    answer.and_then(|output| conforming(&around.law, act, output, holds_secrets));
                let how = kind_of(&answer);
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
        self.record_result(&result, time)?;
        self.results.push(result);
        self.judge(around)?;
        let rejected = how == "ok" && self.recorder.run().phase() == Phase::Refused;
        let how = if rejected { "operational" } else { how };
        around.metrics.step_ended(adapter_id, how, time);
        self.complete_step(index)?;
        Ok(Pace::Goes)
    }

    /// Makes a call: on disk before, if it may have effects.
    pub(super) async fn call(
        &mut self,
        around: &Surroundings,
        permit: Permit<'_>,
        timeout: Option<Duration>,
        index: usize,
        end: Option<Instant>,
    ) -> Result<Called, Broken> {
        // What a call may ask for is done outside, too.
        let asks =
            !permit.is_dry_run() && around.law.sources.contains_key(permit.adapter().adapter_id());
        if permit.effects() == Effects::External || asks {
            self.recorder.commit().await?;
        }
        let run_id = &self.recorder.header().run_id;
        let mut call_id = String::with_capacity(run_id.len() + 4);
        // Writing to a string does not fail.
        let _ = write!(call_id, "{run_id}/{index}");
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
            Box::pin(self.call_and_answer(around, permit, patience)).await
        } else {
            let recorder = &mut self.recorder;
            around.host.call(permit, patience, || recorder.flush()).await
        };
        drop(listening);
        Ok((answered.answer, answered.time, answered.report))
    }

    /// Makes a call of an adapter that was given sources, and answers what it asks meanwhile.
    async fn call_and_answer(
        &self,
        around: &Surroundings,
        permit: Permit<'_>,
        patience: Patience<'_>,
    ) -> Answered {
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
        let call = around.host.call(permit, given, || ());
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
        Answered { report: Some(Box::new(retrieving.take_log().report())), ..answered }
    }

    /// Makes the result that is recorded and answered: free of secrets.
    fn result(
        &self,
        step_id: String,
        answer: Result<Object, AdapterError>,
        secrets: &Secrets,
    ) -> StepResult {
        let simulated = self.mode == Mode::DryRun;
        match answer {
            Ok(mut output) => {
                output.insert("adapter_id", self.called.as_str());
                let output = secrets.redact_object(&output).unwrap_or(output);
                let status = StepStatus::Ok;
                StepResult { step_id, status, simulated, output, error: None, signals: None }
            }
            Err(error) => {
                let mut error = StepError::of(error);
                if let Some(shown) = secrets.redact_text(&error.code) {
                    error.code = shown;
                }
                if let Some(message) = secrets.redact_text(&error.message) {
                    error.message = message;
                }
                let asked = Asked::take(&mut error);
                if let Some(details) = secrets.redact_object(&error.details) {
                    error.details = details;
                }
                asked.put_back(&mut error, secrets);
                let status = StepStatus::Error;
                let (output, error) = (Object::new(), Some(error));
                StepResult { step_id, status, simulated, output, error, signals: None }
            }
        }
    }

    pub(super) fn record_result(
        &mut self,
        result: &StepResult,
        time: Duration,
    ) -> Result<(), Illegal> {
        let duration_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (step_id, adapter_id) = (&result.step_id, &self.called);
        self.recorder.record(&match &result.error {
            None => Payload::ToolCallSucceeded {
                step_id,
                simulated: result.simulated,
                output: &result.output,
                adapter_id,
                duration_ms,
            },
            Some(error) => Payload::ToolCallFailed {
                step_id,
                error_kind: error.kind_name(),
                error_code: &error.code,
                message: &error.message,
                details: &error.details,
                adapter_id,
                duration_ms,
            },
        })
    }

    pub(super) fn complete_step(&mut self, index: usize) -> Result<(), Illegal> {
        let failed = !matches!(self.recorder.run().phase(), Phase::Answered | Phase::Evaluated);
        let status = if failed { StepStatus::Error } else { StepStatus::Ok };
        let step_id = Arc::clone(&self.recorder.run().plan()[index]);
        self.recorder.record(&Payload::StepCompleted { step_id: &step_id, status: status.name() })
    }
}

/// What came of a call, how long it took, and what the router knows of it besides.
pub(super) type Called = (Result<Object, AdapterError>, Duration, Option<Box<Report>>);

/// Returns the word of metrics for an answer.
fn kind_of(answer: &Result<Object, AdapterError>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(error) if error.kind == ErrorKind::Bug => "bug",
        Err(_) => "operational",
    }
}

/// Says whether nothing was executed because it could not be confined.
fn unconfined(result: &StepResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == envoy::UNAVAILABLE)
}

/// What a call asks its caller. A question may ask for a password by its name, and the state of an adapter may
/// look like a token; neither is one, and both must come back as they are.
#[derive(Default)]
struct Asked {
    requests: Option<Value>,
    state: Option<Value>,
}

impl Asked {
    fn take(error: &mut StepError) -> Self {
        if error.code != code::INPUT_REQUIRED {
            return Self::default();
        }
        Self { requests: error.details.remove("requests"), state: error.details.remove("state") }
    }

    fn put_back(self, error: &mut StepError, secrets: &Secrets) {
        if let Some(requests) = self.requests {
            error.details.insert("requests", secrets.redact_texts(&requests));
        }
        if let Some(Value::String(state)) = self.state {
            let state = secrets.replace_known_text(&state).unwrap_or(state);
            error.details.insert("state", state);
        }
    }
}

/// Refuses an output that is not what the adapter promised. What the call did, it did.
/// An output may repeat secrets of the arguments; then the error names only places.
fn conforming(
    law: &Law,
    act: Act<'_>,
    output: Object,
    holds_secrets: bool,
) -> Result<Object, AdapterError> {
    let output = of_role(law, act, output)?;
    let Err(misfit) = law.check_output(act, &output) else { return Ok(output) };
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

//! What our own events say: one variant per kind, and its canonical text.

use std::borrow::Cow;

use super::object_text::{ObjectText, write_array};
use super::output_digest::OutputDigest;
use super::{Fact, Failure, Kind, Planned, PlannedStep, Requested, Started, ToolCallRetry};
use crate::approval::Decision;
use crate::digest::Digest;
use crate::json::{self, Object, Value};

/// The payload of an event that we write. All texts and values in it are free of secrets already.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// The run exists.
    RunStarted {
        /// `dry_run` or `apply`.
        mode: &'a str,
        /// What the run is for.
        goal: &'a str,
        /// The request's other members as recorded, without goal and plan.
        request: &'a Object,
        /// Whether steps go on after one that failed, as the request says.
        continues_on_error: bool,
        /// Who asked for it, if that is known.
        caller: Option<&'a Object>,
        /// The trace that it is a part of, if there is one.
        trace_id: Option<&'a str>,
    },
    /// The plan is fixed.
    PlanCreated {
        /// The steps as recorded.
        plan: &'a [&'a Object],
        /// Where it comes from.
        source: PlanSource,
        /// Whether secrets were taken out of it, so that it cannot be carried out from the record.
        redacted: bool,
    },
    /// An adapter was chosen.
    DispatchSelected {
        /// The adapter.
        adapter_id: &'a str,
        /// Its kind.
        adapter_kind: &'a str,
        /// What it declares, sorted.
        capabilities: &'a [&'a str],
        /// Who chose it: `step`, `request` or `default`.
        selection_source: &'a str,
        /// The digest of its library.
        library: Option<Digest>,
        /// Where it runs.
        place: &'a Place<'a>,
    },
    /// A step begins.
    StepStarted {
        /// The step.
        step_id: &'a str,
    },
    /// A person is asked about a call.
    ApprovalRequested {
        /// The step.
        step_id: &'a str,
        /// The question.
        approval_id: &'a str,
        /// The adapter that is to be called.
        adapter_id: &'a str,
        /// Tool, method and arguments as recorded.
        call: &'a Object,
        /// What the plan grants to the call beyond the role of its caller.
        grants: &'a [Value],
        /// The digest of the arguments as recorded, and of what the plan grants.
        args_digest: &'a str,
        /// The version of the law that asks.
        policy_version: &'a str,
        /// The id of the rule of that law.
        rule: &'a str,
        /// The decision of the policy, as canonical JSON text.
        policy_decision: Option<&'a str>,
        /// Why it is asked, in the operator's words.
        reason: Option<&'a str>,
        /// Who wants the call made, if that is known.
        caller: Option<&'a Object>,
        /// Until when it may be answered, and the answer be used.
        expires_at: &'a str,
        /// For how long the run has been under way.
        under_way_ms: u64,
    },
    /// A question is settled.
    ApprovalDecided {
        /// The step.
        step_id: &'a str,
        /// The question.
        approval_id: &'a str,
        /// How it was settled.
        decision: Decision,
        /// Who settled it.
        by: Option<&'a str>,
        /// Why, in their words.
        reason: Option<&'a str>,
    },
    /// A call is about to be made.
    ToolCallRequested {
        /// The step.
        step_id: &'a str,
        /// Tool, method and arguments as recorded.
        call: &'a Object,
        /// The adapter.
        adapter_id: &'a str,
        /// What the adapter declares, sorted.
        adapter_capabilities: &'a [&'a str],
        /// How often it was requested, this time included.
        attempt: u64,
        /// The decision of the policy, as canonical JSON text.
        policy_decision: Option<&'a str>,
    },
    /// A call failed, and its contract lets it be made once more.
    ToolCallRetried {
        /// The step.
        step_id: &'a str,
        /// The adapter.
        adapter_id: &'a str,
        /// The number of the attempt that begins, from 2.
        attempt: u64,
        /// The pause before it.
        delay_ms: u64,
        /// The stable code of the attempt before.
        error_code: &'a str,
        /// What went wrong in the attempt before.
        message: &'a str,
    },
    /// A call was answered.
    ToolCallSucceeded {
        /// The step.
        step_id: &'a str,
        /// Whether nothing was really done.
        simulated: bool,
        /// The answer as recorded.
        output: &'a Object,
        /// The digest of an answer that the record has no room for.
        output_digest: Option<OutputDigest>,
        /// The adapter.
        adapter_id: &'a str,
        /// How long the call took.
        duration_ms: u64,
    },
    /// A call failed, or was denied.
    ToolCallFailed {
        /// The step.
        step_id: &'a str,
        /// `operational` or `bug`.
        error_kind: &'a str,
        /// The stable code.
        error_code: &'a str,
        /// What went wrong.
        message: &'a str,
        /// What else is known.
        details: &'a Object,
        /// The output as recorded, if the adapter gave one with the failure.
        output: Option<&'a Object>,
        /// The digest of an output that the record has no room for.
        output_digest: Option<OutputDigest>,
        /// The adapter.
        adapter_id: &'a str,
        /// How long the call took.
        duration_ms: u64,
    },
    /// What a call gave was held to a signal contract, and a policy decided.
    SignalsEvaluated {
        /// The step.
        step_id: &'a str,
        /// What came of it, with the whole contract.
        adapter_evaluation: &'a Object,
        /// What the decision was made by.
        policy_snapshot: &'a Object,
        /// What is to be done, and why.
        decision: &'a Object,
    },
    /// A step is over.
    StepCompleted {
        /// The step.
        step_id: &'a str,
        /// `ok` or `error`.
        status: &'a str,
    },
    /// The record of what was done, as [`Provenance`](super::Provenance) writes it.
    ProvenanceEmitted(&'a str),
    /// The run ended well.
    RunCompleted,
    /// The run ended badly.
    RunFailed(&'a Failure),
}

/// Where an adapter runs, and how it is confined there.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// `worker` or `inline`.
    pub isolation: &'a str,
    /// `full`, `partial` or `none`.
    pub confinement: &'a str,
    /// The version of Landlock that is in force; only workers have one.
    pub landlock: Option<u32>,
    /// What the kernel lacks for it.
    pub missing: &'a [&'a str],
    /// What it may reach, by kind.
    pub grants: &'a Object,
}

/// Where a plan comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// The request has it.
    Request,
    /// The request has none, which digests differently from an empty one.
    None,
    /// It was not recorded before the run was interrupted.
    Lost,
}

impl Payload<'_> {
    /// Returns the kind of event that carries this payload.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::RunStarted { .. } => Kind::RunStarted,
            Self::PlanCreated { .. } => Kind::PlanCreated,
            Self::DispatchSelected { .. } => Kind::DispatchSelected,
            Self::StepStarted { .. } => Kind::StepStarted,
            Self::ApprovalRequested { .. } => Kind::ApprovalRequested,
            Self::ApprovalDecided { .. } => Kind::ApprovalDecided,
            Self::ToolCallRequested { .. } => Kind::ToolCallRequested,
            Self::ToolCallRetried { .. } => Kind::ToolCallRetried,
            Self::ToolCallSucceeded { .. } => Kind::ToolCallSucceeded,
            Self::ToolCallFailed { .. } => Kind::ToolCallFailed,
            Self::SignalsEvaluated { .. } => Kind::SignalsEvaluated,
            Self::StepCompleted { .. } => Kind::StepCompleted,
            Self::ProvenanceEmitted(_) => Kind::ProvenanceEmitted,
            Self::RunCompleted => Kind::RunCompleted,
            Self::RunFailed(_) => Kind::RunFailed,
        }
    }

    /// Returns what it means for the run; the same as reading it back.
    #[must_use]
    pub fn fact(&self) -> Fact<'_> {
        fn some(text: &str) -> Option<Cow<'_, str>> {
            Some(Cow::Borrowed(text))
        }
        match self {
            Self::RunStarted { mode, goal, continues_on_error, .. } => Fact::RunStarted(Started {
                mode: some(mode),
                goal: some(goal),
                router_version: some(env!("CARGO_PKG_VERSION")),
                continues_on_error: *continues_on_error,
            }),
            Self::PlanCreated { plan, .. } => {
                let steps = plan.iter().map(|step| PlannedStep {
                    step_id: step.get("step_id").and_then(Value::as_str).map(Cow::from),
                });
                Fact::PlanCreated(Planned { steps: steps.collect() })
            }
            Self::DispatchSelected { adapter_id, .. } => {
                Fact::DispatchSelected { adapter_id: some(adapter_id) }
            }
            Self::StepStarted { step_id } => Fact::StepStarted { step_id: some(step_id) },
            Self::ApprovalRequested { step_id, approval_id, .. } => {
                Fact::ApprovalRequested { step_id: some(step_id), approval_id: some(approval_id) }
            }
            Self::ApprovalDecided { step_id, approval_id, decision, .. } => Fact::ApprovalDecided {
                step_id: some(step_id),
                approval_id: some(approval_id),
                decision: some(decision.name()),
            },
            Self::ToolCallRequested { step_id, call, attempt, .. } => {
                Fact::ToolCallRequested(Requested {
                    step_id: some(step_id),
                    method: call.get("method").and_then(Value::as_str).map(Cow::from),
                    attempt: *attempt,
                })
            }
            Self::ToolCallRetried { step_id, attempt, .. } => {
                Fact::ToolCallRetried(ToolCallRetry { step_id: some(step_id), attempt: *attempt })
            }
            Self::ToolCallSucceeded { step_id, .. } => {
                Fact::ToolCallSucceeded { step_id: some(step_id) }
            }
            Self::ToolCallFailed { step_id, .. } => Fact::ToolCallFailed { step_id: some(step_id) },
            Self::SignalsEvaluated { step_id, decision, .. } => Fact::SignalsEvaluated {
                step_id: some(step_id),
                action: decision.get("action").and_then(Value::as_str).map(Cow::from),
            },
            Self::StepCompleted { step_id, status } => {
                Fact::StepCompleted { step_id: some(step_id), status: some(status) }
            }
            Self::ProvenanceEmitted(_) => Fact::ProvenanceEmitted,
            Self::RunCompleted => Fact::RunCompleted { outcome: some("ok") },
            Self::RunFailed(failure) => Fact::RunFailed { reason: some(failure.reason()) },
        }
    }

    /// Appends the canonical text.
    pub fn write(&self, out: &mut String) {
        let mut object = ObjectText::open(out);
        match self {
            Self::RunStarted { mode, goal, request, caller, trace_id, .. } => {
                if let Some(caller) = caller {
                    object.object("caller", caller);
                }
                object.text("goal", goal).text("mode", mode).object("request", request);
                object.text("router_version", env!("CARGO_PKG_VERSION"));
                if let Some(trace_id) = trace_id {
                    object.text("trace_id", trace_id);
                }
            }
            Self::PlanCreated { plan, source, redacted } => {
                object.field("plan", |out| {
                    write_array(out, plan, |out, step| json::write_canonical_object(out, step));
                });
                if *redacted {
                    object.flag("redacted", true);
                }
                match source {
                    PlanSource::Request => {}
                    PlanSource::None => {
                        object.text("source", "none");
                    }
                    PlanSource::Lost => {
                        object.text("source", "lost");
                    }
                }
            }
            Self::DispatchSelected {
                adapter_id,
                adapter_kind,
                capabilities,
                selection_source,
                library,
                place,
            } => {
                object.text("adapter_id", adapter_id).text("adapter_kind", adapter_kind);
                object.texts("capabilities", capabilities);
                object.text("confinement", place.confinement);
                if !place.grants.is_empty() {
                    object.object("grants", place.grants);
                }
                object.text("isolation", place.isolation);
                if let Some(landlock) = place.landlock {
                    object.number("landlock", landlock.into());
                }
                if let Some(library) = library {
                    object.digest("library", *library);
                }
                if !place.missing.is_empty() {
                    object.texts("missing", place.missing);
                }
                object.text("selection_source", selection_source);
            }
            Self::StepStarted { step_id } => {
                object.text("step_id", step_id);
            }
            Self::ApprovalRequested {
                step_id,
                approval_id,
                adapter_id,
                call,
                grants,
                args_digest,
                policy_version,
                rule,
                policy_decision,
                reason,
                caller,
                expires_at,
                under_way_ms,
            } => {
                object.text("adapter_id", adapter_id).text("approval_id", approval_id);
                object.text("args_digest", args_digest).object("call", call);
                if let Some(caller) = caller {
                    object.object("caller", caller);
                }
                if let Some(decision) = policy_decision {
                    object.field("decision", |out| out.push_str(decision));
                }
                object.text("expires_at", expires_at);
                if !grants.is_empty() {
                    object.field("grants", |out| write_array(out, grants, json::write_canonical));
                }
                object.text("policy_version", policy_version);
                if let Some(reason) = reason {
                    object.text("reason", reason);
                }
                object.text("rule", rule).text("step_id", step_id);
                object.number("under_way_ms", *under_way_ms);
            }
            Self::ApprovalDecided { step_id, approval_id, decision, by, reason } => {
                object.text("approval_id", approval_id).text_or_null("by", *by);
                object.text("decision", decision.name()).text_or_null("reason", *reason);
                object.text("step_id", step_id);
            }
            Self::ToolCallRequested {
                step_id,
                call,
                adapter_id,
                adapter_capabilities,
                attempt,
                policy_decision,
            } => {
                object.texts("adapter_capabilities", adapter_capabilities);
                object.text("adapter_id", adapter_id);
                if *attempt > 1 {
                    object.number("attempt", *attempt);
                }
                object.object("call", call);
                if let Some(decision) = policy_decision {
                    object.field("decision", |out| out.push_str(decision));
                }
                object.text("step_id", step_id);
            }
            Self::ToolCallRetried {
                step_id,
                adapter_id,
                attempt,
                delay_ms,
                error_code,
                message,
            } => {
                object.text("adapter_id", adapter_id).number("attempt", *attempt);
                object.number("delay_ms", *delay_ms).text("error_code", error_code);
                object.text("message", message).text("step_id", step_id);
            }
            Self::ToolCallSucceeded {
                step_id,
                simulated,
                output,
                output_digest,
                adapter_id,
                duration_ms,
            } => {
                object.text("adapter_id", adapter_id).number("duration_ms", *duration_ms);
                object.object("output", output);
                if let Some(digest) = output_digest {
                    object.object("output_digest", &digest.to_json());
                }
                object.flag("simulated", *simulated).text("step_id", step_id);
            }
            Self::ToolCallFailed {
                step_id,
                error_kind,
                error_code,
                message,
                details,
                output,
                output_digest,
                adapter_id,
                duration_ms,
            } => {
                object.text("adapter_id", adapter_id).object("details", details);
                object.number("duration_ms", *duration_ms).text("error_code", error_code);
                object.text("error_kind", error_kind).text("message", message);
                if let Some(output) = output {
                    object.object("output", output);
                }
                if let Some(digest) = output_digest {
                    object.object("output_digest", &digest.to_json());
                }
                object.text("step_id", step_id);
            }
            Self::SignalsEvaluated { step_id, adapter_evaluation, policy_snapshot, decision } => {
                object.object("adapter_evaluation", adapter_evaluation);
                object.object("decision", decision).object("policy_snapshot", policy_snapshot);
                object.text("step_id", step_id);
            }
            Self::StepCompleted { step_id, status } => {
                object.text("status", status).text("step_id", step_id);
            }
            Self::ProvenanceEmitted(provenance) => {
                object.field("provenance", |out| out.push_str(provenance));
            }
            Self::RunCompleted => {
                object.text("outcome", "ok");
            }
            Self::RunFailed(failure) => failure.write(&mut object),
        }
        object.close();
    }
}

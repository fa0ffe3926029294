//! Events: the kinds, what each means for a run, and the line in which one is stored.
//!
//! A stored event is one line of canonical JSON with the members `event_id`, `payload`, `run_id`, `seq`,
//! `ts` and `type`. A payload only ever gains members: what was written once can be read for ever.

mod failure;
mod line;
mod object_text;
mod output_digest;
mod payload;
mod provenance;

use std::borrow::Cow;

use serde::Deserialize;

pub use failure::Failure;
pub use line::{Line, LineError};
pub use output_digest::OutputDigest;
pub use payload::{Payload, Place, PlanSource};
pub use provenance::Provenance;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the specification")]
pub enum Kind {
    RunStarted,
    PlanCreated,
    DispatchSelected,
    StepStarted,
    ApprovalRequested,
    ApprovalDecided,
    ToolCallRequested,
    ToolCallRetried,
    ToolCallSucceeded,
    ToolCallFailed,
    SignalsEvaluated,
    StepCompleted,
    ProvenanceEmitted,
    RunCompleted,
    RunFailed,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::RunStarted,
        Self::PlanCreated,
        Self::DispatchSelected,
        Self::StepStarted,
        Self::ApprovalRequested,
        Self::ApprovalDecided,
        Self::ToolCallRequested,
        Self::ToolCallRetried,
        Self::ToolCallSucceeded,
        Self::ToolCallFailed,
        Self::SignalsEvaluated,
        Self::StepCompleted,
        Self::ProvenanceEmitted,
        Self::RunCompleted,
        Self::RunFailed,
    ];

    /// Returns the name in stored events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunStarted => "RUN_STARTED",
            Self::PlanCreated => "PLAN_CREATED",
            Self::DispatchSelected => "DISPATCH_SELECTED",
            Self::StepStarted => "STEP_STARTED",
            Self::ApprovalRequested => "APPROVAL_REQUESTED",
            Self::ApprovalDecided => "APPROVAL_DECIDED",
            Self::ToolCallRequested => "TOOL_CALL_REQUESTED",
            Self::ToolCallRetried => "TOOL_CALL_RETRIED",
            Self::ToolCallSucceeded => "TOOL_CALL_SUCCEEDED",
            Self::ToolCallFailed => "TOOL_CALL_FAILED",
            Self::SignalsEvaluated => "SIGNALS_EVALUATED",
            Self::StepCompleted => "STEP_COMPLETED",
            Self::ProvenanceEmitted => "PROVENANCE_EMITTED",
            Self::RunCompleted => "RUN_COMPLETED",
            Self::RunFailed => "RUN_FAILED",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Says whether this kind ends a run.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::RunCompleted | Self::RunFailed)
    }
}

/// What an event means for the state of its run. The rest of its payload is for people and auditors.
///
/// Members that a foreign log may lack are optional here; the events that we write have them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// The run exists.
    RunStarted(Started<'a>),
    /// The plan is fixed.
    PlanCreated(Planned<'a>),
    /// An adapter was chosen for one or more steps.
    DispatchSelected {
        /// The adapter.
        adapter_id: Option<Cow<'a, str>>,
    },
    /// A step begins.
    StepStarted {
        /// The step.
        step_id: Option<Cow<'a, str>>,
    },
    /// A person is asked about a call.
    ApprovalRequested {
        /// The step.
        step_id: Option<Cow<'a, str>>,
        /// The question.
        approval_id: Option<Cow<'a, str>>,
    },
    /// A question is settled.
    ApprovalDecided {
        /// The step.
        step_id: Option<Cow<'a, str>>,
        /// The question.
        approval_id: Option<Cow<'a, str>>,
        /// The name of the decision.
        decision: Option<Cow<'a, str>>,
    },
    /// A call is about to be made.
    ToolCallRequested(Requested<'a>),
    /// A call failed, and its contract lets it be made once more.
    ToolCallRetried(ToolCallRetry<'a>),
    /// A call was answered.
    ToolCallSucceeded {
        /// The step.
        step_id: Option<Cow<'a, str>>,
    },
    /// A call failed, or was denied.
    ToolCallFailed {
        /// The step.
        step_id: Option<Cow<'a, str>>,
    },
    /// What a call gave was held to a signal contract, and a policy decided.
    SignalsEvaluated {
        /// The step.
        step_id: Option<Cow<'a, str>>,
        /// The name of what is to be done.
        action: Option<Cow<'a, str>>,
    },
    /// A step is over.
    StepCompleted {
        /// The step.
        step_id: Option<Cow<'a, str>>,
        /// `ok` or `error`.
        status: Option<Cow<'a, str>>,
    },
    /// The record of what was done is written.
    ProvenanceEmitted,
    /// The run ended well.
    RunCompleted {
        /// `ok`.
        outcome: Option<Cow<'a, str>>,
    },
    /// The run ended badly.
    RunFailed {
        /// Why, in one word.
        reason: Option<Cow<'a, str>>,
    },
}

/// What matters of `RUN_STARTED`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Started<'a> {
    /// `dry_run` or `apply`.
    #[serde(borrow, default)]
    pub mode: Option<Cow<'a, str>>,
    /// What the run is for.
    #[serde(borrow, default)]
    pub goal: Option<Cow<'a, str>>,
    /// The version of the router that wrote it. The Python router does not say.
    #[serde(borrow, default)]
    pub router_version: Option<Cow<'a, str>>,
    /// Whether steps go on after one that failed.
    #[serde(default, rename = "request", deserialize_with = "on_error_of")]
    pub continues_on_error: bool,
}

/// What matters of `PLAN_CREATED`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Planned<'a> {
    /// The ids of the steps, in order.
    #[serde(borrow, default, rename = "plan")]
    pub steps: Vec<PlannedStep<'a>>,
}

/// A step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PlannedStep<'a> {
    /// Its id.
    #[serde(borrow, default)]
    pub step_id: Option<Cow<'a, str>>,
}

/// What matters of `TOOL_CALL_REQUESTED`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Requested<'a> {
    /// The step.
    #[serde(borrow, default)]
    pub step_id: Option<Cow<'a, str>>,
    /// The method that is called.
    #[serde(borrow, default, rename = "call", deserialize_with = "method_of")]
    pub method: Option<Cow<'a, str>>,
    /// How often it was requested, this time included.
    #[serde(default = "once")]
    pub attempt: u64,
}

/// Payload of `TOOL_CALL_RETRIED`, as replay reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ToolCallRetry<'a> {
    /// The step.
    #[serde(borrow, default)]
    pub step_id: Option<Cow<'a, str>>,
    /// The number of the attempt that begins; the first one has no event of its own.
    #[serde(default)]
    pub attempt: u64,
}

const fn once() -> u64 {
    1
}

fn method_of<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, default)]
        method: Option<Cow<'a, str>>,
    }
    Ok(Call::deserialize(deserializer)?.method)
}

fn on_error_of<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow, default)]
        policy: Policy<'a>,
    }
    #[derive(Default, Deserialize)]
    struct Policy<'a> {
        #[serde(borrow, default)]
        on_error: Option<Cow<'a, str>>,
    }
    let request = Request::deserialize(deserializer)?;
    Ok(request.policy.on_error.as_deref() == Some("continue"))
}

/// What matters of a payload that is about a step.
#[derive(Deserialize)]
struct OfStep<'a> {
    #[serde(borrow, default)]
    step_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Completed<'a> {
    #[serde(borrow, default)]
    step_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Evaluated<'a> {
    #[serde(borrow, default)]
    step_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    decision: Decided<'a>,
}

#[derive(Default, Deserialize)]
struct Decided<'a> {
    #[serde(borrow, default)]
    action: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow, default)]
    step_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    approval_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow, default)]
    step_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    approval_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    decision: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Chosen<'a> {
    #[serde(borrow, default)]
    adapter_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Ended<'a> {
    #[serde(borrow, default)]
    outcome: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Failed<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

impl<'a> Fact<'a> {
    /// Reads what matters of a payload's text.
    ///
    /// # Errors
    /// When the text is not a JSON object, or a member that matters has another type.
    pub fn read(kind: Kind, payload: &'a str) -> Result<Self, serde_json::Error> {
        // serde would take an array for a struct.
        if !payload.trim_start().starts_with('{') {
            return Err(serde::de::Error::custom("the payload is not an object"));
        }
        let of_step = || serde_json::from_str::<OfStep<'a>>(payload).map(|read| read.step_id);
        Ok(match kind {
            Kind::RunStarted => Self::RunStarted(serde_json::from_str(payload)?),
            Kind::PlanCreated => Self::PlanCreated(serde_json::from_str(payload)?),
            Kind::DispatchSelected => {
                let Chosen { adapter_id } = serde_json::from_str(payload)?;
                Self::DispatchSelected { adapter_id }
            }
            Kind::StepStarted => Self::StepStarted { step_id: of_step()? },
            Kind::ApprovalRequested => {
                let Question { step_id, approval_id } = serde_json::from_str(payload)?;
                Self::ApprovalRequested { step_id, approval_id }
            }
            Kind::ApprovalDecided => {
                let Asked { step_id, approval_id, decision } = serde_json::from_str(payload)?;
                Self::ApprovalDecided { step_id, approval_id, decision }
            }
            Kind::ToolCallRequested => Self::ToolCallRequested(serde_json::from_str(payload)?),
            Kind::ToolCallRetried => Self::ToolCallRetried(serde_json::from_str(payload)?),
            Kind::ToolCallSucceeded => Self::ToolCallSucceeded { step_id: of_step()? },
            Kind::ToolCallFailed => Self::ToolCallFailed { step_id: of_step()? },
            Kind::SignalsEvaluated => {
                let Evaluated { step_id, decision } = serde_json::from_str(payload)?;
                Self::SignalsEvaluated { step_id, action: decision.action }
            }
            Kind::StepCompleted => {
                let Completed { step_id, status } = serde_json::from_str(payload)?;
                Self::StepCompleted { step_id, status }
            }
            Kind::ProvenanceEmitted => {
                of_step()?;
                Self::ProvenanceEmitted
            }
            Kind::RunCompleted => {
                let Ended { outcome } = serde_json::from_str(payload)?;
                Self::RunCompleted { outcome }
            }
            Kind::RunFailed => {
                let Failed { reason } = serde_json::from_str(payload)?;
                Self::RunFailed { reason }
            }
        })
    }

    /// Returns the kind of event that says this.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::RunStarted(_) => Kind::RunStarted,
            Self::PlanCreated(_) => Kind::PlanCreated,
            Self::DispatchSelected { .. } => Kind::DispatchSelected,
            Self::StepStarted { .. } => Kind::StepStarted,
            Self::ApprovalRequested { .. } => Kind::ApprovalRequested,
            Self::ApprovalDecided { .. } => Kind::ApprovalDecided,
            Self::ToolCallRequested(_) => Kind::ToolCallRequested,
            Self::ToolCallRetried(_) => Kind::ToolCallRetried,
            Self::ToolCallSucceeded { .. } => Kind::ToolCallSucceeded,
            Self::ToolCallFailed { .. } => Kind::ToolCallFailed,
            Self::SignalsEvaluated { .. } => Kind::SignalsEvaluated,
            Self::StepCompleted { .. } => Kind::StepCompleted,
            Self::ProvenanceEmitted => Kind::ProvenanceEmitted,
            Self::RunCompleted { .. } => Kind::RunCompleted,
            Self::RunFailed { .. } => Kind::RunFailed,
        }
    }
}

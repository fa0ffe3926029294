//! The gate: which adapter carries out a step, and whether the call may be made at all.
//!
//! Only [`admit`] makes a [`Permit`], and nothing is called without one.

mod asking;
mod filled;
mod permit;
mod plan_grants;
mod secrets;
mod witness;

use nexus_router_sdk::{AdapterError, Capability, Catalog};

use crate::approval::{Approval, ArgumentKey};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::conform::Misfit;
use crate::event::Failure;
use crate::json::{Object, Value};
use crate::loader::Adapter;
use crate::policy::{Act, CallInput, CallerReach, DecisionText, Denial, Judgement, Law};
use crate::registry::Registry;
use crate::request::{Dispatch, Mode, Policy, Step};
use crate::role::ActionClass;
use crate::secret::Secrets;
use asking::Settled;
use filled::{FilledStep, too_many_defaults};
use permit::{held, permit};
use secrets::ArgsAuthor;

pub use asking::Question;
pub use permit::{Effects, Permit};
pub use witness::{Denied, Witness};

/// Who chose an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The step names it.
    Step,
    /// The request names it.
    Request,
    /// It is the default.
    Default,
}

impl Source {
    /// Returns the name in events and responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Request => "request",
            Self::Default => "default",
        }
    }
}

/// An adapter that was chosen.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The adapter.
    pub adapter: Adapter,
    /// Who chose it.
    pub source: Source,
    /// What it declares, sorted by name.
    pub capabilities: Vec<&'static str>,
}

/// The adapters of a run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Each adapter once, in order of first use.
    pub adapters: Vec<Selected>,
    /// For each step, which of them.
    pub of_step: Vec<usize>,
}

/// Chooses an adapter for every step, before the first call. A plan without steps gets the request's.
///
/// # Errors
/// When an adapter is unknown or lacks a capability that is asked for. The error names only adapters in the
/// caller's reach.
pub fn select(
    registry: &Registry,
    default_adapter_id: &str,
    request: Dispatch<'_>,
    plan: &[Step],
    reach: CallerReach<'_>,
) -> Result<Selection, Failure> {
    let mut adapters: Vec<Selected> = Vec::with_capacity(1);
    let mut choose = |step: Option<&Step>| {
        let own = step.map(Step::dispatch);
        let (adapter_id, source) = match (own.and_then(Dispatch::adapter_id), request.adapter_id())
        {
            (Some(id), _) => (id, Source::Step),
            (None, Some(id)) => (id, Source::Request),
            (None, None) => {
                let tool = step.and_then(|step| registry.unaddressed_unavailability(step.tool()));
                if let Some(unavailable) = tool {
                    return Err(unavailable.failure());
                }
                (default_adapter_id, Source::Default)
            }
        };
        let known = adapters.iter().position(|one| one.adapter.adapter_id() == adapter_id);
        let index = match known {
            Some(index) => index,
            None => {
                adapters.push(find(registry, (adapter_id, source), reach)?);
                adapters.len() - 1
            }
        };
        let wanted = own.into_iter().flat_map(Dispatch::require_capabilities);
        for capability in request.require_capabilities().chain(wanted) {
            require(&adapters[index], capability)?;
        }
        Ok(index)
    };
    let of_step = match plan {
        [] => choose(None).map(|_| Vec::new())?,
        steps => steps.iter().map(|step| choose(Some(step))).collect::<Result<_, _>>()?,
    };
    Ok(Selection { adapters, of_step })
}

/// Chooses the adapter of a source.
///
/// # Errors
/// When it is not there.
pub fn select_source(
    registry: &Registry,
    adapter_id: &str,
    reach: CallerReach<'_>,
) -> Result<Selected, Failure> {
    find(registry, (adapter_id, Source::Step), reach)
}

fn find(
    registry: &Registry,
    (adapter_id, source): (&str, Source),
    reach: CallerReach<'_>,
) -> Result<Selected, Failure> {
    if let Some(unavailable) = registry.unavailability(adapter_id) {
        return Err(unavailable.failure());
    }
    let Ok(adapter) = registry.get(adapter_id) else {
        let ids = registry.adapters().map(|adapter| adapter.adapter_id());
        let available = ids.filter(|id| reach.shows(id)).map(Value::from).collect();
        let mut details = Object::new();
        details.insert("available_adapters", Value::Array(available));
        details.insert("requested_adapter_id", adapter_id);
        return Err(Failure::Selection {
            code: "UNKNOWN_ADAPTER",
            message: format!("Unknown adapter: '{adapter_id}'"),
            details,
        });
    };
    let mut capabilities: Vec<&'static str> =
        adapter.capabilities().iter().map(|capability| capability.name()).collect();
    capabilities.sort_unstable();
    Ok(Selected { adapter: adapter.clone(), source, capabilities })
}

fn require(selected: &Selected, capability: &str) -> Result<(), Failure> {
    if selected.capabilities.contains(&capability) {
        return Ok(());
    }
    let adapter_id = selected.adapter.adapter_id();
    let declared = selected.capabilities.iter().map(|name| Value::from(*name)).collect();
    let mut details = Object::new();
    details.insert("adapter_capabilities", Value::Array(declared));
    details.insert("adapter_id", adapter_id);
    details.insert("required_capability", capability);
    Err(Failure::Selection {
        code: "CAPABILITY_MISSING",
        message: format!("Adapter '{adapter_id}' lacks required capability: {capability}"),
        details,
    })
}

/// What the gate decides about a step.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// The call may be made.
    Call(Permit<'a>),
    /// The call is simulated.
    Simulate {
        /// Whether a person would be asked about the call.
        asks: bool,
        /// The call with the dry-run flag, if the caller wants one and the adapter declares `dry_run`.
        call: Option<Permit<'a>>,
    },
    /// The call may be made if a person says so; the run waits for that.
    Ask(Question),
    /// The call must not be made.
    Deny(AdapterError),
}

impl Verdict<'_> {
    /// Returns the permit of the call that the decision allows, simulated or not.
    pub(crate) const fn permit(&self) -> Option<&Permit<'_>> {
        match self {
            Self::Call(permit) | Self::Simulate { call: Some(permit), .. } => Some(permit),
            Self::Simulate { call: None, .. } | Self::Ask(_) | Self::Deny(_) => None,
        }
    }
}

/// What a decision rests on besides the step.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// Whether calls are made.
    pub mode: Mode,
    /// What the caller allows.
    pub policy: Policy,
    /// What the operator allows.
    pub law: &'a Law,
    /// Who asked.
    pub caller: Option<&'a Caller>,
    /// What arguments may refer to.
    pub secrets: &'a Secrets,
    /// What a person was asked about this step last, and what they said.
    pub approval: Option<&'a Approval>,
    /// The step as recorded, if redaction changed the plan.
    pub recorded: Option<&'a Object>,
    /// Keyed digests of the original arguments; used only when a rule asks for an approval.
    pub key: &'a dyn ArgumentKey,
    /// The present moment.
    pub now: Timestamp,
    /// The run's id.
    pub run_id: &'a str,
    /// The run's goal as recorded.
    pub goal: &'a str,
}

/// Decision of the gate, with the text of it that is recorded.
#[derive(Debug)]
pub struct Admission<'a> {
    /// The decision.
    pub verdict: Verdict<'a>,
    /// The effect, the rule and the policy. None if the router has no policy.
    pub decision: Option<DecisionText>,
    /// The step as recorded, with the defaults of its contract, if it lacked some.
    pub filled: Option<Object>,
}

/// Decides about one step. Rules and roles hold for simulations too, so that a dry run tells what would be
/// denied.
#[must_use]
pub fn admit<'a>(grounds: Grounds<'_>, selected: &'a Selected, step: &'a Step) -> Admission<'a> {
    admit_in(grounds, selected, step, None)
}

/// Decides about a call that a call under way asks for, in the class of its source. Everything that holds for steps
/// holds for it, except that the source itself is its offer.
#[must_use]
pub fn admit_source<'a>(
    grounds: Grounds<'_>,
    selected: &'a Selected,
    step: &'a Step,
    class: ActionClass,
) -> Admission<'a> {
    admit_in(grounds, selected, step, Some(class))
}

fn admit_in<'a>(
    grounds: Grounds<'_>,
    selected: &'a Selected,
    step: &'a Step,
    class: Option<ActionClass>,
) -> Admission<'a> {
    let mut rule = None;
    let act =
        Act { adapter_id: selected.adapter.adapter_id(), tool: step.tool(), method: step.method() };
    let (verdict, filled) = match FilledStep::of(grounds, act, step) {
        Ok(None) => (decide(grounds, (selected, step, step), class, &mut rule), None),
        Ok(Some(FilledStep { step: with_defaults, recorded })) => {
            let grounds = Grounds { recorded: Some(&recorded), ..grounds };
            let steps = (selected, step, &with_defaults);
            (decide(grounds, steps, class, &mut rule), Some(recorded))
        }
        Err(error) => (too_many_defaults(act, error), None),
    };
    let law = grounds.law;
    let decision = match &verdict {
        Verdict::Deny(denial) => law.denial_text(&denial.details, rule.flatten()),
        _ => law.decision_text(rule.flatten()),
    };
    Admission { verdict, decision, filled }
}

/// Decides about a call: `step` is the step `given` with the defaults of its contract. `rule` becomes the index of the rule
/// that allows it or asks; the inner none is the default.
fn decide<'a>(
    grounds: Grounds<'_>,
    (selected, given, step): (&'a Selected, &'a Step, &Step),
    class: Option<ActionClass>,
    rule: &mut Option<Option<usize>>,
) -> Verdict<'a> {
    let Grounds { mode, policy, law, caller, .. } = grounds;
    let adapter = &selected.adapter;
    let adapter_id = adapter.adapter_id();
    let act = Act { adapter_id, tool: step.tool(), method: step.method() };
    if (act.tool, act.method) == Catalog::CALL {
        let message = "Only the router asks adapters for their catalogues.".to_owned();
        return deny("PERMISSION_DENIED", message, serde_json::json!({ "denied_by": "operator" }));
    }
    if class.is_none()
        && let Err(Denial { code, message, details }) = law.judge_by_offer(caller, act, step.args())
    {
        return deny(code, message, details.to_serde().into());
    }
    // Only sources bring a class of their own.
    let author = if class.is_some() { ArgsAuthor::Operator } else { ArgsAuthor::Caller };
    let class = class.or_else(|| law.class_of(act));
    let input = CallInput {
        args: step.args(),
        run_id: grounds.run_id,
        goal: grounds.goal,
        mode,
        now: grounds.now,
    };
    let judgement = match law.judge_in(caller, (act, class), &input) {
        Ok(decision) => {
            *rule = Some(decision.rule);
            decision.judgement
        }
        Err(Denial { code, message, details }) => {
            return deny(code, message, details.to_serde().into());
        }
    };
    if let Err(refused) = plan_grants::judge(adapter, law, (act, class), step) {
        return Verdict::Deny(refused);
    }
    let args = match secrets::resolve(grounds, act, step.args(), author) {
        Ok(args) => args,
        Err(denial) => return Verdict::Deny(denial),
    };
    if mode == Mode::DryRun {
        let asks = judgement != Judgement::Allow;
        if let Err(misfit) = secrets::check_args(grounds, act, step, &args) {
            return unfit(act, &misfit);
        }
        // A simulated call may disclose data, so it needs the approval first.
        let declared = adapter.capabilities().contains(&Capability::DryRun);
        let calls = policy.simulate && declared && !asks;
        let call = calls.then(|| permit(law, adapter, (act, given), held(args, given)).simulated());
        return Verdict::Simulate { asks, call };
    }
    if !adapter.capabilities().contains(&Capability::Apply) {
        let message =
            format!("Adapter '{adapter_id}' lacks required capability 'apply' for apply mode");
        let details = serde_json::json!({
            "adapter_capabilities": selected.capabilities,
            "adapter_id": adapter_id,
            "denied_by": "capability",
            "required_capability": "apply",
        });
        return deny("CAPABILITY_MISSING", message, details);
    }
    if !law.apply {
        let message = "The operator does not allow apply (policy.apply=false).".to_owned();
        return deny("PERMISSION_DENIED", message, serde_json::json!({ "denied_by": "operator" }));
    }
    if !policy.allow_apply {
        let message = "Policy does not allow apply (allow_apply=false).".to_owned();
        let details = serde_json::json!({ "allow_apply": false, "denied_by": "policy" });
        return deny("PERMISSION_DENIED", message, details);
    }
    if let Err(misfit) = secrets::check_args(grounds, act, step, &args) {
        return unfit(act, &misfit);
    }
    // Nobody is asked about what would be denied anyway.
    match asking::settle(grounds, judgement, act, step) {
        Settled::Granted => Verdict::Call(permit(law, adapter, (act, given), held(args, given))),
        Settled::Ask(question) => Verdict::Ask(question),
        Settled::Refused { code, message, details } => deny(code, message, details),
    }
}

fn unfit(act: Act<'_>, misfit: &Misfit) -> Verdict<'static> {
    let Act { adapter_id, tool, method } = act;
    let message =
        format!("the arguments of {tool}.{method} of adapter '{adapter_id}' do not fit: {misfit}");
    let details = serde_json::json!({ "denied_by": "schema", "pointer": misfit.pointer });
    deny("ARGUMENTS_INVALID", message, details)
}

fn deny(code: &str, message: String, details: serde_json::Value) -> Verdict<'static> {
    Verdict::Deny(AdapterError::operational(code, message).details(details))
}

//! Evidence of steps that are carried out in a role: what may be done, before it is done; what came of it; what was
//! refused.

use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, ErrorKind};

use super::{Execution, Surroundings};
use crate::config::SourceEntry;
use crate::envoy::PlanGrant;
use crate::evidence::{self, Acting, Case, Given, Keeper, Permission, Planned, Rejection, Report};
use crate::gate::Selection;
use crate::grant::{Grants, Isolation};
use crate::json::{Object, Value};
use crate::loader::Adapter;
use crate::outcome::{StepError, StepResult, StepStatus, skipped};
use crate::policy::Act;
use crate::request::Step;
use crate::role::{ActionClass, Role};

/// The code of a call that was refused, or of an output that was, because there is no evidence of it.
const UNWRITABLE: &str = "EVIDENCE_UNWRITABLE";
/// The code of an output that is not that of its role.
pub(super) const ROLE_OUTPUT: &str = "ROLE_OUTPUT_INVALID";

impl Execution {
    /// Says in which class a step is carried out, and with what; nothing if it has none, or nothing is sealed.
    pub(super) fn acting(
        &self,
        around: &Surroundings,
        selection: &Selection,
        (step, call): (&Step, &Object),
        (index, attempt): (usize, u64),
    ) -> Option<Box<Acting>> {
        around.keeper.as_ref()?;
        let adapter = &selection.adapters[selection.of_step[index]].adapter;
        let adapter_id = adapter.adapter_id();
        let act = Act { adapter_id, tool: step.tool(), method: step.method() };
        let class = around.law.class_of(act)?;
        let interface = around.law.interfaces.get(adapter_id);
        let confined = adapter.confined();
        let args = call.get("args").and_then(Value::as_object);
        let described = adapter.envoy().zip(args).and_then(|(envoy, args)| {
            envoy.describe(class, args, &step.grants().map(PlanGrant::read_all).unwrap_or_default())
        });
        let grants = described.as_ref().map_or(&confined.grants, |(_, grants)| grants);
        let grants = granted(around, adapter_id, grants);
        Some(Box::new(Acting {
            run_id: self.recorder.header().run_id.clone(),
            step: index + 1,
            attempt,
            class,
            command: [adapter_id, step.tool(), step.method()].map(str::to_owned),
            call: call.clone(),
            native: around.law.roles.contains_key(adapter_id),
            library: adapter.digest(),
            interface: interface.map(|keeping| keeping.digest),
            timeout: step.timeout().unwrap_or(Duration::from_secs(300)),
            plan: Arc::clone(self.planned.get_or_init(|| self.planned(around, selection))),
            ordered: described.map(|(ordered, _)| ordered),
            isolation: confined.isolation.name(),
            grants,
            caller: self.origin.caller.as_ref().map(|caller| caller.name.clone()),
        }))
    }

    /// Makes the plan that evidence names: the steps that are carried out in a role, and what they are granted.
    fn planned(&self, around: &Surroundings, selection: &Selection) -> Arc<Planned> {
        let steps = self.plan.iter().enumerate().filter_map(|(index, step)| {
            let adapter_id = selection.adapters[selection.of_step[index]].adapter.adapter_id();
            let act = Act { adapter_id, tool: step.tool(), method: step.method() };
            Some((index + 1, around.law.class_of(act)?))
        });
        let steps: Vec<(usize, ActionClass)> = steps.collect();
        let granted = steps.iter().flat_map(|(number, _)| {
            let grants = self.plan[number - 1].grants().map(PlanGrant::read_all);
            let own = move |one: PlanGrant| (*number, one.grant, one.targets);
            grants.unwrap_or_default().into_iter().map(own)
        });
        let granted: Vec<(usize, Permission, Vec<String>)> = granted.collect();
        Arc::new(Planned::new(steps, granted))
    }

    /// Puts on record that a call may be made. What cannot be shown later is not done.
    pub(super) async fn open_case(
        around: &Surroundings,
        acting: Box<Acting>,
    ) -> Result<Option<Box<Case>>, AdapterError> {
        let Some(keeper) = &around.keeper else { return Ok(None) };
        let opened = on_a_thread(keeper, move |keeper| keeper.open_case(*acting)).await;
        opened.map(|case| Some(Box::new(case))).map_err(|error| {
            tracing::error!(%error, "a call is refused: no evidence of it can be kept");
            let message = format!("the call was not made: no evidence of it can be kept: {error}");
            AdapterError::operational(UNWRITABLE, message)
        })
    }

    /// Keeps what came of a call. A result of which nothing can be shown is no result; what the call did, it did.
    pub(super) async fn close_case(
        &self,
        around: &Surroundings,
        case: Box<Case>,
        result: &mut StepResult,
    ) {
        let Some(keeper) = &around.keeper else { return };
        let given = given(result);
        let (code, message, findings) = match on_a_thread(keeper, move |keeper| {
            keeper.close_case(&case, &given)
        })
        .await
        {
            Ok(findings) if findings.is_empty() => return,
            Ok(findings) => {
                let told = findings.join(", ");
                (ROLE_OUTPUT, format!("the output cannot be sealed: {told}"), findings)
            }
            Err(error) => {
                tracing::error!(%error, "what came of a call cannot be kept; that is kept instead as soon as something can be");
                let message =
                    format!("the call was made, and what came of it cannot be kept: {error}");
                (UNWRITABLE, message, Vec::new())
            }
        };
        let mut details = Object::new();
        if !findings.is_empty() {
            let findings = findings.into_iter().map(Value::from);
            details.insert("findings", Value::Array(findings.collect()));
        }
        let error =
            StepError { kind: ErrorKind::Operational, code: code.to_owned(), message, details };
        // Without evidence, the output is not passed on.
        *result = StepResult {
            status: StepStatus::Error,
            error: Some(error),
            ..skipped(&result.step_id, result.simulated)
        };
    }

    /// Keeps that a call in a role was refused, and why. It stays refused also if that cannot be kept.
    pub(super) async fn keep_refusal(
        &self,
        around: &Surroundings,
        act: Act<'_>,
        result: &mut StepResult,
    ) {
        let Some(error) = &mut result.error else { return };
        let class = around.law.class_of(act);
        let by_role = error.details.get("denied_by").and_then(Value::as_str) == Some("role");
        let Some(keeper) = around.keeper.as_ref().filter(|_| by_role || class.is_some()) else {
            return;
        };
        let class = class.map_or("none", ActionClass::name);
        let role = error.details.get("role").and_then(Value::as_str);
        let role = role.or_else(|| {
            let caller = self.origin.caller.as_ref()?;
            caller.role.map(Role::name)
        });
        let told = error.details.get("reason").and_then(Value::as_str).map(str::to_owned);
        let reason = told.unwrap_or_else(|| {
            format!("{}:{}:{class}", error.code.to_ascii_lowercase(), role.unwrap_or("none"))
        });
        let mut context = Object::new();
        context.insert("adapter_id", act.adapter_id);
        context.insert("code", error.code.as_str());
        context.insert("message", error.message.as_str());
        context.insert("method", act.method);
        context.insert("step_id", result.step_id.as_str());
        context.insert("tool", act.tool);
        if let Some(caller) = &self.origin.caller {
            context.insert("caller", caller.name.as_str());
        }
        let task_id = evidence::task_id(&self.recorder.header().run_id);
        let rejection = Rejection { context, ..Rejection::new(&task_id, &reason) };
        if let Err(failed) = on_a_thread(keeper, move |keeper| keeper.reject(&rejection)).await {
            tracing::error!(%failed, "no evidence of a refusal can be kept");
            error.details.insert("evidence", "unwritten");
        }
    }
}

/// Returns how an adapter in processes of its own is confined there.
pub(super) fn confinement(adapter: &Adapter) -> Report {
    let (confined, mut sandbox) = (adapter.confined(), Object::new());
    if confined.isolation == Isolation::Worker {
        let missing = confined.missing_names().into_iter().map(Value::from).collect();
        sandbox.insert("confinement", confined.confinement.as_str());
        sandbox.insert("landlock_abi", confined.landlock_in_force());
        sandbox.insert("landlock_errata", confined.landlock_errata);
        sandbox.insert("missing", Value::Array(missing));
    }
    Report { sandbox, ..Report::default() }
}

/// Returns what an adapter is granted: by the kernel, and what it may ask the router to fetch.
fn granted(around: &Surroundings, adapter_id: &str, grants: &Grants) -> Object {
    let mut grants = grants.to_json();
    if let Some(sources) = around.law.sources.get(adapter_id) {
        let source = |source: &SourceEntry| {
            let mut shown = Object::with_capacity(5);
            shown.insert("name", source.name.as_str());
            shown.insert("adapter_id", source.adapter.as_str());
            shown.insert("tool", source.tool.as_str());
            shown.insert("method", source.method.as_str());
            shown.insert("action_class", source.action_class.name());
            Value::from(shown)
        };
        grants.insert("sources", sources.iter().map(source).collect::<Vec<_>>());
    }
    grants
}

/// Returns the recorded form of a result, for its evidence.
fn given(result: &StepResult) -> Given {
    let output = result.output.clone();
    match &result.error {
        None => Given::Output(output),
        Some(error) if !output.is_empty() => {
            Given::Failed { output, code: error.code.clone(), message: error.message.clone() }
        }
        Some(error) => {
            let findings = error.details.get("findings").and_then(Value::as_array);
            let findings = findings.into_iter().flatten().filter_map(Value::as_str);
            Given::Error {
                code: error.code.clone(),
                message: error.message.clone(),
                findings: findings.map(str::to_owned).collect(),
            }
        }
    }
}

/// Writing and syncing files takes a while, and others must not wait for it.
async fn on_a_thread<T: Send + 'static>(
    keeper: &Arc<Keeper>,
    work: impl FnOnce(&Keeper) -> Result<T, evidence::KeepError> + Send + 'static,
) -> Result<T, evidence::KeepError> {
    let keeper = Arc::clone(keeper);
    match tokio::task::spawn_blocking(move || work(&keeper)).await {
        Ok(done) => done,
        Err(_) => Err(evidence::KeepError::Stopped),
    }
}

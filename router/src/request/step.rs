//! A step of a plan, and how its adapter is to be chosen.

use std::time::Duration;

use super::shape::{self, Kind, Place};
use super::{Error, milliseconds, table, text};
use crate::json::{Object, Value};

/// A step of a plan: one call, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Step(Object);

/// How an adapter is to be chosen, for a whole request or for one step.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'a>(Option<&'a Object>);

impl Step {
    /// Reads a plan, such as that of a recorded run.
    ///
    /// # Errors
    /// With the first mistake; its pointer is relative to the plan.
    pub fn read_plan(plan: Value) -> Result<Vec<Self>, Error> {
        let place = Place::Root { schema: table::RUN_SCHEMA };
        shape::check(&plan, &Kind::List(&table::STEP), &place)?;
        steps(Some(plan), &place)
    }

    /// Makes a step of a call that no caller wrote down.
    pub(crate) fn of_call(step_id: &str, (tool, method): (&str, &str), args: Object) -> Self {
        let mut call = Object::with_capacity(3);
        call.insert("tool", tool);
        call.insert("method", method);
        call.insert("args", args);
        let mut step = Object::with_capacity(2);
        step.insert("step_id", step_id);
        step.insert("call", call);
        Self(step)
    }

    /// Returns a step in its recorded form, in which redaction may have replaced any text.
    pub(crate) const fn of_record(raw: Object) -> Self {
        Self(raw)
    }

    /// Returns the id, which no other step of the plan has.
    #[must_use]
    pub fn step_id(&self) -> &str {
        text(&self.0, "step_id").unwrap_or_default()
    }

    /// Returns what the step is for; it may be empty.
    #[must_use]
    pub fn intent(&self) -> &str {
        text(&self.0, "intent").unwrap_or_default()
    }

    /// Returns the call as given: tool, method and args.
    #[must_use]
    pub fn call(&self) -> &Object {
        object(&self.0, "call")
    }

    /// Returns the tool to call.
    #[must_use]
    pub fn tool(&self) -> &str {
        text(self.call(), "tool").unwrap_or_default()
    }

    /// Returns the method of the tool.
    #[must_use]
    pub fn method(&self) -> &str {
        text(self.call(), "method").unwrap_or_default()
    }

    /// Returns the arguments of the call.
    #[must_use]
    pub fn args(&self) -> &Object {
        object(self.call(), "args")
    }

    /// Returns what the caller says besides the arguments.
    #[must_use]
    pub fn interaction(&self) -> Option<&Object> {
        self.call().get("interaction").and_then(Value::as_object)
    }

    /// Returns how the step's adapter is to be chosen.
    #[must_use]
    pub fn dispatch(&self) -> Dispatch<'_> {
        Dispatch::of(&self.0)
    }

    /// Returns how long the call may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        milliseconds(&self.0)
    }

    /// Returns what the plan grants to the step beyond its role, if it says anything of that.
    #[must_use]
    pub fn grants(&self) -> Option<&Value> {
        self.0.get("grants")
    }

    /// Returns whether the step succeeds also with an output that reports a failure.
    #[must_use]
    pub fn expects_any(&self) -> bool {
        text(&self.0, "expect") == Some(table::ANY)
    }

    /// Directs the step to an operation (adapter, tool, method), with a time for the call if the step has none.
    pub(crate) fn direct_to(&mut self, operation: (&str, &str, &str), timeout: Option<Duration>) {
        direct_to(&mut self.0, operation, timeout);
    }

    /// Returns the step with other arguments for its call.
    pub(crate) fn with_args(&self, args: Object) -> Self {
        let (mut raw, mut call) = (self.0.clone(), self.call().clone());
        call.insert("args", args);
        raw.insert("call", call);
        Self(raw)
    }

    /// Returns the step exactly as given.
    #[must_use]
    pub const fn raw(&self) -> &Object {
        &self.0
    }

    /// Returns the step exactly as given.
    #[must_use]
    pub fn into_raw(self) -> Object {
        self.0
    }
}

impl<'a> Dispatch<'a> {
    /// Returns the `dispatch` of a request or of a step.
    #[must_use]
    pub(crate) fn of(object: &'a Object) -> Self {
        Self(object.get("dispatch").and_then(Value::as_object))
    }

    /// Says whether the request or step has a `dispatch`.
    #[must_use]
    pub const fn is_given(self) -> bool {
        self.0.is_some()
    }

    /// Returns the adapter to use.
    #[must_use]
    pub fn adapter_id(self) -> Option<&'a str> {
        self.0.and_then(|dispatch| text(dispatch, "adapter_id"))
    }

    /// Returns the capabilities that the adapter must have, in the order given.
    pub fn require_capabilities(self) -> impl Iterator<Item = &'a str> {
        let names = self.0.and_then(|dispatch| dispatch.get("require_capabilities")?.as_array());
        names.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// Directs a step to an operation (adapter, tool, method), with a time for the call if the step has none.
pub(crate) fn direct_to(
    step: &mut Object,
    (adapter_id, tool, method): (&str, &str, &str),
    timeout: Option<Duration>,
) {
    if let Some(Value::Object(call)) = step.get_mut("call") {
        call.insert("tool", tool);
        call.insert("method", method);
    }
    match step.get_mut("dispatch") {
        Some(Value::Object(dispatch)) => dispatch.insert("adapter_id", adapter_id),
        _ => {
            let mut dispatch = Object::with_capacity(1);
            dispatch.insert("adapter_id", adapter_id);
            step.insert("dispatch", dispatch);
        }
    }
    if let Some(timeout) = timeout.filter(|_| !step.contains_key("timeout_ms")) {
        step.insert("timeout_ms", u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1));
    }
}

/// Takes the steps out of a plan that has the right shape.
pub(super) fn steps(plan: Option<Value>, place: &Place<'_>) -> Result<Vec<Step>, Error> {
    let Some(Value::Array(items)) = plan else { return Ok(Vec::new()) };
    let plan: Vec<Step> = items.into_iter().filter_map(Value::into_object).map(Step).collect();
    for (index, step) in plan.iter().enumerate() {
        check_grants(step, &Place::Item(place, index))?;
    }
    let Some((first, again)) = shape::repeated(plan.iter().map(Step::step_id)) else {
        return Ok(plan);
    };
    let [first, second] = [first, again].map(|index| Place::Item(place, index));
    let earlier = Place::Member(&first, "step_id").pointer();
    let message =
        format!("step_id {} stands already at {earlier:?}", shape::shown(plan[again].step_id()));
    Err(Place::Member(&second, "step_id").error(message, None))
}

/// Each thing is granted once; the network by its targets, the shell without any.
fn check_grants(step: &Step, place: &Place<'_>) -> Result<(), Error> {
    let Some(grants) = step.grants().and_then(Value::as_array) else { return Ok(()) };
    let place = Place::Member(place, "grants");
    let name = |grant: &'_ Value| grant.get("grant").and_then(Value::as_str).map(str::to_owned);
    for (index, grant) in grants.iter().enumerate() {
        let place = Place::Item(&place, index);
        let targets = grant.get("targets").and_then(Value::as_array).unwrap_or_default();
        let named = name(grant).unwrap_or_default();
        let wrong = match named.as_str() {
            table::NETWORK if targets.is_empty() => {
                "network is granted by its targets, HOST:PORT each"
            }
            table::SHELL_EXEC if !targets.is_empty() => "shell_exec has no targets",
            _ if grants[..index].iter().any(|earlier| name(earlier) == name(grant)) => {
                "each thing is granted once"
            }
            _ => continue,
        };
        return Err(place.error(wrong.to_owned(), None));
    }
    Ok(())
}

fn object<'a>(object: &'a Object, key: &str) -> &'a Object {
    static EMPTY: Object = Object::new();
    object.get(key).and_then(Value::as_object).unwrap_or(&EMPTY)
}

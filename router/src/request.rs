//! What a caller asks for: the run request, read with a pointer for every mistake.
//!
//! A request is checked once, where it stands, and then keeps the JSON it came as: its parts are looked
//! up and never copied.

mod error;
mod shape;
mod step;
mod table;
mod tools;

use std::time::Duration;

pub use error::Error;
pub(crate) use step::direct_to;
pub use step::{Dispatch, Step};
pub use tools::{
    ExportRequest, Format, ImportMode, ImportRequest, InspectRequest, ReplayRequest, RunToolRequest,
};

use crate::json::{self, Object, Value};
use shape::{Kind, Place};

/// A request to run a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// As given, without the plan.
    raw: Object,
    plan: Vec<Step>,
    plan_given: bool,
    mode: Mode,
    policy: Policy,
}

/// Whether adapters are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No adapter is called.
    #[default]
    DryRun,
    /// Adapters are called.
    Apply,
}

/// What the caller allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Calls may be made at all.
    pub allow_apply: bool,
    /// A plan with more steps is refused.
    pub max_steps: Option<u64>,
    /// What an operational error means for the steps after it.
    pub on_error: OnError,
    /// Whether a dry run calls adapters that declare `dry_run`, confined and with the dry-run flag.
    pub simulate: bool,
}

/// What an operational error means for the steps after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// They are skipped.
    #[default]
    Stop,
    /// They are executed.
    Continue,
}

impl Request {
    /// Reads a request from its text.
    ///
    /// # Errors
    /// When the text is no JSON within the limits, or not the JSON of a request.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        Self::read(json::parse(text, json::Limits::REQUEST)?)
    }

    /// Reads a request.
    ///
    /// # Errors
    /// With the first mistake: a key that is unknown or missing, a value of the wrong type or out of
    /// range, a step id that stands twice.
    pub fn read(request: Value) -> Result<Self, Error> {
        let place = Place::Root { schema: table::RUN_SCHEMA };
        shape::check(&request, &Kind::Object(&table::RUN), &place)?;
        let mut raw = request.into_object().unwrap_or_default();
        let given = raw.remove("plan_override");
        let plan_given = given.is_some();
        let plan = step::steps(given, &Place::Member(&place, "plan_override"))?;
        let mode = text(&raw, "mode").and_then(Mode::from_name).unwrap_or_default();
        let policy = raw.get("policy").and_then(Value::as_object).map(Policy::of);
        let policy = policy.unwrap_or_default();
        if policy.simulate && mode == Mode::Apply {
            return Err(Error::Invalid {
                message: "simulate must not be true in mode apply".to_owned(),
                pointer: "/policy/simulate".to_owned(),
                suggestion: None,
                schema: table::RUN_SCHEMA,
            });
        }
        Ok(Self { raw, plan, plan_given, mode, policy })
    }

    /// Returns what the run is for.
    #[must_use]
    pub fn goal(&self) -> &str {
        text(&self.raw, "goal").unwrap_or_default()
    }

    /// Returns whether adapters are called.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns what the caller allows.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns how the adapter is to be chosen for steps that do not say it themselves.
    #[must_use]
    pub fn dispatch(&self) -> Dispatch<'_> {
        Dispatch::of(&self.raw)
    }

    /// Refuses a plan that answers questions of adapters: only who asked them for an adapter can tell whether
    /// these are the answers.
    ///
    /// # Errors
    /// When a step has an `interaction`.
    pub fn without_interaction(self) -> Result<Self, Error> {
        match self.plan().iter().position(|step| step.interaction().is_some()) {
            None => Ok(self),
            Some(step) => Err(Error::Invalid {
                message: "interaction is only for calls over MCP".to_owned(),
                pointer: format!("/plan_override/{step}/call/interaction"),
                suggestion: None,
                schema: table::RUN_SCHEMA,
            }),
        }
    }

    /// Returns the steps, whose ids are all different.
    #[must_use]
    pub fn plan(&self) -> &[Step] {
        &self.plan
    }

    /// Returns the steps, whose adapters may still be chosen.
    pub(crate) fn plan_mut(&mut self) -> &mut [Step] {
        &mut self.plan
    }

    /// Says whether the request has a plan, be it an empty one.
    #[must_use]
    pub const fn plan_given(&self) -> bool {
        self.plan_given
    }

    /// Returns how long the whole run may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        milliseconds(&self.raw)
    }

    /// Returns the key under which the same request is executed only once.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        text(&self.raw, "idempotency_key")
    }

    /// Returns the request as given, without its plan.
    #[must_use]
    pub const fn raw(&self) -> &Object {
        &self.raw
    }

    /// Returns the request as given, without its plan, and the plan.
    #[must_use]
    pub fn into_parts(self) -> (Object, Vec<Step>) {
        (self.raw, self.plan)
    }
}

impl Mode {
    /// Returns the name that requests and events use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DryRun => "dry_run",
            Self::Apply => "apply",
        }
    }

    /// Returns the mode of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::DryRun, Self::Apply].into_iter().find(|mode| mode.name() == name)
    }
}

impl Policy {
    fn of(policy: &Object) -> Self {
        let on_error = match text(policy, "on_error") {
            Some("continue") => OnError::Continue,
            _ => OnError::Stop,
        };
        Self {
            allow_apply: policy.get("allow_apply").and_then(Value::as_bool).unwrap_or_default(),
            max_steps: whole(policy, "max_steps"),
            on_error,
            simulate: policy.get("simulate").and_then(Value::as_bool).unwrap_or_default(),
        }
    }
}

impl OnError {
    /// Returns the name that requests use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
        }
    }
}

fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn whole(object: &Object, key: &str) -> Option<u64> {
    object.get(key).and_then(shape::whole).flatten()
}

fn milliseconds(object: &Object) -> Option<Duration> {
    whole(object, "timeout_ms").map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Error {
        Request::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_full_request_is_read() {
        let text = r#"{
            "goal": "g", "mode": "apply", "timeout_ms": 1500.0, "idempotency_key": "k",
            "dispatch": {"adapter_id": "a", "require_capabilities": ["apply", "timeout"]},
            "context": {"artifacts": [{"artifact_id": "i", "media_type": "m", "locator": "",
                "digest": {"alg": "sha256", "value": "v"}}]},
            "policy": {"allow_apply": true, "max_steps": 2.0, "on_error": "continue"},
            "plan_override": [{"step_id": "s", "intent": "", "timeout_ms": 20,
                "expected_output_pointer": "", "dispatch": {"adapter_id": "b"},
                "call": {"tool": "t", "method": "m", "args": {"any": [{"thing": null}]}}}]
        }"#;
        let request = Request::parse(text.as_bytes()).unwrap();
        assert_eq!((request.goal(), request.mode()), ("g", Mode::Apply));
        assert_eq!(request.timeout(), Some(Duration::from_millis(1500)));
        assert_eq!(request.idempotency_key(), Some("k"));
        assert_eq!(request.dispatch().adapter_id(), Some("a"));
        let wanted: Vec<&str> = request.dispatch().require_capabilities().collect();
        assert_eq!(wanted, ["apply", "timeout"]);
        let policy = Policy {
            allow_apply: true,
            max_steps: Some(2),
            on_error: OnError::Continue,
            simulate: false,
        };
        assert_eq!(request.policy(), policy);
        let [step] = request.plan() else { panic!("{:?}", request.plan()) };
        assert_eq!((step.step_id(), step.intent()), ("s", ""));
        assert_eq!((step.tool(), step.method(), step.args().len()), ("t", "m", 1));
        assert_eq!(step.timeout(), Some(Duration::from_millis(20)));
        assert_eq!(step.dispatch().adapter_id(), Some("b"));
        assert_eq!(step.dispatch().require_capabilities().count(), 0);

        // What was given is all there, once.
        let given = json::parse(text.as_bytes(), json::Limits::REQUEST).unwrap();
        let (mut raw, plan) = request.into_parts();
        let plan: Vec<Value> = plan.into_iter().map(|step| step.into_raw().into()).collect();
        assert_eq!(Step::read_plan(plan.clone().into()).unwrap().len(), 1);
        raw.insert("plan_override", plan);
        assert_eq!(Value::from(raw), given);
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let request = Request::parse(br#"{"goal": " "}"#).unwrap();
        assert_eq!((request.mode(), request.policy()), (Mode::DryRun, Policy::default()));
        assert!(!request.policy().allow_apply && request.policy().on_error == OnError::Stop);
        assert!(!request.plan_given() && request.plan().is_empty());
        assert!(!request.dispatch().is_given() && request.timeout().is_none());
        assert!(Request::parse(br#"{"goal": "g", "plan_override": []}"#).unwrap().plan_given());
    }

    #[test]
    fn rejects_simulation_in_mode_apply() {
        let request = |mode: &str| {
            format!(r#"{{"goal": "g", "mode": "{mode}", "policy": {{"simulate": true}}}}"#)
        };
        assert!(Request::parse(request("dry_run").as_bytes()).unwrap().policy().simulate);
        assert_eq!(refused(&request("apply")).pointer(), "/policy/simulate");
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_was_meant() {
        let step = r#""intent": "", "call": {"tool": "t", "method": "m", "args": {}}"#;
        for (text, message, pointer, hint) in [
            (r#"[]"#, "the request must be an object, not an array", "", "run.request.v0.7"),
            (r#"{}"#, "the request has no goal", "", "run.request.v0.7"),
            (r#"{"gaol": "g"}"#, r#"unknown key "gaol""#, "/gaol", r#"did you mean "goal"?"#),
            (r#"{"goal": ""}"#, "goal must not be empty", "/goal", "prints what is allowed"),
            (
                r#"{"goal": "g", "allow_apply": true}"#,
                r#"unknown key "allow_apply""#,
                "/allow_apply",
                r#"did you mean "policy.allow_apply"?"#,
            ),
            (
                r#"{"goal": "g", "mode": "APPLY"}"#,
                r#"mode must be dry_run or apply, not "APPLY""#,
                "/mode",
                r#"did you mean "apply"?"#,
            ),
            (
                r#"{"goal": "g", "policy": {"max_steps": 0}}"#,
                "max_steps must be at least 1",
                "/policy/max_steps",
                "schema",
            ),
            (
                r#"{"goal": "g", "policy": {"max_steps": true}}"#,
                "max_steps must be an integer, not a boolean",
                "/policy/max_steps",
                "schema",
            ),
            (
                r#"{"goal": "g", "timeout_ms": -1e3}"#,
                "timeout_ms must be at least 1",
                "/timeout_ms",
                "schema",
            ),
            (
                r#"{"goal": "g", "dispatch": {"require_capabilities": ["a", "b", "a"]}}"#,
                r#""a" stands already at "/dispatch/require_capabilities/0""#,
                "/dispatch/require_capabilities/2",
                "schema",
            ),
            (
                r#"{"goal": "g", "plan_override": [1]}"#,
                "plan_override[0] must be an object, not an integer",
                "/plan_override/0",
                "schema",
            ),
            (r#"{"goal": "g", "a/~b": 1}"#, r#"unknown key "a/~b""#, "/a~1~0b", "schema"),
            (
                &format!(
                    r#"{{"goal": "g", "plan_override": [{{"step_id": "s", "args": 1, {step}}}]}}"#
                ),
                r#"unknown key "args""#,
                "/plan_override/0/args",
                r#"did you mean "call.args"?"#,
            ),
        ] {
            let error = refused(text);
            assert_eq!(error.to_string(), format!("{message} (at {pointer:?})"), "{text}");
            assert_eq!((error.pointer(), error.code()), (pointer, "REQUEST_INVALID"));
            assert!(error.hint().contains(hint), "{text}: {}", error.hint());
        }
    }

    #[test]
    fn two_steps_of_one_id_are_refused_with_both_places() {
        for steps in [2, 100] {
            let mut plan: Vec<String> = (0..steps).map(|index| format!("s{index}")).collect();
            plan[steps - 1] = "s0".to_owned();
            let step = |id: &String| {
                format!(
                    r#"{{"step_id":"{id}","intent":"","call":{{"tool":"t","method":"m","args":{{}}}}}}"#
                )
            };
            let plan = plan.iter().map(step).collect::<Vec<_>>().join(",");
            let error = refused(&format!(r#"{{"goal":"g","plan_override":[{plan}]}}"#));
            let again = format!("/plan_override/{}/step_id", steps - 1);
            let text = r#"step_id "s0" stands already at "/plan_override/0/step_id""#;
            assert_eq!(error.to_string(), format!("{text} (at {again:?})"));
        }
    }

    #[test]
    fn limits_reach_as_far_as_they_say() {
        let key = |length: usize| {
            format!(r#"{{"goal": "g", "idempotency_key": "{}"}}"#, "é".repeat(length))
        };
        assert!(Request::parse(key(256).as_bytes()).is_ok());
        assert_eq!(refused(&key(257)).pointer(), "/idempotency_key");
        for (number, steps) in
            [("18446744073709551616", u64::MAX), ("1e300", u64::MAX), ("1", 1), ("1e2", 100)]
        {
            let text = format!(r#"{{"goal": "g", "policy": {{"max_steps": {number}}}}}"#);
            let request = Request::parse(text.as_bytes()).unwrap();
            assert_eq!(request.policy().max_steps, Some(steps));
        }
        assert_eq!(
            refused(r#"{"goal": "g", "timeout_ms": -99999999999999999999}"#).pointer(),
            "/timeout_ms"
        );
        assert_eq!(refused("{\"goal\": \"g\", \"goal\": \"g\"}").code(), "JSON_DUPLICATE_KEY");
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(\\{\"goal\":\"g\")?[\\[\\]{}\",:a-z0-9é ]{0,60}") {
            if let Err(error) = Request::parse(text.as_bytes()) {
                prop_assert!(!error.to_string().is_empty() && !error.hint().is_empty());
            }
        }
    }
}

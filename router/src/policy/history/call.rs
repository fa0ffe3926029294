//! Calls as runs recorded them: the first decision of the gate about each step.

use std::collections::HashSet;

use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::event::{Kind, Line};
use crate::json::{self, Limits, Object, Value};
use crate::policy::Act;
use crate::request::Mode;

/// Limits of a recorded payload; the store bounds its size.
const LIMITS: Limits = Limits { bytes: usize::MAX, depth: 1024, values: usize::MAX };

/// Caller of a call, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedCaller {
    /// The record does not say who called: it is of another router.
    Unknown,
    /// The command line or an embedding host.
    Host,
    /// A caller whose scope was not recorded.
    WithoutScope(Caller),
    /// A caller with everything that rules read.
    Known(Caller),
}

impl RecordedCaller {
    /// Returns the caller, if the record has one.
    #[must_use]
    pub const fn caller(&self) -> Option<&Caller> {
        match self {
            Self::Unknown | Self::Host => None,
            Self::WithoutScope(caller) | Self::Known(caller) => Some(caller),
        }
    }

    /// Returns the name by which rules know the caller; absent if it is not known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Unknown => None,
            Self::Host => Some(""),
            Self::WithoutScope(caller) | Self::Known(caller) => Some(&caller.name),
        }
    }
}

/// One call that a policy decides about.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCall {
    /// The run.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// The purpose of the run.
    pub goal: String,
    /// Whether the run applies.
    pub mode: Mode,
    /// The time of the decision.
    pub at: Timestamp,
    /// The caller.
    pub caller: RecordedCaller,
    /// The adapter.
    pub adapter_id: String,
    /// The tool.
    pub tool: String,
    /// The method.
    pub method: String,
    /// The arguments as recorded.
    pub args: Object,
    /// Whether redaction changed the plan of the run.
    pub redacted: bool,
}

impl PolicyCall {
    /// Returns the operation.
    #[must_use]
    pub fn act(&self) -> Act<'_> {
        Act { adapter_id: &self.adapter_id, tool: &self.tool, method: &self.method }
    }

    /// Returns the operation as people write it.
    #[must_use]
    pub fn operation(&self) -> String {
        format!("{}/{}.{}", self.adapter_id, self.tool, self.method)
    }
}

/// Reads calls out of events that come run by run.
#[derive(Debug, Default)]
pub struct CallReader {
    run: RunState,
}

/// Event as far as it is about a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadEvent {
    /// The first decision about a step.
    Decision(Box<PolicyCall>),
    /// A decision whose record does not name the call.
    Unreadable,
    /// Any other event.
    Other,
}

/// State of the run whose events come.
#[derive(Debug, Default)]
struct RunState {
    run_id: String,
    goal: String,
    mode: Option<Mode>,
    caller: Option<RecordedCaller>,
    redacted: bool,
    /// Steps whose first decision was read.
    decided: HashSet<String>,
}

impl CallReader {
    /// Takes an event.
    pub fn read(&mut self, line: &Line<'_>) -> ReadEvent {
        if line.run_id != self.run.run_id {
            self.run = RunState { run_id: line.run_id.as_ref().to_owned(), ..RunState::default() };
        }
        match Kind::from_name(&line.kind) {
            Some(Kind::RunStarted) => self.start(line.payload),
            Some(Kind::PlanCreated) => self.run.redacted = is_redacted(line.payload),
            Some(Kind::ApprovalRequested | Kind::ToolCallRequested) => return self.decision(line),
            _ => {}
        }
        ReadEvent::Other
    }

    fn start(&mut self, payload: &str) {
        let Some(mut payload) = object(payload) else { return };
        let text = |payload: &Object, key: &str| -> Option<String> {
            payload.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        self.run.goal = text(&payload, "goal").unwrap_or_default();
        self.run.mode = text(&payload, "mode").as_deref().and_then(Mode::from_name);
        let caller = payload.remove("caller").and_then(Value::into_object);
        self.run.caller = match caller {
            Some(caller) => Caller::read(&caller).map(|read| match caller.contains_key("scope") {
                true => RecordedCaller::Known(read),
                false => RecordedCaller::WithoutScope(read),
            }),
            // Only this router records callers, and says its version.
            None if payload.contains_key("router_version") => Some(RecordedCaller::Host),
            None => Some(RecordedCaller::Unknown),
        };
    }

    fn decision(&mut self, line: &Line<'_>) -> ReadEvent {
        let Some(call) = self.call(line) else { return ReadEvent::Unreadable };
        // Later decisions about a step are about the same call: an approval, or another attempt.
        match self.run.decided.insert(call.step_id.clone()) {
            true => ReadEvent::Decision(Box::new(call)),
            false => ReadEvent::Other,
        }
    }

    fn call(&self, line: &Line<'_>) -> Option<PolicyCall> {
        let mut payload = object(line.payload)?;
        let mut call = payload.remove("call").and_then(Value::into_object)?;
        let text = |object: &mut Object, key: &str| match object.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Some(PolicyCall {
            run_id: self.run.run_id.clone(),
            step_id: text(&mut payload, "step_id")?,
            goal: self.run.goal.clone(),
            mode: self.run.mode?,
            at: Timestamp::parse(&line.ts)?,
            caller: self.run.caller.clone()?,
            adapter_id: text(&mut payload, "adapter_id")?,
            tool: text(&mut call, "tool")?,
            method: text(&mut call, "method")?,
            args: call.remove("args").and_then(Value::into_object).unwrap_or_default(),
            redacted: self.run.redacted,
        })
    }
}

fn object(payload: &str) -> Option<Object> {
    json::parse(payload.as_bytes(), LIMITS).ok()?.into_object()
}

/// Reads whether redaction changed a plan, without building the plan.
fn is_redacted(payload: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Plan {
        #[serde(default)]
        redacted: bool,
    }
    serde_json::from_str(payload).is_ok_and(|plan: Plan| plan.redacted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the calls that events record, and the number of decisions that do not name theirs.
    fn lines(events: &[(&str, &str)]) -> (Vec<PolicyCall>, usize) {
        let mut reader = CallReader::default();
        let (mut calls, mut unreadable) = (Vec::new(), 0);
        for (index, (kind, payload)) in events.iter().enumerate() {
            let read = reader.read(&Line {
                event_id: "e".into(),
                payload,
                run_id: "r1".into(),
                seq: i64::try_from(index).unwrap(),
                ts: format!("2026-11-16T00:00:0{index}.000Z").into(),
                kind: (*kind).into(),
            });
            match read {
                ReadEvent::Decision(call) => calls.push(*call),
                ReadEvent::Unreadable => unreadable += 1,
                ReadEvent::Other => {}
            }
        }
        (calls, unreadable)
    }

    const CALL: &str = r#"{"adapter_id":"shop","call":{"args":{"n":1},"method":"buy","tool":"orders"},"step_id":"s1"}"#;

    fn started(caller: &str) -> String {
        format!(r#"{{{caller}"goal":"g","mode":"apply","request":{{}},"router_version":"1.2.0"}}"#)
    }

    #[test]
    fn each_step_is_one_call_at_its_first_decision() {
        let (calls, unreadable) = lines(&[
            ("RUN_STARTED", &started("")),
            ("PLAN_CREATED", r#"{"plan":[],"redacted":true}"#),
            ("APPROVAL_REQUESTED", CALL),
            ("APPROVAL_DECIDED", "{}"),
            ("TOOL_CALL_REQUESTED", CALL),
            ("TOOL_CALL_REQUESTED", CALL),
            ("TOOL_CALL_REQUESTED", &CALL.replace("s1", "s2")),
        ]);
        assert_eq!(unreadable, 0);
        let steps: Vec<_> = calls.iter().map(|call| call.step_id.as_str()).collect();
        assert_eq!(steps, ["s1", "s2"]);
        let call = &calls[0];
        assert_eq!(call.at.to_string(), "2026-11-16T00:00:02.000Z");
        assert_eq!(call.operation(), "shop/orders.buy");
        assert_eq!((call.caller.clone(), call.redacted), (RecordedCaller::Host, true));
    }

    #[test]
    fn callers_are_known_as_far_as_records_say() {
        let caller = |start: &str| {
            let events = [("RUN_STARTED", start), ("TOOL_CALL_REQUESTED", CALL)];
            lines(&events).0.remove(0).caller
        };
        let known = caller(&started(r#""caller":{"name":"ci","scope":"run"},"#));
        assert!(matches!(&known, RecordedCaller::Known(caller) if caller.name == "ci"));
        let older = caller(&started(r#""caller":{"name":"ci"},"#));
        assert!(matches!(older, RecordedCaller::WithoutScope(_)));
        assert_eq!(caller(r#"{"goal":"g","mode":"apply"}"#), RecordedCaller::Unknown);
        let odd = started(r#""caller":{"name":"ci","scope":"king"},"#);
        let events = [("RUN_STARTED", odd.as_str()), ("TOOL_CALL_REQUESTED", CALL)];
        assert_eq!(lines(&events), (Vec::new(), 1));
    }

    #[test]
    fn decisions_without_a_call_are_counted() {
        let start = started("");
        let events = [("RUN_STARTED", start.as_str()), ("TOOL_CALL_REQUESTED", "{}")];
        assert_eq!(lines(&events), (Vec::new(), 1));
    }
}

//! The record of what a gate refused: RunRecord, version 1.
//!
//! A closed object, written once. It names what was judged by digest, and every rule with what came of it, so
//! that whoever holds the tool spec can say whether the verdict was right.

use uuid::Uuid;

use super::document::is_tool_id;
use super::gate::{Check, Report, Violation};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::id;
use crate::json::{self, Object, Value};

/// What a gate refused, and when.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// What the gate says.
    pub report: &'a Report,
    /// The intent that the tool was for; without one, or where it is no UUID, one is made up.
    pub intent_id: Option<&'a str>,
    /// The tool, if the document could be read so far.
    pub tool_id: Option<&'a str>,
    /// The version of its spec.
    pub tool_version: Option<&'a str>,
    /// What was intended, as JSON; null if nobody said.
    pub intent: &'a Value,
    /// The tool spec, as JSON; its text, if it is none.
    pub toolspec: &'a Value,
    /// The arguments; null if it did not come to a call.
    pub inputs: &'a Value,
    /// When the gate began to look.
    pub started: Timestamp,
    /// When it was done.
    pub finished: Timestamp,
    /// Where more is told, such as a log.
    pub logs_ref: &'a str,
}

/// A record that was made and is not changed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    run_id: String,
    document: Object,
}

impl RunRecord {
    /// Makes the record of a gate that was not passed.
    #[must_use]
    pub fn of_failure(failure: &Failure<'_>) -> Self {
        let Failure { report, .. } = failure;
        let run_id = id::run_id();
        let intent_id = failure.intent_id.and_then(|id| Uuid::try_parse(id).ok());
        let intent_id = intent_id.map_or_else(id::run_id, |id| id.hyphenated().to_string());
        let (inputs_hash, exact) = inputs_hash(failure);
        let mut document = Object::with_capacity(18);
        document.insert("run_id", run_id.as_str());
        document.insert("intent_id", intent_id);
        document.insert("tool_id", failure.tool_id.filter(|id| is_tool_id(id)));
        let version = failure.tool_version.filter(|it| semver::Version::parse(it).is_ok());
        document.insert("tool_version", version);
        document.insert("started_at", failure.started.to_string());
        document.insert("finished_at", failure.finished.to_string());
        document.insert("status", "failure");
        document.insert("inputs_hash", inputs_hash.to_string());
        document.insert("outputs_hash", Value::Null);
        document.insert("artifacts", Vec::new());
        document.insert("logs_ref", failure.logs_ref);
        document.insert("rollback_executed", false);
        document.insert("critic_verdict", "fail");
        let checks = report.checks.iter().map(|check| performed(check, report));
        let mut details = Object::new();
        details.insert("checks_performed", checks.collect::<Vec<_>>());
        document.insert("critic_details", details);
        let errors = report.violations.iter().map(|violation| error(violation, failure.finished));
        document.insert("errors", errors.collect::<Vec<_>>());
        document.insert("metadata", metadata(report, exact));
        Self { run_id, document }
    }

    /// Returns the id of the record.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Returns the record as an object.
    #[must_use]
    pub const fn document(&self) -> &Object {
        &self.document
    }

    /// Returns the text that is stored: canonical after RFC 8785, one line.
    #[must_use]
    pub fn text(&self) -> String {
        let value = Value::Object(self.document.clone());
        // There is no number in it that could be inexact.
        json::to_jcs(&value).unwrap_or_else(|_| json::to_canonical(&value))
    }
}

/// Returns the digest of what was judged, and whether its text was that of RFC 8785. A document with integers
/// that have no such text is refused for that, and its refusal is recorded as well.
fn inputs_hash(failure: &Failure<'_>) -> (Digest, bool) {
    let mut judged = Object::with_capacity(3);
    judged.insert("intent", failure.intent.clone());
    judged.insert("toolspec", failure.toolspec.clone());
    judged.insert("inputs", failure.inputs.clone());
    let judged = Value::Object(judged);
    match json::to_jcs(&judged) {
        Ok(text) => (Digest::of(text.as_bytes()), true),
        Err(_) => (Digest::of(json::to_canonical(&judged).as_bytes()), false),
    }
}

fn performed(check: &Check, report: &Report) -> Value {
    let mut object = Object::with_capacity(3);
    object.insert("check_name", check.rule.id);
    object.insert("result", check.result.name());
    let broken = report.violations.iter().filter(|broken| broken.check_id == check.rule.id);
    let places: Vec<&str> = broken.map(|broken| broken.pointer.as_str()).collect();
    if !places.is_empty() {
        object.insert("details", places.join(", "));
    }
    object.into()
}

fn error(violation: &Violation, at: Timestamp) -> Value {
    let mut object = Object::with_capacity(4);
    object.insert("timestamp", at.to_string());
    object.insert("severity", "error");
    object.insert("code", violation.code);
    object.insert("message", violation.message.as_str());
    object.into()
}

/// What is beyond the form of errors: an item of `violations` for each, in the same order, and the first of them
/// at the top.
fn metadata(report: &Report, exact: bool) -> Value {
    let place = |violation: &Violation| {
        let mut object = Object::with_capacity(4);
        object.insert("rule", violation.rule.map(u32::from));
        object.insert("check_id", violation.check_id);
        object.insert("code", violation.code);
        object.insert("pointer", violation.pointer.as_str());
        object
    };
    let mut metadata = Object::with_capacity(5);
    metadata.insert("gate", report.gate.name());
    let first = report.violations.first();
    metadata.insert("rule", first.and_then(|violation| violation.rule).map(u32::from));
    metadata.insert("check_id", first.map(|violation| violation.check_id));
    let violations = report.violations.iter().map(|violation| place(violation).into());
    metadata.insert("violations", violations.collect::<Vec<Value>>());
    if !exact {
        metadata.insert("inputs_form", "canonical");
    }
    metadata.into()
}

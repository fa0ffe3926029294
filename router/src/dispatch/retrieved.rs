//! The log of what a call asked for: one line each, the same for equal executions, and what differs beside it.

use std::time::Duration;

use crate::config::SourceEntry;
use crate::digest::Digest;
use crate::evidence::Report;
use crate::json::{self, Limits, Object, Value};
use crate::policy::DecisionText;

/// The name of the log among the outputs, and of what differs among the volatile files.
const FILE: &str = "broker.jsonl";
/// Longer arguments are told by their digest alone.
const SHOWN: usize = 4096;
/// So many pointers of what was taken out are told.
const POINTERS: usize = 100;

/// One request of a call.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// What was asked: `retrieve` or `sources`; nothing if that was not understood.
    pub(super) kind: &'static str,
    operation: Option<Object>,
    input: Option<(Digest, Option<Object>)>,
    output: Option<(Digest, usize)>,
    /// Whether the gate did not let it through.
    pub(super) denied: bool,
    /// The code of the error, if it failed or was refused.
    pub(super) code: Option<String>,
    /// The redacted members that the evidence leaves out of the answer, by their pointers.
    removed: Object,
    pub(super) time: Duration,
    /// The policy's decision, if the gate made one.
    pub(super) decision: Option<DecisionText>,
}

impl Entry {
    /// Notes which source was asked.
    pub(super) fn source(&mut self, source: &SourceEntry) {
        let mut operation = Object::new();
        operation.insert("source", source.name.as_str());
        operation.insert("adapter_id", source.adapter.as_str());
        operation.insert("tool", source.tool.as_str());
        operation.insert("method", source.method.as_str());
        operation.insert("action_class", source.action_class.name());
        self.operation = Some(operation);
    }

    /// Returns the name of the source that was asked, if there is one.
    pub(super) fn name(&self) -> Option<&str> {
        self.operation.as_ref()?.get("source").and_then(Value::as_str)
    }

    /// Notes the arguments, from which secrets were taken out already.
    pub(super) fn input(&mut self, args: Object) {
        let text = json::to_canonical(&args.clone().into());
        let digest = Digest::of(text.as_bytes());
        self.input = Some((digest, (text.len() <= SHOWN).then_some(args)));
    }

    /// Notes the answer in the form that the evidence covers.
    pub(super) fn output(&mut self, output: &Value) {
        let text = json::to_canonical(output);
        self.output = Some((Digest::of(text.as_bytes()), text.len()));
    }

    /// Notes the redacted members that the evidence leaves out of the answer, by their pointers.
    pub(super) fn removed(&mut self, removed: Object) {
        self.removed = removed;
    }

    /// Returns the digest of the answer.
    pub(super) fn sha256(&self) -> Option<String> {
        self.output.map(|(digest, _)| digest.to_string())
    }

    fn line(&self, number: usize) -> Value {
        let mut line = self.operation.clone().unwrap_or_default();
        line.insert("seq", number);
        line.insert("type", if self.kind.is_empty() { "unknown" } else { self.kind });
        let outcome = match (&self.code, self.denied || self.input.is_none()) {
            (None, _) => "ok",
            (Some(_), true) => "refused",
            (Some(_), false) => "failed",
        };
        line.insert("outcome", outcome);
        line.insert("code", self.code.as_deref());
        if let Some((digest, args)) = &self.input {
            line.insert("input_sha256", digest.to_string());
            if let Some(args) = args {
                line.insert("input", args.clone());
            }
        }
        if let Some((digest, bytes)) = self.output {
            line.insert("output_sha256", digest.to_string());
            line.insert("output_bytes", bytes);
        }
        line.into()
    }

    fn volatile(&self, number: usize) -> Value {
        let mut line = Object::new();
        line.insert("seq", number);
        line.insert("duration_us", u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX));
        let pointers = self.removed.keys().take(POINTERS).map(Value::from);
        line.insert("removed", Value::Array(pointers.collect()));
        line.insert("removed_count", self.removed.len());
        line.insert("removed_values", self.removed.clone());
        let decision =
            self.decision.as_ref().map(|text| json::parse(text.as_bytes(), Limits::REQUEST));
        if let Some(Ok(decision)) = decision {
            line.insert("decision", decision);
        }
        line.into()
    }
}

/// Everything that a call asked, in order.
#[derive(Debug, Default)]
pub(super) struct Log(Vec<Entry>);

impl Log {
    pub(super) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns what is kept of it: what is the same for equal executions, and what differs.
    pub(super) fn report(&self) -> Report {
        let (outputs, volatile) = self.files();
        let file = |text: String| vec![(FILE.to_owned(), text.into_bytes())];
        Report { outputs: file(outputs), volatile: file(volatile), ..Report::default() }
    }

    fn files(&self) -> (String, String) {
        let text = |line: &dyn Fn(&Entry, usize) -> Value| {
            let lines = self.0.iter().enumerate();
            lines.map(|(at, one)| json::to_canonical(&line(one, at + 1)) + "\n").collect()
        };
        (text(&Entry::line), text(&Entry::volatile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::ActionClass;

    fn entry(args: &str) -> Entry {
        let source = SourceEntry {
            name: "docs".to_owned(),
            adapter: "http".to_owned(),
            tool: "t".to_owned(),
            method: "m".to_owned(),
            action_class: ActionClass::DocRetrieval,
            args: Object::new(),
            volatile: Vec::new(),
            timeout: None,
        };
        let mut entry = Entry { kind: "retrieve", ..Entry::default() };
        entry.source(&source);
        let mut input = Object::new();
        input.insert("id", args);
        entry.input(input);
        entry
    }

    #[test]
    fn equal_requests_leave_equal_lines_however_long_they_took() {
        let files = |millis| {
            let mut entry = entry("7");
            entry.time = Duration::from_millis(millis);
            entry.removed((0..101).map(|n| (format!("/ts{n}"), n.into())).collect());
            entry.output(&Value::from("text"));
            let mut log = Log::default();
            log.push(entry);
            log.files()
        };
        let ((one, volatile), (two, other)) = (files(1), files(2));
        assert_eq!(one, two);
        assert_ne!(volatile, other);
        assert!(one.contains(r#""outcome":"ok""#) && one.ends_with("}\n"), "{one}");
        assert!(volatile.contains(r#""removed_count":101"#), "{volatile}");
        assert_eq!(volatile.matches("\"/ts").count(), POINTERS + 101);
        assert!(volatile.contains(r#""/ts100":100"#), "{volatile}");
    }

    #[test]
    fn outcomes_tell_what_was_refused_from_what_failed() {
        let line = |change: &dyn Fn(&mut Entry)| {
            let mut entry = entry("7");
            entry.code = Some("X".to_owned());
            change(&mut entry);
            json::to_canonical(&entry.line(1))
        };
        assert!(line(&|_| ()).contains(r#""outcome":"failed""#));
        assert!(line(&|entry| entry.denied = true).contains(r#""outcome":"refused""#));
        assert!(line(&|entry| entry.input = None).contains(r#""outcome":"refused""#));
    }

    #[test]
    fn long_arguments_are_told_by_their_digest_alone() {
        let long = json::to_canonical(&entry(&"x".repeat(SHOWN)).line(1));
        assert!(long.contains("input_sha256") && !long.contains("xxx"), "{long}");
    }
}

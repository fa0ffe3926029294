//! Response about a recorded run, written page by page.
//!
//! The first pass over the record reads everything that is small. The second copies the texts of plan and outputs,
//! which are canonical JSON already, from the pages into the response. No more than one page is in memory at a time.

use std::borrow::Cow;

use bytes::Bytes;
use nexus_router_sdk::redact::REDACTED;
use serde::Deserialize;

use super::text::{result_parts, split};
use super::{Outcome, Recorded, StepResult};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::event::{Kind, Line};
use crate::json::{self, Limits, Object, Value};
use crate::secret::redacted_pointers;
use crate::signal::Action;
use crate::store::{self, Log, PageCursor, RecordSize, Status, Store};
use crate::view::scan::Members;

/// Response about a recorded run, written page by page.
#[derive(Debug)]
pub(crate) struct RunDocument {
    store: Store,
    run_id: String,
    caller: Option<Caller>,
    now: Timestamp,
    status: Status,
    cursor: PageCursor,
    results: std::vec::IntoIter<RecordedResult>,
    /// Results that were written.
    written: usize,
    /// Whether answers were given that the store held.
    restored: bool,
    /// Text before the plan, between plan and results, and after the results.
    parts: [String; 3],
    stage: DocumentStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentStage {
    Plan,
    Results,
    Over,
}

/// Result without its output.
#[derive(Debug)]
struct RecordedResult {
    result: StepResult,
    /// Whether an event of its call holds the output.
    has_event: bool,
}

impl RunDocument {
    /// Reads the small parts of a record.
    pub(crate) fn open(
        store: &Store,
        size: &RecordSize,
        caller: Option<&Caller>,
        now: Timestamp,
    ) -> Result<Self, store::Error> {
        let mut recorded = Recorded::default();
        let mut has_event = Vec::new();
        let mut cursor = size.cursor();
        while let Some(page) = store.page(&mut cursor)? {
            for line in page.lines() {
                let before = recorded.results.len();
                let kind = take_small(&mut recorded, line, &size.record);
                let is_call = matches!(kind, Some(Kind::ToolCallSucceeded | Kind::ToolCallFailed));
                has_event.resize(recorded.results.len().max(before), is_call);
            }
        }
        let log = Log { record: size.record.clone(), bodies: Vec::new() };
        let outcome = Outcome::of_recorded(recorded, &log);
        has_event.resize(outcome.results.len(), false);
        let mut frame = outcome.frame();
        frame.insert("goal", size.record.header.goal.as_str());
        frame.insert("created_at", size.record.header.created_at.as_str());
        let mut parts = split(&frame, &["plan", "results"]).into_iter();
        let results = outcome.results.into_iter().zip(has_event);
        let results = results.map(|(result, has_event)| RecordedResult { result, has_event });
        Ok(Self {
            store: store.clone(),
            run_id: size.record.header.run_id.clone(),
            caller: caller.cloned(),
            now,
            status: size.record.progress.status,
            cursor: size.cursor(),
            results: results.collect::<Vec<_>>().into_iter(),
            written: 0,
            restored: false,
            parts: std::array::from_fn(|_| parts.next().unwrap_or_default()),
            stage: DocumentStage::Plan,
        })
    }

    /// Returns the next parts of the text; none at its end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Bytes>>, store::Error> {
        while self.stage != DocumentStage::Over {
            let mut out = Vec::new();
            match self.store.page(&mut self.cursor)? {
                Some(page) => self.take_page(&Bytes::from(page), &mut out)?,
                None => self.finish(&mut out),
            }
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    fn take_page(&mut self, page: &Bytes, out: &mut Vec<Bytes>) -> Result<(), store::Error> {
        let text = str::from_utf8(page).unwrap_or_default();
        for line in text.lines() {
            let Ok(line) = Line::read(line) else { continue };
            match Kind::from_name(&line.kind) {
                Some(Kind::PlanCreated) if self.stage == DocumentStage::Plan => {
                    let plan = Members::of(line.payload).find("plan");
                    self.begin_results(plan.map(|plan| page.slice_ref(plan.as_bytes())), out);
                }
                Some(Kind::ToolCallSucceeded | Kind::ToolCallFailed) => {
                    let output = Members::of(line.payload).find("output");
                    self.take_output(page, output, out)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn begin_results(&mut self, plan: Option<Bytes>, out: &mut Vec<Bytes>) {
        let [before, between, _] = &mut self.parts;
        out.push(std::mem::take(before).into());
        out.push(plan.unwrap_or_else(|| Bytes::from_static(b"[]")));
        out.push(format!("{}[", std::mem::take(between)).into());
        self.stage = DocumentStage::Results;
    }

    /// Writes the results up to the one whose output was read.
    fn take_output(
        &mut self,
        page: &Bytes,
        output: Option<&str>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), store::Error> {
        while let Some(RecordedResult { mut result, has_event }) = self.results.next() {
            if !has_event {
                self.write(&result, Bytes::from_static(b"{}"), out);
                continue;
            }
            let signals = result.signals.as_ref();
            // The work of a step whose signals were rejected is not passed on.
            let is_rejected = signals.is_some_and(|it| it.action == Action::AutoReject);
            let output = output.filter(|_| !is_rejected).unwrap_or("{}");
            let mut shown = match output.as_bytes() {
                b"{}" => Bytes::from_static(b"{}"),
                text => page.slice_ref(text),
            };
            if output.contains(REDACTED)
                && let Some(object) = parse(output)
            {
                result.redacted = redacted_pointers(&object);
                if let Some(answer) = self.held_answer()? {
                    result.redacted = redacted_pointers(&answer);
                    let mut text = String::new();
                    json::write_compact_object(&mut text, &answer);
                    shown = text.into();
                }
            }
            self.write(&result, shown, out);
            break;
        }
        Ok(())
    }

    fn held_answer(&mut self) -> Result<Option<Object>, store::Error> {
        let caller = self.caller.as_ref();
        let step = Some(self.written);
        let held = self.store.held_answers_of(&self.run_id, step, caller, self.now)?;
        let answer = held.into_iter().next().map(|(_, answer)| answer);
        self.restored |= answer.is_some();
        Ok(answer)
    }

    fn write(&mut self, result: &StepResult, output: Bytes, out: &mut Vec<Bytes>) {
        let (before, after) = result_parts(result);
        let separator = if self.written > 0 { "," } else { "" };
        out.push(format!("{separator}{before}").into());
        out.push(output);
        out.push(after.into());
        self.written += 1;
    }

    fn finish(&mut self, out: &mut Vec<Bytes>) {
        if self.stage == DocumentStage::Plan {
            self.begin_results(None, out);
        }
        while let Some(RecordedResult { result, .. }) = self.results.next() {
            self.write(&result, Bytes::from_static(b"{}"), out);
        }
        out.push(format!("]{}", std::mem::take(&mut self.parts[2])).into());
        self.stage = DocumentStage::Over;
        if self.restored
            && self.status != Status::Running
            && let Err(error) = self.store.remove_held_answers(&self.run_id)
        {
            let run_id = &self.run_id;
            tracing::warn!(run_id, %error, "cannot remove answers that were fetched");
        }
    }
}

/// Reads everything of an event that is small. Returns its kind.
fn take_small(recorded: &mut Recorded, line: &str, record: &store::RunRecord) -> Option<Kind> {
    let line = Line::read(line).ok()?;
    let kind = Kind::from_name(&line.kind)?;
    let payload = match kind {
        Kind::RunStarted | Kind::ToolCallRequested => return Some(kind),
        Kind::ApprovalRequested if !record.waits => return Some(kind),
        Kind::PlanCreated => small_plan(line.payload)?,
        Kind::ToolCallSucceeded | Kind::ToolCallFailed => {
            match Members::of(line.payload).find("output") {
                Some(output) => {
                    let start = output.as_ptr() as usize - line.payload.as_ptr() as usize;
                    let (before, rest) = line.payload.split_at(start);
                    parse(&format!("{before}{{}}{}", &rest[output.len()..]))?
                }
                None => parse(line.payload)?,
            }
        }
        _ => parse(line.payload)?,
    };
    let simulated = record.header.mode == "dry_run";
    recorded.take(kind, payload, simulated, (&record.header.run_id, &line.ts));
    Some(kind)
}

fn parse(text: &str) -> Option<Object> {
    let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
    json::parse(text.as_bytes(), limits).ok().and_then(Value::into_object)
}

/// Returns a plan with the ids and methods of its steps alone.
fn small_plan(payload: &str) -> Option<Object> {
    #[derive(Deserialize)]
    struct Plan<'a> {
        #[serde(borrow, default)]
        plan: Vec<Step<'a>>,
    }
    #[derive(Deserialize)]
    struct Step<'a> {
        #[serde(borrow, default)]
        step_id: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        call: Option<Call<'a>>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, default)]
        method: Option<Cow<'a, str>>,
    }
    let plan: Plan<'_> = serde_json::from_str(payload).ok()?;
    let steps = plan.plan.into_iter().map(|step| {
        let mut call = Object::new();
        if let Some(method) = step.call.and_then(|call| call.method) {
            call.insert("method", &*method);
        }
        let mut small = Object::new();
        small.insert("step_id", step.step_id.as_deref());
        small.insert("call", call);
        Value::Object(small)
    });
    let mut payload = Object::new();
    payload.insert("plan", steps.collect::<Vec<_>>());
    Some(payload)
}

//! The steps of a run as far as its events tell, found by id.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::json::{Object, Value};

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepView {
    step_id: Arc<str>,
    /// The event with which it began.
    pub started_seq: i64,
    /// The event with which it was over.
    pub completed_seq: Option<i64>,
    /// The event with which its call was requested.
    pub tool_call_requested_seq: Option<i64>,
    /// The event with the result of its call.
    pub tool_call_result_seq: Option<i64>,
    /// `ok` or `error`, once it is over.
    pub status: Option<Cow<'static, str>>,
}

impl StepView {
    /// Returns its id.
    #[must_use]
    pub fn step_id(&self) -> &str {
        &self.step_id
    }

    pub(super) const fn is_open(&self) -> bool {
        self.completed_seq.is_none()
    }

    pub(super) fn complete(&mut self, seq: i64, status: Option<&str>) {
        self.completed_seq = Some(seq);
        self.status = status.map(|status| match status {
            "ok" => Cow::Borrowed("ok"),
            "error" => Cow::Borrowed("error"),
            other => Cow::Owned(other.to_owned()),
        });
    }

    pub(super) fn to_json(&self) -> Value {
        let mut step = Object::with_capacity(6);
        step.insert("step_id", self.step_id());
        step.insert("started_seq", self.started_seq);
        step.insert("completed_seq", self.completed_seq);
        step.insert("tool_call_requested_seq", self.tool_call_requested_seq);
        step.insert("tool_call_result_seq", self.tool_call_result_seq);
        step.insert("status", self.status.as_deref());
        step.into()
    }
}

/// Steps in the order in which they were first started.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    all: Vec<StepView>,
    places: HashMap<Arc<str>, usize>,
    /// The one that was looked for last; the next event is most likely of the same.
    last: usize,
}

impl Steps {
    pub(super) fn all(&self) -> &[StepView] {
        &self.all
    }

    /// Makes room for so many.
    pub(super) fn expect(&mut self, steps: usize) {
        self.all.reserve(steps);
        self.places.reserve(steps);
    }

    /// Begins a step; one that was begun before is begun afresh in its old place.
    pub(super) fn start(&mut self, step_id: &str, seq: i64) {
        let fresh = |step_id| StepView {
            step_id,
            started_seq: seq,
            completed_seq: None,
            tool_call_requested_seq: None,
            tool_call_result_seq: None,
            status: None,
        };
        match self.places.entry(step_id.into()) {
            Entry::Occupied(known) => {
                self.last = *known.get();
                self.all[self.last] = fresh(Arc::clone(known.key()));
            }
            Entry::Vacant(unknown) => {
                self.last = self.all.len();
                self.all.push(fresh(Arc::clone(unknown.key())));
                unknown.insert(self.last);
            }
        }
    }

    pub(super) fn find_mut(&mut self, step_id: &str) -> Option<&mut StepView> {
        let is_last = self.all.get(self.last).is_some_and(|step| *step.step_id == *step_id);
        if !is_last {
            self.last = *self.places.get(step_id)?;
        }
        self.all.get_mut(self.last)
    }
}

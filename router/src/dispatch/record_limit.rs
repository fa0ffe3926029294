//! Limit of a run's record: answers beyond it are recorded by their digest, and steps beyond it are not begun.

use std::time::{Duration, Instant};

use nexus_router_sdk::ErrorKind;

use super::{Execution, Surroundings};
use crate::budget::{ROOM_PATIENCE, Reservation};
use crate::event::{Failure, OutputDigest, Payload};
use crate::json::{self, Object};
use crate::outcome::StepResult;
use crate::recorder::RecordFit;
use crate::run::Illegal;
use crate::share;

/// Room that is kept for the events that end a step and the run.
const RESERVE: usize = 16 * 1024;
/// Longest message of an error whose details are recorded by their digest.
const MESSAGE: usize = 1024;
/// Memory that an answer takes, as a multiple of its recorded bytes.
const VALUES: usize = 2;

impl Execution {
    /// Returns the failure of a run whose record has no room for its next step.
    pub(super) fn record_full(&self, around: &Surroundings, index: usize) -> Option<Failure> {
        let limit = around.run_record_bytes;
        let written = self.recorder.bytes();
        // The plan is recorded, so no call in it is longer than what is written.
        if written.saturating_mul(2).saturating_add(RESERVE) <= limit {
            return None;
        }
        let mut step = String::new();
        json::write_canonical_object(&mut step, self.recorded(index));
        let is_full = written.saturating_add(step.len()).saturating_add(RESERVE) > limit;
        is_full.then_some(Failure::RecordLimit { limit: limit as u64 })
    }

    /// Returns whether the run has to wait for memory before its next step.
    pub(super) fn is_crowded(&self, around: &Surroundings) -> bool {
        around.memory.is_crowded(self.holder(), self.own_memory())
    }

    /// Returns the memory that the answers of the run take.
    fn own_memory(&self) -> usize {
        self.memory.as_ref().map_or(0, Reservation::bytes)
    }

    /// Waits before a step until there is memory for more answers of the caller. Returns the failure of a run that
    /// waited in vain.
    pub(super) async fn wait_for_memory(
        &self,
        around: &Surroundings,
        end: Option<Instant>,
    ) -> Option<Failure> {
        let own = self.own_memory();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let patience = left.into_iter().fold(ROOM_PATIENCE, Duration::min);
        let uncrowded = around.memory.wait_until_uncrowded(self.holder(), own, patience);
        let shortage = tokio::select! {
            biased;
            waited = uncrowded => waited.err()?,
            () = self.cancelled.notify.notified() => return self.given_up(end),
        };
        self.given_up(end).or(Some(Failure::MemoryLimit { shortage }))
    }

    /// Returns the name of the caller's account in the memory budget.
    fn holder(&self) -> &str {
        share::token_id(self.origin.caller.as_deref())
    }

    /// Counts the answer that was recorded last, if it is large.
    fn count_answer(&mut self, around: &Surroundings, bytes: usize) {
        if bytes <= crate::budget::SMALL {
            return;
        }
        let taken = around.memory.reserve_taken(self.holder(), 0);
        let mut memory = self.memory.take().unwrap_or(taken);
        memory.grow_taken(self.holder(), bytes.saturating_mul(VALUES));
        self.memory = Some(memory);
    }

    /// Records the result of a step. An output that does not fit is replaced by its digest. The call counts as made.
    pub(super) fn record_result_within(
        &mut self,
        around: &Surroundings,
        result: &mut StepResult,
        time: Duration,
    ) -> Result<(), Illegal> {
        let limit = around.run_record_bytes;
        let room = limit.saturating_sub(self.recorder.bytes()).saturating_sub(RESERVE);
        let before = self.recorder.bytes();
        if self.try_record(result, time, room)? == RecordFit::Recorded {
            self.count_answer(around, self.recorder.bytes() - before);
            return Ok(());
        }
        if !result.output.is_empty() {
            result.output_digest = Some(OutputDigest::of(&result.output));
        }
        if self.try_record(result, time, room)? == RecordFit::Recorded {
            return Ok(());
        }
        shorten_error(result);
        self.record_result(result, time)
    }

    fn try_record(
        &mut self,
        result: &StepResult,
        time: Duration,
        room: usize,
    ) -> Result<RecordFit, Illegal> {
        let called = std::mem::take(&mut self.called);
        let fit = self.recorder.record_within(&result_payload(result, &called, time), room);
        self.called = called;
        fit
    }

    /// Drops an output that is recorded by its digest. The only step of a run keeps it for its caller.
    pub(super) fn drop_unrecorded(&mut self) {
        let is_only = self.plan.len() == 1;
        let Some(result) = self.results.last_mut().filter(|it| it.output_digest.is_some()) else {
            return;
        };
        let output = std::mem::take(&mut result.output);
        match &mut result.answer {
            Some(_) if is_only => {}
            answer if is_only && !output.is_empty() => *answer = Some(Box::new(output)),
            answer => {
                *answer = None;
                result.redacted = Vec::new();
            }
        }
    }
}

/// Returns the event of a result. An output with a digest is left out.
pub(super) fn result_payload<'a>(
    result: &'a StepResult,
    adapter_id: &'a str,
    time: Duration,
) -> Payload<'a> {
    static NOTHING: Object = Object::new();
    let duration_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let step_id = &result.step_id;
    let output_digest = result.output_digest;
    let output = if output_digest.is_some() { &NOTHING } else { &result.output };
    match &result.error {
        None => Payload::ToolCallSucceeded {
            step_id,
            simulated: result.simulated,
            output,
            output_digest,
            adapter_id,
            duration_ms,
        },
        Some(error) => Payload::ToolCallFailed {
            step_id,
            error_kind: error.kind_name(),
            error_code: &error.code,
            message: &error.message,
            details: &error.details,
            output: Some(output).filter(|output| !output.is_empty()),
            output_digest,
            adapter_id,
            duration_ms,
        },
    }
}

/// Replaces details that do not fit by their digest, and shortens the message.
fn shorten_error(result: &mut StepResult) {
    let Some(error) = &mut result.error else { return };
    debug_assert!(matches!(error.kind, ErrorKind::Operational | ErrorKind::Bug));
    let digest = OutputDigest::of(&error.details).to_json();
    error.details = Object::new();
    error.details.insert("details_digest", digest);
    let end = (0..=MESSAGE).rev().find(|end| error.message.is_char_boundary(*end));
    error.message.truncate(end.unwrap_or(0).min(error.message.len()));
}

//! What the bundle of a run is made of, by the lines of its record.

use super::build::{Draft, Event};
use crate::digest::Digest;
use crate::event::{Kind, Line};
use crate::json::{Limits, Object, Value, parse, to_canonical};

/// The kind of events that tell an evaluation, and what a policy decided on it.
pub(super) const EVALUATED: &str = Kind::SignalsEvaluated.name();
/// The kind of the event that says of which record the bundle is made.
pub(super) const RECORDED: &str = "RUN_RECORDED";
/// Who says so.
const ACTOR: &str = "nexus-router";
/// In a bundle an evaluation stands within five others.
const PAYLOAD: Limits = Limits { depth: Limits::BUNDLE.depth - 8, ..Limits::BUNDLE };

/// A record from which no bundle can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No step of the run was held to a signal contract.
    #[error("the run {run_id} has no evaluation of a signal contract")]
    Nothing {
        /// The run.
        run_id: String,
    },
    /// An event of it cannot be read.
    #[error("event {place} of the run cannot be read: {why}")]
    Unreadable {
        /// Which event, from 0.
        place: usize,
        /// Why.
        why: String,
    },
    /// Its events are not those that were recorded.
    #[error("the events of the run {run_id} are not those that were recorded")]
    Changed {
        /// The run.
        run_id: String,
    },
}

/// Returns what the bundle of a run is made of: a proof and an event for each evaluation, and an event that names the
/// record by the last link of its chain.
///
/// # Errors
/// When there is no evaluation, an event cannot be read, or the events do not lead to the head: what was changed in the
/// store is not sealed as if it had happened.
pub fn of_run<'a>(
    run_id: &str,
    head: &Digest,
    lines: impl Iterator<Item = &'a str>,
    sealed_at: &str,
) -> Result<Draft, RunError> {
    let (mut proofs, mut events, mut count, mut last) = (Vec::new(), Vec::new(), 0_usize, None);
    let mut chain = Digest::ZERO;
    for (place, line) in lines.enumerate() {
        chain = chain.chain(line);
        let unreadable = |why: String| RunError::Unreadable { place, why };
        let line = Line::read(line).map_err(|error| unreadable(error.to_string()))?;
        count += 1;
        last = Some(line.ts.to_string());
        if line.kind != EVALUATED {
            continue;
        }
        let payload = parse(line.payload.as_bytes(), PAYLOAD);
        let payload = payload.map_err(|error| unreadable(error.to_string()))?;
        let mut payload = payload
            .into_object()
            .ok_or_else(|| unreadable("its payload is no object".to_owned()))?;
        let evaluation = payload
            .remove("adapter_evaluation")
            .ok_or_else(|| unreadable("it has no adapter_evaluation".to_owned()))?;
        let hash = Digest::of(to_canonical(&evaluation).as_bytes()).to_string();
        let mut evidence = Object::with_capacity(1);
        evidence.insert("adapter_evaluation", evaluation);
        let mut proof = Object::with_capacity(4);
        proof.insert("id", line.event_id.as_ref());
        proof.insert("deal_id", run_id);
        proof.insert("step_id", payload.get("step_id").cloned().unwrap_or(Value::Null));
        proof.insert("evidence", evidence);
        proofs.push(proof.into());
        payload.insert("evaluation_hash", hash);
        payload.insert("seq", line.seq);
        events.push(Event {
            id: line.event_id.into_owned(),
            kind: EVALUATED.to_owned(),
            actor: ACTOR.to_owned(),
            timestamp: line.ts.into_owned(),
            payload,
        });
    }
    if chain != *head {
        return Err(RunError::Changed { run_id: run_id.to_owned() });
    }
    if proofs.is_empty() {
        return Err(RunError::Nothing { run_id: run_id.to_owned() });
    }
    let mut payload = Object::with_capacity(3);
    payload.insert("run_id", run_id);
    payload.insert("events", count);
    payload.insert("chain_head", head.to_string());
    let recorded = Event {
        id: format!("{run_id}/record"),
        kind: RECORDED.to_owned(),
        actor: ACTOR.to_owned(),
        timestamp: last.unwrap_or_else(|| sealed_at.to_owned()),
        payload,
    };
    events.push(recorded);
    Ok(Draft {
        deal_id: run_id.to_owned(),
        proofs,
        events,
        sealer: ACTOR.to_owned(),
        sealed_at: sealed_at.to_owned(),
    })
}

//! Makes a bundle: chains its events, seals its proofs, and anchors the seal in a log.

use super::binding::{self, BINDING, BUNDLE_TYPE, LOG_ID, SEALED, SPEC_VERSION};
use super::{Log, LogError, event, hash};
use crate::json::{Object, Value};
use crate::key::SigningKey;

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its id, unique in the bundle.
    pub id: String,
    /// What kind of thing happened.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// When: RFC 3339.
    pub timestamp: String,
    /// What exactly.
    pub payload: Object,
}

/// What a bundle is made of.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What all of it is about: the id of the run.
    pub deal_id: String,
    /// The proofs, each with the evaluation in `evidence.adapter_evaluation`.
    pub proofs: Vec<Value>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Who seals the proofs.
    pub sealer: String,
    /// When: RFC 3339.
    pub sealed_at: String,
}

/// Makes a bundle, and appends its seal to the log. The log is unchanged if that fails.
///
/// # Errors
/// When the draft cannot be bound, the log is that of another key, or cannot be written.
pub fn build(draft: Draft, log: &mut Log, key: &SigningKey) -> Result<Object, LogError> {
    let refused = |why: &str| Err(LogError::Draft { why: why.to_owned() });
    let Draft { deal_id, proofs, events, sealer, sealed_at } = draft;
    let texts = events.iter().flat_map(|it| [&it.id, &it.kind, &it.actor, &it.timestamp]);
    if texts.chain([&deal_id, &sealer, &sealed_at]).any(String::is_empty) {
        return refused("an id, a type, an actor or a time is empty");
    }
    if sealed_at.contains('|') {
        return refused("the time of the seal has a |");
    }
    if events.iter().any(|event| event.kind == SEALED) {
        return refused("an event besides the last is a seal");
    }
    if proofs.iter().any(|proof| proof.as_object().is_none()) {
        return refused("a proof is no object");
    }
    let (earlier_size, earlier_root) = (log.size(), log.root());
    let count = events.len();
    let mut last = String::new();
    let mut chained = Vec::with_capacity(count + 1);
    for event in events {
        chained.push(chain(&mut last, &deal_id, event));
    }
    let mut place = Object::with_capacity(3);
    place.insert("log_id", LOG_ID);
    place.insert("earlier_size", earlier_size);
    place.insert("earlier_root", earlier_root.to_string());
    let proofs = Value::Array(proofs);
    let proof_list = proofs.as_array().unwrap_or_default();
    let mut seal = Object::with_capacity(6);
    seal.insert("binding", BINDING);
    seal.insert("proofs_hash", binding::proofs_hash(&proofs));
    seal.insert("evaluation_hashes", binding::evaluation_hashes(proof_list));
    seal.insert("proof_count", proof_list.len());
    seal.insert("event_count", count);
    seal.insert("log", place);
    let id = format!("{deal_id}/seal/{earlier_size}");
    let sealed = Event {
        id,
        kind: SEALED.to_owned(),
        actor: sealer,
        timestamp: sealed_at.clone(),
        payload: seal,
    };
    let sealed = chain(&mut last, &deal_id, sealed);
    let Some(leaf) = event::leaf(&sealed) else { return refused("the seal has no leaf") };
    chained.push(sealed);
    let appended = log.append(leaf, key, &sealed_at)?;
    let root = appended.head.get("root_hash").cloned().unwrap_or(Value::Null);
    let hashes = |hashes: Vec<crate::digest::Digest>| -> Vec<Value> {
        hashes.into_iter().map(|hash| hash.to_string().into()).collect()
    };
    let mut inclusion = Object::with_capacity(6);
    inclusion.insert("leaf_hash", leaf.to_string());
    inclusion.insert("leaf_index", earlier_size);
    inclusion.insert("tree_size", earlier_size + 1);
    inclusion.insert("merkle_root", root.clone());
    inclusion.insert("proof", hashes(appended.inclusion));
    inclusion.insert("log_id", LOG_ID);
    let mut bundle = Object::with_capacity(9);
    bundle.insert("spec_version", SPEC_VERSION);
    bundle.insert("bundle_type", BUNDLE_TYPE);
    bundle.insert("deal_id", deal_id);
    bundle.insert("proofs", proofs);
    bundle.insert("events", chained);
    bundle.insert("merkle_inclusion", inclusion);
    bundle.insert("signed_tree_head", appended.head);
    if earlier_size > 0 {
        let mut consistency = Object::with_capacity(5);
        consistency.insert("old_size", earlier_size);
        consistency.insert("old_root", earlier_root.to_string());
        consistency.insert("new_size", earlier_size + 1);
        consistency.insert("new_root", root);
        consistency.insert("proof", hashes(appended.consistency));
        bundle.insert("consistency", consistency);
    }
    let bundle = Value::from(bundle);
    let hash = hash(&bundle);
    let mut bundle = bundle.into_object().unwrap_or_default();
    bundle.insert("bundle_hash", hash);
    Ok(bundle)
}

/// Returns an event that follows the last one, and takes its hash for the next.
fn chain(last: &mut String, deal_id: &str, event: Event) -> Value {
    let Event { id, kind, actor, timestamp, payload } = event;
    let mut chained = Object::with_capacity(8);
    chained.insert("event_id", id);
    chained.insert("event_type", kind);
    chained.insert("deal_id", deal_id);
    chained.insert("actor_id", actor);
    chained.insert("timestamp", timestamp);
    chained.insert("payload", payload);
    chained.insert("prev_hash", last.as_str());
    let hash = event::hash(&chained);
    chained.insert("hash", hash.as_str());
    *last = hash;
    chained.into()
}

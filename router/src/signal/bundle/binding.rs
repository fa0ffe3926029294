//! What binds bundles of ours: the last event seals the proofs, it is the one that is anchored, and nothing else stands
//! in the bundle.
//!
//! So a change anywhere changes the sealed event, its leaf, or the signed head. [`check`] asks for the exact form of all
//! that no hash covers: **no member of a bundle of ours is outside of the binding**.

use super::anchor::{self, Binding, Inclusion};
use super::run::{EVALUATED, RECORDED};
use super::{event, replay};
use crate::digest::Digest;
use crate::json::{self, Object, Value, to_canonical};
use crate::key::PublicKey;
use crate::merkle;
use crate::signal::Finding;

/// The type of the event that seals the proofs.
pub const SEALED: &str = "EVALUATIONS_SEALED";
/// What its payload says that it is.
pub const BINDING: &str = "nexus-router/evaluation-binding/v1";
/// The log to which such events are appended.
pub const LOG_ID: &str = "nexus_router_signal_log_v1";
/// The version of the format: that for which the AiGentsy verifier makes all five steps, and no more.
pub const SPEC_VERSION: &str = "2.0.0";
/// What the bundle says that it is.
pub(super) const BUNDLE_TYPE: &str = "proof_bundle";

const MEMBERS: [&str; 8] = [
    "spec_version",
    "bundle_type",
    "deal_id",
    "proofs",
    "events",
    "merkle_inclusion",
    "signed_tree_head",
    "bundle_hash",
];
const EVENT: [&str; 8] =
    ["event_id", "event_type", "deal_id", "actor_id", "timestamp", "payload", "prev_hash", "hash"];
const SEAL: [&str; 6] =
    ["binding", "proofs_hash", "evaluation_hashes", "proof_count", "event_count", "log"];
const INCLUSION: [&str; 6] =
    ["leaf_hash", "leaf_index", "tree_size", "merkle_root", "proof", "log_id"];
const HEAD: [&str; 7] =
    ["log_id", "tree_size", "root_hash", "timestamp", "signature", "key_id", "algorithm"];
const CONSISTENCY: [&str; 5] = ["old_size", "old_root", "new_size", "new_root", "proof"];

/// Returns the hash of the proofs of a bundle.
pub(super) fn proofs_hash(proofs: &Value) -> String {
    Digest::of(to_canonical(proofs).as_bytes()).to_string()
}

/// Returns the hash of each evaluation; a proof without one has none.
pub(super) fn evaluation_hashes(proofs: &[Value]) -> Value {
    let hash = |proof: &Value| {
        let evaluation = replay::of_proof(proof)?;
        Some(Digest::of(to_canonical(evaluation).as_bytes()).to_string())
    };
    proofs.iter().map(|proof| Value::from(hash(proof))).collect::<Vec<Value>>().into()
}

/// Says whether a bundle claims to be bound as those of ours are.
pub(super) fn is_claimed(bundle: &Value) -> bool {
    let of_our_log = |block: &str| {
        bundle.get(block).and_then(|block| block.get("log_id")).and_then(Value::as_str)
            == Some(LOG_ID)
    };
    of_our_log("signed_tree_head")
        || of_our_log("merkle_inclusion")
        || event::all(bundle).iter().any(|event| is_seal(event) || is_of_run(event))
}

/// Says whether an event is one that only bundles of our runs have: they stay when the seal is cut off.
fn is_of_run(event: &Value) -> bool {
    let kind = event.get("event_type").and_then(Value::as_str);
    kind.is_some_and(|kind| [EVALUATED, RECORDED].contains(&kind))
}

fn is_seal(event: &Value) -> bool {
    let stated = event::payload(event).and_then(|payload| payload.get("binding"));
    event.get("event_type").and_then(Value::as_str) == Some(SEALED)
        || stated.and_then(Value::as_str).is_some_and(|it| it.starts_with("nexus-router/"))
}

/// Returns why a bundle is not bound as it claims.
pub(super) fn check(bundle: &Value, key: Option<&PublicKey>) -> Vec<Finding> {
    let mut check = Check { findings: Vec::new() };
    check.bundle(bundle, key);
    check.findings
}

struct Check {
    findings: Vec<Finding>,
}

impl Check {
    fn find(&mut self, pointer: &str, message: impl Into<String>) {
        self.findings.push(Finding::error(pointer, message));
    }

    /// Asks that something holds, and tells if it does not.
    fn ask(&mut self, holds: bool, pointer: &str, message: &str) {
        if !holds {
            self.find(pointer, message);
        }
    }

    /// Returns an object that has exactly these members, and tells what else it has or lacks.
    fn exact<'a>(
        &mut self,
        value: Option<&'a Value>,
        pointer: &str,
        members: &[&str],
    ) -> Option<&'a Object> {
        let Some(object) = value.and_then(Value::as_object) else {
            self.find(pointer, "it has to be an object, in a bundle that is bound");
            return None;
        };
        for name in object.keys().filter(|name| !members.contains(name)) {
            self.find(&format!("{pointer}/{}", escaped(name)), "nothing binds this member");
        }
        for name in members.iter().filter(|name| !object.contains_key(name)) {
            self.find(&format!("{pointer}/{name}"), "it is missing, in a bundle that is bound");
        }
        Some(object)
    }

    fn bundle(&mut self, bundle: &Value, key: Option<&PublicKey>) {
        let mut members = MEMBERS.to_vec();
        // Whether there has to be a proof of consistency follows from the seal.
        members.extend(bundle.get("consistency").map(|_| "consistency"));
        self.exact(Some(bundle), "", &members);
        let text = |name: &str| bundle.get(name).and_then(Value::as_str);
        self.ask(text("spec_version") == Some(SPEC_VERSION), "/spec_version", "it is not 2.0.0");
        self.ask(
            text("bundle_type") == Some(BUNDLE_TYPE),
            "/bundle_type",
            "it is not proof_bundle",
        );
        self.ask(
            text("deal_id").is_some_and(|deal| !deal.is_empty()),
            "/deal_id",
            "it names no deal",
        );
        let events = event::all(bundle);
        self.events(events);
        let Some(last) = events.len().checked_sub(1) else {
            return self.find("/events", "there is no event that seals the proofs");
        };
        let seals = events.iter().filter(|event| is_seal(event)).count();
        self.ask(
            seals == 1 && is_seal(&events[last]),
            "/events",
            "the last event, and no other, has to seal the proofs",
        );
        self.ask(
            anchor::binding(bundle) == Binding::Bound(last),
            "/merkle_inclusion/leaf_hash",
            "it is not the leaf of the last event",
        );
        let pointer = format!("/events/{last}/payload");
        let Some(seal) = self.exact(events[last].get("payload"), &pointer, &SEAL) else { return };
        self.seal(bundle, seal, last, &pointer);
        self.log(bundle, seal.get("log"), key, &format!("{pointer}/log"));
    }

    fn events(&mut self, events: &[Value]) {
        for (index, event) in events.iter().enumerate() {
            let pointer = format!("/events/{index}");
            let Some(event) = self.exact(Some(event), &pointer, &EVENT) else { continue };
            for name in EVENT.into_iter().filter(|name| *name != "payload") {
                let text = event.get(name).and_then(Value::as_str);
                let may_be_empty = name == "prev_hash" && index == 0;
                self.ask(
                    text.is_some_and(|text| may_be_empty == text.is_empty()),
                    &format!("{pointer}/{name}"),
                    if may_be_empty {
                        "the first event follows none: it has to be empty"
                    } else {
                        "it has to be a text that is not empty"
                    },
                );
            }
            self.ask(
                event.get("payload").is_some_and(|payload| payload.as_object().is_some()),
                &format!("{pointer}/payload"),
                "it has to be an object",
            );
        }
    }

    /// Holds the proofs to their seal.
    fn seal(&mut self, bundle: &Value, seal: &Object, events: usize, pointer: &str) {
        let empty = Value::Array(Vec::new());
        let proofs = bundle.get("proofs").unwrap_or(&empty);
        let at = |name: &str| format!("{pointer}/{name}");
        let is = |name: &str, value: Value| seal.get(name) == Some(&value);
        self.ask(
            is("binding", BINDING.into()),
            &at("binding"),
            "the binding is not one that is known",
        );
        self.ask(
            is("proofs_hash", proofs_hash(proofs).into()),
            &at("proofs_hash"),
            "the proofs are not those that were sealed",
        );
        let proofs = proofs.as_array().unwrap_or_default();
        let sealed = seal.get("evaluation_hashes").and_then(Value::as_array).unwrap_or_default();
        let hashes = evaluation_hashes(proofs);
        let hashes = hashes.as_array().unwrap_or_default();
        self.ask(
            sealed.len() == hashes.len(),
            &at("evaluation_hashes"),
            "there is not one for each proof",
        );
        for (index, proof) in proofs.iter().enumerate() {
            let Some(evaluation) = replay::of_proof(proof) else { continue };
            let inputs = evaluation.get("normalized_policy_inputs").unwrap_or(&Value::Null);
            let hash = Digest::of(to_canonical(inputs).as_bytes()).to_string();
            self.ask(
                evaluation.get("output_hash").and_then(Value::as_str) == Some(&hash),
                &format!("/proofs/{index}/evidence/adapter_evaluation/output_hash"),
                "it is not the hash of the inputs of the policy",
            );
        }
        for (index, (sealed, hash)) in sealed.iter().zip(hashes).enumerate() {
            self.ask(
                sealed == hash,
                &format!("/proofs/{index}/evidence/adapter_evaluation"),
                "the evaluation is not the one that was sealed",
            );
        }
        self.ask(
            is("proof_count", proofs.len().into()),
            &at("proof_count"),
            "it is not their number",
        );
        self.ask(
            is("event_count", events.into()),
            &at("event_count"),
            "it is not the number of events before this one",
        );
    }

    /// Holds the anchor to what the seal says of the log.
    fn log(&mut self, bundle: &Value, log: Option<&Value>, key: Option<&PublicKey>, pointer: &str) {
        let Some(log) = self.exact(log, pointer, &["log_id", "earlier_size", "earlier_root"])
        else {
            return;
        };
        let id = log.get("log_id");
        self.ask(
            id.and_then(Value::as_str) == Some(LOG_ID),
            pointer,
            "it is not the log of bundles",
        );
        let earlier = log.get("earlier_size").and_then(Value::as_i64);
        let earlier =
            earlier.and_then(|size| u64::try_from(size).ok()).filter(|size| *size < LARGEST);
        let root =
            log.get("earlier_root").filter(|root| is_plain_hash(root)).and_then(anchor::hash);
        let Some((earlier, earlier_root)) = earlier.zip(root) else {
            return self.find(pointer, "it does not tell the tree before the last event");
        };
        let inclusion = bundle.get("merkle_inclusion");
        let head = bundle.get("signed_tree_head");
        self.exact(inclusion, "/merkle_inclusion", &INCLUSION);
        self.exact(head, "/signed_tree_head", &HEAD);
        let (Some(inclusion), Some(head)) = (inclusion, head) else { return };
        let Some(proof) = Inclusion::read(inclusion) else {
            return self.find("/merkle_inclusion", "it is no proof of inclusion");
        };
        let plain = inclusion.get("proof").and_then(Value::as_array).is_some_and(|proof| {
            proof.iter().chain(inclusion.get("merkle_root")).all(is_plain_hash)
        });
        self.ask(plain, "/merkle_inclusion/proof", "its hashes are not plain texts");
        self.ask(
            proof.index == earlier && proof.size == earlier + 1,
            "/merkle_inclusion/leaf_index",
            "the last event is not the next leaf of the log that it names",
        );
        for (name, wanted) in [
            ("log_id", id.cloned()),
            ("tree_size", Some(proof.size.into())),
            ("root_hash", inclusion.get("merkle_root").cloned()),
            ("algorithm", Some("Ed25519".into())),
        ] {
            self.ask(
                head.get(name) == wanted.as_ref(),
                &format!("/signed_tree_head/{name}"),
                "it is not that of the bundle's proof",
            );
        }
        self.ask(inclusion.get("log_id") == id, "/merkle_inclusion/log_id", "it is another log");
        let timestamp = head.get("timestamp").and_then(Value::as_str);
        self.ask(
            timestamp.is_some_and(|time| !time.is_empty() && !time.contains('|')),
            "/signed_tree_head/timestamp",
            "it is no time",
        );
        let named = head.get("key_id").and_then(Value::as_str);
        self.ask(
            key.map_or(named.is_some(), |key| named == Some(&key.key_id())),
            "/signed_tree_head/key_id",
            "it is not the id of the given key",
        );
        self.ask(
            head.get("signature").is_some_and(|it| it.as_str().is_some()),
            "/signed_tree_head/signature",
            "it is no text",
        );
        self.consistency(bundle.get("consistency"), earlier, &earlier_root, &proof);
    }

    /// Holds the log to the one before the last event.
    fn consistency(
        &mut self,
        stated: Option<&Value>,
        earlier: u64,
        earlier_root: &Digest,
        now: &Inclusion,
    ) {
        let pointer = "/consistency";
        if earlier == 0 {
            self.ask(stated.is_none(), pointer, "the log was empty: there is nothing to prove");
            let message = "a log without leaves has another root";
            return self.ask(*earlier_root == merkle::empty(), "/events", message);
        }
        let Some(stated) = self.exact(stated, pointer, &CONSISTENCY) else { return };
        let proof = stated.get("proof").and_then(Value::as_array).and_then(|proof| {
            let plain = proof.iter().filter(|hash| is_plain_hash(hash));
            plain.map(anchor::hash).collect::<Option<Vec<_>>>().filter(|it| it.len() == proof.len())
        });
        for (name, wanted) in [
            ("old_size", Value::from(earlier)),
            ("old_root", earlier_root.to_string().into()),
            ("new_size", now.size.into()),
            ("new_root", now.root.to_string().into()),
        ] {
            self.ask(
                stated.get(name) == Some(&wanted),
                &format!("{pointer}/{name}"),
                "it is not that of the log",
            );
        }
        let holds = proof.is_some_and(|proof| {
            merkle::verify_consistency(earlier, now.size, earlier_root, &now.root, &proof)
        });
        self.ask(holds, pointer, "the log does not begin with the one before the last event");
    }
}

/// No log is larger: sizes are written as integers of 63 bits.
const LARGEST: u64 = 1 << 62;

/// Says whether a value is a hash as we write it: 64 lower-case digits.
fn is_plain_hash(value: &Value) -> bool {
    value.as_str().is_some_and(crate::signal::is_hash)
}

/// Returns a name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    json::pointer_segment(name)
}

//! The anchor of a bundle: the leaf of one event in a log, the head of the log, and its signature.

use std::collections::HashSet;

use super::{event, python};
use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::key::{PublicKey, Signature};
use crate::merkle;

/// The proof of inclusion, read.
#[derive(Clone, Debug)]
pub(super) struct Inclusion {
    pub leaf: Digest,
    pub index: u64,
    pub size: u64,
    pub root: Digest,
    pub proof: Vec<Digest>,
}

impl Inclusion {
    /// Reads a block; none if it is malformed.
    pub(super) fn read(block: &Value) -> Option<Self> {
        let number = |key: &str| u64::try_from(block.get(key)?.as_i64()?).ok();
        let proof = match block.get("proof") {
            None => Vec::new(),
            Some(proof) => proof.as_array()?.iter().map(proof_node).collect::<Option<Vec<_>>>()?,
        };
        Some(Self {
            leaf: hash(block.get("leaf_hash")?)?,
            index: number("leaf_index")?,
            size: number("tree_size")?,
            root: hash(block.get("merkle_root")?)?,
            proof,
        })
    }

    pub(super) fn holds(&self) -> bool {
        merkle::verify_inclusion(&self.leaf, self.index, self.size, &self.proof, &self.root)
    }
}

/// Reads a node of a proof: a hash, or an object with one. Where it stands follows from the index of the leaf.
fn proof_node(node: &Value) -> Option<Digest> {
    match node {
        Value::Object(object) => hash(object.get("hash")?),
        other => hash(other),
    }
}

/// Reads a hash: 64 hexadecimal digits.
pub(super) fn hash(value: &Value) -> Option<Digest> {
    value.as_str().filter(|text| text.len() == 64)?.parse().ok()
}

/// Says whether a block claims to be a proof after RFC 6962.
fn is_proof(block: &Value) -> bool {
    let has = |key: &str| match block {
        Value::Object(object) => object.contains_key(key),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(key)),
        _ => false,
    };
    has("leaf_index") && has("tree_size")
}

/// Holds the proof of inclusion.
pub(super) fn inclusion(bundle: &Value) -> Object {
    let block = bundle.get("merkle_inclusion");
    let (passed, kind, skipped) = match block {
        Some(block) if python::truthy(Some(block)) && is_proof(block) => {
            let lower = |key: &str| {
                block.get(key).and_then(Value::as_str).is_some_and(|text| !has_upper(text))
            };
            let holds = Inclusion::read(block).is_some_and(|inclusion| inclusion.holds());
            (holds && lower("merkle_root"), "rfc6962", false)
        }
        block => (false, "none", !python::truthy(block)),
    };
    let mut step = Object::with_capacity(3);
    step.insert("passed", passed);
    step.insert("type", kind);
    step.insert("skipped", skipped);
    step
}

fn has_upper(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns the text that the signature of a tree head covers.
#[must_use]
pub fn head_text(head: &Value) -> String {
    let part =
        |key: &str, absent: &str| head.get(key).map_or_else(|| absent.to_owned(), python::text);
    let [log, size] = [part("log_id", ""), part("tree_size", "0")];
    format!("{log}|{size}|{}|{}", part("root_hash", ""), part("timestamp", ""))
}

/// Says whether a tree head is signed by a key.
#[must_use]
pub fn head_holds(head: &Value, key: &PublicKey) -> bool {
    let algorithm = head.get("algorithm").is_none_or(|it| it.as_str() == Some("Ed25519"));
    let signature: Option<Signature> =
        head.get("signature").and_then(Value::as_str).and_then(|text| text.parse().ok());
    algorithm && signature.is_some_and(|it| key.verifies(head_text(head).as_bytes(), &it))
}

/// Holds the signature of the tree head.
pub(super) fn head(bundle: &Value, key: Option<&PublicKey>) -> Object {
    let head = bundle.get("signed_tree_head").filter(|head| python::truthy(Some(head)));
    let mut step = Object::with_capacity(2);
    let both = head.zip(key);
    step.insert("passed", both.is_some_and(|(head, key)| head_holds(head, key)));
    step.insert("skipped", both.is_none());
    step
}

/// To which event an anchor belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// To the one of this index.
    Bound(usize),
    /// To none.
    Unbound,
    /// To several.
    Ambiguous,
    /// There is no anchor, or a malformed one.
    Unclaimed,
}

impl Binding {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bound(_) => "bound",
            Self::Unbound => "anchor_unbound",
            Self::Ambiguous => "anchor_ambiguous",
            Self::Unclaimed => "no_anchor_claimed",
        }
    }
}

/// Finds the event whose leaf is anchored.
pub(super) fn binding(bundle: &Value) -> Binding {
    let Some(block) = bundle.get("merkle_inclusion").filter(|it| python::truthy(Some(it))) else {
        return Binding::Unclaimed;
    };
    // A leaf is compared as text: no other text than that of its hash names it.
    let claimed = block.get("leaf_hash").filter(|it| !it.as_str().is_some_and(has_upper));
    let Some(wanted) = claimed.and_then(hash) else { return Binding::Unbound };
    let mut found = Binding::Unbound;
    for (index, event) in event::all(bundle).iter().enumerate() {
        if event::leaf(event) == Some(wanted) {
            found = match found {
                Binding::Unbound => Binding::Bound(index),
                _ => return Binding::Ambiguous,
            };
        }
    }
    found
}

/// Holds the proof and the head to each other and to the events, and consequences to what was authorized.
pub(super) fn cross_reference(bundle: &Value) -> Object {
    let block = bundle.get("merkle_inclusion").filter(|it| python::truthy(Some(it)));
    let head = bundle.get("signed_tree_head").filter(|it| python::truthy(Some(it)));
    let (mut passed, mut skipped, mut bound) = (false, true, Binding::Unclaimed);
    if let Some((block, head)) = block.zip(head) {
        skipped = false;
        let malformed = is_proof(block) && Inclusion::read(block).is_none();
        bound = if malformed { Binding::Unclaimed } else { binding(bundle) };
        let root = block.get("merkle_root").and_then(Value::as_str);
        let same = root.is_some() && root == head.get("root_hash").and_then(Value::as_str);
        passed = same && matches!(bound, Binding::Bound(_));
    }
    let consequence = consequences(event::all(bundle));
    if consequence == "consequence_identity_mismatch" {
        (passed, skipped) = (false, false);
    }
    let mut step = Object::with_capacity(4);
    step.insert("passed", passed);
    step.insert("skipped", skipped);
    step.insert("leaf_binding", bound.name());
    step.insert("consequence_binding", consequence);
    step
}

/// Holds each consequence to what was authorized.
fn consequences(events: &[Value]) -> &'static str {
    let is_authorization =
        |event: &Value| event.get("event_type").and_then(Value::as_str) == Some(AUTHORIZED);
    let authorized: HashSet<&str> = events
        .iter()
        .filter(|event| is_authorization(event))
        .filter_map(event::payload)
        .filter(|payload| payload.get("decision").and_then(Value::as_str) == Some("authorized"))
        .filter_map(|payload| payload.get("identity_hash").and_then(Value::as_str))
        .filter(|identity| !identity.is_empty())
        .collect();
    if authorized.is_empty() {
        return "no_consequence_authorization_claimed";
    }
    let mut dispatched = false;
    for payload in events.iter().filter(|event| !is_authorization(event)).filter_map(event::payload)
    {
        let claimed = ["consequence_identity_hash", "identity_hash"]
            .into_iter()
            .filter_map(|key| payload.get(key))
            .find(|value| python::truthy(Some(value)));
        if let Some(claimed) = claimed {
            dispatched = true;
            if !claimed.as_str().is_some_and(|identity| authorized.contains(identity)) {
                return "consequence_identity_mismatch";
            }
        }
    }
    if dispatched { "consequence_bound" } else { "consequence_authorized_not_dispatched" }
}

/// The type of events that authorize a consequence.
pub(super) const AUTHORIZED: &str = "CONSEQUENCE_AUTHORIZED";

//! Signatures of actors: each by a key that the bundle's directory gives to the actor of the event, at its time.

use std::cmp::Ordering;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{event, python};
use crate::clock::Timestamp;
use crate::json::{Object, Value, to_repr};
use crate::key::{PublicKey, Signature};

/// What came of the signature of one event.
pub(super) struct Outcome {
    pub key_id: Option<Value>,
    /// Whether it is signed, and if so whether the signature holds.
    pub passed: Option<bool>,
    pub reason: String,
}

/// The keys of a bundle by their ids.
pub(super) struct Directory<'a>(HashMap<&'a str, &'a Value>);

impl<'a> Directory<'a> {
    /// Reads the keys as the default profile does.
    pub(super) fn flat(bundle: &'a Value) -> Self {
        let keys = bundle.get("key_directory").and_then(Value::as_object);
        Self(keys.into_iter().flatten().collect())
    }

    /// Reads the keys as swarms do: also from below `keys_by_key_id`.
    pub(super) fn nested(bundle: &'a Value) -> Self {
        let keys = bundle.pointer("/key_directory/keys_by_key_id").and_then(Value::as_object);
        keys.map_or_else(|| Self::flat(bundle), |keys| Self(keys.iter().collect()))
    }
}

/// Holds the signatures of all events.
pub(super) fn step(bundle: &Value) -> Object {
    let directory = Directory::flat(bundle);
    let (mut told, mut signed, mut passed) = (Vec::new(), 0_usize, 0_usize);
    for event in event::all(bundle) {
        let outcome = check(event, &directory, false);
        signed += usize::from(outcome.passed.is_some());
        passed += usize::from(outcome.passed == Some(true));
        let mut one = Object::with_capacity(5);
        for key in ["event_id", "event_type"] {
            one.insert(key, event.get(key).cloned().unwrap_or_else(|| "".into()));
        }
        one.insert("key_id", outcome.key_id);
        one.insert(
            "result",
            match outcome.passed {
                None => "attribution-only",
                Some(true) => "PASS",
                Some(false) => "FAIL",
            },
        );
        one.insert("reason", outcome.reason);
        told.push(Value::from(one));
    }
    let mut step = Object::with_capacity(5);
    step.insert("passed", signed > 0 && signed == passed);
    step.insert("skipped", signed == 0);
    step.insert("events", told);
    step.insert("signed_count", signed);
    step.insert("passed_count", passed);
    step
}

/// Holds the signature of one event. Swarms also ask that a key that is no longer active says since when.
pub(super) fn check(event: &Value, directory: &Directory<'_>, swarm: bool) -> Outcome {
    let block = event.get("actor_signature").filter(|it| python::truthy(Some(it)));
    let signature = block.and_then(|it| it.get("signature")).filter(|it| python::truthy(Some(it)));
    let (Some(event), Some(block), Some(signature)) = (event.as_object(), block, signature) else {
        let reason = "no actor_signature on this event".to_owned();
        return Outcome { key_id: None, passed: None, reason };
    };
    let named = [block.get("key_id"), event.get("key_id")];
    let Some(key_id) = named.into_iter().flatten().find(|it| python::truthy(Some(it))) else {
        let reason = "actor_signature missing key_id".to_owned();
        return Outcome { key_id: None, passed: Some(false), reason };
    };
    let reason = holds(event, signature, key_id, directory, swarm).err();
    Outcome {
        passed: Some(reason.is_none()),
        reason: reason.unwrap_or_default(),
        key_id: Some(key_id.clone()),
    }
}

fn holds(
    event: &Object,
    signature: &Value,
    key_id: &Value,
    directory: &Directory<'_>,
    swarm: bool,
) -> Result<(), String> {
    let shown = to_repr(key_id);
    let key_id = key_id.as_str().unwrap_or_default();
    let entry = directory
        .0
        .get(key_id)
        .and_then(|entry| entry.as_object())
        .ok_or_else(|| format!("key_id {shown} not in bundle.key_directory"))?;
    let text = |object: &Object, key: &str| object.get(key).map(python::text).unwrap_or_default();
    let revoked = entry.get("revoked_at").filter(|it| !it.is_null());
    let status = entry.get("status").filter(|it| python::truthy(Some(it)));
    if let Some(status) = status.filter(|it| swarm && it.as_str() != Some("active"))
        && revoked.is_none()
    {
        let status = to_repr(status);
        return Err(format!("lifecycle malformed: status={status} with no revoked_at"));
    }
    let (issued, at) = (text(entry, "issued_at"), text(event, "timestamp"));
    let until = revoked.map(python::text);
    // What is no text is no time, and a key that was revoked at no time was never valid.
    let is_text = |value: Option<&Value>| value.is_some_and(|it| it.as_str().is_some());
    let valid = !issued.is_empty()
        && !at.is_empty()
        && is_text(entry.get("issued_at"))
        && is_text(event.get("timestamp"))
        && compare(&issued, &at).is_le()
        && until.as_ref().is_none_or(|until| is_text(revoked) && compare(&at, until).is_lt());
    if !valid {
        let until = until.unwrap_or_else(|| "None".to_owned());
        return Err(format!(
            "key {shown} not valid at event timestamp (issued_at={issued}, revoked_at={until}, event_ts={at})"
        ));
    }
    if let Some(missing) = event::HASHED.into_iter().find(|key| !event.contains_key(key)) {
        return Err(format!("verify error: '{missing}'"));
    }
    let key = bytes::<32>(entry.get("public_key_base64"), "public key")?;
    let signature = bytes::<64>(Some(signature), "signature")?;
    let wrong = "verify error: the key cannot be read";
    let key: PublicKey =
        format!("ed25519:{}", STANDARD.encode(key)).parse().map_err(|_| wrong.to_owned())?;
    let signature: Signature = STANDARD.encode(signature).parse().map_err(|_| wrong.to_owned())?;
    if !key.verifies(event::signed_text(event, key_id).as_bytes(), &signature) {
        return Err("Ed25519 signature does not verify".to_owned());
    }
    let [owner, actor] = [entry.get("actor_id"), event.get("actor_id")];
    if owner != actor {
        let [owner, actor] = [owner, actor].map(|it| it.map_or_else(|| "None".to_owned(), to_repr));
        return Err(format!(
            "actor/key mismatch: key {shown} is registered to actor {owner} but the event claims actor {actor}. The \
             signature verifies cryptographically against the key but the binding is wrong (substitution attempt)."
        ));
    }
    Ok(())
}

/// Compares two times as the moments that they are, so that `Z` and `+00:00` are the same; as texts if one is none.
fn compare(one: &str, two: &str) -> Ordering {
    match (Timestamp::parse(one), Timestamp::parse(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => one.cmp(two),
    }
}

/// Reads base64 of so many bytes.
fn bytes<const N: usize>(value: Option<&Value>, what: &str) -> Result<[u8; N], String> {
    let value = value.ok_or("verify error: 'public_key_base64'")?;
    let text = value.as_str().ok_or_else(|| {
        let found = python::type_name(value);
        format!(
            "verify error: argument should be a bytes-like object or ASCII string, not '{found}'"
        )
    })?;
    let bytes = STANDARD.decode(text).map_err(|error| {
        match error {
            base64::DecodeError::InvalidByte(..) => "verify error: Only base64 data is allowed",
            _ => "verify error: Incorrect padding",
        }
        .to_owned()
    })?;
    let got = bytes.len();
    bytes.try_into().map_err(|_| format!("verify error: {what} must be {N} bytes; got {got}"))
}

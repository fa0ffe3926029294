//! What is recorded of a request: no secrets, and no idempotency key.

use crate::caller::Caller;
use crate::digest::Digest;
use crate::dispatch::Redacted;
use crate::json::{self, Object};
use crate::request::Request;
use crate::secret::Secrets;
use crate::store::{self, Claim, Store};

/// Returns what is recorded of a request where that differs from what was given.
///
/// # Errors
/// When the plan differs, and the store has no key to hold the original.
pub(super) fn redact(
    secrets: &Secrets,
    request: &Request,
    store: &Store,
) -> Result<Redacted, store::Error> {
    let mut plan: Option<Vec<Object>> = None;
    for (index, step) in request.plan().iter().enumerate() {
        let redacted = secrets.redact_object(step.raw());
        match (&mut plan, redacted) {
            (None, None) => {}
            (Some(plan), redacted) => plan.push(redacted.unwrap_or_else(|| step.raw().clone())),
            (None, Some(redacted)) => {
                let before = request.plan()[..index].iter().map(|step| step.raw().clone());
                plan = Some(before.chain([redacted]).collect());
            }
        }
    }
    if plan.is_some() {
        store.key()?;
    }
    Ok(Redacted { request: secrets.redact_object(request.raw()), plan })
}

/// Binds a key of a caller to a request. Neither is stored as it is: both may hold a secret, so the key is
/// hashed, and so is what is recorded of the request. Callers with different tokens do not share keys.
pub(super) fn claim(
    key: &str,
    caller: Option<&Caller>,
    request: &Request,
    redacted: &Redacted,
    store: &Store,
) -> Result<Claim, store::Error> {
    let mut text = String::new();
    json::write_canonical_object(&mut text, redacted.request.as_ref().unwrap_or(request.raw()));
    match &redacted.plan {
        Some(plan) => {
            plan.iter().for_each(|step| json::write_canonical_object(&mut text, step));
        }
        None => {
            let steps = request.plan().iter();
            steps.for_each(|step| json::write_canonical_object(&mut text, step.raw()));
        }
    }
    // Requests that differ only in what redaction hides are different requests.
    if redacted.request.is_some() || redacted.plan.is_some() {
        let mut original = String::new();
        json::write_canonical_object(&mut original, request.raw());
        for step in request.plan() {
            json::write_canonical_object(&mut original, step.raw());
        }
        let digest = store.key()?.digest("idempotent request", &[original.as_bytes()]);
        text.push_str(&digest.to_string());
    }
    let key = stored_key(key, caller);
    Ok(Claim { key, request_digest: Digest::of(text.as_bytes()) })
}

/// Returns an idempotency key as the store has it: keys of one caller are not those of another.
pub(crate) fn stored_key(key: &str, caller: Option<&Caller>) -> String {
    let key = match caller.and_then(|caller| caller.token_id.as_deref()) {
        Some(token_id) => Digest::of(format!("{token_id}\n{key}").as_bytes()),
        None => Digest::of(key.as_bytes()),
    };
    key.to_string()
}

//! What is recorded of a request: no secrets, and no idempotency key.

use crate::caller::Caller;
use crate::digest::Digest;
use crate::dispatch::Redacted;
use crate::json;
use crate::request::{Request, Step};
use crate::secret::Secrets;
use crate::store::Claim;

/// Returns what is recorded of a request where that differs from what was given.
pub(super) fn redact(secrets: &Secrets, request: &Request) -> Redacted {
    let plan: Vec<_> =
        request.plan().iter().map(|step| secrets.redact_object(step.raw())).collect();
    let plan = plan.iter().any(Option::is_some).then(|| {
        let steps = plan.into_iter().zip(request.plan());
        steps.map(|(redacted, step)| redacted.unwrap_or_else(|| Step::raw(step).clone())).collect()
    });
    Redacted { request: secrets.redact_object(request.raw()), plan }
}

/// Binds a key of a caller to a request. Neither is stored as it is: both may hold a secret, so the key is
/// hashed, and so is what is recorded of the request. Callers with different tokens do not share keys.
pub(super) fn claim(
    key: &str,
    caller: Option<&Caller>,
    request: &Request,
    redacted: &Redacted,
) -> Claim {
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
    let key = stored_key(key, caller);
    Claim { key, request_digest: Digest::of(text.as_bytes()) }
}

/// Returns an idempotency key as the store has it: keys of one caller are not those of another.
pub(crate) fn stored_key(key: &str, caller: Option<&Caller>) -> String {
    let key = match caller.and_then(|caller| caller.token_id.as_deref()) {
        Some(token_id) => Digest::of(format!("{token_id}\n{key}").as_bytes()),
        None => Digest::of(key.as_bytes()),
    };
    key.to_string()
}

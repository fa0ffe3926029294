//! References to secrets in arguments: resolved only where the operator bound the secret, and never described.

use std::borrow::Cow;

use nexus_router_sdk::AdapterError;

use super::Grounds;
use crate::conform::Misfit;
use crate::json::Object;
use crate::policy::Act;
use crate::request::Step;
use crate::secret::{self, reference_pointers};

/// Author of the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgsAuthor {
    /// A caller: secrets need a binding.
    Caller,
    /// The operator, in the `args` of a source. The part of the asking adapter has no references.
    Operator,
}

/// Returns the arguments with the secrets that they refer to.
pub(super) fn resolve<'a>(
    grounds: Grounds<'_>,
    act: Act<'_>,
    args: &'a Object,
    author: ArgsAuthor,
) -> Result<Cow<'a, Object>, AdapterError> {
    let Grounds { law, caller, secrets, .. } = grounds;
    let is_bound =
        |name: &str| author == ArgsAuthor::Operator || law.allows_secret(name, caller, act);
    secrets.resolve_bound(args, is_bound).map_err(|error| match error {
        // Callers below admin do not learn which secrets exist.
        secret::Error::Unknown { name, pointer }
            if caller.is_some_and(|caller| !caller.is_admin()) =>
        {
            denial(&secret::Error::NotBound { name, pointer }, act)
        }
        error => denial(&error, act),
    })
}

fn denial(error: &secret::Error, act: Act<'_>) -> AdapterError {
    let mut details = serde_json::json!({ "denied_by": "secrets", "pointer": error.pointer() });
    let message = match error {
        secret::Error::NotBound { name, pointer } => {
            details["secret"] = name.as_str().into();
            format!(
                "secret '{name}' at {pointer} is not bound to {}.{} of adapter '{}' for this caller",
                act.tool, act.method, act.adapter_id
            )
        }
        other => other.to_string(),
    };
    AdapterError::operational(error.code(), message).details(details)
}

/// Checks arguments against the schemas of their operation. The error shows no property of a secret.
pub(super) fn check_args(
    grounds: Grounds<'_>,
    act: Act<'_>,
    step: &Step,
    args: &Object,
) -> Result<(), Misfit> {
    let misfit = match grounds.law.check_args(act, args) {
        Ok(()) => return Ok(()),
        Err(misfit) => misfit,
    };
    // Arguments without references are those of the step itself.
    if std::ptr::eq(args, step.args()) {
        return Err(misfit);
    }
    let with_references = grounds.law.check_args(act, step.args()).err();
    let secrets = reference_pointers(step.args());
    Err(misfit.without_values(with_references.as_ref(), &secrets))
}

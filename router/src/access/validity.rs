//! Validity of a caller: whether its token still exists, and the role and scope that it has now.

use super::{Token, bounded_scope};
use crate::caller::{Caller, Revocation, ValidCaller};
use crate::clock::Timestamp;
use crate::role::Role;

/// Checks a caller by its token. `configured` is the role that the configuration gives the token; it never takes one away.
///
/// # Errors
/// When the token does not exist any more, or has expired.
pub(crate) fn check_caller(
    caller: &Caller,
    token: Option<&Token>,
    configured: impl FnOnce(&Token) -> Option<Role>,
    now: Timestamp,
) -> Result<ValidCaller, Revocation> {
    let name = &caller.name;
    let Some(token) = token else {
        return Err(Revocation { message: format!("the token of '{name}' was revoked") });
    };
    if let Some(end) = token.expires_at.filter(|_| token.is_expired(now)) {
        return Err(Revocation { message: format!("the token of '{name}' expired at {end}") });
    }
    let role = configured(token).or(token.role);
    let scope = bounded_scope(token.scope, role);
    let is_unchanged = (role, scope, &token.name) == (caller.role, caller.scope, name);
    let changed = || Caller { name: token.name.clone(), role, scope, ..caller.clone() };
    Ok(ValidCaller { changed: (!is_unchanged).then(changed), valid_until: token.expires_at })
}

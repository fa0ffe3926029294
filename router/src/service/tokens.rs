//! Keeps the tokens up to date with their file, and tells what changed.

use std::sync::{Arc, PoisonError};

use super::{Service, Standing};
use crate::access::{Bearer, Scope, Token, bounded_scope, check_caller};
use crate::app::full_text;
use crate::caller::{Caller, Revocation, ValidCaller};
use crate::clock::Clock;
use crate::json::{Object, Value};
use crate::role::Role;

impl Service {
    /// Reads the tokens again if their file changed. What is wrong with the file is told once, not at
    /// every look.
    pub fn refresh_tokens(&self) {
        let Some(book) = &self.inner.tokens else { return };
        let mut refused = self.inner.tokens_refused.lock().unwrap_or_else(PoisonError::into_inner);
        let before = book.tokens();
        // A token that is refused from now on is also checked again from now on.
        let checks = self.inner.app.caller_check();
        let changed = match book.refresh_with(|| checks.mark_changed()) {
            Ok(changed) => changed,
            Err(error) => {
                let why = full_text(&error);
                if refused.as_ref() != Some(&why) {
                    let hint = error.hint();
                    tracing::error!(
                        error = why,
                        hint,
                        "the tokens cannot be read; the old ones stay"
                    );
                    let mut payload = Object::new();
                    payload.insert("code", error.code());
                    payload.insert("message", why.as_str());
                    self.inner.audit.record("tokens.refused", payload);
                    *refused = Some(why);
                }
                return;
            }
        };
        if refused.take().is_some() {
            tracing::info!(tokens = book.len(), "the tokens can be read again");
        }
        if changed {
            let payload = changes(&before, &book.tokens());
            tracing::info!(tokens = book.len(), "the tokens changed");
            self.inner.audit.record("tokens.changed", payload);
        }
    }

    /// Has the router check the callers of runs under way by the tokens in force.
    pub(super) fn check_callers(&self) {
        if self.inner.tokens.is_none() {
            return self.inner.app.check_callers_by_file();
        }
        let inner = Arc::downgrade(&self.inner);
        self.inner.app.caller_check().set(move |caller| {
            let Some(inner) = inner.upgrade() else { return Ok(ValidCaller::default()) };
            Self { inner }.valid(caller)
        });
    }

    /// Checks the caller of a run under way.
    fn valid(&self, caller: &Caller) -> Result<ValidCaller, Revocation> {
        let (Some(id), Some(book)) = (&caller.token_id, &self.inner.tokens) else {
            return Ok(ValidCaller::default());
        };
        let standing = self.standing();
        let configured = |token: &Token| standing.token(&token.name).and_then(|entry| entry.role);
        check_caller(caller, book.find(id).as_deref(), configured, Clock::System.now())
    }

    /// Returns the bearer of a token, with the role that the configuration gives it.
    pub(super) fn bearer(standing: &Standing, token: &Token) -> Bearer {
        let (role, scope) = Self::bounds(standing, token);
        let mut bearer = Bearer::from(token);
        let caller = Arc::make_mut(&mut bearer.caller);
        (caller.role, caller.scope) = (role, scope);
        bearer
    }

    /// Returns the role and the scope of a token.
    fn bounds(standing: &Standing, token: &Token) -> (Option<Role>, Scope) {
        // The configuration may give a role, and never take one away.
        let configured = standing.token(&token.name).and_then(|entry| entry.role);
        let role = configured.or(token.role);
        (role, bounded_scope(token.scope, role))
    }

    /// Returns the bearer of a caller as it is now; none if its token is no longer valid.
    #[must_use]
    pub fn current_bearer(&self, bearer: &Bearer) -> Option<Bearer> {
        let (Some(id), Some(book)) = (&bearer.caller.token_id, &self.inner.tokens) else {
            return Some(bearer.clone());
        };
        let token = book.find_valid(id, Clock::System.now())?;
        Some(Self::bearer(&self.standing(), &token))
    }

    /// Says whether the token of a caller is still good; who needs none always is.
    #[must_use]
    pub fn is_good(&self, caller: &Caller) -> bool {
        let (Some(id), Some(book)) = (&caller.token_id, &self.inner.tokens) else { return true };
        book.find_valid(id, Clock::System.now()).is_some()
    }

    /// Says whether a text is that of a token that is good now.
    #[must_use]
    pub fn accepts(&self, text: &str) -> bool {
        let book = self.inner.tokens.as_ref();
        book.is_some_and(|book| book.check(text, Clock::System.now()).is_ok())
    }
}

/// Tells which tokens came, went and were made different, by name. One that was made anew under its old
/// name came and went.
fn changes(before: &[Arc<Token>], after: &[Arc<Token>]) -> Object {
    let find = |list: &[Arc<Token>], id: &str| list.iter().find(|token| token.id == id).cloned();
    let names = |list: &[Arc<Token>], is_one: &dyn Fn(&Arc<Token>) -> bool| -> Vec<Value> {
        list.iter().filter(|token| is_one(token)).map(|token| token.name.as_str().into()).collect()
    };
    let mut payload = Object::new();
    payload.insert("tokens", after.len());
    payload.insert("added", names(after, &|token| find(before, &token.id).is_none()));
    payload.insert("removed", names(before, &|token| find(after, &token.id).is_none()));
    let is_other = |token: &Arc<Token>| find(before, &token.id).is_some_and(|old| old != *token);
    payload.insert("changed", names(after, &is_other));
    payload
}

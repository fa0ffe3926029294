//! Who may call: tokens and their scopes, how often each may call, and from which pages.
//!
//! A caller shows a token; [`TokenBook::check`] tells whose it is. What it may do is its [`Scope`], how
//! often is for [`rate::Buckets`], and [`origin::Guard`] keeps out pages that a browser was led to. Every
//! refusal is a [`Denial`], which tells the caller no more than it may know.

mod book;
mod change;
mod denial;
mod error;
mod file;
mod form;
pub mod origin;
pub mod rate;
mod token;
mod validity;
mod visibility;

use std::sync::Arc;

pub use crate::scope::Scope;
pub use book::TokenBook;
pub use change::{NewToken, create, first_start, forget_text, list, revoke};
pub use denial::{Denial, Refusal};
pub use error::Error;
pub use token::{Token, TokenText};
pub(crate) use validity::check_caller;
pub use visibility::Visibility;

use crate::caller::Caller;
use crate::role::Role;
use crate::store::VisibleRuns;

/// The name of the file with the tokens, in the data directory.
pub const FILE_NAME: &str = crate::config::TOKEN_FILE;

/// Who shows a token, and what may be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// Who it is, as the law and the record see it.
    pub caller: Arc<Caller>,
    /// The runs that its token sees.
    pub sees: Visibility,
}

impl Bearer {
    /// Returns the bearer on a listener that asks for no token.
    #[must_use]
    pub fn local() -> Self {
        Self::local_with(Scope::Admin)
    }

    /// Returns the bearer on a channel that asks for no token and allows only a scope.
    #[must_use]
    pub fn local_with(scope: Scope) -> Self {
        let caller = Arc::new(Caller { scope, ..Caller::local() });
        Self { caller, sees: Visibility::All }
    }

    /// Returns the scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.caller.scope
    }

    /// Returns the runs that the bearer sees: administrators and those who need no token see all.
    #[must_use]
    pub fn visible_runs(&self) -> VisibleRuns {
        match &self.caller.token_id {
            Some(token_id) if self.sees.effective(self.scope()) == Visibility::Own => {
                VisibleRuns::OfToken(token_id.clone())
            }
            _ => VisibleRuns::All,
        }
    }

    /// Says whether the bearer may do what needs a scope.
    #[must_use]
    pub fn may(&self, needed: Scope) -> bool {
        self.scope().includes(needed)
    }

    /// Lets pass a bearer who may do what needs a scope.
    ///
    /// # Errors
    /// When the bearer's scope does not include it.
    pub fn require(&self, needed: Scope) -> Result<(), Denial> {
        if self.may(needed) {
            Ok(())
        } else {
            Err(Denial::ScopeMissing { needed, has: self.scope() })
        }
    }
}

/// Returns the scope of a token that has a role. An administrator changes the configuration, and could lift its own role.
#[must_use]
pub fn bounded_scope(scope: Scope, role: Option<Role>) -> Scope {
    match role {
        Some(_) => scope.min(Scope::Apply),
        None => scope,
    }
}

impl From<&Token> for Bearer {
    fn from(token: &Token) -> Self {
        let Token { id, name, scope, role, sees, .. } = token;
        let (name, token_id) = (name.clone(), Some(id.clone()));
        let caller = Arc::new(Caller { name, token_id, role: *role, scope: *scope });
        Self { caller, sees: *sees }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_may_what_the_scope_includes() {
        let local = Bearer::local();
        assert!(Scope::ALL.into_iter().all(|scope| local.may(scope)));
        let reader = Bearer::local_with(Scope::Read);
        assert_eq!(reader.require(Scope::Read), Ok(()));
        let denial = reader.require(Scope::Apply).unwrap_err();
        assert_eq!(denial, Denial::ScopeMissing { needed: Scope::Apply, has: Scope::Read });
    }

    #[test]
    fn a_role_bounds_the_scope() {
        assert_eq!(bounded_scope(Scope::Admin, Some(Role::Envoy)), Scope::Apply);
        assert_eq!(bounded_scope(Scope::Apply, Some(Role::Scout)), Scope::Apply);
        assert_eq!(bounded_scope(Scope::Read, Some(Role::Envoy)), Scope::Read);
        assert_eq!(bounded_scope(Scope::Admin, None), Scope::Admin);
    }

    #[test]
    fn only_tokens_below_admin_see_their_own_runs_alone() {
        let seen = |scope, sees, token_id: Option<&str>| {
            let token_id = token_id.map(str::to_owned);
            let caller = Arc::new(Caller { scope, token_id, ..Caller::local() });
            Bearer { caller, sees }.visible_runs()
        };
        let own = VisibleRuns::OfToken("t".to_owned());
        assert_eq!(seen(Scope::Apply, Visibility::Own, Some("t")), own);
        assert_eq!(seen(Scope::Apply, Visibility::All, Some("t")), VisibleRuns::All);
        assert_eq!(seen(Scope::Admin, Visibility::Own, Some("t")), VisibleRuns::All);
        assert_eq!(seen(Scope::Read, Visibility::Own, None), VisibleRuns::All);
    }
}

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
mod scope;
mod token;

pub use book::TokenBook;
pub use change::{NewToken, create, first_start, list, revoke};
pub use denial::{Denial, Refusal};
pub use error::Error;
pub use scope::Scope;
pub use token::{Token, TokenText};

use crate::role::Role;

/// The name of the file with the tokens, in the data directory.
pub const FILE_NAME: &str = "tokens.json";

/// Who calls, as the other layers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of the token, or `local`.
    pub name: String,
    /// The id of the token, if there is one.
    pub token_id: Option<String>,
    /// What the caller may do.
    pub scope: Scope,
    /// The role that bounds it further, if it has one.
    pub role: Option<Role>,
}

impl Caller {
    /// The name of a caller who needs no token. No token has it.
    pub const LOCAL: &str = "local";

    /// Returns the caller of a listener that asks for no token.
    #[must_use]
    pub fn local() -> Self {
        Self { name: Self::LOCAL.to_owned(), token_id: None, scope: Scope::Admin, role: None }
    }

    /// Says whether the caller may do what needs a scope.
    #[must_use]
    pub fn may(&self, needed: Scope) -> bool {
        self.scope.includes(needed)
    }

    /// Lets pass a caller who may do what needs a scope.
    ///
    /// # Errors
    /// When the caller's scope does not include it.
    pub fn require(&self, needed: Scope) -> Result<(), Denial> {
        if self.may(needed) {
            Ok(())
        } else {
            Err(Denial::ScopeMissing { needed, has: self.scope })
        }
    }
}

impl From<&Token> for Caller {
    fn from(token: &Token) -> Self {
        Self {
            name: token.name.clone(),
            token_id: Some(token.id.clone()),
            scope: token.scope,
            role: token.role,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_what_its_scope_includes() {
        let local = Caller::local();
        assert!(Scope::ALL.into_iter().all(|scope| local.may(scope)));
        let reader = Caller { scope: Scope::Read, ..local };
        assert_eq!(reader.require(Scope::Read), Ok(()));
        let denial = reader.require(Scope::Apply).unwrap_err();
        assert_eq!(denial, Denial::ScopeMissing { needed: Scope::Apply, has: Scope::Read });
    }
}

//! Who asked for a run, as far as the law and the record care.

mod check;

pub(crate) use check::CheckedCaller;
pub use check::{CallerCheck, Revocation, ValidCaller};

use crate::json::{Object, Value};
use crate::role::Role;
use crate::scope::Scope;

/// Who asked for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name that the operator gave.
    pub name: String,
    /// The token that was shown, if one was.
    pub token_id: Option<String>,
    /// What may be done in this name; none means that no role narrows it.
    pub role: Option<Role>,
    /// The scope of the token, or of the listener that asks for none.
    pub scope: Scope,
}

impl Caller {
    /// The name of a caller who needs no token. No token has it.
    pub const LOCAL: &str = "local";

    /// Returns the caller of a listener that asks for no token.
    #[must_use]
    pub fn local() -> Self {
        Self { name: Self::LOCAL.to_owned(), token_id: None, role: None, scope: Scope::Admin }
    }

    /// Compares the identities of two callers; role and scope may have changed in between.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.token_id == other.token_id && self.name == other.name
    }

    /// Returns whether the caller may call every operation of a loaded adapter, as far as policy and roles allow.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.scope == Scope::Admin
    }

    /// Returns the form that is recorded.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let mut object = Object::with_capacity(4);
        object.insert("name", self.name.as_str());
        if let Some(token_id) = &self.token_id {
            object.insert("token_id", token_id.as_str());
        }
        if let Some(role) = self.role {
            object.insert("role", role.name());
        }
        object.insert("scope", self.scope.name());
        object
    }

    /// Reads a recorded caller. An unknown role or scope makes the caller unknown; a record of an older version, which
    /// has no scope, never stands for an administrator.
    #[must_use]
    pub fn read(object: &Object) -> Option<Self> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let role = match object.get("role") {
            None => None,
            Some(role) => Some(role.as_str().and_then(Role::from_name)?),
        };
        let scope = match object.get("scope") {
            None => Scope::Apply,
            Some(scope) => scope.as_str().and_then(Scope::from_name)?,
        };
        Some(Self {
            name: text("name")?.to_owned(),
            token_id: text("token_id").map(str::to_owned),
            role,
            scope,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let scout = Caller {
            name: "ci".to_owned(),
            token_id: Some("abc".to_owned()),
            role: Some(Role::Scout),
            scope: Scope::Run,
        };
        for caller in [Caller::local(), scout.clone()] {
            assert_eq!(Caller::read(&caller.to_json()), Some(caller));
        }
        for (key, value) in [("role", "king"), ("scope", "everything")] {
            let mut unknown = scout.to_json();
            unknown.insert(key, value);
            assert_eq!(Caller::read(&unknown), None, "{key}");
        }
        let mut older = Caller::local().to_json();
        older.remove("scope");
        assert_eq!(Caller::read(&older).unwrap().scope, Scope::Apply);
    }
}

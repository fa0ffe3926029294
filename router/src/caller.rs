//! Who asked for a run, as far as the law and the record care.

use crate::json::{Object, Value};
use crate::role::Role;

/// Who asked for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name that the operator gave.
    pub name: String,
    /// The token that was shown, if one was.
    pub token_id: Option<String>,
    /// What may be done in this name; none means that no role narrows it.
    pub role: Option<Role>,
}

impl Caller {
    /// The name of a caller who needs no token. No token has it.
    pub const LOCAL: &str = "local";

    /// Returns the caller of a listener that asks for no token.
    #[must_use]
    pub fn local() -> Self {
        Self { name: Self::LOCAL.to_owned(), token_id: None, role: None }
    }

    /// Returns the form that is recorded.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let mut object = Object::with_capacity(3);
        object.insert("name", self.name.as_str());
        if let Some(token_id) = &self.token_id {
            object.insert("token_id", token_id.as_str());
        }
        if let Some(role) = self.role {
            object.insert("role", role.name());
        }
        object
    }

    /// Reads what was recorded. A role that is not known here must not be taken for none.
    #[must_use]
    pub fn read(object: &Object) -> Option<Self> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let role = match object.get("role") {
            None => None,
            Some(role) => Some(role.as_str().and_then(Role::from_name)?),
        };
        Some(Self {
            name: text("name")?.to_owned(),
            token_id: text("token_id").map(str::to_owned),
            role,
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
        };
        for caller in [Caller::local(), scout.clone()] {
            assert_eq!(Caller::read(&caller.to_json()), Some(caller));
        }
        let mut unknown = scout.to_json();
        unknown.insert("role", "king");
        assert_eq!(Caller::read(&unknown), None);
    }
}

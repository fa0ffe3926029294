//! Arguments that redaction changed, and the parts of them that a condition can still read.

use nexus_router_sdk::redact::REDACTED;

use crate::condition::{ArgsPath, ConditionReads};
use crate::json::{Object, Value};

/// Arguments for the evaluation of a condition.
#[derive(Debug, PartialEq)]
pub(super) enum VisibleArgs {
    /// The recorded arguments have everything that the condition reads.
    Complete,
    /// Without the redacted members. A result that is not an error does not depend on them.
    Without(Object),
    /// The result may depend on what is redacted.
    Hidden,
}

impl VisibleArgs {
    /// Returns the arguments to evaluate with, if redaction may have changed them.
    pub(super) fn of(reads: &ConditionReads, args: &Object) -> Self {
        let hidden: Vec<&ArgsPath> =
            reads.args.iter().filter(|path| is_hidden(path, args)).collect();
        if hidden.is_empty() {
            return Self::Complete;
        }
        // A member that is taken away must not look absent, and must not be inside of another one.
        let touches = |one: &ArgsPath, other: &ArgsPath| {
            one.names.starts_with(&other.names) || other.names.starts_with(&one.names)
        };
        let removable = |path: &&ArgsPath| {
            !path.presence
                && !path.names.is_empty()
                && !reads.args.iter().any(|other| {
                    touches(other, path) && (other.presence || other.names != path.names)
                })
        };
        if !hidden.iter().all(removable) {
            return Self::Hidden;
        }
        let mut visible = args.clone();
        for path in hidden {
            remove(&mut visible, &path.names);
        }
        Self::Without(visible)
    }
}

/// Returns whether redaction hides a member, or whether it is there.
fn is_hidden(path: &ArgsPath, args: &Object) -> bool {
    let Some((last, parents)) = path.names.split_last() else {
        return args.iter().any(|(name, value)| is_marked(name) || holds_marker(value));
    };
    let mut object = args;
    for name in parents {
        match object.get(name) {
            Some(Value::Object(inner)) => object = inner,
            Some(value) => return holds_marker(value),
            None => return object.keys().any(is_marked),
        }
    }
    match object.get(last) {
        Some(value) => !path.presence && holds_marker(value),
        None => object.keys().any(is_marked),
    }
}

fn remove(object: &mut Object, names: &[Box<str>]) {
    let Some((first, rest)) = names.split_first() else { return };
    match (object.get_mut(first), rest) {
        (Some(Value::Object(inner)), [_, ..]) => remove(inner, rest),
        (Some(_), _) => drop(object.remove(first)),
        (None, _) => {}
    }
}

fn is_marked(text: &str) -> bool {
    text.contains(REDACTED)
}

/// Returns whether a value holds the mark of redaction.
fn holds_marker(value: &Value) -> bool {
    match value {
        Value::String(text) => is_marked(text),
        Value::Array(items) => items.iter().any(holds_marker),
        Value::Object(members) => {
            members.iter().any(|(name, value)| is_marked(name) || holds_marker(value))
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::json::parse;

    fn object(text: &str) -> Object {
        parse(text.as_bytes(), crate::json::Limits::REQUEST).unwrap().into_object().unwrap()
    }

    fn visible(condition: &str, args: &str) -> &'static str {
        let condition = Condition::compile(condition).unwrap();
        match VisibleArgs::of(condition.reads(), &object(args)) {
            VisibleArgs::Complete => "complete",
            VisibleArgs::Without(_) => "without",
            VisibleArgs::Hidden => "hidden",
        }
    }

    #[test]
    fn only_redacted_members_hide_the_result() {
        let args = r#"{"n":1,"password":"[REDACTED]","deep":{"m":2,"token":"[REDACTED]"}}"#;
        for (condition, expected) in [
            ("args.n > 1", "complete"),
            ("args.deep.m > 1", "complete"),
            ("args.other > 1", "complete"),
            ("has(args.password)", "complete"),
            ("has(args.deep.token)", "complete"),
            ("args.password == 'x'", "without"),
            ("args.deep.token == 'x' && args.n > 1", "without"),
            ("has(args.password) && args.password == 'x'", "hidden"),
            ("args.deep == {'m': 2}", "without"),
            ("args.deep.m > 1 && args.deep == {}", "hidden"),
            ("size(args) > 3", "hidden"),
        ] {
            assert_eq!(visible(condition, args), expected, "{condition}");
        }
        assert_eq!(visible("args.n > 1", r#"{"token=[REDACTED]":1}"#), "without");
    }
}

//! JSON values with integers of any size, their parser and their canonical text.
//!
//! The value type of other libraries cannot hold what a record of the Python router may hold (an
//! integer beyond 64 bits) and accepts what no record should hold (a member named twice). Texts are
//! read strictly after RFC 8259 by [`parse()`] and written in four forms: [`to_canonical`] for
//! the digests and the storage of runs, [`to_jcs`] for what is pinned or sealed, [`to_compact`] for adapters,
//! [`to_pretty`] for people. The formats of others need three more: [`to_spaced`], [`to_indented`], [`to_repr`].

mod error;
mod jcs;
mod name;
mod object;
mod parse;
mod plain;
mod pointer;
mod python;
mod write;

pub use error::Error;
pub use jcs::{Inexact, to_jcs};
pub use object::Object;
pub use parse::{Limits, parse};
pub(crate) use pointer::pointer_segment;
pub use python::{to_indented, to_repr, to_spaced};
pub use write::{
    to_canonical, to_compact, to_pretty, write_canonical, write_canonical_object,
    write_canonical_str, write_compact, write_compact_object,
};

/// A JSON value.
///
/// An integer never equals a float: `1` and `1.0` are different values with different digests.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer beyond [`i64`] in decimal: an optional minus and digits without a leading zero.
    BigInt(Box<str>),
    /// A finite float; see [`Value::float`].
    Float(f64),
    /// A text.
    String(String),
    /// Values in order.
    Array(Vec<Self>),
    /// Named values.
    Object(Object),
}

impl Value {
    /// Returns a float as a value, or none if it is not finite, which JSON cannot write.
    #[must_use]
    pub fn float(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self::Float(value))
    }

    /// Returns the text, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the truth value, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// Returns the integer, if this is one of 64 bits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int(integer) = self { Some(*integer) } else { None }
    }

    /// Returns the items, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the object, if this is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Turns this into the object that it is, if it is one.
    #[must_use]
    pub fn into_object(self) -> Option<Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Says whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns a member by name, if this is an object that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns the value to which a JSON pointer (RFC 6901) leads.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut value = self;
        for token in pointer.strip_prefix('/')?.split('/') {
            value = match value {
                Self::Object(object) => object.get(&token.replace("~1", "/").replace("~0", "~"))?,
                Self::Array(items) => items.get(array_index(token)?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Returns the value to which a JSON pointer leads, to change it.
    pub(crate) fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut value = self;
        for token in pointer.strip_prefix('/')?.split('/') {
            value = match value {
                Self::Object(object) => {
                    object.get_mut(&token.replace("~1", "/").replace("~0", "~"))?
                }
                Self::Array(items) => items.get_mut(array_index(token)?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Returns what JSON calls the type of this, where `integer` and `number` are told apart.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) | Self::BigInt(_) => "integer",
            Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns how many values there are in it, itself included.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Array(items) => items.iter().map(Self::count).sum::<usize>() + 1,
            Self::Object(object) => {
                object.iter().map(|(_, value)| value.count()).sum::<usize>() + 1
            }
            _ => 1,
        }
    }

    /// Returns this as a value of `serde_json`.
    ///
    /// Integers beyond 64 bits become the nearest finite float; nothing else is lost.
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(truth) => (*truth).into(),
            Self::Int(integer) => (*integer).into(),
            Self::BigInt(digits) => match digits.parse::<u64>() {
                Ok(integer) => integer.into(),
                Err(_) => digits.parse::<f64>().unwrap_or(0.0).clamp(f64::MIN, f64::MAX).into(),
            },
            Self::Float(float) => (*float).into(),
            Self::String(text) => text.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_serde).collect(),
            Self::Object(object) => object.to_serde().into(),
        }
    }
}

/// Reads an array index of a JSON pointer: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (token == "0" || !token.starts_with('0'))).then(|| token.parse().ok()).flatten()
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i32> for Value {
    fn from(integer: i32) -> Self {
        Self::Int(integer.into())
    }
}

impl From<u32> for Value {
    fn from(integer: u32) -> Self {
        Self::Int(integer.into())
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Int(integer)
    }
}

impl From<u64> for Value {
    fn from(integer: u64) -> Self {
        i64::try_from(integer).map_or_else(|_| Self::BigInt(integer.to_string().into()), Self::Int)
    }
}

impl From<usize> for Value {
    fn from(integer: usize) -> Self {
        i64::try_from(integer).map_or_else(|_| Self::BigInt(integer.to_string().into()), Self::Int)
    }
}

impl From<Vec<Self>> for Value {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(truth) => Self::Bool(*truth),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Self::Int(integer),
                (None, Some(integer)) => integer.into(),
                (None, None) => number.as_f64().and_then(Self::float).into(),
            },
            serde_json::Value::String(text) => text.as_str().into(),
            serde_json::Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(members) => Self::Object(members.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any value of a few levels, with names that come in any order.
    pub(super) fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "-?[1-9][0-9]{19,60}".prop_map(|digits| Value::BigInt(digits.into())),
            any::<f64>().prop_map(|float| Value::float(float).into()),
            any::<String>().prop_map(Value::from),
            "[a-z ]{0,40}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((any_name(), inner), 0..20)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-d]{0,2}", "[a-z_]{0,30}", any::<String>()]
    }

    pub(super) fn read(text: &str) -> Value {
        parse(text.as_bytes(), Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn each_type_has_its_name_and_its_view() {
        let value = read(r#"[null, true, 1, 99999999999999999999, 1.0, "x", [], {"a": 1}]"#);
        let items = value.as_array().unwrap();
        let names: Vec<_> = items.iter().map(Value::type_name).collect();
        let expected = "null boolean integer integer number string array object";
        assert_eq!(names.join(" "), expected);
        let views = |value: &Value| {
            [
                value.is_null(),
                value.as_bool().is_some(),
                value.as_i64().is_some(),
                value.as_str().is_some(),
                value.as_array().is_some(),
                value.as_object().is_some(),
                value.clone().into_object().is_some(),
            ]
        };
        let seen: Vec<_> = items
            .iter()
            .map(|item| views(item).map(|there| if there { 'x' } else { '-' }).iter().collect())
            .collect::<Vec<String>>();
        let expected = [
            "x------", "-x-----", "--x----", "-------", "-------", "---x---", "----x--", "-----xx",
        ];
        assert_eq!(seen, expected);
        assert_eq!(items[7].get("a"), Some(&Value::Int(1)));
        assert_eq!(items[6].get("a"), None);
    }

    #[test]
    fn a_pointer_leads_to_a_value_or_nowhere() {
        let value = read(r#"{"a": [10, {"b": 11}], "": 12, "m/n~": {"~1": 13}, "0": {"-": 14}}"#);
        for (pointer, expected) in [
            ("/a/0", Some(10)),
            ("/a/1/b", Some(11)),
            ("/", Some(12)),
            ("/m~1n~0/~01", Some(13)),
            ("/0/-", Some(14)),
            ("a", None),
            ("/a/2", None),
            ("/a/00", None),
            ("/a/+0", None),
            ("/a/-", None),
            ("/a/", None),
            ("/a/99999999999999999999", None),
            ("/a/0/x", None),
            ("/b", None),
        ] {
            let found = value.pointer(pointer);
            assert_eq!(found.and_then(Value::as_i64), expected, "{pointer}");
            assert_eq!(found.is_some(), expected.is_some(), "{pointer}");
        }
        assert_eq!(value.pointer(""), Some(&value));
    }

    #[test]
    fn integers_of_any_type_are_exact() {
        assert_eq!(Value::from(u64::MAX), read("18446744073709551615"));
        assert_eq!(Value::from(9_223_372_036_854_775_807_u64), Value::Int(i64::MAX));
        assert_eq!(Value::from(usize::MAX), read(&usize::MAX.to_string()));
        assert_eq!(Value::from(-1), Value::Int(-1));
        assert_eq!(Value::from(u32::MAX), Value::Int(4_294_967_295));
    }

    #[test]
    fn a_float_that_is_not_finite_is_no_value() {
        assert_eq!(Value::float(1.5), Some(Value::Float(1.5)));
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Value::float(float), None);
        }
    }

    #[test]
    fn an_integer_and_a_float_differ() {
        assert_ne!(read("1"), read("1.0"));
        assert_ne!(read("1"), read("true"));
    }

    #[test]
    fn serde_gets_all_but_the_longest_integers() {
        let exact = r#"{"b":[null,true,-1,18446744073709551615,1.5,"é"],"a":{}}"#;
        let value = read(exact);
        assert_eq!(value.to_serde().to_string(), exact);
        assert_eq!(Value::from(&value.to_serde()), value);
        assert_eq!(read("18446744073709551616").to_serde().to_string(), "1.8446744073709552e+19");
        let longest = read(&format!("-{}", "9".repeat(4300))).to_serde();
        assert_eq!(longest.as_f64(), Some(f64::MIN));
    }

    proptest! {
        #[test]
        fn what_serde_holds_comes_back(value in any_value()) {
            let there = value.to_serde();
            prop_assert_eq!(Value::from(&there).to_serde(), there);
        }
    }
}

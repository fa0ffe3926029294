//! Values of an evaluation. They borrow from the call and from the condition where they can.

use std::cmp::Ordering;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};

use super::evaluate::{Budget, Fault};
use crate::json::{self, Object};

/// Value of a part.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// Decimal digits of an integer of the call that has more than 64 bits. It computes as a double.
    BigInt(&'a str),
    /// Text of the call or of the condition.
    Str(&'a str),
    /// Computed text.
    Text(Rc<str>),
    /// Bytes of the condition.
    Bytes(&'a [u8]),
    /// Computed bytes.
    ByteBuffer(Rc<[u8]>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    /// List of the call.
    Array(&'a [json::Value]),
    /// Map of the call.
    Object(&'a Object),
    /// Computed list.
    List(Rc<Vec<Self>>),
    /// Computed map.
    Map(Rc<Vec<(Self, Self)>>),
    Type(&'static str),
}

impl<'a> Value<'a> {
    pub(super) fn of_json(value: &'a json::Value) -> Self {
        match value {
            json::Value::Null => Self::Null,
            json::Value::Bool(value) => Self::Bool(*value),
            json::Value::Int(value) => Self::Int(*value),
            json::Value::BigInt(digits) => digits.parse().map_or(Self::BigInt(digits), Self::Uint),
            json::Value::Float(value) => Self::Double(*value),
            json::Value::String(text) => Self::Str(text),
            json::Value::Array(items) => Self::Array(items),
            json::Value::Object(object) => Self::Object(object),
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::ByteBuffer(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the number with which a value computes: the nearest double of an integer beyond 64 bits.
    pub(super) fn computable(self, budget: &mut Budget) -> Result<Self, Fault> {
        let Self::BigInt(digits) = self else { return Ok(self) };
        budget.spend_bytes(digits.len())?;
        Ok(Self::Double(digits.parse().map_err(|_| Fault::Conversion)?))
    }

    /// Returns the name that CEL has for the type.
    pub(super) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) | Self::BigInt(_) => "double",
            Self::Str(_) | Self::Text(_) => "string",
            Self::Bytes(_) | Self::ByteBuffer(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Array(_) | Self::List(_) => "list",
            Self::Object(_) | Self::Map(_) => "map",
            Self::Type(_) => "type",
        }
    }

    /// Returns the number of elements or entries.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Self::Array(items) => Some(items.len()),
            Self::List(items) => Some(items.len()),
            Self::Object(object) => Some(object.len()),
            Self::Map(entries) => Some(entries.len()),
            _ => None,
        }
    }

    /// Returns an element of a list.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        match self {
            Self::Array(items) => items.get(index).map(Self::of_json),
            Self::List(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// Finds the value of a key. The error is a value that is not a map.
    pub(super) fn member(&self, key: &Self, budget: &mut Budget) -> Result<Option<Self>, Fault> {
        match self {
            Self::Object(object) => {
                budget.spend(object.len() / 16)?;
                Ok(key.as_str().and_then(|key| object.get(key)).map(Self::of_json))
            }
            Self::Map(entries) => {
                for (other, value) in entries.iter() {
                    if equal(other, key, budget)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            _ => Err(Fault::Type),
        }
    }
}

/// Returns whether two values are equal. Values of different types are not; numbers compare by value.
pub(super) fn equal(
    one: &Value<'_>,
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<bool, Fault> {
    budget.spend(1)?;
    if let (Some(one), Some(other)) = (one.as_str(), other.as_str()) {
        budget.spend_bytes(one.len().min(other.len()))?;
        return Ok(one == other);
    }
    if let (Some(one), Some(other)) = (one.as_bytes(), other.as_bytes()) {
        budget.spend_bytes(one.len().min(other.len()))?;
        return Ok(one == other);
    }
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Type(one), Value::Type(other)) => one == other,
        (Value::Array(_) | Value::List(_), Value::Array(_) | Value::List(_)) => {
            let count = one.count();
            if count != other.count() {
                return Ok(false);
            }
            for index in 0..count.unwrap_or_default() {
                let (Some(one), Some(other)) = (one.item(index), other.item(index)) else {
                    return Ok(false);
                };
                if !equal(&one, &other, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(_) | Value::Map(_), Value::Object(_) | Value::Map(_)) => {
            equal_maps(one, other, budget)?
        }
        _ => numeric_order(one, other, budget)? == Some(Ordering::Equal),
    })
}

fn equal_maps(one: &Value<'_>, other: &Value<'_>, budget: &mut Budget) -> Result<bool, Fault> {
    if one.count() != other.count() {
        return Ok(false);
    }
    let mut same = |key: &Value<'_>, value: &Value<'_>| -> Result<bool, Fault> {
        match other.member(key, budget)? {
            Some(found) => equal(value, &found, budget),
            None => Ok(false),
        }
    };
    match one {
        Value::Object(object) => {
            for (key, value) in object.iter() {
                if !same(&Value::Str(key), &Value::of_json(value))? {
                    return Ok(false);
                }
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries.iter() {
                if !same(key, value)? {
                    return Ok(false);
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the order of two values, or a fault if they have none.
pub(super) fn order(
    one: &Value<'_>,
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<Ordering, Fault> {
    if let (Some(one), Some(other)) = (one.as_str(), other.as_str()) {
        budget.spend_bytes(one.len().min(other.len()))?;
        return Ok(one.cmp(other));
    }
    if let (Some(one), Some(other)) = (one.as_bytes(), other.as_bytes()) {
        budget.spend_bytes(one.len().min(other.len()))?;
        return Ok(one.cmp(other));
    }
    let order = match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
        (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
        _ => numeric_order(one, other, budget)?,
    };
    order.ok_or(Fault::Type)
}

/// Returns the order of two numbers of any types, exactly; none if one is not a number.
fn numeric_order(
    one: &Value<'_>,
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<Option<Ordering>, Fault> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    Ok(match (one, other) {
        (Value::BigInt(digits), other) => big_order(digits, other, budget)?,
        (one, Value::BigInt(digits)) => big_order(digits, one, budget)?.map(Ordering::reverse),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), other) => {
            whole(other).and_then(|other| order_with_float(other, *one)).map(Ordering::reverse)
        }
        (one, Value::Double(other)) => whole(one).and_then(|one| order_with_float(one, *other)),
        _ => whole(one).zip(whole(other)).map(|(one, other)| one.cmp(&other)),
    })
}

/// Returns the order of an integer beyond 64 bits and another number.
fn big_order(
    digits: &str,
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<Option<Ordering>, Fault> {
    let beyond = if digits.starts_with('-') { Ordering::Less } else { Ordering::Greater };
    Ok(match other {
        Value::Int(_) | Value::Uint(_) => Some(beyond),
        Value::BigInt(other) => {
            budget.spend_bytes(digits.len().min(other.len()))?;
            Some(order_digits(digits, other))
        }
        Value::Double(other) if other.is_nan() => None,
        Value::Double(other) if other.is_infinite() => Some(0.0_f64.total_cmp(other)),
        Value::Double(other) => {
            // Without its fraction, the float is on the same side of an integer that is further from zero.
            let other = format!("{:.0}", other.trunc());
            budget.spend_bytes(other.len())?;
            Some(order_digits(digits, &other))
        }
        _ => None,
    })
}

/// Returns the order of two integers by their decimal digits.
fn order_digits(one: &str, other: &str) -> Ordering {
    let magnitude =
        |digits: &str, other: &str| digits.len().cmp(&other.len()).then_with(|| digits.cmp(other));
    match (one.strip_prefix('-'), other.strip_prefix('-')) {
        (None, None) => magnitude(one, other),
        (Some(one), Some(other)) => magnitude(other, one),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}

fn order_with_float(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Beyond these, every integer of 64 bits is on the same side.
    if float >= 18_446_744_073_709_551_616.0 {
        return Some(Ordering::Less);
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let floor = float.floor();
    #[expect(clippy::cast_possible_truncation, reason = "the bounds were checked")]
    let order = whole.cmp(&(floor as i128));
    Some(if order == Ordering::Equal && float > floor { Ordering::Less } else { order })
}

//! Arithmetic of conditions. Operands are of one type, except for moments and durations.

use std::rc::Rc;

use super::evaluate::{Budget, Fault};
use super::node::Arithmetic;
use super::value::Value;

pub(super) fn compute<'a>(
    operator: Arithmetic,
    one: &Value<'a>,
    other: &Value<'a>,
    budget: &mut Budget,
) -> Result<Value<'a>, Fault> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    if operator == Add
        && let (Some(one), Some(other)) = (one.as_str(), other.as_str())
    {
        budget.spend_bytes(one.len() + other.len())?;
        return Ok(Value::Text([one, other].concat().into()));
    }
    if operator == Add
        && let (Some(one), Some(other)) = (one.as_bytes(), other.as_bytes())
    {
        budget.spend_bytes(one.len() + other.len())?;
        return Ok(Value::ByteBuffer([one, other].concat().into()));
    }
    let overflow = Fault::Overflow;
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => {
            let result = match operator {
                Add => one.checked_add(*other),
                Subtract => one.checked_sub(*other),
                Multiply => one.checked_mul(*other),
                Divide | Remainder if *other == 0 => return Err(Fault::Zero),
                Divide => one.checked_div(*other),
                Remainder => one.checked_rem(*other),
            };
            result.map(Value::Int).ok_or(overflow)
        }
        (Value::Uint(one), Value::Uint(other)) => {
            let result = match operator {
                Add => one.checked_add(*other),
                Subtract => one.checked_sub(*other),
                Multiply => one.checked_mul(*other),
                Divide | Remainder if *other == 0 => return Err(Fault::Zero),
                Divide => one.checked_div(*other),
                Remainder => one.checked_rem(*other),
            };
            result.map(Value::Uint).ok_or(overflow)
        }
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(match operator {
            Add => one + other,
            Subtract => one - other,
            Multiply => one * other,
            Divide => one / other,
            Remainder => return Err(Fault::Type),
        })),
        (Value::Array(_) | Value::List(_), Value::Array(_) | Value::List(_)) if operator == Add => {
            join(one, other, budget)
        }
        _ => compute_time(operator, one, other),
    }
}

fn join<'a>(one: &Value<'a>, other: &Value<'a>, budget: &mut Budget) -> Result<Value<'a>, Fault> {
    let mut items = Vec::new();
    for list in [one, other] {
        let count = list.count().unwrap_or_default();
        budget.spend(count)?;
        items.extend((0..count).filter_map(|index| list.item(index)));
    }
    Ok(Value::List(Rc::new(items)))
}

fn compute_time<'a>(
    operator: Arithmetic,
    one: &Value<'a>,
    other: &Value<'a>,
) -> Result<Value<'a>, Fault> {
    use Arithmetic::{Add, Subtract};
    let moment = |moment: Result<jiff::Timestamp, jiff::Error>| {
        moment.map(Value::Timestamp).map_err(|_| Fault::Overflow)
    };
    match (one, operator, other) {
        (Value::Timestamp(one), Add, Value::Duration(by))
        | (Value::Duration(by), Add, Value::Timestamp(one)) => moment(one.checked_add(*by)),
        (Value::Timestamp(one), Subtract, Value::Duration(by)) => moment(one.checked_sub(*by)),
        (Value::Timestamp(one), Subtract, Value::Timestamp(other)) => {
            Ok(Value::Duration(one.duration_since(*other)))
        }
        (Value::Duration(one), Add, Value::Duration(other)) => {
            one.checked_add(*other).map(Value::Duration).ok_or(Fault::Overflow)
        }
        (Value::Duration(one), Subtract, Value::Duration(other)) => {
            one.checked_sub(*other).map(Value::Duration).ok_or(Fault::Overflow)
        }
        _ => Err(Fault::Type),
    }
}

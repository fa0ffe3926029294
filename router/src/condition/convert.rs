//! Functions of conditions: sizes, texts, conversions and times.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use super::evaluate::{Budget, Fault};
use super::function::{Function, TimePart};
use super::node::{Literal, Node};
use super::value::Value;

pub(super) fn call<'a>(
    function: Function,
    first: Value<'a>,
    second: Option<&Value<'a>>,
    budget: &mut Budget,
) -> Result<Value<'a>, Fault> {
    let text_length = first.as_str().map_or(0, str::len);
    budget.spend_bytes(text_length)?;
    Ok(match function {
        Function::Size => Value::Int(count(size(&first)?)?),
        Function::Contains | Function::StartsWith | Function::EndsWith => {
            let part = second.and_then(Value::as_str).ok_or(Fault::Type)?;
            let text = first.as_str().ok_or(Fault::Type)?;
            Value::Bool(match function {
                Function::StartsWith => text.starts_with(part),
                Function::EndsWith => text.ends_with(part),
                _ => text.contains(part),
            })
        }
        Function::Bool => Value::Bool(to_bool(&first)?),
        Function::Bytes => match first {
            Value::Bytes(_) | Value::ByteBuffer(_) => first,
            Value::Str(text) => Value::Bytes(text.as_bytes()),
            text => Value::ByteBuffer(text.as_str().ok_or(Fault::Type)?.as_bytes().into()),
        },
        Function::Double => Value::Double(to_double(&first.computable(budget)?)?),
        Function::Duration => match &first {
            Value::Duration(_) => first,
            text => Value::Duration(parse_duration(text.as_str().ok_or(Fault::Type)?)?),
        },
        Function::Dyn => first,
        Function::Int => Value::Int(to_int(&first)?),
        Function::Uint => Value::Uint(to_uint(&first)?),
        Function::String => to_text(first, budget)?,
        Function::Timestamp => Value::Timestamp(to_timestamp(&first)?),
        Function::Type => Value::Type(first.type_name()),
        Function::Time(part) => Value::Int(time_part(part, &first, second)?),
    })
}

impl Node {
    /// Returns whether a conversion of a literal succeeds, and a literal time zone is one.
    pub(super) fn has_readable_literals(&self) -> bool {
        let Self::Call(function, arguments) = self else { return true };
        if let (Function::Time(_), [_, Self::Literal(Literal::String(zone))]) =
            (function, &arguments[..])
        {
            return parse_zone(zone).is_some();
        }
        let [Self::Literal(Literal::String(text))] = &arguments[..] else { return true };
        call(*function, Value::Str(text), None, &mut Budget::new(text.len() + 1)).is_ok()
    }
}

fn count(count: usize) -> Result<i64, Fault> {
    i64::try_from(count).map_err(|_| Fault::Overflow)
}

fn size(value: &Value<'_>) -> Result<usize, Fault> {
    if let Some(text) = value.as_str() {
        return Ok(text.chars().count());
    }
    match value {
        Value::Bytes(bytes) => Ok(bytes.len()),
        Value::ByteBuffer(bytes) => Ok(bytes.len()),
        other => other.count().ok_or(Fault::Type),
    }
}

fn to_bool(value: &Value<'_>) -> Result<bool, Fault> {
    match (value, value.as_str()) {
        (Value::Bool(value), _) => Ok(*value),
        (_, Some("1" | "t" | "true" | "TRUE" | "True")) => Ok(true),
        (_, Some("0" | "f" | "false" | "FALSE" | "False")) => Ok(false),
        (_, Some(_)) => Err(Fault::Conversion),
        _ => Err(Fault::Type),
    }
}

fn to_double(value: &Value<'_>) -> Result<f64, Fault> {
    if let Some(text) = value.as_str() {
        return text.parse().map_err(|_| Fault::Conversion);
    }
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is the result")]
    match value {
        Value::Int(number) => Ok(*number as f64),
        Value::Uint(number) => Ok(*number as f64),
        Value::Double(number) => Ok(*number),
        _ => Err(Fault::Type),
    }
}

fn to_int(value: &Value<'_>) -> Result<i64, Fault> {
    if let Some(text) = value.as_str() {
        return text.parse().map_err(|_| Fault::Conversion);
    }
    match value {
        Value::Int(number) => Ok(*number),
        Value::Uint(number) => i64::try_from(*number).map_err(|_| Fault::Overflow),
        Value::Double(number) => {
            whole(number.trunc()).and_then(|it| it.try_into().ok()).ok_or(Fault::Overflow)
        }
        Value::BigInt(_) => Err(Fault::Overflow),
        Value::Timestamp(moment) => Ok(moment.as_second()),
        _ => Err(Fault::Type),
    }
}

fn to_uint(value: &Value<'_>) -> Result<u64, Fault> {
    if let Some(text) = value.as_str() {
        return text.parse().map_err(|_| Fault::Conversion);
    }
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Fault::Overflow),
        Value::Uint(number) => Ok(*number),
        Value::Double(number) => {
            whole(number.trunc()).and_then(|it| it.try_into().ok()).ok_or(Fault::Overflow)
        }
        Value::BigInt(_) => Err(Fault::Overflow),
        _ => Err(Fault::Type),
    }
}

/// Returns a float as an integer, if it is one of at most 64 bits.
pub(super) fn whole(number: f64) -> Option<i128> {
    let fits = (-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "the bounds were checked")]
    (fits && number.trunc() == number).then_some(number as i128)
}

fn to_text<'a>(value: Value<'a>, budget: &mut Budget) -> Result<Value<'a>, Fault> {
    let text = match &value {
        Value::Str(_) | Value::Text(_) => return Ok(value),
        Value::BigInt(digits) => return Ok(Value::Str(digits)),
        Value::Bytes(bytes) => {
            budget.spend_bytes(bytes.len())?;
            return std::str::from_utf8(bytes).map(Value::Str).map_err(|_| Fault::Conversion);
        }
        Value::ByteBuffer(bytes) => {
            budget.spend_bytes(bytes.len())?;
            std::str::from_utf8(bytes).map_err(|_| Fault::Conversion)?.to_owned()
        }
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Timestamp(moment) => moment.to_string(),
        Value::Duration(duration) => duration_text(*duration),
        _ => return Err(Fault::Type),
    };
    // The digits of a double may be hundreds.
    budget.spend_bytes(text.len())?;
    Ok(Value::Text(text.into()))
}

fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) =
        (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let fraction = format!(".{rest:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{sign}{seconds}{fraction}s")
}

fn to_timestamp(value: &Value<'_>) -> Result<Timestamp, Fault> {
    match value {
        Value::Timestamp(moment) => Ok(*moment),
        Value::Int(seconds) => Timestamp::from_second(*seconds).map_err(|_| Fault::Overflow),
        text => text.as_str().ok_or(Fault::Type)?.parse().map_err(|_| Fault::Conversion),
    }
}

/// Reads a duration such as `1h30m`, `1.5s` or `-300ms`.
fn parse_duration(text: &str) -> Result<SignedDuration, Fault> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanos: i128 = 0;
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() || text.len() > 64 {
        return Err(Fault::Conversion);
    }
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.');
        let (number, unit) = rest.split_at(end.ok_or(Fault::Conversion)?);
        let units: [(&str, i128); 7] = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        let found = units.iter().find(|(name, _)| unit.starts_with(name));
        let (name, scale) = found.ok_or(Fault::Conversion)?;
        nanos = nanos.checked_add(scaled(number, *scale)?).ok_or(Fault::Overflow)?;
        rest = &unit[name.len()..];
    }
    let nanos = if negative { -nanos } else { nanos };
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let seconds = i64::try_from(seconds).map_err(|_| Fault::Overflow)?;
    let rest = i32::try_from(rest).map_err(|_| Fault::Overflow)?;
    Ok(SignedDuration::new(seconds, rest))
}

/// Multiplies a decimal number by a number of nanoseconds. Parts of a nanosecond are cut off.
fn scaled(number: &str, scale: i128) -> Result<i128, Fault> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') || number.len() > 18 {
        return Err(Fault::Conversion);
    }
    let digits = |text: &str| match text {
        "" => Ok(0),
        text => text.parse::<i128>().map_err(|_| Fault::Conversion),
    };
    let power = 10_i128.pow(u32::try_from(fraction.len()).map_err(|_| Fault::Overflow)?);
    let total = digits(whole)?.checked_mul(scale).ok_or(Fault::Overflow)?;
    Ok(total + digits(fraction)? * scale / power)
}

fn time_part(part: TimePart, value: &Value<'_>, zone: Option<&Value<'_>>) -> Result<i64, Fault> {
    let moment = match (value, zone) {
        (Value::Duration(duration), None) => return duration_part(part, *duration),
        (Value::Timestamp(moment), None) => Offset::UTC.to_datetime(*moment),
        (Value::Timestamp(moment), Some(zone)) => {
            let zone = zone.as_str().ok_or(Fault::Type)?;
            parse_zone(zone).ok_or(Fault::Conversion)?.to_datetime(*moment)
        }
        _ => return Err(Fault::Type),
    };
    Ok(date_part(part, moment))
}

/// Reads `UTC`, `Z`, or an offset such as `+02:00`.
fn parse_zone(text: &str) -> Option<Offset> {
    if matches!(text, "UTC" | "Z") {
        return Some(Offset::UTC);
    }
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, most: i32| -> Option<i32> {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number <= most)
    };
    let seconds = number(hours, 23)? * 3600 + number(minutes, 59)? * 60;
    Offset::from_seconds(if negative { -seconds } else { seconds }).ok()
}

fn duration_part(part: TimePart, duration: SignedDuration) -> Result<i64, Fault> {
    match part {
        TimePart::Hours => Ok(duration.as_hours()),
        TimePart::Minutes => Ok(duration.as_mins()),
        TimePart::Seconds => Ok(duration.as_secs()),
        TimePart::Milliseconds => i64::try_from(duration.as_millis()).map_err(|_| Fault::Overflow),
        _ => Err(Fault::Type),
    }
}

fn date_part(part: TimePart, moment: DateTime) -> i64 {
    match part {
        TimePart::FullYear => i64::from(moment.year()),
        TimePart::Month => i64::from(moment.month()) - 1,
        TimePart::Date => i64::from(moment.day()),
        TimePart::DayOfMonth => i64::from(moment.day()) - 1,
        TimePart::DayOfWeek => i64::from(moment.weekday().to_sunday_zero_offset()),
        TimePart::DayOfYear => i64::from(moment.day_of_year()) - 1,
        TimePart::Hours => i64::from(moment.hour()),
        TimePart::Minutes => i64::from(moment.minute()),
        TimePart::Seconds => i64::from(moment.second()),
        TimePart::Milliseconds => i64::from(moment.millisecond()),
    }
}

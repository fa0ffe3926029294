//! Size of a JSON text, without writing it.

use std::fmt::Write;

use crate::json::{Object, Value};

/// Returns whether the compact JSON text of an object has at most so many bytes.
pub(super) fn fits(object: &Object, most: usize) -> bool {
    let mut left = Some(most);
    take_object(object, &mut left);
    left.is_some()
}

fn take(left: &mut Option<usize>, bytes: usize) {
    *left = left.and_then(|left| left.checked_sub(bytes));
}

fn take_object(object: &Object, left: &mut Option<usize>) {
    // Braces and commas; an empty object has two bytes.
    take(left, 1 + object.len().max(1));
    for (key, value) in object.iter() {
        take_text(key, left);
        take(left, 1);
        take_value(value, left);
        if left.is_none() {
            return;
        }
    }
}

fn take_value(value: &Value, left: &mut Option<usize>) {
    match value {
        Value::Null | Value::Bool(true) => take(left, 4),
        Value::Bool(false) => take(left, 5),
        Value::Int(number) => {
            let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
            take(left, digits + usize::from(*number < 0));
        }
        Value::BigInt(digits) => take(left, digits.len()),
        Value::Float(number) => {
            let mut length = Length(0);
            // Counting does not fail.
            let _ = write!(length, "{number:?}");
            take(left, length.0);
        }
        Value::String(text) => take_text(text, left),
        Value::Array(items) => {
            take(left, 1 + items.len().max(1));
            for item in items {
                take_value(item, left);
                if left.is_none() {
                    return;
                }
            }
        }
        Value::Object(object) => take_object(object, left),
    }
}

fn take_text(text: &str, left: &mut Option<usize>) {
    take(left, text.len() + 2);
    if left.is_none() {
        return;
    }
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..=31 => 5,
        _ => 0,
    });
    take(left, escapes.sum());
}

struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse, to_compact};

    #[test]
    fn size_equals_compact_text() {
        for text in [
            "{}",
            r#"{"a":1,"b":[],"c":[1,-20,300],"d":{"e":"\n\u0001é","f":null,"g":[true,false]}}"#,
            r#"{"a":1.5,"b":12345678901234567890123,"":""}"#,
        ] {
            let value = parse(text.as_bytes(), Limits::REQUEST).unwrap();
            let (bytes, object) = (to_compact(&value).len(), value.as_object().unwrap());
            assert!(fits(object, bytes) && !fits(object, bytes - 1), "{text}");
        }
    }
}

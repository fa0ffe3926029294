//! The canonical text of RFC 8785, for whatever is sealed or pinned by digest and read by programs of others.
//!
//! UTF-8 without blanks; members sorted by the UTF-16 code units of their names; numbers as ECMAScript writes
//! them. `sha256sum` of this text is the digest that is told. The canonical text of the Python router is
//! another: see [`to_canonical`](super::to_canonical).

use super::write::write_plain_string;
use super::{Object, Value};

/// An integer that not every program reads as the same number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the integer {0} is beyond 2^53, where programs disagree about numbers")]
pub struct Inexact(pub String);

/// The largest integer up to which all are exact in a double.
const EXACT: i64 = 1 << 53;

/// Returns the canonical text of RFC 8785.
///
/// # Errors
/// When there is an integer beyond 2^53.
pub fn to_jcs(value: &Value) -> Result<String, Inexact> {
    let mut out = String::new();
    write(&mut out, value)?;
    Ok(out)
}

fn write(out: &mut String, value: &Value) -> Result<(), Inexact> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(integer) if (-EXACT..=EXACT).contains(integer) => {
            out.push_str(&integer.to_string());
        }
        Value::Int(integer) => return Err(Inexact(integer.to_string())),
        Value::BigInt(digits) => return Err(Inexact(digits.to_string())),
        Value::Float(float) => out.push_str(ryu_js::Buffer::new().format_finite(*float)),
        Value::String(text) => write_plain_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item)?;
            }
            out.push(']');
        }
        Value::Object(object) => write_object(out, object)?,
    }
    Ok(())
}

fn write_object(out: &mut String, object: &Object) -> Result<(), Inexact> {
    let mut members: Vec<(&str, &Value)> = object.iter().collect();
    members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    out.push('{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_plain_string(out, name);
        out.push(':');
        write(out, value)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, parse};
    use super::*;

    fn jcs(text: &str) -> Result<String, Inexact> {
        to_jcs(&parse(text.as_bytes(), Limits::REQUEST).unwrap())
    }

    #[test]
    fn example_of_the_rfc_comes_out_as_it_says() {
        let text = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        assert_eq!(
            jcs(text).unwrap(),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
    }

    #[test]
    fn members_are_sorted_by_code_units_and_not_by_code_points() {
        let text = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let sorted = jcs(text).unwrap();
        let place = |name: &str| sorted.find(name).unwrap();
        assert!(place("😀") < place("\u{fb33}"), "{sorted}");
        assert!(place("\\r") < place("\"1\"") && place("ö") < place("€"), "{sorted}");
    }

    #[test]
    fn integers_that_programs_disagree_about_are_refused() {
        assert_eq!(jcs("9007199254740992").unwrap(), "9007199254740992");
        assert!(jcs("[9007199254740993]").is_err());
        assert!(jcs("-123456789012345678901234567890").is_err());
        assert_eq!(jcs("-0.0").unwrap(), "0");
        assert_eq!(jcs("1.0").unwrap(), "1");
    }
}

//! JSON text as Python writes it, so that digests and messages agree with those of the Python router.
//!
//! The canonical form is pure ASCII without blanks. The members of every object are sorted by the code
//! points of their names (which is the order of Rust's `str`, and not that of RFC 8785). Strings
//! escape `"` and `\`, use the short forms of backspace, tab, line feed, form feed and carriage
//! return, and write every other character outside U+0020..=U+007E as `\u` and four lower-case
//! hexadecimal digits, above U+FFFF as a surrogate pair. Integers are written as they are; floats as
//! Python's `repr`, so `1` and `1.0` differ.
//!
//! A [`Value`] cannot hold everything that Python's JSON can: integers beyond 64 bits, `NaN` and
//! infinities, lone surrogates, and the integer spelled `-0`.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Returns the canonical text: compact, members sorted, ASCII.
///
/// ```
/// use nexus_router_sdk::canonical;
/// let value = serde_json::json!({ "b": 1.0, "a": "é" });
/// assert_eq!(canonical::to_string(&value), r#"{"a":"\u00e9","b":1.0}"#);
/// ```
#[must_use]
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    COMPACT.write(&mut out, value);
    out
}

/// Returns the text of Python's `json.dumps` with its defaults: `", "` and `": "` between the parts,
/// members in the given order, ASCII.
///
/// ```
/// use nexus_router_sdk::canonical;
/// let value = serde_json::json!({ "b": 1.0, "a": "é" });
/// assert_eq!(canonical::to_string_spaced(&value), r#"{"b": 1.0, "a": "\u00e9"}"#);
/// ```
#[must_use]
pub fn to_string_spaced(value: &Value) -> String {
    let mut out = String::new();
    SPACED.write(&mut out, value);
    out
}

/// Returns a float as Python's `repr` writes it; `NaN`, `Infinity` or `-Infinity` if it is not finite.
///
/// ```
/// use nexus_router_sdk::canonical;
/// assert_eq!(canonical::float(100.0), "100.0");
/// assert_eq!(canonical::float(1e16), "1e+16");
/// ```
#[must_use]
pub fn float(value: f64) -> String {
    let mut out = String::new();
    write_float(&mut out, value);
    out
}

/// Returns what Python calls the type of a value; messages of the Python router name it so.
///
/// ```
/// use nexus_router_sdk::canonical;
/// assert_eq!(canonical::type_name(&serde_json::json!(1.0)), "float");
/// ```
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

struct Form {
    comma: &'static str,
    colon: &'static str,
    sorted: bool,
}

const COMPACT: Form = Form { comma: ",", colon: ":", sorted: true };
const SPACED: Form = Form { comma: ", ", colon: ": ", sorted: false };

impl Form {
    fn write(&self, out: &mut String, value: &Value) {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => write_number(out, number),
            Value::String(text) => write_string(out, text),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(self.comma);
                    }
                    self.write(out, item);
                }
                out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if self.sorted {
                    members.sort_unstable_by_key(|(name, _)| *name);
                }
                out.push('{');
                for (index, (name, member)) in members.into_iter().enumerate() {
                    if index > 0 {
                        out.push_str(self.comma);
                    }
                    write_string(out, name);
                    out.push_str(self.colon);
                    self.write(out, member);
                }
                out.push('}');
            }
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(value) if number.is_f64() => write_float(out, value),
        _ => put(out, format_args!("{number}")),
    }
}

/// Appends what [`float`] returns.
pub fn write_float(out: &mut String, value: f64) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    if value.is_infinite() {
        return out.push_str("Infinity");
    }
    let value = value.abs();
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    // In this range Python writes no exponent, and without one there is only one way to write.
    if (value == 0.0 || (1e-4..1e16).contains(&value)) && !text.contains('e') {
        return out.push_str(text);
    }
    let (digits, exponent) = decimal(text);
    let (first, rest) = digits.split_at(1);
    match exponent {
        0..16 => {
            let whole = exponent.unsigned_abs() as usize + 1;
            let (before, after) = digits.split_at(whole.min(digits.len()));
            put(out, format_args!("{before:0<whole$}.{after:0<1}"));
        }
        -4..0 => {
            let zeros = exponent.unsigned_abs() as usize - 1;
            put(out, format_args!("0.{:0<zeros$}{digits}", ""));
        }
        _ => {
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            put(out, format_args!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs()));
        }
    }
}

/// Takes apart the shortest text that reads back as a finite float that is not negative: its digits
/// without outer zeros, and the power of ten of the first one.
///
/// The standard library also finds shortest digits, but of two equally short ones it may choose
/// another than Python.
fn decimal(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return ("0".to_owned(), 0);
    }
    // A double has at most 24 characters here, so the lengths fit and the exponent parses.
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(0);
    let shift: i32 = exponent.parse().unwrap_or(0);
    let first = length(whole) - 1 - (length(&all) - length(significant));
    (significant.trim_end_matches('0').to_owned(), first + shift)
}

/// Appends a string as the canonical form writes it, with its quotes.
///
/// ```
/// use nexus_router_sdk::canonical;
/// let mut out = String::new();
/// canonical::write_string(&mut out, "né\n");
/// assert_eq!(out, r#""n\u00e9\n""#);
/// ```
pub fn write_string(out: &mut String, text: &str) {
    // Nearly always exactly as much as is needed.
    out.reserve(text.len() + 2);
    out.push('"');
    if are_all_plain(text.as_bytes()) {
        out.push_str(text);
        return out.push('"');
    }
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(plain_len(rest.as_bytes()));
        out.push_str(plain);
        let mut characters = tail.chars();
        let Some(character) = characters.next() else { break };
        write_escape(out, character);
        rest = characters.as_str();
    }
    out.push('"');
}

/// Says whether the canonical form writes bytes as they are, which is so of most strings. Eight are looked at together.
fn are_all_plain(bytes: &[u8]) -> bool {
    let (eights, rest) = bytes.as_chunks::<8>();
    eights.iter().all(|eight| are_plain(u64::from_le_bytes(*eight)))
        && match bytes.last_chunk::<8>() {
            // Some of them for the second time.
            Some(last) => are_plain(u64::from_le_bytes(*last)),
            None => rest.iter().all(|byte| PLAIN[usize::from(*byte)]),
        }
}

/// Returns how many bytes at the start the canonical form writes as they are.
fn plain_len(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        if !are_plain(u64::from_le_bytes(*chunk)) {
            break;
        }
        rest = tail;
    }
    let last = rest.iter().position(|byte| !PLAIN[usize::from(*byte)]);
    bytes.len() - rest.len() + last.unwrap_or(rest.len())
}

/// Says whether the canonical form writes eight bytes as they are.
const fn are_plain(bytes: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    // The high bit of a byte that is zero; beside it, only of bytes above one that is.
    const fn zeros(bytes: u64) -> u64 {
        bytes.wrapping_sub(ONES) & !bytes
    }
    let below = bytes.wrapping_sub(ONES * 0x20) & !bytes;
    let quotes = zeros(bytes ^ (ONES * b'"' as u64));
    let backslashes = zeros(bytes ^ (ONES * b'\\' as u64));
    let deletes = zeros(bytes ^ (ONES * 0x7f));
    (bytes | below | quotes | backslashes | deletes) & HIGH == 0
}

/// For each byte, whether the canonical form writes it as it is.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte: u8 = 0;
    while byte < 0x80 {
        plain[byte as usize] = is_plain(byte);
        byte += 1;
    }
    plain
};

/// Says whether the canonical form writes a byte as it is.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Appends the escape of any character: the short form if JSON has one that Python uses, else `\u`.
///
/// ```
/// use nexus_router_sdk::canonical;
/// let mut out = String::new();
/// canonical::write_escape(&mut out, '"');
/// canonical::write_escape(&mut out, 'A');
/// assert_eq!(out, r#"\"\u0041"#);
/// ```
pub fn write_escape(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        _ => {
            const HEX: [char; 16] =
                ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str("\\u");
                for shift in [12, 8, 4, 0] {
                    out.push(HEX[usize::from(*unit >> shift & 0xf)]);
                }
            }
        }
    }
}

/// Appends formatted text; writing to a `String` cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _: std::fmt::Result = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn golden(name: &str) -> String {
        let path = format!("{}/../tests/golden/nexus/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn types_are_named_as_in_python() {
        let values = serde_json::json!([null, true, 1, 1.0, "", [], {}]);
        let names: Vec<_> = values.as_array().unwrap().iter().map(type_name).collect();
        assert_eq!(names, ["NoneType", "bool", "int", "float", "str", "list", "dict"]);
    }

    #[test]
    fn floats_read_as_in_python() {
        let mut count = 0;
        for line in golden("floats.txt").lines() {
            let (bits, text) = line.split_once(' ').unwrap();
            let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            assert_eq!(float(value), text, "bits {bits}");
            count += 1;
        }
        assert_eq!(count, 3000);
    }

    /// Why a golden case is beyond what a [`Value`] can hold, judged by the case alone.
    fn beyond_a_value(input: &str, output: &str) -> Option<&'static str> {
        let digits = |text: &str| text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit());
        if output.contains("NaN") || output.contains("Infinity") {
            Some("NaN or infinity")
        } else if serde_json::from_str::<Value>(output).is_err() {
            Some("lone surrogate")
        } else if input == "-0" {
            Some("integer minus zero")
        } else if digits(output) && output.parse::<i64>().is_err() && output.parse::<u64>().is_err()
        {
            Some("integer beyond 64 bits")
        } else {
            None
        }
    }

    #[test]
    fn canonical_text_is_that_of_python() {
        let (mut same, mut refused, mut beyond) = (0, 0, BTreeMap::<_, Vec<_>>::new());
        for line in golden("canonical.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let input = case["in"].as_str().unwrap();
            let parsed = serde_json::from_str::<Value>(input);
            let Some(expected) = case["out"].as_str() else {
                assert!(parsed.is_err(), "Python refuses {input}");
                refused += 1;
                continue;
            };
            if let Some(reason) = beyond_a_value(input, expected) {
                beyond.entry(reason).or_default().push(input.to_owned());
                let text = parsed.map(|value| to_string(&value));
                assert_ne!(text.ok().as_deref(), Some(expected), "a value does hold {input}");
                continue;
            }
            assert_eq!(to_string(&parsed.unwrap()), expected, "canonical text of {input}");
            same += 1;
        }
        assert_eq!((same, refused), (61, 25));
        let beyond: Vec<_> = beyond.iter().map(|(why, cases)| (*why, cases.join(" "))).collect();
        let listed = [
            ("NaN or infinity", "1e400 -1e400 NaN Infinity -Infinity [NaN]"),
            (
                "integer beyond 64 bits",
                "100000000000000000000 18446744073709551616 -170141183460469231731687303715884105729",
            ),
            ("integer minus zero", "-0"),
            (
                "lone surrogate",
                r#""\ud800" "\ude00\ud83d" {"\ud800":1,"\ue000":2,"\ud83d\ude00":3}"#,
            ),
        ];
        assert_eq!(beyond, listed.map(|(why, cases)| (why, cases.to_owned())));
    }

    #[test]
    fn spaced_text_keeps_the_order() {
        let value = serde_json::json!({"b": [1, 2.5, null, true], "a": {}, "é\u{1f600}\u{7f}": []});
        assert_eq!(
            to_string_spaced(&value),
            r#"{"b": [1, 2.5, null, true], "a": {}, "\u00e9\ud83d\ude00\u007f": []}"#
        );
    }

    proptest! {
        #[test]
        fn a_float_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(float(value).parse::<f64>().unwrap().to_bits(), bits);
        }

        #[test]
        fn a_string_reads_back(text in any::<String>()) {
            let written = to_string(&Value::from(text.as_str()));
            prop_assert!(written.is_ascii());
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), Value::from(text));
        }
    }
}

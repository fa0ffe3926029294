//! Reads the numbers of JSON text.

use super::super::Value;
use super::super::error::{Fault, Kind, Parsed, shown};
use super::Parser;

/// Python refuses to read longer ones.
const MAX_INTEGER_DIGITS: usize = 4300;

/// Every integer of so many digits fits 64 bits.
const SAFE_INTEGER_DIGITS: usize = 18;

impl Parser<'_> {
    pub(super) fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let digits = self.at;
        if self.peek() == Some(b'I') {
            self.at = start;
            return Err(self.not_finite("-Infinity").unwrap_or_else(|| self.expected("a value")));
        }
        self.digits()?;
        if self.bytes[digits] == b'0' && self.at > digits + 1 {
            self.at = digits;
            return Err(self.syntax("number with a leading zero".to_owned()));
        }
        let whole = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        if self.at == whole {
            return self.integer(start, digits);
        }
        let text = &self.text[start..self.at];
        match text.parse().ok().and_then(Value::float) {
            Some(value) => Ok(value),
            None => {
                let message =
                    format!("the number {} is beyond the range of 64-bit floats", shown(text));
                Err(Fault::new(Kind::NotFinite, message, start))
            }
        }
    }

    /// Takes at least one digit.
    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn integer(&self, start: usize, digits: usize) -> Parsed<Value> {
        let count = self.at - digits;
        if count <= SAFE_INTEGER_DIGITS {
            let size = self.bytes[digits..self.at]
                .iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
            return Ok(Value::Int(if start < digits { -size } else { size }));
        }
        if count > MAX_INTEGER_DIGITS {
            let message =
                format!("integer of {count} digits, more than the {MAX_INTEGER_DIGITS} allowed");
            return Err(Fault::new(Kind::IntegerTooLong, message, start));
        }
        let text = &self.text[start..self.at];
        Ok(text.parse().map_or_else(|_| Value::BigInt(text.into()), Value::Int))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::read;
    use super::super::super::{Limits, Value, parse};
    use proptest::prelude::*;

    #[test]
    fn integers_of_any_size_are_exact() {
        for text in ["9223372036854775807", "-9223372036854775808", "999999999999999999", "0", "-7"]
        {
            assert_eq!(read(text), Value::Int(text.parse().unwrap()));
        }
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] {
            assert_eq!(read(text), Value::BigInt(text.into()));
        }
        assert_eq!(read("-0"), Value::Int(0));
        assert!(matches!(read("-0.0"), Value::Float(zero) if zero.is_sign_negative()));
    }

    #[test]
    fn an_integer_has_at_most_4300_digits() {
        for sign in ["", "-"] {
            let longest = format!("{sign}{}", "7".repeat(4300));
            assert_eq!(read(&longest), Value::BigInt(longest.as_str().into()));
            let error = parse(format!("[{longest}7]").as_bytes(), Limits::default()).unwrap_err();
            assert_eq!(error.code(), "JSON_INTEGER_TOO_LONG");
            assert_eq!(error.message(), "integer of 4301 digits, more than the 4300 allowed");
        }
        // A float may have as many as it likes.
        assert_eq!(read(&format!("0.{}", "3".repeat(10_000))), Value::Float(1.0 / 3.0));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused() {
        for (text, message) in [
            ("01", "number with a leading zero"),
            ("-00", "number with a leading zero"),
            ("1.", "expected a digit, found the end of the text"),
            ("1.e1", "expected a digit, found 'e'"),
            ("1e+", "expected a digit, found the end of the text"),
            ("-", "expected a digit, found the end of the text"),
            ("-x", "expected a digit, found 'x'"),
            ("-Inf", "expected a value, found '-'"),
            ("+1", "expected a value, found '+'"),
            (".5", "expected a value, found '.'"),
            ("0x1", "expected the end of the text, found 'x'"),
            ("1e400", "the number 1e400 is beyond the range of 64-bit floats"),
        ] {
            assert_eq!(parse(text.as_bytes(), Limits::default()).unwrap_err().message(), message);
        }
    }

    proptest! {
        #[test]
        fn every_integer_reads_as_itself(integer in any::<i128>(), shift in 0..127_u32) {
            let text = (integer >> shift).to_string();
            let expected = text.parse().map_or_else(|_| Value::BigInt(text.as_str().into()), Value::Int);
            prop_assert_eq!(read(&text), expected);
        }

        #[test]
        fn floats_are_rounded_to_the_nearest(text in "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?[eE][-+]?[0-9]{1,2}") {
            prop_assert_eq!(read(&text), Value::Float(text.parse().unwrap()));
        }
    }
}

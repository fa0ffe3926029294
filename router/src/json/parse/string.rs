//! Reads the strings of JSON text.

use super::super::error::{Fault, Kind, Parsed};
use super::super::plain::plain_len;
use super::Parser;

impl<'a> Parser<'a> {
    pub(super) fn string(&mut self) -> Parsed<String> {
        match self.plain() {
            Ok(text) => Ok(text.to_owned()),
            Err(start) => self.escaped(start),
        }
    }

    /// Takes the name of a member into its place.
    pub(super) fn name(&mut self, slot: usize) -> Parsed<()> {
        match self.plain() {
            Ok(text) => self.members[slot].0.set(text),
            Err(start) => self.members[slot].0 = self.escaped(start)?.as_str().into(),
        }
        Ok(())
    }

    /// Takes a string in which every character stands for itself; otherwise returns where it starts.
    #[inline]
    fn plain(&mut self) -> Result<&'a str, usize> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        if self.peek() != Some(b'"') {
            return Err(start);
        }
        let text = &self.text[start..self.at];
        self.at += 1;
        Ok(text)
    }

    /// Reads on in a string that is not over at the first character that is not plain.
    fn escaped(&mut self, start: usize) -> Parsed<String> {
        let mut out = self.text[start..self.at].to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => {
                    return Err(self.syntax("unescaped control character in a string".to_owned()));
                }
                None => return Err(self.expected("the end of a string")),
            }
            let plain = self.at;
            self.skip_plain();
            out.push_str(&self.text[plain..self.at]);
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let start = self.at;
        self.at += 2;
        Ok(match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.unit()?;
                let mut units = [first, 0];
                let pair =
                    matches!(first, 0xd800..0xdc00) && self.bytes[self.at..].starts_with(b"\\u");
                if pair {
                    self.at += 2;
                    units[1] = self.unit()?;
                }
                match char::decode_utf16(units).next() {
                    Some(Ok(character)) => character,
                    _ => {
                        let message = format!("lone surrogate \\u{first:04x}");
                        return Err(Fault::new(Kind::LoneSurrogate, message, start));
                    }
                }
            }
            _ => {
                self.at = start;
                return Err(self.syntax("unknown escape in a string".to_owned()));
            }
        })
    }

    /// Takes the four hexadecimal digits of an escape.
    fn unit(&mut self) -> Parsed<u16> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit.and_then(|digit| u16::try_from(digit).ok()) else {
                return Err(self.expected("a hexadecimal digit"));
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Steps over characters that stand for themselves.
    fn skip_plain(&mut self) {
        self.at += plain_len(&self.bytes[self.at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::read;
    use super::super::super::{Limits, Value, parse};
    use proptest::prelude::*;

    #[test]
    fn every_escape_is_read() {
        let text = r#""\"\\\/\b\f\n\r\t\u0041\u00E9\uffff\ud83d\uDE00 end""#;
        assert_eq!(read(text), "\"\\/\u{8}\u{c}\n\r\tAé\u{ffff}😀 end".into());
    }

    #[test]
    fn strings_that_json_does_not_have_are_refused() {
        for (text, code, message, column) in [
            (r#""a"#, "JSON_SYNTAX", "expected the end of a string, found the end of the text", 3),
            ("\"a\\", "JSON_SYNTAX", "unknown escape in a string", 3),
            (r#""\x41""#, "JSON_SYNTAX", "unknown escape in a string", 2),
            (r#""\é""#, "JSON_SYNTAX", "unknown escape in a string", 2),
            (r#""\u12""#, "JSON_SYNTAX", "expected a hexadecimal digit, found '\"'", 6),
            (r#""\u+123""#, "JSON_SYNTAX", "expected a hexadecimal digit, found '+'", 4),
            ("\"a\u{1f}\"", "JSON_SYNTAX", "unescaped control character in a string", 3),
            ("\"a\n\"", "JSON_SYNTAX", "unescaped control character in a string", 3),
            (r#""\ud800""#, "JSON_LONE_SURROGATE", r"lone surrogate \ud800", 2),
            (r#""\uD800A""#, "JSON_LONE_SURROGATE", r"lone surrogate \ud800", 2),
            (r#""\ud800\u0041""#, "JSON_LONE_SURROGATE", r"lone surrogate \ud800", 2),
            (r#""x\ude00\ud83d""#, "JSON_LONE_SURROGATE", r"lone surrogate \ude00", 3),
        ] {
            let error = parse(text.as_bytes(), Limits::default()).unwrap_err();
            assert_eq!((error.code(), error.message()), (code, message), "{text}");
            assert_eq!(error.column(), column, "{text}");
        }
    }

    proptest! {
        #[test]
        fn plain_text_of_any_length_reads_as_itself(text in "[^\\x00-\\x1f\"\\\\]{0,40}") {
            let quoted = format!("\"{text}\"");
            prop_assert_eq!(read(&quoted), Value::from(text));
        }
    }
}

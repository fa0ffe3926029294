//! Says what is wrong with a JSON text, and where, in the words of Python's parser.
//!
//! Python reads some things that are not JSON, or that our values cannot hold without loss: `NaN` and
//! the infinities, lone surrogates, integers beyond 64 bits, numbers beyond a double, deep nesting.
//! These are refused here in words of our own, once nothing else is wrong.

/// How deep objects and arrays may be nested; it is what serde_json reads.
const MAX_DEPTH: usize = 127;

/// Checks a JSON text.
///
/// # Errors
/// Returns the first error, such as `Expecting value: line 1 column 1 (char 0)`.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut checker = Checker { text, refused: None };
    let problem = checker.document().err().or(checker.refused);
    problem.map_or(Ok(()), |Problem { message, at }| {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let line = before.matches('\n').count() + 1;
        let column = text[line_start..at].chars().count() + 1;
        Err(format!("{message}: line {line} column {column} (char {})", before.chars().count()))
    })
}

/// A message, and the byte that it is about.
struct Problem {
    message: &'static str,
    at: usize,
}

/// What a value stands in.
#[derive(Clone, Copy, PartialEq)]
enum Container {
    Array,
    Object,
}

struct Checker<'a> {
    text: &'a str,
    /// The first thing that Python would have taken.
    refused: Option<Problem>,
}

impl Checker<'_> {
    fn document(&mut self) -> Result<(), Problem> {
        if self.text.starts_with('\u{feff}') {
            return fail("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0);
        }
        let mut open = Vec::new();
        let mut at = self.skip_blanks(0);
        loop {
            let container = match self.byte(at) {
                Some(b'[') => Some((Container::Array, b']')),
                Some(b'{') => Some((Container::Object, b'}')),
                _ => None,
            };
            if let Some((container, close)) = container {
                if open.len() >= MAX_DEPTH {
                    self.refuse("Nesting beyond 127 levels", at);
                }
                let first = self.skip_blanks(at + 1);
                if self.byte(first) != Some(close) {
                    open.push(container);
                    at = if container == Container::Object { self.name(first)? } else { first };
                    continue;
                }
                at = first + 1;
            } else {
                at = self.scalar(at)?;
            }
            match self.after_value(&mut open, at)? {
                Some(next) => at = next,
                None => return Ok(()),
            }
        }
    }

    /// Returns where the next value begins, having closed what ends here; none at the end.
    fn after_value(
        &mut self,
        open: &mut Vec<Container>,
        end: usize,
    ) -> Result<Option<usize>, Problem> {
        let mut at = self.skip_blanks(end);
        while let Some(container) = open.last().copied() {
            match (container, self.byte(at)) {
                (Container::Array, Some(b']')) | (Container::Object, Some(b'}')) => {
                    open.pop();
                    at = self.skip_blanks(at + 1);
                }
                (_, Some(b',')) => {
                    let next = self.skip_blanks(at + 1);
                    let is_object = container == Container::Object;
                    return if is_object { self.name(next) } else { Ok(next) }.map(Some);
                }
                _ => return fail("Expecting ',' delimiter", at),
            }
        }
        if at < self.text.len() { fail("Extra data", at) } else { Ok(None) }
    }

    /// Returns where the value of a member begins.
    fn name(&mut self, at: usize) -> Result<usize, Problem> {
        if self.byte(at) != Some(b'"') {
            return fail("Expecting property name enclosed in double quotes", at);
        }
        let end = self.string(at)?;
        let colon = self.skip_blanks(end);
        if self.byte(colon) != Some(b':') {
            return fail("Expecting ':' delimiter", colon);
        }
        Ok(self.skip_blanks(colon + 1))
    }

    fn scalar(&mut self, at: usize) -> Result<usize, Problem> {
        let rest = &self.text[at..];
        if rest.starts_with('"') {
            return self.string(at);
        }
        if let Some(word) = ["null", "true", "false"].iter().find(|word| rest.starts_with(*word)) {
            return Ok(at + word.len());
        }
        if let Some(word) = ["NaN", "Infinity", "-Infinity"].iter().find(|w| rest.starts_with(*w)) {
            self.refuse("NaN and Infinity are not JSON", at);
            return Ok(at + word.len());
        }
        self.number(at)
    }

    fn number(&mut self, at: usize) -> Result<usize, Problem> {
        let digits = at + usize::from(self.byte(at) == Some(b'-'));
        let mut end = match self.byte(digits) {
            Some(b'0') => digits + 1,
            Some(b'1'..=b'9') => self.skip_digits(digits),
            _ => return fail("Expecting value", at),
        };
        let whole = end;
        if self.byte(end) == Some(b'.') && self.skip_digits(end + 1) > end + 1 {
            end = self.skip_digits(end + 1);
        }
        if let Some(b'e' | b'E') = self.byte(end) {
            let sign = matches!(self.byte(end + 1), Some(b'+' | b'-'));
            let exponent = end + 1 + usize::from(sign);
            if self.skip_digits(exponent) > exponent {
                end = self.skip_digits(exponent);
            }
        }
        let token = &self.text[at..end];
        if end == whole {
            if token.parse::<i64>().is_err() && token.parse::<u64>().is_err() {
                self.refuse("Integer beyond 64 bits", at);
            }
        } else if token.parse::<f64>().is_ok_and(f64::is_infinite) {
            self.refuse("Number beyond the range of a double", at);
        }
        Ok(end)
    }

    /// Returns the position after a string.
    fn string(&mut self, start: usize) -> Result<usize, Problem> {
        let mut at = start + 1;
        loop {
            match self.byte(at) {
                None => return fail("Unterminated string starting at", start),
                Some(b'"') => return Ok(at + 1),
                Some(0..=0x1f) => return fail("Invalid control character at", at),
                Some(b'\\') => at = self.escape(start, at)?,
                Some(_) => at += 1,
            }
        }
    }

    /// Returns the position after an escape sequence.
    fn escape(&mut self, string: usize, at: usize) -> Result<usize, Problem> {
        match self.byte(at + 1) {
            None => fail("Unterminated string starting at", string),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                // Python wants at least one more character after the four digits.
                let unit = self.code_unit(at).filter(|_| at + 6 < self.text.len());
                let Some(unit) = unit else { return fail("Invalid \\uXXXX escape", at + 1) };
                let is_low = |unit: u16| (0xdc00..0xe000).contains(&unit);
                if (0xd800..0xdc00).contains(&unit) && self.code_unit(at + 6).is_some_and(is_low) {
                    return Ok(at + 12);
                }
                if (0xd800..0xe000).contains(&unit) {
                    self.refuse("Lone surrogate in string", at);
                }
                Ok(at + 6)
            }
            Some(_) => fail("Invalid \\escape", at),
        }
    }

    /// Returns the code unit of the escape sequence `\uXXXX` at a position.
    fn code_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
        let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| all_hex)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn skip(&self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| belongs(**byte)).count()
    }

    fn skip_blanks(&self, from: usize) -> usize {
        self.skip(from, |byte| b" \t\n\r".contains(&byte))
    }

    fn skip_digits(&self, from: usize) -> usize {
        self.skip(from, |byte| byte.is_ascii_digit())
    }

    fn refuse(&mut self, message: &'static str, at: usize) {
        self.refused.get_or_insert(Problem { message, at });
    }
}

fn fail<T>(message: &'static str, at: usize) -> Result<T, Problem> {
    Err(Problem { message, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Texts, some of them damaged, and what CPython says about them.
    #[test]
    fn errors_are_those_of_python() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/nexus/json_errors.jsonl");
        let (mut errors, mut sound) = (0, 0);
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let input = case["in"].as_str().unwrap();
            let python = case["error"].as_str().map_or(Ok(()), |error| Err(error.to_owned()));
            assert_eq!(check(input), python, "text {input:?}");
            *if python.is_ok() { &mut sound } else { &mut errors } += 1;
            let readable = serde_json::from_str::<Value>(input).is_ok();
            assert_eq!(check(input).is_ok(), readable, "text {input:?}");
        }
        assert_eq!((errors, sound), (264, 36));
    }

    #[test]
    fn what_a_value_cannot_hold_is_refused() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        for (text, message) in [
            ("{\"a\":NaN}", "NaN and Infinity are not JSON: line 1 column 6 (char 5)"),
            ("[1,\n 18446744073709551616]", "Integer beyond 64 bits: line 2 column 2 (char 5)"),
            ("1e400", "Number beyond the range of a double: line 1 column 1 (char 0)"),
            ("\"é\\ud800\"", "Lone surrogate in string: line 1 column 3 (char 2)"),
            (&deep, "Nesting beyond 127 levels: line 1 column 128 (char 127)"),
        ] {
            assert_eq!(check(text), Err(message.to_owned()));
        }
        let just = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(check(&just), Ok(()));
        assert!(serde_json::from_str::<Value>(&just).is_ok());
        assert!(serde_json::from_str::<Value>(&deep).is_err());
        assert_eq!(check("[18446744073709551615, -9223372036854775808, 1e20]"), Ok(()));
    }
}

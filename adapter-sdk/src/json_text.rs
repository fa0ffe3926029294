//! Says at compile time whether a text is JSON, so that no default can break the record around it.

use crate::ValueType;

/// How deep arrays and objects may nest. Readers have limits, and the record adds some levels.
const MAX_DEPTH: u32 = 64;

/// Numbers below ten to this power fit a float; readers refuse those that do not.
const MAX_POWER: u32 = 308;

/// Says whether a text is one JSON value that the router can read.
pub(crate) const fn is_valid(text: &str) -> bool {
    let mut reader = Reader { rest: text.as_bytes() };
    reader.skip_blanks();
    if !reader.value(MAX_DEPTH) {
        return false;
    }
    reader.skip_blanks();
    reader.rest.is_empty()
}

/// Says whether a valid text is of a type; its first character tells.
pub(crate) const fn is_of_type(text: &str, value_type: ValueType) -> bool {
    let mut reader = Reader { rest: text.as_bytes() };
    reader.skip_blanks();
    let Some(first) = reader.rest.first() else { return false };
    match value_type {
        ValueType::String => *first == b'"',
        ValueType::Number => matches!(first, b'-' | b'0'..=b'9'),
        ValueType::Boolean => matches!(first, b't' | b'f'),
        ValueType::Object => *first == b'{',
        ValueType::Array => *first == b'[',
    }
}

/// Each method takes what it names off the front and says whether it was there.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    const fn value(&mut self, depth: u32) -> bool {
        match self.rest.first() {
            Some(b'{') => self.container(b'}', depth),
            Some(b'[') => self.container(b']', depth),
            Some(b'"') => self.string(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.number(),
        }
    }

    /// An object or an array, whichever has this end.
    const fn container(&mut self, end: u8, depth: u32) -> bool {
        self.next();
        self.skip_blanks();
        if depth == 0 {
            return false;
        }
        if self.byte(end) {
            return true;
        }
        loop {
            if end == b'}' && !self.name() {
                return false;
            }
            if !self.value(depth - 1) {
                return false;
            }
            self.skip_blanks();
            if self.byte(end) {
                return true;
            }
            if !self.byte(b',') {
                return false;
            }
            self.skip_blanks();
        }
    }

    /// The name of a member, with its colon.
    const fn name(&mut self) -> bool {
        if !self.string() {
            return false;
        }
        self.skip_blanks();
        let has_colon = self.byte(b':');
        self.skip_blanks();
        has_colon
    }

    const fn string(&mut self) -> bool {
        if !self.byte(b'"') {
            return false;
        }
        loop {
            match self.next() {
                Some(b'"') => return true,
                Some(b'\\') if !self.escape() => return false,
                Some(0..=0x1f) | None => return false,
                Some(_) => {}
            }
        }
    }

    /// What follows a backslash. Half a surrogate pair is no character.
    const fn escape(&mut self) -> bool {
        match self.next() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => true,
            Some(b'u') => match self.hexadecimal() {
                Some(0xd800..=0xdbff) => {
                    self.word(b"\\u") && matches!(self.hexadecimal(), Some(0xdc00..=0xdfff))
                }
                Some(0xdc00..=0xdfff) | None => false,
                Some(_) => true,
            },
            _ => false,
        }
    }

    /// Four digits.
    const fn hexadecimal(&mut self) -> Option<u32> {
        let mut unit = 0;
        let mut digits = 0;
        while digits < 4 {
            let Some(byte) = self.next() else { return None };
            let Some(digit) = (byte as char).to_digit(16) else { return None };
            unit = unit * 16 + digit;
            digits += 1;
        }
        Some(unit)
    }

    const fn number(&mut self) -> bool {
        self.byte(b'-');
        let whole_digits = if self.byte(b'0') { 1 } else { self.digits().0 };
        if whole_digits == 0 {
            return false;
        }
        if self.byte(b'.') && self.digits().0 == 0 {
            return false;
        }
        let mut power = 0;
        if self.byte(b'e') || self.byte(b'E') {
            let is_negative = self.byte(b'-');
            if !is_negative {
                self.byte(b'+');
            }
            let (count, value) = self.digits();
            if count == 0 {
                return false;
            }
            power = if is_negative { 0 } else { value };
        }
        power.saturating_add(whole_digits) <= MAX_POWER
    }

    /// Digits, as many as there are; returns their number and their value.
    const fn digits(&mut self) -> (u32, u32) {
        let (mut count, mut value) = (0, 0_u32);
        while let Some(digit @ b'0'..=b'9') = self.rest.first() {
            value = value.saturating_mul(10).saturating_add((*digit - b'0') as u32);
            count += 1;
            self.next();
        }
        (count, value)
    }

    const fn word(&mut self, word: &[u8]) -> bool {
        let mut i = 0;
        while i < word.len() {
            if !self.byte(word[i]) {
                return false;
            }
            i += 1;
        }
        true
    }

    const fn byte(&mut self, wanted: u8) -> bool {
        let is_there = matches!(self.rest.first(), Some(byte) if *byte == wanted);
        if is_there {
            self.next();
        }
        is_there
    }

    const fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.rest.first() {
            self.next();
        }
    }

    const fn next(&mut self) -> Option<u8> {
        let [first, rest @ ..] = self.rest else { return None };
        self.rest = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn json_is_valid() {
        for text in [
            "null",
            " true\n",
            "false",
            "0",
            "-0.5e-300",
            "1E+3",
            "12.0",
            "18446744073709551616",
            r#""""#,
            r#""é \" \\ \/ \b\f\n\r\t \u0041 \uD83D\ude00""#,
            "[]",
            "[ 1 , [2] ]",
            "{ }",
            r#"{ "a" : 1, "b":{"c":[null]} }"#,
        ] {
            assert!(is_valid(text), "{text}");
            serde_json::from_str::<Value>(text).unwrap();
        }
    }

    #[test]
    fn what_is_not_json_is_not_valid() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        let long = "1".repeat(400);
        for text in [
            "",
            " ",
            "Hello",
            "nul",
            "nulll",
            "True",
            "NaN",
            "-",
            "+1",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1 2",
            "0x1",
            "1e999",
            &long,
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"a\nb\"",
            "'a'",
            "[",
            "]",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "[}",
            "{]",
            "1,",
            "\"a\"}",
            "// c\n1",
            &deep,
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }

    #[test]
    fn type_is_that_of_the_value() {
        for text in ["\"1\"", " -1", "0.5", "true", "false", "{}", "\n[]", "null"] {
            let value: Value = serde_json::from_str(text).unwrap();
            for value_type in ValueType::ALL {
                let expected = value_type.accepts(&value);
                assert_eq!(is_of_type(text, *value_type), expected, "{text} {value_type:?}");
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_valid(value in values()) {
            prop_assert!(is_valid(&value.to_string()));
            prop_assert!(is_valid(&serde_json::to_string_pretty(&value).unwrap()));
        }

        #[test]
        fn whatever_is_valid_can_be_read(
            value in values(),
            place in any::<prop::sample::Index>(),
            change in r#"[\[\]{},:"\\ +.0-9eEtrufalsnx\-]{0,3}"#,
        ) {
            let mut text: Vec<char> = value.to_string().chars().collect();
            text.splice(place.index(text.len())..=place.index(text.len()), change.chars());
            let text: String = text.into_iter().collect();
            if is_valid(&text) {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}

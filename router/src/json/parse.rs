//! Reads JSON text strictly, within limits of size and depth.

mod names;
mod number;
mod string;

use names::Names;

use super::error::{Fault, Kind, Parsed, Step, shown};
use super::name::Name;
use super::object::FEW;
use super::{Error, Object, Value};
use crate::python_text;

/// How large and how deep a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of text.
    pub bytes: usize,
    /// The most levels of arrays and objects; there is a bound that it cannot exceed, as reading recurses.
    pub depth: usize,
    /// The most values, of which each takes more memory than the two bytes that it may take as text.
    pub values: usize,
}

/// What is admitted in a request or an answer stands some levels deeper in a bundle.
const MAX_DEPTH: usize = 520;

impl Limits {
    /// The limits of a request: 16 MiB.
    pub const REQUEST: Self = Self { bytes: 16 << 20, depth: 512, values: 1_000_000 };
    /// The limits of a bundle of recorded runs: 1 GiB.
    pub const BUNDLE: Self = Self { bytes: 1 << 30, depth: MAX_DEPTH, values: usize::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self::REQUEST
    }
}

/// Reads one JSON value.
///
/// # Errors
///
/// The text is too large, too deep, not UTF-8 or not JSON after RFC 8259, names a member twice, or
/// holds a lone surrogate, a number that is not finite, or an integer of more than 4300 digits.
pub fn parse(text: &[u8], limits: Limits) -> Result<Value, Error> {
    if text.len() > limits.bytes {
        let message =
            format!("the text has {} bytes, more than the {} allowed", text.len(), limits.bytes);
        return Err(Fault::new(Kind::TooLarge, message, 0).locate(""));
    }
    match str::from_utf8(text) {
        Ok(text) => Parser::new(text, limits).document().map_err(|fault| fault.locate(text)),
        Err(error) => {
            let (valid, _) = text.split_at(error.valid_up_to());
            let valid = str::from_utf8(valid).unwrap_or_default();
            // The text up to there leads to the value in which it happened.
            let path = Parser::new(valid, limits)
                .document()
                .map_or_else(|fault| fault.path, |_| Vec::new());
            let message = "invalid UTF-8".to_owned();
            Err(Fault { path, ..*Fault::new(Kind::NotUtf8, message, valid.len()) }.locate(valid))
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    max_depth: usize,
    max_values: usize,
    /// How many values there were.
    values: usize,
    /// Items of the arrays that are not complete yet, so that each array is allocated once.
    items: Vec<Value>,
    /// Members of the objects that are not complete yet.
    members: Vec<(Name, Value)>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, limits: Limits) -> Self {
        let mut parser = Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            max_depth: limits.depth.min(MAX_DEPTH),
            max_values: limits.values,
            values: 0,
            items: Vec::new(),
            members: Vec::with_capacity(FEW),
        };
        // Splitting off from the very start would give the room away with the values.
        parser.members.push((Name::EMPTY, Value::Null));
        parser
    }

    fn document(mut self) -> Parsed<Value> {
        self.skip_blanks();
        if self.text.starts_with('\u{feff}') {
            return Err(self.syntax("unexpected byte order mark".to_owned()));
        }
        let value = self.value(self.max_depth)?;
        self.skip_blanks();
        if self.at < self.bytes.len() {
            return Err(self.expected("the end of the text"));
        }
        Ok(value)
    }

    /// Reads a value in which arrays and objects may nest so many levels.
    fn value(&mut self, depth: usize) -> Parsed<Value> {
        self.values += 1;
        if self.values > self.max_values {
            let message = format!("there are more than {} values", self.max_values);
            return Err(Fault::new(Kind::TooMany, message, self.at));
        }
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self
                .not_finite("NaN")
                .or_else(|| self.not_finite("Infinity"))
                .unwrap_or_else(|| self.expected("a value"))),
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        let depth = self.deeper(depth)?;
        let first = self.members.len();
        let mut names = Names::default();
        if !self.ends(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.expected("a member's name in double quotes"));
                }
                let start = self.at;
                let slot = self.members.len();
                self.members.push((Name::EMPTY, Value::Null));
                self.name(slot)?;
                if names.have(&self.members[first..slot], &self.members[slot].0) {
                    let name = self.members[slot].0.as_str();
                    let message = format!("duplicate member \"{}\"", shown(name));
                    let fault = Fault::new(Kind::DuplicateKey, message, start);
                    return Err(fault.inside(self.step(slot)));
                }
                self.skip_blanks();
                if self.peek() != Some(b':') {
                    return Err(self.expected("a colon").inside(self.step(slot)));
                }
                self.at += 1;
                self.skip_blanks();
                match self.value(depth) {
                    Ok(value) => self.members[slot].1 = value,
                    Err(fault) => return Err(fault.inside(self.step(slot))),
                }
                if !self.goes_on(b'}')? {
                    break;
                }
            }
        }
        let members = self.members.split_off(first);
        Ok(Value::Object(Object::from_unique(members)))
    }

    /// The step to a member that is not complete yet.
    #[cold]
    fn step(&self, slot: usize) -> Step {
        Step::Member(self.members[slot].0.as_str().to_owned())
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        let depth = self.deeper(depth)?;
        if self.items.is_empty() {
            self.items.reserve(FEW);
            self.items.push(Value::Null);
        }
        let first = self.items.len();
        if !self.ends(b']') {
            loop {
                match self.value(depth) {
                    Ok(value) => self.items.push(value),
                    Err(fault) => return Err(fault.inside(Step::Item(self.items.len() - first))),
                }
                if !self.goes_on(b']')? {
                    break;
                }
            }
        }
        Ok(Value::Array(self.items.split_off(first)))
    }

    /// Steps into an array or object and returns how many levels are left.
    fn deeper(&mut self, depth: usize) -> Parsed<usize> {
        let Some(left) = depth.checked_sub(1) else {
            let message = format!("arrays and objects nest deeper than {} levels", self.max_depth);
            return Err(Fault::new(Kind::TooDeep, message, self.at));
        };
        self.at += 1;
        self.skip_blanks();
        Ok(left)
    }

    /// Takes the end of an empty array or object, if it is there.
    fn ends(&mut self, end: u8) -> bool {
        let here = self.peek() == Some(end);
        self.at += usize::from(here);
        here
    }

    /// Takes what stands after an item or member and says whether another one follows.
    fn goes_on(&mut self, end: u8) -> Parsed<bool> {
        self.skip_blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_blanks();
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ if end == b']' => Err(self.expected("a comma or ']'")),
            _ => Err(self.expected("a comma or '}'")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[cold]
    fn not_finite(&self, word: &str) -> Option<Box<Fault>> {
        let message = || format!("{word} is not a JSON number");
        let here = self.bytes[self.at..].starts_with(word.as_bytes());
        here.then(|| Fault::new(Kind::NotFinite, message(), self.at))
    }

    #[cold]
    fn expected(&self, what: &str) -> Box<Fault> {
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let found = found.map_or_else(
            || "the end of the text".to_owned(),
            |found| python_text::repr_str(found.encode_utf8(&mut [0; 4])),
        );
        self.syntax(format!("expected {what}, found {found}"))
    }

    #[cold]
    fn syntax(&self, message: String) -> Box<Fault> {
        Fault::new(Kind::Syntax, message, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::any_value;
    use super::super::{to_canonical, to_compact, to_pretty};
    use super::*;
    use proptest::prelude::*;

    fn refused(text: impl AsRef<[u8]>) -> Error {
        parse(text.as_ref(), Limits::default()).unwrap_err()
    }

    #[test]
    fn a_refusal_says_what_and_where() {
        for (text, code, expected) in [
            (
                "",
                "JSON_SYNTAX",
                r#"expected a value, found the end of the text at line 1 column 1 (at "")"#,
            ),
            (
                "[1,\n é]",
                "JSON_SYNTAX",
                r#"expected a value, found 'é' at line 2 column 2 (at "/1")"#,
            ),
            (
                "{\"é\": tru}",
                "JSON_SYNTAX",
                r#"expected a value, found 't' at line 1 column 7 (at "/é")"#,
            ),
            (
                "[1 2]",
                "JSON_SYNTAX",
                r#"expected a comma or ']', found '2' at line 1 column 4 (at "")"#,
            ),
            (
                "{\"a\":1 2}",
                "JSON_SYNTAX",
                r#"expected a comma or '}', found '2' at line 1 column 8 (at "")"#,
            ),
            (
                "{\"a\" 1}",
                "JSON_SYNTAX",
                r#"expected a colon, found '1' at line 1 column 6 (at "/a")"#,
            ),
            (
                "{a:1}",
                "JSON_SYNTAX",
                r#"expected a member's name in double quotes, found 'a' at line 1 column 2 (at "")"#,
            ),
            (
                "1 2",
                "JSON_SYNTAX",
                r#"expected the end of the text, found '2' at line 1 column 3 (at "")"#,
            ),
            (
                "\u{feff}1",
                "JSON_SYNTAX",
                r#"unexpected byte order mark at line 1 column 1 (at "")"#,
            ),
            (
                "{\"a/~\":[{\"b\":1,\"b\":2}]}",
                "JSON_DUPLICATE_KEY",
                r#"duplicate member "b" at line 1 column 16 (at "/a~1~0/0/b")"#,
            ),
            (
                "{\"\\u001b\":1,\"\\u001b\":2}",
                "JSON_DUPLICATE_KEY",
                r#"duplicate member "\x1b" at line 1 column 13 (at "/\x1b")"#,
            ),
            (
                "[NaN]",
                "JSON_NOT_FINITE",
                r#"NaN is not a JSON number at line 1 column 2 (at "/0")"#,
            ),
            (
                "-Infinity",
                "JSON_NOT_FINITE",
                r#"-Infinity is not a JSON number at line 1 column 1 (at "")"#,
            ),
        ] {
            let error = refused(text);
            assert_eq!((error.code(), error.to_string().as_str()), (code, expected), "{text}");
            assert!(!error.hint().is_empty());
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_in_their_place() {
        let error = refused(b"{\"a\": [1,\n\"x\xff\"]}");
        assert_eq!(error.code(), "JSON_NOT_UTF8");
        assert_eq!(error.to_string(), r#"invalid UTF-8 at line 2 column 3 (at "/a/1")"#);
        // Surrogates and overlong forms are not UTF-8 either.
        for bytes in [&b"\"\xed\xa0\x80\""[..], b"\"\xc0\xaf\"", b"\"\xf5\x80\x80\x80\"", b"1\xff"]
        {
            assert_eq!(refused(bytes).code(), "JSON_NOT_UTF8", "{bytes:?}");
        }
    }

    #[test]
    fn a_text_may_be_as_large_as_the_limit() {
        let limits = |bytes| Limits { bytes, ..Limits::default() };
        assert_eq!(parse(b"[1]", limits(3)), Ok(Value::Array(vec![1.into()])));
        let error = parse(b"[1]", limits(2)).unwrap_err();
        assert_eq!(error.code(), "JSON_TOO_LARGE");
        assert_eq!(error.message(), "the text has 3 bytes, more than the 2 allowed");
    }

    #[test]
    fn nesting_ends_at_the_limit() {
        let limits = |depth| Limits { depth, ..Limits::default() };
        assert_eq!(parse(b"1", limits(0)), Ok(1.into()));
        assert!(parse(br#"[[],{"a":{}}]"#, limits(3)).is_ok());
        let error = parse(br#"[[],{"a":{}}]"#, limits(2)).unwrap_err();
        assert_eq!(error.code(), "JSON_TOO_DEEP");
        let expected =
            r#"arrays and objects nest deeper than 2 levels at line 1 column 10 (at "/1/a")"#;
        assert_eq!(error.to_string(), expected);
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(MAX_DEPTH).as_bytes(), limits(usize::MAX)).is_ok());
        for text in [nested(MAX_DEPTH + 1), "[".repeat(1_000_000), "{\"\":".repeat(1_000_000)] {
            let error = parse(text.as_bytes(), limits(usize::MAX)).unwrap_err();
            assert_eq!(error.code(), "JSON_TOO_DEEP");
            assert!(error.to_string().len() < 400, "{error}");
        }
    }

    #[test]
    fn the_deepest_value_needs_half_of_a_usual_stack() {
        let text = "{\"a\":".repeat(MAX_DEPTH) + "1" + &"}".repeat(MAX_DEPTH);
        let work = move || {
            let value = parse(text.as_bytes(), Limits::BUNDLE).unwrap();
            assert_eq!(to_compact(&value), text);
            assert_eq!(to_canonical(&value), text);
            assert_eq!(parse(to_pretty(&value).as_bytes(), Limits::BUNDLE), Ok(value.clone()));
            let copy = value.clone();
            assert_eq!(Value::from(&copy.to_serde()), value);
        };
        // Threads have 2 MiB unless told otherwise; a stack overflow would end the process.
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap();
        thread.join().unwrap();
    }

    /// Mostly text that is almost JSON.
    fn almost_json() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[\\[\\]{}:,\" ]",
            "[-+0-9.eE]{1,4}",
            r#"\\(["\\/bfnrt]|u[0-9a-fA-F]{4}|ud83d\\ude00|x)"#,
            "\"[a-c]\":",
            "(true|false|null|NaN|Infinity|nul|\"\"|\\[\\]|\\{\\})",
            "[\\x00-\\x7f]",
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = parse(&bytes, Limits::default()) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn another_reader_agrees_on_what_is_json(text in almost_json()) {
            let other = serde_json::from_str::<serde_json::Value>(&text);
            match parse(text.as_bytes(), Limits::default()) {
                // The other one reads the integer -0 as a float.
                Ok(_) if text.contains("-0") => prop_assert!(other.is_ok()),
                Ok(value) => prop_assert_eq!(other.unwrap(), value.to_serde()),
                Err(error) if error.code() == "JSON_DUPLICATE_KEY" => {}
                Err(error) => prop_assert!(other.is_err(), "{}: {}", text, error),
            }
        }

        #[test]
        fn a_text_cut_short_is_refused(value in any_value(), at in any::<prop::sample::Index>()) {
            let text = to_canonical(&Value::Array(vec![value]));
            let cut = &text.as_bytes()[..at.index(text.len())];
            // Also half a pair of surrogates, so not always a mistake of syntax.
            prop_assert!(parse(cut, Limits::default()).is_err());
        }
    }
}

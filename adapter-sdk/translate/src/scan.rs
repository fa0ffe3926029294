//! Reads a text once and proves that it is RFC 8785: no blanks, names in order and each once, numbers and
//! escapes in their only form.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::refusal::{Refusal, Rule, rule};
use crate::tape::{Kind, Node, Tape, Value};
use crate::text::{self, shown};

/// The largest document, in bytes.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 128;

/// The most values of a document; the name of a member is one too. It bounds the memory.
pub const MAX_VALUES: usize = 500_000;

/// The largest integer up to which all are exact in a double.
const EXACT: u64 = 1 << 53;

/// Reads a document.
///
/// # Errors
/// The first rule that it breaks.
pub(crate) fn scan(bytes: &[u8]) -> Result<Tape<'_>, Refusal> {
    let plain = |rule, offset, message| Refusal {
        rule,
        pointer: String::new(),
        message,
        offset: Some(offset),
    };
    if bytes.len() > MAX_BYTES {
        let message = format!("it has {} bytes; the limit is {MAX_BYTES}", bytes.len());
        return Err(plain(rule::TOO_LARGE, MAX_BYTES, message));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(plain(rule::BYTE_ORDER_MARK, 0, "it begins with U+FEFF".into()));
    }
    let text = core::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        plain(rule::NOT_UTF8, offset, format!("byte {offset} begins no character"))
    })?;
    // Most values are a string of some words; the list grows if they are not.
    let nodes = Vec::with_capacity((bytes.len() / 16).min(MAX_VALUES) + 8);
    let mut scanner = Scanner { bytes, at: 0, tape: Tape { text, nodes } };
    match scanner.document() {
        Ok(()) => Ok(scanner.tape),
        Err(Fault { rule, at, message }) => {
            let last = scanner.tape.nodes.len();
            let pointer = if last == 0 { String::new() } else { scanner.tape.pointer(last) };
            Err(Refusal { rule, pointer, message, offset: Some(at) })
        }
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    tape: Tape<'a>,
}

struct Fault {
    rule: &'static Rule,
    at: usize,
    message: String,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.value(0)?;
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        match self.bytes.get(self.at) {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Kind::Boolean),
            Some(b'f') => self.word("false", Kind::Boolean),
            Some(b'n') => self.word("null", Kind::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        let opened = self.open(Kind::Object, depth)?;
        if self.byte(b'}') {
            return self.close(opened);
        }
        let mut last = None;
        loop {
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.unexpected("the name of a member"));
            }
            let (start, name) = (self.at, self.tape.nodes.len());
            self.string()?;
            if let Some(last) = last {
                self.in_order(last, name, start)?;
            }
            last = Some(name);
            if !self.byte(b':') {
                return Err(self.unexpected("a colon"));
            }
            self.value(depth + 1)?;
            if self.byte(b'}') {
                return self.close(opened);
            }
            if !self.byte(b',') {
                return Err(self.unexpected("a comma or the end of the object"));
            }
        }
    }

    fn in_order(&self, last: usize, name: usize, at: usize) -> Result<(), Fault> {
        let at_index = |index| Value::at(&self.tape, index);
        match text::compare_names(at_index(last), at_index(name)) {
            Ordering::Less => Ok(()),
            Ordering::Equal => {
                let message = "it stands twice in its object".into();
                Err(Fault { rule: rule::DUPLICATE_KEY, at, message })
            }
            Ordering::Greater => {
                let last = shown(at_index(last).raw());
                let message = format!("it stands after {last}, which sorts after it");
                Err(Fault { rule: rule::NOT_CANONICAL, at, message })
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        let opened = self.open(Kind::Array, depth)?;
        if self.byte(b']') {
            return self.close(opened);
        }
        loop {
            self.value(depth + 1)?;
            if self.byte(b']') {
                return self.close(opened);
            }
            if !self.byte(b',') {
                return Err(self.unexpected("a comma or the end of the array"));
            }
        }
    }

    fn open(&mut self, kind: Kind, depth: usize) -> Result<usize, Fault> {
        if depth >= MAX_DEPTH {
            let message = format!("it nests deeper than {MAX_DEPTH} levels");
            return Err(Fault { rule: rule::TOO_DEEP, at: self.at, message });
        }
        let opened = self.tape.nodes.len();
        self.push(kind, self.at)?;
        self.tape.nodes[opened].after = 0;
        self.at += 1;
        Ok(opened)
    }

    fn close(&mut self, opened: usize) -> Result<(), Fault> {
        let after = short(self.tape.nodes.len());
        let node = &mut self.tape.nodes[opened];
        (node.end, node.after) = (short(self.at), after);
        Ok(())
    }

    /// Adds a value that ends here and has nothing inside.
    fn push(&mut self, kind: Kind, start: usize) -> Result<(), Fault> {
        let count = self.tape.nodes.len();
        if count >= MAX_VALUES {
            let message = format!("it has more than {MAX_VALUES} values");
            return Err(Fault { rule: rule::TOO_MANY_VALUES, at: start, message });
        }
        let (start, end) = (short(start), short(self.at));
        self.tape.nodes.push(Node { kind, start, end, after: short(count + 1) });
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        let mut kind = Kind::Plain;
        loop {
            self.at += plain_run(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return self.push(kind, start);
                }
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                Some(_) => {
                    return Err(self.fault(rule::NOT_JSON, "a control character is not escaped"));
                }
                None => return Err(self.fault(rule::NOT_JSON, "it ends inside of a string")),
            }
        }
    }

    /// A canonical escape: the short ones, and `\u00` with lower-case digits for other control characters.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'/') => return Err(self.fault(rule::NOT_CANONICAL, "a slash is escaped")),
            Some(b'u') => {
                let unit = self.unit(self.at + 2)?;
                let digits = &self.bytes[self.at + 2..self.at + 6];
                match unit {
                    0x8 | 0x9 | 0xa | 0xc | 0xd | 0x20.. => return Err(self.needless(unit)),
                    _ if digits.iter().any(u8::is_ascii_uppercase) => {
                        return Err(
                            self.fault(rule::NOT_CANONICAL, "an escape has upper-case digits")
                        );
                    }
                    _ => self.at += 6,
                }
            }
            _ => return Err(self.fault(rule::NOT_JSON, "a backslash begins no escape")),
        }
        Ok(())
    }

    /// An escape of what stands for itself, or has a shorter form; or of half a character.
    fn needless(&self, unit: u32) -> Fault {
        let lone = "half a surrogate pair is escaped, which is no character";
        match unit {
            0xdc00..=0xdfff => self.fault(rule::LONE_SURROGATE, lone),
            0xd800..=0xdbff => {
                let follows = self.bytes.get(self.at + 6..self.at + 8) == Some(b"\\u");
                match self.unit(self.at + 8) {
                    Ok(0xdc00..=0xdfff) if follows => self.fault(
                        rule::NOT_CANONICAL,
                        "a character is escaped that stands for itself",
                    ),
                    _ => self.fault(rule::LONE_SURROGATE, lone),
                }
            }
            0x20.. => {
                self.fault(rule::NOT_CANONICAL, "a character is escaped that stands for itself")
            }
            _ => self.fault(rule::NOT_CANONICAL, "an escape has a shorter form"),
        }
    }

    /// The value of four digits.
    fn unit(&self, at: usize) -> Result<u32, Fault> {
        let digits = self.bytes.get(at..at + 4);
        let digits = digits.and_then(|digits| {
            digits
                .iter()
                .try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
        });
        digits.ok_or_else(|| self.fault(rule::NOT_JSON, "an escape lacks digits"))
    }

    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        self.at += self.bytes[start..].iter().take_while(|byte| is_part(byte)).count();
        let text = &self.tape.text[start..self.at];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let fault = |rule, message| Err(Fault { rule, at: start, message });
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let is_canonical = !digits.is_empty() && (!digits.starts_with('0') || text == "0");
            match digits.parse::<u64>() {
                Ok(0..=EXACT) if is_canonical => return self.push(Kind::Number, start),
                _ if is_canonical => {
                    return fault(rule::NUMBER_INEXACT, format!("{} is beyond 2^53", shown(text)));
                }
                _ if text == "-0" => return fault(rule::NOT_CANONICAL, "-0 is written 0".into()),
                _ => return fault(rule::NOT_JSON, format!("{} is no number", shown(text))),
            }
        }
        if !is_json_number(digits) {
            return fault(rule::NOT_JSON, format!("{} is no number", shown(text)));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                let mut buffer = ryu_js::Buffer::new();
                let canonical = buffer.format_finite(number);
                if canonical == text {
                    return self.push(Kind::Number, start);
                }
                fault(rule::NOT_CANONICAL, format!("{} is written {canonical}", shown(text)))
            }
            _ => fault(rule::NOT_CANONICAL, format!("{} is beyond all doubles", shown(text))),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.unexpected("a value"));
        }
        let start = self.at;
        self.at += word.len();
        self.push(kind, start)
    }

    fn byte(&mut self, wanted: u8) -> bool {
        let is_there = self.bytes.get(self.at) == Some(&wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        match self.bytes.get(self.at) {
            None => self.fault(rule::NOT_JSON, &format!("it ends where {wanted} should stand")),
            Some(b' ' | b'\n' | b'\r' | b'\t') => {
                self.fault(rule::NOT_CANONICAL, &format!("a blank stands before {wanted}"))
            }
            Some(_) => {
                let found = self.tape.text[self.at..].chars().next().unwrap_or_default();
                self.fault(rule::NOT_JSON, &format!("{found:?} stands where {wanted} should"))
            }
        }
    }

    fn fault(&self, rule: &'static Rule, message: &str) -> Fault {
        Fault { rule, at: self.at, message: message.into() }
    }
}

/// Says whether the rest of a number, after its sign, follows the grammar; `parse` takes more than JSON.
fn is_json_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(|text| is_digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// Places fit, because the size of documents is bounded.
fn short(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Returns how many bytes follow that are neither a quotation mark, a backslash nor a control character;
/// eight at a time.
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let mut run = 0;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        // A borrow can only spoil bytes above the first that is found.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        match found & HIGH {
            0 => run += 8,
            found => return run + (found.trailing_zeros() / 8) as usize,
        }
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    run + rest.iter().take_while(|byte| is_plain(byte)).count()
}

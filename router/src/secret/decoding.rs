//! Texts with their escapes undone, and the way back from each byte to the text that it came from.

use std::ops::Range;

/// Escapes that the search undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// `%41`.
    Percent,
    /// `\u0041`, `\x41`, `\"` and the others of JSON.
    Backslash,
    /// Letters that have another case outside ASCII.
    Case,
}

/// Text with escapes undone.
pub(super) struct DecodedText {
    pub(super) bytes: Vec<u8>,
    parts: Vec<TextPart>,
}

/// Part of a decoded text.
#[derive(Clone, Copy)]
struct TextPart {
    /// Where it begins in the decoded text.
    at: usize,
    /// Where it begins in the original text.
    origin: usize,
    /// The length of the escape in the original text; none if the part is as it was.
    escape: Option<usize>,
}

impl DecodedText {
    /// Undoes escapes; `None` if the text has none of them.
    pub(super) fn of(text: &[u8], escapes: Escapes) -> Option<Self> {
        let mut decoded = match escapes {
            Escapes::Percent => Self::walk(text, b'%', percent),
            Escapes::Backslash => Self::walk(text, b'\\', backslash),
            Escapes::Case => Self::lowercased(text),
        };
        decoded.parts.iter().any(|part| part.escape.is_some()).then(|| {
            decoded.parts.shrink_to_fit();
            decoded
        })
    }

    /// Returns the range of the original text that a range of the decoded bytes came from.
    pub(super) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let Some(last) = range.end.checked_sub(1) else { return 0..0 };
        self.place(range.start).start..self.place(last).end
    }

    /// Returns the place of one decoded byte in the original text.
    fn place(&self, at: usize) -> Range<usize> {
        let after = self.parts.partition_point(|part| part.at <= at);
        let Some(part) = after.checked_sub(1).map(|index| self.parts[index]) else {
            return at..at + 1;
        };
        match part.escape {
            Some(length) => part.origin..part.origin + length,
            None => {
                let origin = part.origin + (at - part.at);
                origin..origin + 1
            }
        }
    }

    fn empty(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), parts: Vec::new() }
    }

    /// Adds a part that stays as it is.
    fn keep(&mut self, text: &[u8], range: Range<usize>) {
        if !range.is_empty() {
            let (at, origin) = (self.bytes.len(), range.start);
            self.parts.push(TextPart { at, origin, escape: None });
            self.bytes.extend_from_slice(&text[range]);
        }
    }

    /// Adds bytes that stand for an escape.
    fn replace(&mut self, origin: usize, length: usize, bytes: &[u8]) {
        let at = self.bytes.len();
        self.parts.push(TextPart { at, origin, escape: Some(length) });
        self.bytes.extend_from_slice(bytes);
    }

    /// Undoes escapes that begin with `mark`. `read` returns the bytes of one and its length.
    fn walk(text: &[u8], mark: u8, read: impl Fn(&[u8]) -> Option<(EscapedBytes, usize)>) -> Self {
        let mut decoded = Self::empty(text.len());
        let (mut kept, mut at) = (0, 0);
        while let Some(found) = text[at..].iter().position(|byte| *byte == mark) {
            at += found;
            match read(&text[at..]) {
                Some((bytes, length)) => {
                    decoded.keep(text, kept..at);
                    decoded.replace(at, length, bytes.as_slice());
                    at += length;
                    kept = at;
                }
                None => at += 1,
            }
        }
        decoded.keep(text, kept..text.len());
        decoded
    }

    fn lowercased(text: &[u8]) -> Self {
        let mut decoded = Self::empty(text.len());
        let (mut kept, mut at) = (0, 0);
        for chunk in text.utf8_chunks() {
            for letter in chunk.valid().chars() {
                let length = letter.len_utf8();
                // The search itself ignores the case of letters of ASCII.
                if !letter.is_ascii() && !letter.to_lowercase().eq([letter]) {
                    decoded.keep(text, kept..at);
                    let small: String = letter.to_lowercase().collect();
                    decoded.replace(at, length, small.as_bytes());
                    kept = at + length;
                }
                at += length;
            }
            at += chunk.invalid().len();
        }
        decoded.keep(text, kept..text.len());
        decoded
    }
}

/// Bytes that an escape stands for.
struct EscapedBytes {
    bytes: [u8; 4],
    length: usize,
}

impl EscapedBytes {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl From<u8> for EscapedBytes {
    fn from(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }
}

impl From<char> for EscapedBytes {
    fn from(letter: char) -> Self {
        let mut bytes = [0; 4];
        let length = letter.encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }
}

fn percent(text: &[u8]) -> Option<(EscapedBytes, usize)> {
    let byte = u8::try_from(hex(text.get(1..3)?)?).ok()?;
    Some((byte.into(), 3))
}

fn backslash(text: &[u8]) -> Option<(EscapedBytes, usize)> {
    let plain = match text.get(1)? {
        b'u' => return unicode(text),
        b'x' => return Some((u8::try_from(hex(text.get(2..4)?)?).ok()?.into(), 4)),
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        byte @ (b'"' | b'\'' | b'\\' | b'/') => *byte,
        _ => return None,
    };
    Some((plain.into(), 2))
}

/// Reads `\uXXXX`, or two of them that are a surrogate pair.
fn unicode(text: &[u8]) -> Option<(EscapedBytes, usize)> {
    let first = hex(text.get(2..6)?)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((letter.into(), 6));
    }
    let second = text.get(6..12).filter(|text| text.starts_with(b"\\u"))?;
    let second = hex(&second[2..]).filter(|half| (0xdc00..0xe000).contains(half))?;
    let letter = (first < 0xdc00)
        .then(|| char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)))??;
    Some((letter.into(), 12))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undoes_escapes_and_finds_the_way_back() {
        for (text, escapes, plain) in [
            ("a%41%zz%c3%A4", Escapes::Percent, "aA%zzä"),
            (r#"x\u00e4\"\ud83d\ude00\x41\q\ud800"#, Escapes::Backslash, "xä\"😀A\\q\\ud800"),
            ("aÄİ", Escapes::Case, "aäi\u{307}"),
        ] {
            let decoded = DecodedText::of(text.as_bytes(), escapes).unwrap();
            assert_eq!(String::from_utf8(decoded.bytes.clone()).unwrap(), plain);
            assert_eq!(decoded.origin(&(0..decoded.bytes.len())), 0..text.len(), "{text}");
            assert_eq!(decoded.origin(&(0..1)), 0..1, "{text}");
        }
        assert!(DecodedText::of(b"100% of \\q", Escapes::Percent).is_none());
        assert!(DecodedText::of(b"100% of \\q", Escapes::Backslash).is_none());
        assert!(DecodedText::of("aä".as_bytes(), Escapes::Case).is_none());
    }
}

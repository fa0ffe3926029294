//! Says where the parts of a text end: words, separators, values, headers, PEM blocks.
//!
//! All positions are byte offsets. They lie beside ASCII characters or at the ends of the text, and so
//! never inside a character.

use super::key::{self, Class};

/// The text, with the measures that the scanner takes of it.
#[derive(Clone, Copy)]
pub(super) struct Extent<'a> {
    pub(super) text: &'a str,
}

/// A quote, and how many backslashes stand before it in JSON within JSON.
#[derive(Clone, Copy)]
pub(super) struct Quote {
    mark: u8,
    slashes: usize,
}

impl Quote {
    pub(super) fn write(self, out: &mut String) {
        out.extend(std::iter::repeat_n('\\', self.slashes));
        out.push(char::from(self.mark));
    }

    fn len(self) -> usize {
        self.slashes + 1
    }
}

/// What stands between a key and its value.
pub(super) struct Separator {
    /// The quote that closes the key.
    pub(super) quote: Option<Quote>,
    /// Where the sign stands.
    pub(super) sign: usize,
    /// Where the value begins.
    pub(super) value: usize,
}

/// Names of authentication schemes; the secret is the word after them.
const SCHEMES: &[&str] = &["apikey", "basic", "bearer", "digest", "negotiate", "token"];

impl<'a> Extent<'a> {
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn starts_with(self, at: usize, prefix: &str) -> bool {
        self.text.as_bytes()[at..].starts_with(prefix.as_bytes())
    }

    /// Returns the end of the run of bytes that `belongs` accepts.
    fn run_end(self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[from..];
        rest.iter().position(|byte| !belongs(*byte)).map_or(self.text.len(), |index| from + index)
    }

    /// Returns where the blanks end, within the line.
    pub(super) fn blanks_end(self, from: usize) -> usize {
        self.run_end(from, |byte| byte == b' ' || byte == b'\t')
    }

    /// Returns where the blanks and line ends end.
    pub(super) fn space_end(self, from: usize) -> usize {
        self.run_end(from, |byte| byte.is_ascii_whitespace())
    }

    /// Returns the end of a word: letters, digits, `_` and `%`, with single `.` and `-` inside.
    pub(super) fn word_end(self, from: usize) -> usize {
        let mut end = from;
        while self.byte(end).is_some_and(is_word) {
            end = self.run_end(end, is_word);
            if self.byte(end).is_some_and(|byte| byte == b'.' || byte == b'-')
                && self.byte(end + 1).is_some_and(is_word)
            {
                end += 1;
            }
        }
        end
    }

    /// Returns where a phrase begins whose last word begins at `from`: at most two words earlier.
    pub(super) fn phrase_start(self, from: usize) -> usize {
        let mut start = from;
        for _ in 0..2 {
            let Some(rest) = self.text[..start].strip_suffix(' ') else { break };
            start = rest.len() - rest.bytes().rev().take_while(|byte| is_word(*byte)).count();
        }
        start
    }

    /// Returns the quote at a position, with the backslashes before it.
    fn quote(self, at: usize) -> Option<Quote> {
        let mark = self.run_end(at, |byte| byte == b'\\');
        let slashes = mark - at;
        self.byte(mark).filter(|byte| b"\"'`".contains(byte)).map(|mark| Quote { mark, slashes })
    }

    /// Returns the separator behind a key that ends at `end`, if a value follows it.
    pub(super) fn separator(self, end: usize) -> Option<Separator> {
        let quote = self.quote(end);
        let mut at = end + quote.map_or(0, Quote::len);
        if self.byte(at) == Some(b']') {
            at += 1;
        }
        let sign = self.blanks_end(at);
        let pair = self.text.as_bytes().get(sign..)?;
        let length = match pair {
            [b'=', b'>', ..] | [b':', b'=', ..] => 2,
            // A comparison or a path, as in `token == nil`.
            [b'=', b'=', ..] | [b':', b':', ..] if sign > at => return None,
            [b'=' | b':', ..] => 1,
            _ => return None,
        };
        let mut value = self.blanks_end(sign + length);
        // Only JSON puts a value on the next line; elsewhere that line has keys of its own.
        let below = self.space_end(value);
        if quote.is_some() && self.byte(below).is_some_and(|byte| b"\"'[{".contains(&byte)) {
            value = below;
        }
        let follows = self.byte(value).is_some_and(|byte| !byte.is_ascii_whitespace());
        follows.then_some(Separator { quote, sign, value })
    }

    /// Returns the end of a value: a sequence of quoted and bracketed parts, PEM blocks and bare text.
    pub(super) fn value_end(self, from: usize, in_url: bool) -> usize {
        let mut at = from;
        loop {
            match self.inner_pair(at) {
                Some((name, value, true)) => return self.header_end(name, value),
                Some((_, value, false)) => {
                    at = value;
                    continue;
                }
                None => {}
            }
            if let Some(quote) = self.quote(at) {
                at = self.quoted_end(at, quote);
            } else if self.byte(at).is_some_and(|byte| b"[{".contains(&byte)) {
                at = self.bracket_end(at);
            } else if let Some(end) = self.pem_end(at) {
                at = end;
            } else {
                let end = self.bare_end(at, in_url);
                let next = self.blanks_end(end);
                let is_scheme = |it: &&str| self.text[at..end].eq_ignore_ascii_case(it);
                if next == end || !SCHEMES.iter().any(is_scheme) {
                    return end;
                }
                at = next;
            }
            if self.stops(at, in_url) {
                return at;
            }
        }
    }

    /// Returns the end of a JSON value that is neither quoted nor in brackets: `1` in `1, "b"`.
    pub(super) fn literal_end(self, from: usize) -> Option<usize> {
        let end = self.run_end(from, |byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        (is_literal(&self.text[from..end]) && self.stops(end, false)).then_some(end)
    }

    /// Returns the end of bare text: a blank, or a quote that closes something around it.
    pub(super) fn bare_end(self, from: usize, in_url: bool) -> usize {
        let mut at = from;
        while let Some(byte) = self.byte(at) {
            if byte.is_ascii_whitespace() || (in_url && b"&#".contains(&byte)) {
                break;
            }
            if self.closes(at) {
                let before = self.text[from..at].trim_end_matches('\\');
                return from + before.len();
            }
            at += 1;
        }
        at
    }

    /// Returns the end of a header's value: its line, or the quote that the header stands in.
    pub(super) fn header_end(self, name: usize, value: usize) -> usize {
        let before = &self.text.as_bytes()[..name];
        let Some((&mark, before)) = before.split_last().filter(|(it, _)| b"\"'`".contains(it))
        else {
            return self.line_end(value);
        };
        let slashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        let mut at = value;
        while let Some(after) = self.closing(at, Quote { mark, slashes }) {
            if self.closes(after - 1) {
                return value + self.text[value..after - 1].trim_end_matches('\\').len();
            }
            at = after;
        }
        self.line_end(at)
    }

    /// Returns the end of a private key in PEM that begins here; of one that is cut off, the text's.
    pub(super) fn pem_end(self, at: usize) -> Option<usize> {
        if !self.starts_with(at, "-----BEGIN ") {
            return None;
        }
        let label = at + "-----BEGIN ".len();
        let label_end = self.run_end(label, |byte| byte.is_ascii_alphanumeric() || byte == b' ');
        if !self.text[label..label_end].contains("PRIVATE KEY") {
            return None;
        }
        let end = self.text[label_end..].find("-----END ").map(|index| label_end + index + 9);
        let dashes =
            end.and_then(|end| self.text[end..].find("-----").map(|index| end + index + 5));
        Some(dashes.unwrap_or(self.text.len()))
    }

    /// Returns the end of a quoted text: its closing quote, or that of the line, for the next line has
    /// quotes of its own; but a private key in PEM has lines.
    fn quoted_end(self, at: usize, quote: Quote) -> usize {
        let start = at + quote.len();
        let inside = self.pem_end(start).unwrap_or(start);
        self.closing(inside, quote).unwrap_or_else(|| self.line_end(inside))
    }

    fn line_end(self, from: usize) -> usize {
        self.run_end(from, |byte| byte != b'\n' && byte != b'\r')
    }

    /// Returns the position after the quote that closes a string in its line.
    ///
    /// At each level of JSON within JSON a quote of the string itself has one backslash more in front
    /// than twice those of the quotes around it; any quote with fewer belongs to an outer level.
    fn closing(self, from: usize, open: Quote) -> Option<usize> {
        let mut slashes = 0;
        for (index, &byte) in self.text.as_bytes()[from..].iter().enumerate() {
            match byte {
                b'\n' | b'\r' => return None,
                b'\\' => {
                    slashes += 1;
                    continue;
                }
                _ => {}
            }
            let own_escapes = usize::saturating_sub(slashes, open.slashes) / (open.slashes + 1);
            if byte == open.mark && own_escapes.is_multiple_of(2) {
                return Some(from + index + 1);
            }
            slashes = 0;
        }
        None
    }

    /// Returns the position after the bracket that closes the one at `from`.
    fn bracket_end(self, from: usize) -> usize {
        let (mut at, mut depth) = (from, 0_usize);
        while let Some(byte) = self.byte(at) {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            // Backslashes that lead to no quote are passed at once: looking at the rest of them again
            // from each one would take quadratic time.
            let next = self.run_end(at, |byte| byte == b'\\').max(at + 1);
            at = self.quote(at).map_or(next, |quote| self.quoted_end(at, quote));
            if depth == 0 {
                return at;
            }
        }
        at
    }

    /// Returns name, value and whether it is a header if a secret key stands where a value was
    /// expected, so that it does not hide the value that matters: `token: password: x`.
    pub(super) fn inner_pair(self, at: usize) -> Option<(usize, usize, bool)> {
        let name = at + self.quote(at).map_or(0, Quote::len);
        let word = self.run_end(name, |byte| byte == b'-');
        let end = self.word_end(word);
        if key::class(&self.text[word..end]) == Class::Plain {
            return None;
        }
        if let Some(separator) = self.separator(end) {
            return Some((word, separator.value, self.is_header(word, end, &separator)));
        }
        let value = self.blanks_end(end);
        (value > end && word > name + 1).then_some((word, value, false))
    }

    /// Returns whether a key is a header whose value reaches to the end of the line.
    pub(super) fn is_header(self, start: usize, end: usize, separator: &Separator) -> bool {
        let name = &self.text[start..end];
        separator.quote.is_none()
            && self.byte(separator.sign) == Some(b':')
            && ["authorization", "cookie", "cookies"].iter().any(|it| ends_with(name, it))
    }

    /// Returns whether nothing of a value can follow after one of its quoted or bracketed parts.
    fn stops(self, at: usize, in_url: bool) -> bool {
        let quote = self.run_end(at, |byte| byte == b'\\');
        self.byte(at).is_none_or(|byte| {
            byte.is_ascii_whitespace()
                || b",;)]}>".contains(&byte)
                || (in_url && b"&#".contains(&byte))
        }) || self.closes(quote)
    }

    /// Returns whether a quote stands here that ends what is around it: nothing that could be inside
    /// follows.
    fn closes(self, at: usize) -> bool {
        self.byte(at).is_some_and(|byte| b"\"'`".contains(&byte))
            && self
                .byte(at + 1)
                .is_none_or(|next| next.is_ascii_whitespace() || b",;:)]}>\\".contains(&next))
    }
}

/// Returns whether a name ends with a text, ignoring case.
pub(super) fn ends_with(name: &str, end: &str) -> bool {
    let start = name.len().checked_sub(end.len());
    start.and_then(|start| name.get(start..)).is_some_and(|it| it.eq_ignore_ascii_case(end))
}

/// Returns whether a byte belongs to a word.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'%'
}

/// Returns whether a text is a number, a boolean or null.
pub(super) fn is_literal(text: &str) -> bool {
    let number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    matches!(text, "true" | "false" | "null" | "True" | "False" | "None")
        || (number && text.parse::<f64>().is_ok())
}

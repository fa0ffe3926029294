//! The ways in which a secret value may be spelled in a text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::MIN_LENGTH;
use crate::json;

/// A shorter line, or part of a value in Base64, would blot out ordinary words.
const MIN_PART: usize = 12;

/// Returns every spelling of a value that is looked for, except percent-encoding, which is undone instead.
pub(super) fn spellings(value: &str) -> Vec<String> {
    let mut found = vec![value.to_owned(), value.trim().to_owned(), value.replace(' ', "+")];
    // Programs quote a key in PEM line by line.
    found.extend(
        value.lines().map(str::trim).filter(|line| line.len() >= MIN_PART).map(str::to_owned),
    );
    let text = value.into();
    for json in [json::to_compact(&text), json::to_canonical(&text)] {
        found.push(json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned());
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        found.push(engine.encode(value));
        for before in 0..3 {
            found.extend(inner_base64(
                &engine.encode([&[0; 3][..before], value.as_bytes()].concat()),
                before,
                value.len(),
            ));
        }
    }
    found.retain(|spelling| spelling.len() >= MIN_LENGTH);
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the part of a Base64 text that does not depend on what stands around the value, when
/// `before` bytes stand before it.
fn inner_base64(encoded: &str, before: usize, length: usize) -> Option<String> {
    let start = (before * 8).div_ceil(6);
    let end = (before + length) * 8 / 6;
    encoded.get(start..end).filter(|inner| inner.len() >= MIN_PART).map(str::to_owned)
}

/// A text with its percent-encoding undone, and where each byte came from.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    origins: Vec<usize>,
}

impl Decoded {
    /// Undoes percent-encoding, if there is any.
    pub(super) fn of(text: &str) -> Option<Self> {
        let source = text.as_bytes();
        let first = source.windows(3).position(|it| percent(it).is_some())?;
        let mut bytes = source[..first].to_vec();
        let mut origins: Vec<usize> = (0..first).collect();
        let mut at = first;
        while at < source.len() {
            let code = source.get(at..at + 3).and_then(percent);
            bytes.push(code.unwrap_or(source[at]));
            origins.push(at);
            at += if code.is_some() { 3 } else { 1 };
        }
        origins.push(source.len());
        Some(Self { bytes, origins })
    }

    /// Returns where a range of the decoded bytes stands in the text.
    pub(super) fn origin(&self, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.origins[range.start]..self.origins[range.end]
    }
}

fn percent(bytes: &[u8]) -> Option<u8> {
    let &[b'%', high, low] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

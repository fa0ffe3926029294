//! The ways in which a text may spell a secret value.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::MIN_LENGTH;
use crate::json;

/// A shorter line of a value would match ordinary words.
const MIN_LINE: usize = 12;
/// A shorter part of an encoded value would match parts of other encoded data. Values of five bytes have such parts at every
/// offset; shorter ones are found where an encoding begins.
const MIN_ENCODED: usize = 6;

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns every spelling that the search compares, without case. Escapes are undone in the text instead.
pub(super) fn spellings(value: &str) -> Vec<String> {
    let mut found = vec![value.to_owned(), value.trim().to_owned(), value.replace(' ', "+")];
    // Programs quote a key in PEM line by line.
    found.extend(
        value.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE).map(str::to_owned),
    );
    let text = value.into();
    for json in [json::to_compact(&text), json::to_canonical(&text)] {
        found.push(json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned());
    }
    let folded = lower(value);
    // An encoding hides the case of letters, so each case has its own spelling.
    for cased in [value, value.trim(), &folded, &value.to_uppercase()] {
        encodings(cased, &mut found);
    }
    if !value.is_ascii() {
        found.push(lower(&value.to_uppercase()));
        found.push(folded);
    }
    for spelling in &mut found {
        spelling.make_ascii_lowercase();
    }
    found.retain(|spelling| spelling.len() >= MIN_LENGTH);
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns a text in small letters, one character at a time: the same for a part as for the whole.
pub(super) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Adds a value in hex, Base32 and Base64, also as a part of something longer.
fn encodings(value: &str, found: &mut Vec<String>) {
    let bytes = value.as_bytes();
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    found.push(digits.map(|digit| char::from(HEX[usize::from(digit)])).collect());
    found.push(base32(bytes));
    for before in 0..5 {
        found.extend(inner(&base32(&with_prefix(before, bytes)), before, bytes.len(), 5));
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        found.push(engine.encode(value));
        for before in 0..3 {
            found.extend(inner(&engine.encode(with_prefix(before, bytes)), before, bytes.len(), 6));
        }
    }
}

/// Returns a value with `length` bytes before it.
fn with_prefix(length: usize, value: &[u8]) -> Vec<u8> {
    [&[0; 5][..length], value].concat()
}

/// Encodes in Base32 of RFC 4648, in small letters and without padding.
fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut bits = [0; 8];
        bits[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(bits);
        for digit in 0..(chunk.len() * 8).div_ceil(5) {
            let value = bits >> (35 - 5 * digit) & 31;
            text.push(char::from(BASE32[usize::try_from(value).unwrap_or_default()]));
        }
    }
    text
}

/// Returns the part of an encoded value that its surroundings do not change. `before` bytes precede the value; each
/// character has `bits` bits.
fn inner(encoded: &str, before: usize, length: usize, bits: usize) -> Option<String> {
    let start = (before * 8).div_ceil(bits);
    let end = (before + length) * 8 / bits;
    encoded.get(start..end).filter(|inner| inner.len() >= MIN_ENCODED).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_equals_the_vectors_of_its_specification() {
        for (text, encoded) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(base32(text.as_bytes()), encoded);
        }
    }
}

//! Canonical strings: reading their escapes, their order, and writing them.

use alloc::string::String;
use core::cmp::Ordering;
use core::iter::from_fn;

use crate::tape::{Kind, Value};

/// Returns the characters of what stands between the quotation marks of a canonical string.
pub(crate) fn unescaped(inner: &str) -> impl Iterator<Item = char> + use<'_> {
    let mut chars = inner.chars();
    from_fn(move || match chars.next()? {
        '\\' => Some(match chars.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            // Canonical text has four digits here, of a control character.
            'u' => {
                let digits = (0..4).filter_map(|_| chars.next()?.to_digit(16));
                char::from_u32(digits.fold(0, |unit, digit| unit * 16 + digit))?
            }
            other => other,
        }),
        plain => Some(plain),
    })
}

/// Compares names by their UTF-16 code units, as RFC 8785 sorts them.
pub(crate) fn compare_names(one: Value<'_, '_>, other: Value<'_, '_>) -> Ordering {
    let is_simple = |name: Value<'_, '_>| name.kind() == Kind::Plain && name.inner().is_ascii();
    if is_simple(one) && is_simple(other) {
        return one.inner().cmp(other.inner());
    }
    units(one.inner()).cmp(units(other.inner()))
}

fn units(inner: &str) -> impl Iterator<Item = u16> + use<'_> {
    unescaped(inner).flat_map(|character| {
        let mut units = [0; 2];
        let count = character.encode_utf16(&mut units).len();
        units.into_iter().take(count)
    })
}

/// Longer names are cut in pointers, so that no document decides how long an error is.
const MAX_TOKEN: usize = 200;

/// Appends a name to a JSON pointer. Control characters stay escaped as they are in the document.
pub(crate) fn push_token(pointer: &mut String, name: Value<'_, '_>) {
    pointer.push('/');
    let token = beginning(name.inner(), MAX_TOKEN);
    push_escaped(pointer, token);
    if token.len() < name.inner().len() {
        pointer.push('…');
    }
}

/// Returns so many characters of a text.
fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns the beginning of a text, for a message.
pub(crate) fn shown(text: &str) -> &str {
    beginning(text, 60)
}

/// Appends text to a JSON pointer.
pub(crate) fn push_escaped(pointer: &mut String, token: &str) {
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            plain => pointer.push(plain),
        }
    }
}

/// Writes a string as RFC 8785 does.
pub(crate) fn write_string(out: &mut String, text: &str) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control @ '\0'..='\u{1f}' => {
                let code = control as usize;
                out.push_str("\\u00");
                out.push(HEX[code >> 4]);
                out.push(HEX[code & 15]);
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// Returns a finite number as RFC 8785 writes it; others as `null`.
#[must_use]
pub fn number(number: f64) -> String {
    if number.is_finite() {
        return ryu_js::Buffer::new().format_finite(number).into();
    }
    "null".into()
}

//! Walks through the members of an object's text, and checks the text on the way without keeping it.
//!
//! Stored payloads have no blanks, and no more levels than a bundle may have. Other text is not wrong, but
//! not walked through here either; whoever needs it takes the longer way.

use crate::json::Limits;

/// The most levels of arrays and objects in a value.
const MAX_DEPTH: usize = Limits::BUNDLE.depth;

/// The members of an object in the order of its text.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    text: &'a str,
    at: usize,
    /// Whether the brace is behind us.
    inside: bool,
}

impl<'a> Members<'a> {
    /// Begins with an object's text.
    pub(crate) const fn of(text: &'a str) -> Self {
        Self { text, at: 0, inside: false }
    }

    /// Returns the text of a member's value; none too if the text before it is odd.
    pub(crate) fn find(mut self, name: &str) -> Option<&'a str> {
        while let Some(other) = self.name()? {
            let value = self.value()?;
            if other == name {
                return Some(value);
            }
        }
        None
    }

    /// Returns the name of the next member without its quotes and with escapes as they are, or that there
    /// is none; nothing at all if the text is odd. Its value must be taken next.
    pub(crate) fn name(&mut self) -> Option<Option<&'a str>> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        match (*bytes.get(at)?, self.inside) {
            (b'{', false) if *bytes.get(at + 1)? == b'}' => {
                self.at = at + 2;
                return Some(None);
            }
            (b'{', false) | (b',', true) => at += 1,
            (b'}', true) => {
                self.at = at + 1;
                return Some(None);
            }
            _ => return None,
        }
        self.inside = true;
        let end = string(bytes, at)?;
        self.at = after(bytes, end, b':')?;
        Some(Some(&self.text[at + 1..end - 1]))
    }

    /// Takes the text of a member's value.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        let end = value(self.text.as_bytes(), self.at)?;
        let value = &self.text[self.at..end];
        self.at = end;
        Some(value)
    }

    /// Takes a member's value, an object, by what `walk` finds in its members.
    pub(crate) fn inner<T>(&mut self, walk: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut inner = Self { inside: false, ..*self };
        let found = walk(&mut inner)?;
        self.at = inner.at;
        Some(found)
    }

    /// Takes a member's value, an array of objects, by what `walk` finds in the members of each.
    pub(crate) fn items(&mut self, mut walk: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let bytes = self.text.as_bytes();
        self.at = after(bytes, self.at, b'[')?;
        if *bytes.get(self.at)? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.inner(&mut walk)?;
            let byte = *bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Says whether nothing follows the object.
    pub(crate) const fn is_over(&self) -> bool {
        self.at == self.text.len()
    }
}

// All of these take the place where something begins, and return the one behind it.

fn after(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*bytes.get(at)? == byte).then_some(at + 1)
}

fn name(bytes: &[u8], at: usize) -> Option<usize> {
    after(bytes, string(bytes, at)?, b':')
}

fn value(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at)? {
        b'{' | b'[' => container(bytes, at),
        _ => scalar(bytes, at),
    }
}

fn scalar(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at)? {
        b'"' => string(bytes, at),
        b'-' | b'0'..=b'9' => number(bytes, at),
        b't' => word(bytes, at, b"true"),
        b'f' => word(bytes, at, b"false"),
        b'n' => word(bytes, at, b"null"),
        _ => None,
    }
}

fn container(bytes: &[u8], mut at: usize) -> Option<usize> {
    // One bit per level that was entered: whether it is an object.
    let mut objects = [0_u64; MAX_DEPTH.div_ceil(64)];
    let mut depth = 0;
    loop {
        let close = match *bytes.get(at)? {
            b'{' => b'}',
            b'[' => b']',
            _ => 0,
        };
        if close == 0 {
            at = scalar(bytes, at)?;
        } else if *bytes.get(at + 1)? == close {
            at += 2;
        } else {
            if depth == MAX_DEPTH {
                return None;
            }
            let (word, bit) = (&mut objects[depth / 64], 1 << (depth % 64));
            depth += 1;
            if close == b'}' {
                *word |= bit;
                at = name(bytes, at + 1)?;
            } else {
                *word &= !bit;
                at += 1;
            }
            continue;
        }
        loop {
            let Some(innermost) = depth.checked_sub(1) else { return Some(at) };
            let is_object = objects[innermost / 64] >> (innermost % 64) & 1 == 1;
            let byte = *bytes.get(at)?;
            at += 1;
            match byte {
                b',' if is_object => {
                    at = name(bytes, at)?;
                    break;
                }
                b',' => break,
                b'}' if is_object => {}
                b']' if !is_object => {}
                _ => return None,
            }
            depth = innermost;
        }
    }
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(word).then_some(at + word.len())
}

/// Steps over a number.
pub(crate) fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(*bytes.get(at)? == b'-');
    at = if *bytes.get(at)? == b'0' { at + 1 } else { digits(bytes, at)? };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(bytes, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

/// Steps over a string.
pub(crate) fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = after(bytes, at, b'"')?;
    loop {
        at = plain(bytes, at);
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape(bytes, at)?,
            _ => return None,
        }
    }
}

fn escape(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => Some(at + 6),
        _ => None,
    }
}

/// Steps over characters that stand for themselves, eight bytes at a time.
fn plain(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        // The highest bit of a byte that is a control character, a quote or a backslash. A mark may be
        // wrong only above a right one.
        let marks = (below(word, b' ')
            | below(word ^ (ONES * u64::from(b'"')), 1)
            | below(word ^ (ONES * u64::from(b'\\')), 1))
            & (ONES << 7);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, ..b' ' | b'"' | b'\\')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Option<Vec<(&str, &str)>> {
        let (mut members, mut found) = (Members::of(text), Vec::new());
        while let Some(name) = members.name()? {
            found.push((name, members.value()?));
        }
        members.is_over().then_some(found)
    }

    #[test]
    fn members_are_found() {
        let object =
            r#"{"a":"\"}","b":{"c":[1,"]"],"d":{}},"e":-1.5e+3,"f":null,"g":[],"\u0068":0}"#;
        let expected = [
            ("a", r#""\"}""#),
            ("b", r#"{"c":[1,"]"],"d":{}}"#),
            ("e", "-1.5e+3"),
            ("f", "null"),
            ("g", "[]"),
            ("\\u0068", "0"),
        ];
        assert_eq!(all(object).unwrap(), expected);
        assert_eq!(Members::of(object).find("e"), Some("-1.5e+3"));
        assert_eq!(Members::of(object).find("c"), None);
        assert_eq!(all("{}"), Some(vec![]));
    }

    #[test]
    fn what_is_as_deep_as_a_bundle_may_be_is_walked_through() {
        let deep = |levels: usize| {
            let (open, close) = (["[", "{\"b\":"], ["]", "}"]);
            let open: String = (0..levels).map(|level| open[level % 2]).collect();
            let close: String = (0..levels).rev().map(|level| close[level % 2]).collect();
            format!("{{\"a\":{open}1{close}}}")
        };
        assert!(all(&deep(MAX_DEPTH)).is_some());
        assert!(all(&deep(MAX_DEPTH + 1)).is_none());
    }

    proptest! {
        #[test]
        fn what_is_walked_through_is_json(text in r#"(\{"a":)?[\[\]{}:,"a\\u0019eE+.\-ntrufals ]{0,12}\}?"#) {
            if all(&text).is_some() {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{text}");
            }
        }

        #[test]
        fn every_shallow_compact_object_is_walked_through(
            object in proptest::collection::btree_map(".{0,9}", json(), 0..4)
        ) {
            let text = serde_json::to_string(&object).unwrap();
            prop_assert_eq!(all(&text).map(|found| found.len()), Some(object.len()));
            prop_assert!(all(&text[..text.len() - 1]).is_none());
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,20}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map(".{0,9}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }
}

//! Reads closed JSON objects, and tells every mistake with its place.

use super::finding::{Finding, Findings, below};
use crate::digest::Digest;
use crate::json::{Object, Value};

/// One object that is being read.
pub(super) struct Reader<'a, 'f> {
    object: &'a Object,
    place: String,
    pub(super) findings: &'f mut Findings,
}

impl<'a, 'f> Reader<'a, 'f> {
    /// Begins to read an object that has exactly these keys.
    pub(super) fn closed(
        value: &'a Value,
        place: &str,
        keys: &[&str],
        findings: &'f mut Findings,
    ) -> Option<Self> {
        let reader = Self::open(value, place, findings)?;
        for key in keys.iter().filter(|key| !reader.object.contains_key(key)) {
            let message = format!("the key {key:?} is missing; give it");
            reader.findings.push(Finding::new("missing_key", key, below(place, key), message));
        }
        for key in reader.object.keys().filter(|key| !keys.contains(key)) {
            let message = format!("there is no such key; the keys are {}", keys.join(", "));
            reader.findings.push(Finding::new("forbidden_key", key, below(place, key), message));
        }
        Some(reader)
    }

    /// Begins to read an object, whatever its keys.
    pub(super) fn open(value: &'a Value, place: &str, findings: &'f mut Findings) -> Option<Self> {
        if let Value::Object(object) = value {
            return Some(Self { object, place: place.to_owned(), findings });
        }
        let found = value.type_name();
        let message = format!("it is of type {found}, and must be an object");
        findings.push(Finding::new("not_an_object", found, place, message));
        None
    }

    /// Returns the object.
    pub(super) fn object(&self) -> &'a Object {
        self.object
    }

    /// Tells that a value is not what it must be.
    pub(super) fn wrong(&mut self, key: &str, expected: &str) {
        let message = format!("it must be {expected}");
        self.findings.push(Finding::new("bad_value", key, below(&self.place, key), message));
    }

    fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        take: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        // A missing key was told already.
        let value = self.object.get(key)?;
        let taken = take(value);
        if taken.is_none() {
            let found = value.type_name();
            let message = format!("it is of type {found}, and must be {expected}");
            let detail = format!("{key}:{found}");
            self.findings.push(Finding::new(
                "wrong_type",
                &detail,
                below(&self.place, key),
                message,
            ));
        }
        taken
    }

    /// Returns a text that a test accepts.
    pub(super) fn text(
        &mut self,
        key: &str,
        expected: &str,
        test: impl FnOnce(&str) -> bool,
    ) -> Option<&'a str> {
        let text = self.typed(key, "a string", Value::as_str)?;
        if !test(text) {
            self.wrong(key, expected);
            return None;
        }
        Some(text)
    }

    /// Returns a text that a test accepts, or null.
    pub(super) fn text_or_null(
        &mut self,
        key: &str,
        expected: &str,
        test: impl FnOnce(&str) -> bool,
    ) -> Option<Option<&'a str>> {
        if self.object.get(key).is_some_and(Value::is_null) {
            return Some(None);
        }
        self.text(key, expected, test).map(Some)
    }

    /// Returns an integer of a range.
    pub(super) fn integer(
        &mut self,
        key: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let integer = self.typed(key, "an integer", Value::as_i64)?;
        if !range.contains(&integer) {
            self.wrong(key, &format!("from {} to {}", range.start(), range.end()));
            return None;
        }
        Some(integer)
    }

    /// Returns a digest of 64 lower-case hexadecimal digits.
    pub(super) fn digest(&mut self, key: &str) -> Option<Digest> {
        let text = self.typed(key, "a string", Value::as_str)?;
        let digest = digest(text);
        if digest.is_none() {
            self.wrong(key, "64 lower-case hexadecimal digits");
        }
        digest
    }

    /// Returns an object.
    pub(super) fn object_at(&mut self, key: &str) -> Option<&'a Object> {
        self.typed(key, "an object", Value::as_object)
    }

    /// Returns the items of an array.
    pub(super) fn items(&mut self, key: &str) -> Option<&'a [Value]> {
        self.typed(key, "an array", Value::as_array)
    }

    /// Returns an array of texts, each of which a test accepts.
    pub(super) fn texts(
        &mut self,
        key: &str,
        expected: &str,
        test: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let items = self.items(key)?;
        let place = below(&self.place, key);
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) if test(text) => texts.push(text.to_owned()),
                Some(_) => {
                    let message = format!("it must be {expected}");
                    self.findings.push(Finding::new(
                        "bad_value",
                        key,
                        below(&place, index),
                        message,
                    ));
                }
                None => {
                    let found = item.type_name();
                    let message = format!("it is of type {found}, and must be a string");
                    let detail = format!("{key}:{found}");
                    self.findings.push(Finding::new(
                        "wrong_type",
                        &detail,
                        below(&place, index),
                        message,
                    ));
                }
            }
        }
        (texts.len() == items.len()).then_some(texts)
    }

    /// Does the same, for texts that are sorted and differ.
    pub(super) fn sorted(
        &mut self,
        key: &str,
        expected: &str,
        test: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let texts = self.texts(key, expected, test)?;
        let Some(at) = texts.windows(2).position(|pair| pair[0] >= pair[1]) else {
            return Some(texts);
        };
        let place = below(&below(&self.place, key), at + 1);
        let message =
            "it must come after the item before it: the items are sorted, and each is there once";
        self.findings.push(Finding::new("bad_order", key, place, message));
        None
    }
}

/// Reads a digest in the one spelling that sealed documents have.
pub(super) fn digest(text: &str) -> Option<Digest> {
    let spelled = text.len() == 64 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    spelled.then(|| text.parse().ok()).flatten()
}

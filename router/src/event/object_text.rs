//! Writes canonical objects, member by member.

use std::fmt::Write as _;

use crate::digest::Digest;
use crate::json::{self, Object};

/// A canonical object under construction. Its keys must be given in order.
pub(super) struct ObjectText<'a> {
    out: &'a mut String,
    last_key: &'static str,
}

impl<'a> ObjectText<'a> {
    pub(super) fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, last_key: "" }
    }

    pub(super) fn close(self) {
        self.out.push('}');
    }

    pub(super) fn field(
        &mut self,
        key: &'static str,
        write: impl FnOnce(&mut String),
    ) -> &mut Self {
        debug_assert!(self.last_key < key, "{key} must come before {}", self.last_key);
        if !self.last_key.is_empty() {
            self.out.push(',');
        }
        self.last_key = key;
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
        write(self.out);
        self
    }

    pub(super) fn text(&mut self, key: &'static str, text: &str) -> &mut Self {
        self.field(key, |out| json::write_canonical_str(out, text))
    }

    pub(super) fn text_or_null(&mut self, key: &'static str, text: Option<&str>) -> &mut Self {
        self.field(key, |out| match text {
            Some(text) => json::write_canonical_str(out, text),
            None => out.push_str("null"),
        })
    }

    pub(super) fn number(&mut self, key: &'static str, number: u64) -> &mut Self {
        self.field(key, |out| {
            // Writing to a string does not fail.
            let _ = write!(out, "{number}");
        })
    }

    pub(super) fn digest(&mut self, key: &'static str, digest: Digest) -> &mut Self {
        self.field(key, |out| {
            let _ = write!(out, "\"{digest}\"");
        })
    }

    pub(super) fn flag(&mut self, key: &'static str, flag: bool) -> &mut Self {
        self.field(key, |out| out.push_str(if flag { "true" } else { "false" }))
    }

    pub(super) fn object(&mut self, key: &'static str, object: &Object) -> &mut Self {
        self.field(key, |out| json::write_canonical_object(out, object))
    }

    pub(super) fn texts(&mut self, key: &'static str, texts: &[&str]) -> &mut Self {
        self.field(key, |out| {
            write_array(out, texts, |out, text| json::write_canonical_str(out, text));
        })
    }
}

pub(super) fn write_array<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

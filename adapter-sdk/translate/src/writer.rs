//! Writes a payload: raw parts of the document, and what stands around them.

use alloc::string::String;

use crate::text;

/// A text under way. Whoever writes gives the members of an object in the order of RFC 8785.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
}

impl Writer {
    /// Makes one with room for a payload about as long as its document.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes) }
    }

    /// Begins an object or an array: `{` or `[`.
    pub fn open(&mut self, bracket: char) {
        self.comma();
        self.text.push(bracket);
    }

    /// Ends an object or an array: `}` or `]`.
    pub fn close(&mut self, bracket: char) {
        self.text.push(bracket);
    }

    /// Writes the name of a member, which has nothing to escape.
    pub fn name(&mut self, name: &str) {
        self.comma();
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
    }

    /// Writes a value that is canonical text already.
    pub fn raw(&mut self, value: &str) {
        self.comma();
        self.text.push_str(value);
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.comma();
        text::write_string(&mut self.text, text);
    }

    /// Writes a member whose value is canonical text already.
    pub fn member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.text.push_str(value);
    }

    /// A comma stands before whatever does not begin something.
    fn comma(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

//! Why a text was refused as JSON, and where.

use crate::python_text;

/// Why a text was refused as JSON, with the place in the text and in the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column} (at \"{}\")", shown(pointer))]
pub struct Error {
    pub(super) kind: Kind,
    pub(super) message: String,
    pub(super) pointer: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// What kind of mistake it is; each has its code and its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TooLarge,
    TooDeep,
    TooMany,
    Syntax,
    DuplicateKey,
    NotFinite,
    LoneSurrogate,
    NotUtf8,
    IntegerTooLong,
}

impl Error {
    /// Returns the code of this kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::TooLarge => "JSON_TOO_LARGE",
            Kind::TooDeep => "JSON_TOO_DEEP",
            Kind::TooMany => "JSON_TOO_MANY_VALUES",
            Kind::Syntax => "JSON_SYNTAX",
            Kind::DuplicateKey => "JSON_DUPLICATE_KEY",
            Kind::NotFinite => "JSON_NOT_FINITE",
            Kind::LoneSurrogate => "JSON_LONE_SURROGATE",
            Kind::NotUtf8 => "JSON_NOT_UTF8",
            Kind::IntegerTooLong => "JSON_INTEGER_TOO_LONG",
        }
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.kind {
            Kind::TooLarge => "send less at once, or pass large data by reference",
            Kind::TooDeep => "nest arrays and objects less deeply",
            Kind::TooMany => "send less at once, or pass large data by reference",
            Kind::Syntax => "write strict JSON (RFC 8259), without comments or trailing commas",
            Kind::DuplicateKey => "give each member of an object a name of its own",
            Kind::NotFinite => "use null or a text where a number is not finite",
            Kind::LoneSurrogate => "write characters above U+FFFF as a pair of \\u escapes",
            Kind::NotUtf8 => "encode the text as UTF-8",
            Kind::IntegerTooLong => "write numbers that long as a text",
        }
    }

    /// Returns what is wrong, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the JSON pointer of the value in which it happened; empty for the outermost.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the line, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column, counted from 1 in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

/// Names are foreign and of any length, so a message shows them without control characters and cut.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => python_text::visible(&text[..end]) + "…",
        None => python_text::visible(text),
    }
}

/// What is wrong and where, before the place is counted in lines and columns.
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) message: String,
    pub(super) at: usize,
    /// How to get to the value, innermost first.
    pub(super) path: Vec<Step>,
}

pub(super) enum Step {
    Member(String),
    Item(usize),
}

// Boxed, so that the result of a value is no larger than the value.
pub(super) type Parsed<T> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(super) fn new(kind: Kind, message: String, at: usize) -> Box<Self> {
        Box::new(Self { kind, message, at, path: Vec::new() })
    }

    #[cold]
    pub(super) fn inside(mut self: Box<Self>, step: Step) -> Box<Self> {
        self.path.push(step);
        self
    }

    pub(super) fn locate(self, text: &str) -> Error {
        let before = text.get(..self.at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let mut pointer = String::new();
        for step in self.path.iter().rev() {
            match step {
                Step::Member(name) => {
                    pointer.push('/');
                    pointer.push_str(&super::pointer_segment(name));
                }
                Step::Item(index) => pointer.push_str(&format!("/{index}")),
            }
        }
        Error {
            kind: self.kind,
            message: self.message,
            pointer,
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

//! A scanned document: a flat list of its values, each with its place in the text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::text;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string without escapes: its text stands between the quotation marks.
    Plain,
    /// A string with escapes.
    Escaped,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// Returns the JSON name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Plain | Self::Escaped => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The node that follows what is inside this one; 0 while its end has not been read.
    pub(crate) after: u32,
}

/// The values of a document, in the order of the text. Members are two nodes, the name and the value.
#[derive(Debug)]
pub struct Tape<'a> {
    pub(crate) text: &'a str,
    pub(crate) nodes: Vec<Node>,
}

impl<'a> Tape<'a> {
    /// Returns the whole document.
    #[must_use]
    pub const fn root(&self) -> Value<'_, 'a> {
        Value { tape: self, index: 0 }
    }

    /// Returns the pointer to a node. It is searched for, because only a refusal needs it; the tape may
    /// end in the middle of the document.
    pub(crate) fn pointer(&self, index: usize) -> String {
        let mut pointer = String::new();
        let mut container = 0;
        if self.nodes.first().is_some_and(|root| root.after != 0 && index >= root.after as usize) {
            // Behind the document.
            return pointer;
        }
        while container < index {
            let is_object = self.nodes[container].kind == Kind::Object;
            let (mut child, mut place) = (container + 1, 0_usize);
            let mut name = None;
            while let Some(node) = self.nodes.get(child) {
                let is_name = is_object && place.is_multiple_of(2);
                if is_name {
                    name = Some(Value { tape: self, index: child });
                }
                let after = node.after as usize;
                // What has not been read to its end contains all that follows.
                if after == 0 || index < after {
                    break;
                }
                child = after;
                place += 1;
            }
            match name {
                Some(name) => text::push_token(&mut pointer, name),
                None if is_object => {}
                None => pointer.push_str(&format!("/{place}")),
            }
            // The name of a member stands for the member.
            if child >= self.nodes.len() || (is_object && place.is_multiple_of(2)) {
                break;
            }
            container = child;
        }
        pointer
    }
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub struct Value<'t, 'a> {
    tape: &'t Tape<'a>,
    index: usize,
}

impl<'t, 'a> Value<'t, 'a> {
    pub(crate) const fn at(tape: &'t Tape<'a>, index: usize) -> Self {
        Self { tape, index }
    }

    fn node(self) -> Node {
        self.tape.nodes[self.index]
    }

    /// Returns the type.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Returns the canonical text, with the quotation marks of a string.
    #[must_use]
    pub fn raw(self) -> &'a str {
        let node = self.node();
        &self.tape.text[node.start as usize..node.end as usize]
    }

    /// Says whether it is a string.
    #[must_use]
    pub fn is_string(self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    /// Returns what stands between the quotation marks of a string, escapes as they are; of other
    /// values nothing.
    #[must_use]
    pub fn inner(self) -> &'a str {
        let raw = self.raw();
        if self.is_string() { &raw[1..raw.len() - 1] } else { "" }
    }

    /// Says whether it is the string of this text, which has nothing to escape.
    #[must_use]
    pub fn is(self, text: &str) -> bool {
        self.kind() == Kind::Plain && self.inner() == text
    }

    /// Returns the characters of a string.
    pub fn chars(self) -> impl Iterator<Item = char> + use<'a> {
        text::unescaped(self.inner())
    }

    /// Returns the pointer to it.
    #[must_use]
    pub fn pointer(self) -> String {
        self.tape.pointer(self.index)
    }

    /// Returns the items of an array; of other values nothing.
    #[must_use]
    pub fn items(self) -> Items<'t, 'a> {
        self.children(Kind::Array)
    }

    /// Returns the names and values of an object's members; of other values nothing.
    #[must_use]
    pub fn members(self) -> Members<'t, 'a> {
        Members(self.children(Kind::Object))
    }

    /// Returns a member of an object by a name that has nothing to escape.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Self> {
        self.members().find(|(known, _)| known.is(name)).map(|(_, value)| value)
    }

    fn children(self, kind: Kind) -> Items<'t, 'a> {
        let node = self.node();
        let end = if node.kind == kind { node.after as usize } else { self.index + 1 };
        Items { tape: self.tape, next: self.index + 1, end }
    }
}

/// The items of an array.
#[derive(Clone, Debug)]
pub struct Items<'t, 'a> {
    tape: &'t Tape<'a>,
    next: usize,
    end: usize,
}

impl<'t, 'a> Iterator for Items<'t, 'a> {
    type Item = Value<'t, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let value = Value { tape: self.tape, index: self.next };
        self.next = value.node().after as usize;
        Some(value)
    }
}

/// The members of an object.
#[derive(Clone, Debug)]
pub struct Members<'t, 'a>(Items<'t, 'a>);

impl<'t, 'a> Iterator for Members<'t, 'a> {
    type Item = (Value<'t, 'a>, Value<'t, 'a>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

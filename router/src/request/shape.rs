//! Checks a JSON value against a table of what is allowed, and finds the first mistake.
//!
//! A schema validator would do as well, but not say what was perhaps meant, and not at this speed: a
//! value that is right is checked without allocating.

use std::collections::HashMap;

use super::Error;
use crate::json::{self, Object, Value};

/// Up to here, comparing each with each is faster than a hash table.
const FEW: usize = 16;

/// How much of a wrong value is shown.
const SHOWN_CHARS: usize = 40;

/// What a value may be.
pub(super) enum Kind {
    /// Any list.
    AnyList,
    /// Any object.
    AnyObject,
    /// True or false.
    Bool,
    /// A whole number, also one that is written `2.0`.
    Integer { min: u64, max: u64 },
    /// Any text.
    Text,
    /// A text that is not empty, and has at most so many characters.
    Name { max: usize },
    /// One of these texts.
    Word(&'static [&'static str]),
    /// An object with these keys.
    Object(&'static Shape),
    /// Objects with these keys.
    List(&'static Shape),
    /// Texts that are not empty, each once.
    Names,
}

/// The keys of an object.
pub(super) struct Shape {
    pub(super) keys: &'static [Key],
    pub(super) others: Others,
}

/// What is done with keys that the table does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Refused,
    Ignored,
}

/// A key of an object.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) need: Need,
    pub(super) kind: Kind,
}

/// Whether a key must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

impl Kind {
    /// A text that is not empty.
    pub(super) const NAME: Self = Self::Name { max: usize::MAX };
    /// A whole number of at least one.
    pub(super) const COUNT: Self = Self::Integer { min: 1, max: u64::MAX };
}

/// Where a value stands. The text of it is made only when something is wrong there.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Root { schema: &'static str },
    Member(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Place<'_> {
    /// Returns the JSON pointer.
    pub(super) fn pointer(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Root { .. } => {}
            Self::Member(parent, key) => {
                parent.write(out);
                out.push('/');
                out.push_str(&json::pointer_segment(key));
            }
            Self::Item(parent, index) => {
                parent.write(out);
                out.push_str(&format!("/{index}"));
            }
        }
    }

    fn schema(&self) -> &'static str {
        match self {
            Self::Root { schema } => schema,
            Self::Member(parent, _) | Self::Item(parent, _) => parent.schema(),
        }
    }

    /// Makes the error of what is wrong here.
    pub(super) fn error(&self, message: String, suggestion: Option<String>) -> Error {
        Error::Invalid { message, pointer: self.pointer(), suggestion, schema: self.schema() }
    }

    fn wrong_type(&self, wanted: &str, value: &Value) -> Error {
        self.error(format!("{} must be {wanted}, not {}", self.name(), article(value)), None)
    }

    /// Returns how a message calls the value.
    fn name(&self) -> String {
        match self {
            Self::Root { .. } => "the request".to_owned(),
            Self::Member(_, key) => key.to_string(),
            Self::Item(Place::Member(_, key), index) => format!("{key}[{index}]"),
            Self::Item(_, index) => format!("[{index}]"),
        }
    }
}

/// Checks that a value is of a kind.
pub(super) fn check(value: &Value, kind: &Kind, place: &Place<'_>) -> Result<(), Error> {
    match (kind, value) {
        (Kind::AnyList, Value::Array(_))
        | (Kind::AnyObject, Value::Object(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Text, Value::String(_)) => Ok(()),
        (Kind::Integer { min, max }, _) => {
            let Some(number) = whole(value) else {
                return Err(place.wrong_type("an integer", value));
            };
            if number.is_some_and(|number| (min..=max).contains(&&number)) {
                return Ok(());
            }
            let range = match *max {
                u64::MAX => format!("at least {min}"),
                _ => format!("from {min} to {max}"),
            };
            Err(place.error(format!("{} must be {range}", place.name()), None))
        }
        (Kind::Name { max }, Value::String(text)) => check_length(text, *max, place),
        (Kind::Word(words), Value::String(text)) => {
            if words.contains(&text.as_str()) {
                return Ok(());
            }
            let message =
                format!("{} must be {}, not {}", place.name(), words.join(" or "), shown(text));
            Err(place.error(message, nearest(text, words.iter().copied())))
        }
        (Kind::Object(shape), Value::Object(object)) => check_object(object, shape, place),
        (Kind::List(shape), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let place = Place::Item(place, index);
                let Value::Object(object) = item else {
                    return Err(place.wrong_type("an object", item));
                };
                check_object(object, shape, &place)?;
            }
            Ok(())
        }
        (Kind::Names, Value::Array(items)) => check_names(items, place),
        (Kind::AnyList | Kind::List(_), _) => Err(place.wrong_type("an array", value)),
        (Kind::AnyObject | Kind::Object(_), _) => Err(place.wrong_type("an object", value)),
        (Kind::Bool, _) => Err(place.wrong_type("true or false", value)),
        (Kind::Text | Kind::Name { .. } | Kind::Word(_), _) => {
            Err(place.wrong_type("a string", value))
        }
        (Kind::Names, _) => Err(place.wrong_type("an array of strings", value)),
    }
}

/// Checks the keys of an object, then their values in the order given.
pub(super) fn check_object(object: &Object, shape: &Shape, place: &Place<'_>) -> Result<(), Error> {
    if shape.others == Others::Refused
        && let Some(unknown) = object.keys().find(|key| shape.key(key).is_none())
    {
        let message = format!("unknown key {}", shown(unknown));
        return Err(Place::Member(place, unknown).error(message, shape.meant_by(unknown)));
    }
    let is_missing = |key: &&Key| key.need == Need::Required && !object.contains_key(key.name);
    if let Some(missing) = shape.keys.iter().find(is_missing) {
        let message = format!("{} has no {}", place.name(), missing.name);
        return Err(place.error(message, None));
    }
    for (name, value) in object.iter() {
        if let Some(key) = shape.key(name) {
            check(value, &key.kind, &Place::Member(place, name))?;
        }
    }
    Ok(())
}

/// Finds a text that stands twice: the index of the first, and of the one that repeats it.
pub(super) fn repeated<'t>(
    texts: impl ExactSizeIterator<Item = &'t str> + Clone,
) -> Option<(usize, usize)> {
    if texts.len() <= FEW {
        return texts.clone().enumerate().find_map(|(index, text)| {
            let first = texts.clone().take(index).position(|earlier| earlier == text)?;
            Some((first, index))
        });
    }
    let mut seen = HashMap::with_capacity(texts.len());
    texts.enumerate().find_map(|(index, text)| Some((seen.insert(text, index)?, index)))
}

/// Returns a whole number as far as `u64` reaches; `None` inside is a number below zero.
///
/// Numbers above are `u64::MAX`: nothing that a request counts comes near.
pub(super) fn whole(value: &Value) -> Option<Option<u64>> {
    match value {
        Value::Int(number) => Some(u64::try_from(*number).ok()),
        Value::BigInt(digits) => Some((!digits.starts_with('-')).then_some(u64::MAX)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and not below zero; the cast saturates"
        )]
        Value::Float(number) if number.fract() == 0.0 => {
            Some((*number >= 0.0).then_some(*number as u64))
        }
        _ => None,
    }
}

impl Shape {
    fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Returns what was perhaps meant by a key: a similar one, or one that belongs a level deeper.
    fn meant_by(&self, unknown: &str) -> Option<String> {
        let deeper = |key: &Key| match key.kind {
            Kind::Object(shape) if shape.key(unknown).is_some() => {
                Some(format!("{}.{unknown}", key.name))
            }
            _ => None,
        };
        self.keys
            .iter()
            .find_map(deeper)
            .or_else(|| nearest(unknown, self.keys.iter().map(|key| key.name)))
    }
}

/// Returns the known word that is most like a text, if any is.
pub(super) fn nearest(text: &str, known: impl Iterator<Item = &'static str>) -> Option<String> {
    let text = text.to_lowercase();
    let scored = known.map(|word| (crate::near::likeness(&text, &word.to_lowercase()), word));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then(|| best.1.to_owned())
}

fn check_length(text: &str, max: usize, place: &Place<'_>) -> Result<(), Error> {
    if text.is_empty() {
        return Err(place.error(format!("{} must not be empty", place.name()), None));
    }
    // No text has more characters than bytes.
    if text.len() > max && text.chars().nth(max).is_some() {
        let message = format!("{} must have at most {max} characters", place.name());
        return Err(place.error(message, None));
    }
    Ok(())
}

fn check_names(items: &[Value], place: &Place<'_>) -> Result<(), Error> {
    for (index, item) in items.iter().enumerate() {
        check(item, &Kind::NAME, &Place::Item(place, index))?;
    }
    let texts = items.iter().map(|item| item.as_str().unwrap_or_default());
    let Some((first, again)) = repeated(texts) else { return Ok(()) };
    let pointer = Place::Item(place, first).pointer();
    let name = shown(items[again].as_str().unwrap_or_default());
    Err(Place::Item(place, again).error(format!("{name} stands already at {pointer:?}"), None))
}

/// Returns a text in quotes, cut off where it is too long for a message.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn article(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Object(_) | Value::Array(_) | Value::Int(_) | Value::BigInt(_) => {
            format!("an {}", value.type_name())
        }
        Value::Bool(_) | Value::Float(_) | Value::String(_) => format!("a {}", value.type_name()),
    }
}

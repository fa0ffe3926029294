//! The types of fields: what a declaration may say under `field_types`, and whether a value is of its type.
//!
//! The hash of a contract covers only the name of its validator, so that name holds the SHA-256 of the types.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use super::lint::Finding;
use super::number;
use crate::digest::Digest;
use crate::json::{self, Object, Value, to_canonical, to_repr};

/// The member of a declaration that has the types.
pub const FIELD_TYPES: &str = "field_types";
/// How the name of a validator of types begins; the SHA-256 of the types follows.
const PREFIX: &str = "typed_";
/// The version of that validator.
pub const TYPED_VERSION: &str = "1.0.0";
/// The most choices of an enum that a message names.
const TOLD: usize = 12;

/// The types that there are, with the members that each may have.
const TYPES: [(&str, &[&str]); 6] = [
    ("boolean", &[]),
    ("integer", &["minimum", "maximum"]),
    ("number", &["minimum", "maximum", "finite"]),
    ("string", &["min_length", "max_length"]),
    ("enum", &["values"]),
    ("timestamp", &["not_before", "not_after"]),
];

/// What a field may hold.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldType {
    /// True or false, and nothing that is only like it.
    Boolean,
    /// An integer of any size: `1.0` is none.
    Integer(Range),
    /// An integer or a float.
    Number(Range),
    /// A text of so many characters.
    String {
        /// The fewest.
        min_length: Option<u64>,
        /// The most.
        max_length: Option<u64>,
    },
    /// One of some texts.
    Enum(BTreeSet<String>),
    /// A moment, as RFC 3339 writes it.
    Timestamp {
        /// The first.
        not_before: Option<jiff::Timestamp>,
        /// The last.
        not_after: Option<jiff::Timestamp>,
    },
}

/// Between which numbers, both included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range {
    /// The least.
    pub minimum: Option<Value>,
    /// The greatest.
    pub maximum: Option<Value>,
}

/// Why a value is not of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is of another type.
    WrongType,
    /// It is too small, too great, too short, too long, too early or too late.
    OutOfRange,
    /// It is none of the choices.
    NotInValues,
    /// It is a text, and no moment.
    NotATimestamp,
}

/// The types of all fields of a contract.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldTypes(BTreeMap<String, FieldType>);

/// Returns the name of the validator that is bound to some types.
#[must_use]
pub fn validator_name(field_types: &Value) -> String {
    format!("{PREFIX}{}", Digest::of(to_canonical(field_types).as_bytes()))
}

/// Says whether a validator is one of types, by its name.
#[must_use]
pub fn is_typed_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(super::pattern::is_hash)
}

/// Returns what is wrong with the types of a declaration; nothing, if it has none and says so.
#[must_use]
pub fn findings(declaration: &Object) -> Vec<Finding> {
    let text = |key: &str| declaration.get(key).and_then(Value::as_str).unwrap_or_default();
    let Some(types) = declaration.get(FIELD_TYPES) else {
        if is_typed_name(text("validator_name")) {
            let message = "validator_name is bound to field_types, and there are none";
            return vec![Finding::error("/validator_name", message)];
        }
        return Vec::new();
    };
    let mut findings = match FieldTypes::read(types) {
        Ok(types) => unmatched(declaration, &types),
        Err(findings) => findings,
    };
    let expected = validator_name(types);
    if text("validator_name") != expected {
        let message = format!("validator_name must be '{expected}', which binds field_types");
        findings.push(Finding::error("/validator_name", message));
    }
    if text("validator_version") != TYPED_VERSION {
        let message = format!("validator_version must be '{TYPED_VERSION}' beside field_types");
        findings.push(Finding::error("/validator_version", message));
    }
    findings
}

/// Tells which fields have no type, and which types have no field.
fn unmatched(declaration: &Object, types: &FieldTypes) -> Vec<Finding> {
    let fields = declaration.get("output_fields").and_then(Value::as_array).unwrap_or_default();
    let fields: BTreeSet<&str> = fields.iter().filter_map(Value::as_str).collect();
    let untyped = fields
        .iter()
        .filter(|field| types.get(field).is_none())
        .map(|field| Finding::error("/field_types", format!("output field '{field}' has no type")));
    let unknown = types.0.keys().filter(|name| !fields.contains(name.as_str())).map(|name| {
        Finding::error(place(name), format!("'{name}' has a type, and is no output field"))
    });
    untyped.chain(unknown).collect()
}

fn place(name: &str) -> String {
    format!("/{FIELD_TYPES}/{}", json::pointer_segment(name))
}

impl FieldTypes {
    /// Reads types.
    ///
    /// # Errors
    /// With everything that is wrong with them.
    pub fn read(types: &Value) -> Result<Self, Vec<Finding>> {
        let Some(types) = types.as_object() else {
            let message = "field_types must be an object: a type for each output field";
            return Err(vec![Finding::error(format!("/{FIELD_TYPES}"), message)]);
        };
        let (mut read, mut findings) = (BTreeMap::new(), Vec::new());
        for (name, value) in types {
            match field_type(value) {
                Ok(known) => {
                    read.insert(name.to_owned(), known);
                }
                Err(wrong) => findings.extend(wrong.into_iter().map(|(member, message)| {
                    let message = format!("the type of '{name}' {message}");
                    Finding::error(format!("{}{member}", place(name)), message)
                })),
            }
        }
        if findings.is_empty() { Ok(Self(read)) } else { Err(findings) }
    }

    /// Returns the type of a field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&FieldType> {
        self.0.get(field)
    }
}

/// A mistake: the pointer below the type, and what goes on behind its name.
type Wrong = (String, String);

fn field_type(value: &Value) -> Result<FieldType, Vec<Wrong>> {
    let alone = |message: &str| Err(vec![(String::new(), message.to_owned())]);
    let Some(members) = value.as_object() else {
        return alone("is not an object");
    };
    let name = members.get("type").and_then(Value::as_str).unwrap_or_default();
    let Some((_, allowed)) = TYPES.iter().find(|(known, _)| *known == name) else {
        let known = TYPES.map(|(known, _)| known).join(", ");
        return Err(vec![("/type".to_owned(), format!("must be one of {known}"))]);
    };
    let mut wrong: Vec<Wrong> = members
        .keys()
        .filter(|key| *key != "type" && !allowed.contains(key))
        .map(|key| (String::new(), format!("has an unknown member {}", to_repr(&key.into()))))
        .collect();
    let read = match name {
        "boolean" => FieldType::Boolean,
        "integer" => FieldType::Integer(range(members, false, &mut wrong)),
        "number" => {
            if members.get("finite").is_some_and(|finite| *finite != Value::Bool(true)) {
                let message = "can only be finite: JSON has no other numbers";
                wrong.push(("/finite".to_owned(), message.to_owned()));
            }
            FieldType::Number(range(members, true, &mut wrong))
        }
        "string" => {
            let mut length = |key: &str| {
                let value = members.get(key)?;
                let length = value.as_i64().and_then(|length| u64::try_from(length).ok());
                if length.is_none() {
                    wrong.push((format!("/{key}"), format!("has a {key} that is no length")));
                }
                length
            };
            let (min_length, max_length) = (length("min_length"), length("max_length"));
            if min_length.zip(max_length).is_some_and(|(least, most)| least > most) {
                wrong.push(("/min_length".to_owned(), "lets nothing through".to_owned()));
            }
            FieldType::String { min_length, max_length }
        }
        "enum" => FieldType::Enum(choices(members, &mut wrong)),
        _ => {
            let mut bound = |key: &str| {
                let value = members.get(key)?;
                let bound = value.as_str().and_then(moment);
                if bound.is_none() {
                    let message = format!("has a {key} that is no RFC 3339 timestamp");
                    wrong.push((format!("/{key}"), message));
                }
                bound
            };
            let (not_before, not_after) = (bound("not_before"), bound("not_after"));
            if not_before.zip(not_after).is_some_and(|(first, last)| first > last) {
                wrong.push(("/not_before".to_owned(), "lets nothing through".to_owned()));
            }
            FieldType::Timestamp { not_before, not_after }
        }
    };
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

fn range(members: &Object, floats: bool, wrong: &mut Vec<Wrong>) -> Range {
    let mut bound = |key: &str| {
        let value = members.get(key)?;
        let fits = match value {
            Value::Int(_) | Value::BigInt(_) => true,
            Value::Float(_) => floats,
            _ => false,
        };
        if !fits {
            let kind = if floats { "number" } else { "integer" };
            wrong.push((format!("/{key}"), format!("has a {key} that is no {kind}")));
        }
        fits.then(|| value.clone())
    };
    let range = Range { minimum: bound("minimum"), maximum: bound("maximum") };
    if let (Some(least), Some(most)) = (&range.minimum, &range.maximum)
        && number::order(least, most).is_some_and(std::cmp::Ordering::is_gt)
    {
        wrong.push(("/minimum".to_owned(), "lets nothing through".to_owned()));
    }
    range
}

fn choices(members: &Object, wrong: &mut Vec<Wrong>) -> BTreeSet<String> {
    let given = members.get("values").and_then(Value::as_array).unwrap_or_default();
    let choices: BTreeSet<String> =
        given.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if choices.is_empty() || choices.len() != given.len() {
        let message = "needs values: a list of texts that is not empty and has none twice";
        wrong.push(("/values".to_owned(), message.to_owned()));
    }
    choices
}

/// Reads a moment in the strict form of RFC 3339; others would read other forms differently, or not at all.
fn moment(text: &str) -> Option<jiff::Timestamp> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let shaped = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    let (begin, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
    let end = rest.find(['Z', '+', '-'])?;
    let (fraction, offset) = rest.split_at(end);
    let fraction_fits = fraction.is_empty() || fraction.strip_prefix('.').is_some_and(digits);
    let offset_fits = offset == "Z" || shaped(offset.get(1..)?, "00:00");
    (shaped(begin, "0000-00-00T00:00:00") && fraction_fits && offset_fits)
        .then(|| jiff::Timestamp::from_str(text).ok())
        .flatten()
}

impl Range {
    fn holds(&self, value: &Value) -> bool {
        let below = self.minimum.as_ref().and_then(|least| number::order(value, least));
        let above = self.maximum.as_ref().and_then(|most| number::order(value, most));
        !below.is_some_and(std::cmp::Ordering::is_lt)
            && !above.is_some_and(std::cmp::Ordering::is_gt)
    }
}

impl FieldType {
    /// Says whether a value is of this type.
    ///
    /// # Errors
    /// With the reason why it is not.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        let within = |holds: bool| if holds { Ok(()) } else { Err(Misfit::OutOfRange) };
        match (self, value) {
            (Self::Boolean, Value::Bool(_)) => Ok(()),
            (Self::Integer(range), Value::Int(_) | Value::BigInt(_))
            | (Self::Number(range), Value::Int(_) | Value::BigInt(_) | Value::Float(_)) => {
                within(range.holds(value))
            }
            (Self::String { min_length, max_length }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                within(
                    min_length.is_none_or(|least| least <= length)
                        && max_length.is_none_or(|most| length <= most),
                )
            }
            (Self::Enum(choices), Value::String(text)) => match choices.contains(text) {
                true => Ok(()),
                false => Err(Misfit::NotInValues),
            },
            (Self::Timestamp { not_before, not_after }, Value::String(text)) => {
                let moment = moment(text).ok_or(Misfit::NotATimestamp)?;
                within(
                    not_before.is_none_or(|first| first <= moment)
                        && not_after.is_none_or(|last| moment <= last),
                )
            }
            _ => Err(Misfit::WrongType),
        }
    }

    /// Tells what the type lets through, for messages.
    #[must_use]
    pub fn told(&self) -> String {
        let bounds = |what: &str, least: Option<String>, most: Option<String>| match (least, most) {
            (None, None) => what.to_owned(),
            (Some(least), None) => format!("{what} from {least}"),
            (None, Some(most)) => format!("{what} up to {most}"),
            (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
        };
        let of = |range: &Range, what: &str| {
            let shown = |bound: &Option<Value>| bound.as_ref().map(to_canonical);
            bounds(what, shown(&range.minimum), shown(&range.maximum))
        };
        match self {
            Self::Boolean => "boolean".to_owned(),
            Self::Integer(range) => of(range, "integer"),
            Self::Number(range) => of(range, "number"),
            Self::String { min_length, max_length } => {
                let shown = |length: &Option<u64>| length.map(|it| format!("{it} characters"));
                bounds("string", shown(min_length), shown(max_length))
            }
            Self::Enum(choices) => {
                let named: Vec<&str> = choices.iter().take(TOLD).map(String::as_str).collect();
                let more = if choices.len() > TOLD { ", …" } else { "" };
                format!("one of {}{more}", named.join(", "))
            }
            Self::Timestamp { not_before, not_after } => {
                let shown = |it: &Option<jiff::Timestamp>| it.map(|it| it.to_string());
                bounds("RFC 3339 timestamp", shown(not_before), shown(not_after))
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Validators: whoever says of the fields that an adapter gave whether each is what the contract promises.
//!
//! There are two: the one of the AiGentsy tools, for which every field is a boolean, and one for each set of types. A
//! contract with any other validator is evaluated by nobody.

use std::collections::{HashMap, HashSet};

use super::types::{self, FieldType, FieldTypes, Misfit};
use crate::json::{Object, Value};

/// The validator of the AiGentsy tools, and its version.
pub(super) const STARTER: (&str, &str) = ("starter_boolean_validator", "1.0.0");
/// The most fields that are told one by one; an output of a million wrong ones must not become a million reasons.
const MOST: usize = 100;
/// The most characters that are told of the name of a field which no contract has.
const LONGEST_NAME: usize = 128;

/// A validator that is known here.
#[derive(Clone, Debug, PartialEq)]
pub enum Validator {
    /// Every field is a boolean.
    Boolean,
    /// Every field has its type.
    Typed(FieldTypes),
}

/// A validator that is not known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the validator {name} {version} is not known here")]
pub struct UnknownValidator {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Why a field was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The contract promises it, and it is not there.
    Missing,
    /// It is there, and the contract does not have it.
    UnknownField,
    /// It is not of its type.
    Misfit(Misfit),
    /// What was given has no fields at all.
    NotAnObject,
    /// It stands for all those that are not told one by one.
    More,
}

impl Reason {
    /// Returns the stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::UnknownField => "unknown_field",
            Self::Misfit(Misfit::WrongType) => "wrong_type",
            Self::Misfit(Misfit::OutOfRange) => "out_of_range",
            Self::Misfit(Misfit::NotInValues) => "not_in_values",
            Self::Misfit(Misfit::NotATimestamp) => "not_a_timestamp",
            Self::NotAnObject => "not_an_object",
            Self::More => "and_more",
        }
    }
}

/// A field that was not let through. Its value is not told: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The field; none, if it is about all of them.
    pub field: String,
    /// Why.
    pub reason: Reason,
    /// What the contract lets through there.
    pub expected: Option<String>,
    /// The type of what was given.
    pub got: Option<&'static str>,
}

impl Rejection {
    /// Returns the form in an evaluation.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("field", self.field.as_str());
        object.insert("reason", self.reason.name());
        if let Some(expected) = &self.expected {
            object.insert("expected", expected.as_str());
        }
        if let Some(got) = self.got {
            object.insert("got", got);
        }
        object.into()
    }
}

impl Validator {
    /// Finds the validator that a declaration names.
    ///
    /// # Errors
    /// When it is not known here, or its types are not those that its name is bound to.
    pub fn of(declaration: &Object) -> Result<Self, UnknownValidator> {
        let text = |key: &str| declaration.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, version) = (text("validator_name"), text("validator_version"));
        let unknown = || UnknownValidator { name: name.to_owned(), version: version.to_owned() };
        if (name, version) == STARTER {
            return Ok(Self::Boolean);
        }
        let types = declaration.get(types::FIELD_TYPES).ok_or_else(unknown)?;
        if !types::findings(declaration).is_empty() {
            return Err(unknown());
        }
        FieldTypes::read(types).map(Self::Typed).map_err(|_| unknown())
    }

    /// Returns the type of a field of the contract.
    #[must_use]
    pub fn field_type(&self, field: &str) -> Option<&FieldType> {
        match self {
            Self::Boolean => Some(&FieldType::Boolean),
            Self::Typed(types) => types.get(field),
        }
    }

    /// Looks at the value of one field of the contract.
    #[must_use]
    pub fn check_value(&self, field: &str, value: &Value) -> Option<Rejection> {
        // A field without a type is let through by nobody.
        let known = self.field_type(field);
        let reason = match known {
            Some(known) => known.check(value).err().map(Reason::Misfit)?,
            None => Reason::UnknownField,
        };
        Some(Rejection {
            field: field.to_owned(),
            reason,
            expected: known.map(FieldType::told),
            got: Some(value.type_name()),
        })
    }

    /// Holds what an adapter gave to the fields of its contract, and returns everything that is wrong.
    #[must_use]
    pub fn check(&self, fields: &[String], given: &Value) -> Vec<Rejection> {
        let Some(given) = given.as_object() else {
            return vec![Rejection {
                field: String::new(),
                reason: Reason::NotAnObject,
                expected: Some("object".to_owned()),
                got: Some(given.type_name()),
            }];
        };
        let by_name: HashMap<&str, &Value> = given.iter().collect();
        let declared: HashSet<&str> = fields.iter().map(String::as_str).collect();
        let wrong = fields.iter().filter_map(|field| match by_name.get(field.as_str()) {
            Some(value) => self.check_value(field, value),
            None => Some(Rejection {
                field: field.clone(),
                reason: Reason::Missing,
                expected: self.field_type(field).map(FieldType::told),
                got: None,
            }),
        });
        let extra = given.iter().filter(|(name, _)| !declared.contains(name)).map(|(name, _)| {
            let field = name.chars().take(LONGEST_NAME).collect();
            Rejection { field, reason: Reason::UnknownField, expected: None, got: None }
        });
        // What is worse comes first, so that it is told whatever is left out.
        let (mut missing, mut rejections): (Vec<Rejection>, Vec<Rejection>) =
            wrong.chain(extra).partition(|rejection| rejection.reason == Reason::Missing);
        rejections.append(&mut missing);
        bounded(rejections)
    }
}

fn bounded(mut rejections: Vec<Rejection>) -> Vec<Rejection> {
    if rejections.len() > MOST {
        let more = rejections.len() - MOST;
        rejections.truncate(MOST);
        rejections.push(Rejection {
            field: String::new(),
            reason: Reason::More,
            expected: Some(format!("{more} more fields are wrong")),
            got: None,
        });
    }
    rejections
}

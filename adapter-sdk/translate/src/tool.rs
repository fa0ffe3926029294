//! The tools of a document, in the shape that the compiler of 2.1.3 gives them.

use crate::document::{members, of_kind, of_string, one_of};
use crate::refusal::{Refusal, rule};
use crate::tape::{Kind, Value};

/// A tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'t, 'a> {
    /// Its name.
    pub name: Value<'t, 'a>,
    /// What it is for: a string, or null.
    pub description: Value<'t, 'a>,
    /// The JSON Schema of its parameters, of which only the root is looked at.
    pub parameters: Value<'t, 'a>,
    /// The whole tool.
    pub value: Value<'t, 'a>,
}

impl<'t, 'a> Tool<'t, 'a> {
    pub(crate) fn decode(value: Value<'t, 'a>) -> Result<Self, Refusal> {
        let [function, _] = members(value, ["function", "type"])?;
        one_of(value, "type", &["function"], rule::VALUE_UNKNOWN)?;
        let [description, name, parameters] =
            members(function, ["description", "name", "parameters"])?;
        if description.kind() != Kind::Null {
            of_string(description)?;
        }
        of_string(name)?;
        of_kind(parameters, Kind::Object)?;
        one_of(parameters, "type", &["object"], rule::VALUE_UNKNOWN)?;
        Ok(Self { name, description, parameters, value })
    }
}

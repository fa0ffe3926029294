//! Holds the JSON Schemas of tools to the table. Schemas themselves pass through as they are.

use alloc::format;
use alloc::vec;

use crate::document::refuse;
use crate::refusal::{Refusal, rule};
use crate::table::{Strict, Table, Vocabulary};
use crate::tape::{Kind, Value};

/// Looks at the keywords of the root, and at the names of parameters.
pub(crate) fn hold_root(parameters: Value<'_, '_>, table: &Table) -> Result<(), Refusal> {
    for keyword in table.refused_at_root {
        if let Some(found) = parameters.get(keyword) {
            let why = format!("{keyword} may not stand at the root of parameters");
            return Err(refuse(found, rule::SCHEMA_ROOT_NOT_EXPRESSIBLE, &why));
        }
    }
    let Some(rule_of_names) = &table.parameter_name else { return Ok(()) };
    let properties = parameters.get("properties");
    for (name, _) in properties.into_iter().flat_map(Value::members) {
        if !rule_of_names.accepts(name.chars()) {
            let why = format!("a name must match {}", rule_of_names.pattern());
            return Err(refuse(name, rule::PARAMETER_NAME_CONSTRAINT, &why));
        }
    }
    Ok(())
}

/// Refuses keywords that the provider would drop.
pub(crate) fn hold_vocabulary(
    parameters: Value<'_, '_>,
    vocabulary: &Vocabulary,
) -> Result<(), Refusal> {
    keeps(parameters, vocabulary.root)?;
    let properties = parameters.get("properties");
    properties
        .into_iter()
        .flat_map(Value::members)
        .try_for_each(|(_, property)| keeps(property, vocabulary.property))
}

/// A schema that is no object (`true`) would be dropped too, and so would a null behind a known keyword.
fn keeps(schema: Value<'_, '_>, known: &[&str]) -> Result<(), Refusal> {
    let dropped =
        |value, why: &str| Err(refuse(value, rule::SCHEMA_KEYWORDS_SILENTLY_DROPPED, why));
    if schema.kind() != Kind::Object {
        return dropped(schema, "the provider knows only schemas that are objects");
    }
    for (keyword, value) in schema.members() {
        if !known.iter().any(|known| keyword.is(known)) {
            return dropped(value, &format!("the provider keeps only {}", known.join(", ")));
        }
        if value.kind() == Kind::Null {
            return dropped(value, "the provider leaves out what is null");
        }
    }
    Ok(())
}

/// Refuses parameters that are not closed as `strict` needs. Every object with the shape of a schema is
/// looked at, wherever it stands: what is no schema and looks like one is refused too.
pub(crate) fn hold_strict(parameters: Value<'_, '_>, strict: Strict) -> Result<(), Refusal> {
    let open = |value, why: &str| Err(refuse(value, rule::STRICT_NOT_EXPRESSIBLE, why));
    let mut left = vec![parameters];
    while let Some(value) = left.pop() {
        left.extend(value.items());
        left.extend(value.members().map(|(_, member)| member));
        let is_object = value.get("type").is_some_and(|found| found.is("object"));
        if is_object && value.get("additionalProperties").is_none_or(|found| found.raw() != "false")
        {
            return open(value, "additionalProperties must be false");
        }
        if strict != Strict::ClosedAndRequired {
            continue;
        }
        if let Some(found) = value.get("oneOf").filter(|found| found.kind() == Kind::Array) {
            return open(found, "oneOf may not stand in parameters");
        }
        if !is_object {
            continue;
        }
        for (name, _) in value.get("properties").into_iter().flat_map(Value::members) {
            let mut required = value.get("required").into_iter().flat_map(Value::items);
            if !required.any(|known| known.raw() == name.raw()) {
                return open(name, "every property must be required");
            }
        }
    }
    Ok(())
}

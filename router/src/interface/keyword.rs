//! The keywords of JSON Schema 2020-12: what each holds.

use crate::json::Value;

/// The only dialect, which is meant where none is named.
pub(super) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What a keyword holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Members,
    /// A number.
    Number,
    /// A number above 0.
    Positive,
    /// An integer that is not negative.
    Count,
    /// A text.
    Text,
    /// True or false.
    Truth,
    /// A list of texts, each once.
    Names,
    /// Lists of texts by name.
    NamesByName,
    /// A type, or a list of types.
    Types,
    /// A list of values.
    Values,
    /// Anything.
    Any,
}

/// Every type that there is.
pub(super) const TYPES: [&str; 7] =
    ["null", "boolean", "integer", "number", "string", "array", "object"];

/// What only describes. A validator does not look at it.
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "$comment",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "default",
];

/// Returns what a keyword holds; none if nobody knows it.
pub(super) fn shape(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "additionalProperties"
        | "propertyNames"
        | "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Shape::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::Schemas,
        "$defs" | "properties" | "patternProperties" | "dependentSchemas" => Shape::Members,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Shape::Number,
        "multipleOf" => Shape::Positive,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Shape::Count,
        "$ref" | "$schema" | "$comment" | "title" | "description" | "pattern" | "format"
        | "contentEncoding" | "contentMediaType" => Shape::Text,
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => Shape::Truth,
        "required" => Shape::Names,
        "dependentRequired" => Shape::NamesByName,
        "type" => Shape::Types,
        "enum" | "examples" => Shape::Values,
        "const" | "default" => Shape::Any,
        _ => return None,
    })
}

/// Says whether a keyword only describes, as those do that begin with `x-`.
pub(super) fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

/// Says whether a keyword asks nothing of a value where it stands.
pub(super) fn asks_nothing(keyword: &str) -> bool {
    is_annotation(keyword) || matches!(keyword, "$defs" | "$schema")
}

/// Returns where a reference leads to; none if that is not in the document, or nowhere.
///
/// A name with a percent sign would be read in two ways, and is not followed.
pub(crate) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}

/// Returns a number as validators compare it.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "validators compare floats")]
        Value::Int(integer) => Some(*integer as f64),
        Value::BigInt(digits) => {
            digits.parse::<f64>().ok().map(|float| float.clamp(f64::MIN, f64::MAX))
        }
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

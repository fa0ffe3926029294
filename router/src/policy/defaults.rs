//! Defaults of an operation's arguments: what its interface contract writes for members that the caller leaves out.
//!
//! A default is taken only from schemas that hold for every call: `properties`, `items`, `allOf` and local references, and
//! not from branches such as `anyOf`. It is left out where its presence alone could break the schema, as beside a `oneOf`
//! that mentions the member. So arguments that fit without their defaults fit with them.

use std::sync::Arc;

use super::{Act, Law};
use crate::interface::reference_target;
use crate::json::{self, Object, Value};

/// The most bytes that the defaults of one call may add.
const MAX_ADDED: usize = 1 << 20;
/// The most schemas that are looked at in one contract; references may multiply them.
const MAX_SCHEMAS: usize = 10_000;
/// Keywords whose schemas hold for some calls only.
const BRANCHES: [&str; 8] =
    ["anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired"];
/// Keywords that count or name all members of an object.
const WHOLE: [&str; 9] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "maxProperties",
    "minProperties",
    "const",
    "enum",
    "$ref",
];

/// Defaults of a value and of what is in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputDefaults {
    members: Vec<MemberDefault>,
    items: Option<Box<Self>>,
}

/// Default of a member, and of what is in it.
#[derive(Clone, Debug, PartialEq)]
struct MemberDefault {
    name: String,
    value: Option<Value>,
    /// Bytes of the text of the default.
    bytes: usize,
    inner: InputDefaults,
}

/// The defaults of a call are larger than they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of its contract would add more than {MAX_ADDED} bytes")]
pub struct DefaultsTooLarge;

impl InputDefaults {
    /// Reads the defaults of a schema.
    #[must_use]
    pub fn of(schema: &Value) -> Self {
        let mut reader = Reader { root: schema, left: MAX_SCHEMAS };
        let mut defaults = Self::default();
        reader.read(schema, &mut Vec::new(), &mut defaults);
        defaults.prune();
        defaults
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.items.is_none()
    }

    /// Returns arguments with their defaults; none if they lack nothing.
    ///
    /// # Errors
    /// When the defaults would be too large.
    pub fn fill(&self, args: &Object) -> Result<Option<Object>, DefaultsTooLarge> {
        if !self.adds_to_object(args) {
            return Ok(None);
        }
        let (mut args, mut room) = (args.clone(), MAX_ADDED);
        self.fill_object(&mut args, &mut room)?;
        Ok(Some(args))
    }

    fn adds_to_object(&self, object: &Object) -> bool {
        self.members.iter().any(|member| match object.get(&member.name) {
            Some(value) => member.inner.adds_to(value),
            None => member.value.is_some(),
        })
    }

    fn adds_to(&self, value: &Value) -> bool {
        match (value, &self.items) {
            (Value::Object(object), _) => self.adds_to_object(object),
            (Value::Array(items), Some(of_items)) => items.iter().any(|it| of_items.adds_to(it)),
            _ => false,
        }
    }

    fn fill_object(&self, object: &mut Object, room: &mut usize) -> Result<(), DefaultsTooLarge> {
        for MemberDefault { name, value, bytes, inner } in &self.members {
            if let (false, Some(value)) = (object.contains_key(name), value) {
                *room = room.checked_sub(*bytes).ok_or(DefaultsTooLarge)?;
                object.insert(name, value.clone());
            }
            if let Some(value) = object.get_mut(name) {
                inner.fill_value(value, room)?;
            }
        }
        Ok(())
    }

    fn fill_value(&self, value: &mut Value, room: &mut usize) -> Result<(), DefaultsTooLarge> {
        match (value, &self.items) {
            (Value::Object(object), _) => self.fill_object(object, room),
            (Value::Array(items), Some(of_items)) => {
                items.iter_mut().try_for_each(|item| of_items.fill_value(item, room))
            }
            _ => Ok(()),
        }
    }

    fn member(&mut self, name: &str) -> &mut MemberDefault {
        let at = self.members.iter().position(|member| member.name == name);
        let at = at.unwrap_or_else(|| {
            let (name, inner) = (name.to_owned(), Self::default());
            self.members.push(MemberDefault { name, value: None, bytes: 0, inner });
            self.members.len() - 1
        });
        &mut self.members[at]
    }

    /// Removes members without a default in or below them.
    fn prune(&mut self) {
        self.members.retain_mut(|member| {
            member.inner.prune();
            member.value.is_some() || !member.inner.is_empty()
        });
        self.items = self.items.take().and_then(|mut items| {
            items.prune();
            (!items.is_empty()).then_some(items)
        });
    }
}

/// Reads the defaults of one schema document.
struct Reader<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Reader<'a> {
    /// Adds the defaults of a schema to those that are known. `branches` are the conditional parts of this schema and of
    /// all around it.
    fn read(&mut self, schema: &'a Value, branches: &mut Vec<&'a Value>, into: &mut InputDefaults) {
        let Some(keywords) = schema.as_object() else { return };
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let outer = branches.len();
        branches.extend(BRANCHES.iter().filter_map(|keyword| keywords.get(keyword)));
        let counted = keywords.contains_key("maxProperties");
        for (name, member) in
            keywords.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let known = into.member(name);
            let default = member.get("default").filter(|_| known.value.is_none() && !counted);
            let is_sound = |_: &&Value| !branches.iter().any(|branch| mentions(branch, name));
            if let Some(default) = default.filter(is_sound) {
                known.bytes = name.len() + json::to_compact(default).len();
                known.value = Some(default.clone());
            }
            self.read(member, branches, &mut known.inner);
        }
        let compared = ["uniqueItems", "contains", "prefixItems"];
        if let Some(items) = keywords.get("items")
            && !compared.iter().any(|keyword| keywords.contains_key(keyword))
        {
            self.read(items, branches, into.items.get_or_insert_default());
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.read(part, branches, into);
        }
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str)
            && let Some(target) = reference_target(self.root, target)
        {
            self.read(target, branches, into);
        }
        branches.truncate(outer);
    }
}

/// Reports whether a conditional part of a schema may depend on the presence of a member.
fn mentions(part: &Value, name: &str) -> bool {
    match part {
        Value::String(text) => text == name,
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        Value::Object(object) => object
            .iter()
            .any(|(key, value)| key == name || WHOLE.contains(&key) || mentions(value, name)),
        _ => false,
    }
}

impl Law {
    /// Returns the arguments of a call with the defaults of its contract; none if they lack nothing.
    ///
    /// # Errors
    /// When the defaults would be too large.
    pub fn fill_args(
        &self,
        act: Act<'_>,
        args: &Object,
    ) -> Result<Option<Object>, DefaultsTooLarge> {
        match self.operation(act).map(Arc::as_ref) {
            Some(operation) if !operation.defaults.is_empty() => operation.defaults.fill(args),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn value(text: &str) -> Value {
        parse(text.as_bytes(), Limits::REQUEST).unwrap()
    }

    fn filled(schema: &str, args: &str) -> String {
        let args = value(args).into_object().unwrap();
        match InputDefaults::of(&value(schema)).fill(&args).unwrap() {
            Some(filled) => json::to_compact(&filled.into()),
            None => "unchanged".to_owned(),
        }
    }

    #[test]
    fn absent_members_get_their_defaults() {
        let schema =
            r#"{"properties": {"limit": {"default": 10}, "query": {}, "deep": {"default": null}}}"#;
        assert_eq!(filled(schema, r#"{"query":"a"}"#), r#"{"query":"a","limit":10,"deep":null}"#);
        assert_eq!(filled(schema, r#"{"deep":1,"limit":null}"#), "unchanged");
        assert_eq!(filled(r#"{"properties": {"query": {}}}"#, "{}"), "unchanged");
        assert!(
            InputDefaults::of(&value(r#"{"properties": {"a": {"properties": {}}}}"#)).is_empty()
        );
    }

    #[test]
    fn nested_members_get_theirs_where_their_object_is() {
        let schema = r##"{"$defs": {"page": {"properties": {"size": {"default": 5}}}},
            "properties": {
                "page": {"$ref": "#/$defs/page"},
                "rows": {"items": {"properties": {"id": {"default": 0}}}},
                "all": {"default": {}, "allOf": [{"properties": {"x": {"default": 1}}}]}}}"##;
        assert_eq!(
            filled(schema, r#"{"page":{},"rows":[{},{"id":7},3],"all":{"x":2}}"#),
            r#"{"page":{"size":5},"rows":[{"id":0},{"id":7},3],"all":{"x":2}}"#
        );
        assert_eq!(filled(schema, "{}"), r#"{"all":{"x":1}}"#);
        assert_eq!(filled(schema, r#"{"page":"?","rows":{},"all":0}"#), "unchanged");
    }

    #[test]
    fn defaults_that_could_break_the_schema_are_left_out() {
        let property = r#""properties": {"a": {"default": 1}}"#;
        for beside in [
            r#""oneOf": [{"required": ["a"]}, {"required": ["b"]}]"#,
            r#""not": {"properties": {"a": false}}"#,
            r#""dependentRequired": {"a": ["b"]}"#,
            r#""if": {"maxProperties": 1}"#,
            r#""maxProperties": 1"#,
        ] {
            assert_eq!(filled(&format!("{{{property}, {beside}}}"), "{}"), "unchanged", "{beside}");
        }
        let other =
            format!(r#"{{{property}, "anyOf": [{{"required": ["b"]}}, {{"required": ["c"]}}]}}"#);
        assert_eq!(filled(&other, "{}"), r#"{"a":1}"#);
        // A branch of an outer schema counts, and a default inside of a branch never does.
        let outer = format!(
            r#"{{"properties": {{"o": {{{property}}}}}, "not": {{"properties": {{"o": {{"required": ["a"]}}}}}}}}"#
        );
        assert_eq!(filled(&outer, r#"{"o":{}}"#), "unchanged");
        assert_eq!(filled(&format!(r#"{{"anyOf": [{{{property}}}]}}"#), "{}"), "unchanged");
        let unique = format!(
            r#"{{"properties": {{"l": {{"uniqueItems": true, "items": {{{property}}}}}}}}}"#
        );
        assert_eq!(filled(&unique, r#"{"l":[{}]}"#), "unchanged");
    }

    #[test]
    fn what_defaults_add_is_bounded() {
        let large = "x".repeat(MAX_ADDED / 10);
        let schema = format!(
            r#"{{"properties": {{"l": {{"items": {{"properties": {{"t": {{"default": "{large}"}}}}}}}}}}}}"#
        );
        let defaults = InputDefaults::of(&value(&schema));
        let args = |count: usize| {
            let items = vec!["{}"; count].join(",");
            value(&format!(r#"{{"l":[{items}]}}"#)).into_object().unwrap()
        };
        assert!(defaults.fill(&args(9)).unwrap().is_some());
        assert_eq!(defaults.fill(&args(11)), Err(DefaultsTooLarge));
    }
}

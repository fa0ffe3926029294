//! What it may cost to hold a value to a schema, known before it is tried.
//!
//! A few lines of references can ask for more looks at a value than there is time, and for more stack than there
//! is. So the schema is unfolded, reference by reference, up to a limit; what refers back to itself is only held
//! to values that are not nested so deeply that its branches multiply, or its levels add up, beyond a limit. A
//! reference that cannot be followed here is refused, since nobody can say what it would cost.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// So many parts a schema may have when its references are unfolded.
const PARTS: usize = 20_000;
/// So many parts may stand within each other when its references are unfolded; each takes some stack.
const LEVELS: usize = 200;
/// So many ways there may be through a schema that refers back to itself.
const WAYS: f64 = 1_000_000.0;
/// So many levels a value may lead through in a schema that refers back to itself.
const STACK: usize = 400;

/// What a schema may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Values may be nested so deeply; none means as deeply as they like.
    depth: Option<usize>,
}

impl Cost {
    /// Unfolds a schema.
    ///
    /// # Errors
    /// With what keeps it from being used.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut unfolding =
            Unfolding { root: schema, parts: 0, level: 0, deepest: 0, back: 0, path: Vec::new() };
        unfolding.part(schema)?;
        let by_stack = STACK / unfolding.deepest.max(1);
        let depth = match unfolding.back {
            0 => None,
            1 => Some(by_stack),
            // A small number, by its making.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 19")]
            #[expect(clippy::cast_precision_loss, reason = "at most PARTS")]
            back => Some(((WAYS.ln() / (back as f64).ln()) as usize + 1).min(by_stack)),
        };
        Ok(Self { depth })
    }

    /// Says how deeply a value may be nested, if this one is too deeply.
    pub(super) fn exceeded(self, value: &Value) -> Option<usize> {
        self.depth.filter(|depth| is_deeper(value, *depth))
    }
}

struct Unfolding<'a> {
    root: &'a Value,
    parts: usize,
    level: usize,
    deepest: usize,
    /// References to what is being unfolded.
    back: usize,
    path: Vec<&'a Value>,
}

impl<'a> Unfolding<'a> {
    /// Unfolds a schema, or a part of one that is a schema itself.
    fn part(&mut self, part: &'a Value) -> Result<(), String> {
        self.parts += 1;
        if self.parts > PARTS {
            return Err("its references unfold to too much".to_owned());
        }
        // What is no object has no parts: true, false, or a mistake that is told elsewhere.
        let Value::Object(members) = part else { return Ok(()) };
        self.level += 1;
        self.deepest = self.deepest.max(self.level);
        if self.level > LEVELS {
            return Err(format!("its parts stand within each other more than {LEVELS} times"));
        }
        for (key, member) in members {
            self.member(key, member, part)?;
        }
        self.level -= 1;
        Ok(())
    }

    fn member(&mut self, key: &str, member: &'a Value, part: &'a Value) -> Result<(), String> {
        match (key, member) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => self.follow(to),
            // From there on, references would mean other places.
            ("$id" | "id", Value::String(_)) if !std::ptr::eq(part, self.root) => {
                Err(format!("{key} is taken only at its beginning"))
            }
            // What stands here counts where it is referred to.
            ("$defs" | "definitions", _) => Ok(()),
            ("properties" | "patternProperties" | "dependentSchemas" | "dependencies", _) => {
                self.each(member.as_object().into_iter().flat_map(Map::values))
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(parts)) => {
                self.each(parts.iter())
            }
            (
                "additionalItems"
                | "additionalProperties"
                | "contains"
                | "contentSchema"
                | "else"
                | "if"
                | "items"
                | "not"
                | "propertyNames"
                | "then"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                part,
            ) => self.part(part),
            // Whatever else there is holds no schema.
            _ => Ok(()),
        }
    }

    fn each(&mut self, mut parts: impl Iterator<Item = &'a Value>) -> Result<(), String> {
        parts.try_for_each(|part| self.part(part))
    }

    fn follow(&mut self, to: &str) -> Result<(), String> {
        let pointer = to.strip_prefix('#').map(decoded);
        let target = pointer.as_deref().and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target else {
            let reason = if to.starts_with('#') { "leads nowhere" } else { "is not fetched" };
            let hint = "write # and a JSON pointer to a place under $defs";
            return Err(format!("the reference {to:?} {reason}: {hint}"));
        };
        if self.path.iter().any(|on| std::ptr::eq(*on, target)) || std::ptr::eq(target, self.root) {
            self.back += 1;
            return Ok(());
        }
        self.path.push(target);
        self.part(target)?;
        self.path.pop();
        Ok(())
    }
}

/// Takes the escapes of a URI out of a fragment.
fn decoded(fragment: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(fragment).decode_utf8_lossy()
}

fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A schema whose parts each refer to the next one three times, by way of `inside`.
    fn bomb(
        parts: usize,
        name: &dyn Fn(usize) -> String,
        inside: &dyn Fn(Value) -> Value,
    ) -> Value {
        let mut schema = json!({ "$ref": name(0), "$defs": {} });
        for n in 0..parts {
            let next = inside(json!({ "$ref": name(n + 1) }));
            schema["$defs"][format!("d{n}")] =
                json!({ "$anchor": format!("d{n}"), "anyOf": [{ "allOf": [next, next] }, next] });
        }
        schema["$defs"][format!("d{parts}")] = json!({ "type": "string" });
        schema
    }

    fn plain(n: usize) -> String {
        format!("#/$defs/d{n}")
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn what_unfolds_without_end_is_too_much_however_it_is_written() {
        let as_it_is = |next| next;
        assert!(Cost::of(&bomb(3, &plain, &as_it_is)).is_ok());
        assert!(Cost::of(&bomb(40, &plain, &as_it_is)).is_err());
        let encoded = |n| format!("#/%24defs/d{n}");
        assert!(Cost::of(&bomb(3, &encoded, &as_it_is)).is_ok());
        assert!(Cost::of(&bomb(40, &encoded, &as_it_is)).is_err());
        let anchors = |n| format!("#d{n}");
        assert!(Cost::of(&bomb(3, &anchors, &as_it_is)).unwrap_err().contains("leads nowhere"));
        for name in ["default", "const", "enum", "examples", "definitions", "$defs"] {
            let hidden = |next| json!({ "properties": { name: next } });
            assert!(Cost::of(&bomb(40, &plain, &hidden)).is_err(), "{name}");
        }
    }

    #[test]
    fn what_stands_within_itself_too_often_is_too_much() {
        let chain = |length: usize| {
            let mut schema = json!({ "$ref": plain(0), "$defs": {} });
            for n in 0..length {
                schema["$defs"][format!("d{n}")] = json!({ "$ref": plain(n + 1) });
            }
            schema["$defs"][format!("d{length}")] = json!({ "type": "string" });
            schema
        };
        assert!(Cost::of(&chain(100)).is_ok());
        assert!(Cost::of(&chain(2_500)).unwrap_err().contains("within each other"));
        let deep = (0..300).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(Cost::of(&deep).is_err());
        let moved = json!({ "properties": { "a": { "$id": "urn:x", "$ref": "#/$defs/b" } } });
        assert!(Cost::of(&moved).unwrap_err().contains("$id"));
    }

    #[test]
    fn what_refers_back_is_held_to_values_that_are_not_too_deep() {
        let list = json!({ "properties": { "a": { "$ref": "#" } } });
        let cost = Cost::of(&list).unwrap();
        assert_eq!(cost.exceeded(&nested(150)), None);
        assert!(cost.exceeded(&nested(1_100)).is_some());
        let branches = json!({ "anyOf": [{ "properties": { "a": { "$ref": "#" } } },
            { "properties": { "a": { "$ref": "#" } } }] });
        let cost = Cost::of(&branches).unwrap();
        assert_eq!(cost.exceeded(&nested(10)), None);
        assert!(cost.exceeded(&nested(60)).is_some());
    }
}

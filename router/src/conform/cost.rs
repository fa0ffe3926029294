//! What it may cost to hold a value to a schema, known before it is tried.
//!
//! A few lines of references can ask for more looks at a value than there is time. So the schema is unfolded,
//! reference by reference, up to a limit; what refers back to itself is only held to values that are not nested
//! so deeply that its branches multiply beyond a limit.

use serde_json::Value;

/// So many parts a schema may have when its references are unfolded.
const PARTS: usize = 20_000;
/// So many ways there may be through a schema that refers back to itself.
const WAYS: f64 = 1_000_000.0;
/// Members that hold data or parts that count only where they are referred to.
const NO_PARTS: [&str; 6] = ["$defs", "definitions", "enum", "const", "default", "examples"];

/// What a schema may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Values may be nested so deeply; none means as deeply as they like.
    depth: Option<usize>,
}

impl Cost {
    /// Unfolds a schema; none if it is too much.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut unfolding = Unfolding { root: schema, parts: 0, back: 0, path: Vec::new() };
        unfolding.part(schema)?;
        let depth = match unfolding.back {
            0 | 1 => None,
            // A small number, by its making.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 19")]
            #[expect(clippy::cast_precision_loss, reason = "at most PARTS")]
            back => Some((WAYS.ln() / (back as f64).ln()) as usize + 1),
        };
        Some(Self { depth })
    }

    /// Says how deeply a value may be nested, if this one is too deeply.
    pub(super) fn exceeded(self, value: &Value) -> Option<usize> {
        self.depth.filter(|depth| is_deeper(value, *depth))
    }
}

struct Unfolding<'a> {
    root: &'a Value,
    parts: usize,
    /// References to what is being unfolded, or to what cannot be found.
    back: usize,
    path: Vec<&'a Value>,
}

impl<'a> Unfolding<'a> {
    fn part(&mut self, part: &'a Value) -> Option<()> {
        self.parts += 1;
        if self.parts > PARTS || self.path.len() > PARTS {
            return None;
        }
        match part {
            Value::Array(items) => items.iter().try_for_each(|item| self.part(item)),
            Value::Object(members) => {
                members.iter().try_for_each(|(key, member)| match (key.as_str(), member) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                        self.follow(to)
                    }
                    (key, _) if NO_PARTS.contains(&key) => Some(()),
                    _ => self.part(member),
                })
            }
            _ => Some(()),
        }
    }

    fn follow(&mut self, to: &str) -> Option<()> {
        let target = to.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        match target {
            Some(target) if !self.path.iter().any(|on| std::ptr::eq(*on, target)) => {
                self.path.push(target);
                let unfolded = self.part(target);
                self.path.pop();
                unfolded
            }
            _ => {
                self.back += 1;
                Some(())
            }
        }
    }
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

    /// A schema whose parts each refer to the next one three times.
    fn bomb(parts: usize) -> Value {
        let mut schema = json!({ "$ref": "#/$defs/d0", "$defs": {} });
        for n in 0..parts {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            schema["$defs"][format!("d{n}")] =
                json!({ "anyOf": [{ "allOf": [next, next] }, next] });
        }
        schema["$defs"][format!("d{parts}")] = json!({ "type": "string" });
        schema
    }

    #[test]
    fn what_unfolds_without_end_is_too_much() {
        assert!(Cost::of(&bomb(3)).is_some());
        assert_eq!(Cost::of(&bomb(40)), None);
    }

    #[test]
    fn what_refers_back_is_held_to_values_that_are_not_too_deep() {
        let list = json!({ "properties": { "next": { "$ref": "#" } } });
        assert_eq!(Cost::of(&list).unwrap().depth, None);
        let branches = json!({ "anyOf": [{ "properties": { "a": { "$ref": "#" } } },
            { "properties": { "a": { "$ref": "#" } } }] });
        let cost = Cost::of(&branches).unwrap();
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }));
        assert_eq!(cost.exceeded(&nested(10)), None);
        assert!(cost.exceeded(&nested(60)).is_some());
    }
}

//! Whether two schemas are the same but for what only describes.
//!
//! References are followed, so that a schema is the same only where what it refers to is. A reference back to
//! what is being compared is the same if everything else is: then both unfold to the same without end.

use std::collections::HashSet;

use super::super::keyword::{Shape, asks_nothing, shape, target};
use crate::json::{Object, Value, to_canonical};

/// So deeply schemas are followed.
const MAX_DEPTH: usize = 200;

/// Says whether two schemas ask for the same in the same words. Where too few steps are left, they do not.
pub(super) fn alike(
    (old_root, old): (&Value, &Value),
    (new_root, new): (&Value, &Value),
    left: &mut usize,
) -> bool {
    Alike { old: old_root, new: new_root, seen: HashSet::new(), left }.schema(old, new, 0)
}

struct Alike<'a, 'b> {
    old: &'a Value,
    new: &'a Value,
    /// What references led to already, by address.
    seen: HashSet<(usize, usize)>,
    left: &'b mut usize,
}

impl<'a> Alike<'a, '_> {
    fn schema(&mut self, old: &'a Value, new: &'a Value, depth: usize) -> bool {
        if *self.left == 0 || depth > MAX_DEPTH {
            return false;
        }
        *self.left -= 1;
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.members(old, new, depth + 1),
            _ => old == new,
        }
    }

    fn members(&mut self, old: &'a Object, new: &'a Object, depth: usize) -> bool {
        let asked = |object: &Object| object.keys().filter(|key| !asks_nothing(key)).count();
        asked(old) == asked(new)
            && old.iter().filter(|(keyword, _)| !asks_nothing(keyword)).all(|(keyword, old)| {
                new.get(keyword).is_some_and(|new| self.keyword(keyword, old, new, depth))
            })
    }

    fn keyword(&mut self, keyword: &str, old: &'a Value, new: &'a Value, depth: usize) -> bool {
        if keyword == "$ref" {
            return self.reference(old, new, depth);
        }
        match (shape(keyword), old, new) {
            (Some(Shape::Schema), ..) => self.schema(old, new, depth),
            (Some(Shape::Schemas), Value::Array(old), Value::Array(new)) => {
                old.len() == new.len()
                    && old.iter().zip(new).all(|(old, new)| self.schema(old, new, depth))
            }
            (Some(Shape::Members), Value::Object(old), Value::Object(new)) => {
                *self.left = self.left.saturating_sub(old.len() * new.len() / 64);
                old.len() == new.len()
                    && old.iter().all(|(name, old)| {
                        new.get(name).is_some_and(|new| self.schema(old, new, depth))
                    })
            }
            (
                Some(Shape::Names | Shape::Types | Shape::Values),
                Value::Array(old),
                Value::Array(new),
            ) => {
                let set =
                    |values: &[Value]| values.iter().map(to_canonical).collect::<HashSet<_>>();
                old == new || set(old) == set(new)
            }
            _ => old == new,
        }
    }

    fn reference(&mut self, old: &'a Value, new: &'a Value, depth: usize) -> bool {
        let (Some(old), Some(new)) = (old.as_str(), new.as_str()) else { return false };
        let (Some(old), Some(new)) = (target(self.old, old), target(self.new, new)) else {
            return false;
        };
        let seen = (std::ptr::from_ref(old).addr(), std::ptr::from_ref(new).addr());
        !self.seen.insert(seen) || self.schema(old, new, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn read(text: &str) -> Value {
        parse(text.as_bytes(), Limits::default()).unwrap()
    }

    #[test]
    fn what_describes_does_not_count_and_what_is_referred_to_does() {
        let same = |old: &str, new: &str| {
            let (old, new) = (read(old), read(new));
            alike((&old, &old), (&new, &new), &mut 1_000)
        };
        assert!(same(r#"{"title": "a", "enum": [1, 2]}"#, r#"{"enum": [2, 1], "x-y": 1}"#));
        assert!(!same(r#"{"enum": [1, 2]}"#, r#"{"enum": [1]}"#));
        assert!(!same(r#"{"anyOf": [true]}"#, r#"{"anyOf": [true, false]}"#));
        assert!(!same(r#"{"pattern": "a"}"#, r#"{"format": "a"}"#));
        let referring = |to: &str| format!(r##"{{"$ref": "#/$defs/a", "$defs": {{"a": {to}}}}}"##);
        assert!(same(&referring("{}"), &referring(r#"{"title": "a"}"#)));
        assert!(!same(&referring("{}"), &referring(r#"{"type": "null"}"#)));
        let tree = r##"{"properties": {"next": {"$ref": "#"}}, "title": "TITLE"}"##;
        assert!(same(tree, &tree.replace("TITLE", "another")));
        assert!(!same(r##"{"$ref": "#/nowhere"}"##, r##"{"$ref": "#/nowhere"}"##));
    }
}

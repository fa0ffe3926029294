//! Decides whether one value fits a schema, where every validator would decide the same.

use super::super::super::keyword::{DIALECT, asks_nothing, is_annotation, number, target};
use super::super::values::{EXACT, key, kinds, types};
use super::{LocatedSchema, SchemaPart, SchemaProver, members};
use crate::json::{Object, Value};

/// Longer lists are looked up in a set.
const SHORT_LIST: usize = 8;

/// Answer to a question about a value; none if it is unknown.
type FitState = Option<bool>;

impl<'a> SchemaProver<'a> {
    /// Returns whether a value fits a schema; none if that is unknown.
    pub(in super::super) fn evaluate(
        &mut self,
        value: &Value,
        schema: LocatedSchema<'a>,
    ) -> FitState {
        let keywords = match schema.schema {
            Value::Bool(truth) => return Some(*truth),
            Value::Object(keywords) => keywords,
            _ => return None,
        };
        if self.depth > super::MAX_DEPTH || !self.step(1) {
            return None;
        }
        let part = SchemaPart { root: schema.root, keywords, schema: schema.schema };
        self.depth += 1;
        let fits = all(keywords.iter(), |(keyword, held)| {
            self.evaluate_keyword(value, part, keyword, held)
        });
        self.depth -= 1;
        fits
    }

    fn evaluate_keyword(
        &mut self,
        value: &Value,
        part: SchemaPart<'a>,
        keyword: &str,
        held: &'a Value,
    ) -> FitState {
        let here = part.at(held);
        let negated = |known: FitState| known.map(|fits| !fits);
        match (keyword, value) {
            ("minContains" | "maxContains" | "then" | "else", _) => Some(true),
            ("$schema", _) => (held.as_str() == Some(DIALECT)).then_some(true),
            _ if asks_nothing(keyword) || is_annotation(keyword) => Some(true),
            ("$ref", _) => {
                let schema = target(part.root, held.as_str()?)?;
                self.evaluate(value, part.at(schema))
            }
            ("type", _) => Some(kinds(&[value]) & types(held) != 0),
            ("const", _) => same(value, held),
            ("enum", _) => self.is_listed(value, held),
            ("allOf", _) => all(part.list("allOf"), |branch| self.evaluate(value, part.at(branch))),
            ("anyOf", _) => negated(all(part.list("anyOf"), |branch| {
                negated(self.evaluate(value, part.at(branch)))
            })),
            ("oneOf", _) => {
                let branches = part.list("oneOf");
                let fits = branches.iter().map(|branch| self.evaluate(value, part.at(branch)));
                let (least, most) = counts(fits);
                within(least, most, 1.0, 1.0)
            }
            ("not", _) => negated(self.evaluate(value, here)),
            ("if", _) => {
                let branch = if self.evaluate(value, here)? { "then" } else { "else" };
                part.held(branch).map_or(Some(true), |branch| self.evaluate(value, branch))
            }
            (_, Value::Object(object)) => self.evaluate_members(object, part, keyword, held),
            (_, Value::Array(items)) => self.evaluate_items(items, part, keyword, held),
            (_, Value::String(text)) => self.evaluate_text(text, keyword, held),
            _ => evaluate_number(value, keyword, held),
        }
    }

    fn is_listed(&mut self, value: &Value, list: &'a Value) -> FitState {
        let values = list.as_array()?;
        let text = key(value);
        let is_listed = if values.len() > SHORT_LIST {
            let address = std::ptr::from_ref(list).addr();
            if !self.listed.contains_key(&address) && !self.step(values.len() / 8) {
                return None;
            }
            let listed =
                self.listed.entry(address).or_insert_with(|| values.iter().map(key).collect());
            listed.contains(&text)
        } else {
            values.iter().any(|other| key(other) == text)
        };
        if is_listed { Some(true) } else { is_exact(value).then_some(false) }
    }

    fn evaluate_text(&mut self, text: &str, keyword: &str, held: &'a Value) -> FitState {
        #[expect(clippy::cast_precision_loss, reason = "texts are not that long")]
        let length = || text.chars().count() as f64;
        match keyword {
            "minLength" => Some(length() >= number(held)?),
            "maxLength" => Some(length() <= number(held)?),
            "pattern" => self.matches(held.as_str()?, text),
            "format" | "contentEncoding" | "contentMediaType" | "contentSchema" => None,
            _ => is_about_others(keyword, &["minLength", "maxLength"]),
        }
    }

    fn evaluate_members(
        &mut self,
        object: &Object,
        part: SchemaPart<'a>,
        keyword: &str,
        held: &'a Value,
    ) -> FitState {
        #[expect(clippy::cast_precision_loss, reason = "objects are not that large")]
        let count = object.len() as f64;
        let needs = |needed: &Value| {
            let needed = needed.as_array()?;
            Some(needed.iter().filter_map(Value::as_str).all(|name| object.contains_key(name)))
        };
        match keyword {
            "minProperties" => Some(count >= number(held)?),
            "maxProperties" => Some(count <= number(held)?),
            "required" => needs(held),
            "dependentRequired" => all(members(part.keywords, keyword), |(name, needed)| {
                if object.contains_key(name) { needs(needed) } else { Some(true) }
            }),
            "dependentSchemas" => {
                let whole = Value::Object(object.clone());
                all(members(part.keywords, keyword), |(name, schema)| {
                    match object.contains_key(name) {
                        true => self.evaluate(&whole, part.at(schema)),
                        false => Some(true),
                    }
                })
            }
            "propertyNames" => {
                all(object.keys(), |name| self.evaluate(&name.into(), part.at(held)))
            }
            "properties" => all(members(part.keywords, keyword), |(name, schema)| {
                object.get(name).map_or(Some(true), |value| self.evaluate(value, part.at(schema)))
            }),
            "patternProperties" => all(members(part.keywords, keyword), |(pattern, schema)| {
                all(object.iter(), |(name, value)| match self.matches(pattern, name) {
                    Some(true) => self.evaluate(value, part.at(schema)),
                    Some(false) => Some(true),
                    None => (self.evaluate(value, part.at(schema))?).then_some(true),
                })
            }),
            "additionalProperties" => all(object.iter(), |(name, value)| {
                if part.keywords.get("properties").is_some_and(|held| held.get(name).is_some()) {
                    return Some(true);
                }
                for (pattern, _) in members(part.keywords, "patternProperties") {
                    if self.matches(pattern, name)? {
                        return Some(true);
                    }
                }
                self.evaluate(value, part.at(held))
            }),
            "unevaluatedProperties" => {
                (object.is_empty() || super::accepts_all(part.at(held))).then_some(true)
            }
            _ => is_about_others(keyword, &["minProperties", "maxProperties"]),
        }
    }

    fn evaluate_items(
        &mut self,
        items: &[Value],
        part: SchemaPart<'a>,
        keyword: &str,
        held: &'a Value,
    ) -> FitState {
        #[expect(clippy::cast_precision_loss, reason = "lists are not that long")]
        let count = items.len() as f64;
        let first = part.list("prefixItems");
        match keyword {
            "minItems" => Some(count >= number(held)?),
            "maxItems" => Some(count <= number(held)?),
            "uniqueItems" if held.as_bool() == Some(true) => {
                let mut texts: Vec<_> = items.iter().map(key).collect();
                texts.sort_unstable();
                texts.dedup();
                if texts.len() < items.len() {
                    return Some(false);
                }
                items.iter().all(is_exact).then_some(true)
            }
            "uniqueItems" => Some(true),
            "prefixItems" => {
                all(items.iter().zip(first), |(item, schema)| self.evaluate(item, part.at(schema)))
            }
            "items" => {
                all(items.iter().skip(first.len()), |item| self.evaluate(item, part.at(held)))
            }
            "contains" => {
                let bound =
                    |keyword, none| part.keywords.get(keyword).and_then(number).unwrap_or(none);
                let fits = items.iter().map(|item| self.evaluate(item, part.at(held)));
                let (least, most) = counts(fits);
                within(least, most, bound("minContains", 1.0), bound("maxContains", f64::INFINITY))
            }
            "unevaluatedItems" => {
                (items.is_empty() || super::accepts_all(part.at(held))).then_some(true)
            }
            _ => is_about_others(keyword, &["minItems", "maxItems"]),
        }
    }
}

fn evaluate_number(value: &Value, keyword: &str, held: &Value) -> FitState {
    let Some(found) = number(value) else {
        // It is null, true or false.
        return is_about_others(keyword, &[]);
    };
    if !is_exact(value) {
        return is_about_others(
            keyword,
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        );
    }
    let said = number(held);
    match keyword {
        "minimum" => Some(found >= said?),
        "maximum" => Some(found <= said?),
        "exclusiveMinimum" => Some(found > said?),
        "exclusiveMaximum" => Some(found < said?),
        "multipleOf" => {
            let step = said?;
            let is_whole = |number: f64| number.fract() == 0.0 && number.abs() < EXACT;
            (is_whole(found) && is_whole(step) && step >= 1.0).then(|| found % step == 0.0)
        }
        _ => is_about_others(keyword, &[]),
    }
}

/// Keywords that are known, and about values of other kinds than those that are listed, always fit.
fn is_about_others(keyword: &str, about: &[&str]) -> FitState {
    const KNOWN: [&str; 27] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "prefixItems",
        "items",
        "contains",
        "unevaluatedItems",
        "minProperties",
        "maxProperties",
        "required",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "contentEncoding",
        "contentMediaType",
    ];
    (KNOWN.contains(&keyword) && !about.contains(&keyword)).then_some(true)
}

fn same(value: &Value, other: &Value) -> FitState {
    if key(value) == key(other) { Some(true) } else { is_exact(value).then_some(false) }
}

/// Returns whether every number in a value is the same for every validator.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.iter().all(|(_, member)| is_exact(member)),
        _ => number(value).is_none_or(|number| number.abs() < EXACT),
    }
}

/// Returns whether all are the case. One that is not outweighs those that are unknown.
fn all<T>(items: impl IntoIterator<Item = T>, mut test: impl FnMut(T) -> FitState) -> FitState {
    let mut known = Some(true);
    for item in items {
        match test(item) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => known = None,
        }
    }
    known
}

/// Returns how many are the case at least and at most.
fn counts(fits: impl Iterator<Item = FitState>) -> (f64, f64) {
    fits.fold((0.0, 0.0), |(least, most), fits| match fits {
        Some(true) => (least + 1.0, most + 1.0),
        Some(false) => (least, most),
        None => (least, most + 1.0),
    })
}

fn within(least: f64, most: f64, from: f64, to: f64) -> FitState {
    if least >= from && most <= to {
        Some(true)
    } else if most < from || least > to {
        Some(false)
    } else {
        None
    }
}

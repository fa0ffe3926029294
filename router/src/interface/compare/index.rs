//! Lists the values that a schema is about: where it has defaults, and which members it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::finding::below;
use super::super::keyword::{Shape, shape, target};
use super::proof::LocatedSchema;
use super::values::key;
use crate::json::{Object, Value};

/// The greatest number of schemas that are visited.
const MAX_STEPS: usize = 20_000;
/// The greatest depth of schemas within each other.
const MAX_DEPTH: usize = 150;

/// One default and where it stands.
pub(super) struct DefaultEntry<'a> {
    pub(super) value: &'a Value,
    /// The schema that has it.
    pub(super) schema: LocatedSchema<'a>,
    /// The place of the value, with the variants that lead there.
    pub(super) path: String,
    /// The place of the value alone.
    pub(super) plain_path: String,
    pub(super) pointer: String,
    pub(super) label: String,
}

/// The defaults and the members of a schema, by the values that they are for.
pub(super) struct SchemaIndex<'a> {
    root: &'a Value,
    pub(super) entries: Vec<DefaultEntry<'a>>,
    /// The places that have a schema, without variants.
    pub(super) visited: HashSet<String>,
    /// The places of members that have a name or a pattern.
    pub(super) named: BTreeSet<String>,
    /// References that lead here.
    open: Vec<usize>,
    left: usize,
}

/// Place of the schema that is being visited.
#[derive(Clone, Default)]
struct VisitSpot {
    path: String,
    plain_path: String,
    pointer: String,
    label: String,
}

impl<'a> SchemaIndex<'a> {
    /// Visits a schema of a document, which stands at a pointer; none if it has too many schemas.
    pub(super) fn of(root: &'a Value, schema: &'a Value, pointer: &str) -> Option<Self> {
        let mut index = Self {
            root,
            entries: Vec::new(),
            visited: HashSet::new(),
            named: BTreeSet::new(),
            open: Vec::new(),
            left: MAX_STEPS,
        };
        let spot = VisitSpot { pointer: pointer.to_owned(), ..VisitSpot::default() };
        index.visit(schema, &spot, pointer, 0).then_some(index)
    }

    fn visit(&mut self, schema: &'a Value, spot: &VisitSpot, start: &str, depth: usize) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || depth > MAX_DEPTH {
            return false;
        }
        self.visited.insert(spot.plain_path.clone());
        let Some(keywords) = schema.as_object() else { return true };
        if let Some(value) = keywords.get("default") {
            let VisitSpot { path, plain_path, pointer, label } = spot.clone();
            let schema = LocatedSchema { root: self.root, schema };
            let entry = DefaultEntry { value, schema, path, plain_path, pointer, label };
            self.entries.push(entry);
        }
        keywords.iter().all(|(keyword, held)| self.keyword(keyword, held, spot, start, depth + 1))
    }

    fn keyword(
        &mut self,
        keyword: &'a str,
        held: &'a Value,
        spot: &VisitSpot,
        start: &str,
        depth: usize,
    ) -> bool {
        let below_keyword = below(&spot.pointer, keyword);
        match (shape(keyword), held) {
            _ if keyword == "$defs" => true,
            _ if keyword == "$ref" => self.reference(held, spot, start, depth),
            (Some(Shape::Schema), schema) => {
                let spot = spot.under(keyword, None, below_keyword);
                self.visit(schema, &spot, start, depth)
            }
            (Some(Shape::Schemas), Value::Array(schemas)) => {
                schemas.iter().enumerate().all(|(index, schema)| {
                    let pointer = below(&below_keyword, &index.to_string());
                    let name = match keyword {
                        "prefixItems" => index.to_string(),
                        "allOf" => String::new(),
                        _ => tag(schema),
                    };
                    let spot = spot.under(keyword, Some(&name), pointer);
                    self.visit(schema, &spot, start, depth)
                })
            }
            (Some(Shape::Members), Value::Object(schemas)) => schemas.iter().all(|(name, it)| {
                let spot = spot.under(keyword, Some(name), below(&below_keyword, name));
                if matches!(keyword, "properties" | "patternProperties") {
                    self.named.insert(spot.plain_path.clone());
                }
                self.visit(it, &spot, start, depth)
            }),
            _ => true,
        }
    }

    fn reference(&mut self, held: &'a Value, spot: &VisitSpot, start: &str, depth: usize) -> bool {
        let Some(reference) = held.as_str() else { return true };
        let Some(schema) = target(self.root, reference) else { return true };
        let address = std::ptr::from_ref(schema).addr();
        // What refers back has no defaults of its own.
        if self.open.contains(&address) {
            return true;
        }
        self.open.push(address);
        let pointer = format!("{start}{}", reference.strip_prefix('#').unwrap_or_default());
        let is_complete = self.visit(schema, &VisitSpot { pointer, ..spot.clone() }, start, depth);
        self.open.pop();
        is_complete
    }
}

impl VisitSpot {
    /// Returns the spot of a schema that a keyword holds, perhaps under a name.
    fn under(&self, keyword: &str, name: Option<&str>, pointer: String) -> Self {
        let Self { path, plain_path, label, .. } = self;
        let name = name.unwrap_or_default();
        let into = |step: &str| (format!("{path}/{step}"), format!("{plain_path}/{step}"));
        let escaped = below("", name);
        let ((path, plain_path), label) = match keyword {
            "properties" => (
                into(&format!("properties{escaped}")),
                if label.is_empty() { name.to_owned() } else { format!("{label}.{name}") },
            ),
            "prefixItems" => (into(&format!("items/{name}")), format!("{label}[{name}]")),
            "items" => (into("items"), format!("{label}[]")),
            "allOf" => ((path.clone(), plain_path.clone()), label.clone()),
            "anyOf" | "oneOf" | "if" | "then" | "else" | "dependentSchemas" => {
                let keyword = if keyword == "anyOf" { "oneOf" } else { keyword };
                ((format!("{path}/{keyword}{escaped}"), plain_path.clone()), label.clone())
            }
            _ => (into(&format!("{keyword}{escaped}")), label.clone()),
        };
        Self { path, plain_path, pointer, label }
    }
}

/// Returns the members of a variant that have one value only, which tell it apart from others.
fn tag(variant: &Value) -> String {
    let members = variant.get("properties").and_then(Value::as_object);
    let tags: BTreeMap<&str, String> = members
        .into_iter()
        .flat_map(Object::iter)
        .filter_map(|(name, schema)| Some((name, key(schema.get("const")?))))
        .collect();
    format!("{tags:?}")
}

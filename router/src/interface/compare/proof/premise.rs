//! Premises: the schemas that a value is known to fit or not to fit.

use super::super::super::keyword::target;
use super::super::values::{EVERY, could_come, kinds, types};
use crate::json::{Object, Value};

/// The greatest number of parts of a premise. It may know less than there is to know.
const MAX_PARTS: usize = 64;
/// The greatest number of schemas that are known not to fit.
const MAX_MISFITS: usize = 64;

/// A schema and the document in which its references lead.
#[derive(Clone, Copy)]
pub(in super::super) struct LocatedSchema<'a> {
    pub(in super::super) root: &'a Value,
    pub(in super::super) schema: &'a Value,
}

impl LocatedSchema<'_> {
    fn address(self) -> usize {
        std::ptr::from_ref(self.schema).addr()
    }
}

/// A schema that is a list of keywords.
#[derive(Clone, Copy)]
pub(in super::super) struct SchemaPart<'a> {
    pub(super) root: &'a Value,
    pub(super) keywords: &'a Object,
    pub(super) schema: &'a Value,
}

impl<'a> SchemaPart<'a> {
    /// Returns a schema of the same document.
    pub(super) const fn at(self, schema: &'a Value) -> LocatedSchema<'a> {
        LocatedSchema { root: self.root, schema }
    }

    pub(super) const fn located(self) -> LocatedSchema<'a> {
        self.at(self.schema)
    }

    /// Returns the schema that a keyword holds.
    pub(super) fn held(self, keyword: &str) -> Option<LocatedSchema<'a>> {
        self.keywords.get(keyword).map(|schema| self.at(schema))
    }

    /// Returns the schemas that a keyword lists.
    pub(super) fn list(self, keyword: &str) -> &'a [Value] {
        self.keywords.get(keyword).and_then(Value::as_array).unwrap_or_default()
    }
}

/// Known facts about a value.
#[derive(Clone)]
pub(in super::super) struct ProofPremise<'a> {
    /// Every one of them fits.
    pub(super) fits: Vec<SchemaPart<'a>>,
    /// None of them fits.
    pub(super) misfits: Vec<LocatedSchema<'a>>,
    /// The kinds of values that are possible, a bit each; 0 if the premise is contradictory.
    pub(super) kinds: u8,
    /// The alternatives that one was chosen of already, by address.
    pub(super) chosen: Vec<usize>,
}

impl Default for ProofPremise<'_> {
    fn default() -> Self {
        Self { fits: Vec::new(), misfits: Vec::new(), kinds: EVERY, chosen: Vec::new() }
    }
}

impl<'a> ProofPremise<'a> {
    /// Adds a schema that the value fits, with everything that it refers to or that holds all together.
    pub(super) fn add(&mut self, schema: LocatedSchema<'a>) {
        let mut open = vec![schema];
        while let Some(next) = open.pop() {
            let keywords = match next.schema {
                Value::Bool(false) => {
                    self.kinds = 0;
                    continue;
                }
                Value::Object(keywords) => keywords,
                _ => continue,
            };
            let is_known = |part: &SchemaPart<'a>| std::ptr::eq(part.schema, next.schema);
            if self.fits.len() >= MAX_PARTS || self.fits.iter().any(is_known) {
                continue;
            }
            let part = SchemaPart { root: next.root, keywords, schema: next.schema };
            let reference = keywords.get("$ref").and_then(Value::as_str);
            let referred = reference.and_then(|reference| target(next.root, reference));
            open.extend(referred.map(|schema| part.at(schema)));
            open.extend(part.list("allOf").iter().map(|branch| part.at(branch)));
            self.add_misfits(part.held("not"));
            self.kinds &= keywords.get("type").map_or(EVERY, types);
            self.kinds &= could_come(keywords).map_or(EVERY, |values| kinds(&values));
            self.fits.push(part);
        }
    }

    /// Adds schemas that the value does not fit.
    pub(super) fn add_misfits(&mut self, schemas: impl IntoIterator<Item = LocatedSchema<'a>>) {
        let room = MAX_MISFITS.saturating_sub(self.misfits.len());
        self.misfits.extend(schemas.into_iter().take(room));
    }

    /// Returns the same premise with one more schema that fits.
    pub(super) fn with(&self, schema: LocatedSchema<'a>) -> Self {
        let mut more = self.clone();
        more.add(schema);
        more
    }

    /// Returns whether a part has a keyword with this very value.
    pub(super) fn says(&self, keyword: &str, value: &Value) -> bool {
        self.fits.iter().any(|part| part.keywords.get(keyword) == Some(value))
    }

    /// Returns the schemas that a keyword of the parts holds.
    pub(super) fn held(&self, keyword: &'static str) -> impl Iterator<Item = LocatedSchema<'a>> {
        self.fits.iter().filter_map(move |part| part.held(keyword))
    }

    /// Returns what tells the question whether a schema follows apart from all others.
    pub(super) fn key(&self, goal: LocatedSchema<'a>) -> Vec<usize> {
        let mut fits: Vec<_> = self.fits.iter().map(|part| part.located().address()).collect();
        let mut misfits: Vec<_> = self.misfits.iter().map(|schema| schema.address()).collect();
        let mut chosen = self.chosen.clone();
        for list in [&mut fits, &mut misfits, &mut chosen] {
            list.sort_unstable();
            list.dedup();
        }
        let counts = [goal.address(), usize::from(self.kinds), fits.len(), misfits.len()];
        [counts.as_slice(), &fits, &misfits, &chosen].concat()
    }
}

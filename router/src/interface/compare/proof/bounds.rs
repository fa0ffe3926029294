//! Proofs about a value itself: its kind, its bounds, and the values that are listed.

use std::collections::HashSet;

use super::super::super::keyword::number as as_number;
use super::super::values::{
    ARRAY, FRACTION, INTEGER, NULL, NumberEnd, OBJECT, STRING, TRUTH, could_come, count_of,
    divides, end, is_within, kinds, tightest, types,
};
use super::members::has_few_members;
use super::{ProofPremise, SchemaPart, SchemaProver};
use crate::json::Value;

/// Nested members and items are looked at so deeply for whether a value is possible at all.
const MAX_NARROWING: usize = 4;
static NOTHING: Value = Value::Null;
static YES: Value = Value::Bool(true);
static NO: Value = Value::Bool(false);

impl<'a> SchemaProver<'a> {
    /// Removes the kinds of values that the parts of a premise rule out together.
    pub(super) fn narrow(&mut self, premise: &mut ProofPremise<'a>) {
        self.narrow_within(premise, MAX_NARROWING);
    }

    pub(super) fn narrow_within(&mut self, premise: &mut ProofPremise<'a>, depth: usize) {
        if premise.kinds == 0 || !self.step(1) {
            return;
        }
        if let Some(values) = self.values(premise) {
            premise.kinds &= kinds(&values);
            return;
        }
        let empty = |least: NumberEnd, most: NumberEnd| {
            matches!((least, most), (Some(least), Some(most))
                if least.0 > -most.0 || least.0 >= -most.0 && (least.1 || most.1))
        };
        for kind in [INTEGER, FRACTION] {
            let whole = kind == INTEGER;
            if empty(lowest(premise, 1.0, whole), lowest(premise, -1.0, whole)) {
                premise.kinds &= !kind;
            }
        }
        for (kind, least, most) in [
            (STRING, "minLength", "maxLength"),
            (ARRAY, "minItems", "maxItems"),
            (OBJECT, "minProperties", "maxProperties"),
        ] {
            if least_count(premise, least) > most_count(premise, most) {
                premise.kinds &= !kind;
            }
        }
        if premise.kinds & OBJECT != 0 && depth > 0 && self.lacks_required(premise, depth - 1) {
            premise.kinds &= !OBJECT;
        }
        if premise.kinds & ARRAY != 0 && depth > 0 && self.lacks_items(premise, depth - 1) {
            premise.kinds &= !ARRAY;
        }
    }

    /// Returns all values that may fit the premise, or more; none if they are not listed.
    pub(super) fn values(&mut self, premise: &ProofPremise<'a>) -> Option<Vec<&'a Value>> {
        let lists = premise.fits.iter().filter_map(|part| could_come(part.keywords));
        let mut values = match lists.min_by_key(Vec::len) {
            Some(values) => values,
            None if premise.kinds == 0 => Vec::new(),
            None if premise.kinds & !(NULL | TRUTH) == 0 => vec![&NOTHING, &YES, &NO],
            None => return None,
        };
        if !self.step(1 + values.len() / 16) {
            return None;
        }
        values.retain(|value| kinds(&[value]) & premise.kinds != 0);
        if premise.fits.len() > 1 || values.len() <= 8 {
            values.retain(|value| premise.fits.iter().all(|part| self.may_fit(value, *part)));
        }
        Some(values)
    }

    fn may_fit(&mut self, value: &Value, part: SchemaPart<'a>) -> bool {
        self.evaluate(value, part.located()) != Some(false)
    }

    /// Returns whether a keyword about the value itself follows.
    pub(super) fn bound(
        &mut self,
        premise: &ProofPremise<'a>,
        keyword: &str,
        value: &Value,
    ) -> bool {
        let lacks = |kind: u8| premise.kinds & kind == 0;
        let numbers = INTEGER | FRACTION;
        let number = as_number(value);
        match (keyword, number) {
            ("type", _) => premise.kinds & !types(value) == 0,
            ("minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf", _)
                if lacks(numbers) =>
            {
                true
            }
            ("minimum" | "exclusiveMinimum", Some(is)) => {
                let was = lowest(premise, 1.0, lacks(FRACTION));
                is_within(was, Some((is, keyword == "exclusiveMinimum")))
            }
            ("maximum" | "exclusiveMaximum", Some(is)) => {
                let was = lowest(premise, -1.0, lacks(FRACTION));
                is_within(was, Some((-is, keyword == "exclusiveMaximum")))
            }
            ("multipleOf", Some(is)) => {
                let ends = (lowest(premise, 1.0, false), lowest(premise, -1.0, false));
                divides(premise.kinds, None, is, ends)
                    || premise.fits.iter().any(|part| {
                        let was = part.keywords.get("multipleOf").and_then(as_number);
                        was.is_some_and(|was| {
                            was.to_bits() == is.to_bits()
                                || divides(premise.kinds, Some(was), is, ends)
                        })
                    })
            }
            ("minLength", Some(is)) => lacks(STRING) || least_count(premise, keyword) >= is,
            ("maxLength", Some(is)) => lacks(STRING) || most_count(premise, keyword) <= is,
            ("minItems", Some(is)) => lacks(ARRAY) || least_count(premise, keyword) >= is,
            ("maxItems", Some(is)) => lacks(ARRAY) || most_count(premise, keyword) <= is,
            ("minProperties", Some(is)) => lacks(OBJECT) || least_count(premise, keyword) >= is,
            ("maxProperties", Some(is)) => {
                lacks(OBJECT) || most_count(premise, keyword) <= is || has_few_members(premise, is)
            }
            ("uniqueItems", _) => {
                let is_true = |value: &Value| value.as_bool() == Some(true);
                !is_true(value)
                    || lacks(ARRAY)
                    || premise.held("uniqueItems").any(|held| is_true(held.schema))
                    || most_count(premise, "maxItems") <= 1.0
            }
            ("pattern", _) => lacks(STRING) || premise.says(keyword, value),
            _ => premise.says(keyword, value),
        }
    }
}

/// Returns the tightest lower end of the parts, or with a negative sign the upper one, negated.
fn lowest(premise: &ProofPremise<'_>, sign: f64, whole: bool) -> NumberEnd {
    let keywords =
        if sign > 0.0 { ["minimum", "exclusiveMinimum"] } else { ["maximum", "exclusiveMaximum"] };
    let ends = premise.fits.iter().map(|part| end(part.keywords, keywords, sign, whole));
    ends.fold(None, tightest)
}

/// Returns the greatest lower bound of a count.
pub(super) fn least_count(premise: &ProofPremise<'_>, keyword: &str) -> f64 {
    let counts = premise.fits.iter().map(|part| count_of(part.keywords, keyword, 0.0));
    let least = counts.fold(0.0, f64::max);
    if keyword == "minProperties" {
        // Names of members that are required are counted once.
        let lists = premise.fits.iter().map(|part| part.list("required"));
        let names: HashSet<_> = lists.flatten().filter_map(Value::as_str).collect();
        return least.max(f64::from(u32::try_from(names.len()).unwrap_or(u32::MAX)));
    }
    least
}

/// Returns the smallest upper bound of a count.
pub(super) fn most_count(premise: &ProofPremise<'_>, keyword: &str) -> f64 {
    let counts = premise.fits.iter().map(|part| count_of(part.keywords, keyword, f64::INFINITY));
    counts.fold(f64::INFINITY, f64::min)
}

//! Compares what schemas ask of the items of lists.

use super::super::keyword::number;
use super::Class;
use super::place::Place;
use super::walk::{ANYTHING, Both, Walk};
use crate::json::{Object, Value};

/// How many items have to fit a schema.
struct Contains<'a> {
    schema: &'a Value,
    least: f64,
    most: f64,
}

impl<'a> Contains<'a> {
    /// Without `contains`, the bounds mean nothing.
    fn of(keywords: &'a Object) -> Option<Self> {
        let bound = |keyword, none| keywords.get(keyword).and_then(number).unwrap_or(none);
        Some(Self {
            schema: keywords.get("contains")?,
            least: bound("minContains", 1.0),
            most: bound("maxContains", f64::INFINITY),
        })
    }
}

impl<'a> Walk<'a> {
    /// Compares everything that is asked of the items of lists, but their number.
    pub(super) fn items(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let first = |keywords: &'a Object| {
            keywords.get("prefixItems").and_then(Value::as_array).unwrap_or_default()
        };
        let (was, is) = (first(both.old), first(both.new));
        let (was_rest, is_rest) = both.get("items");
        let rest = (was_rest.unwrap_or(&ANYTHING), is_rest.unwrap_or(&ANYTHING));
        for index in 0..was.len().max(is.len()) {
            let (was, is) = (was.get(index).unwrap_or(rest.0), is.get(index).unwrap_or(rest.1));
            self.compare(was, is, &place.nth("prefixItems", index));
        }
        if was_rest.is_some() || is_rest.is_some() {
            self.compare(rest.0, rest.1, &place.keyword("items"));
        }
        self.contains(both, place);
    }

    fn contains(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = (Contains::of(both.old), Contains::of(both.new));
        let (was, is) = match (was, is) {
            (_, None) => {
                if both.old.contains_key("contains") {
                    self.tell(Class::Minor, place, || "contains is gone".to_owned());
                }
                return;
            }
            (None, Some(is)) => {
                let kept = is.least <= 0.0 && is.most.is_infinite();
                let class = if kept { Class::Minor } else { Class::Major };
                return self.tell(class, place, || "contains is new".to_owned());
            }
            (Some(was), Some(is)) => (was, is),
        };
        let wider = self.proves(was.schema, is.schema);
        let narrower = self.proves_back(is.schema, was.schema);
        // At least so many fit, if whatever fitted still does; at most so many, if nothing else does now.
        let enough = is.least <= 0.0 || wider && is.least <= was.least;
        let few = is.most.is_infinite() || narrower && is.most >= was.most;
        let class = if enough && few { Class::Minor } else { Class::Major };
        let mut told = false;
        for keyword in ["minContains", "maxContains"] {
            let (was, is) = both.get(keyword);
            if was.and_then(number) != is.and_then(number) {
                told = true;
                self.keyword(class, place, keyword, (was, is));
            }
        }
        if !(wider && narrower) || !told && class == Class::Major {
            self.tell(class, &place.keyword("contains"), || {
                "other items count for contains now".to_owned()
            });
        }
    }
}

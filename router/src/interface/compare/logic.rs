//! Compares schemas that are made of schemas: references, `allOf`, `anyOf`, `oneOf`, `not` and `if`.

use std::cmp::Ordering;

use super::super::keyword::{asks_nothing, target};
use super::Class;
use super::place::Place;
use super::walk::{ANYTHING, Both, Walk};
use crate::json::{Object, Value};

impl<'a> Walk<'a> {
    /// Compares every keyword that puts schemas together.
    pub(super) fn logic(&mut self, both: &Both<'a>, place: &Place<'_>) {
        self.reference(both, place);
        self.all_of(both, place);
        self.any_of(both, place);
        self.one_of(both, place);
        self.negation(both, place);
        self.condition(both, place);
    }

    /// Takes an older schema apart where the newer one is not made in the same way: of what had to hold all
    /// together, one part is enough; of alternatives, if there is nothing else, every one is needed.
    pub(super) fn splits(&mut self, old: &'a Object, new: &'a Value, place: &Place<'_>) -> bool {
        let gone = |keyword: &str| new.get(keyword).is_none();
        let reference = old.get("$ref").and_then(Value::as_str).filter(|_| gone("$ref"));
        let reference = reference.and_then(|reference| target(self.old, reference));
        let all = if gone("allOf") { list(old, "allOf") } else { &[] };
        let mut split = reference.into_iter().chain(all).any(|part| self.proves(part, new));
        let mut asked = old.keys().filter(|keyword| !asks_nothing(keyword));
        if let (Some(keyword @ ("anyOf" | "oneOf")), None) = (asked.next(), asked.next())
            && gone("anyOf")
            && gone("oneOf")
        {
            split = list(old, keyword).iter().all(|part| self.proves(part, new));
        }
        if split {
            self.tell(Class::Minor, place, || "became simpler, and accepts what it did".to_owned());
        }
        split
    }

    /// References beside which something else is asked for; others are followed.
    fn reference(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = both.get("$ref");
        let Some(is) = is else {
            if was.is_some() {
                self.keyword(Class::Minor, place, "$ref", (was, is));
            }
            return;
        };
        let pointer = is.as_str().unwrap_or_default();
        let Some(schema) = target(self.new, pointer) else {
            return self.tell(Class::Major, place, || "$ref leads to nothing".to_owned());
        };
        let before = was.and_then(Value::as_str).and_then(|was| target(self.old, was));
        if let Some(before) = before {
            let pointer = pointer.strip_prefix('#').unwrap_or_default();
            self.compare(before, schema, &place.jump(pointer));
        } else {
            let kept = self.proves(both.whole, schema);
            let class = if kept { Class::Minor } else { Class::Major };
            self.keyword(class, place, "$ref", (was, Some(is)));
        }
    }

    fn all_of(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = (list(both.old, "allOf"), list(both.new, "allOf"));
        for (index, branch) in is.iter().enumerate() {
            let here = place.nth("allOf", index);
            let same = was.get(index);
            if let Some(same) = same
                && self.proves(same, branch)
            {
                self.compare(same, branch, &here);
            } else if was.iter().any(|other| self.proves(other, branch)) {
                // It only stands elsewhere.
            } else if self.proves(both.whole, branch) {
                self.tell(Class::Minor, &here, || "allOf says again what was said".to_owned());
            } else if let (Some(same), true) = (same, was.len() == is.len()) {
                self.compare(same, branch, &here);
            } else {
                self.tell(Class::Major, &here, || "allOf asks for more".to_owned());
            }
        }
        if was.len() > is.len() {
            self.tell(Class::Minor, place, || "allOf asks for less".to_owned());
        }
    }

    fn any_of(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let is = list(both.new, "anyOf");
        let was = match list(both.old, "anyOf") {
            [] if !is.is_empty() => list(both.old, "oneOf"),
            was => was,
        };
        if is.is_empty() {
            if !was.is_empty() {
                self.tell(Class::Minor, place, || "anyOf is gone".to_owned());
            }
            return;
        }
        if was.is_empty() {
            let kept = is.iter().any(|branch| self.proves(both.whole, branch));
            return self.tell(if kept { Class::Minor } else { Class::Major }, place, || {
                "anyOf is new".to_owned()
            });
        }
        for (index, branch) in was.iter().enumerate() {
            let here = place.nth("anyOf", index);
            let same = is.get(index);
            if let Some(same) = same
                && self.proves(branch, same)
            {
                self.compare(branch, same, &here);
            } else if is.iter().any(|other| self.proves(branch, other)) {
                // It only stands elsewhere.
            } else if is.iter().any(|other| self.proves(both.whole, other)) {
                self.tell(Class::Minor, &here, || {
                    "an alternative is gone that nothing needs".to_owned()
                });
            } else if let (Some(same), true) = (same, was.len() == is.len()) {
                self.compare(branch, same, &here);
            } else {
                self.tell(Class::Major, &here, || "an alternative is gone".to_owned());
            }
        }
        if is.len() > was.len() {
            self.tell(Class::Minor, place, || "anyOf has more alternatives".to_owned());
        }
    }

    /// Exactly one has to fit, so that accepting more in one may refuse the whole.
    fn one_of(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = (list(both.old, "oneOf"), list(both.new, "oneOf"));
        if is.is_empty() {
            if !was.is_empty() {
                self.tell(Class::Minor, place, || "oneOf is gone".to_owned());
            }
            return;
        }
        let same = was.len() == is.len() && was.iter().zip(is).all(|(was, is)| self.equal(was, is));
        if !same && self.is_proved() {
            return self.tell(Class::Minor, place, || {
                match is.len().cmp(&was.len()) {
                    Ordering::Less => "oneOf has fewer variants",
                    Ordering::Equal => "the variants of oneOf changed",
                    Ordering::Greater => "oneOf has more variants",
                }
                .to_owned()
            });
        }
        if !same {
            return self.tell(Class::Major, place, || {
                "oneOf changed; exactly one has to fit, so that any change may refuse what fitted"
                    .to_owned()
            });
        }
        for (index, (was, is)) in was.iter().zip(is).enumerate() {
            self.compare(was, is, &place.nth("oneOf", index));
        }
    }

    fn negation(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let here = place.keyword("not");
        match both.get("not") {
            (None, None) => {}
            (Some(_), None) => self.tell(Class::Minor, place, || "not is gone".to_owned()),
            (_, Some(Value::Bool(false))) => {}
            (None, Some(_)) => self.tell(Class::Major, &here, || "not is new".to_owned()),
            (Some(was), Some(is)) => {
                let less = self.proves_back(is, was);
                if !less {
                    self.tell(Class::Major, &here, || "not refuses something else now".to_owned());
                } else if !self.proves(was, is) {
                    self.tell(Class::Minor, &here, || "not refuses less now".to_owned());
                }
            }
        }
    }

    fn condition(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let branch = |keywords: &'a Object, keyword| keywords.get(keyword).unwrap_or(&ANYTHING);
        let (then, otherwise) = (branch(both.new, "then"), branch(both.new, "else"));
        match both.get("if") {
            (None, None) => {}
            (Some(_), None) => self.tell(Class::Minor, place, || "if is gone".to_owned()),
            (Some(was), Some(is)) if self.equal(was, is) => {
                self.compare(branch(both.old, "then"), then, &place.keyword("then"));
                self.compare(branch(both.old, "else"), otherwise, &place.keyword("else"));
            }
            (was, Some(_)) => {
                let kept = self.proves(both.whole, then) && self.proves(both.whole, otherwise);
                self.tell(if kept { Class::Minor } else { Class::Major }, place, || {
                    if was.is_some() { "if asks something else now" } else { "if is new" }
                        .to_owned()
                });
            }
        }
    }

    fn equal(&mut self, was: &'a Value, is: &'a Value) -> bool {
        self.proves(was, is) && self.proves_back(is, was)
    }
}

fn list<'a>(keywords: &'a Object, keyword: &str) -> &'a [Value] {
    keywords.get(keyword).and_then(Value::as_array).unwrap_or_default()
}

//! Compares what schemas ask of the members of objects.

use std::collections::{HashMap, HashSet};

use super::Class;
use super::place::Place;
use super::walk::{ANYTHING, Both, Walk};
use crate::json::{Object, Value};

/// How a schema treats the members of an object, by their names.
struct Members<'a> {
    named: HashMap<&'a str, &'a Value>,
    patterns: Vec<(&'a str, &'a Value)>,
    /// What holds for a member that has no name and matches no pattern.
    rest: &'a Value,
}

impl<'a> Members<'a> {
    fn of(keywords: &'a Object) -> Self {
        let schemas = |keyword| {
            keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Object::iter)
        };
        Self {
            named: schemas("properties").collect(),
            patterns: schemas("patternProperties").collect(),
            rest: keywords.get("additionalProperties").unwrap_or(&ANYTHING),
        }
    }

    fn pattern(&self, pattern: &str) -> Option<&'a Value> {
        self.patterns.iter().find(|(known, _)| *known == pattern).map(|(_, schema)| *schema)
    }
}

impl<'a> Walk<'a> {
    /// Compares everything that is asked of objects, but the number of their members.
    pub(super) fn members(&mut self, both: &Both<'a>, place: &Place<'_>) {
        self.required(both, place);
        self.properties(both, place);
        self.names(both, place);
        self.dependent_required(both, place);
        self.dependent_schemas(both, place);
    }

    fn required(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = (names(both.old.get("required")), names(both.new.get("required")));
        let noun = self.noun();
        for name in is.difference(&was) {
            let here = place.named("properties", name);
            let before = both.old.get("properties").is_some_and(|named| named.get(name).is_some());
            self.tell(Class::Major, if before { &here } else { place }, || {
                if before {
                    format!("the optional {noun} became required")
                } else {
                    format!("required {noun} {name:?} is new")
                }
            });
        }
        for name in was.difference(&is) {
            self.tell(Class::Minor, place, || format!("{noun} {name:?} is no longer required"));
        }
    }

    fn properties(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (old, new) = (Members::of(both.old), Members::of(both.new));
        let noun = self.noun();
        // In the order of the document, which the map has lost.
        let in_order = |keywords: &'a Object| {
            keywords.get("properties").and_then(Value::as_object).into_iter().flat_map(Object::iter)
        };
        for (name, schema) in in_order(both.new) {
            let here = place.named("properties", name);
            match old.named.get(name) {
                Some(was) => self.compare(was, schema, &here),
                None => self.added(&old, name, schema, &here),
            }
        }
        for (name, was) in in_order(both.old).filter(|(name, _)| !new.named.contains_key(name)) {
            // One that could never come is not missed.
            let class = if refuses_all(was) { Class::Minor } else { Class::Major };
            self.tell_structure(class, &place.named("properties", name), || {
                format!("the {noun} is gone")
            });
        }
        for (pattern, schema) in &new.patterns {
            let here = place.named("patternProperties", pattern);
            match old.pattern(pattern) {
                Some(was) => self.compare(was, schema, &here),
                None => self.added_pattern(&old, pattern, schema, &here),
            }
        }
        for (pattern, was) in old.patterns.iter().filter(|it| new.pattern(it.0).is_none()) {
            let class = if refuses_all(was) { Class::Minor } else { Class::Major };
            let here = place.named("patternProperties", pattern);
            self.tell_structure(class, &here, || {
                format!("the {noun}s whose names match {pattern:?} are gone")
            });
        }
        self.rest(&old, &new, place);
    }

    /// Members that are named nowhere. Those that were named are told of as gone.
    fn rest(&mut self, old: &Members<'a>, new: &Members<'a>, place: &Place<'_>) {
        let here = place.keyword("additionalProperties");
        if self.took_all(old.rest) && refuses_all(new.rest) {
            self.tell(Class::Major, place, || {
                "members that are not named were let through, and are refused now".to_owned()
            });
        } else if refuses_all(old.rest) && self.takes_all(new.rest) {
            self.tell(Class::Minor, place, || {
                "members that are not named were refused, and are let through now".to_owned()
            });
        } else {
            self.compare(old.rest, new.rest, &here);
        }
    }

    /// A member that was not named before: the older schema may have let it through all the same.
    fn added(&mut self, old: &Members<'a>, name: &str, schema: &'a Value, here: &Place<'_>) {
        let matching: Vec<_> = old
            .patterns
            .iter()
            .map(|(pattern, was)| (self.matches(pattern, name), *was))
            .filter(|(matches, _)| *matches != Some(false))
            .collect();
        let kept = if self.is_proved() || self.takes_all(schema) {
            true
        } else if matching.is_empty() {
            self.proves(old.rest, schema)
        } else {
            // All that match hold, so that one is enough, if it does match.
            matching.iter().any(|(matches, was)| *matches == Some(true) && self.proves(was, schema))
        };
        let noun = self.noun();
        if kept {
            self.tell_structure(Class::Minor, here, || format!("the {noun} is new"));
        } else if matching.is_empty() && self.took_all(old.rest) {
            self.tell(Class::Major, here, || {
                format!(
                    "the {noun} is new, but the old contract let any value through here; \
                     close it with additionalProperties: false"
                )
            });
        } else {
            self.tell(Class::Major, here, || {
                format!(
                    "the {noun} is new, and refuses some of what the old contract let through here"
                )
            });
        }
    }

    /// A pattern that is new may match every kind of member that there was.
    fn added_pattern(
        &mut self,
        old: &Members<'a>,
        pattern: &'a str,
        schema: &'a Value,
        here: &Place<'_>,
    ) {
        let kept = self.is_proved()
            || self.takes_all(schema)
            || self.proves(old.rest, schema)
                && old.patterns.iter().all(|(_, was)| self.proves(was, schema))
                && old.named.iter().all(|(name, was)| {
                    self.matches(pattern, name) == Some(false) || self.proves(was, schema)
                });
        let noun = self.noun();
        if kept {
            self.tell_structure(Class::Minor, here, || {
                format!("{noun}s whose names match {pattern:?} are new")
            });
        } else {
            self.tell(Class::Major, here, || {
                format!(
                    "{noun}s whose names match {pattern:?} are new, and the old contract let others \
                     through under such names"
                )
            });
        }
    }

    fn names(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = both.get("propertyNames");
        if was.is_some() || is.is_some() {
            let here = place.keyword("propertyNames");
            self.compare(was.unwrap_or(&ANYTHING), is.unwrap_or(&ANYTHING), &here);
        }
    }

    fn dependent_required(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = both.get("dependentRequired");
        let always = names(both.old.get("required"));
        let members = |said: Option<&'a Value>| {
            said.and_then(Value::as_object).into_iter().flat_map(Object::iter)
        };
        let noun = self.noun();
        for (name, needs) in members(is) {
            let needed = names(was.and_then(|was| was.get(name)));
            for need in names(Some(needs)).difference(&needed) {
                let kept = *need == name || always.contains(need);
                self.tell(if kept { Class::Minor } else { Class::Major }, place, || {
                    format!("{noun} {name:?} needs {need:?} now")
                });
            }
        }
        for (name, needed) in members(was) {
            let needs = names(is.and_then(|is| is.get(name)));
            for need in names(Some(needed)).difference(&needs) {
                self.tell(Class::Minor, place, || {
                    format!("{noun} {name:?} no longer needs {need:?}")
                });
            }
        }
    }

    fn dependent_schemas(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = both.get("dependentSchemas");
        let members = |said: Option<&'a Value>| {
            said.and_then(Value::as_object).into_iter().flat_map(Object::iter)
        };
        for (name, schema) in members(is) {
            let here = place.named("dependentSchemas", name);
            match was.and_then(|was| was.get(name)) {
                Some(was) => self.compare(was, schema, &here),
                None => {
                    let kept = self.takes_all(schema) || self.proves(both.whole, schema);
                    self.tell(if kept { Class::Minor } else { Class::Major }, &here, || {
                        format!("more is asked now where {name:?} is there")
                    });
                }
            }
        }
        for (name, _) in members(was).filter(|(name, _)| is.is_none_or(|is| is.get(name).is_none()))
        {
            self.tell(Class::Minor, &place.named("dependentSchemas", name), || {
                format!("less is asked now where {name:?} is there")
            });
        }
    }
}

fn refuses_all(schema: &Value) -> bool {
    schema.as_bool() == Some(false)
}

fn names(said: Option<&Value>) -> HashSet<&str> {
    said.and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

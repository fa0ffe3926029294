//! Compares what schemas ask of a value itself: its type, the values that there are, its bounds, its text.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::keyword::{TYPES, number};
use super::Class;
use super::place::Place;
use super::walk::{Both, Walk};
use super::words::short;
use crate::json::{Object, Value, to_canonical};

/// Integers up to here are exact floats, and so are their quotients that are integers.
pub(super) const EXACT: f64 = 4_503_599_627_370_496.0;

// The kinds of values, a bit each.
pub(super) const NULL: u8 = 1;
pub(super) const TRUTH: u8 = 1 << 1;
pub(super) const INTEGER: u8 = 1 << 2;
/// Numbers with a fraction.
pub(super) const FRACTION: u8 = 1 << 3;
pub(super) const STRING: u8 = 1 << 4;
pub(super) const ARRAY: u8 = 1 << 5;
pub(super) const OBJECT: u8 = 1 << 6;
pub(super) const EVERY: u8 = 0x7f;

/// One end of the numbers that are possible, and whether it is itself outside; none if there is no end.
pub(super) type NumberEnd = Option<(f64, bool)>;

impl<'a> Walk<'a> {
    /// Compares `type`, `enum` and `const`.
    pub(super) fn values(&mut self, both: &Both<'a>, place: &Place<'_>) {
        self.types(both, place);
        self.listed(both, place);
    }

    fn types(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let said = both.get("type");
        let (was, is) = (said.0.map_or(EVERY, types), said.1.map_or(EVERY, types));
        // Only values that are listed could come, whatever the type says.
        let could = was & could_come(both.old).map_or(EVERY, |values| kinds(&values));
        if could & !is != 0 {
            self.keyword(Class::Major, place, "type", said);
        } else if was != is {
            self.keyword(Class::Minor, place, "type", said);
        }
    }

    fn listed(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let same = |keyword| {
            let (was, is) = both.get(keyword);
            was == is
        };
        if same("enum") && same("const") {
            return;
        }
        let (was, is) = (could_come(both.old), may_come(both.new));
        let keyword = if both.new.contains_key("enum") { "enum" } else { "const" };
        let (was, is) = match (was, is) {
            (None, None) => return,
            (Some(_), None) => {
                return self
                    .tell(Class::Minor, place, || "the values are no longer listed".to_owned());
            }
            (None, Some(is)) => {
                return self.tell(Class::Major, place, || {
                    let values: Vec<_> = is.iter().take(5).map(|value| short(value)).collect();
                    format!("{keyword} is new; only {} may come", values.join(", "))
                });
            }
            (Some(was), Some(is)) => (was, is),
        };
        let set =
            |values: &[&Value]| -> HashSet<String> { values.iter().map(|v| key(v)).collect() };
        let (old, new) = (set(&was), set(&is));
        for value in was.iter().filter(|value| !new.contains(&key(value))) {
            self.tell(Class::Major, place, || format!("{keyword} lost {}", short(value)));
        }
        for value in is.iter().filter(|value| !old.contains(&key(value))) {
            self.tell(Class::Minor, place, || format!("{keyword} gained {}", short(value)));
        }
    }

    /// Compares the bounds of numbers, lengths and counts, and the patterns of texts.
    pub(super) fn bounds(&mut self, both: &Both<'a>, place: &Place<'_>) {
        self.ends(both, place, ["minimum", "exclusiveMinimum"], 1.0);
        self.ends(both, place, ["maximum", "exclusiveMaximum"], -1.0);
        for keyword in ["minLength", "minItems", "minProperties"] {
            self.count(both, place, keyword, true);
        }
        for keyword in ["maxLength", "maxItems", "maxProperties"] {
            self.count(both, place, keyword, false);
        }
        self.multiple(both, place);
        let truth = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or_default();
        let unique = both.get("uniqueItems");
        if truth(unique.0) != truth(unique.1) {
            let class = if truth(unique.1) { Class::Major } else { Class::Minor };
            self.keyword(class, place, "uniqueItems", unique);
        }
        for keyword in ["pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"]
        {
            let (was, is) = both.get(keyword);
            if was != is {
                // Whether one pattern matches all that another one does, is not asked here.
                let class = if is.is_some() { Class::Major } else { Class::Minor };
                self.keyword(class, place, keyword, (was, is));
            }
        }
    }

    /// Compares the lower ends, or with a negative sign the upper ones.
    fn ends(&mut self, both: &Both<'a>, place: &Place<'_>, keywords: [&str; 2], sign: f64) {
        let ends = |of: &Object| end(of, keywords, sign, false);
        let kept = is_within(ends(both.old), ends(both.new));
        let class = if kept { Class::Minor } else { Class::Major };
        for keyword in keywords {
            let (was, is) = both.get(keyword);
            if was.and_then(number) != is.and_then(number) {
                self.keyword(class, place, keyword, (was, is));
            }
        }
    }

    fn count(&mut self, both: &Both<'a>, place: &Place<'_>, keyword: &str, least: bool) {
        let (was, is) = both.get(keyword);
        let counts = (was.and_then(number), is.and_then(number));
        if counts.0 == counts.1 {
            return;
        }
        let none = if least { 0.0 } else { f64::INFINITY };
        let was_count = count_of(both.old, keyword, none);
        let is_count = counts.1.unwrap_or(none);
        let kept = if least { is_count <= was_count } else { is_count >= was_count };
        self.keyword(if kept { Class::Minor } else { Class::Major }, place, keyword, (was, is));
    }

    fn multiple(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let (was, is) = both.get("multipleOf");
        let steps = (was.and_then(number), is.and_then(number));
        if steps.0 == steps.1 {
            return;
        }
        let kept = match steps {
            (_, None) => true,
            (was, Some(is)) => {
                let end = |keywords, sign| end(both.old, keywords, sign, false);
                let lower = end(["minimum", "exclusiveMinimum"], 1.0);
                let upper = end(["maximum", "exclusiveMaximum"], -1.0);
                divides(both.old.get("type").map_or(EVERY, types), was, is, (lower, upper))
            }
        };
        let class = if kept { Class::Minor } else { Class::Major };
        self.keyword(class, place, "multipleOf", (was, is));
    }
}

/// Returns whether all values of some kinds between two ends are multiples of `is`, also in the arithmetic of floats.
pub(super) fn divides(
    kinds: u8,
    was: Option<f64>,
    is: f64,
    (lower, upper): (NumberEnd, NumberEnd),
) -> bool {
    if kinds & FRACTION != 0 {
        return false;
    }
    let Some(was) = was else { return is == 1.0 || kinds & INTEGER == 0 };
    let ratio = was / is;
    // Halving is exact; anything else is where quotients are small integers.
    if is >= 1.0 && (1.0..EXACT).contains(&ratio) && ratio.log2().fract() == 0.0 {
        return ratio * is == was && ratio.log2().exp2() == ratio;
    }
    let small = |end: NumberEnd| end.is_some_and(|end| end.0 >= -EXACT);
    small(lower)
        && small(upper)
        && is >= 1.0
        && was < EXACT
        && was.fract() == 0.0
        && is.fract() == 0.0
        && was % is == 0.0
}

/// Returns the tighter of two ends, negated if `sign` is; between `whole` numbers, as a number that is inside.
pub(super) fn end(
    keywords: &Object,
    [inside, outside]: [&str; 2],
    sign: f64,
    whole: bool,
) -> NumberEnd {
    let inside = keywords.get(inside).and_then(number).map(|end| (end * sign, false));
    let outside = keywords.get(outside).and_then(number).map(|end| (end * sign, true));
    match tightest(inside, outside) {
        Some((end, true)) if whole && end.abs() < EXACT => Some((end.floor() + 1.0, false)),
        Some((end, false)) if whole && end.abs() < EXACT => Some((end.ceil(), false)),
        end => end,
    }
}

/// Returns the tighter of two ends.
pub(super) fn tightest(one: NumberEnd, other: NumberEnd) -> NumberEnd {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(if other.0 > one.0 || other.0 >= one.0 && other.1 { other } else { one })
        }
        (one, other) => one.or(other),
    }
}

/// Returns whether all above one end is above another one, too.
pub(super) fn is_within(was: NumberEnd, is: NumberEnd) -> bool {
    match (was, is) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(was), Some(is)) => is.0 < was.0 || is.0 <= was.0 && (was.1 || !is.1),
    }
}

/// Returns the bound of a length or count, or `none`. A bound beyond reason is not taken for granted.
pub(super) fn count_of(keywords: &Object, keyword: &str, none: f64) -> f64 {
    let count = keywords.get(keyword).and_then(number);
    count.filter(|count| (0.0..EXACT).contains(count)).unwrap_or(none)
}

/// Returns which kinds of values a `type` lets through, a bit each; every kind if it is none.
pub(super) fn types(said: &Value) -> u8 {
    let names: Vec<&str> = match said {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return EVERY,
    };
    let mut bits = 0;
    for name in names {
        match TYPES.iter().position(|known| *known == name) {
            Some(_) if name == "number" => bits |= INTEGER | FRACTION,
            Some(bit) => bits |= 1 << bit,
            None => return EVERY,
        }
    }
    if bits == 0 { EVERY } else { bits }
}

/// Returns the kinds of some values.
pub(super) fn kinds(values: &[&Value]) -> u8 {
    let kind = |value: &Value| match value {
        Value::Null => NULL,
        Value::Bool(_) => TRUTH,
        Value::Float(float) if float.fract() != 0.0 => FRACTION,
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => INTEGER,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    };
    values.iter().fold(0, |bits, value| bits | kind(value))
}

/// Returns all the values that a schema may accept, or more; none if they are not listed.
pub(super) fn could_come(keywords: &Object) -> Option<Vec<&Value>> {
    match keywords.get("const") {
        Some(only) => Some(vec![only]),
        None => Some(keywords.get("enum")?.as_array()?.iter().collect()),
    }
}

/// Returns values that a schema does not refuse for not being listed; none if they are not listed.
fn may_come(keywords: &Object) -> Option<Vec<&Value>> {
    let listed = keywords.get("enum").and_then(Value::as_array);
    match (listed, keywords.get("const")) {
        (None, None) => None,
        (None, Some(only)) => Some(vec![only]),
        (Some(values), None) => Some(values.iter().collect()),
        (Some(values), Some(only)) => {
            Some(values.iter().filter(|value| key(value) == key(only)).collect())
        }
    }
}

/// Returns a text that two values share only if every validator takes them for equal.
pub(super) fn key(value: &Value) -> String {
    to_canonical(&normalized(value))
}

/// Returns a value with every float that is a small integer as an integer.
fn normalized(value: &Value) -> Cow<'_, Value> {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "it is an exact integer")]
        Value::Float(float) if float.fract() == 0.0 && float.abs() < EXACT => {
            Cow::Owned(Value::Int(*float as i64))
        }
        Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(|it| normalized(it).into_owned()).collect();
            Cow::Owned(items.into())
        }
        Value::Object(members) => {
            let normalized =
                |(name, value): (&str, &Value)| (name.to_owned(), normalized(value).into_owned());
            Cow::Owned(Value::Object(members.iter().map(normalized).collect()))
        }
        _ => Cow::Borrowed(value),
    }
}

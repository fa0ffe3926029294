//! Tries to find an input that an older schema accepts and a newer one refuses, although no change is major.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};

use super::{Class, compare_schemas, required_bump};
use crate::conform::Schema;
use crate::json::Value;

const NAMES: [&str; 4] = ["a", "b", "c", "ab"];
const PATTERNS: [&str; 4] = ["^a", "b$", "a", "^[ab]+$"];

fn scalar() -> BoxedStrategy<Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-2..6_i64).prop_map(Json::from),
        prop::sample::select(vec![0.5, 1.0, 1.5, 2.0, 4.0]).prop_map(Json::from),
        prop::sample::select(vec!["", "a", "b", "ab", "ba", "abc"]).prop_map(Json::from),
    ]
    .boxed()
}

/// Inputs of the few words that the schemas are made of.
fn input() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), inner, 0..4)
                .prop_map(|members| members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()),
        ]
    })
}

fn names() -> impl Strategy<Value = Json> {
    prop::sample::subsequence(NAMES.to_vec(), 1..3).prop_map(Json::from)
}

fn types() -> impl Strategy<Value = Json> {
    let names = vec!["null", "boolean", "integer", "number", "string", "array", "object"];
    prop_oneof![
        2 => prop::sample::select(names.clone()).prop_map(Json::from),
        1 => prop::sample::subsequence(names, 1..5).prop_map(Json::from),
    ]
}

fn under(
    names: &'static [&'static str],
    inner: BoxedStrategy<Json>,
) -> impl Strategy<Value = Json> {
    prop::collection::btree_map(prop::sample::select(names.to_vec()), inner, 1..4)
        .prop_map(|members| members.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
}

fn one_of(
    keywords: &[&'static str],
    value: BoxedStrategy<Json>,
) -> BoxedStrategy<(&'static str, Json)> {
    (prop::sample::select(keywords.to_vec()), value).boxed()
}

fn about_values() -> BoxedStrategy<(&'static str, Json)> {
    let small = prop_oneof![(-2..6_i64).prop_map(Json::from), Just(json!(1.5)), Just(json!(2.0))];
    let ends = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let counts =
        ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let text = |values: &[&'static str]| {
        prop::sample::select(values.to_vec()).prop_map(Json::from).boxed()
    };
    prop_oneof![
        3 => one_of(&["type"], types().boxed()),
        2 => one_of(&["enum"], prop::collection::vec(scalar(), 1..5).prop_map(|mut values| {
            values.sort_by_key(ToString::to_string);
            values.dedup();
            Json::from(values)
        }).boxed()),
        1 => one_of(&["const"], scalar()),
        2 => one_of(&ends, small.boxed()),
        2 => one_of(&counts, (0..4_i64).prop_map(Json::from).boxed()),
        1 => one_of(&["multipleOf"], prop::sample::select(vec![json!(1), json!(2), json!(3), json!(4), json!(6), json!(0.5)]).boxed()),
        1 => one_of(&["pattern"], text(&PATTERNS)),
        1 => one_of(&["format"], text(&["date", "uuid"])),
        1 => one_of(&["uniqueItems"], any::<bool>().prop_map(Json::from).boxed()),
        1 => one_of(&["title", "description", "x-note", "default"], scalar().prop_map(|it| it.to_string().into()).boxed()),
    ]
    .boxed()
}

fn about_parts(inner: &BoxedStrategy<Json>) -> BoxedStrategy<(&'static str, Json)> {
    let shut = prop_oneof![Just(json!(false)), Just(json!(true)), inner.clone()].boxed();
    let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Json::from).boxed();
    let needs = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), names(), 1..3)
        .prop_map(|members| members.into_iter().map(|(name, it)| (name.to_owned(), it)).collect());
    let to = prop::sample::select(vec!["#/$defs/p", "#/$defs/q"]).prop_map(Json::from);
    prop_oneof![
        2 => one_of(&["required"], names().boxed()),
        6 => one_of(&["properties"], under(&NAMES, inner.clone()).boxed()),
        1 => one_of(&["patternProperties"], under(&PATTERNS, inner.clone()).boxed()),
        3 => one_of(&["additionalProperties"], shut.clone()),
        1 => one_of(&["propertyNames"], inner.clone()),
        1 => one_of(&["dependentRequired"], needs.boxed()),
        1 => one_of(&["dependentSchemas"], under(&NAMES, inner.clone()).boxed()),
        1 => one_of(&["unevaluatedProperties", "unevaluatedItems"], shut.clone()),
        2 => one_of(&["items"], shut),
        2 => one_of(&["prefixItems"], list.clone()),
        2 => one_of(&["contains"], inner.clone()),
        1 => one_of(&["minContains", "maxContains"], (0..3_i64).prop_map(Json::from).boxed()),
        3 => one_of(&["anyOf", "oneOf", "allOf"], list),
        2 => one_of(&["not", "if", "then", "else"], inner.clone()),
        1 => one_of(&["$ref"], to.boxed()),
    ]
    .boxed()
}

fn made_of(keywords: Vec<(&'static str, Json)>) -> Json {
    keywords.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect()
}

fn part(depth: u32) -> BoxedStrategy<Json> {
    let plain = prop::collection::vec(about_values(), 0..3).prop_map(made_of);
    if depth == 0 {
        return prop_oneof![1 => any::<bool>().prop_map(Json::from), 6 => plain].boxed();
    }
    let keyword = prop_oneof![about_values(), about_parts(&part(depth - 1))];
    let whole = prop::collection::vec(keyword, 0..4).prop_map(made_of);
    prop_oneof![1 => any::<bool>().prop_map(Json::from), 3 => plain, 8 => whole].boxed()
}

/// A schema with two definitions, which refer to nothing but each other in one direction.
fn schema() -> impl Strategy<Value = Json> {
    (part(2), part(0), part(1)).prop_map(|(mut schema, p, q)| {
        if let Some(keywords) = schema.as_object_mut() {
            let q = if mentions_a_reference(&q) { json!({ "$ref": "#/$defs/p" }) } else { q };
            keywords.insert("$defs".to_owned(), json!({ "p": p, "q": q }));
        }
        schema
    })
}

fn mentions_a_reference(schema: &Json) -> bool {
    schema.to_string().contains("$ref")
}

/// What is done to a schema: at which of its parts, with which keyword; or which keyword goes.
type Mutation = (usize, Result<(&'static str, Json), usize>);

fn mutation() -> impl Strategy<Value = Mutation> {
    let more = prop_oneof![about_values(), about_parts(&part(1))].prop_map(Ok);
    (any::<usize>(), prop_oneof![more, any::<usize>().prop_map(Err)])
}

fn mutate(schema: &mut Json, (at, what): &Mutation) {
    let mut places = Vec::new();
    objects(schema, &mut String::new(), &mut places);
    let Some(place) = places.get(at % places.len().max(1)) else { return };
    let Some(object) = schema.pointer_mut(place).and_then(Json::as_object_mut) else { return };
    match what {
        Ok((keyword, value)) => {
            if !(place.contains("$defs") && mentions_a_reference(&json!({ *keyword: value }))) {
                object.insert((*keyword).to_owned(), value.clone());
            }
        }
        Err(which) => {
            let keys: Vec<String> = object.keys().filter(|key| *key != "$defs").cloned().collect();
            if let Some(key) = keys.get(which % keys.len().max(1)) {
                object.remove(key);
            }
        }
    }
}

/// Finds what is an object; that it may be no schema is well, as some mutants have to be nonsense.
fn objects(value: &Json, place: &mut String, places: &mut Vec<String>) {
    let children: Vec<(String, &Json)> = match value {
        Json::Object(members) => {
            places.push(place.clone());
            members.iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Json::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => return,
    };
    for (name, child) in children {
        let length = place.len();
        place.push('/');
        place.push_str(&name);
        objects(child, place, places);
        place.truncate(length);
    }
}

#[derive(Default)]
struct Seen {
    pairs: Cell<usize>,
    minor: Cell<usize>,
    accepted: Cell<usize>,
}

fn holds(old: &Json, new: &Json, inputs: &[Json], seen: &Seen) -> Result<(), TestCaseError> {
    let changes = compare_schemas(&Value::from(old), &Value::from(new), "");
    seen.pairs.set(seen.pairs.get() + 1);
    if old == new || required_bump(&changes) == Some(Class::Major) {
        return Ok(());
    }
    let (Ok(was), Ok(is)) = (Schema::read(old), Schema::read(new)) else { return Ok(()) };
    seen.minor.set(seen.minor.get() + 1);
    for input in inputs {
        let accepts = (was.check(input).is_ok(), is.check(input).is_ok());
        if accepts.0 {
            seen.accepted.set(seen.accepted.get() + 1);
            prop_assert!(accepts.1, "{new} refuses {input}, and {old} does not: {changes:?}");
        } else if required_bump(&changes) == Some(Class::Patch) {
            prop_assert!(!accepts.1, "{new} accepts {input}, and {old} does not: {changes:?}");
        }
    }
    Ok(())
}

fn many(cases: u32) -> TestRunner {
    let cases = Config::default().cases.max(256) / 256 * cases;
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

#[test]
fn no_minor_change_refuses_what_was_accepted() {
    let seen = Seen::default();
    let strategy =
        (schema(), prop::collection::vec(mutation(), 1..4), prop::collection::vec(input(), 30));
    let ran = many(2_000).run(&strategy, |(old, mutations, inputs)| {
        let mut new = old.clone();
        for mutation in &mutations {
            mutate(&mut new, mutation);
        }
        holds(&old, &new, &inputs, &seen)?;
        holds(&new, &old, &inputs, &seen)
    });
    ran.unwrap();
    assert!(seen.minor.get() > 1_000, "{} of {}", seen.minor.get(), seen.pairs.get());
    assert!(seen.accepted.get() > 10_000, "{}", seen.accepted.get());
}

#[test]
fn no_schema_that_accepts_less_passes_for_another() {
    let seen = Seen::default();
    let strategy = (part(1), part(1), prop::collection::vec(input(), 30));
    let ran = many(2_000).run(&strategy, |(old, new, inputs)| {
        holds(&old, &new, &inputs, &seen)?;
        // One of the alternatives is what it was.
        let either = json!({ "anyOf": [new, old] });
        holds(&old, &either, &inputs, &seen)?;
        // And what is both is either.
        holds(&json!({ "allOf": [old, new] }), &either, &inputs, &seen)
    });
    ran.unwrap();
    assert!(seen.minor.get() > 1_000, "{} of {}", seen.minor.get(), seen.pairs.get());
    assert!(seen.accepted.get() > 20_000, "{}", seen.accepted.get());
}

/// Schemas of few keywords, of which some differ, and inputs that come close to them.
fn close(
    keyword: &BoxedStrategy<(&'static str, Json)>,
    input: BoxedStrategy<Json>,
) -> impl Strategy<Value = (Json, Json, Vec<Json>)> + use<> {
    let keywords = |range| prop::collection::vec(keyword.clone(), range).prop_map(made_of);
    let inputs = prop::collection::vec(input, 20);
    (keywords(0..4), keywords(0..3), any::<usize>(), inputs).prop_map(
        |(old, more, gone, inputs)| {
            let mut new = old.clone();
            mutate(&mut new, &(0, Err(gone)));
            for (keyword, value) in more.as_object().into_iter().flatten() {
                new[keyword] = value.clone();
            }
            (old, new, inputs)
        },
    )
}

#[test]
fn bounds_that_are_close_are_told_apart() {
    let number = prop::sample::select(vec![-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 12.0]);
    let number = number.prop_map(Json::from).boxed();
    let ends = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let keyword = prop_oneof![
        4 => one_of(&ends, (0..3_i64).prop_map(Json::from).boxed()),
        1 => one_of(&["multipleOf"], (1..5_i64).prop_map(Json::from).boxed()),
        1 => one_of(&["type"], prop::sample::select(vec!["integer", "number"]).prop_map(Json::from).boxed()),
    ];
    let seen = Seen::default();
    let strategy = close(&keyword.boxed(), number);
    many(1_000).run(&strategy, |(old, new, inputs)| holds(&old, &new, &inputs, &seen)).unwrap();
    assert!(seen.accepted.get() > 1_000, "{}", seen.accepted.get());
}

#[test]
fn lists_that_are_close_are_told_apart() {
    let item = prop::sample::select(vec![json!(1), json!(2), json!(1.5), json!("a")]).boxed();
    let kinds = ["integer", "number", "string"].map(|kind| json!({ "type": kind }));
    let part =
        prop::sample::select([kinds.to_vec(), vec![json!(true), json!({ "const": 1 })]].concat())
            .boxed();
    let list = prop::collection::vec(part.clone(), 1..3).prop_map(Json::from).boxed();
    let keyword = prop_oneof![
        3 => one_of(&["contains"], part.clone()),
        3 => one_of(&["minContains", "maxContains"], (0..3_i64).prop_map(Json::from).boxed()),
        1 => one_of(&["items"], part),
        1 => one_of(&["prefixItems"], list),
    ];
    let seen = Seen::default();
    let strategy =
        close(&keyword.boxed(), prop::collection::vec(item, 0..4).prop_map(Json::from).boxed());
    many(1_000).run(&strategy, |(old, new, inputs)| holds(&old, &new, &inputs, &seen)).unwrap();
    assert!(seen.accepted.get() > 1_000, "{}", seen.accepted.get());
}

fn reversed(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            members.iter().rev().map(|(name, value)| (name.clone(), reversed(value))).collect()
        }
        Json::Array(items) => items.iter().map(reversed).collect(),
        _ => value.clone(),
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let keyword = prop_oneof![about_values(), about_parts(&input().boxed())].prop_map(|it| it.0);
    input().prop_recursive(4, 40, 5, move |inner| {
        let reference = prop::sample::select(vec!["#", "#/$ref", "#/a", "#/not", "x"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((keyword.clone(), inner.clone()), 0..6).prop_map(made_of),
            (reference, inner).prop_map(|(to, not)| json!({ "$ref": to, "not": not })),
        ]
    })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_schema_does_not_differ_from_itself(schema in schema()) {
        let value = Value::from(&schema);
        prop_assert_eq!(compare_schemas(&value, &value.clone(), ""), []);
        prop_assert_eq!(compare_schemas(&value, &Value::from(&reversed(&schema)), ""), []);
        // Nor does it if it has to be proved.
        let mut described = schema;
        if let Some(keywords) = described.as_object_mut() {
            keywords.insert("$comment".to_owned(), json!("another"));
            let described = Value::from(&described);
            let changes = compare_schemas(&value, &described, "");
            prop_assert_eq!(changes.len(), 1, "{:?}", changes);
            prop_assert_eq!(changes[0].class, Class::Patch);
        }
    }

    #[test]
    fn whatever_is_compared_comes_to_an_end(old in any_json(), new in any_json()) {
        let (old, new) = (Value::from(&old), Value::from(&new));
        let _changes = compare_schemas(&old, &new, "");
        prop_assert_eq!(compare_schemas(&old, &old.clone(), ""), []);
    }
}

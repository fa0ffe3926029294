//! Compares random pairs of schemas whose relation is known, and holds random inputs to both.
//!
//! `NEXUS_ROUTER_SEMVER_PAIRS` sets the number of pairs. With `--nocapture`, the tests print what they counted.
//! `NEXUS_ROUTER_SEMVER_FILE` names a file for the pairs with their inputs and verdicts, which other validators can read.

mod random;
mod schemas;
mod widen;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;

use serde_json::{Value as Json, json};

use super::{Change, Class, compare_outputs, compare_schemas, required_bump};
use crate::conform::Schema;
use crate::json::Value;
use random::RandomSource;
use schemas::{instance, part, scalar, schema};
use widen::widen;

/// The share of widenings that may be major, of a hundred.
const MAX_NEEDLESS: usize = 8;
/// The inputs that each pair is held to.
const INPUTS: usize = 16;

fn pairs(few: usize) -> usize {
    std::env::var("NEXUS_ROUTER_SEMVER_PAIRS")
        .map_or(few, |text| text.parse().expect("NEXUS_ROUTER_SEMVER_PAIRS is a number"))
}

/// Two schemas, compiled, and inputs that come close to them.
struct SchemaPair {
    old: Json,
    new: Json,
    compiled: [Schema; 2],
    inputs: Vec<Json>,
}

impl SchemaPair {
    /// Returns none if one of them is not a schema.
    fn new(random: &mut RandomSource, old: Json, new: Json) -> Option<Self> {
        let compiled = [Schema::read(&old).ok()?, Schema::read(&new).ok()?];
        let mut inputs: Vec<Json> = (0..INPUTS)
            .map(|index| {
                let of = if index % 2 == 0 { &old } else { &new };
                instance(random, of, of, 0)
            })
            .collect();
        inputs.push(scalar(random));
        inputs.push(json!({}));
        Some(Self { old, new, compiled, inputs })
    }

    /// Returns an input that the one schema accepts and the other one refuses.
    fn refused(&self, by: usize) -> Option<&Json> {
        let [accepts, refuses] = [&self.compiled[1 - by], &self.compiled[by]];
        self.inputs
            .iter()
            .find(|input| accepts.check(input).is_ok() && refuses.check(input).is_err())
    }

    /// Returns how many inputs the older schema accepts.
    fn accepted(&self) -> usize {
        self.inputs.iter().filter(|input| self.compiled[0].check(input).is_ok()).count()
    }

    fn swap(self) -> Self {
        let [was, is] = self.compiled;
        Self { old: self.new, new: self.old, compiled: [is, was], inputs: self.inputs }
    }

    fn changes(&self, is_output: bool) -> Vec<Change> {
        let compare = if is_output { compare_outputs } else { compare_schemas };
        compare(&Value::from(&self.old), &Value::from(&self.new), "")
    }

    /// Returns the pair as a line for other validators.
    fn to_line(&self) -> String {
        let bump = |is_output| required_bump(&self.changes(is_output)).map(Class::name);
        let Self { old, new, inputs, .. } = self;
        let bumps = json!({ "input": bump(false), "output": bump(true) });
        format!("{}\n", json!({ "old": old, "new": new, "inputs": inputs, "bumps": bumps }))
    }

    /// Asserts that the verdicts of a comparison are true of every input.
    fn assert_sound(&self) -> usize {
        let mut held = 0;
        for is_output in [false, true] {
            let changes = self.changes(is_output);
            let bump = required_bump(&changes);
            if bump == Some(Class::Major) {
                continue;
            }
            held += 1;
            let refuses = [usize::from(!is_output), usize::from(is_output)];
            let by = if bump == Some(Class::Minor) { &refuses[..1] } else { &refuses[..] };
            for by in by {
                let refused = self.refused(*by);
                let Self { old, new, .. } = self;
                assert!(
                    refused.is_none(),
                    "output {is_output}: {old}\n{new}\n{refused:?} {changes:?}"
                );
            }
        }
        held
    }
}

/// Widens a random schema by a few changes.
fn widened(random: &mut RandomSource) -> (Json, Json, Vec<&'static str>, bool) {
    loop {
        let old = schema(random);
        let mut new = old.clone();
        let (mut names, mut is_structural) = (Vec::new(), false);
        for _ in 0..=random.below(3) {
            if let Some(widening) = widen(random, &mut new) {
                names.push(widening.name);
                is_structural |= widening.is_structural;
            }
        }
        if old != new {
            return (old, new, names, is_structural);
        }
    }
}

#[test]
fn widenings_are_seldom_major() {
    let random = &mut RandomSource(26);
    let (mut count, mut major, mut outputs, mut major_outputs) = (0, 0, 0, 0);
    let mut by_name: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut accepted = 0;
    for _ in 0..pairs(500) {
        let (old, new, names, is_structural) = widened(random);
        let Some(pair) = SchemaPair::new(random, old, new) else { continue };
        let refused = pair.refused(1);
        assert!(
            refused.is_none(),
            "{names:?} does not widen: {refused:?}\n{}\n{}",
            pair.old,
            pair.new
        );
        accepted += pair.accepted();
        count += 1;
        let changes = pair.changes(false);
        let is_major = required_bump(&changes) == Some(Class::Major);
        major += usize::from(is_major);
        for name in &names {
            let entry = by_name.entry(name).or_default();
            entry.0 += 1;
            entry.1 += usize::from(is_major);
        }
        if is_major && std::env::var("NEXUS_ROUTER_SEMVER_SHOW").is_ok() {
            println!("{names:?}\n  {}\n  {}\n  {:?}", pair.old, pair.new, changes[0]);
        }
        if !is_structural {
            outputs += 1;
            let is_major = required_bump(&pair.swap().changes(true)) == Some(Class::Major);
            major_outputs += usize::from(is_major);
        }
    }
    println!("{count} widenings of inputs: {major} major ({:.2} %)", percent(major, count));
    println!(
        "{outputs} narrowings of outputs: {major_outputs} major ({:.2} %)",
        percent(major_outputs, outputs)
    );
    by_name.iter().for_each(|(name, (count, major))| println!("{name}: {major} of {count}"));
    assert!(accepted > 2 * count, "{accepted}");
    assert!(major * 100 <= MAX_NEEDLESS * count, "{major} of {count}");
    assert!(major_outputs * 100 <= MAX_NEEDLESS * outputs, "{major_outputs} of {outputs}");
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(whole).unwrap())
}

/// Changes a random part of a schema in a way that may mean anything.
fn mutate(random: &mut RandomSource, schema: &mut Json) {
    let mut places = Vec::new();
    objects(schema, String::new(), &mut places);
    let place = schema.pointer_mut(&random.pick(&places)).unwrap().as_object_mut().unwrap();
    let names: Vec<String> = place.keys().filter(|name| *name != "$defs").cloned().collect();
    let other = part(random, 2);
    match random.below(5) {
        0 if !names.is_empty() => {
            place.remove(&random.pick(&names));
        }
        1 if !names.is_empty() => {
            let name = random.pick(&names);
            let changed = match &place[&name] {
                Json::Number(number) => {
                    json!(number.as_f64().unwrap() + random.pick(&[-1.0, 0.5, 1.0]))
                }
                Json::Array(items) if items.len() > 1 => items[1..].iter().cloned().collect(),
                Json::Bool(truth) => json!(!truth),
                Json::String(_) => json!(random.pick(&["one", "string", "integer", "a"])),
                _ => other,
            };
            place.insert(name, changed);
        }
        2 => {
            let names: Vec<_> = other.as_object().unwrap().keys().cloned().collect();
            let name = random.pick(&names);
            place.insert(name.clone(), other[&name].clone());
        }
        3 => {
            let (keyword, held) = match random.below(6) {
                0 => ("additionalProperties", random.pick(&[json!(false), json!(true), other])),
                1 => ("unevaluatedProperties", random.pick(&[json!(false), other])),
                2 => ("items", random.pick(&[json!(false), other])),
                3 => ("not", other),
                4 => ("required", json!([random.pick(&schemas::NAMES), "kind"])),
                _ => ("oneOf", json!([other, part(random, 1)])),
            };
            place.insert(keyword.to_owned(), held);
        }
        _ => {
            let names: Vec<_> =
                place.keys().filter(|name| place[*name].is_object()).cloned().collect();
            if let (false, false) = (names.is_empty(), names.iter().any(|name| name == "$defs")) {
                place.insert(random.pick(&names), other);
            }
        }
    }
}

/// Lists the places of objects; some are not schemas, as some mutants are nonsense.
fn objects(value: &Json, place: String, places: &mut Vec<String>) {
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                objects(member, format!("{place}/{name}"), places);
            }
            places.push(place);
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
}

#[test]
fn no_verdict_is_unsound() {
    let random = &mut RandomSource(2_026);
    let (mut count, mut held, mut accepted) = (0, 0, 0);
    let mut file = std::env::var_os("NEXUS_ROUTER_SEMVER_FILE").map(|it| File::create(it).unwrap());
    while count < pairs(700) {
        let (old, mut new, ..) = widened(random);
        let mutations = random.below(3);
        for _ in 0..mutations {
            mutate(random, &mut new);
        }
        let Some(pair) = SchemaPair::new(random, old, new) else { continue };
        count += 1;
        accepted += pair.accepted();
        if let Some(file) = &mut file {
            file.write_all(pair.to_line().as_bytes()).unwrap();
        }
        held += pair.assert_sound();
        held += pair.swap().assert_sound();
    }
    println!(
        "{count} pairs, {held} verdicts that are not major, 0 unsound, {accepted} inputs accepted"
    );
    assert!(held > count / 2, "{held} of {count}");
    assert!(accepted > 2 * count, "{accepted}");
}

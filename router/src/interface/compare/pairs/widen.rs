//! Random changes of schemas after which everything that fitted still fits.

use serde_json::{Map, Value as Json, json};

use super::random::RandomSource;
use super::schemas::{NAMES, TAGS, part, scalar, variant};

/// A place where a wider schema makes the whole wider.
struct WidenSpot {
    pointer: String,
    /// Set if `unevaluated*` of a schema above depends on this one.
    is_watched: bool,
    /// Set if this is one of several variants that a tag tells apart.
    is_variant: bool,
}

/// A change that was made.
pub(super) struct WideningStep {
    pub(super) name: &'static str,
    /// Set if it names new members.
    pub(super) is_structural: bool,
}

type Change = fn(&mut RandomSource, &mut Json) -> bool;

/// Changes of a schema that is watched by `unevaluated*` or is a variant, and others.
const CHANGES: [(&str, bool, bool, Change); 27] = [
    ("loosen a bound", true, false, loosen),
    ("loosen a bound again", true, false, loosen),
    ("drop a bound", true, false, drop_bound),
    ("drop a condition", false, false, drop_condition),
    ("add a type", true, false, add_type),
    ("list one more value", true, false, list_more),
    ("list one value as a list", true, false, const_to_enum),
    ("turn texts into a pattern", true, false, enum_to_pattern),
    ("turn numbers into a range", true, false, enum_to_range),
    ("require less", true, false, require_less),
    ("name a member of a closed object", true, true, add_member),
    ("name a member of a closed object again", true, true, add_member),
    ("name a member that may be anything", true, true, add_any_member),
    ("open an object", true, true, open_object),
    ("add an alternative", true, false, add_alternative),
    ("make an alternative of it", false, false, wrap_in_any_of),
    ("add a tagged variant", true, false, add_variant),
    ("add a tagged variant again", true, false, add_variant),
    ("reorder variants", true, false, reorder),
    ("turn oneOf into anyOf", true, false, one_of_to_any_of),
    ("flatten allOf", true, false, flatten),
    ("nest in allOf", true, false, nest),
    ("split into allOf", true, false, split),
    ("respell a bound", true, false, respell_bound),
    ("respell types", true, false, respell_types),
    ("take types apart", true, false, types_to_any_of),
    ("describe it", true, true, describe),
];

/// Makes one change at a random place; none if the one that was drawn fits nowhere.
pub(super) fn widen(random: &mut RandomSource, schema: &mut Json) -> Option<WideningStep> {
    let mut spots = Vec::new();
    let root = schema.clone();
    let start = WidenSpot { pointer: String::new(), is_watched: false, is_variant: false };
    find_spots(&root, start, &mut spots);
    let (name, for_watched, for_variants, change) = random.pick(&CHANGES);
    spots.retain(|spot| (for_watched || !spot.is_watched) && (for_variants || !spot.is_variant));
    for _ in 0..8 {
        let spot = spots.get(random.below(spots.len()))?;
        let before = schema.clone();
        let place = schema.pointer_mut(&spot.pointer)?;
        let definitions = place.as_object_mut().and_then(|it| it.remove("$defs"));
        let is_made = place.is_object() && change(random, place);
        if let Some(definitions) = definitions {
            place["$defs"] = definitions;
        }
        if is_made {
            return Some(WideningStep { name, is_structural: name.contains("member") });
        }
        *schema = before;
    }
    None
}

fn find_spots(schema: &Json, spot: WidenSpot, spots: &mut Vec<WidenSpot>) {
    let Some(keywords) = schema.as_object() else { return };
    let WidenSpot { pointer, is_watched, is_variant } = &spot;
    let watches = ["unevaluatedProperties", "unevaluatedItems"];
    let is_watched = *is_watched || watches.iter().any(|it| keywords.contains_key(*it));
    let at = |step: String, is_watched, is_variant| WidenSpot {
        pointer: format!("{pointer}/{step}"),
        is_watched,
        is_variant,
    };
    for (name, part) in keywords.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if !(*is_variant && name == "kind") {
            find_spots(part, at(format!("properties/{name}"), false, false), spots);
        }
    }
    for keyword in ["items", "additionalProperties", "propertyNames"] {
        if let Some(part) = keywords.get(keyword) {
            find_spots(part, at(keyword.to_owned(), false, false), spots);
        }
    }
    for (index, part) in list(schema, "prefixItems").iter().enumerate() {
        find_spots(part, at(format!("prefixItems/{index}"), false, false), spots);
    }
    if !is_variant {
        for keyword in ["allOf", "anyOf"] {
            for (index, part) in list(schema, keyword).iter().enumerate() {
                find_spots(part, at(format!("{keyword}/{index}"), is_watched, false), spots);
            }
        }
        for keyword in ["then", "else"].iter().filter(|it| keywords.contains_key(**it)) {
            let part = &keywords[*keyword];
            find_spots(part, at((*keyword).to_owned(), is_watched, false), spots);
        }
        if is_tagged(schema) {
            for (index, part) in list(schema, "oneOf").iter().enumerate() {
                find_spots(part, at(format!("oneOf/{index}"), is_watched, true), spots);
            }
        }
    }
    spots.push(WidenSpot { is_watched, ..spot });
}

fn list<'a>(schema: &'a Json, keyword: &str) -> &'a [Json] {
    schema.get(keyword).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_tagged(schema: &Json) -> bool {
    let variants = list(schema, "oneOf");
    !variants.is_empty() && variants.iter().all(|it| it.pointer("/properties/kind").is_some())
}

fn keywords(schema: &mut Json) -> &mut Map<String, Json> {
    schema.as_object_mut().unwrap()
}

fn loosen(random: &mut RandomSource, schema: &mut Json) -> bool {
    let by = random.integer(1, 2);
    let (low, high) = (
        ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"],
        ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"],
    );
    let is_there = |keyword: &&str| schema.get(*keyword).and_then(Json::as_i64).is_some();
    let there: Vec<_> = low.into_iter().chain(high).filter(is_there).collect();
    if there.is_empty() {
        return false;
    }
    let keyword = random.pick(&there);
    let value = schema[keyword].as_i64().unwrap();
    let value = if low.contains(&keyword) { value - by } else { value + by };
    let is_count =
        keyword.starts_with("minL") || keyword.contains("Items") || keyword.contains("Prop");
    schema[keyword] = json!(if is_count { value.max(0) } else { value });
    true
}

fn drop_one(random: &mut RandomSource, schema: &mut Json, among: &[&'static str]) -> bool {
    let there: Vec<_> = among.iter().filter(|it| schema.get(**it).is_some()).collect();
    !there.is_empty() && keywords(schema).remove(*random.pick(&there)).is_some()
}

fn drop_bound(random: &mut RandomSource, schema: &mut Json) -> bool {
    let bounds = [
        "minimum",
        "exclusiveMinimum",
        "maximum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "type",
        "enum",
        "const",
        "propertyNames",
        "dependentRequired",
    ];
    drop_one(random, schema, &bounds)
}

fn drop_condition(random: &mut RandomSource, schema: &mut Json) -> bool {
    let conditions =
        ["not", "if", "anyOf", "oneOf", "allOf", "contains", "dependentSchemas", "items"];
    drop_one(random, schema, &conditions)
}

fn add_type(random: &mut RandomSource, schema: &mut Json) -> bool {
    let types: Vec<Json> = match schema.get("type") {
        Some(Json::Array(types)) => types.clone(),
        Some(kind) => vec![kind.clone()],
        None => return false,
    };
    let more = random.pick(&["null", "boolean", "number", "string", "array"]);
    if types.contains(&json!(more)) {
        return false;
    }
    let is_number = more == "number" && types == [json!("integer")];
    schema["type"] =
        if is_number { json!("number") } else { [types, vec![json!(more)]].concat().into() };
    true
}

fn list_more(random: &mut RandomSource, schema: &mut Json) -> bool {
    let more = scalar(random);
    let Some(values) = schema.get_mut("enum").and_then(Json::as_array_mut) else { return false };
    let is_new =
        !values.iter().any(|it| *it == more || it.as_f64() == more.as_f64() && it.is_number());
    if is_new {
        values.insert(0, more);
    }
    is_new
}

fn const_to_enum(random: &mut RandomSource, schema: &mut Json) -> bool {
    let Some(value) = keywords(schema).remove("const") else { return false };
    let more = json!(format!("more{}", random.below(3)));
    schema["enum"] = if random.percent(50) { json!([value]) } else { json!([more, value]) };
    true
}

fn enum_to_pattern(random: &mut RandomSource, schema: &mut Json) -> bool {
    let values = list(schema, "enum");
    if values.is_empty() || !values.iter().all(Json::is_string) {
        return false;
    }
    keywords(schema).remove("enum");
    schema["type"] = json!("string");
    schema["pattern"] = random.pick(&[json!("^[a-z0-9-]*$"), json!("^.{0,8}$"), json!("")]);
    true
}

fn enum_to_range(random: &mut RandomSource, schema: &mut Json) -> bool {
    let values: Option<Vec<i64>> = list(schema, "enum").iter().map(Json::as_i64).collect();
    let Some(values) = values.filter(|values| !values.is_empty()) else { return false };
    let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
    keywords(schema).remove("enum");
    schema["type"] = json!("integer");
    schema["minimum"] = json!(low - random.integer(0, 1));
    if random.percent(70) {
        schema["exclusiveMaximum"] = json!(high + 1);
    }
    true
}

fn require_less(random: &mut RandomSource, schema: &mut Json) -> bool {
    let Some(names) = schema.get_mut("required").and_then(Json::as_array_mut) else { return false };
    let index = random.below(names.len());
    !names.is_empty() && {
        names.remove(index);
        true
    }
}

fn add_member(random: &mut RandomSource, schema: &mut Json) -> bool {
    let shut = ["additionalProperties", "unevaluatedProperties"];
    let is_shut = shut.iter().any(|it| schema.get(*it) == Some(&json!(false)));
    let lets_others =
        list(schema, "allOf").len() + list(schema, "anyOf").len() + list(schema, "oneOf").len();
    let others = ["patternProperties", "$ref", "if", "dependentSchemas"];
    let name = random.pick(&NAMES);
    let pointer = format!("/properties/{name}");
    let is_typed = schema.get("additionalProperties").is_some_and(|it| *it != json!(false));
    if !is_shut
        || is_typed
        || lets_others > 0
        || others.iter().any(|it| schema.get(*it).is_some())
        || schema.pointer(&pointer).is_some()
        || schema.get("properties").is_none()
    {
        return false;
    }
    schema["properties"][name] = part(random, 1);
    true
}

fn add_any_member(random: &mut RandomSource, schema: &mut Json) -> bool {
    let name = random.pick(&NAMES);
    let can = schema.get("properties").is_some_and(|it| it.get(name).is_none())
        && schema.get("additionalProperties").is_none_or(Json::is_boolean)
        && list(schema, "allOf").is_empty();
    if can {
        schema["properties"][name] = json!({});
    }
    can
}

fn open_object(random: &mut RandomSource, schema: &mut Json) -> bool {
    let is_shut = schema.get("additionalProperties") == Some(&json!(false));
    if is_shut {
        schema["additionalProperties"] = random.pick(&[json!(true), json!({ "type": "string" })]);
    }
    is_shut
}

fn add_alternative(random: &mut RandomSource, schema: &mut Json) -> bool {
    let more = part(random, 1);
    let Some(branches) = schema.get_mut("anyOf").and_then(Json::as_array_mut) else { return false };
    let index = random.below(branches.len() + 1);
    branches.insert(index, more);
    true
}

fn wrap_in_any_of(random: &mut RandomSource, schema: &mut Json) -> bool {
    let inner = schema.take();
    let more = part(random, 1);
    *schema = if random.percent(50) {
        json!({ "anyOf": [inner, more] })
    } else {
        json!({ "anyOf": [more, inner] })
    };
    true
}

fn add_variant(random: &mut RandomSource, schema: &mut Json) -> bool {
    if !is_tagged(schema) {
        return false;
    }
    let used = schema["oneOf"].to_string();
    let Some(tag) = TAGS.iter().find(|tag| !used.contains(**tag)) else { return false };
    let more = variant(random, tag, 1);
    let variants = schema["oneOf"].as_array_mut().unwrap();
    let index = random.below(variants.len() + 1);
    variants.insert(index, more);
    true
}

fn reorder(random: &mut RandomSource, schema: &mut Json) -> bool {
    let keyword = random.pick(&["oneOf", "anyOf", "allOf"]);
    let Some(branches) = schema.get_mut(keyword).and_then(Json::as_array_mut) else { return false };
    branches.rotate_left(1);
    branches.len() > 1
}

fn one_of_to_any_of(_: &mut RandomSource, schema: &mut Json) -> bool {
    if schema.get("anyOf").is_some() {
        return false;
    }
    let Some(variants) = keywords(schema).remove("oneOf") else { return false };
    schema["anyOf"] = variants;
    true
}

/// Keywords that depend on those beside them.
const TOGETHER: [&str; 14] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "prefixItems",
    "items",
    "contains",
    "minContains",
    "maxContains",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$defs",
];

fn flatten(_: &mut RandomSource, schema: &mut Json) -> bool {
    let Some(branches) = schema.get("allOf").and_then(Json::as_array).cloned() else {
        return false;
    };
    let mut flat = schema.clone();
    keywords(&mut flat).remove("allOf");
    for branch in branches {
        let Some(members) = branch.as_object() else { return false };
        for (keyword, value) in members {
            let is_alone = keyword != "properties" && TOGETHER.contains(&keyword.as_str());
            if flat.get(keyword) == Some(value) {
                continue;
            }
            if is_alone || keyword != "properties" && flat.get(keyword).is_some() {
                return false;
            }
            if keyword != "properties" {
                flat[keyword] = value.clone();
                continue;
            }
            // A closed object does not let the members of others through.
            if flat.get("additionalProperties").is_some() || flat.get("patternProperties").is_some()
            {
                return false;
            }
            for (name, part) in value.as_object().unwrap() {
                if flat.pointer(&format!("/properties/{name}")).is_some() {
                    return false;
                }
                flat["properties"][name] = part.clone();
            }
        }
    }
    *schema = flat;
    true
}

fn nest(_: &mut RandomSource, schema: &mut Json) -> bool {
    let inner = schema.take();
    *schema = json!({ "allOf": [inner] });
    true
}

fn split(random: &mut RandomSource, schema: &mut Json) -> bool {
    if schema.get("allOf").is_some() {
        return false;
    }
    let movable = |keyword: &&String| !TOGETHER.contains(&keyword.as_str());
    let names: Vec<String> = keywords(schema).keys().filter(movable).cloned().collect();
    let moved = random.some(&names, 50);
    let mut inner = Map::new();
    for name in &moved {
        inner.extend(keywords(schema).remove_entry(name));
    }
    schema["allOf"] = json!([inner]);
    !moved.is_empty()
}

fn respell_bound(random: &mut RandomSource, schema: &mut Json) -> bool {
    let pairs = [
        ("minimum", "exclusiveMinimum", -1),
        ("exclusiveMinimum", "minimum", 1),
        ("maximum", "exclusiveMaximum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ];
    let (from, to, by) = random.pick(&pairs);
    let value = schema.get(from).and_then(Json::as_i64);
    let Some(value) = value.filter(|_| schema.get("type") == Some(&json!("integer"))) else {
        return false;
    };
    if schema.get(to).is_some() {
        return false;
    }
    keywords(schema).remove(from);
    schema[to] = json!(value + by);
    true
}

fn respell_types(_: &mut RandomSource, schema: &mut Json) -> bool {
    match schema.get("type").cloned() {
        Some(Json::String(kind)) => schema["type"] = json!([kind]),
        Some(Json::Array(kinds)) => schema["type"] = kinds.into_iter().rev().collect(),
        _ => return false,
    }
    true
}

fn types_to_any_of(_: &mut RandomSource, schema: &mut Json) -> bool {
    let kinds = list(schema, "type").to_vec();
    if kinds.len() < 2 || schema.get("anyOf").is_some() {
        return false;
    }
    keywords(schema).remove("type");
    schema["anyOf"] = kinds.into_iter().map(|kind| json!({ "type": kind })).collect();
    true
}

fn describe(random: &mut RandomSource, schema: &mut Json) -> bool {
    schema[random.pick(&["title", "description", "$comment"])] = json!("described");
    true
}

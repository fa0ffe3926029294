//! Random schemas as people write them, and inputs that come close to them.

use serde_json::{Map, Value as Json, json};

use super::random::RandomSource;

pub(super) const NAMES: [&str; 6] = ["a", "b", "c", "ab", "limit", "x-n"];
pub(super) const PATTERNS: [&str; 4] = ["^a", "b$", "^x-", "^[ab]+$"];
const TEXTS: [&str; 8] = ["", "a", "b", "ab", "ba", "abc", "x-n", "kind"];
pub(super) const TAGS: [&str; 5] = ["one", "two", "three", "four", "five"];

pub(super) fn scalar(random: &mut RandomSource) -> Json {
    match random.below(8) {
        0 => Json::Null,
        1 => json!(random.percent(50)),
        2..=4 => json!(random.integer(-2, 7)),
        5 => random.pick(&[json!(0.5), json!(1.0), json!(1.5), json!(2.0), json!(-0.5)]),
        _ => json!(random.pick(&TEXTS)),
    }
}

fn number(random: &mut RandomSource) -> Json {
    let kind = random.pick(&["integer", "integer", "number"]);
    let mut schema = json!({ "type": kind });
    let low = random.integer(-2, 4);
    for (keyword, value) in [
        ("minimum", json!(low)),
        ("maximum", json!(low + random.integer(0, 4))),
        ("exclusiveMinimum", json!(low - 1)),
        ("exclusiveMaximum", json!(low + random.integer(1, 5))),
        ("multipleOf", random.pick(&[json!(1), json!(2), json!(3), json!(0.5)])),
    ] {
        if random.percent(25) {
            schema[keyword] = value;
        }
    }
    schema
}

fn text(random: &mut RandomSource) -> Json {
    let mut schema = json!({ "type": "string" });
    let low = random.integer(0, 2);
    for (keyword, value) in [
        ("minLength", json!(low)),
        ("maxLength", json!(low + random.integer(0, 3))),
        ("pattern", json!(random.pick(&PATTERNS))),
        ("format", json!("date")),
    ] {
        if random.percent(25) {
            schema[keyword] = value;
        }
    }
    schema
}

fn listed(random: &mut RandomSource) -> Json {
    let mut values: Vec<Json> = match random.below(3) {
        0 => random.some(&TEXTS, 40).into_iter().map(Json::from).collect(),
        1 => random.some(&[0, 1, 2, 3, 4, 5], 50).into_iter().map(Json::from).collect(),
        _ => (0..3).map(|_| scalar(random)).collect(),
    };
    values.push(json!(1));
    values.sort_by_key(ToString::to_string);
    values.dedup();
    if random.percent(20) { json!({ "const": values[0] }) } else { json!({ "enum": values }) }
}

fn list(random: &mut RandomSource, depth: usize) -> Json {
    let mut schema = json!({ "type": "array" });
    if random.percent(70) {
        schema["items"] = if random.percent(10) { json!(false) } else { part(random, depth) };
    }
    if random.percent(25) {
        schema["prefixItems"] = (0..=random.below(2)).map(|_| part(random, depth)).collect();
    }
    let low = random.integer(0, 2);
    for (keyword, value) in [
        ("minItems", json!(low)),
        ("maxItems", json!(low + random.integer(0, 2))),
        ("uniqueItems", json!(true)),
    ] {
        if random.percent(20) {
            schema[keyword] = value;
        }
    }
    if random.percent(12) {
        schema["contains"] = part(random, 0);
        if random.percent(40) {
            let keyword = random.pick(&["minContains", "maxContains"]);
            schema[keyword] = json!(random.integer(0, 2));
        }
    }
    if random.percent(6) {
        schema["unevaluatedItems"] = json!(false);
    }
    schema
}

pub(super) fn object(random: &mut RandomSource, depth: usize) -> Json {
    let mut schema = json!({ "type": "object" });
    let names = random.some(&NAMES, 45);
    let properties: Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), part(random, depth))).collect();
    schema["properties"] = Json::Object(properties);
    if random.percent(60) {
        schema["required"] = random.some(&names, 40).into();
    }
    match random.below(10) {
        0..=3 => schema["additionalProperties"] = json!(false),
        4 => schema["additionalProperties"] = part(random, 0),
        5 => schema["unevaluatedProperties"] = json!(false),
        _ => {}
    }
    if random.percent(10) {
        schema["patternProperties"] = json!({ random.pick(&PATTERNS): part(random, 0) });
    }
    if random.percent(6) {
        schema["propertyNames"] = json!({ "pattern": random.pick(&PATTERNS) });
    }
    if random.percent(6) {
        schema["dependentRequired"] = json!({ random.pick(&NAMES): [random.pick(&NAMES)] });
    }
    if random.percent(4) {
        schema["dependentSchemas"] = json!({ random.pick(&NAMES): object(random, 0) });
    }
    if random.percent(10) {
        schema["minProperties"] = json!(random.integer(0, 2));
    }
    if random.percent(12) {
        schema["allOf"] = (0..=random.below(2)).map(|_| open_object(random)).collect();
    }
    schema
}

/// An object that lets other members through.
fn open_object(random: &mut RandomSource) -> Json {
    json!({ "properties": { random.pick(&NAMES): part(random, 0) } })
}

/// A variant that a required member tells apart from others.
pub(super) fn variant(random: &mut RandomSource, tag: &str, depth: usize) -> Json {
    let mut schema = object(random, depth);
    for keyword in ["patternProperties", "propertyNames", "allOf", "unevaluatedProperties"] {
        schema.as_object_mut().unwrap().remove(keyword);
    }
    schema["properties"]["kind"] = match random.below(3) {
        0 => json!({ "enum": [tag] }),
        _ => json!({ "const": tag }),
    };
    schema["required"] = json!(["kind"]);
    schema
}

fn tagged(random: &mut RandomSource, depth: usize) -> Json {
    let tags: Vec<_> = TAGS.iter().take(2 + random.below(2)).collect();
    let variants: Json = tags.into_iter().map(|tag| variant(random, tag, depth)).collect();
    let mut schema = json!({ random.pick(&["oneOf", "oneOf", "anyOf"]): variants });
    if random.percent(30) {
        schema["type"] = json!("object");
    }
    if random.percent(15) {
        schema["unevaluatedProperties"] = json!(false);
        let variants = if schema.get("oneOf").is_some() { "oneOf" } else { "anyOf" };
        for variant in schema[variants].as_array_mut().unwrap() {
            variant.as_object_mut().unwrap().remove("additionalProperties");
        }
    }
    schema
}

fn combined(random: &mut RandomSource, depth: usize) -> Json {
    let some =
        |random: &mut RandomSource| -> Json { (0..2).map(|_| part(random, depth)).collect() };
    match random.below(8) {
        0 | 1 => json!({ "anyOf": some(random) }),
        2 => json!({ "oneOf": [text(random), number(random), { "type": "null" }] }),
        3 => json!({ "oneOf": some(random) }),
        4 => json!({ "allOf": [number(random), { "minimum": random.integer(-2, 4) }] }),
        5 => json!({ "type": "integer", "not": listed(random) }),
        6 => json!({
            "type": "object",
            "if": { "properties": { "a": listed(random) }, "required": ["a"] },
            "then": open_object(random),
            "else": open_object(random),
        }),
        _ => json!({ "$ref": random.pick(&["#/$defs/p", "#/$defs/q"]) }),
    }
}

pub(super) fn part(random: &mut RandomSource, depth: usize) -> Json {
    let kinds = if depth == 0 { 7 } else { 13 };
    match random.below(kinds) {
        0 | 1 => number(random),
        2 | 3 => text(random),
        4 => listed(random),
        5 => json!({ "type": random.pick(&["boolean", "null", "string"]) }),
        6 => {
            json!({ "type": random.pick(&[["string", "null"], ["integer", "string"], ["null", "object"]]) })
        }
        7 => list(random, depth - 1),
        8 | 9 => object(random, depth - 1),
        10 => tagged(random, depth - 1),
        _ => combined(random, depth - 1),
    }
}

/// A whole schema: most often of arguments, which are objects.
pub(super) fn schema(random: &mut RandomSource) -> Json {
    let mut schema = if random.percent(60) { object(random, 2) } else { part(random, 3) };
    let (p, q) = (object(random, 0), number(random));
    schema["$defs"] = json!({ "p": p, "q": q });
    schema
}

/// Makes a value that may well fit a schema.
pub(super) fn instance(
    random: &mut RandomSource,
    root: &Json,
    schema: &Json,
    depth: usize,
) -> Json {
    let Some(keywords) = schema.as_object() else { return scalar(random) };
    if depth > 6 || random.percent(4) {
        return scalar(random);
    }
    let below = |random: &mut RandomSource, part: &Json| instance(random, root, part, depth + 1);
    let lists = ["oneOf", "anyOf"].into_iter().filter_map(|it| keywords.get(it)?.as_array());
    let mut bases: Vec<Json> = Vec::new();
    for variants in lists {
        let variant = random.pick(variants);
        bases.push(below(random, &variant));
    }
    for part in keywords.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        bases.push(below(random, part));
    }
    if let Some(to) = keywords.get("$ref").and_then(Json::as_str) {
        let part = root.pointer(to.trim_start_matches('#')).unwrap_or(&Json::Null);
        bases.push(below(random, part));
    }
    for keyword in ["if", "then", "else"] {
        if let Some(part) = keywords.get(keyword).filter(|_| random.percent(50)) {
            bases.push(below(random, part));
        }
    }
    if let Some(values) = keywords.get("enum").and_then(Json::as_array).filter(|it| !it.is_empty())
    {
        return random.pick(values);
    }
    if let Some(value) = keywords.get("const") {
        return value.clone();
    }
    let is_object = keywords.contains_key("properties") || bases.iter().any(Json::is_object);
    let kind = match keywords.get("type") {
        Some(Json::String(kind)) => kind.clone(),
        Some(Json::Array(kinds)) if !kinds.is_empty() => {
            random.pick(kinds).as_str().unwrap_or_default().to_owned()
        }
        _ if is_object => "object".to_owned(),
        _ if !bases.is_empty() => return random.pick(&bases),
        _ => random.pick(&["integer", "string", "object", "array", "null"]).to_owned(),
    };
    match kind.as_str() {
        "object" => members(random, root, keywords, &bases, depth),
        "array" => items(random, root, keywords, depth),
        "integer" | "number" => close_number(random, keywords),
        "string" => json!(random.pick(&TEXTS)),
        "boolean" => json!(random.percent(50)),
        "null" => Json::Null,
        _ => scalar(random),
    }
}

fn close_number(random: &mut RandomSource, keywords: &Map<String, Json>) -> Json {
    let ends = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"];
    let ends: Vec<f64> =
        ends.iter().filter_map(|keyword| keywords.get(*keyword)?.as_f64()).collect();
    if ends.is_empty() || random.percent(30) {
        return json!(random.integer(-3, 8));
    }
    let near = random.pick(&ends) + random.pick(&[-1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0]);
    #[expect(clippy::cast_possible_truncation, reason = "it is a small integer")]
    let whole = near as i64;
    if near.fract() == 0.0 { json!(whole) } else { json!(near) }
}

fn members(
    random: &mut RandomSource,
    root: &Json,
    keywords: &Map<String, Json>,
    bases: &[Json],
    depth: usize,
) -> Json {
    let mut object = Map::new();
    for base in bases {
        object.extend(base.as_object().cloned().unwrap_or_default());
    }
    let required = keywords.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|it| it.iter().any(|it| it == name));
    for (name, part) in keywords.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if is_required(name) && !random.percent(3) || random.percent(45) {
            object.insert(name.clone(), instance(random, root, part, depth + 1));
        }
    }
    for name in required.as_array().into_iter().flatten().filter_map(Json::as_str) {
        if !object.contains_key(name) && !random.percent(5) {
            object.insert(name.to_owned(), scalar(random));
        }
    }
    if random.percent(25) {
        let name = random.pick(&NAMES);
        let additional = keywords.get("additionalProperties").unwrap_or(&Json::Null);
        object.insert(name.to_owned(), instance(random, root, additional, depth + 1));
    }
    Json::Object(object)
}

fn items(
    random: &mut RandomSource,
    root: &Json,
    keywords: &Map<String, Json>,
    depth: usize,
) -> Json {
    let first = keywords.get("prefixItems").and_then(Json::as_array).cloned().unwrap_or_default();
    let rest = keywords.get("items").unwrap_or(&Json::Null);
    let contained = keywords.get("contains");
    (0..random.below(4))
        .map(|index| match (first.get(index), contained) {
            (Some(part), _) => instance(random, root, part, depth + 1),
            (None, Some(part)) if random.percent(50) => instance(random, root, part, depth + 1),
            _ => instance(random, root, rest, depth + 1),
        })
        .collect()
}

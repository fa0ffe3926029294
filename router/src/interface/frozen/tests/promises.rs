//! Promises of every operation: closed inputs, open outputs, complete failures, defaults, limits, sound examples.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use crate::conform::Schema;
use crate::interface::{Class, Interface, Operation, Severity, compare, frozen, required_bump};
use crate::json;

/// Inputs of the first frozen contracts. Their names stay.
const NAMES: [(&str, &[&str]); 14] = [
    ("cloudflare-r2.get_object", &["key", "version_id"]),
    ("cloudflare-r2.put_object", &["key", "body", "content_type", "metadata"]),
    ("grafana.query_dashboard", &["dashboard_uid", "panel_id", "from", "to", "variables"]),
    ("livekit.create_room", &["name", "empty_timeout", "max_participants"]),
    (
        "livekit.join_room",
        &["room", "identity", "name", "ttl_seconds", "can_publish", "can_subscribe"],
    ),
    ("loki.query_logs", &["query", "start", "end", "limit"]),
    (
        "meilisearch.search",
        &["index", "q", "limit", "offset", "filter", "sort", "facets", "highlight", "cropping"],
    ),
    ("prometheus.query_metrics", &["query", "start", "end", "step"]),
    (
        "qdrant-vector.create_collection",
        &["collection", "vector_size", "distance", "payload_schema"],
    ),
    ("qdrant-vector.health_check", &[]),
    (
        "qdrant-vector.search",
        &[
            "collection",
            "vector",
            "limit",
            "score_threshold",
            "payload_filter",
            "with_payload",
            "with_vector",
        ],
    ),
    ("qdrant-vector.upsert", &["collection", "points"]),
    ("supabase-postgres.query", &["sql", "params"]),
    (
        "supabase-postgres.vector_search",
        &["table", "vector_column", "query_vector", "limit", "threshold", "filters"],
    ),
];

/// Failures that every operation declares.
const EVERYWHERE: [&str; 6] = [
    "AUTH_FAILED",
    "BAD_REQUEST",
    "CONNECTION_FAILED",
    "INVALID_RESPONSE",
    "RATE_LIMITED",
    "TIMEOUT",
];

/// Codes for something that does not exist.
const MISSING: [&str; 6] = [
    "BUCKET_NOT_FOUND",
    "COLLECTION_NOT_FOUND",
    "INDEX_NOT_FOUND",
    "NOT_FOUND",
    "NO_SUCH_KEY",
    "ROOM_NOT_FOUND",
];

/// An operation with its name, its schemas as JSON and compiled.
struct Frozen {
    place: String,
    interface: &'static Interface,
    operation: &'static Operation,
    input_schema: Json,
    output_schema: Json,
    input: Schema,
    output: Schema,
}

impl Frozen {
    fn all() -> Vec<Self> {
        let operations = frozen().iter().flat_map(|interface| {
            interface.operations.iter().map(move |(name, operation)| (interface, name, operation))
        });
        let read =
            |(interface, name, operation): (&'static Interface, &String, &'static Operation)| {
                let input_schema = operation.input_schema.to_serde();
                let output_schema = operation.output_schema.to_serde();
                let (input, output) = (Schema::read(&input_schema), Schema::read(&output_schema));
                Self {
                    place: format!("{}.{name}", interface.adapter_id),
                    interface,
                    operation,
                    input: input.unwrap(),
                    output: output.unwrap(),
                    input_schema,
                    output_schema,
                }
            };
        operations.map(read).collect()
    }

    fn members(schema: &Json) -> impl Iterator<Item = (&String, &Json)> {
        schema["properties"].as_object().unwrap().iter()
    }

    fn defaults(&self) -> serde_json::Map<String, Json> {
        let defaults = Self::members(&self.input_schema)
            .filter_map(|(name, member)| Some((name.clone(), member.get("default")?.clone())));
        defaults.collect()
    }

    fn codes(&self) -> BTreeSet<&str> {
        self.operation.failure_modes.iter().map(|mode| mode.code.as_str()).collect()
    }

    /// Inputs of all examples, as JSON.
    fn inputs(&self) -> impl Iterator<Item = Json> {
        let plain = self.operation.examples.iter();
        let faults = self.operation.fault_examples.iter().map(|fault| &fault.example);
        plain.chain(faults).map(|example| example.input.to_serde().into())
    }
}

#[test]
fn keeps_every_input_name_of_the_first_contracts() {
    let operations = Frozen::all();
    assert_eq!(operations.len(), NAMES.len());
    for (frozen, (place, names)) in operations.iter().zip(NAMES) {
        assert_eq!(frozen.place, place);
        for name in names {
            assert!(frozen.input_schema["properties"].get(name).is_some(), "{place}: {name}");
        }
    }
}

#[test]
fn inputs_are_closed_and_outputs_are_open() {
    for frozen in Frozen::all() {
        let place = &frozen.place;
        for mut input in frozen.inputs() {
            frozen.input.check(&input).unwrap();
            input["no_such_input"] = json!(1);
            assert!(frozen.input.check(&input).is_err(), "{place}");
        }
        let outputs = frozen.operation.examples.iter().filter_map(|it| it.comes.as_ref().ok());
        for output in outputs {
            let mut output = output.to_serde();
            output["added_by_the_service"] = json!({ "later": [1] });
            frozen.output.check(&output).unwrap_or_else(|misfit| panic!("{place}: {misfit}"));
        }
    }
}

/// Calls a function with every schema of an object below a schema.
fn objects(schema: &Json, see: &mut dyn FnMut(&Json)) {
    match schema {
        Json::Object(members) => {
            if members.get("type") == Some(&json!("object")) {
                see(schema);
            }
            members.values().for_each(|member| objects(member, see));
        }
        Json::Array(items) => items.iter().for_each(|item| objects(item, see)),
        _ => {}
    }
}

#[test]
fn no_object_of_an_output_is_closed_but_bytes() {
    for frozen in Frozen::all() {
        objects(&frozen.output_schema, &mut |object| {
            if object["additionalProperties"] == json!(false) {
                assert_eq!(object["required"], json!(["base64"]), "{}: {object}", frozen.place);
            }
        });
    }
}

#[test]
fn every_operation_has_successes_and_faults() {
    for frozen in Frozen::all() {
        let (place, operation) = (&frozen.place, frozen.operation);
        assert!(operation.examples.iter().any(|it| it.comes.is_ok()), "{place}");
        let faults = &operation.fault_examples;
        assert!(faults.iter().any(|fault| fault.example.comes.is_err()), "{place}");
        for pointer in &operation.volatile {
            let member = operation.output_schema.get("properties").unwrap();
            assert!(member.pointer(pointer).is_some(), "{place}: {pointer}");
        }
    }
}

#[test]
fn failures_are_complete_and_described() {
    for frozen in Frozen::all() {
        let (place, codes) = (&frozen.place, frozen.codes());
        for code in EVERYWHERE {
            assert!(codes.contains(code), "{place}: {code}");
        }
        assert!(MISSING.iter().any(|code| codes.contains(code)), "{place}");
        let over_http = frozen.interface.adapter_id != "supabase-postgres";
        assert_eq!(codes.contains("HTTP_ERROR"), over_http, "{place}");
        // What only writes has an answer of a few bytes.
        let reads = frozen.operation.read_only || place == "supabase-postgres.query";
        let bounded = reads && place != "livekit.join_room";
        assert_eq!(codes.contains("RESPONSE_TOO_LARGE"), bounded, "{place}");
        for mode in &frozen.operation.failure_modes {
            assert!(mode.description.is_some(), "{place}: {}", mode.code);
            // After an error there is no answer to go on with.
            assert!(!mode.halts || mode.severity == Severity::Error, "{place}: {}", mode.code);
        }
    }
}

#[test]
fn members_are_described_and_typed() {
    for frozen in Frozen::all() {
        for schema in [&frozen.input_schema, &frozen.output_schema] {
            for (name, member) in Frozen::members(schema) {
                let place = format!("{}: {name}", frozen.place);
                let description = member["description"].as_str().unwrap_or_default();
                assert!(description.ends_with(['.', ']']), "{place}: {description:?}");
                let typed = ["type", "anyOf", "not"].iter().any(|it| member.get(it).is_some());
                assert!(typed, "{place}");
            }
        }
    }
}

#[test]
fn defaults_fit_and_are_right_for_every_metric() {
    for frozen in Frozen::all() {
        let defaults = frozen.defaults();
        for name in ["score_threshold", "threshold", "ranking_score_threshold"] {
            assert!(!defaults.contains_key(name), "{}: {name}", frozen.place);
        }
        for input in frozen.inputs() {
            let mut filled = defaults.clone();
            filled.extend(input.as_object().unwrap().clone());
            frozen.input.check(&Json::Object(filled)).unwrap();
        }
    }
}

#[test]
fn rows_and_bytes_have_limits() {
    let limits = ["limit", "max_rows", "max_bytes", "hits_per_page", "max_data_points"];
    for frozen in Frozen::all() {
        for (name, member) in Frozen::members(&frozen.input_schema) {
            if limits.contains(&name.as_str()) {
                assert!(member["maximum"].as_u64().is_some(), "{}: {name}", frozen.place);
            }
        }
    }
    let r2 = Frozen::all().into_iter().find(|it| it.place == "cloudflare-r2.put_object").unwrap();
    let put = |body: Json| r2.input.check(&json!({ "key": "k", "body": body }));
    put(json!("x".repeat(8 << 20))).unwrap();
    put(json!("x".repeat((8 << 20) + 1))).unwrap_err();
    put(json!({ "base64": "not base64" })).unwrap_err();
}

#[test]
fn examples_do_not_contradict_each_other_with_defaults_filled_in() {
    for frozen in Frozen::all() {
        let mut outcomes = BTreeMap::new();
        for example in &frozen.operation.examples {
            let mut filled = frozen.defaults();
            filled.extend(example.input.to_serde());
            let outcome = format!("{:?}", example.comes);
            let other = outcomes.insert(Json::Object(filled.clone()).to_string(), outcome.clone());
            assert!(other.is_none_or(|it| it == outcome), "{}: {filled:?}", frozen.place);
        }
    }
}

#[test]
fn no_fault_example_repeats_a_plain_example() {
    for frozen in Frozen::all() {
        for fault in &frozen.operation.fault_examples {
            let when = &fault.when;
            assert!(!when.ends_with('.') && when.starts_with(char::is_lowercase), "{when}");
            let same = |it: &&crate::interface::Example| **it == fault.example;
            assert!(frozen.operation.examples.iter().find(same).is_none(), "{when}");
        }
    }
}

#[test]
fn room_never_has_the_password_of_the_turn_server() {
    let all = Frozen::all();
    let room = all.iter().find(|it| it.place == "livekit.create_room").unwrap();
    let mut output = json!({ "sid": "RM_1", "name": "demo", "enabled_codecs": [] });
    room.output.check(&output).unwrap();
    for name in ["turn_password", "turnPassword"] {
        output[name] = json!("hunter2");
        room.output.check(&output).unwrap_err();
        output.as_object_mut().unwrap().remove(name);
    }
}

/// A frozen contract with one change.
fn changed(interface: &Interface, change: impl FnOnce(&mut Json)) -> Option<Class> {
    let mut document = interface.document.to_serde();
    change(&mut document);
    let changed = Interface::from_document(json::Value::from(&document)).unwrap();
    required_bump(&compare(interface, &changed))
}

#[test]
fn comparison_classifies_changes_as_the_specification_does() {
    for interface in frozen() {
        let id = &interface.adapter_id;
        for name in interface.operations.keys() {
            let place = format!("{id}.{name}");
            let with = |change: &dyn Fn(&mut Json)| {
                changed(interface, |document| change(&mut document["operations"][name]))
            };
            assert_eq!(with(&|_| {}), None, "{place}");
            let optional = with(&|it| {
                it["input_schema"]["properties"]["new_input"] = json!({ "type": "string" });
            });
            assert_eq!(optional, Some(Class::Minor), "{place}");
            let required = with(&|it| {
                it["input_schema"]["properties"]["new_input"] = json!({ "type": "string" });
                let mut names =
                    it["input_schema"]["required"].as_array().cloned().unwrap_or_default();
                names.push(json!("new_input"));
                it["input_schema"]["required"] = json!(names);
                (it["examples"], it["fault_examples"]) = (json!([]), json!([]));
            });
            assert_eq!(required, Some(Class::Major), "{place}");
            let gone = with(&|it| {
                it["output_schema"]["required"] = json!([]);
            });
            assert_eq!(gone, Some(Class::Major), "{place}: what was always there may be missing");
            let words = with(&|it| {
                it["description"] = json!("Other words.");
                it["failure_modes"][0]["description"] = json!("Other words.");
                it["fault_examples"] = json!([]);
            });
            assert_eq!(words, Some(Class::Patch), "{place}");
        }
        let more = changed(interface, |document| {
            let (_, first) = document["operations"].as_object().unwrap().iter().next().unwrap();
            document["operations"]["one_more"] = first.clone();
        });
        assert_eq!(more, Some(Class::Minor), "{id}");
        if interface.operations.len() > 1 {
            let fewer = changed(interface, |document| {
                let name = interface.operations.keys().next().unwrap();
                document["operations"].as_object_mut().unwrap().remove(name);
            });
            assert_eq!(fewer, Some(Class::Major), "{id}");
        }
    }
}

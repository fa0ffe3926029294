//! Recorded answers of the real services, mapped as the contracts say: each is a valid output or a declared failure.

mod mapping;

use serde_json::{Value as Json, json};

use crate::conform::Schema;
use crate::interface::frozen_interface;
use mapping::{Answer, Outcome};

/// A call as a contract has it, the recorded exchange that it leads to, and the failure if there is one.
type Call = (&'static str, Json, &'static str, Option<&'static str>);

/// A recording by the id of its adapter.
fn recording(adapter_id: &str) -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/services");
    let text = std::fs::read(format!("{path}/{adapter_id}.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn answer(recording: &Json, name: &str) -> Answer {
    let exchanges = recording["exchanges"].as_array().unwrap();
    let found = exchanges.iter().find(|exchange| exchange["name"] == name);
    let exchange = found.unwrap_or_else(|| panic!("there is no exchange {name}"));
    Answer::read(exchange)
}

/// Checks each call: its input is valid, and the mapped answer is a valid output or the declared failure.
#[track_caller]
fn check(adapter_id: &str, map: fn(&str, &Json, &Answer) -> Outcome, calls: &[Call]) {
    let recording = recording(adapter_id);
    let interface = frozen_interface(adapter_id).unwrap();
    for (name, input, exchange, failure) in calls {
        let operation = &interface.operations[*name];
        let place = format!("{adapter_id}.{name}, {exchange}");
        let schema = Schema::read(&operation.input_schema.to_serde()).unwrap();
        schema.check(input).unwrap_or_else(|misfit| panic!("{place}: {misfit}"));
        match (map(name, input, &answer(&recording, exchange)), failure) {
            (Ok(output), None) => {
                let schema = Schema::read(&operation.output_schema.to_serde()).unwrap();
                schema.check(&output).unwrap_or_else(|misfit| panic!("{place}: {misfit} {output}"));
            }
            (Err(code), Some(expected)) => {
                assert_eq!(code, *expected, "{place}");
                let declared = operation.failure_modes.iter().any(|mode| mode.code == code);
                assert!(declared, "{place}: {code} is not declared");
            }
            (came, _) => panic!("{place}: {came:?}"),
        }
    }
}

#[test]
fn qdrant_answers_fit() {
    let docs = json!({ "collection": "docs", "vector": [0.1, 0.2, 0.3, 0.4], "limit": 3 });
    let with = |name: &str, value: Json| {
        let mut input = docs.clone();
        input[name] = value;
        input
    };
    let new = json!({ "collection": "docs", "vector_size": 4, "distance": "Cosine" });
    let point = |id: Json, vector: Json, wait: bool| json!({ "collection": "docs", "wait": wait, "points": [{ "id": id, "vector": vector }] });
    let four = json!([0.5, 0.5, 0.5, 0.5]);
    let london = json!({ "must": [{ "key": "city", "match": { "value": "London" } }] });
    check(
        "qdrant-vector",
        mapping::qdrant,
        &[
            ("health_check", json!({}), "health_check", None),
            ("create_collection", new.clone(), "create_collection", None),
            ("create_collection", new.clone(), "create_collection exists", Some("ALREADY_EXISTS")),
            ("create_collection", new, "no key", Some("AUTH_FAILED")),
            ("upsert", point(json!(1), four.clone(), true), "upsert wait", None),
            ("upsert", point(json!(2), four.clone(), false), "upsert no wait", None),
            (
                "upsert",
                point(json!(3), json!([0.1, 0.2]), true),
                "upsert wrong dim",
                Some("VECTOR_MISMATCH"),
            ),
            ("upsert", point(json!(4), four, true), "wrong key", Some("AUTH_FAILED")),
            ("search", with("score_threshold", json!(0.1)), "search via points/query", None),
            ("search", with("payload_filter", london), "search with filter", None),
            (
                "search",
                with("collection", json!("none")),
                "search missing collection",
                Some("COLLECTION_NOT_FOUND"),
            ),
            ("search", with("vector", json!([0.1])), "search wrong dim", Some("VECTOR_MISMATCH")),
            ("search", docs.clone(), "malformed json", Some("BAD_REQUEST")),
        ],
    );
}

#[test]
fn point_ids_that_qdrant_refuses_are_refused_before() {
    let interface = frozen_interface("qdrant-vector").unwrap();
    let schema = interface.operations["upsert"].input_schema.to_serde();
    let schema = Schema::read(&schema).unwrap();
    let with = |id: Json| json!({ "collection": "docs", "points": [{ "id": id, "vector": [1] }] });
    for id in [json!("abc"), json!(-1), json!(1.5), json!("")] {
        schema.check(&with(id)).unwrap_err();
    }
    for id in [
        json!(u64::MAX),
        json!("5c56c793-69f3-4fbf-87e6-c4bf54c28c26"),
        json!("5C56C79369F34FBF87E6C4BF54C28C26"),
        json!("urn:uuid:5c56c793-69f3-4fbf-87e6-c4bf54c28c26"),
    ] {
        schema.check(&with(id)).unwrap();
    }
}

#[test]
fn meilisearch_answers_fit() {
    let movies = |more: Json| {
        let mut input = json!({ "index": "movies" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let faceted = movies(json!({
        "filter": "genres = Drama", "sort": ["year:desc"], "facets": ["genres"], "limit": 2,
        "attributes_to_highlight": ["title"],
    }));
    let x = movies(json!({ "q": "x" }));
    check(
        "meilisearch",
        mapping::meilisearch,
        &[
            ("search", movies(json!({ "q": "wonder", "limit": 5 })), "search", None),
            ("search", faceted, "search filter sort facets", None),
            ("search", movies(json!({ "hits_per_page": 2, "page": 1 })), "search page", None),
            ("search", movies(json!({ "q": "zzzz" })), "search none", None),
            ("search", x.clone(), "no key", Some("AUTH_FAILED")),
            ("search", x.clone(), "wrong key", Some("AUTH_FAILED")),
            (
                "search",
                json!({ "index": "none", "q": "x" }),
                "index missing",
                Some("INDEX_NOT_FOUND"),
            ),
            (
                "search",
                movies(json!({ "filter": "title = a" })),
                "not filterable",
                Some("BAD_REQUEST"),
            ),
            ("search", x.clone(), "malformed json", Some("BAD_REQUEST")),
            ("search", x, "bad content type", Some("HTTP_ERROR")),
        ],
    );
}

/// The server lists the members that a search may have. The contract leaves none out but `media`, which takes part
/// only in searches with pictures.
#[test]
fn meilisearch_inputs_are_all_that_the_server_knows() {
    let refused = answer(&recording("meilisearch"), "unknown field");
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    let names = message.split_once("expected one of ").unwrap().1;
    let properties =
        frozen_interface("meilisearch").unwrap().operations["search"].input_schema.to_serde();
    for name in names.split(", ").map(|name| name.trim_matches('`')) {
        let snake = mapping::snake(name);
        let known = properties["properties"].get(&snake).is_some();
        assert_eq!(known, snake != "media", "{snake}");
    }
}

#[test]
fn prometheus_answers_fit() {
    let at = |query: &str| json!({ "query": query, "time": 1_794_789_415 });
    let span = |step: &str| json!({ "query": "up", "start": "1794789413", "end": 1_794_789_415, "step": step });
    check(
        "prometheus",
        mapping::prometheus,
        &[
            ("query_metrics", json!({ "query": "up" }), "instant vector (POST form)", None),
            ("query_metrics", at("up"), "instant GET", None),
            ("query_metrics", at("1+1"), "scalar", None),
            ("query_metrics", at("\"x\""), "string", None),
            ("query_metrics", at("up[3s]"), "matrix", None),
            ("query_metrics", span("1s"), "range", None),
            ("query_metrics", at("nope_metric"), "empty", None),
            ("query_metrics", at("vector(0)/0"), "NaN", None),
            ("query_metrics", at("rate(prometheus_build_info[5m])"), "infos", None),
            ("query_metrics", at("up{"), "parse error", Some("BAD_REQUEST")),
            ("query_metrics", span("0"), "bad step", Some("BAD_REQUEST")),
            ("query_metrics", span("1s"), "too many points", Some("BAD_REQUEST")),
            ("query_metrics", at("up"), "execution error", Some("BAD_REQUEST")),
            ("query_metrics", span("1"), "timeout", Some("TIMEOUT")),
            ("query_metrics", at("up"), "unknown path", Some("NOT_FOUND")),
        ],
    );
}

#[test]
fn loki_answers_fit() {
    let logs = |more: Json| {
        let mut input = json!({ "query": "{app=\"demo\"}" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let span = json!({ "start": "1794789355474010716", "end": "1794789416474010716", "limit": 10 });
    let count = json!({ "query": "sum(count_over_time({app=\"demo\"}[1m]))", "step": "1" });
    let once = json!({ "query": "sum(count_over_time({app=\"demo\"}[1m]))", "time": "1794789416474010716" });
    check(
        "loki",
        mapping::loki,
        &[
            ("query_logs", logs(span), "streams backward", None),
            ("query_logs", logs(json!({ "direction": "forward" })), "streams filter forward", None),
            ("query_logs", count, "metric matrix", None),
            ("query_logs", once, "instant vector", None),
            ("query_logs", logs(json!({})), "empty", None),
            ("query_logs", logs(json!({ "time": "1" })), "instant log query", Some("BAD_REQUEST")),
            ("query_logs", logs(json!({})), "no tenant", Some("AUTH_FAILED")),
            ("query_logs", logs(json!({})), "parse error", Some("BAD_REQUEST")),
            ("query_logs", logs(json!({})), "range too long", Some("BAD_REQUEST")),
            ("query_logs", logs(json!({ "limit": 50_000 })), "limit too big", Some("BAD_REQUEST")),
            ("query_logs", logs(json!({})), "unknown path", Some("NOT_FOUND")),
        ],
    );
}

#[test]
fn grafana_answers_fit() {
    let uid = |uid: &str| json!({ "dashboard_uid": uid });
    let panel = json!({ "dashboard_uid": "svcdash1", "panel_id": 1, "from": "now-1m", "to": "now", "max_data_points": 4 });
    check(
        "grafana",
        mapping::grafana,
        &[
            ("query_dashboard", uid("svcdash1"), "dashboard by uid", None),
            ("query_dashboard", panel, "ds query", None),
            ("query_dashboard", uid("nope"), "missing", Some("NOT_FOUND")),
            ("query_dashboard", uid("svcdash1"), "no auth", Some("AUTH_FAILED")),
            ("query_dashboard", uid("svcdash1"), "bad token", Some("AUTH_FAILED")),
        ],
    );
}

#[test]
fn livekit_answers_fit() {
    let room = json!({ "name": "fx", "empty_timeout": 300, "max_participants": 10, "metadata": "{\"a\":1}" });
    let call = |exchange, failure| ("create_room", json!({ "name": "fx" }), exchange, failure);
    check(
        "livekit",
        mapping::livekit,
        &[
            ("create_room", room, "create_room", None),
            call("create_room again", None),
            call("no auth", Some("AUTH_FAILED")),
            call("bad secret", Some("AUTH_FAILED")),
            call("expired", Some("AUTH_FAILED")),
            call("missing grant", Some("AUTH_FAILED")),
            call("malformed json", Some("BAD_REQUEST")),
            call("unknown rpc", Some("NOT_FOUND")),
        ],
    );
    // As the server gives it, the answer has the password, and numbers as texts.
    let given = answer(&recording("livekit"), "create_room").json();
    let operation = &frozen_interface("livekit").unwrap().operations["create_room"];
    let schema = Schema::read(&operation.output_schema.to_serde()).unwrap();
    let misfit = schema.check(&given).unwrap_err().to_string();
    assert!(misfit.contains("/turn_password") && misfit.contains("/creation_time"), "{misfit}");
}

#[test]
fn supabase_answers_fit() {
    let sql = |sql: &str| json!({ "sql": sql });
    let near = |vector: Json| json!({ "table": "documents", "vector_column": "embedding", "query_vector": vector, "threshold": 0.5, "limit": 2 });
    check(
        "supabase-postgres",
        mapping::supabase,
        &[
            ("query", sql("select id, content from documents where id > 1"), "select", None),
            ("query", sql("select * from nope"), "missing table", Some("QUERY_FAILED")),
            ("query", sql("select zzz from documents"), "bad column", Some("QUERY_FAILED")),
            ("query", sql("insert into documents"), "permission denied", Some("QUERY_FAILED")),
            ("query", sql("select 1"), "bad jwt", Some("AUTH_FAILED")),
            ("vector_search", near(json!([1, 0, 0])), "rpc vector search", None),
            ("vector_search", near(json!([1, 0])), "wrong dims", Some("VECTOR_MISMATCH")),
            ("vector_search", near(json!([1, 0, 0])), "missing table", Some("NOT_FOUND")),
            ("vector_search", near(json!([1, 0, 0])), "bad column", Some("VECTOR_COLUMN_MISSING")),
        ],
    );
}

#[test]
fn object_storage_answers_fit() {
    let key = |key: &str| json!({ "key": key });
    let put = json!({ "key": "a/b c+\u{fc}.txt", "body": "hello", "content_type": "text/plain", "metadata": { "k": "v" } });
    let (part, fresh) = (
        json!({ "key": "a/b c+\u{fc}.txt", "range": "bytes=1-2" }),
        json!({ "key": "a/b c+\u{fc}.txt", "body": "x", "if_none_match": "*" }),
    );
    check(
        "cloudflare-r2",
        mapping::r2,
        &[
            ("put_object", put.clone(), "garage put", None),
            ("put_object", put.clone(), "seaweedfs put", None),
            ("put_object", fresh, "seaweedfs put if-none-match", Some("PRECONDITION_FAILED")),
            ("put_object", put, "seaweedfs bad secret", Some("AUTH_FAILED")),
            ("get_object", key("a/b c+\u{fc}.txt"), "garage get", None),
            ("get_object", part, "garage get range", None),
            ("get_object", key("nope"), "garage get missing", Some("NO_SUCH_KEY")),
            ("get_object", key("nope"), "seaweedfs get missing", Some("NO_SUCH_KEY")),
            ("get_object", key("x"), "seaweedfs missing bucket", Some("BUCKET_NOT_FOUND")),
            ("get_object", key("x"), "garage bad secret", Some("ACCESS_DENIED")),
            ("get_object", key("x"), "seaweedfs bad access key", Some("AUTH_FAILED")),
        ],
    );
}

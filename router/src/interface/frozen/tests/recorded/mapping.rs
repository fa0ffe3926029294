//! Mapping of the services' answers to outputs and failures, as the contracts describe it.

use serde_json::{Map, Value as Json, json};

/// Output, or the code of a failure.
pub(super) type Outcome = Result<Json, &'static str>;

/// Recorded answer of a service.
pub(super) struct Answer {
    status: u64,
    headers: Json,
    body: String,
}

impl Answer {
    pub(super) fn read(exchange: &Json) -> Self {
        let response = &exchange["response"];
        Self {
            status: response["status"].as_u64().unwrap(),
            headers: response["headers"].clone(),
            body: response["body"].as_str().unwrap().to_owned(),
        }
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.headers.as_object().unwrap();
        headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .and_then(|(_, it)| it.as_str())
    }

    /// Code that all HTTP services share, unless the status is a success.
    fn failure(&self, missing: &'static str) -> Option<&'static str> {
        Some(match self.status {
            200..300 => return None,
            400 | 422 => "BAD_REQUEST",
            401 | 403 => "AUTH_FAILED",
            404 => missing,
            408 | 504 => "TIMEOUT",
            429 => "RATE_LIMITED",
            _ => "HTTP_ERROR",
        })
    }
}

/// Returns a name in snake case.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Returns those members of an object that there are.
fn some(object: &Json, names: &[&str]) -> Map<String, Json> {
    let member = |name: &&str| Some(((*name).to_owned(), object.get(*name)?.clone()));
    names.iter().filter_map(member).collect()
}

pub(super) fn qdrant(operation: &str, input: &Json, answer: &Answer) -> Outcome {
    if operation == "health_check" {
        let healthy = answer.body == "healthz check passed";
        return Ok(json!({ "healthy": healthy, "latency_ms": 0.5 }));
    }
    if let Some(code) = answer.failure("COLLECTION_NOT_FOUND") {
        let is_mismatch = ["Vector dimension error", "Not existing vector name"];
        return Err(match answer.status {
            409 => "ALREADY_EXISTS",
            400 if is_mismatch.iter().any(|text| answer.body.contains(text)) => "VECTOR_MISMATCH",
            _ => code,
        });
    }
    let given = answer.json();
    let result = &given["result"];
    Ok(match operation {
        "create_collection" => json!({ "result": result, "status": given["status"] }),
        "upsert" => json!({
            "status": result["status"], "operation_id": result["operation_id"],
            "upserted_count": input["points"].as_array().unwrap().len(),
        }),
        _ => json!({
            "results": result["points"], "status": given["status"], "time": given["time"],
        }),
    })
}

pub(super) fn meilisearch(_: &str, _: &Json, answer: &Answer) -> Outcome {
    if let Some(code) = answer.failure("INDEX_NOT_FOUND") {
        return Err(code);
    }
    let Json::Object(given) = answer.json() else { panic!() };
    let mut output: Map<String, Json> =
        given.into_iter().map(|(name, member)| (snake(&name), member)).collect();
    for hit in output["hits"].as_array_mut().unwrap() {
        let Json::Object(hit) = hit else { panic!() };
        if let Some(score) = hit.remove("_rankingScore") {
            hit.insert("_ranking_score".to_owned(), score);
        }
    }
    Ok(output.into())
}

pub(super) fn prometheus(_: &str, _: &Json, answer: &Answer) -> Outcome {
    if let Some(code) = answer.failure("NOT_FOUND") {
        let is_timeout = answer.status == 503 && answer.json()["errorType"] == "timeout";
        return Err(if is_timeout { "TIMEOUT" } else { code });
    }
    let given = answer.json();
    let data = &given["data"];
    let result = match data["resultType"].as_str().unwrap() {
        "scalar" | "string" => json!([{ "metric": {}, "value": data["result"] }]),
        _ => data["result"].clone(),
    };
    let mut output = some(&given, &["warnings", "infos"]);
    output.insert("result_type".to_owned(), data["resultType"].clone());
    output.insert("result".to_owned(), result);
    Ok(output.into())
}

pub(super) fn loki(_: &str, _: &Json, answer: &Answer) -> Outcome {
    if let Some(code) = answer.failure("NOT_FOUND") {
        return Err(code);
    }
    let data = &answer.json()["data"];
    Ok(json!({ "result_type": data["resultType"], "result": data["result"] }))
}

pub(super) fn grafana(_: &str, input: &Json, answer: &Answer) -> Outcome {
    if let Some(code) = answer.failure("NOT_FOUND") {
        return Err(code);
    }
    let given = answer.json();
    if input.get("panel_id").is_some() {
        // The second of two calls; the first is the dashboard itself.
        return Ok(json!({ "dashboard": {}, "meta": {}, "results": given["results"] }));
    }
    Ok(some(&given, &["dashboard", "meta"]).into())
}

pub(super) fn livekit(_: &str, _: &Json, answer: &Answer) -> Outcome {
    if let Some(code) = answer.failure("NOT_FOUND") {
        return Err(code);
    }
    let given = answer.json();
    let mut output = some(
        &given,
        &[
            "sid",
            "name",
            "empty_timeout",
            "departure_timeout",
            "max_participants",
            "metadata",
            "num_participants",
            "num_publishers",
            "active_recording",
        ],
    );
    let created: u64 = given["creation_time"].as_str().unwrap().parse().unwrap();
    output.insert("creation_time".to_owned(), created.into());
    Ok(output.into())
}

pub(super) fn supabase(operation: &str, _: &Json, answer: &Answer) -> Outcome {
    let given = answer.json();
    if let Some(code) = given.get("code").and_then(Json::as_str) {
        return Err(match (operation, code) {
            ("vector_search", "42P01") => "NOT_FOUND",
            ("vector_search", "42703") => "VECTOR_COLUMN_MISSING",
            ("vector_search", "22000") => "VECTOR_MISMATCH",
            (_, code) if code.starts_with("PGRST3") => "AUTH_FAILED",
            _ => "QUERY_FAILED",
        });
    }
    let rows = given.as_array().unwrap();
    if operation == "query" {
        return Ok(json!({ "rows": rows, "rowCount": rows.len() }));
    }
    let result = |row: &Json| {
        let mut data = row.as_object().unwrap().clone();
        let similarity = data.remove("similarity");
        json!({ "id": row["id"], "similarity": similarity, "data": data })
    };
    let results: Vec<Json> = rows.iter().map(result).collect();
    Ok(json!({ "count": results.len(), "results": results }))
}

pub(super) fn r2(operation: &str, input: &Json, answer: &Answer) -> Outcome {
    if answer.status >= 300 {
        let code =
            answer.body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        return Err(match code.unwrap().0 {
            "NoSuchKey" => "NO_SUCH_KEY",
            "NoSuchBucket" => "BUCKET_NOT_FOUND",
            "AccessDenied" => "ACCESS_DENIED",
            "SignatureDoesNotMatch" | "InvalidAccessKeyId" => "AUTH_FAILED",
            "PreconditionFailed" => "PRECONDITION_FAILED",
            _ => "HTTP_ERROR",
        });
    }
    let header = |name: &str| answer.header(name).map(|text| json!(text.trim_matches('"')));
    let mut output = Map::new();
    let mut add = |name: &str, value: Option<Json>| {
        output.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("key", Some(input["key"].clone()));
    add("etag", header("etag"));
    add("version_id", header("x-amz-version-id"));
    if operation == "put_object" {
        add("size", Some(input["body"].as_str().unwrap().len().into()));
        return Ok(output.into());
    }
    add("body", Some(answer.body.clone().into()));
    add("size", Some(answer.body.len().into()));
    add("content_type", header("content-type"));
    add("content_range", header("content-range"));
    let total = answer.header("content-range").and_then(|it| it.rsplit_once('/'));
    add("total_size", total.map(|(_, total)| total.parse::<u64>().unwrap().into()));
    add("metadata", header("x-amz-meta-k").map(|value| json!({ "k": value })));
    Ok(output.into())
}

//! Answers: JSON, text, and the headers that all of them have.

use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, StatusCode};

use crate::json::{self, Value};

/// Answers with JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    text(status, "application/json", json::to_compact(value))
}

/// Answers with a text of some type, which is not to be kept by anybody on the way.
pub(super) fn text(status: StatusCode, media_type: &'static str, text: String) -> Response {
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Says where the run of an answer is.
pub(super) fn at_run(mut response: Response, run_id: &str) -> Response {
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{run_id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

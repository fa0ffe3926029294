//! Signal contracts as anybody may find them: what is told, how long it may be kept, and that it has not changed.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::guard::Context;
use super::problem::Problem;
use crate::schema::ADAPTER_CONTRACT;
use crate::signal::{Discovery, Page, PublisherPages};

/// The media type of JSON Schemas.
pub(super) const SCHEMA_TYPE: &str = "application/schema+json";
const JSON: &str = "application/json";
/// What is published may be kept for a minute: a contract that is revoked must be known soon.
const A_MINUTE: HeaderValue = HeaderValue::from_static("public, max-age=60");
/// The schema changes with the program.
const AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// The most of a name that is told again.
const SHOWN: usize = 100;

/// Lists all contracts.
pub(super) async fn list(context: Context) -> Result<Response, Problem> {
    Ok(sent(&context.headers, discovery(&context)?.listing(), (JSON, A_MINUTE)))
}

/// Tells one contract.
pub(super) async fn show(context: Context) -> Result<Response, Problem> {
    // The bytes are shared with all who ask, so that they are not counted for one of them.
    context
        .ask(|context| {
            let (adapter_id, version) = (context.param("adapter_id"), context.query("version"));
            let discovery = discovery(context)?;
            match discovery.contract(adapter_id, version) {
                Some(page) => Ok(sent(&context.headers, &page, (JSON, A_MINUTE))),
                None => Err(not_found(discovery, adapter_id, version)),
            }
        })
        .await
}

/// Returns the schema of contracts.
pub(super) async fn schema(context: Context) -> Result<Response, Problem> {
    let page = Page::new(Bytes::from_static(ADAPTER_CONTRACT.text.as_bytes()));
    Ok(sent(&context.headers, &page, (SCHEMA_TYPE, AN_HOUR)))
}

/// Returns the signed manifest.
pub(super) async fn manifest(context: Context) -> Result<Response, Problem> {
    let page = discovery(&context)?.manifest();
    let page = page.ok_or_else(|| not_published("no manifest of contracts is published here"))?;
    Ok(sent(&context.headers, page, (JSON, A_MINUTE)))
}

/// Tells who signs.
pub(super) async fn publisher(context: Context) -> Result<Response, Problem> {
    Ok(sent(&context.headers, &publisher_of(&context)?.document, (JSON, A_MINUTE)))
}

/// Returns the key of who signs.
pub(super) async fn public_key(context: Context) -> Result<Response, Problem> {
    Ok(sent(&context.headers, &publisher_of(&context)?.key, (JSON, A_MINUTE)))
}

fn discovery(context: &Context) -> Result<&Discovery, Problem> {
    let discovery = context.standing.discovery.as_deref();
    discovery.ok_or_else(|| not_published("no contracts are published here"))
}

fn publisher_of(context: &Context) -> Result<&PublisherPages, Problem> {
    let publisher = discovery(context)?.publisher();
    publisher.ok_or_else(|| not_published("no publisher and no key is told here"))
}

fn not_published(detail: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "NOT_PUBLISHED", detail)
}

fn not_found(discovery: &Discovery, adapter_id: &str, version: Option<&str>) -> Problem {
    let shown = |text: &str| format!("{:?}", text.chars().take(SHOWN).collect::<String>());
    let detail = match version {
        None => format!("there is no contract {}", shown(adapter_id)),
        Some(version) => {
            format!("there is no contract {} of version {}", shown(adapter_id), shown(version))
        }
    };
    let problem = Problem::new(StatusCode::NOT_FOUND, "SIGNAL_CONTRACT_NOT_FOUND", detail);
    match discovery.nearest(adapter_id, version) {
        Some(meant) => problem.hint(format!("did you mean {meant}?")),
        None => problem,
    }
}

/// Sends a page, or only tells that it is what the caller has already.
fn sent(headers: &HeaderMap, page: &Page, (kind, keep): (&'static str, HeaderValue)) -> Response {
    let known = is_known(headers, &page.etag);
    let body = if known { Body::empty() } else { Body::from(page.body.clone()) };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, keep);
    // A page of another origin must not get what was kept for this one.
    headers.insert(VARY, HeaderValue::from_static("origin"));
    if let Ok(etag) = HeaderValue::from_str(&page.etag) {
        headers.insert(ETAG, etag);
    }
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

/// Says whether one of the tags that a caller has is this one.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let given = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_page_is_not_sent_it_again() {
        let page = Page::new("{}");
        let tag = page.etag.as_str();
        for (given, known) in [
            (vec![], false),
            (vec![tag.to_owned()], true),
            (vec![format!("W/{tag}")], true),
            (vec!["*".to_owned()], true),
            (vec![format!("\"a\", {tag}")], true),
            (vec!["\"a\"".to_owned(), format!(" {tag} ,\"b\"")], true),
            (vec![tag.trim_matches('"').to_owned()], false),
            (vec![tag.to_uppercase()], false),
            (vec!["\"a\"".to_owned(), ",,".to_owned()], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in &given {
                headers.append(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
            }
            let answer = sent(&headers, &page, (JSON, A_MINUTE));
            let expected = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
            assert_eq!(answer.status(), expected, "{given:?}");
            assert_eq!(answer.headers()[ETAG], tag);
            assert_eq!(answer.headers().contains_key(CONTENT_TYPE), !known);
        }
    }
}

//! What browsers want to hear before they let a page of an allowed origin call.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Peer;
use crate::service::Service;

/// Returns the origin of a request that may be answered to a page of it.
pub(super) fn origin(
    service: &Service,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let guard = &service.standing().guard;
    guard.check_headers(headers, peer?.tls).ok()?;
    Some(origin.clone())
}

/// Lets a page of the origin read an answer.
pub(super) fn open(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, HeaderValue::from_static("origin"));
    let seen = "etag, location, retry-after, traceparent";
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(seen));
}

/// Answers a browser that asks whether a page may call, if that is what a request is.
pub(super) fn preflight(service: &Service, request: &Request) -> Option<Response> {
    if request.method() != Method::OPTIONS
        || !request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return None;
    }
    let peer = request.extensions().get::<Peer>().copied();
    let origin = origin(service, request.headers(), peer)?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    open(&mut response, origin);
    let headers = response.headers_mut();
    let sent = "authorization, content-type, idempotency-key, if-none-match, last-event-id, prefer, traceparent";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(sent));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Some(response)
}

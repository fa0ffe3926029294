//! MCP over HTTP: requests that were let through, handed to the endpoint.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};

use super::guard::Context;
use super::problem::Problem;
use crate::mcp::Asker;

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";

/// Takes a message.
pub(super) async fn post(context: Context) -> Result<Response, Problem> {
    answer(context, Method::POST).await
}

/// Opens the stream of a session.
pub(super) async fn get(context: Context) -> Result<Response, Problem> {
    let open = context.service.stream(&context.bearer.caller)?;
    let response = answer(context, Method::GET).await?;
    // It counts for as long as it is open.
    Ok(response.map(|body| {
        use futures_util::StreamExt as _;
        let stream = body.into_data_stream().map(move |part| {
            let _open = &open;
            part
        });
        Body::from_stream(stream)
    }))
}

/// Ends a session.
pub(super) async fn delete(context: Context) -> Result<Response, Problem> {
    answer(context, Method::DELETE).await
}

async fn answer(mut context: Context, method: Method) -> Result<Response, Problem> {
    context.memory.weigh_message(&mut context.body)?;
    let body: Bytes = std::mem::take(&mut context.body.bytes);
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = http::Uri::from_static(PATH);
    *request.headers_mut() = std::mem::take(&mut context.headers);
    // In a session the answer begins long before the call is over, so the reservation goes along with the question.
    let held = context.body.take_reservation().map(|reservation| Arc::new(reservation) as Arc<_>);
    let asker = Asker { bearer: context.bearer.clone(), trace: context.trace, held };
    let mcp = Arc::clone(&context.mcp);
    let reply = mcp.answer(request, asker).await;
    let mut response = reply.map(Body::new);
    // The library says nothing of the texts of its refusals.
    if response.status().is_client_error() || response.status().is_server_error() {
        let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().entry(CONTENT_TYPE).or_insert(text);
    }
    response.headers_mut().insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    Ok(context.memory.metered(response))
}

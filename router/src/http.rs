//! The HTTP shell: a table of routes over [`Service`], and the connections that carry them.
//!
//! `routes` is the table; `guard` lets a request through to its handler; `listen` looks after connections.

mod adapters;
mod approvals;
mod body;
mod cors;
mod count;
mod daemon;
mod events;
mod file_limit;
mod guard;
mod listen;
mod mcp;
mod openapi;
mod patient;
mod problem;
mod reply;
mod routes;
mod runs;
mod signals;
mod streamed;
mod tls;
mod tools;

use std::net::SocketAddr;

pub use file_limit::raise_file_limit;
pub use listen::{Bound, Error};
pub use routes::{Access, ROUTES, Route};

use crate::config::Listener;
use crate::service::Service;

/// Binds every listener before the first of them answers, so that a port that is taken is told at once.
///
/// # Errors
/// When an address is taken or unsafe, or a certificate cannot be used.
pub async fn bind(listeners: &[Listener]) -> Result<Vec<Bound>, Error> {
    let mut bound = Vec::with_capacity(listeners.len());
    for listener in listeners {
        bound.push(Bound::new(listener).await?);
    }
    Ok(bound)
}

/// Answers requests until the drain of the service is over and `stopped` says so; then connections that are
/// idle are closed, and the others after their answer.
pub async fn serve(service: Service, bound: Vec<Bound>, stopped: impl Future<Output = ()>) {
    let app = match guard::app(&service) {
        Ok(app) => app,
        Err(error) => return tracing::error!(%error, "requests cannot be answered"),
    };
    let tasks: Vec<_> = bound
        .into_iter()
        .map(|bound| tokio::spawn(listen::accept(bound, service.clone(), app.clone())))
        .collect();
    stopped.await;
    for task in &tasks {
        task.abort();
    }
}

/// Returns the OpenAPI document.
#[must_use]
pub fn openapi() -> String {
    crate::json::to_compact(&openapi::document())
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
struct Peer {
    address: SocketAddr,
    /// Whether a token is asked for.
    tokens: bool,
    tls: bool,
}

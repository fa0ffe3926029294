//! The `mcp` adapter in its worker, as callers of a daemon see it. Its own tests have everything that needs no
//! daemon; the server is theirs, and runs in this program, started again.

#[path = "../../adapters/mcp/tests/client/endpoint.rs"]
mod endpoint;
#[path = "../../adapters/mcp/tests/client/server.rs"]
pub mod server;

mod granted;

/// The server: see [`server::serve_if_asked`].
#[test]
fn serve() {
    server::serve_if_asked();
}

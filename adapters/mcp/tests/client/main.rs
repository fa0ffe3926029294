//! The adapter against servers that behave and that do not, in this process.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod endpoint;
mod http;
mod lists;
mod program;
mod server;
mod stage;

/// The server: see [`server::serve_if_asked`].
#[test]
fn serve() {
    server::serve_if_asked();
}

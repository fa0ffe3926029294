//! An adapter that calls the tools of any MCP server, which is a program that is started here or an endpoint
//! that is connected to.
//!
//! The tool NAME of the server is called with `tool = NAME` and `method = "call"`; the arguments are those of
//! the tool, and the output is the server's `CallToolResult` as it came, also one with `isError`. Resources,
//! prompts and completions have the operations that [`nexus_router_sdk::Catalog`] lists.
//!
//! # The protocol
//! Both eras are spoken: 2026-07-28, which has no handshake, and those before it. With `protocol = "auto"` the
//! server is asked for the new one first. In the new era a server may ask the caller for input; in the old one
//! nothing can be asked of it, and the server is told so.
//!
//! # What a call may do
//! * It ends at its deadline or when it is cancelled, and the server is told.
//! * It is sent once. It is sent again only if the server certainly did not see it: when it was not reached, or
//!   has forgotten the session. `details.may_have_been_carried_out` of `CONNECTION_FAILED` says what is known.
//! * It reaches a tool only if the server lists it.
//! * Its answer has at most 16 MiB. A server that sends more, or goes on sending more than a thousand messages
//!   a second that nobody asked for, is disconnected.
//!
//! # The server
//! Nothing is started or connected by loading the adapter. A server that ends is started again by the next call,
//! after a pause that grows if it keeps ending. A program runs in a process group of its own with
//! `PATH`, `HOME`, `LANG`, `LC_ALL`, `TZ` and `TMPDIR` and what `env` adds; when the adapter goes, its input is
//! closed, then the group is asked to end, then it is killed. What it writes to standard error is logged.
//! Over HTTP nothing is followed elsewhere and no proxy is asked; certificates are checked against the roots
//! of Mozilla that are built in.
//!
//! Confined to a worker, a program must be granted (`run`), with what it needs itself, and an endpoint too
//! (`connect`). Each worker has a server of its own, which counts with its memory (`memory_mb`).
//!
//! # Secrets
//! Values of `headers` and `env` are shown nowhere, also not in lines of the server.
#![forbid(unsafe_code)]

mod adapter;
mod config;
mod connection;
mod ending;
mod failure;
mod follow;
mod http;
mod listing;
mod log;
mod news;
mod operation;
mod process;
mod sse;
mod stdio;
mod upstream;
mod wire;

use nexus_router_sdk::{AdapterError, Host, Manifest, export_adapter};

pub use adapter::McpAdapter;
pub use config::Config;

const MANIFEST: Manifest = Manifest::new("mcp", adapter::CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(config::KEYS)
    .error_codes(failure::CODES);

/// Makes an adapter. Without an id, or with an empty one, it is called `mcp:` and the program or the host.
///
/// # Errors
/// `CONFIG_REJECTED` when a value does not fit.
#[expect(clippy::needless_pass_by_value, reason = "what a factory is like")]
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Config,
    host: Host,
) -> Result<McpAdapter, AdapterError> {
    Ok(McpAdapter::new(adapter_id, config.check()?, &host))
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::{Recorder, manifest};
    use nexus_router_sdk::{Adapter, code};
    use serde_json::json;

    fn made(adapter_id: Option<&str>) -> McpAdapter {
        let config = serde_json::from_value(json!({ "command": ["/bin/server"] })).unwrap();
        create_adapter(adapter_id, config, Recorder::default().host()).unwrap()
    }

    #[test]
    fn manifest_is_that_of_the_instance() {
        let (manifest, adapter) = (manifest(&MANIFEST), made(None));
        assert_eq!(manifest["kind"], adapter.adapter_kind());
        assert_eq!(manifest["capabilities"], json!(adapter.capabilities()));
        for listed in manifest["error_codes"].as_array().unwrap() {
            assert!(code::is_well_formed(listed.as_str().unwrap()));
        }
    }

    #[test]
    fn an_empty_id_counts_as_none() {
        assert_eq!(made(None).adapter_id(), "mcp:server");
        assert_eq!(made(Some("")).adapter_id(), "mcp:server");
        assert_eq!(made(Some("mine")).adapter_id(), "mine");
    }

    #[test]
    fn unknown_keys_are_refused() {
        let config = json!({ "command": ["a"], "allow": [] });
        assert!(serde_json::from_value::<Config>(config).is_err());
    }
}

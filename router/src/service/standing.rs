//! What of the configuration is asked for at every request, and what only a restart changes.

use std::sync::Arc;

use super::Error;
use crate::access::origin::Guard;
use crate::config::{ConfigFile, Mcp, Server, TokenEntry};
use crate::policy::Law;
use crate::signal::Discovery;
use crate::toolspec::Tools;

/// What of the configuration is asked for at every request.
#[derive(Debug)]
pub struct Standing {
    /// The limits of the server.
    pub server: Server,
    /// The tools.
    pub tools: Tools,
    /// What the operator lays down.
    pub law: Law,
    /// What is told of signal contracts to anybody, if anything is.
    pub discovery: Option<Arc<Discovery>>,
    /// How MCP is spoken.
    pub mcp: Mcp,
    /// Which hosts and origins are let in.
    pub guard: Guard,
    /// What the configuration says of single tokens, by name.
    tokens: Vec<TokenEntry>,
}

impl Standing {
    /// Returns what the configuration says of the token of a name.
    pub(super) fn token(&self, name: &str) -> Option<&TokenEntry> {
        self.tokens.iter().find(|entry| entry.name == name)
    }

    /// Takes it out of a configuration, with the tools, the law and the answers that were made of it.
    pub(super) fn of(
        config: &ConfigFile,
        tools: Tools,
        law: Law,
        discovery: Option<Arc<Discovery>>,
    ) -> Result<Self, Error> {
        let (server, tokens, mcp) = (config.server.clone(), config.tokens.clone(), config.mcp);
        let guard = Guard::new(&server.allowed_hosts, &server.allowed_origins)?;
        Ok(Self { tools, law, discovery, mcp, guard, server, tokens })
    }
}

/// Names what was changed and is only read at the start.
pub(super) fn needs_restart(before: &ConfigFile, after: &ConfigFile) -> Vec<String> {
    let mut keys = Vec::new();
    let mut note = |key: &str, differs: bool| {
        if differs {
            keys.push(key.to_owned());
        }
    };
    note("data_dir", before.data_dir != after.data_dir);
    note("db", before.db != after.db);
    note("store.key", before.store.key != after.store.key);
    note("listeners", format!("{:?}", before.listeners) != format!("{:?}", after.listeners));
    // The memory in use is counted from the start on.
    note("server.memory_bytes", before.server.memory_bytes != after.server.memory_bytes);
    note(
        "server.token_memory_percent",
        before.server.token_memory_percent != after.server.token_memory_percent,
    );
    note(
        "limits.memory_store_bytes",
        before.limits.memory_store_bytes != after.limits.memory_store_bytes,
    );
    note("mcp.session_idle_ms", before.mcp.session_idle != after.mcp.session_idle);
    note("log.format", before.log.format != after.log.format);
    note("telemetry", format!("{:?}", before.telemetry) != format!("{:?}", after.telemetry));
    keys
}

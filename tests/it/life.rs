//! The life of the daemon: its start, reloads, the drain, its end, and what the next one finds.

mod bad_config;
#[allow(dead_code, reason = "the siege uses the rest")]
#[path = "../siege/client.rs"]
mod client;
#[allow(dead_code, reason = "the siege uses the rest")]
#[path = "../siege/daemon.rs"]
mod daemon;
mod drain;
mod loading;
mod places;
mod reload;
mod replace;
mod start;
mod support;

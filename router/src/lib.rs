//! nexus-router: stands between an agent and everything it may touch.
//!
//! The modules are listed in the order in which things flow; a module uses only modules above it.

mod python_text;

mod markdown;

mod files;

mod near;

pub mod budget;

pub mod digest;

pub mod merkle;

pub mod key;

pub mod tlog;

pub mod clock;

pub mod id;

pub mod breaker;

pub mod metrics;

pub mod trace;

pub mod json;

pub mod attest;

pub mod seal;

pub mod secret;

pub mod role;

pub mod scope;

pub mod caller;

pub mod condition;

mod share;

pub mod approval;

pub mod request;

pub mod event;

pub mod schema;

pub mod conform;

pub mod interface;

pub mod mapping;

pub mod register;

pub mod signal;

pub mod evidence;

pub mod run;

mod shell;

pub mod store;

pub mod audit;

pub mod view;

pub mod replay;

pub mod inspect;

pub mod bundle;

pub mod notary;

pub mod takeover;

pub mod grant;

pub mod config;

pub mod telemetry;

mod sandbox;

mod worker;

mod confine;

pub mod envoy;

pub mod loader;

pub mod listener;

pub mod desk;

pub mod check;

pub mod registry;

pub mod policy;

pub mod toolspec;

pub mod gate;

mod host;

mod recorder;

pub mod outcome;

mod offload;

mod dispatch;

mod recover;

pub mod router;

pub mod access;

pub mod code;

pub mod template;

pub mod app;

pub mod proof;

pub mod service;

pub mod mcp;

pub mod http;

pub mod cli;

pub use check::{Inspection, Strictness, Validation, inspect_adapter, validate_adapter};
pub use digest::Digest;
pub use loader::{
    Adapter, AdapterLoadError, Call, DryRun, LoadRequest, Loader, Reason, load_adapter,
};
pub use registry::Registry;
pub use sandbox::Limits;

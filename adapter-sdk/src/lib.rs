//! Everything an author needs to write an adapter for nexus-router.
//!
//! An adapter is a `cdylib` with one exported factory. This is a complete one:
//!
//! ```
//! #![forbid(unsafe_code)]
//! use nexus_router_sdk::{
//!     Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, ValueType,
//!     code, export_adapter,
//! };
//! use serde::Deserialize;
//!
//! const KIND: &str = "greeter";
//! const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];
//!
//! /// What the router reads from the library without running it.
//! const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
//!     .router_versions(">=1.2,<2")
//!     .config(&[ConfigKey::optional("greeting", ValueType::String, "How to greet")
//!         .default_json(r#""Hello""#)])
//!     .error_codes(&[code::INVALID_ARGUMENT]);
//!
//! /// The configuration; the router has already checked it against the manifest.
//! #[derive(Deserialize)]
//! struct Config {
//!     greeting: String,
//! }
//!
//! struct Greeter {
//!     adapter_id: String,
//!     greeting: String,
//! }
//!
//! impl Adapter for Greeter {
//!     fn adapter_id(&self) -> &str {
//!         &self.adapter_id
//!     }
//!
//!     fn adapter_kind(&self) -> &str {
//!         KIND
//!     }
//!
//!     fn capabilities(&self) -> &[Capability] {
//!         CAPABILITIES
//!     }
//!
//!     fn call(
//!         &self,
//!         _context: &CallContext,
//!         tool: &str,
//!         _method: &str,
//!         args: Object,
//!     ) -> Result<Object, AdapterError> {
//!         let name = args.get("name").and_then(|name| name.as_str()).ok_or_else(|| {
//!             AdapterError::operational(code::INVALID_ARGUMENT, "args.name must be a string")
//!                 .details(serde_json::json!({ "tool": tool }))
//!         })?;
//!         let mut output = Object::new();
//!         output.insert("text".into(), format!("{}, {name}!", self.greeting).into());
//!         Ok(output)
//!     }
//! }
//!
//! fn create_adapter(
//!     adapter_id: Option<&str>,
//!     config: Config,
//! ) -> Result<Greeter, AdapterError> {
//!     Ok(Greeter {
//!         adapter_id: adapter_id.unwrap_or(KIND).to_owned(),
//!         greeting: config.greeting,
//!     })
//! }
//!
//! export_adapter!(create_adapter, MANIFEST);
//!
//! # fn main() {
//! let greeter = create_adapter(None, Config { greeting: "Ahoy".into() }).unwrap();
//! let args = serde_json::json!({ "name": "Ada" });
//! let output = nexus_router_sdk::testing::call(&greeter, "greet", "once", args).unwrap();
//! assert_eq!(output["text"], "Ahoy, Ada!");
//! # }
//! ```
//!
//! Errors come in two kinds, and the router treats them differently: an
//! [operational](AdapterError::operational) error is an expected failure and ends the run gracefully; a
//! [bug](AdapterError::bug) says that the adapter itself is wrong. A panic is caught and becomes a bug.
//! [`AdapterError::caused_by`] keeps the sources of another error. The manifest lists every code of its own; the
//! router counts codes that it does not list.
//!
//! Never write to the process' standard output: it belongs to the host. [`CallContext::output`] and
//! [`CallContext::log`] carry text to wherever the host wants it.
//!
//! A [`translator`] is an adapter that is a pure function of its arguments; the router proves it of those that
//! declare themselves [`Passive`].
//!
//! The [`testing`] module checks a built library with the `nexus-router` binary, as the router would.

mod adapter;
mod cancellation;
pub mod canonical;
mod capability;
mod catalog;
mod completion;
mod context;
mod error;
mod export;
mod guard;
mod json_text;
mod manifest;
pub mod metadata;
mod passive;
pub mod redact;
pub mod testing;
pub mod translator;

pub use adapter::{Adapter, Factory};
pub use capability::Capability;
pub use catalog::{Catalog, Interaction, Tool};
pub use completion::{Completion, wait};
pub use context::{CallContext, Host, Level};
pub use error::{AdapterError, ErrorKind, code};
pub use manifest::{ConfigKey, Manifest, ValueType};
pub use nexus_router_translate as translate;
pub use passive::Passive;

/// A JSON object; keys keep the order in which they were given.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// What `export_adapter!` expands to; not for direct use.
#[doc(hidden)]
pub mod exported {
    pub use crate::export::{Export, create, header};
    pub use nexus_router_abi::LibHeader;
}

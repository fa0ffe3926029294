//! Canonical JSON (FACET 2.1.3) to the payloads of model providers: a pure function of bytes and a binding.
//!
//! A translator maps, and does nothing else. It decodes the exact bytes of a canonical document, holds them to
//! a declared table of what the provider can express, and writes the payload; or it refuses, with the rule
//! that was broken and a JSON pointer. It never renames, reorders, merges, splits, defaults, adds or drops.
//!
//! ```
//! use nexus_router_translate::{Setting, Translator, target};
//!
//! let binding = [
//!     ("api_version", Setting::Text("v1".into())),
//!     ("model", Setting::Text("gpt-5".into())),
//! ];
//! let translator = Translator::new(target::OPENAI, binding).unwrap();
//! let refusal = translator.render(b"{ }").unwrap_err();
//! assert_eq!(refusal.rule.code, "X.nexus.NOT_CANONICAL");
//! ```
//!
//! There is no `std` here, so no clock, no file, no network, no environment and no randomness. A document is
//! read once; what needs no change is copied as it stands, because canonical text is canonical anywhere.
//!
//! Another provider is another [`Target`]: a constant with its tables, its binding and a function that writes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod binding;
mod content;
mod document;
mod express;
mod name;
mod refusal;
mod relation;
mod scan;
mod schema;
mod table;
mod tape;
pub mod target;
mod text;
mod tool;
mod translator;
mod writer;

pub use binding::{Binding, Field, Setting, SettingKind};
pub use content::{Content, Item, Message, Role};
pub use document::{Document, FACET_VERSION, POLICY_VERSION};
pub use name::{Letters, NameRule};
pub use refusal::{CODES, RULES, Refusal, Rule, rule};
pub use relation::{SettingCondition, SettingRelation};
pub use scan::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};
pub use table::{Empty, Form, Strict, Table, TextRule, Vocabulary};
pub use tape::{Kind, Tape, Value};
pub use target::{Endpoint, Target};
pub use text::number;
pub use tool::Tool;
pub use translator::{Rendered, Translator, sha256};
pub use writer::Writer;

/// Says whether a text is RFC 8785, within the limits of documents.
///
/// # Errors
/// The first rule that it breaks, with its place.
pub fn is_canonical(bytes: &[u8]) -> Result<(), Refusal> {
    scan::scan(bytes).map(drop)
}

//! The targets: what each declares, and how each writes a document that its table allows.

mod anthropic;
mod fields;
mod gemini;
mod gemini_interactions;
mod llama_cpp;
mod ollama;
mod openai;
mod openai_responses;

use alloc::string::String;

pub use anthropic::ANTHROPIC;
pub use gemini::GEMINI;
pub use gemini_interactions::GEMINI_INTERACTIONS;
pub use llama_cpp::LLAMA_CPP;
pub use ollama::OLLAMA;
pub use openai::OPENAI;
pub use openai_responses::OPENAI_RESPONSES;

use crate::binding::{Binding, Field};
use crate::content::{Content, Item, Message, Role};
use crate::document::Document;
use crate::relation::SettingRelation;
use crate::table::{Empty, Table};
use crate::writer::Writer;

/// A dialect of a provider, and everything that its translator declares.
#[derive(Debug)]
pub struct Target {
    /// The id that stands in `metadata.target_provider_id`.
    pub id: &'static str,
    /// The versions of the canonical form that are read; no others are.
    pub canonical_versions: &'static [&'static str],
    /// The constraints, one table per version of the API.
    pub tables: &'static [Table],
    /// The settings; `api_version` chooses the table.
    pub binding: &'static [Field],
    /// What these settings demand of each other.
    pub relations: &'static [SettingRelation],
    /// Members of documents that have no place in payloads, as JSON pointers.
    pub unmapped: &'static [&'static str],
    /// Where payloads go.
    pub endpoint: fn(&Binding) -> Endpoint,
    /// Writes a document that was held to the table.
    pub write: fn(&Document<'_, '_>, &Table, &Binding, &mut Writer),
}

/// Where a payload goes, as far as the API lays it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The path, below the address of the provider.
    pub path: String,
    /// The headers that belong to the version of the API.
    pub headers: &'static [(&'static str, &'static str)],
}

impl Endpoint {
    fn at(path: &str) -> Self {
        Self { path: path.into(), headers: &[] }
    }
}

/// Every target of this crate.
pub const ALL: &[&Target] =
    &[OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI, GEMINI_INTERACTIONS, OLLAMA, LLAMA_CPP];

/// Returns the target of this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Target> {
    ALL.iter().copied().find(|target| target.id == id)
}

/// Metadata tells where a document comes from. No provider has a place for it, nulls included.
const METADATA: &[&str] = &["/metadata"];

/// Writes an array of whatever `write` makes of each item.
fn list<T>(out: &mut Writer, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Writer, T)) {
    out.open('[');
    items.into_iter().for_each(|item| write(out, item));
    out.close(']');
}

/// Writes the messages as they are, for providers with the shape of the canonical form.
fn same_messages(out: &mut Writer, document: &Document<'_, '_>) {
    out.name("messages");
    list(out, &document.messages, |out, message| out.raw(message.value.raw()));
}

/// Writes the tools as they are, for providers with the shape of the canonical form.
fn same_tools(out: &mut Writer, document: &Document<'_, '_>) {
    out.name("tools");
    list(out, &document.tools, |out, tool| out.raw(tool.value.raw()));
}

/// Says whether the list of tools is written.
fn writes_tools(document: &Document<'_, '_>, table: &Table) -> bool {
    !document.tools.is_empty() || table.no_tools == Empty::Written
}

const fn is_system(message: &Message<'_, '_>) -> bool {
    matches!(message.role, Role::System)
}

/// Calls `write` with each text of a message, as canonical text.
fn each_text(message: &Message<'_, '_>, mut write: impl FnMut(&str)) {
    match message.content {
        Content::Text(text) => write(text.raw()),
        Content::List(_) => message.content.items().for_each(|item| match item {
            Item::Text(value) | Item::Asset(value) => write(value.raw()),
        }),
    }
}

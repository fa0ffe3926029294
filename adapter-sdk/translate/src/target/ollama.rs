//! Ollama's own chat: the shape of the canonical form, texts alone, and a small vocabulary of schemas.

use super::{
    Endpoint, METADATA, MODEL, Target, api_version, limit, same_messages, same_tools, writes_tools,
};
use crate::binding::{Binding, Field, SettingKind};
use crate::document::{Document, FACET_VERSION};
use crate::name::NameRule;
use crate::table::{Empty, Form, Strict, Table, TextRule, Vocabulary};
use crate::writer::Writer;

/// `POST /api/chat`.
pub const OLLAMA: &Target = &Target {
    id: "ollama",
    canonical_versions: &[FACET_VERSION],
    tables: &[Table {
        id: "ollama/api/1",
        // The API has no number; its paths begin so.
        api_version: "api",
        system: Form::Text,
        user: Form::Text,
        assistant: Form::Text,
        text: TextRule::Any,
        most_messages: None,
        needs_turn: false,
        trailing_assistants: None,
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: None,
        tool_name: NameRule::ANY,
        parameter_name: None,
        null_description: false,
        refused_at_root: &[],
        // Server and client read schemas into these members and lose all others without a word.
        vocabulary: Some(Vocabulary {
            root: &["properties", "required", "type"],
            property: &["description", "enum", "items", "type"],
        }),
        strict: Strict::None,
    }],
    binding: &[
        api_version("the version of the API, api; it chooses the table of constraints"),
        MODEL,
        limit("num_predict"),
        // Without it the provider streams.
        Field {
            name: "stream",
            kind: SettingKind::Flag,
            required: true,
            meaning: "whether the answer is streamed",
        },
    ],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/api/chat"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    same_messages(out, document);
    binding.write(out, "model", "model");
    if binding.settings().any(|(name, _)| name == "num_predict") {
        out.name("options");
        out.open('{');
        binding.write(out, "num_predict", "num_predict");
        out.close('}');
    }
    binding.write(out, "stream", "stream");
    if writes_tools(document, table) {
        same_tools(out, document);
    }
    out.close('}');
}

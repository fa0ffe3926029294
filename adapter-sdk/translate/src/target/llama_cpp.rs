//! The server of llama.cpp: OpenAI's chat completions, with rules of its own.

use super::{
    Endpoint, METADATA, MODEL, STREAM, Target, api_version, limit, same_messages, same_tools,
    writes_tools,
};
use crate::binding::Binding;
use crate::document::{Document, FACET_VERSION};
use crate::name::NameRule;
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /v1/chat/completions`.
pub const LLAMA_CPP: &Target = &Target {
    id: "llama.cpp",
    canonical_versions: &[FACET_VERSION],
    tables: &[Table {
        id: "llama.cpp/v1/1",
        api_version: "v1",
        system: Form::TextOrList,
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::Any,
        most_messages: None,
        needs_turn: false,
        // One at the end is gone on from; two are an error.
        trailing_assistants: Some(1),
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: None,
        tool_name: NameRule::ANY,
        parameter_name: None,
        null_description: false,
        refused_at_root: &[],
        vocabulary: None,
        strict: Strict::None,
    }],
    binding: &[
        api_version("the version of the API, v1; it chooses the table of constraints"),
        MODEL,
        limit("max_tokens"),
        STREAM,
    ],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/v1/chat/completions"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    binding.write(out, "max_tokens", "max_tokens");
    same_messages(out, document);
    binding.write(out, "model", "model");
    binding.write(out, "stream", "stream");
    if writes_tools(document, table) {
        same_tools(out, document);
    }
    out.close('}');
}

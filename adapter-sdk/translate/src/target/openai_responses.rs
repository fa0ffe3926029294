//! OpenAI's responses: a list of items, parts of their own type, and flat tools.

use super::{Endpoint, METADATA, MODEL, STREAM, Target, api_version, limit, list, writes_tools};
use crate::binding::{Binding, Field, SettingKind};
use crate::content::{Content, Item, Message};
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /v1/responses`.
pub const OPENAI_RESPONSES: &Target = &Target {
    id: "openai.responses",
    canonical_versions: &[FACET_VERSION],
    tables: &[Table {
        id: "openai.responses/v1/1",
        api_version: "v1",
        system: Form::TextOrList,
        user: Form::TextOrList,
        // Parts of an answer need an id and a status, which no document has.
        assistant: Form::Text,
        text: TextRule::Any,
        most_messages: None,
        needs_turn: false,
        trailing_assistants: None,
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: Some(128),
        tool_name: NameRule::of(Letters::Word("_-"), 128),
        parameter_name: None,
        null_description: true,
        refused_at_root: &["allOf", "anyOf", "enum", "not", "oneOf"],
        vocabulary: None,
        strict: Strict::ClosedAndRequired,
    }],
    binding: &[
        api_version("the version of the API, v1; it chooses the table of constraints"),
        MODEL,
        limit("max_output_tokens"),
        // Without them the provider decides: it keeps answers, and tries strict tools first.
        Field {
            name: "store",
            kind: SettingKind::Flag,
            required: true,
            meaning: "whether the provider keeps the answer",
        },
        STREAM,
        Field {
            name: "strict",
            kind: SettingKind::Flag,
            required: true,
            meaning: "whether the model is held to the parameters of tools",
        },
    ],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/v1/responses"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    out.name("input");
    list(out, &document.messages, write_message);
    binding.write(out, "max_output_tokens", "max_output_tokens");
    binding.write(out, "model", "model");
    binding.write(out, "store", "store");
    binding.write(out, "stream", "stream");
    if writes_tools(document, table) {
        out.name("tools");
        list(out, &document.tools, |out, tool| {
            out.open('{');
            out.member("description", tool.description.raw());
            out.member("name", tool.name.raw());
            out.member("parameters", tool.parameters.raw());
            binding.write(out, "strict", "strict");
            out.member("type", "\"function\"");
            out.close('}');
        });
    }
    out.close('}');
}

fn write_message(out: &mut Writer, message: &Message<'_, '_>) {
    let Content::List(_) = message.content else {
        out.raw(message.value.raw());
        return;
    };
    out.open('{');
    out.name("content");
    list(out, message.content.items(), |out, item| {
        let (Item::Text(text) | Item::Asset(text)) = item;
        out.open('{');
        out.member("text", text.raw());
        out.member("type", "\"input_text\"");
        out.close('}');
    });
    out.name("role");
    out.string(message.role.name());
    out.close('}');
}

//! OpenAI's responses: a list of items, parts of their own type, and flat tools.

use super::fields::{
    MODEL, ONE_TOOL_CHOICE, PARALLEL_TOOL_CALLS, REASONING_EFFORT, STREAM, TOOL_CHOICE_NAME,
    TOOL_CHOICES, TOP_P, api_version, limit, optional, temperature, tool_choice,
};
use super::{Endpoint, METADATA, Target, list, writes_tools};
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
        most_system: None,
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
        refused_settings: &[],
        needs_tools: TOOL_CHOICES,
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
        tool_choice(
            &["auto", "none", "required"],
            "which tools the model calls: auto, none or required; not written if not given",
        ),
        TOOL_CHOICE_NAME,
        PARALLEL_TOOL_CALLS,
        temperature(
            Some(2),
            "the randomness of the sampling, from 0 to 2; not written if not given",
        ),
        TOP_P,
        REASONING_EFFORT,
        optional(
            "reasoning_summary",
            SettingKind::Word(&["auto", "concise", "detailed"]),
            "the summary of the reasoning: auto, concise or detailed; not written if not given",
        ),
    ],
    relations: &[ONE_TOOL_CHOICE],
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
    binding.write(out, "parallel_tool_calls", "parallel_tool_calls");
    let reasoning = [("reasoning_effort", "effort"), ("reasoning_summary", "summary")];
    binding.write_object(out, "reasoning", &reasoning);
    for name in ["store", "stream", "temperature", "tool_choice"] {
        binding.write(out, name, name);
    }
    if let Some(name) = binding.text("tool_choice_name") {
        out.name("tool_choice");
        out.open('{');
        out.name("name");
        out.string(name);
        out.member("type", "\"function\"");
        out.close('}');
    }
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
    binding.write(out, "top_p", "top_p");
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

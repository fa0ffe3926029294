//! Anthropic's messages: system messages become blocks beside the others, one block each.

use super::{
    Endpoint, METADATA, MODEL, STREAM, STRICT, Target, api_version, each_text, list, writes_tools,
};
use crate::binding::{Binding, Field, SettingKind};
use crate::content::{Message, Role};
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

const SINCE_2026: &str = "2026-10-21";
const SINCE_2023: &str = "2023-06-01";

/// `POST /v1/messages`.
pub const ANTHROPIC: &Target = &Target {
    id: "anthropic",
    canonical_versions: &[FACET_VERSION],
    tables: &[
        table("anthropic/2026-10-21/1", SINCE_2026),
        table("anthropic/2023-06-01/1", SINCE_2023),
    ],
    binding: &[
        api_version(
            "the version of the API, 2026-10-21 or 2023-06-01; it chooses the table of constraints",
        ),
        MODEL,
        Field {
            name: "max_tokens",
            kind: SettingKind::Limit,
            required: true,
            meaning: "the most tokens of the answer",
        },
        STREAM,
        STRICT,
    ],
    unmapped: METADATA,
    endpoint: |binding| Endpoint {
        headers: if binding.text("api_version") == Some(SINCE_2023) {
            &[("anthropic-version", SINCE_2023)]
        } else {
            &[("anthropic-version", SINCE_2026)]
        },
        ..Endpoint::at("/v1/messages")
    },
    write,
};

/// What changed between the versions concerns nothing that a canonical document has.
const fn table(id: &'static str, api_version: &'static str) -> Table {
    Table {
        id,
        api_version,
        system: Form::Block,
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::NotBlank,
        most_messages: Some(100_000),
        needs_turn: true,
        // Claude 4.6 and later refuse to go on from there; which model it is, is not looked at.
        trailing_assistants: Some(0),
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: None,
        tool_name: NameRule::of(Letters::Word("_-"), 128),
        parameter_name: None,
        null_description: false,
        refused_at_root: &["allOf", "anyOf", "oneOf"],
        vocabulary: None,
        strict: Strict::Closed,
    }
}

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    let is_system = |message: &&Message<'_, '_>| message.role == Role::System;
    out.open('{');
    binding.write(out, "max_tokens", "max_tokens");
    out.name("messages");
    let turns = document.messages.iter().filter(|message| !is_system(message));
    list(out, turns, |out, message| out.raw(message.value.raw()));
    binding.write(out, "model", "model");
    binding.write(out, "stream", "stream");
    if table.no_system == Empty::Written || document.messages.iter().any(|m| is_system(&m)) {
        out.name("system");
        list(out, document.messages.iter().filter(is_system), |out, message| {
            each_text(message, |text| {
                out.open('{');
                out.member("text", text);
                out.member("type", "\"text\"");
                out.close('}');
            });
        });
    }
    if writes_tools(document, table) {
        out.name("tools");
        list(out, &document.tools, |out, tool| {
            out.open('{');
            out.member("description", tool.description.raw());
            out.member("input_schema", tool.parameters.raw());
            out.member("name", tool.name.raw());
            binding.write(out, "strict", "strict");
            out.close('}');
        });
    }
    out.close('}');
}

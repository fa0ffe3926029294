//! Google's generateContent: parts, a role named model, and the model in the path.

use alloc::format;

use super::{
    Endpoint, METADATA, STREAM, Target, api_version, each_text, limit, list, writes_tools,
};
use crate::binding::{Binding, Field, SettingKind};
use crate::content::{Message, Role};
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /VERSION/models/MODEL:generateContent`.
pub const GEMINI: &Target = &Target {
    id: "gemini",
    canonical_versions: &[FACET_VERSION],
    // The official client names 128 characters, for v1; servers of v1beta were seen to refuse more than 64.
    tables: &[table("gemini/v1/1", "v1", 128), table("gemini/v1beta/1", "v1beta", 64)],
    binding: &[
        api_version("the version of the API, v1 or v1beta; it chooses the table of constraints"),
        Field {
            name: "model",
            kind: SettingKind::Name,
            required: true,
            meaning: "the model, which stands in the path",
        },
        limit("max_output_tokens"),
        STREAM,
    ],
    unmapped: METADATA,
    endpoint: |binding| {
        let text = |name| binding.text(name).unwrap_or_default();
        let (version, model) = (text("api_version"), text("model"));
        let verb = match binding.flag("stream") {
            Some(true) => "streamGenerateContent",
            _ => "generateContent",
        };
        Endpoint::at(&format!("/{version}/models/{model}:{verb}"))
    },
    write,
};

const fn table(id: &'static str, api_version: &'static str, most: u32) -> Table {
    Table {
        id,
        api_version,
        system: Form::Block,
        user: Form::TextOrLongList,
        assistant: Form::TextOrLongList,
        text: TextRule::NotEmpty,
        most_messages: None,
        needs_turn: true,
        trailing_assistants: Some(0),
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: Some(512),
        tool_name: NameRule {
            first: Letters::Letter("_"),
            rest: Letters::Word("_.:-"),
            most: Some(most),
        },
        parameter_name: Some(NameRule {
            first: Letters::Letter("_"),
            rest: Letters::Word("_"),
            most: Some(64),
        }),
        null_description: false,
        refused_at_root: &[],
        vocabulary: None,
        strict: Strict::None,
    }
}

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    let is_system = |message: &&Message<'_, '_>| message.role == Role::System;
    out.open('{');
    out.name("contents");
    let turns = document.messages.iter().filter(|message| !is_system(message));
    list(out, turns, |out, message| {
        out.open('{');
        out.name("parts");
        out.open('[');
        each_text(message, |text| part(out, text));
        out.close(']');
        let is_user = message.role == Role::User;
        out.member("role", if is_user { "\"user\"" } else { "\"model\"" });
        out.close('}');
    });
    if binding.settings().any(|(name, _)| name == "max_output_tokens") {
        out.name("generationConfig");
        out.open('{');
        binding.write(out, "max_output_tokens", "maxOutputTokens");
        out.close('}');
    }
    if table.no_system == Empty::Written || document.messages.iter().any(|m| is_system(&m)) {
        out.name("systemInstruction");
        out.open('{');
        out.name("parts");
        list(out, document.messages.iter().filter(is_system), |out, message| {
            each_text(message, |text| part(out, text));
        });
        out.close('}');
    }
    if writes_tools(document, table) {
        write_tools(document, out);
    }
    out.close('}');
}

fn part(out: &mut Writer, text: &str) {
    out.open('{');
    out.member("text", text);
    out.close('}');
}

/// All tools are in one object; without tools there is none.
fn write_tools(document: &Document<'_, '_>, out: &mut Writer) {
    out.name("tools");
    out.open('[');
    if !document.tools.is_empty() {
        out.open('{');
        out.name("functionDeclarations");
        list(out, &document.tools, |out, tool| {
            out.open('{');
            out.member("description", tool.description.raw());
            out.member("name", tool.name.raw());
            out.member("parametersJsonSchema", tool.parameters.raw());
            out.close('}');
        });
        out.close('}');
    }
    out.close(']');
}

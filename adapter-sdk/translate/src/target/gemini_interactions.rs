//! Google's Interactions: steps of users and models, one instruction, and flat tools.

use alloc::format;

use super::fields::{
    MODEL, NARROW_SEED, ONE_TOOL_CHOICE, STREAM, TOOL_CHOICE_NAME, TOOL_CHOICES, TOP_P,
    api_version, limit, optional, temperature, tool_choice,
};
use super::{Endpoint, METADATA, Target, each_text, is_system, list, writes_tools};
use crate::binding::{Binding, Field, SettingKind};
use crate::content::Role;
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /VERSION/interactions`.
pub const GEMINI_INTERACTIONS: &Target = &Target {
    id: "gemini.interactions",
    canonical_versions: &[FACET_VERSION],
    tables: &[
        table("gemini.interactions/v1/1", "v1", 128),
        table("gemini.interactions/v1beta/1", "v1beta", 64),
    ],
    binding: &[
        api_version("the version of the API, v1 or v1beta; it chooses the table of constraints"),
        MODEL,
        limit("max_output_tokens"),
        // Without it the provider keeps request and answer.
        Field {
            name: "store",
            kind: SettingKind::Flag,
            required: true,
            meaning: "whether the provider keeps the request and the answer",
        },
        STREAM,
        optional(
            "previous_interaction_id",
            SettingKind::Text,
            "the kept interaction that this one continues; not written if not given",
        ),
        tool_choice(
            &["any", "auto", "none", "validated"],
            "which tools the model calls: any, auto, none or validated; not written if not given",
        ),
        TOOL_CHOICE_NAME,
        temperature(
            Some(2),
            "the randomness of the sampling, from 0 to 2; not written if not given",
        ),
        TOP_P,
        NARROW_SEED,
        optional(
            "thinking_level",
            SettingKind::Word(&["minimal", "low", "medium", "high"]),
            "the effort of thinking: minimal, low, medium or high; not written if not given",
        ),
        optional(
            "thinking_summaries",
            SettingKind::Word(&["auto", "none"]),
            "whether the answer has summaries of the thinking: auto or none; not written if not given",
        ),
    ],
    relations: &[ONE_TOOL_CHOICE],
    unmapped: METADATA,
    endpoint: |binding| {
        let version = binding.text("api_version").unwrap_or_default();
        Endpoint::at(&format!("/{version}/interactions"))
    },
    write,
};

/// The rules for names are those of generateContent: the service is the same.
const fn table(id: &'static str, api_version: &'static str, most: u32) -> Table {
    Table {
        id,
        api_version,
        system: Form::Block,
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::NotEmpty,
        most_messages: None,
        // The instruction is one string.
        most_system: Some(1),
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
        refused_settings: &[],
        needs_tools: TOOL_CHOICES,
    }
}

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    write_config(binding, out);
    out.name("input");
    let turns = document.messages.iter().filter(|message| !is_system(message));
    list(out, turns, |out, message| {
        out.open('{');
        out.name("content");
        out.open('[');
        each_text(message, |text| {
            out.open('{');
            out.member("text", text);
            out.member("type", "\"text\"");
            out.close('}');
        });
        out.close(']');
        let is_user = message.role == Role::User;
        out.member("type", if is_user { "\"user_input\"" } else { "\"model_output\"" });
        out.close('}');
    });
    for name in ["model", "previous_interaction_id", "store", "stream"] {
        binding.write(out, name, name);
    }
    for message in document.messages.iter().filter(|message| is_system(message)) {
        each_text(message, |text| out.member("system_instruction", text));
    }
    if writes_tools(document, table) {
        out.name("tools");
        list(out, &document.tools, |out, tool| {
            out.open('{');
            out.member("description", tool.description.raw());
            out.member("name", tool.name.raw());
            out.member("parameters", tool.parameters.raw());
            out.member("type", "\"function\"");
            out.close('}');
        });
    }
    out.close('}');
}

fn write_config(binding: &Binding, out: &mut Writer) {
    const PLAIN: &[&str] = &[
        "max_output_tokens",
        "seed",
        "temperature",
        "thinking_level",
        "thinking_summaries",
        "tool_choice",
    ];
    if !binding.has_any(PLAIN) && !binding.has_any(&["tool_choice_name", "top_p"]) {
        return;
    }
    out.name("generation_config");
    out.open('{');
    PLAIN.iter().for_each(|name| binding.write(out, name, name));
    if let Some(name) = binding.text("tool_choice_name") {
        // The only one that is allowed, and it must be called.
        out.name("tool_choice");
        out.open('{');
        out.name("allowed_tools");
        out.open('{');
        out.member("mode", "\"any\"");
        out.name("tools");
        list(out, [name], Writer::string);
        out.close('}');
        out.close('}');
    }
    binding.write(out, "top_p", "top_p");
    out.close('}');
}

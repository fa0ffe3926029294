//! Google's generateContent: parts, a role named model, and the model in the path.

use alloc::format;

use super::fields::{
    FREQUENCY_PENALTY, NARROW_SEED, ONE_TOOL_CHOICE, PRESENCE_PENALTY, STREAM, TOOL_CHOICE_NAME,
    TOOL_CHOICES, TOP_P, api_version, limit, optional, temperature, tool_choice, top_k,
};
use super::{Endpoint, METADATA, Target, each_text, is_system, list, writes_tools};
use crate::binding::{Binding, Field, SettingKind};
use crate::content::Role;
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::relation::SettingRelation;
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /VERSION/models/MODEL:generateContent`.
pub const GEMINI: &Target = &Target {
    id: "gemini",
    canonical_versions: &[FACET_VERSION],
    // The official client names 128 characters, for v1; servers of v1beta were seen to refuse more than 64.
    tables: &[table("gemini/v1/2", "v1", 128), table("gemini/v1beta/2", "v1beta", 64)],
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
        tool_choice(
            &["ANY", "AUTO", "NONE", "VALIDATED"],
            "the mode of function calling: ANY, AUTO, NONE or VALIDATED; not written if not given",
        ),
        TOOL_CHOICE_NAME,
        temperature(
            Some(2),
            "the randomness of the sampling, from 0 to 2; not written if not given",
        ),
        TOP_P,
        top_k(1),
        NARROW_SEED,
        PRESENCE_PENALTY,
        FREQUENCY_PENALTY,
        optional(
            "thinking_budget",
            SettingKind::Whole { least: -1, most: i32::MAX as i64 },
            "the most tokens of the thinking, 0 for none, -1 if the model decides; not written if not given",
        ),
        optional(
            "thinking_level",
            SettingKind::Word(&["MINIMAL", "LOW", "MEDIUM", "HIGH"]),
            "the effort of thinking: MINIMAL, LOW, MEDIUM or HIGH; not written if not given",
        ),
        optional(
            "include_thoughts",
            SettingKind::Flag,
            "whether the answer has the thoughts; not written if not given",
        ),
    ],
    relations: &[ONE_TOOL_CHOICE, SettingRelation::Excludes("thinking_budget", "thinking_level")],
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
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::NotEmpty,
        most_messages: None,
        most_system: None,
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
    write_config(binding, out);
    if table.no_system == Empty::Written || document.messages.iter().any(is_system) {
        out.name("systemInstruction");
        out.open('{');
        out.name("parts");
        list(out, document.messages.iter().filter(|it| is_system(it)), |out, message| {
            each_text(message, |text| part(out, text));
        });
        out.close('}');
    }
    write_tool_choice(binding, out);
    if writes_tools(document, table) {
        write_tools(document, out);
    }
    out.close('}');
}

fn write_config(binding: &Binding, out: &mut Writer) {
    const THINKING: &[(&str, &str)] = &[
        ("include_thoughts", "includeThoughts"),
        ("thinking_budget", "thinkingBudget"),
        ("thinking_level", "thinkingLevel"),
    ];
    const BEFORE: &[(&str, &str)] = &[
        ("frequency_penalty", "frequencyPenalty"),
        ("max_output_tokens", "maxOutputTokens"),
        ("presence_penalty", "presencePenalty"),
        ("seed", "seed"),
        ("temperature", "temperature"),
    ];
    const AFTER: &[(&str, &str)] = &[("top_k", "topK"), ("top_p", "topP")];
    if ![BEFORE, THINKING, AFTER].concat().iter().any(|(name, _)| binding.has_any(&[name])) {
        return;
    }
    out.name("generationConfig");
    out.open('{');
    BEFORE.iter().for_each(|(name, member)| binding.write(out, name, member));
    binding.write_object(out, "thinkingConfig", THINKING);
    AFTER.iter().for_each(|(name, member)| binding.write(out, name, member));
    out.close('}');
}

/// One tool is the only one that is allowed, and must be called.
fn write_tool_choice(binding: &Binding, out: &mut Writer) {
    if !binding.has_any(TOOL_CHOICES) {
        return;
    }
    out.name("toolConfig");
    out.open('{');
    out.name("functionCallingConfig");
    out.open('{');
    if let Some(name) = binding.text("tool_choice_name") {
        out.name("allowedFunctionNames");
        list(out, [name], Writer::string);
        out.member("mode", "\"ANY\"");
    }
    binding.write(out, "tool_choice", "mode");
    out.close('}');
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

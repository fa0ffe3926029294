//! Anthropic's messages: system messages become blocks beside the others, one block each.

use super::fields::{
    MODEL, ONE_TOOL_CHOICE, STREAM, STRICT, TOOL_CHOICE_NAME, TOOL_CHOICES, TOP_P, api_version,
    optional, temperature, tool_choice, top_k,
};
use super::{Endpoint, METADATA, Target, each_text, is_system, list, writes_tools};
use crate::binding::{Binding, Field, SettingKind};
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::relation::{SettingCondition, SettingRelation};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

const SINCE_2026: &str = "2026-10-21";
const SINCE_2023: &str = "2023-06-01";

/// `POST /v1/messages`.
pub const ANTHROPIC: &Target = &Target {
    id: "anthropic",
    canonical_versions: &[FACET_VERSION],
    tables: &[
        table("anthropic/2026-10-21/2", SINCE_2026, &["temperature", "top_k", "top_p"]),
        table("anthropic/2023-06-01/2", SINCE_2023, &[]),
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
        tool_choice(
            &["any", "auto", "none"],
            "which tools the model calls: any, auto or none; not written if not given",
        ),
        TOOL_CHOICE_NAME,
        optional(
            "disable_parallel_tool_use",
            SettingKind::Flag,
            "whether the model calls at most one tool at once; beside a choice of tools; not written if not given",
        ),
        temperature(
            Some(1),
            "the randomness of the sampling, from 0 to 1; only in version 2023-06-01; not written if not given",
        ),
        TOP_P,
        top_k(0),
        optional(
            "thinking",
            SettingKind::Word(&["adaptive", "between_tools", "disabled", "enabled"]),
            "whether the model thinks: adaptive, between_tools, disabled or enabled; not written if not given",
        ),
        optional(
            "thinking_budget_tokens",
            SettingKind::Whole { least: 1024, most: 1 << 53 },
            "the most tokens of the thinking, from 1024 and less than max_tokens; with thinking = enabled",
        ),
        optional(
            "thinking_display",
            SettingKind::Word(&["omitted", "summarized"]),
            "how thinking appears in the answer: omitted or summarized; not written if not given",
        ),
        optional(
            "effort",
            SettingKind::Word(&["low", "medium", "high", "xhigh", "max"]),
            "the effort of the answer: low, medium, high, xhigh or max; not written if not given",
        ),
    ],
    relations: &[
        ONE_TOOL_CHOICE,
        SettingRelation::Needs(
            SettingCondition::given("disable_parallel_tool_use"),
            &[
                SettingCondition::one_of("tool_choice", &["any", "auto"]),
                SettingCondition::given("tool_choice_name"),
            ],
        ),
        SettingRelation::Needs(
            SettingCondition::one_of("thinking", &["enabled"]),
            &[SettingCondition::given("thinking_budget_tokens")],
        ),
        SettingRelation::Needs(
            SettingCondition::given("thinking_budget_tokens"),
            &[SettingCondition::one_of("thinking", &["enabled"])],
        ),
        SettingRelation::Needs(
            SettingCondition::given("thinking_display"),
            &[SettingCondition::one_of("thinking", &["adaptive", "enabled"])],
        ),
        SettingRelation::Below("thinking_budget_tokens", "max_tokens"),
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

/// What changed between the versions concerns settings, and nothing that a canonical document has.
const fn table(
    id: &'static str,
    api_version: &'static str,
    refused_settings: &'static [&'static str],
) -> Table {
    Table {
        id,
        api_version,
        system: Form::Block,
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::NotBlank,
        most_messages: Some(100_000),
        most_system: None,
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
        refused_settings,
        needs_tools: TOOL_CHOICES,
    }
}

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    binding.write(out, "max_tokens", "max_tokens");
    out.name("messages");
    let turns = document.messages.iter().filter(|message| !is_system(message));
    list(out, turns, |out, message| out.raw(message.value.raw()));
    binding.write(out, "model", "model");
    binding.write_object(out, "output_config", &[("effort", "effort")]);
    binding.write(out, "stream", "stream");
    if table.no_system == Empty::Written || document.messages.iter().any(is_system) {
        out.name("system");
        list(out, document.messages.iter().filter(|it| is_system(it)), |out, message| {
            each_text(message, |text| {
                out.open('{');
                out.member("text", text);
                out.member("type", "\"text\"");
                out.close('}');
            });
        });
    }
    binding.write(out, "temperature", "temperature");
    let thinking = [
        ("thinking_budget_tokens", "budget_tokens"),
        ("thinking_display", "display"),
        ("thinking", "type"),
    ];
    binding.write_object(out, "thinking", &thinking);
    write_tool_choice(binding, out);
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
    binding.write(out, "top_k", "top_k");
    binding.write(out, "top_p", "top_p");
    out.close('}');
}

fn write_tool_choice(binding: &Binding, out: &mut Writer) {
    if !binding.has_any(TOOL_CHOICES) {
        return;
    }
    out.name("tool_choice");
    out.open('{');
    binding.write(out, "disable_parallel_tool_use", "disable_parallel_tool_use");
    binding.write(out, "tool_choice_name", "name");
    binding.write(out, "tool_choice", "type");
    if binding.text("tool_choice_name").is_some() {
        out.member("type", "\"tool\"");
    }
    out.close('}');
}

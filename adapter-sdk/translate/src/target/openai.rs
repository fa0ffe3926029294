//! OpenAI's chat completions: the shape of the canonical form, with a binding around it.

use super::fields::{
    FREQUENCY_PENALTY, MODEL, ONE_TOOL_CHOICE, PARALLEL_TOOL_CALLS, PRESENCE_PENALTY,
    REASONING_EFFORT, STREAM, STRICT, TOOL_CHOICE_NAME, TOP_P, WIDE_SEED, api_version, limit,
    temperature, tool_choice,
};
use super::{Endpoint, METADATA, Target, list, same_messages, same_tools, writes_tools};
use crate::binding::Binding;
use crate::document::{Document, FACET_VERSION};
use crate::name::{Letters, NameRule};
use crate::table::{Empty, Form, Strict, Table, TextRule};
use crate::writer::Writer;

/// `POST /v1/chat/completions`.
pub const OPENAI: &Target = &Target {
    id: "openai",
    canonical_versions: &[FACET_VERSION],
    tables: &[Table {
        id: "openai/v1/1",
        api_version: "v1",
        system: Form::TextOrList,
        user: Form::TextOrList,
        assistant: Form::TextOrList,
        text: TextRule::Any,
        most_messages: None,
        most_system: None,
        needs_turn: false,
        trailing_assistants: None,
        no_system: Empty::Absent,
        // An empty list is refused (empty_array).
        no_tools: Empty::Absent,
        most_tools: Some(128),
        tool_name: NameRule::of(Letters::Word("_-"), 64),
        parameter_name: None,
        null_description: false,
        refused_at_root: &["allOf", "anyOf", "enum", "not", "oneOf"],
        vocabulary: None,
        strict: Strict::ClosedAndRequired,
        refused_settings: &[],
        // "… is only allowed when 'tools' are specified."
        needs_tools: &["tool_choice", "tool_choice_name", "parallel_tool_calls"],
    }],
    binding: &[
        api_version("the version of the API, v1; it chooses the table of constraints"),
        MODEL,
        limit("max_completion_tokens"),
        STREAM,
        STRICT,
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
        WIDE_SEED,
        PRESENCE_PENALTY,
        FREQUENCY_PENALTY,
        REASONING_EFFORT,
    ],
    relations: &[ONE_TOOL_CHOICE],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/v1/chat/completions"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    binding.write(out, "frequency_penalty", "frequency_penalty");
    binding.write(out, "max_completion_tokens", "max_completion_tokens");
    same_messages(out, document);
    for name in [
        "model",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "seed",
        "stream",
        "temperature",
        "tool_choice",
    ] {
        binding.write(out, name, name);
    }
    if let Some(name) = binding.text("tool_choice_name") {
        out.name("tool_choice");
        out.open('{');
        out.name("function");
        out.open('{');
        out.name("name");
        out.string(name);
        out.close('}');
        out.member("type", "\"function\"");
        out.close('}');
    }
    if writes_tools(document, table) {
        if binding.flag("strict").is_some() {
            strict_tools(document, binding, out);
        } else {
            same_tools(out, document);
        }
    }
    binding.write(out, "top_p", "top_p");
    out.close('}');
}

fn strict_tools(document: &Document<'_, '_>, binding: &Binding, out: &mut Writer) {
    out.name("tools");
    list(out, &document.tools, |out, tool| {
        out.open('{');
        out.name("function");
        out.open('{');
        out.member("description", tool.description.raw());
        out.member("name", tool.name.raw());
        out.member("parameters", tool.parameters.raw());
        binding.write(out, "strict", "strict");
        out.close('}');
        out.member("type", "\"function\"");
        out.close('}');
    });
}

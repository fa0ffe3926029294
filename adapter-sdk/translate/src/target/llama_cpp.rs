//! The server of llama.cpp: OpenAI's chat completions, with rules of its own.

use super::fields::{
    FREQUENCY_PENALTY, MIN_P, MODEL, NARROW_SEED, PARALLEL_TOOL_CALLS, PRESENCE_PENALTY,
    REPEAT_LAST_N, REPEAT_PENALTY, STREAM, TOP_P, TYPICAL_P, api_version, limit, optional,
    temperature, tool_choice, top_k,
};
use super::{Endpoint, METADATA, Target, same_messages, same_tools, writes_tools};
use crate::binding::{Binding, SettingKind};
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
        most_system: None,
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
        refused_settings: &[],
        needs_tools: &["tool_choice"],
    }],
    binding: &[
        api_version("the version of the API, v1; it chooses the table of constraints"),
        MODEL,
        limit("max_tokens"),
        STREAM,
        // A named tool is read as auto.
        tool_choice(
            &["auto", "none", "required"],
            "which tools the model calls: auto, none or required; not written if not given",
        ),
        PARALLEL_TOOL_CALLS,
        temperature(None, "the randomness of the sampling, 0 or more; not written if not given"),
        TOP_P,
        top_k(0),
        MIN_P,
        TYPICAL_P,
        NARROW_SEED,
        REPEAT_PENALTY,
        REPEAT_LAST_N,
        PRESENCE_PENALTY,
        FREQUENCY_PENALTY,
        optional(
            "enable_thinking",
            SettingKind::Flag,
            "whether the template has the model think, for templates that ask; not written if not given",
        ),
        optional(
            "reasoning_format",
            SettingKind::Word(&["auto", "deepseek", "deepseek-legacy", "none"]),
            "where the thoughts stand: auto, deepseek, deepseek-legacy or none; not written if not given",
        ),
    ],
    relations: &[],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/v1/chat/completions"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    let kwargs = [("enable_thinking", "enable_thinking")];
    binding.write_object(out, "chat_template_kwargs", &kwargs);
    binding.write(out, "frequency_penalty", "frequency_penalty");
    binding.write(out, "max_tokens", "max_tokens");
    same_messages(out, document);
    for name in [
        "min_p",
        "model",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_format",
        "repeat_last_n",
        "repeat_penalty",
        "seed",
        "stream",
        "temperature",
        "tool_choice",
    ] {
        binding.write(out, name, name);
    }
    if writes_tools(document, table) {
        same_tools(out, document);
    }
    for name in ["top_k", "top_p", "typical_p"] {
        binding.write(out, name, name);
    }
    out.close('}');
}

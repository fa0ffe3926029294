//! Ollama's own chat: the shape of the canonical form, texts alone, and a small vocabulary of schemas.

use super::fields::{
    FREQUENCY_PENALTY, MIN_P, MODEL, NARROW_SEED, PRESENCE_PENALTY, REPEAT_LAST_N, REPEAT_PENALTY,
    TOP_P, TYPICAL_P, api_version, limit, optional, temperature, top_k,
};
use super::{Endpoint, METADATA, Target, same_messages, same_tools, writes_tools};
use crate::binding::{Binding, Field, SettingKind};
use crate::document::{Document, FACET_VERSION};
use crate::name::NameRule;
use crate::relation::SettingRelation;
use crate::table::{Empty, Form, Strict, Table, TextRule, Vocabulary};
use crate::writer::Writer;

/// `POST /api/chat`.
pub const OLLAMA: &Target = &Target {
    id: "ollama",
    canonical_versions: &[FACET_VERSION],
    tables: &[Table {
        id: "ollama/api/1",
        // The API has no number; its paths begin so.
        api_version: "api",
        system: Form::Text,
        user: Form::Text,
        assistant: Form::Text,
        text: TextRule::Any,
        most_messages: None,
        most_system: None,
        needs_turn: false,
        trailing_assistants: None,
        no_system: Empty::Absent,
        no_tools: Empty::Written,
        most_tools: None,
        tool_name: NameRule::ANY,
        parameter_name: None,
        null_description: false,
        refused_at_root: &[],
        // Server and client read schemas into these members and lose all others without a word.
        vocabulary: Some(Vocabulary {
            root: &["properties", "required", "type"],
            property: &["description", "enum", "items", "type"],
        }),
        strict: Strict::None,
        refused_settings: &[],
        needs_tools: &[],
    }],
    binding: &[
        api_version("the version of the API, api; it chooses the table of constraints"),
        MODEL,
        limit("num_predict"),
        // Without it the provider streams.
        Field {
            name: "stream",
            kind: SettingKind::Flag,
            required: true,
            meaning: "whether the answer is streamed",
        },
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
        optional("think", SettingKind::Flag, "whether the model thinks; not written if not given"),
        optional(
            "think_level",
            SettingKind::Word(&["low", "medium", "high"]),
            "the effort of thinking: low, medium or high, written as think; not written if not given",
        ),
    ],
    relations: &[SettingRelation::Excludes("think", "think_level")],
    unmapped: METADATA,
    endpoint: |_| Endpoint::at("/api/chat"),
    write,
};

fn write(document: &Document<'_, '_>, table: &Table, binding: &Binding, out: &mut Writer) {
    out.open('{');
    same_messages(out, document);
    binding.write(out, "model", "model");
    let options = [
        "frequency_penalty",
        "min_p",
        "num_predict",
        "presence_penalty",
        "repeat_last_n",
        "repeat_penalty",
        "seed",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
    ];
    binding.write_object(out, "options", &options.map(|name| (name, name)));
    binding.write(out, "stream", "stream");
    binding.write(out, "think", "think");
    binding.write(out, "think_level", "think");
    if writes_tools(document, table) {
        same_tools(out, document);
    }
    out.close('}');
}

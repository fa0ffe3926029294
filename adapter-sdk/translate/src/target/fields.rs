//! Settings that several targets have, and what their names and values are.

use crate::binding::{Field, SettingKind};
use crate::relation::SettingRelation;

/// The setting that chooses the table; it says which versions there are.
pub(super) const fn api_version(meaning: &'static str) -> Field {
    Field { name: "api_version", kind: SettingKind::Text, required: true, meaning }
}

pub(super) const MODEL: Field = Field {
    name: "model",
    kind: SettingKind::Text,
    required: true,
    meaning: "the model, as the provider names it",
};

pub(super) const STREAM: Field = Field {
    name: "stream",
    kind: SettingKind::Flag,
    required: false,
    meaning: "whether the answer is streamed; not written if not given, which providers take for false",
};

pub(super) const STRICT: Field = Field {
    name: "strict",
    kind: SettingKind::Flag,
    required: false,
    meaning: "whether the model is held to the parameters of tools; not written if not given",
};

pub(super) const fn limit(name: &'static str) -> Field {
    optional(name, SettingKind::Limit, "the most tokens of the answer; not written if not given")
}

/// A setting that is not written unless it is given.
pub(super) const fn optional(
    name: &'static str,
    kind: SettingKind,
    meaning: &'static str,
) -> Field {
    Field { name, kind, required: false, meaning }
}

/// A number that is not written unless it is given.
pub(super) const fn decimal(
    name: &'static str,
    least: i32,
    most: Option<i32>,
    meaning: &'static str,
) -> Field {
    optional(name, SettingKind::Decimal { least, most }, meaning)
}

pub(super) const fn temperature(most: Option<i32>, meaning: &'static str) -> Field {
    decimal("temperature", 0, most, meaning)
}

pub(super) const TOP_P: Field = decimal(
    "top_p",
    0,
    Some(1),
    "the share of the likeliest tokens that are sampled, from 0 to 1; not written if not given",
);

pub(super) const MIN_P: Field = decimal(
    "min_p",
    0,
    Some(1),
    "the least likelihood of a token, relative to the likeliest, from 0 to 1; not written if not given",
);

pub(super) const TYPICAL_P: Field = decimal(
    "typical_p",
    0,
    Some(1),
    "the share of locally typical tokens that are sampled, from 0 to 1; not written if not given",
);

pub(super) const fn top_k(least: i64) -> Field {
    optional(
        "top_k",
        SettingKind::Whole { least, most: i32::MAX as i64 },
        "the number of the likeliest tokens that are sampled; not written if not given",
    )
}

pub(super) const fn seed(least: i64, most: i64) -> Field {
    optional(
        "seed",
        SettingKind::Whole { least, most },
        "the seed of the sampling; not written if not given",
    )
}

/// All seeds that no program rounds.
pub(super) const WIDE_SEED: Field = seed(1 - (1 << 53), (1 << 53) - 1);

/// The seeds of 32 bits.
pub(super) const NARROW_SEED: Field = seed(i32::MIN as i64, i32::MAX as i64);

pub(super) const PRESENCE_PENALTY: Field = decimal(
    "presence_penalty",
    -2,
    Some(2),
    "the penalty of tokens that occurred, from -2 to 2; not written if not given",
);

pub(super) const FREQUENCY_PENALTY: Field = decimal(
    "frequency_penalty",
    -2,
    Some(2),
    "the penalty of tokens by how often they occurred, from -2 to 2; not written if not given",
);

pub(super) const REPEAT_PENALTY: Field = decimal(
    "repeat_penalty",
    0,
    None,
    "the penalty of repeated tokens, where 1 is none; not written if not given",
);

pub(super) const REPEAT_LAST_N: Field = optional(
    "repeat_last_n",
    SettingKind::Whole { least: -1, most: i32::MAX as i64 },
    "how many of the last tokens are looked at for repetitions, -1 for the whole context; not written if not given",
);

/// Which tools the model calls, in the provider's words.
pub(super) const fn tool_choice(words: &'static [&'static str], meaning: &'static str) -> Field {
    optional("tool_choice", SettingKind::Word(words), meaning)
}

pub(super) const TOOL_CHOICE_NAME: Field = optional(
    "tool_choice_name",
    SettingKind::Text,
    "the one tool that the model must call, which the document must have; not written if not given",
);

pub(super) const PARALLEL_TOOL_CALLS: Field = optional(
    "parallel_tool_calls",
    SettingKind::Flag,
    "whether the model may call several tools at once; not written if not given",
);

/// Either which kind of tool, or which tool.
pub(super) const ONE_TOOL_CHOICE: SettingRelation =
    SettingRelation::Excludes("tool_choice", "tool_choice_name");

/// The settings that every provider with a choice takes only beside tools.
pub(super) const TOOL_CHOICES: &[&str] = &["tool_choice", "tool_choice_name"];

/// What OpenAI calls the effort of reasoning.
pub(super) const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

pub(super) const REASONING_EFFORT: Field = optional(
    "reasoning_effort",
    SettingKind::Word(EFFORTS),
    "the effort of reasoning: none, minimal, low, medium, high, xhigh or max; not written if not given",
);

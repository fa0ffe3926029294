//! The rules that a document or a binding can break, as one table, and what is told of the first one broken.

use alloc::string::String;
use core::fmt;

/// A rule, by its stable code.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The code: `X.nexus.` and a name. FACET keeps `F000` to `F999` for its compiler.
    pub code: &'static str,
    /// What the code says.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Why there is no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that was broken.
    pub rule: &'static Rule,
    /// Where, as a JSON pointer into the document (RFC 6901); into the binding for rules about bindings.
    pub pointer: String,
    /// What was found there.
    pub message: String,
    /// The first byte that does not fit, where the text itself is refused.
    pub offset: Option<usize>,
}

impl Refusal {
    pub(crate) fn new(rule: &'static Rule, pointer: String, message: String) -> Self {
        Self { rule, pointer, message, offset: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}: {}", self.rule.code, self.pointer, self.message)
    }
}

impl core::error::Error for Refusal {}

/// Defines the rules and the list of them from one table.
macro_rules! rules {
    ($($name:ident: $meaning:literal, $remedy:literal;)*) => {
        /// Every rule by its name.
        pub mod rule {
            use super::Rule;
            $(
                #[doc = $meaning]
                pub const $name: &Rule = &Rule {
                    code: concat!("X.nexus.", stringify!($name)),
                    meaning: $meaning,
                    remedy: $remedy,
                };
            )*
        }

        /// Every rule.
        pub const RULES: &[&Rule] = &[$(rule::$name),*];

        /// The code of every rule, for manifests.
        pub const CODES: &[&str] = &[$(rule::$name.code),*];
    };
}

rules! {
    TOO_LARGE: "The document is larger than translators read.",
        "send a smaller one; the limit is 8 MiB";
    BYTE_ORDER_MARK: "The document begins with a byte order mark.",
        "send the bytes that the compiler wrote";
    NOT_UTF8: "The document is not UTF-8.",
        "send the bytes that the compiler wrote";
    NOT_JSON: "The document is not one JSON value.",
        "send the canonical text alone: no log lines before it, nothing after it";
    NOT_CANONICAL: "The document is JSON, and not in the form of RFC 8785.",
        "send the bytes that the compiler wrote with --format json; nothing here puts them in order";
    DUPLICATE_KEY: "An object has the same member twice.",
        "compile the document again; which of the two was meant cannot be known";
    LONE_SURROGATE: "A string has half a surrogate pair, which is no character.",
        "correct the input of the compiler";
    NUMBER_INEXACT: "An integer is beyond 2^53, where programs disagree about numbers.",
        "write it as a string, or as a number with an exponent";
    TOO_DEEP: "Arrays and objects nest deeper than translators read.",
        "flatten the document; the limit is 128 levels";
    TOO_MANY_VALUES: "The document has more values than translators read.",
        "send a smaller one; the limit is 500000 values, names of members included";
    VERSION_UNSUPPORTED: "The document is of a version that the translator was not built for.",
        "compile for a version that the translator declares, or use a translator for this version";
    TARGET_MISMATCH: "The document was compiled for another target, or for none.",
        "compile it with this target, or use the translator of its target";
    UNKNOWN_MEMBER: "An object has a member that the canonical form does not have.",
        "correct the document where it is made; a translator drops nothing";
    MEMBER_MISSING: "An object lacks a member that the canonical form has.",
        "correct the document where it is made; a translator adds nothing";
    WRONG_TYPE: "A value is of a type that the canonical form does not have there.",
        "correct the document where it is made";
    VALUE_UNKNOWN: "A value is none of those that the canonical form has there.",
        "correct the document where it is made";
    ROLE_ORDER: "The messages are not in the order system, user, assistant.",
        "compile the document again; a translator does not sort";
    ASSET_HAS_NO_BYTES: "A message has an image or a sound, of which the document holds only the digest.",
        "no provider takes a digest: put what it shows into text, or call the provider without a translator";
    NO_MESSAGES: "There are no messages, and the provider needs one.",
        "write a message";
    TOO_MANY_MESSAGES: "There are more messages than the provider takes.",
        "write fewer";
    TOO_MANY_SYSTEM_MESSAGES: "There are more system messages than the provider takes.",
        "write one system message where the document is written; a translator merges nothing";
    NO_NON_SYSTEM_MESSAGE: "There are only system messages, and the provider needs another.",
        "write a user message";
    ENDS_WITH_ASSISTANT: "The last message is the assistant's, and the provider refuses that.",
        "leave the assistant's message out where the document is written";
    TWO_TRAILING_ASSISTANTS: "More messages of the assistant stand at the end than the provider takes.",
        "leave some out where the document is written";
    LIST_CONTENT_NOT_EXPRESSIBLE: "A message has a list for its content, and the provider takes only a text there.",
        "write one text";
    SYSTEM_BOUNDARY_LOST: "A system message has a list of several items, and the provider cannot tell its items from other messages.",
        "write one system message per item";
    SINGLE_ITEM_AMBIGUOUS: "A message has a list of one item, which the provider writes like a text; no table refuses that any more.",
        "use the translator of this version, which writes one block";
    EMPTY_CONTENT: "A message has an empty list for its content.",
        "leave the message out where the document is written";
    EMPTY_TEXT: "A text is empty, or nothing but white space, and the provider refuses that.",
        "leave it out where the document is written";
    TOO_MANY_TOOLS: "There are more tools than the provider takes.",
        "expose fewer";
    TOOL_NAME_CONSTRAINT: "The name of a tool breaks the provider's rule for names.",
        "name it otherwise in its interface; a translator does not rename";
    DUPLICATE_TOOL_NAMES: "Two tools have the same name.",
        "name one of them otherwise in its interface";
    PARAMETER_NAME_CONSTRAINT: "The name of a parameter breaks the provider's rule for names.",
        "name it otherwise in its interface";
    DESCRIPTION_NULL: "The description of a tool is null, and the provider takes only a text.",
        "describe the tool";
    SCHEMA_ROOT_NOT_EXPRESSIBLE: "The parameters of a tool have a keyword at the root that the provider refuses there.",
        "declare the parameters of the function one by one";
    SCHEMA_KEYWORDS_SILENTLY_DROPPED: "The parameters of a tool have a keyword, or a null, that the provider would drop without a word.",
        "declare the parameter with a type that the provider knows";
    STRICT_NOT_EXPRESSIBLE: "The binding says strict, and the parameters of a tool are not closed as that needs.",
        "bind strict = false, or close every object and require every property";
    SETTING_NEEDS_TOOLS: "The binding has a setting about tools, and the document has no tools.",
        "expose a tool, or use a binding without that setting";
    CHOSEN_TOOL_MISSING: "The binding names the tool to call, and the document does not have it.",
        "expose that tool, or name one of the document's tools";
    BINDING_MISSING: "The binding lacks a setting that the provider needs.",
        "configure it; there are no defaults";
    BINDING_INVALID: "A setting of the binding is unknown, of the wrong type, or out of range.",
        "correct the configuration; inspect lists the settings";
    API_VERSION_UNSUPPORTED: "The translator was not built for this version of the provider's API.",
        "bind one that it declares, or use a translator for this version";
    PROVIDER_REJECTED: "The provider refused the payload; its answer is among the details.",
        "the document is as good as before: look at the answer, and at the table that the translator declares";
}

//! The canonical document, decoded totally: every member is known, present and of its type, or it is refused.
//!
//! What the compiler judged (types, policies, budgets, hashes) is not judged again.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::content::{Message, Role};
use crate::refusal::{Refusal, Rule, rule};
use crate::tape::{Kind, Tape, Value};
use crate::text;
use crate::tool::Tool;

/// The version of the canonical form that is decoded here. Another one is another decoder.
pub const FACET_VERSION: &str = "2.1.3";

/// The version of policies that goes with it.
pub const POLICY_VERSION: &str = "1";

/// A decoded document. Its metadata is not mapped: no provider has a place for it.
#[derive(Debug)]
pub struct Document<'t, 'a> {
    /// The messages, in their order.
    pub messages: Vec<Message<'t, 'a>>,
    /// The tools, in their order.
    pub tools: Vec<Tool<'t, 'a>>,
    pub(crate) root: Value<'t, 'a>,
}

impl<'t, 'a> Document<'t, 'a> {
    /// Decodes a scanned text that was compiled for a target.
    ///
    /// # Errors
    /// The first rule that it breaks: its version, its target, then its shape from the beginning to the end.
    pub(crate) fn decode(
        tape: &'t Tape<'a>,
        versions: &[&str],
        target: &str,
    ) -> Result<Self, Refusal> {
        let root = tape.root();
        of_kind(root, Kind::Object)?;
        // Another version may have another shape, so its number comes first.
        if let Some(metadata) = root.get("metadata").filter(|found| found.kind() == Kind::Object) {
            one_of(metadata, "facet_version", versions, rule::VERSION_UNSUPPORTED)?;
            if metadata.get("policy_version").is_some() {
                one_of(metadata, "policy_version", &[POLICY_VERSION], rule::VERSION_UNSUPPORTED)?;
            }
            one_of(metadata, "target_provider_id", &[target], rule::TARGET_MISMATCH)?;
        }
        let [messages, metadata, tools] = members(root, ["messages", "metadata", "tools"])?;
        of_kind(messages, Kind::Array)?;
        let messages = messages.items().map(Message::decode).collect::<Result<Vec<_>, _>>()?;
        in_order(&messages)?;
        decode_metadata(metadata)?;
        of_kind(tools, Kind::Array)?;
        let tools = tools.items().map(Tool::decode).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { messages, tools, root })
    }
}

fn decode_metadata(metadata: Value<'_, '_>) -> Result<(), Refusal> {
    let names = [
        "budget_units",
        "document_hash",
        "facet_version",
        "host_profile_id",
        "mode",
        "policy_hash",
        "policy_version",
        "profile",
        "target_provider_id",
    ];
    let found = members(metadata, names)?;
    let [budget, document_hash, _, host_profile, _, policy_hash, ..] = found;
    of_kind(budget, Kind::Number)?;
    if !budget.raw().bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse(budget, rule::WRONG_TYPE, "it must be an integer, 0 or more"));
    }
    of_string(document_hash)?;
    of_string(host_profile)?;
    one_of(metadata, "mode", &["exec", "pure"], rule::VALUE_UNKNOWN)?;
    if policy_hash.kind() != Kind::Null {
        of_string(policy_hash)?;
        if !is_policy_hash(policy_hash.inner()) {
            let why = format!(
                "it must be null, or sha256: and 64 lower-case hexadecimal digits, and is {}",
                shown(policy_hash)
            );
            return Err(refuse(policy_hash, rule::VALUE_UNKNOWN, &why));
        }
    }
    one_of(metadata, "profile", &["core", "hypervisor"], rule::VALUE_UNKNOWN)
}

/// Its form is laid down, unlike that of `document_hash`; whether it is the right one is the compiler's matter.
fn is_policy_hash(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn in_order(messages: &[Message<'_, '_>]) -> Result<(), Refusal> {
    let mut last = Role::System;
    for message in messages {
        if message.role < last {
            let (role, last) = (message.role.name(), last.name());
            let why = format!("a message of {role} stands after one of {last}");
            return Err(refuse(message.value, rule::ROLE_ORDER, &why));
        }
        last = message.role;
    }
    Ok(())
}

/// Returns the members of an object that has these and no others. `names` are sorted.
pub(crate) fn members<'t, 'a, const N: usize>(
    object: Value<'t, 'a>,
    names: [&str; N],
) -> Result<[Value<'t, 'a>; N], Refusal> {
    of_kind(object, Kind::Object)?;
    let mut found = [None; N];
    for (name, value) in object.members() {
        match names.iter().position(|known| name.is(known)) {
            Some(place) => found[place] = Some(value),
            None => return Err(refuse(value, rule::UNKNOWN_MEMBER, &only(&names))),
        }
    }
    if let Some(place) = found.iter().position(Option::is_none) {
        return Err(missing(object, names[place]));
    }
    // The object itself stands where nothing does; there is no such place any more.
    Ok(found.map(|value| value.unwrap_or(object)))
}

fn only(names: &[&str]) -> String {
    format!("its object has only {}", names.join(", "))
}

pub(crate) fn missing(object: Value<'_, '_>, name: &str) -> Refusal {
    let mut pointer = object.pointer();
    pointer.push('/');
    text::push_escaped(&mut pointer, name);
    Refusal::new(rule::MEMBER_MISSING, pointer, format!("{name} is not there"))
}

/// Refuses unless a member of an object is one of these strings.
pub(crate) fn one_of(
    object: Value<'_, '_>,
    name: &str,
    known: &[&str],
    rule: &'static Rule,
) -> Result<(), Refusal> {
    let wanted = || format!("it must be {}", known.join(" or "));
    match object.get(name) {
        Some(value) if known.iter().any(|known| value.is(known)) => Ok(()),
        Some(value) => Err(refuse(value, rule, &format!("{}, and is {}", wanted(), shown(value)))),
        None => Err(Refusal { rule, message: wanted(), ..missing(object, name) }),
    }
}

pub(crate) fn of_kind(value: Value<'_, '_>, kind: Kind) -> Result<(), Refusal> {
    if value.kind() == kind { Ok(()) } else { Err(wrong_type(value, kind.name())) }
}

pub(crate) fn of_string(value: Value<'_, '_>) -> Result<(), Refusal> {
    if value.is_string() { Ok(()) } else { Err(wrong_type(value, Kind::Plain.name())) }
}

pub(crate) fn wrong_type(value: Value<'_, '_>, wanted: &str) -> Refusal {
    let found = value.kind().name();
    refuse(value, rule::WRONG_TYPE, &format!("it must be of type {wanted}, and is of type {found}"))
}

pub(crate) fn refuse(value: Value<'_, '_>, rule: &'static Rule, message: &str) -> Refusal {
    Refusal::new(rule, value.pointer(), message.into())
}

/// The beginning of a value, for a message.
pub(crate) fn shown<'a>(value: Value<'_, 'a>) -> &'a str {
    text::shown(value.raw())
}

//! The members of a tool spec that have members of their own.

use super::document::is_tool_id;
use super::parts::{Dependencies, EffectType, ExecutionTarget, SideEffect, Validation};
use super::reader::{MALFORMED, Reader};
use crate::interface::below;
use crate::json::{Object, Value};

pub(super) fn side_effects(reader: &mut Reader<'_>) -> Vec<SideEffect> {
    let Some(listed) = reader.get("side_effects").and_then(Value::as_array).map(<[Value]>::to_vec)
    else {
        reader.wrong("side_effects", "must be a list, [] if there are none");
        return Vec::new();
    };
    let mut effects = Vec::with_capacity(listed.len());
    for (index, effect) in listed.iter().enumerate() {
        let place = format!("/side_effects/{index}");
        let Some(object) = effect.as_object() else {
            let message = "must be an object with effect_type, description and reversible";
            reader.findings.add(place, MALFORMED, message);
            continue;
        };
        let mut reader = Reader { findings: &mut *reader.findings, object, place: &place };
        reader.only(&["effect_type", "description", "reversible", "scope"]);
        let effect_type = reader.word("effect_type", EffectType::from_name, EffectType::NAMES);
        let description = reader.text("description", 1, 10_000);
        let reversible = reader.get("reversible").and_then(Value::as_bool);
        if reversible.is_none() {
            reader.wrong("reversible", "must be true or false");
        }
        let scope = reader.optional("scope");
        if let (Some(effect_type), Some(reversible)) = (effect_type, reversible) {
            effects.push(SideEffect { effect_type, description, reversible, scope });
        }
    }
    effects
}

/// Reads a part of the document that may be left out, with the names that may stand in it.
fn part<T: Default>(
    reader: &mut Reader<'_>,
    name: &str,
    known: &[&str],
    read: impl FnOnce(&mut Reader<'_>) -> T,
) -> Option<T> {
    let object = reader.object(name)?;
    let place = below(reader.place, name);
    let mut inner = Reader { findings: &mut *reader.findings, object: &object, place: &place };
    inner.only(known);
    Some(read(&mut inner))
}

pub(super) fn execution_target(reader: &mut Reader<'_>) -> Option<ExecutionTarget> {
    let known = ["mode", "provider", "region", "service"];
    part(reader, "execution_target", &known, |reader| ExecutionTarget {
        mode: reader.optional("mode"),
        provider: reader.optional("provider"),
        region: reader.optional("region"),
        service: reader.optional("service"),
    })
}

fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

pub(super) fn dependencies(reader: &mut Reader<'_>) -> Dependencies {
    let known = ["tools", "services", "minimum_resources"];
    part(reader, "dependencies", &known, |reader| Dependencies {
        tools: reader.texts("tools", false, is_tool_id, "the id of a tool: ^[a-z0-9_-]+$"),
        services: reader.texts("services", false, is_said, "a text that is not empty"),
        minimum_resources: part(
            reader,
            "minimum_resources",
            &["memory_mb", "cpu_cores", "disk_mb"],
            minimum_resources,
        )
        .unwrap_or_default(),
    })
    .unwrap_or_default()
}

fn minimum_resources(reader: &mut Reader<'_>) -> Object {
    for name in ["memory_mb", "disk_mb"] {
        if reader.get(name).is_some_and(|value| value.as_i64().is_none_or(i64::is_negative)) {
            reader.wrong(name, "must be an integer that is not negative");
        }
    }
    let is_amount = |value: &Value| match value {
        Value::Int(cores) => !cores.is_negative(),
        Value::Float(cores) => *cores >= 0.0,
        _ => false,
    };
    if reader.get("cpu_cores").is_some_and(|value| !is_amount(value)) {
        reader.wrong("cpu_cores", "must be a number that is not negative");
    }
    reader.object.clone()
}

pub(super) fn validation(reader: &mut Reader<'_>) -> Validation {
    let known = ["pre_conditions", "post_conditions", "invariants"];
    part(reader, "validation", &known, |reader| {
        let mut texts = |name| reader.texts(name, false, is_said, "a text that is not empty");
        Validation {
            pre_conditions: texts("pre_conditions"),
            post_conditions: texts("post_conditions"),
            invariants: texts("invariants"),
        }
    })
    .unwrap_or_default()
}

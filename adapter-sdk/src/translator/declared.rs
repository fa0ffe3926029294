//! What a translator declares, as JSON: with every output, and for `inspect`.

use nexus_router_translate::{
    Field, NameRule, POLICY_VERSION, Setting, SettingRelation, Table, Translator,
};
use serde_json::{Value, json};

use super::{RENDER, TOOL};
use crate::{Object, Passive};

/// Returns what every output has besides its payload.
pub(super) fn about(translator: &Translator) -> Object {
    let target = translator.target();
    let endpoint = translator.endpoint();
    let headers: Object = endpoint
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    let members = [
        ("target", target.id.into()),
        ("canonical_versions", target.canonical_versions.into()),
        ("table", translator.table().id.into()),
        ("binding", binding(translator)),
        ("binding_sha256", translator.binding_sha256().into()),
        ("endpoint", json!({ "method": "POST", "path": endpoint.path, "headers": headers })),
        ("unmapped", target.unmapped.into()),
    ];
    members.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect()
}

/// Returns the declaration of the whole translator.
pub(super) fn passive(translator: &Translator) -> Passive {
    let target = translator.target();
    let tables: Vec<Value> = target.tables.iter().map(table).collect();
    let declares = json!({
        "target": target.id,
        "canonical_versions": target.canonical_versions,
        "policy_versions": [POLICY_VERSION],
        "api_versions": target.tables.iter().map(|table| table.api_version).collect::<Vec<_>>(),
        "binding": binding(translator),
        "binding_sha256": translator.binding_sha256(),
        "settings": settings(target.binding),
        "relations": target.relations.iter().copied().map(SettingRelation::describe).collect::<Vec<_>>(),
        "unmapped": target.unmapped,
        "in_force": translator.table().id,
        "tables": tables,
    });
    let examples = EXAMPLES.iter().map(|text| {
        let document = text.replace("TARGET", target.id);
        Object::from_iter([("document".to_owned(), document.into())])
    });
    Passive {
        tool: TOOL.to_owned(),
        method: RENDER.to_owned(),
        examples: examples.collect(),
        declares,
    }
}

fn binding(translator: &Translator) -> Value {
    let settings = translator.binding().settings().map(|(name, setting)| {
        let value = match setting {
            Setting::Text(text) => text.as_str().into(),
            Setting::Number(number) => (*number).into(),
            Setting::Decimal(decimal) => (*decimal).into(),
            Setting::Flag(flag) => (*flag).into(),
            Setting::Other => Value::Null,
        };
        (name.to_owned(), value)
    });
    Value::Object(settings.collect())
}

/// Returns the values that each setting accepts.
fn settings(fields: &[Field]) -> Object {
    fields.iter().map(|field| (field.name.to_owned(), field.kind.describe().into())).collect()
}

fn table(table: &Table) -> Value {
    json!({
        "id": table.id,
        "api_version": table.api_version,
        "content": {
            "system": table.system.name(),
            "user": table.user.name(),
            "assistant": table.assistant.name(),
            "text": table.text.name(),
        },
        "messages": {
            "most": table.most_messages,
            "most_system": table.most_system,
            "needs_turn": table.needs_turn,
            "trailing_assistants": table.trailing_assistants,
            "no_system": table.no_system.name(),
        },
        "tools": {
            "most": table.most_tools,
            "none": table.no_tools.name(),
            "name": table.tool_name.pattern(),
            "parameter_name": table.parameter_name.as_ref().map(NameRule::pattern),
            "null_description": table.null_description,
            "refused_at_root": table.refused_at_root,
            "keywords": table.vocabulary.map(|kept| json!({
                "root": kept.root, "property": kept.property,
            })),
            "strict": table.strict.name(),
        },
        "settings": { "refused": table.refused_settings, "need_tools": table.needs_tools },
    })
}

/// What a translator is tried with: two documents, one with a tool whose parameters are closed; one that no
/// translator takes; and a text that is no canonical form.
const EXAMPLES: &[&str] = &[
    r#"{"messages":[{"content":"Répondez — 天気 \"exactly\"\n","role":"system"},{"content":"Weather in Minsk?","role":"user"}],"metadata":{"budget_units":4096,"document_hash":"sha256:00","facet_version":"2.1.3","host_profile_id":"local.default.v1","mode":"pure","policy_hash":null,"policy_version":"1","profile":"hypervisor","target_provider_id":"TARGET"},"tools":[{"function":{"description":"Function: get_current","name":"get_current","parameters":{"properties":{"city":{"enum":["Minsk",null,1e-7],"type":"string"}},"required":["city"],"type":"object"}},"type":"function"}]}"#,
    r#"{"messages":[{"content":"hello","role":"user"}],"metadata":{"budget_units":0,"document_hash":"","facet_version":"2.1.3","host_profile_id":"","mode":"exec","policy_hash":"sha256:0000000000000000000000000000000000000000000000000000000000000000","policy_version":"1","profile":"core","target_provider_id":"TARGET"},"tools":[]}"#,
    r#"{"messages":[{"content":"hello","role":"user"}],"metadata":{"budget_units":0,"document_hash":"","facet_version":"2.1.4","host_profile_id":"","mode":"exec","policy_hash":null,"policy_version":"1","profile":"core","target_provider_id":"TARGET"},"tools":[]}"#,
    r#"{"tools":[],"messages":[]}"#,
];

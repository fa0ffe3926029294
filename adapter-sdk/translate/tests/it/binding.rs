//! Bindings: explicit, never defaulted, and part of what is written.

use nexus_router_translate::{RULES, Setting, SettingKind, Translator, target};
use serde_json::{Value, json};

use crate::support::{base, json as golden_json, render, settings};

fn bound(target: &str, change: impl Fn(&mut Value)) -> Result<Translator, String> {
    let mut binding = golden_json("bindings.json")[target].clone();
    change(&mut binding);
    let found = target::ALL.iter().find(|known| known.id == target).unwrap();
    Translator::new(found, settings(&binding))
        .map_err(|refusal| format!("{} {}", &refusal.rule.code[8..], refusal.pointer))
}

#[test]
fn required_settings_have_no_default() {
    let mut seen = 0;
    for target in target::ALL {
        for field in target.binding.iter().filter(|field| field.required) {
            let without = |binding: &mut Value| {
                binding.as_object_mut().unwrap().remove(field.name).unwrap();
            };
            let expected = format!("BINDING_MISSING /{}", field.name);
            assert_eq!(bound(target.id, without).unwrap_err(), expected);
            seen += 1;
        }
    }
    assert!(seen >= 16, "{seen}");
}

#[test]
fn wrong_settings_are_refused() {
    for target in target::ALL {
        let unknown = bound(target.id, |binding| binding["temprature"] = json!(1));
        assert_eq!(unknown.unwrap_err(), "BINDING_INVALID /temprature");
        for field in target.binding {
            let wrong = match field.kind {
                SettingKind::Text => vec![json!(""), json!(1), json!(null), json!("a\nb")],
                SettingKind::Name => vec![json!("../x"), json!("a/b"), json!("a?b"), json!("..")],
                SettingKind::Limit => {
                    vec![json!(0), json!(-1), json!(1.5), json!("1"), json!(1_u64 << 54)]
                }
                SettingKind::Whole { least, most } => {
                    vec![
                        json!(least - 1),
                        json!(most + 1),
                        json!(1.5),
                        json!("1"),
                        json!(null),
                        json!(1e21),
                    ]
                }
                SettingKind::Decimal { least, most } => {
                    let more = most.map_or(json!(null), |most| json!(f64::from(most) + 0.001));
                    vec![json!(f64::from(least) - 0.001), more, json!("1"), json!([1]), json!(true)]
                }
                SettingKind::Word(words) => {
                    let other = words[0].to_uppercase() + "x";
                    vec![json!(""), json!(other), json!(null), json!(true), json!(words)]
                }
                SettingKind::Flag => vec![json!("true"), json!(1), json!(null)],
            };
            for value in wrong {
                let refused = bound(target.id, |binding| binding[field.name] = value.clone());
                let expected = format!("BINDING_INVALID /{}", field.name);
                assert_eq!(refused.unwrap_err(), expected, "{} {value}", target.id);
            }
        }
        let other = bound(target.id, |binding| binding["api_version"] = json!("v9"));
        assert_eq!(other.unwrap_err(), "API_VERSION_UNSUPPORTED /api_version");
    }
}

#[test]
fn optional_settings_are_written_only_if_given() {
    for target in target::ALL {
        for field in target.binding.iter().filter(|field| !field.required) {
            let value = match field.kind {
                SettingKind::Limit => json!(77),
                SettingKind::Flag => json!(false),
                // The others have a test of their own: settings.rs.
                _ => continue,
            };
            let beside = |binding: &mut Value| {
                if field.name == "disable_parallel_tool_use" {
                    binding["tool_choice"] = json!("any");
                }
            };
            let with = bound(target.id, |binding| {
                beside(binding);
                binding[field.name] = value.clone();
            });
            let with = with.unwrap();
            let without = bound(target.id, |binding| {
                beside(binding);
                binding.as_object_mut().unwrap().remove(field.name);
            });
            let document = base(target.id);
            let (with, without) =
                (render(&with, &document).unwrap(), render(&without.unwrap(), &document).unwrap());
            // Gemini streams by another path.
            let in_path = target.id == "gemini" && field.name == "stream";
            assert_eq!(with == without, in_path, "{} {}", target.id, field.name);
        }
    }
}

#[test]
fn endpoint_is_that_of_the_version() {
    let of = |target, change: fn(&mut Value)| bound(target, change).unwrap().endpoint();
    assert_eq!(of("openai", |_| ()).path, "/v1/chat/completions");
    assert_eq!(of("openai.responses", |_| ()).path, "/v1/responses");
    assert_eq!(of("ollama", |_| ()).path, "/api/chat");
    assert_eq!(of("llama.cpp", |_| ()).path, "/v1/chat/completions");
    assert_eq!(of("gemini", |_| ()).path, "/v1/models/gemini-3-pro:generateContent");
    let beta =
        of("gemini", |b| *b = json!({"api_version": "v1beta", "model": "m", "stream": true}));
    assert_eq!(beta.path, "/v1beta/models/m:streamGenerateContent");
    assert_eq!(of("gemini.interactions", |_| ()).path, "/v1/interactions");
    let beta = of("gemini.interactions", |b| b["api_version"] = json!("v1beta"));
    assert_eq!(beta.path, "/v1beta/interactions");
    assert_eq!(of("anthropic", |_| ()).headers, [("anthropic-version", "2026-10-21")]);
    let older = of("anthropic", |b| b["api_version"] = json!("2023-06-01"));
    assert_eq!(older.headers, [("anthropic-version", "2023-06-01")]);
    assert_eq!(older.path, "/v1/messages");
}

#[test]
fn text_of_a_binding_is_written_canonically() {
    let bound = bound("openai", |b| b["model"] = json!("a\"\\é😀/")).unwrap();
    let payload = render(&bound, &base("openai")).unwrap();
    assert!(payload.contains(r#""model":"a\"\\é😀/""#), "{payload}");
    nexus_router_translate::is_canonical(payload.as_bytes()).unwrap();
}

#[test]
fn tables_are_told_apart_and_rules_are_explained() {
    let mut ids: Vec<&str> =
        target::ALL.iter().flat_map(|target| target.tables.iter().map(|table| table.id)).collect();
    assert!(ids.len() >= 8);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), target::ALL.iter().map(|target| target.tables.len()).sum::<usize>());
    for rule in RULES {
        assert!(nexus_router_sdk::code::is_well_formed(rule.code), "{}", rule.code);
        assert!(rule.meaning.ends_with('.') && !rule.remedy.is_empty(), "{}", rule.code);
    }
    assert_eq!(Setting::Number(1), Setting::Number(1));
}

#[test]
fn name_of_seventy_letters_is_a_matter_of_the_version() {
    let with =
        |version: &str| bound("gemini", |binding| binding["api_version"] = json!(version)).unwrap();
    let mut document = base("gemini");
    document["tools"][0]["function"]["name"] = json!("a".repeat(70));
    assert!(render(&with("v1"), &document).is_ok());
    let refusal = render(&with("v1beta"), &document).unwrap_err();
    assert_eq!(refusal.rule.code, "X.nexus.TOOL_NAME_CONSTRAINT");
}

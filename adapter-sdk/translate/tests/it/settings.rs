//! Settings for the choice of tools, sampling and reasoning: where each stands in the payload, and what each demands.

use std::collections::BTreeSet;

use nexus_router_translate::{Translator, sha256, target};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{base, json as golden_json, render, settings};

/// A target, a binding beside the usual one, and what the payload has more: places and values.
type Case = (&'static str, Value, Value);

/// Every setting of a choice, of sampling and of reasoning, and its place on the wire.
fn cases() -> Vec<Case> {
    let (openai, responses, anthropic) = ("openai", "openai.responses", "anthropic");
    let (gemini, interactions) = ("gemini", "gemini.interactions");
    let (ollama, llama) = ("ollama", "llama.cpp");
    let named = json!({ "tool_choice_name": "get_current" });
    let older = |more: Value| {
        let mut binding = json!({ "api_version": "2023-06-01" });
        binding.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        binding
    };
    let mut cases = vec![
        (openai, json!({"tool_choice": "required"}), json!({"/tool_choice": "required"})),
        (
            openai,
            named.clone(),
            json!({"/tool_choice": {"type": "function", "function": {"name": "get_current"}}}),
        ),
        (openai, json!({"parallel_tool_calls": false}), json!({"/parallel_tool_calls": false})),
        (openai, json!({"temperature": 0.7}), json!({"/temperature": 0.7})),
        (openai, json!({"top_p": 1}), json!({"/top_p": 1})),
        (openai, json!({"seed": -5}), json!({"/seed": -5})),
        (openai, json!({"presence_penalty": -2}), json!({"/presence_penalty": -2})),
        (openai, json!({"frequency_penalty": 1.5}), json!({"/frequency_penalty": 1.5})),
        (openai, json!({"reasoning_effort": "xhigh"}), json!({"/reasoning_effort": "xhigh"})),
        (responses, json!({"tool_choice": "none"}), json!({"/tool_choice": "none"})),
        (
            responses,
            named.clone(),
            json!({"/tool_choice": {"type": "function", "name": "get_current"}}),
        ),
        (responses, json!({"parallel_tool_calls": true}), json!({"/parallel_tool_calls": true})),
        (responses, json!({"temperature": 0}), json!({"/temperature": 0})),
        (responses, json!({"top_p": 0.95}), json!({"/top_p": 0.95})),
        (
            responses,
            json!({"reasoning_effort": "minimal", "reasoning_summary": "concise"}),
            json!({"/reasoning": {"effort": "minimal", "summary": "concise"}}),
        ),
        (
            anthropic,
            json!({"tool_choice": "any", "disable_parallel_tool_use": true}),
            json!({"/tool_choice": {"type": "any", "disable_parallel_tool_use": true}}),
        ),
        (
            anthropic,
            json!({"tool_choice_name": "get_current", "disable_parallel_tool_use": false}),
            json!({"/tool_choice": {"type": "tool", "name": "get_current", "disable_parallel_tool_use": false}}),
        ),
        (anthropic, json!({"tool_choice": "none"}), json!({"/tool_choice": {"type": "none"}})),
        (anthropic, older(json!({"temperature": 1})), json!({"/temperature": 1})),
        (
            anthropic,
            older(json!({"top_p": 0.5, "top_k": 40})),
            json!({"/top_p": 0.5, "/top_k": 40}),
        ),
        (
            anthropic,
            json!({"thinking": "adaptive", "thinking_display": "omitted", "effort": "max"}),
            json!({"/thinking": {"type": "adaptive", "display": "omitted"}, "/output_config": {"effort": "max"}}),
        ),
        (
            anthropic,
            json!({"max_tokens": 2048, "thinking": "enabled", "thinking_budget_tokens": 2047}),
            json!({"/max_tokens": 2048, "/thinking": {"type": "enabled", "budget_tokens": 2047}}),
        ),
        (
            gemini,
            json!({"tool_choice": "VALIDATED"}),
            json!({"/toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}),
        ),
        (
            gemini,
            named.clone(),
            json!({"/toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_current"]}}}),
        ),
        (
            gemini,
            json!({"temperature": 2, "top_p": 0.1, "top_k": 1, "seed": 7, "presence_penalty": 0.5, "frequency_penalty": -0.5}),
            json!({"/generationConfig": {"maxOutputTokens": 1024, "temperature": 2, "topP": 0.1, "topK": 1, "seed": 7,
                "presencePenalty": 0.5, "frequencyPenalty": -0.5}}),
        ),
        (
            gemini,
            json!({"thinking_level": "LOW", "include_thoughts": true}),
            json!({"/generationConfig/thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true}}),
        ),
        (
            gemini,
            json!({"thinking_budget": -1}),
            json!({"/generationConfig/thinkingConfig": {"thinkingBudget": -1}}),
        ),
        (
            interactions,
            json!({"tool_choice": "validated", "temperature": 0.25, "top_p": 0.5, "seed": 3}),
            json!({"/generation_config": {"max_output_tokens": 1024, "tool_choice": "validated", "temperature": 0.25,
                "top_p": 0.5, "seed": 3}}),
        ),
        (
            interactions,
            named,
            json!({"/generation_config/tool_choice": {"allowed_tools": {"mode": "any", "tools": ["get_current"]}}}),
        ),
        (
            interactions,
            json!({"thinking_level": "minimal", "thinking_summaries": "none"}),
            json!({"/generation_config/thinking_level": "minimal", "/generation_config/thinking_summaries": "none"}),
        ),
        (
            interactions,
            json!({"store": true, "previous_interaction_id": "v1_abc"}),
            json!({"/store": true, "/previous_interaction_id": "v1_abc"}),
        ),
        (ollama, json!({"think": true}), json!({"/think": true})),
        (ollama, json!({"think_level": "high"}), json!({"/think": "high"})),
        (llama, json!({"tool_choice": "auto"}), json!({"/tool_choice": "auto"})),
        (llama, json!({"parallel_tool_calls": true}), json!({"/parallel_tool_calls": true})),
        (
            llama,
            json!({"enable_thinking": false, "reasoning_format": "deepseek"}),
            json!({"/chat_template_kwargs": {"enable_thinking": false}, "/reasoning_format": "deepseek"}),
        ),
    ];
    let sampling = json!({"temperature": 3.5, "top_p": 0.9, "top_k": 0, "min_p": 0.05, "typical_p": 1, "seed": -1,
        "repeat_penalty": 1.1, "repeat_last_n": -1, "presence_penalty": 0.1, "frequency_penalty": 0.2});
    let mut options = sampling.clone();
    options["num_predict"] = json!(1024);
    cases.push((ollama, sampling.clone(), json!({ "/options": options })));
    let members = sampling.as_object().unwrap().iter();
    let flat: Value = members.map(|(name, value)| (format!("/{name}"), value.clone())).collect();
    cases.push((llama, sampling, flat));
    cases
}

fn bound(target: &str, more: &Value) -> Result<Translator, String> {
    let mut binding = golden_json("bindings.json")[target].clone();
    binding.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Translator::new(target::find(target).unwrap(), settings(&binding))
        .map_err(|refusal| format!("{} {}", &refusal.rule.code[8..], refusal.pointer))
}

fn payload(target: &str, more: &Value) -> Value {
    let text = render(&bound(target, more).unwrap(), &base(target)).unwrap();
    nexus_router_translate::is_canonical(text.as_bytes()).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn setting_stands_at_its_place_and_nowhere_else() {
    for (target, more, wanted) in cases() {
        let (before, mut after) = (payload(target, &json!({})), payload(target, &more));
        for (place, value) in wanted.as_object().unwrap() {
            assert_eq!(after.pointer(place), Some(value), "{target} {more}: {after}");
            // What was there before is put back, and then nothing else is different.
            let (parent, member) = place.rsplit_once('/').unwrap();
            let is_new = before.pointer(parent).is_none();
            let (parent, member) =
                if is_new { parent.rsplit_once('/').unwrap() } else { (parent, member) };
            let object = after.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            match before.pointer(parent).unwrap().get(member) {
                Some(earlier) => drop(object.insert(member.to_owned(), earlier.clone())),
                None => drop(object.remove(member)),
            }
        }
        assert_eq!(after, before, "{target} {more}");
    }
}

#[test]
fn every_setting_has_a_case() {
    for target in target::ALL {
        let cases = cases();
        let own = cases.iter().filter(|(id, ..)| *id == target.id);
        let seen: BTreeSet<&str> = own
            .flat_map(|(_, more, _)| more.as_object().unwrap().keys().map(String::as_str))
            .collect();
        let usual = golden_json("bindings.json")[target.id].clone();
        for field in target.binding {
            let is_usual =
                usual.get(field.name).is_some() || ["stream", "strict"].contains(&field.name);
            assert!(is_usual || seen.contains(field.name), "{}: {}", target.id, field.name);
        }
    }
}

#[test]
fn settings_in_conflict_are_refused() {
    let cases = [
        ("openai", json!({"tool_choice": "auto", "tool_choice_name": "a"}), "/tool_choice_name"),
        (
            "openai.responses",
            json!({"tool_choice": "auto", "tool_choice_name": "a"}),
            "/tool_choice_name",
        ),
        ("anthropic", json!({"tool_choice": "auto", "tool_choice_name": "a"}), "/tool_choice_name"),
        ("anthropic", json!({"disable_parallel_tool_use": true}), "/disable_parallel_tool_use"),
        (
            "anthropic",
            json!({"tool_choice": "none", "disable_parallel_tool_use": true}),
            "/disable_parallel_tool_use",
        ),
        ("anthropic", json!({"thinking": "enabled"}), "/thinking"),
        (
            "anthropic",
            json!({"thinking_budget_tokens": 1024, "max_tokens": 4096}),
            "/thinking_budget_tokens",
        ),
        (
            "anthropic",
            json!({"thinking": "adaptive", "thinking_budget_tokens": 1024, "max_tokens": 4096}),
            "/thinking_budget_tokens",
        ),
        (
            "anthropic",
            json!({"thinking": "enabled", "thinking_budget_tokens": 1024, "max_tokens": 1024}),
            "/thinking_budget_tokens",
        ),
        (
            "anthropic",
            json!({"thinking": "disabled", "thinking_display": "omitted"}),
            "/thinking_display",
        ),
        ("anthropic", json!({"thinking_display": "omitted"}), "/thinking_display"),
        ("gemini", json!({"tool_choice": "ANY", "tool_choice_name": "a"}), "/tool_choice_name"),
        ("gemini", json!({"thinking_budget": 0, "thinking_level": "LOW"}), "/thinking_level"),
        (
            "gemini.interactions",
            json!({"tool_choice": "any", "tool_choice_name": "a"}),
            "/tool_choice_name",
        ),
        ("ollama", json!({"think": true, "think_level": "low"}), "/think_level"),
    ];
    for (target, more, pointer) in cases {
        assert_eq!(
            bound(target, &more).unwrap_err(),
            format!("BINDING_INVALID {pointer}"),
            "{more}"
        );
    }
}

#[test]
fn setting_of_another_version_is_refused() {
    for name in ["temperature", "top_p", "top_k"] {
        let newer = bound("anthropic", &json!({ name: 1 }));
        assert_eq!(newer.unwrap_err(), format!("BINDING_INVALID /{name}"));
        assert!(bound("anthropic", &json!({ name: 1, "api_version": "2023-06-01" })).is_ok());
    }
}

#[test]
fn choice_needs_the_tool_that_it_is_about() {
    for target in target::ALL {
        for setting in
            target.binding.iter().filter(|it| target.tables[0].needs_tools.contains(&it.name))
        {
            let value = match setting.kind {
                nexus_router_translate::SettingKind::Word(words) => json!(words[0]),
                nexus_router_translate::SettingKind::Flag => json!(true),
                _ => json!("get_current"),
            };
            let translator = bound(target.id, &json!({ setting.name: value })).unwrap();
            assert!(render(&translator, &base(target.id)).is_ok());
            let mut without = base(target.id);
            without["tools"] = json!([]);
            let refusal = render(&translator, &without).unwrap_err();
            let told = (refusal.rule.code, refusal.pointer.as_str());
            assert_eq!(
                told,
                ("X.nexus.SETTING_NEEDS_TOOLS", "/tools"),
                "{} {}",
                target.id,
                setting.name
            );
            if setting.name == "tool_choice_name" {
                let mut other = base(target.id);
                other["tools"][0]["function"]["name"] = json!("get_currents");
                let refusal = render(&translator, &other).unwrap_err();
                let told = (refusal.rule.code, refusal.pointer.as_str());
                assert_eq!(told, ("X.nexus.CHOSEN_TOOL_MISSING", "/tools"), "{}", target.id);
            }
        }
    }
}

#[test]
fn digest_is_that_of_the_canonical_binding() {
    let translator = bound("anthropic", &json!({})).unwrap();
    let text = r#"{"api_version":"2026-10-21","max_tokens":1024,"model":"claude-sonnet-5"}"#;
    assert_eq!(translator.binding().to_canonical(), text);
    assert_eq!(translator.binding_sha256(), sha256(text.as_bytes()));
    for (target, more, _) in cases() {
        let (usual, other) = (bound(target, &json!({})).unwrap(), bound(target, &more).unwrap());
        assert_ne!(usual.binding_sha256(), other.binding_sha256(), "{target} {more}");
        nexus_router_translate::is_canonical(other.binding().to_canonical().as_bytes()).unwrap();
    }
    // The same number is the same binding, however it is written.
    let written = |text: &str| bound("openai", &serde_json::from_str(text).unwrap()).unwrap();
    let (one, other) = (
        written(r#"{"temperature": 1, "seed": 40}"#),
        written(r#"{"temperature": 1.0, "seed": 4e1}"#),
    );
    assert_eq!(one.binding_sha256(), other.binding_sha256());
    let rendered = |translator| render(translator, &base("openai")).unwrap();
    assert_eq!(rendered(&one), rendered(&other));
}

proptest! {
    #[test]
    fn number_in_its_range_is_written_exactly(temperature in -0.5..2.5, top_p in 0.0..=1.0, seed in any::<i64>()) {
        for target in ["openai", "gemini", "gemini.interactions", "ollama", "llama.cpp"] {
            let most = if ["ollama", "llama.cpp"].contains(&target) { f64::MAX } else { 2.0 };
            let bound = bound(target, &json!({ "temperature": temperature, "top_p": top_p }));
            prop_assert_eq!(bound.is_ok(), (0.0..=most).contains(&temperature));
            let Ok(translator) = bound else { continue };
            let payload: Value = serde_json::from_str(&render(&translator, &base(target)).unwrap()).unwrap();
            let config = match target {
                "gemini" => &payload["generationConfig"],
                "gemini.interactions" => &payload["generation_config"],
                "ollama" => &payload["options"],
                _ => &payload,
            };
            prop_assert_eq!(config["temperature"].as_f64(), Some(temperature));
            let name = if target == "gemini" { "topP" } else { "top_p" };
            prop_assert_eq!(config[name].as_f64(), Some(top_p));
        }
        let is_exact = seed.unsigned_abs() < 1 << 53;
        prop_assert_eq!(bound("openai", &json!({ "seed": seed })).is_ok(), is_exact);
        let is_narrow = i32::try_from(seed).is_ok();
        prop_assert_eq!(bound("gemini", &json!({ "seed": seed })).is_ok(), is_narrow);
    }
}

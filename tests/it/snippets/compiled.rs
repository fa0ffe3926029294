//! The Rust examples of the documents, written by `snippets.rs`: change the documents instead.
#![allow(unused_variables, clippy::all, clippy::pedantic, reason = "examples are for readers")]

pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Every example. They are compiled and not run.
pub const EXAMPLES: &[fn() -> Outcome] = &[
    readme_md_1,
    adapters_readme_md_1,
    adapters_readme_md_2,
    adapters_readme_md_3,
    adapters_readme_md_4,
    adapters_readme_md_5,
    adapters_readme_md_6,
    adapters_readme_md_7,
    adapters_readme_md_8,
    adapters_readme_md_9,
    adapters_readme_md_10,
    adapters_readme_md_11,
    adapters_readme_md_12,
    adapters_readme_md_13,
    templates_adapter_readme_md_1,
    tests_golden_adapter_docs_md_1,
    tests_golden_adapter_docs_md_2,
];

fn readme_md_1() -> Outcome {
use nexus_router::{Registry, load_adapter};
use serde_json::json;

let adapter = load_adapter(
    "nexus_router_adapter_http:create_adapter",
    Some("my-http"),
    &json!({ "base_url": "https://example.com" }),
)?;
let mut registry = Registry::new("my-http");
registry.register(adapter)?;
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;

let store = Store::open("runs.db".as_ref())?;
let router = Router::new(store, registry, Options::default())?;
let outcome = router.run_blocking(Request::parse(br#"{"goal": "look around"}"#)?)?;
Ok(())
}

fn adapters_readme_md_1() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","max_tokens":0,"model":"<model>"}"#)?;
let adapter = load_adapter("nexus_router_adapter_anthropic:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_2() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str("{}")?;
let adapter = load_adapter("nexus_router_adapter_echo:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_3() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>"}"#)?;
let adapter = load_adapter("nexus_router_adapter_gemini:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_4() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>","store":false}"#)?;
let adapter = load_adapter("nexus_router_adapter_gemini_interactions:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_5() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"base_url":"<base_url>"}"#)?;
let adapter = load_adapter("nexus_router_adapter_http:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_6() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>"}"#)?;
let adapter = load_adapter("nexus_router_adapter_llama_cpp:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_7() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str("{}")?;
let adapter = load_adapter("nexus_router_adapter_mcp:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_8() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>","stream":false}"#)?;
let adapter = load_adapter("nexus_router_adapter_ollama:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_9() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>"}"#)?;
let adapter = load_adapter("nexus_router_adapter_openai:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_10() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"api_version":"<api_version>","model":"<model>","store":false,"strict":false}"#)?;
let adapter = load_adapter("nexus_router_adapter_openai_responses:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_11() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str("{}")?;
let adapter = load_adapter("nexus_router_adapter_scout:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_12() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str("{}")?;
let adapter = load_adapter("nexus_router_adapter_stdout:create_adapter", None, &config)?;
Ok(())
}

fn adapters_readme_md_13() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r#"{"base_cmd":[]}"#)?;
let adapter = load_adapter("nexus_router_adapter_subprocess:create_adapter", None, &config)?;
Ok(())
}

fn templates_adapter_readme_md_1() -> Outcome {
use nexus_router::{Call, load_adapter};
use serde_json::json;

let config = json!({ "prefix": "> " });
let adapter = load_adapter("nexus_router_adapter_weather:create_adapter", Some("my-weather"), &config)?;
let args = serde_json::Map::from_iter([("text".to_owned(), json!("hello"))]);
let output = adapter.call(&Call::new("say", "once", &args))?;
assert_eq!(output["text"], "> hello");
Ok(())
}

fn tests_golden_adapter_docs_md_1() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str("{}")?;
let adapter = load_adapter("echo:create_adapter", None, &config)?;
Ok(())
}

fn tests_golden_adapter_docs_md_2() -> Outcome {
use nexus_router::load_adapter;

let config = serde_json::from_str(r##"{"base_url":"<base_url>","greeting":"say \"#hi\"#","retries":3}"##)?;
let adapter = load_adapter("http:create_adapter", None, &config)?;
Ok(())
}

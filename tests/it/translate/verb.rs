//! `nexus-router translate`: the payload byte by byte, or a refusal with its rule and its place.

use serde_json::{Value, json};

use super::{TARGETS, binding, document_of, golden};
use crate::support::{Run, World};

fn translate(world: &World, target: &str, file: &str, more: &[&str]) -> Run {
    let config = binding(target).to_string();
    world.run(&[&["translate", target, file, "--config", &config], more].concat())
}

#[test]
fn payload_is_written_byte_by_byte() {
    let world = World::new();
    for (target, _) in TARGETS {
        let (document, payload) = document_of(target);
        std::fs::write(world.path("canonical.json"), &document).unwrap();
        let run = translate(&world, target, "canonical.json", &[]);
        assert_eq!((run.code(), run.stdout()), (0, payload.clone()), "{}", run.stderr());
        let report = translate(&world, target, "canonical.json", &["--format", "json"]).json();
        assert_eq!(report["payload"], payload);
        assert_eq!(report["binding"], binding(target));
        assert_eq!(
            (&report["target"], &report["unmapped"]),
            (&json!(target), &json!(["/metadata"]))
        );
        let digest = report["sha256"].as_str().unwrap();
        let sums = std::fs::read_to_string(golden().join("payloads/SHA256SUMS")).unwrap();
        assert!(sums.contains(digest));
        assert!(run.stderr().contains(digest) && run.stderr().contains("goes to: POST /"));
    }
}

#[test]
fn refusal_names_the_rule_and_the_place() {
    let world = World::new();
    let (document, _) = document_of("openai");
    let refusal = |bytes: &[u8]| -> (String, Value) {
        std::fs::write(world.path("canonical.json"), bytes).unwrap();
        let run = translate(&world, "openai", "canonical.json", &["--format", "json"]);
        let report = run.json();
        assert_eq!(run.code(), 1, "{report}");
        let error = &report["error"];
        assert_eq!(error["kind"], "operational");
        assert!(error["details"]["rule"].is_string(), "{error}");
        (error["code"].as_str().unwrap().to_owned(), error["details"]["pointer"].clone())
    };
    let cases: [(Vec<u8>, &str, &str); 9] = [
        (
            document.replace("2.1.3", "2.1.4").into(),
            "VERSION_UNSUPPORTED",
            "/metadata/facet_version",
        ),
        (
            document.replace("get_current\"", "get.current\"").into(),
            "TOOL_NAME_CONSTRAINT",
            "/tools/0/function/name",
        ),
        (format!("{document}\n").into(), "NOT_CANONICAL", ""),
        (
            document.replace("\"system\"", "\"\\ud800\"").into(),
            "LONE_SURROGATE",
            "/messages/0/role",
        ),
        (document.replace("4096", "NaN").into(), "NOT_JSON", "/metadata/budget_units"),
        ([b"\xef\xbb\xbf", document.as_bytes()].concat(), "BYTE_ORDER_MARK", ""),
        (b"{\"a\":\"\xff\"}".to_vec(), "NOT_UTF8", ""),
        ("[".repeat(20_000).into(), "TOO_DEEP", "*"),
        (vec![b' '; 100_000_000], "TOO_LARGE", ""),
    ];
    for (bytes, code, pointer) in cases {
        let (found, place) = refusal(&bytes);
        assert_eq!(found, format!("X.nexus.{code}"));
        assert!(pointer == "*" || place == pointer, "{code}: {place}");
    }
    std::fs::write(world.path("canonical.json"), "{}\n").unwrap();
    let run = translate(&world, "openai", "canonical.json", &[]);
    assert_eq!((run.code(), run.stdout()), (1, String::new()));
    let told = run.stderr();
    for part in ["error[X.nexus.NOT_CANONICAL]", "rule: ", "hint: "] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn document_of_the_largest_size_is_rendered() {
    let world = World::new();
    let (document, payload) = document_of("llama.cpp");
    let room = 8 * 1024 * 1024 - document.len();
    // Quotation marks are escaped on every way there and back.
    let long = "\\\"".repeat(room / 2);
    let (place, with) = ("Weather in Minsk?", format!("Weather in Minsk?{long}"));
    std::fs::write(world.path("canonical.json"), document.replace(place, &with)).unwrap();
    for target in ["llama.cpp", "nexus_router_adapter_llama_cpp:create_adapter"] {
        let config = binding("llama.cpp").to_string();
        let run = world.run(&["translate", target, "canonical.json", "--config", &config]);
        assert_eq!(run.code(), 0, "{target}: {}", run.stderr());
        assert!(
            run.stdout() == payload.replace(place, &with),
            "the payload of {target} is another"
        );
    }
}

/// A place that cannot be a directory.
const UNUSABLE: &str = "/proc/version/cache";

#[test]
fn program_and_library_render_alike() {
    let world = World::new();
    for (target, module) in TARGETS {
        let (document, _) = document_of(target);
        let broken = document.replace("\"user\"", "\"tool\"");
        for text in [&document, &broken] {
            std::fs::write(world.path("canonical.json"), text).unwrap();
            let config = binding(target).to_string();
            let answer = |target: &str| {
                let words = ["translate", target, "canonical.json", "--config", &config];
                world.run(&[&words[..], &["--format", "json"]].concat()).stdout()
            };
            assert_eq!(answer(target), answer(&format!("{module}:create_adapter")), "{target}");
        }
    }
}

#[test]
fn no_writable_cache_is_needed() {
    let world = World::new();
    let (document, payload) = document_of("openai");
    std::fs::write(world.path("canonical.json"), document).unwrap();
    let config = binding("openai").to_string();
    let variables = [("NEXUS_ROUTER_CACHE_DIR", UNUSABLE)];
    for target in ["openai", "nexus_router_adapter_openai:create_adapter"] {
        let words = ["translate", target, "canonical.json", "--config", &config];
        let run = world.run_with(&words, |command| command.envs(variables));
        assert_eq!((run.code(), run.stdout()), (0, payload.clone()), "{target}: {}", run.stderr());
    }
    // For the own targets nothing else is needed either.
    let nowhere = [("NEXUS_ROUTER_CACHE_DIR", UNUSABLE), ("TMPDIR", "/proc/version")];
    let words = ["translate", "openai", "canonical.json", "--config", &config];
    let run = world.run_with(&words, |command| command.envs(nowhere));
    assert_eq!((run.code(), run.stdout()), (0, payload), "{}", run.stderr());
    let words = ["translate", "nexus_router_adapter_openai:create_adapter", "canonical.json"];
    let run = world
        .run_with(&[&words[..], &["--config", &config]].concat(), |command| command.envs(nowhere));
    assert_eq!(run.code(), 2);
    assert!(run.stderr().contains("CACHE_UNUSABLE"), "{}", run.stderr());
    assert!(!world.path("cache").exists(), "nothing was cached");
}

#[test]
fn size_of_too_large_documents_is_told() {
    let world = World::new();
    let message = |target: &str| {
        let config = binding("openai").to_string();
        let words = ["translate", target, "canonical.json", "--config", &config];
        let run = world.run(&[&words[..], &["--format", "json"]].concat());
        assert_eq!(run.code(), 1, "{}", run.stderr());
        assert_eq!(run.json()["error"]["code"], "X.nexus.TOO_LARGE");
        run.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    for size in [8 * 1024 * 1024 + 1, 16 * 1024 * 1024, 100_000_000] {
        std::fs::write(world.path("canonical.json"), vec![b'a'; size]).unwrap();
        let told = format!("the document: it has {size} bytes; the limit is 8388608");
        for target in ["openai", "nexus_router_adapter_openai:create_adapter"] {
            assert_eq!(message(target), told);
        }
    }
    // What comes through a pipe is not read to its end.
    let config = binding("openai").to_string();
    let large = std::fs::File::open(world.path("canonical.json")).unwrap();
    let words = ["translate", "openai", "-", "--config", &config];
    let run = world.run_with(&words, |command| command.stdin(large));
    assert_eq!(run.code(), 1);
    let told = "it has more than 8388608 bytes; the limit is 8388608";
    assert!(run.stderr().contains(told), "{}", run.stderr());
}

#[test]
fn binding_that_is_none_is_told_with_its_setting() {
    let world = World::new();
    let (document, _) = document_of("anthropic");
    std::fs::write(world.path("canonical.json"), document).unwrap();
    for (name, value, wanted) in [
        ("temperature", json!(0.5), "/temperature: version 2026-10-21 of the API refuses it"),
        ("effort", json!("huge"), "/effort: it must be low or medium or high or xhigh or max"),
        (
            "thinking",
            json!("enabled"),
            "/thinking: thinking = enabled needs thinking_budget_tokens",
        ),
        ("nothing", json!(1), "/nothing: this target has no such setting"),
        ("api_version", json!("v0"), "X.nexus.API_VERSION_UNSUPPORTED"),
    ] {
        let mut config = binding("anthropic");
        config[name] = value;
        let words = ["translate", "anthropic", "canonical.json", "--config", &config.to_string()];
        let run = world.run(&words);
        assert_eq!((run.code(), run.stdout()), (2, String::new()));
        let told = run.stderr();
        assert!(told.contains(wanted) && told.contains("not a binding of anthropic"), "{told}");
        // So does the library, when the adapter is configured.
        let adapter = "nexus_router_adapter_anthropic:create_adapter";
        let run = world.run(&["adapter", "validate", adapter, "--config", &config.to_string()]);
        assert_eq!(run.code(), 1);
    }
}

#[test]
fn what_cannot_be_answered_is_not_a_refusal() {
    let world = World::new();
    let (document, _) = document_of("openai");
    std::fs::write(world.path("canonical.json"), document).unwrap();
    let nobody = world.run(&["translate", "nobody", "canonical.json"]);
    assert_eq!(nobody.code(), 2);
    let told = nobody.stderr();
    assert!(told.contains("libnexus_router_adapter_nobody.so"), "{told}");
    assert_eq!(world.run(&["translate", "openai", "canonical.json"]).code(), 2);
    assert_eq!(translate(&world, "openai", "absent.json", &[]).code(), 2);
    let full = world.run(&[
        "translate",
        "nexus_router_adapter_openai:create_adapter",
        "canonical.json",
        "--config",
        &binding("openai").to_string(),
    ]);
    assert_eq!(full.code(), 0);
}

#[test]
fn codes_of_refusals_are_explained() {
    let world = World::new();
    let run = world.run(&["explain", "X.nexus.SYSTEM_BOUNDARY_LOST"]);
    assert_eq!(run.code(), 0);
    assert!(run.stdout().contains("one system message per item"), "{}", run.stdout());
    assert_eq!(world.run(&["explain", "PASSIVE_PURE"]).code(), 0);
}

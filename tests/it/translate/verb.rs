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
fn document_of_the_largest_size_is_rendered_confined() {
    let world = World::new();
    let (document, payload) = document_of("llama.cpp");
    let room = 8 * 1024 * 1024 - document.len();
    // Quotation marks are escaped on every way there and back.
    let long = "\\\"".repeat(room / 2);
    let (place, with) = ("Weather in Minsk?", format!("Weather in Minsk?{long}"));
    std::fs::write(world.path("canonical.json"), document.replace(place, &with)).unwrap();
    let run = translate(&world, "llama.cpp", "canonical.json", &[]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stdout() == payload.replace(place, &with), "the payload is another");
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

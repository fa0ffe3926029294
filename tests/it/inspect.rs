//! What `inspect` tells of an adapter, and that it never opens the library in its own process.

use nexus_router::check::{self, CHECKS, Strictness};
use nexus_router::digest::Digest;
use nexus_router::loader::LoadRequest;
use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{World, built_library};

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";
const MIMIC: &str = "./libmimic.so:create_adapter";

/// The report on the echo adapter. What depends on the build or the kernel is masked.
const REPORT: &str = "\
✓ Adapter validation PASSED

## Adapter Info
  ID:           echo
  Kind:         echo
  Capabilities: apply, dry_run

## Validation
  ✓ LOAD_OK
  ✓ PROTOCOL_FIELDS
  ✓ ADAPTER_ID_FORMAT
  ✓ ADAPTER_KIND_FORMAT
  ✓ CAPABILITIES_TYPE
  ✓ CAPABILITIES_VALID
  ✓ MANIFEST_PRESENT
  ✓ MANIFEST_SCHEMA
  ✓ MANIFEST_KIND_MATCH
  ✓ MANIFEST_CAPS_MATCH
  ✓ ABI_COMPATIBLE
  ✓ ROUTER_VERSION_SUPPORTED
  ✓ MANIFEST_FIELDS_KNOWN
  ✓ MANIFEST_DEFAULTS_TYPED
  ✓ ERROR_CODES_FORMAT
  ✓ CONFIG_ACCEPTED
  ✓ NO_SIDE_EFFECTS
  ✓ INSTANCES_INDEPENDENT
  (confinement)
  ○ PASSIVE_PURE

## Manifest
  Router versions: >=1.2,<2
  Error codes:     CANCELLED, TIMEOUT

## Configuration Parameters
  delay_ms (number, optional, default=0)
    (description)
  responses (array, optional, default=[])
    (description)

## Library
  File:        (file)
  SHA-256:     (digest)
  Size:        (size) bytes
  Package:     nexus-router-adapter-echo (version)
  ABI:         1 (SDK (version))
  Factories:   create_adapter
  Tried under: (confinement)
";

#[test]
fn report_tells_all_that_is_known() {
    let world = World::new();
    let run = world.run(&["adapter", "inspect", ECHO]);
    assert_eq!(run.code(), 0, "{}", run.stdout());
    let library =
        world.run(&["adapter", "inspect", ECHO, "--format", "json"]).json()["library"].take();
    let mut shown = run.stdout();
    let version = library["sdk"].as_str().unwrap();
    for (text, mask) in [
        (library["path"].as_str().unwrap(), "(file)"),
        (library["sha256"].as_str().unwrap(), "(digest)"),
        (&library["size"].to_string(), "(size)"),
        (version, "(version)"),
        (library["confinement"].as_str().unwrap(), "(confinement)"),
    ] {
        assert!(shown.contains(text), "{text} is not shown");
        shown = shown.replace(text, mask);
    }
    let masked = |line: &str| {
        if line.ends_with("TRIED_CONFINED") {
            "  (confinement)".to_owned()
        } else if line.starts_with("    ") {
            "    (description)".to_owned()
        } else {
            line.to_owned()
        }
    };
    // A kernel without a part of the confinement brings a warning.
    let blocks = shown.split("\n\n").filter(|block| !block.starts_with("## Warnings"));
    let shown = blocks.collect::<Vec<_>>().join("\n\n");
    let shown: String = shown.lines().map(|line| masked(line) + "\n").collect();
    assert_eq!(shown, REPORT);
}

#[test]
fn host_gets_the_same_report_from_the_library() {
    let world = World::new();
    let (config, loader) = (json!({}), world.loader());
    let request = LoadRequest { factory_ref: ECHO, adapter_id: None, config: &config, pin: None };
    let inspection = check::inspect(&loader, &request, Strictness::Strict).unwrap();
    assert!(inspection.ok());
    assert_eq!((inspection.adapter_id(), inspection.adapter_kind()), (Some("echo"), Some("echo")));
    assert_eq!(inspection.capabilities(), ["apply", "dry_run"]);
    assert_eq!(inspection.supported_router_versions(), Some(">=1.2,<2"));
    assert_eq!(inspection.render(), world.run(&["adapter", "inspect", ECHO]).stdout());
    let validation = check::validate(&loader, &request, Strictness::Strict).unwrap();
    assert_eq!(validation.to_json(), inspection.to_json()["validation"]);
}

#[test]
fn json_has_the_members_of_the_peer_and_the_library() {
    let run =
        World::new().run(&["adapter", "inspect", ECHO, "--adapter-id", "mine", "--format", "json"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let report = run.json();
    let members: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = [
        "ok",
        "adapter_id",
        "adapter_kind",
        "capabilities",
        "supported_router_versions",
        "config_params",
        "error_codes",
        "manifest",
        "validation",
        "library",
    ];
    assert_eq!(members, expected);
    assert_eq!(report["adapter_id"], "mine");
    assert_eq!(report["config_params"][0]["name"], "delay_ms");
    assert_eq!(report["validation"]["checks"].as_array().unwrap().len(), CHECKS.len());
    let built = std::fs::read(built_library("nexus_router_adapter_echo")).unwrap();
    let library = &report["library"];
    assert_eq!(library["sha256"], Digest::of(&built).to_string());
    assert_eq!(library["size"], built.len());
    assert_eq!((&library["abi"], &library["factories"]), (&json!(1), &json!(["create_adapter"])));
}

#[test]
fn parameters_are_shown_without_a_configuration() {
    let (world, http) = (World::new(), "nexus_router_adapter_http:create_adapter");
    let run = world.run(&["adapter", "inspect", http]);
    assert_eq!(run.code(), 1, "{}", run.stdout());
    let shown = run.stdout();
    let (_, parameters) = shown.split_once("## Configuration Parameters\n").unwrap();
    assert!(parameters.contains("  base_url (string, required)\n"), "{shown}");
    assert!(shown.contains("## Library\n") && !shown.contains("Tried under:"), "{shown}");
    assert!(shown.contains("## Manifest\n  Router versions: "), "{shown}");
    let report = world.run(&["adapter", "inspect", http, "--format", "json"]).json();
    let configured = &[
        "adapter",
        "inspect",
        http,
        "--format",
        "json",
        "--config",
        r#"{"base_url":"http://localhost"}"#,
    ];
    let configured = world.run(configured).json();
    assert_eq!(configured["ok"], true, "{configured}");
    for member in ["config_params", "error_codes", "manifest", "supported_router_versions"] {
        assert_eq!(report[member], configured[member], "{member}");
    }
    assert_eq!(report["library"]["sha256"], configured["library"]["sha256"]);
    assert_eq!(
        (&report["adapter_id"], &report["library"]["confinement"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(report["validation"]["load_error"]["reason"], "CONFIG_INVALID");
}

#[test]
fn parameters_are_shown_of_a_library_that_crashes() {
    let world = World::new();
    let schema = json!({"url": {"type": "string", "required": true, "description": "Where to"}});
    let deadly = Mimic::of_kind("deadly").manifest("config_schema", schema);
    deadly.script("abort_when_opened", true).write(&world.path("libmimic.so"));
    let run = world.run(&["adapter", "inspect", MIMIC]);
    assert_eq!(run.code(), 1);
    assert!(run.stdout().contains("  url (string, required)\n    Where to\n"), "{}", run.stdout());
}

#[test]
fn secret_defaults_are_printed_nowhere() {
    let world = World::new();
    let schema = json!({
        "api_key": {"type": "string", "required": false, "default": "sk-very-secret"},
        "url": {"type": "string", "required": true, "default": "https://ada:sk-very-secret@example.com"},
    });
    let mimic = || Mimic::of_kind("leaky").manifest("config_schema", schema.clone());
    for mimic in [mimic(), mimic().script("factory_error", "cannot use sk-very-secret")] {
        mimic.write(&world.path("libmimic.so"));
        for format in ["human", "json", "github"] {
            for verb in ["inspect", "validate"] {
                let run = world.run(&["adapter", verb, MIMIC, "--format", format]);
                assert_eq!(run.code(), 1);
                assert!(!run.stdout().contains("very-secret"), "{}", run.stdout());
            }
        }
    }
    let docs = world.run(&["adapter", "docs", "libmimic.so"]);
    assert_eq!(docs.code(), 0, "{}", docs.stderr());
    assert!(docs.stdout().contains("| `api_key` |") && docs.stdout().contains("[REDACTED]"));
    assert!(!docs.stdout().contains("very-secret"), "{}", docs.stdout());
    let inspected = world.run(&["adapter", "inspect", MIMIC]).stdout();
    assert!(inspected.contains("api_key (string, optional, default='[REDACTED]')"), "{inspected}");
}

#[test]
fn every_exported_factory_is_named() {
    let world = World::new();
    Mimic::of_kind("several").write(&world.path("libmimic.so"));
    for factory in ["create_adapter", "none", "raises"] {
        let listed =
            world.run(&["adapter", "list", "--adapter-path", ".", "--format", "json"]).json();
        let named = format!("mimic:{factory}");
        assert!(listed.as_array().unwrap().iter().any(|entry| entry["factory_ref"] == named));
    }
    let report = world.run(&["adapter", "inspect", MIMIC, "--format", "json"]).json();
    let mut factories: Vec<&str> = report["library"]["factories"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    factories.sort_unstable();
    assert_eq!(factories, ["create_adapter", "none", "raises"]);
    // Not a factory, and no name at all: both say what there is instead.
    for function in ["NOT_CALLABLE", "absent"] {
        let run = world.run(&["adapter", "validate", &format!("./libmimic.so:{function}")]);
        assert!(run.stdout().contains("hint: the library exports "), "{}", run.stdout());
    }
}

#[test]
fn exit_codes_are_yes_no_and_no_answer() {
    let world = World::new();
    assert_eq!(world.run(&["adapter", "inspect", ECHO]).code(), 0);
    for not_ok in [
        &["adapter", "inspect", "unknown_module:create_adapter"][..],
        &["adapter", "inspect", "no_colon"],
        &["adapter", "inspect", ECHO, "--config", r#"{"unknown": 1}"#],
        &["adapter", "inspect", ECHO, "--pin", &"0".repeat(64)],
    ] {
        let run = world.run(not_ok);
        assert_eq!(run.code(), 1, "{not_ok:?}: {}", run.stderr());
        assert!(run.stdout().starts_with("✗ Adapter validation FAILED\n"), "{}", run.stdout());
    }
    for no_answer in [
        &["adapter", "inspect", ECHO, "--config", "nonsense"][..],
        &["adapter", "inspect", ECHO, "--format", "xml"],
        &["adapter", "inspect"],
    ] {
        let run = world.run(no_answer);
        assert_eq!((run.code(), run.stdout().as_str()), (2, ""), "{no_answer:?}");
    }
}

#[test]
fn library_that_aborts_when_opened_is_reported() {
    let world = World::new();
    Mimic::of_kind("deadly").script("abort_when_opened", true).write(&world.path("libmimic.so"));
    for verb in ["inspect", "validate"] {
        let run = world.run(&["adapter", verb, MIMIC, "--format", "json"]);
        assert_eq!(run.code(), 1, "{}", run.stderr());
        let report = run.json();
        let validation = if verb == "inspect" { &report["validation"] } else { &report };
        assert_eq!(validation["load_error"]["reason"], "LIBRARY_CRASHED", "{report}");
        assert_eq!(validation["checks"].as_array().unwrap().len(), 1);
        let message = validation["error"].as_str().unwrap();
        assert!(
            message.contains("crashed with SIGABRT (signal 6) while it was opened"),
            "{message}"
        );
    }
    // The next library is none the worse for it.
    assert_eq!(world.run(&["adapter", "inspect", ECHO]).code(), 0);
}

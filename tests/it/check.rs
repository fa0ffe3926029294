//! What `validate` finds: every check can fail, and every format tells it harmlessly.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use nexus_router::check::CHECKS;
use rustix::pty::OpenptFlags;
use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{PROGRAM, Run, World, built_directory};

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";
const MIMIC: &str = "./libmimic.so:create_adapter";

/// Validates a mimic.
fn validate(mimic: &Mimic, options: &[&str]) -> Run {
    let world = World::new();
    mimic.write(&world.path("libmimic.so"));
    world.run(&[&["adapter", "validate", MIMIC], options].concat())
}

fn status<'a>(report: &'a Value, id: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id);
    check.map_or("absent", |check| check["status"].as_str().unwrap())
}

#[test]
fn good_adapter_passes_every_check() {
    let run = validate(&Mimic::of_kind("good"), &["--format", "json"]);
    assert_eq!(run.code(), 0, "{}", run.stdout());
    let report = run.json();
    let ids: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    let table: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(ids, table);
    assert_eq!(report["errors"], json!([]));
    // Nothing is stated of versions, nor that it is passive; the kernel may lack a part of the confinement.
    let unstated = ["ROUTER_VERSION_SUPPORTED", "TRIED_CONFINED", "PASSIVE_PURE"];
    for id in table.iter().filter(|id| !unstated.contains(id)) {
        assert_eq!(status(&report, id), "pass", "{id}");
    }
}

#[test]
fn every_check_can_fail() {
    let good = || Mimic::of_kind("good");
    let described = |member: &str, value: Value| {
        let mut description =
            json!({"adapter_id": "good", "adapter_kind": "good", "capabilities": ["apply"]});
        match value {
            Value::Null => drop(description.as_object_mut().unwrap().remove(member)),
            value => description[member] = value,
        }
        good().description(&description.to_string())
    };
    let wrong_default = json!({"k": {"type": "number", "required": false, "default": "one"}});
    let required = json!({"k": {"type": "string", "required": true}});
    let cases = [
        ("LOAD_OK", good().script("factory_error", "no")),
        ("PROTOCOL_FIELDS", described("adapter_kind", Value::Null)),
        ("PROTOCOL_FIELDS", good().description("{")),
        ("PROTOCOL_FIELDS", good().description(r#"{"error":{"code":"ADAPTER_PANICKED"}}"#)),
        ("ADAPTER_ID_FORMAT", described("adapter_id", json!(7))),
        ("ADAPTER_ID_FORMAT", described("adapter_id", json!("a\u{7}"))),
        ("ADAPTER_KIND_FORMAT", described("adapter_kind", json!(""))),
        ("CAPABILITIES_TYPE", described("capabilities", json!("apply"))),
        ("CAPABILITIES_TYPE", described("capabilities", json!(["apply", 1]))),
        ("CAPABILITIES_TYPE", described("capabilities", json!(["apply", "apply"]))),
        ("CAPABILITIES_TYPE", good().manifest("capabilities", json!(["apply", "apply"]))),
        ("CAPABILITIES_VALID", described("capabilities", json!(["fly"]))),
        ("MANIFEST_SCHEMA", good().manifest("schema_version", 2)),
        ("MANIFEST_KIND_MATCH", good().manifest("kind", "other")),
        ("MANIFEST_CAPS_MATCH", good().manifest("capabilities", json!([]))),
        ("ABI_COMPATIBLE", good().record("abi", 2)),
        ("ROUTER_VERSION_SUPPORTED", good().manifest("supported_router_versions", "<1")),
        ("ROUTER_VERSION_SUPPORTED", good().manifest("supported_router_versions", "new")),
        ("MANIFEST_FIELDS_KNOWN", good().manifest("vendor", "x")),
        ("MANIFEST_FIELDS_KNOWN", good().record("manifest", json!([1]))),
        ("MANIFEST_DEFAULTS_TYPED", good().manifest("config_schema", wrong_default)),
        ("ERROR_CODES_FORMAT", good().manifest("error_codes", json!(["time out"]))),
        ("CONFIG_ACCEPTED", good().manifest("config_schema", required)),
        ("NO_SIDE_EFFECTS", good().script("leave_thread", true)),
        ("INSTANCES_INDEPENDENT", described("adapter_id", json!("good-{n}"))),
        ("PASSIVE_PURE", described("passive", json!({"tool": "t"}))),
    ];
    let rest: Vec<&str> = CHECKS
        .iter()
        .map(|check| check.id)
        .filter(|id| !cases.iter().any(|(known, _)| known == id))
        .collect();
    // These two only warn.
    assert_eq!(rest, ["MANIFEST_PRESENT", "TRIED_CONFINED"]);
    for (id, mimic) in cases {
        let run = validate(&mimic, &["--format", "json"]);
        assert_eq!(run.code(), 1, "{id}: {}", run.stdout());
        assert_eq!(status(&run.json(), id), "fail", "{id}: {}", run.stdout());
        assert_eq!(run.json()["ok"], false);
    }
}

#[test]
fn repeated_capabilities_are_named() {
    let repeated = json!(["apply", "dry_run", "apply", "dry_run"]);
    let description =
        json!({"adapter_id": "a", "adapter_kind": "a", "capabilities": repeated}).to_string();
    for (mimic, place) in [
        (Mimic::of_kind("a").description(&description), "capabilities contains"),
        (
            Mimic::of_kind("a").manifest("capabilities", repeated),
            "the manifest's capabilities contains",
        ),
    ] {
        let run = validate(&mimic, &[]);
        let line = format!("{place} duplicates: ['apply', 'dry_run']");
        assert!(run.stdout().contains(&line), "{}", run.stdout());
        assert!(run.stdout().contains("hint: return a list of Capability values, each once"));
    }
}

#[test]
fn wrong_default_fails_its_check_whatever_the_factory_makes_of_it() {
    let schema = json!({"k": {"type": "number", "required": false, "default": "one"}});
    let mimic = Mimic::of_kind("a").manifest("config_schema", schema);
    let problem = "config_schema['k'].default must be number, got string";
    let hint = "hint: correct the default in the manifest, or report it to the adapter's author \
                [CONFIG_INVALID]";
    let refusing = mimic.script("factory_error", "missing field `k`");
    let run = validate(&refusing, &["--format", "json"]);
    let report = run.json();
    assert_eq!(report["load_error"]["reason"], "CONFIG_INVALID", "{report}");
    assert_eq!(report["load_error"]["details"]["parameters"][0]["name"], "k");
    let failed: Vec<&str> =
        report["errors"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(failed, ["LOAD_OK", "MANIFEST_DEFAULTS_TYPED"]);
    let shown = validate(&refusing, &[]).stdout();
    assert!(shown.contains(problem) && shown.contains(hint), "{shown}");
    assert!(shown.contains("hint: correct the default, or the type\n"), "{shown}");
}

#[test]
fn causes_of_a_failed_factory_are_shown() {
    let world = World::new();
    let config = json!({ "refuses": { "error_code": "CONFIG_REJECTED",
        "causes": ["cannot log in", "connection refused"] } });
    let arguments = ["adapter", "validate", "probe_adapters:fake", "--config", &config.to_string()];
    let shown = world.run(&arguments).stdout();
    let cause = "it did not work: cannot log in: connection refused";
    assert!(shown.contains(&format!("\n  cause: {cause}\n  hint: ")), "{shown}");
    let shown = world.run(&[&arguments[..], &["--format", "github"]].concat()).stdout();
    assert!(shown.contains(&format!("%0Acause: {cause}%0Ahint: ")), "{shown}");
    // What the message says already is not repeated.
    let shown = validate(&Mimic::of_kind("a").script("factory_error", "no"), &[]).stdout();
    assert!(shown.contains("raised: no") && !shown.contains("cause: "), "{shown}");
}

#[test]
fn lenient_validation_warns_of_unknown_capabilities() {
    let mimic = Mimic::new(
        &json!({"adapter_id": "a", "adapter_kind": "a", "capabilities": ["fly"]}),
        &json!({"schema_version": 1, "kind": "a", "capabilities": ["fly"]}),
    );
    assert_eq!(validate(&mimic, &[]).code(), 1);
    let run = validate(&mimic, &["--lenient", "--format", "json"]);
    assert_eq!((run.code(), status(&run.json(), "CAPABILITIES_VALID")), (0, "warn"));
}

/// A manifest and an instance that try to steer whatever shows them.
fn hostile() -> Mimic {
    let text = "\u{1b}[2J\u{9b}31m\r\n::error::100%\u{202e}\n\n## Validation\n";
    Mimic::new(
        &json!({"adapter_id": text, "adapter_kind": "k", "capabilities": ["apply", text]}),
        &json!({
            "schema_version": 1, "kind": text, "capabilities": ["apply", text], text: text,
            "supported_router_versions": text, "error_codes": [text],
            "config_schema": {text: {
                "type": "string", "required": false, "default": text, "description": text,
            }},
        }),
    )
}

#[test]
fn hostile_text_is_shown_and_steers_nothing() {
    let printable = |text: &str| {
        let odd = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(odd, None, "{text}");
    };
    let plain = validate(&Mimic::of_kind("plain"), &[]);
    let run = validate(&hostile(), &[]);
    printable(&run.stdout());
    assert!(
        run.stdout().contains(r"\x1b[2J\x9b31m\r\n::error::100%\u202e\n\n"),
        "{}",
        run.stdout()
    );
    let lines = |run: &Run| run.stdout().lines().filter(|line| !line.contains("hint:")).count();
    assert_eq!(lines(&run), lines(&plain), "{}", run.stdout());

    let run = validate(&hostile(), &["--format", "github"]);
    printable(&run.stdout());
    assert!(run.stdout().contains("::error::100%25"), "{}", run.stdout());
    for line in run.stdout().lines() {
        assert!(
            ["PASS: ", "SKIP: ", "::warning title=", "::error title="]
                .iter()
                .any(|s| line.starts_with(s)),
            "{line}"
        );
    }
    let world = World::new();
    hostile().write(&world.path("libmimic.so"));
    let run = world.run(&["adapter", "inspect", MIMIC]);
    assert_eq!(run.code(), 1);
    printable(&run.stdout());
    assert_eq!(run.stdout().matches("\n## Validation\n").count(), 1, "{}", run.stdout());
}

#[test]
fn github_annotations_escape_what_ends_a_command() {
    let mimic = Mimic::of_kind("a").script("factory_error", "50% done\n::error::forged\r");
    let run = validate(&mimic, &["--format", "github"]);
    assert_eq!(run.code(), 1);
    assert_eq!(
        run.stdout(),
        "::error title=LOAD_OK::Failed to load adapter: Factory 'create_adapter' raised: \
         50%25 done\\n::error::forged\\r%0Ahint: the cause is the adapter's own message; check the \
         configuration [FACTORY_FAILED]\n"
    );
}

#[test]
fn huge_texts_are_told_without_a_crash() {
    let huge = "x".repeat(200_000);
    for mimic in [
        Mimic::of_kind("a").manifest(&huge, 1),
        Mimic::of_kind("a").manifest("error_codes", json!([huge])),
        Mimic::of_kind("a").script("factory_error", huge.as_str()),
        Mimic::of_kind("a").description(&json!({ "adapter_id": huge }).to_string()),
        Mimic::of_kind(&huge[..100_000]),
    ] {
        for format in ["human", "json", "github"] {
            let run = validate(&mimic, &["--format", format]);
            assert_eq!((run.code(), run.stderr()), (1, String::new()));
        }
    }
}

#[test]
fn secrets_of_the_config_are_in_no_report() {
    let mimic = Mimic::of_kind("a").script("factory_error", "refused sk-very-secret");
    for format in ["human", "json", "github"] {
        let config = r#"{"api_key": "sk-very-secret"}"#;
        let run = validate(&mimic, &["--format", format, "--config", config]);
        assert_eq!(run.code(), 1);
        assert!(!run.stdout().contains("very-secret"), "{}", run.stdout());
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    assert!(!World::new().run(&["adapter", "validate", ECHO]).stdout().contains('\u{1b}'));
    assert!(on_a_terminal(|command| command).contains("\u{1b}[32m✓\u{1b}[0m LOAD_OK"));
    assert!(!on_a_terminal(|command| command.env("NO_COLOR", "1")).contains('\u{1b}'));
    assert!(on_a_terminal(|command| command.env("NO_COLOR", "")).contains('\u{1b}'));
}

/// Validates an adapter with a terminal for standard output, and returns what the terminal got.
fn on_a_terminal(prepare: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let world = World::new();
    let controller = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
    let terminal =
        File::options().read(true).write(true).custom_flags(no_control).open(name).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["adapter", "validate", ECHO])
        .env_clear()
        .env("NEXUS_ROUTER_CACHE_DIR", world.path("cache"))
        .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
        .stdout(Stdio::from(OwnedFd::from(terminal)));
    let mut child = prepare(&mut command).spawn().unwrap();
    // The terminal ends for the reader when nobody else has it open.
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal is an error for its reader.
    drop(File::from(controller).read_to_end(&mut shown));
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

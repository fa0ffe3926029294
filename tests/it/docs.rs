//! What `list` and `docs` tell of the adapters on the path, without running any of them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{PROGRAM, Run, built_library, workspace};

/// A directory with the program, so that the adapters beside it are all that it finds.
struct Shelf {
    directory: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        // Links to the built files need their file system.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::hard_link(PROGRAM, directory.path().join("nexus-router")).unwrap();
        Self { directory }
    }

    /// Returns a shelf with the adapters of this repository.
    fn of_the_repository() -> Self {
        let shelf = Self::new();
        for entry in std::fs::read_dir(workspace().join("adapters")).unwrap().flatten() {
            if entry.path().is_dir() {
                let kind = entry.file_name().into_string().unwrap();
                let built = built_library(&format!("nexus_router_adapter_{kind}"));
                let place = shelf.path(built.file_name().unwrap().to_str().unwrap());
                std::fs::hard_link(&built, place)
                    .unwrap_or_else(|error| panic!("{}: {error}", built.display()));
            }
        }
        shelf
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(self.path("nexus-router"));
        command.args(arguments).current_dir(self.directory.path()).env_clear();
        Run(command.env("NEXUS_ROUTER_CACHE_DIR", self.path("cache")).output().unwrap())
    }

    /// Puts one broken library of several kinds, and libraries that are no adapters, on the shelf.
    fn add_broken(&self) {
        let echo = std::fs::read(built_library("nexus_router_adapter_echo")).unwrap();
        std::fs::write(self.path("libcut_off.so"), &echo[..echo.len() / 2]).unwrap();
        std::fs::write(self.path("libtext.so"), "no library").unwrap();
        std::fs::create_dir(self.path("libdirectory.so")).unwrap();
        std::os::unix::fs::symlink("nowhere", self.path("libdangling.so")).unwrap();
        // Without its section it is a library like any other.
        let (section, other) = (b".nexus_adapter", b".other_section");
        let mut foreign = echo;
        while let Some(at) = foreign.windows(section.len()).position(|bytes| bytes == section) {
            foreign[at..at + section.len()].copy_from_slice(other);
        }
        std::fs::write(self.path("libforeign.so"), foreign).unwrap();
        std::fs::write(self.path("adapter.txt"), "no library by its name").unwrap();
    }
}

#[test]
fn list_shows_what_can_be_used_and_why_the_rest_cannot() {
    let shelf = Shelf::new();
    shelf.add_broken();
    Mimic::of_kind("kind").write(&shelf.path("libmimic.so"));
    let run = shelf.run(&["adapter", "list"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let version = env!("CARGO_PKG_VERSION");
    let mut lines: Vec<String> = run.stdout().lines().map(str::to_owned).collect();
    // A library has its factories in any order.
    lines[3..].sort();
    let rows: Vec<Vec<&str>> = lines
        .iter()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let expected = [
        ["FACTORY", "KIND", "CAPABILITIES", "VERSION", "STATE"],
        ["builtin:envoy", "envoy", "apply,external,timeout", version, "built in"],
        ["builtin:null", "null", "dry_run", version, "built in"],
        ["cut_off", "-", "-", "-", "unusable: LIBRARY_TRUNCATED"],
        ["dangling", "-", "-", "-", "unusable: LIBRARY_UNREADABLE"],
        ["directory", "-", "-", "-", "unusable: NOT_A_REGULAR_FILE"],
        ["mimic:create_adapter", "kind", "apply", "0.1.0", "found"],
        ["mimic:none", "-", "-", "0.0.0", "found"],
        ["mimic:raises", "-", "-", "0.0.0", "found"],
        ["text", "-", "-", "-", "unusable: NOT_A_LIBRARY"],
    ];
    assert_eq!(rows, expected);
    // Each column begins where its head does.
    let state = lines[0].find("STATE").unwrap();
    for (line, row) in lines.iter().zip(expected) {
        assert_eq!(&line[state..], row[4], "{line}");
    }
}

#[test]
fn list_tells_programs_the_same() {
    let shelf = Shelf::new();
    shelf.add_broken();
    Mimic::of_kind("kind").write(&shelf.path("libmimic.so"));
    let listed = shelf.run(&["adapter", "list", "--format", "json"]).json();
    let entry = |factory_ref: &str| -> &Value {
        let mut entries = listed.as_array().unwrap().iter();
        entries.find(|entry| entry["factory_ref"] == factory_ref).unwrap()
    };
    assert_eq!(entry("builtin:null")["state"], "built in");
    assert_eq!(entry("builtin:null")["path"], Value::Null);
    let envoy = entry("builtin:envoy");
    assert_eq!((&envoy["state"], &envoy["path"]), (&json!("built in"), &Value::Null));
    assert_eq!(envoy["capabilities"], json!(["apply", "external", "timeout"]));
    let mimic = entry("mimic:create_adapter");
    assert_eq!(mimic["path"], shelf.path("libmimic.so").to_str().unwrap());
    assert_eq!((&mimic["kind"], &mimic["capabilities"]), (&json!("kind"), &json!(["apply"])));
    assert_eq!((&mimic["package"], &mimic["version"]), (&json!("mimic"), &json!("0.1.0")));
    assert_eq!((&mimic["state"], &mimic["problem"]), (&json!("found"), &Value::Null));
    let problem = &entry("cut_off")["problem"];
    assert_eq!(problem["reason"], "LIBRARY_TRUNCATED");
    assert_eq!(problem["hint"], "build or copy the library again");
    assert!(problem["message"].as_str().unwrap().contains("libcut_off.so is cut off"), "{problem}");
    assert!(!listed.to_string().contains("foreign"), "{listed}");
}

#[test]
fn docs_are_the_same_every_time_and_name_no_place() {
    let shelf = Shelf::new();
    shelf.add_broken();
    Mimic::of_kind("kind").write(&shelf.path("libmimic.so"));
    let run = shelf.run(&["adapter", "docs"]);
    assert_eq!((run.code(), run.stderr()), (0, String::new()));
    let text = run.stdout();
    assert_eq!(shelf.run(&["adapter", "docs"]).stdout(), text);
    assert!(text.contains("\n## kind\n\n- Package: `mimic` 0.1.0\n"), "{text}");
    assert!(
        text.contains("\n- `cut_off`: The file ends before its own tables say it does.\n"),
        "{text}"
    );
    assert!(
        text.contains("\n- `mimic:none`: the library has no manifest for this factory\n"),
        "{text}"
    );
    assert!(!text.contains("foreign"), "{text}");
    let place = shelf.directory.path().file_name().unwrap().to_str().unwrap();
    assert!(!text.contains(place) && !text.contains(".so"), "{text}");

    // The same libraries in another place, made in another order.
    let other = Shelf::new();
    Mimic::of_kind("kind").write(&other.path("libmimic.so"));
    other.add_broken();
    assert_eq!(other.run(&["adapter", "docs"]).stdout(), text);
}

#[test]
fn docs_check_says_whether_a_file_is_current() {
    let shelf = Shelf::new();
    Mimic::of_kind("kind").write(&shelf.path("libmimic.so"));
    let check = || shelf.run(&["adapter", "docs", "--check", "ADAPTERS.md"]);
    let run = check();
    assert_eq!((run.code(), run.stdout().as_str()), (2, ""));
    assert!(run.stderr().contains("hint: write it with nexus-router adapter docs > ADAPTERS.md"));

    let text = shelf.run(&["adapter", "docs"]).stdout();
    std::fs::write(shelf.path("ADAPTERS.md"), &text).unwrap();
    let run = check();
    assert_eq!((run.code(), run.stdout().as_str()), (0, ""));

    for (stale, place) in [(text.replacen("kind", "other", 1), 12), (text.clone() + "\nmore\n", 0)]
    {
        std::fs::write(shelf.path("ADAPTERS.md"), &stale).unwrap();
        let run = check();
        assert_eq!(run.code(), 1);
        let place = if place == 0 { text.lines().count() + 1 } else { place };
        assert!(
            run.stderr().contains(&format!("differs from line {place} on")),
            "{}",
            run.stderr()
        );
    }
    std::fs::write(shelf.path("ADAPTERS.md"), [0xff, 0xfe]).unwrap();
    assert_eq!(check().code(), 2);
}

#[test]
fn docs_of_a_reference_are_those_of_its_adapters() {
    let shelf = Shelf::new();
    Mimic::of_kind("first").write(&shelf.path("libone.so"));
    Mimic::of_kind("second").write(&shelf.path("libtwo.so"));
    let docs = |reference: &str| {
        let run = shelf.run(&["adapter", "docs", reference]);
        assert_eq!(run.code(), 0, "{reference}: {}", run.stderr());
        run.stdout()
    };
    // A factory, all factories of a module, a kind, and the same by the path of the file.
    for (reference, factory_ref, factories) in [
        ("one:create_adapter", "one:create_adapter", 1),
        ("one", "one:create_adapter", 3),
        ("first", "one:create_adapter", 1),
        ("./libone.so:create_adapter", "./libone.so:create_adapter", 1),
        ("./libone.so", "./libone.so:create_adapter", 3),
    ] {
        let text = docs(reference);
        assert!(text.contains("\n## first\n") && !text.contains("second"), "{text}");
        assert!(text.contains(&format!("- Factory: `{factory_ref}`\n")), "{text}");
        assert!(
            text.contains(&format!("Run `nexus-router adapter docs {reference}` to")),
            "{text}"
        );
        let listed = 1 + text.lines().filter(|line| line.contains("has no manifest for")).count();
        assert_eq!(listed, factories, "{reference}: {text}");
    }
    std::fs::write(shelf.path("FIRST.md"), docs("first")).unwrap();
    assert_eq!(shelf.run(&["adapter", "docs", "first", "--check", "FIRST.md"]).code(), 0);
    let other = shelf.run(&["adapter", "docs", "second", "--check", "FIRST.md"]);
    assert_eq!(other.code(), 1);
    let hint = "hint: write it again with nexus-router adapter docs second > FIRST.md";
    assert!(other.stderr().contains(hint), "{}", other.stderr());
}

#[test]
fn docs_of_an_unknown_reference_suggest_a_near_one() {
    let shelf = Shelf::new();
    Mimic::of_kind("weather").write(&shelf.path("libnexus_router_adapter_weather.so"));
    for (reference, problem, hint) in [
        ("wether", "no adapter on the adapter path has", "hint: did you mean weather?\n"),
        (
            "nexus_router_adapter_wether:create_adapter",
            "no adapter",
            "hint: did you mean nexus_router_adapter_weather:create_adapter?\n",
        ),
        ("tax", "'tax'", "hint: nexus-router adapter list shows what there is"),
        ("builtin:null", "part of the router", "nexus-router adapter inspect builtin:null"),
        ("./libabsent.so", "libabsent.so", "hint: "),
        (
            "./libnexus_router_adapter_weather.so:create",
            "exports no factory 'create'",
            "the library exports ",
        ),
    ] {
        let run = shelf.run(&["adapter", "docs", reference]);
        assert_eq!((run.code(), run.stdout().as_str()), (2, ""), "{reference}");
        let shown = run.stderr();
        assert!(shown.contains(problem) && shown.contains(hint), "{reference}: {shown}");
    }
}

#[test]
fn docs_and_list_run_no_library() {
    let shelf = Shelf::new();
    Mimic::of_kind("deadly").script("abort_when_opened", true).write(&shelf.path("libmimic.so"));
    let run = shelf.run(&["adapter", "docs"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stdout().contains("\n## deadly\n"), "{}", run.stdout());
    assert!(shelf.run(&["adapter", "list"]).stdout().contains("  deadly  "));
    assert!(!shelf.path("cache").exists(), "not even a private copy is made");
}

#[test]
fn hostile_manifests_steer_neither_list_nor_docs() {
    let text = "\u{1b}[31m\u{9b}2J\r\n| a | b |\n# Trusted\n<script>`x`\u{202e}";
    let manifest = json!({
        "schema_version": 1, "kind": text, "capabilities": [text],
        "supported_router_versions": text, "error_codes": [text],
        "config_schema": {text: {
            "type": "string", "required": true, "default": text, "description": text,
        }},
    });
    let (hostile, plain) = (Shelf::new(), Shelf::new());
    Mimic::new(&json!({}), &manifest)
        .record("package", text)
        .record("version", text)
        .write(&hostile.path("libmimic.so"));
    let manifest =
        serde_json::from_str(&manifest.to_string().replace(&json!(text).to_string(), "\"x\""));
    Mimic::new(&json!({}), &manifest.unwrap()).write(&plain.path("libmimic.so"));
    for verb in ["list", "docs"] {
        let (run, tame) = (hostile.run(&["adapter", verb]), plain.run(&["adapter", verb]));
        assert_eq!(run.code(), 0);
        let shown = run.stdout();
        let odd = shown.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(odd, None, "{shown}");
        assert_eq!(shown.lines().count(), tame.stdout().lines().count(), "{shown}");
        assert!(!shown.contains("\n# Trusted") && shown.contains(r"\x1b"), "{shown}");
    }
}

#[test]
fn huge_manifests_are_listed_briefly_and_documented() {
    let shelf = Shelf::new();
    Mimic::of_kind(&"k".repeat(60_000)).write(&shelf.path("libmimic.so"));
    let run = shelf.run(&["adapter", "list"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stdout().lines().all(|line| line.chars().count() < 250), "{}", run.stdout());
    assert_eq!(shelf.run(&["adapter", "docs"]).code(), 0);
}

#[test]
fn readme_of_the_adapters_is_current() {
    let shelf = Shelf::of_the_repository();
    let readme = workspace().join("adapters/README.md");
    let run = shelf.run(&["adapter", "docs", "--check", readme.to_str().unwrap()]);
    if run.code() != 0 {
        let current = concat!(env!("CARGO_TARGET_TMPDIR"), "/adapters-README.md");
        std::fs::write(current, shelf.run(&["adapter", "docs"]).stdout()).unwrap();
        panic!("{}hint: cp {current} adapters/README.md", run.stderr());
    }
}

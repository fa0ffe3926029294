//! Whoever pastes an example of the README sees what the README says.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{PROGRAM, World, built_library, workspace};

/// An example: a command and the text that follows it. `[..]` stands for any text within a line.
struct Example {
    command: String,
    expected: String,
}

#[test]
fn console_examples_show_what_they_say() {
    let bin = installation();
    let examples = console_examples(&readme());
    assert!(examples.len() >= 4);
    for example in examples {
        let shown = as_on_a_recent_kernel(&run(&bin, &example.command));
        assert!(
            matches(&example.expected, &shown),
            "$ {}\nREADME says:\n{}\nshown:\n{shown}",
            example.command,
            example.expected
        );
    }
}

#[test]
fn first_command_ends_as_shown() {
    let bin = installation();
    let readme = readme();
    let command = block(&readme, "```sh\n").replace("target/release/", "").replace("\\\n", " ");
    let (build, dispatch) = command.split_once("&&").unwrap();
    assert_eq!(build.trim(), "cargo build --release");
    assert_eq!(run(&bin, dispatch), block(&readme, "```json\n"));
}

#[test]
fn embedding_example_names_what_exists() {
    // Compiled here, because the README is no doc-test.
    use nexus_router::request::Request;
    use nexus_router::router::{Options, Router};
    use nexus_router::store::{Status, Store};
    use nexus_router::{Registry, load_adapter};
    use serde_json::json;
    let load = || -> Result<Registry, Box<dyn std::error::Error>> {
        let adapter = load_adapter(
            "nexus_router_adapter_http:create_adapter",
            Some("my-http"),
            &json!({ "base_url": "https://example.com" }),
        )?;
        let mut registry = Registry::new("my-http");
        registry.register(adapter)?;
        Ok(registry)
    };
    let readme = readme();
    let shown = block(&readme, "```rust\n");
    for name in ["load_adapter(", "Registry::new(\"my-http\")", "registry.register(adapter)?"] {
        assert!(shown.contains(name), "{name}");
    }
    let registry = load().unwrap();
    assert_eq!(registry.get_default().unwrap().adapter_kind(), "http");
    let world = World::new();
    let store = Store::open(&world.path("runs.db")).unwrap();
    let router = Router::new(store, registry, Options::default()).unwrap();
    let request = Request::parse(br#"{"goal": "look around"}"#).unwrap();
    assert_eq!(router.run_blocking(request).unwrap().status, Status::Completed);
    for name in [
        "Store::open(",
        "Router::new(store, registry, Options::default())?",
        "router.run_blocking(Request::parse(br#\"{\"goal\": \"look around\"}\"#)?)?",
    ] {
        assert!(readme.contains(name), "{name}");
    }
}

/// A directory with the program and the adapters of the repository, as after a build.
fn installation() -> (World, PathBuf) {
    let world = World::new();
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::copy(PROGRAM, bin.join("nexus-router")).unwrap();
    for adapter in std::fs::read_dir(workspace().join("adapters")).unwrap().flatten() {
        if adapter.path().is_dir() {
            let name = adapter.file_name().into_string().unwrap();
            let library = built_library(&format!("nexus_router_adapter_{name}"));
            std::fs::copy(&library, bin.join(library.file_name().unwrap())).unwrap();
        }
    }
    (world, bin)
}

fn run((world, bin): &(World, PathBuf), command: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(world.directory.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("NEXUS_ROUTER_CACHE_DIR", world.path("cache"))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Reads a report from a kernel whose Landlock is older than the README's as if it were not: there the
/// last check is a warning, as the README says.
fn as_on_a_recent_kernel(shown: &str) -> String {
    let older = "⚠ TRIED_CONFINED            Landlock partial, seccomp full";
    if !shown.contains(older) {
        return shown.to_owned();
    }
    shown
        .replace(older, "✓ TRIED_CONFINED            Landlock full, seccomp full")
        .replace("ok: 18 passed, 0 failed, 1 warned", "ok: 19 passed, 0 failed, 0 warned")
}

fn readme() -> String {
    std::fs::read_to_string(workspace().join("README.md")).unwrap()
}

fn block<'a>(text: &'a str, fence: &str) -> &'a str {
    text.split_once(fence).unwrap().1.split_once("```").unwrap().0
}

fn console_examples(readme: &str) -> Vec<Example> {
    let blocks = readme.split("```console\n").skip(1);
    blocks
        .map(|block| {
            let block = block.split_once("```").unwrap().0;
            let (command, expected) = block.split_once('\n').unwrap();
            let command = command.strip_prefix("$ ").unwrap().to_owned();
            Example { command, expected: expected.to_owned() }
        })
        .collect()
}

fn matches(expected: &str, shown: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, shown) = (lines(expected), lines(shown));
    expected.len() == shown.len()
        && expected.iter().zip(&shown).all(|(expected, shown)| match expected.split_once("[..]") {
            None => expected == shown,
            Some((start, end)) => shown.starts_with(start) && shown.ends_with(end),
        })
}

//! Whoever pastes an example of the README sees what the README says, and the map shows what there is.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, World, built_library, workspace};

/// The address of the daemon, as the README has it.
const ADDRESS: &str = "127.0.0.1:7433";
/// The home of whoever reads the README.
const HOME: &str = "/home/ada";

/// An example: a command and the text that follows it. `[..]` stands for any text within a line.
struct Example {
    command: String,
    expected: String,
}

#[test]
fn console_examples_show_what_they_say() {
    let readme = readme();
    let mut desk = Desk::new();
    // What the README says first: build it, and start the daemon.
    let first = block(&readme, "```sh\n").replace("target/release/", "");
    let (build, serve) = first.split_once("&&").unwrap();
    assert_eq!(build.trim(), "cargo build --release");
    let greeting = block(&readme, "```text\n");
    let shown = desk.start(serve, greeting.lines().count());
    assert!(matches(greeting, &shown), "README says:\n{greeting}\nshown:\n{shown}");

    let examples = console_examples(&readme);
    assert!(examples.len() >= 15);
    for example in examples {
        let shown = as_on_a_recent_kernel(&desk.run(&example.command));
        assert!(
            matches(&example.expected, &shown),
            "$ {}\nREADME says:\n{}\nshown:\n{shown}",
            example.command,
            example.expected
        );
    }
    // Ctrl-C stops it.
    let mut daemon = desk.daemon.take().unwrap();
    kill_process(Pid::from_child(&daemon), Signal::INT).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
}

#[test]
fn map_lists_the_modules_in_their_order() {
    let read = |name: &str| std::fs::read_to_string(workspace().join(name)).unwrap();
    let (source, map) = (read("router/src/lib.rs"), read("ARCHITECTURE.md"));
    let modules: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "))
        .map(|line| line.trim_end_matches(';'))
        .collect();
    let table = map.split_once("| module | duty |\n|---|---|\n").unwrap().1;
    let listed: Vec<&str> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(listed, modules);
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

/// Where examples are tried: a directory with the program and the adapters of the repository, as after a
/// build, and the daemon.
struct Desk {
    world: World,
    bin: PathBuf,
    /// What the shell of the reader remembers from one example to the next.
    remembered: String,
    /// Where the daemon really is.
    address: String,
    daemon: Option<Child>,
}

impl Desk {
    fn new() -> Self {
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
        let (remembered, address) = (String::new(), "127.0.0.1:0".to_owned());
        Self { world, bin, remembered, address, daemon: None }
    }

    /// Makes a command of a line of shell.
    fn shell(&self, line: &str) -> Command {
        let home = self.world.directory.path();
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(home)
            .env_clear()
            .env("HOME", home)
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()))
            // A port of the test's own, in place of the usual one.
            .env("NEXUS_ROUTER__LISTENERS__0__ADDRESS", &self.address);
        command
    }

    /// Starts the daemon, and returns so many lines of what it prints.
    fn start(&mut self, line: &str, lines: usize) -> String {
        let mut command = self.shell(&format!("exec {line}"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let child = self.daemon.insert(child);
        let output = BufReader::new(child.stdout.take().unwrap());
        let shown: Vec<String> = output.lines().take(lines).map(Result::unwrap).collect();
        let shown = shown.join("\n");
        let after = shown.split_once("http://").expect("it says where it listens").1;
        self.address = after.lines().next().unwrap().to_owned();
        self.as_in_readme(&shown)
    }

    fn run(&mut self, command: &str) -> String {
        let command = command.replace(ADDRESS, &self.address);
        if command.starts_with("export ") {
            self.remembered += &format!("{command}\n");
        }
        let output = self.shell(&format!("{}{command}", self.remembered)).output().unwrap();
        self.as_in_readme(&String::from_utf8(output.stdout).unwrap())
    }

    fn as_in_readme(&self, shown: &str) -> String {
        let home = self.world.directory.path().to_str().unwrap();
        shown.replace(&self.address, ADDRESS).replace(home, HOME)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}

/// Reads a report from a kernel whose Landlock is older than the README's as if it were not: there the
/// last check is a warning, as the README says.
fn as_on_a_recent_kernel(shown: &str) -> String {
    let older = "⚠ TRIED_CONFINED            Landlock partial, seccomp full; missing: landlock";
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
    let (expected, shown): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), shown.lines().collect());
    expected.len() == shown.len()
        && expected.iter().zip(&shown).all(|(expected, shown)| line_matches(expected, shown))
}

fn line_matches(expected: &str, shown: &str) -> bool {
    let Some((start, rest)) = expected.split_once("[..]") else { return expected == shown };
    let Some(mut shown) = shown.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split("[..]").collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = shown.split_once(part) else { return false };
        shown = after;
    }
    shown.ends_with(last)
}

#[test]
fn dots_stand_for_any_text_within_a_line() {
    for (expected, shown, fits) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a[..]", "abc", true),
        ("[..]c", "abc", true),
        ("a[..]c", "ab", false),
        ("a[..]b[..]c", "a1b2c", true),
        ("a[..]b[..]c", "a12c", false),
        ("a[..]\nb", "a1\nb", true),
        ("a[..]", "a\nb", false),
    ] {
        assert_eq!(matches(expected, shown), fits, "{expected} {shown}");
    }
}

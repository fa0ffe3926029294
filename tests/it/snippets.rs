//! Every example that the documents show: Rust compiles, TOML and JSON parse, commands have the options they use.
//!
//! Two HTML comments in the line before a block are understood: `<!-- continues -->` before Rust code that goes on
//! where the block before it ended, and `<!-- fragment: REASON -->` before a block that is no whole example.

#[rustfmt::skip]
mod compiled;
mod document;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nexus_router::config::{ConfigFile, Environment};
use serde_json::Value;

use crate::support::{PROGRAM, World, workspace};
use document::{Block, Document, Marker};

/// Fragments that the documents may have in all.
const MAX_FRAGMENTS: usize = 3;

/// Returns every document with examples. What `adapter docs` prints is `adapters/README.md`, and a small golden file.
fn documents() -> Vec<Document> {
    let mut paths = markdown_files(workspace());
    paths.retain(|path| !path.starts_with("tests") && !path.starts_with("templates/adapter"));
    paths.push(PathBuf::from("tests/golden/adapter_docs.md"));
    let mut documents: Vec<Document> = paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(workspace().join(path)).unwrap();
            Document::read(path.to_str().unwrap(), &text)
        })
        .collect();
    documents.push(Document::read("templates/adapter/README.md", &new_adapter_readme()));
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    documents
}

/// Returns the README that a new adapter gets.
fn new_adapter_readme() -> String {
    let world = World::new();
    let sdk = workspace().join("adapter-sdk");
    let run = world.run(&["adapter", "new", "weather", "--sdk-path", sdk.to_str().unwrap()]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    std::fs::read_to_string(world.path("nexus-router-adapter-weather/README.md")).unwrap()
}

/// Returns the Markdown files below a directory, relative to it.
fn markdown_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(place) = open.pop() {
        for entry in std::fs::read_dir(&place).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && name != "target" && name != "node_modules" {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    found
}

/// Returns the blocks of a language, each with the place where it stands.
fn blocks<'a>(
    documents: &'a [Document],
    language: &str,
) -> impl Iterator<Item = (String, &'a Block)> {
    documents.iter().flat_map(move |document| {
        let of_language = document.blocks.iter().filter(move |block| {
            block.language == language && !matches!(block.marker, Some(Marker::Fragment(_)))
        });
        of_language.map(|block| (format!("{}:{}", document.name, block.line), block))
    })
}

#[test]
fn rust_examples_are_those_that_compile() {
    let source = document::compiled_source(&documents());
    let path = workspace().join("tests/it/snippets/compiled.rs");
    if std::fs::read_to_string(&path).unwrap() != source {
        let current = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled.rs");
        std::fs::write(current, source).unwrap();
        panic!("an example changed; hint: cp {current} {} and build again", path.display());
    }
    assert!(compiled::EXAMPLES.len() >= 15, "{} examples", compiled::EXAMPLES.len());
}

#[test]
fn toml_examples_are_router_configurations() {
    let (documents, world) = (documents(), World::new());
    let mut count = 0;
    for (place, block) in blocks(&documents, "toml") {
        let file = world.path("router.toml");
        std::fs::write(&file, &block.text).unwrap();
        if let Err(error) = ConfigFile::find(Some(&file), &Environment::default()) {
            panic!("{place}: {error}: {:?}\n{}", std::error::Error::source(&error), block.text);
        }
        count += 1;
    }
    assert!(count >= 9, "{count} blocks");
}

#[test]
fn json_examples_are_json() {
    let documents = documents();
    let mut count = 0;
    for (place, block) in blocks(&documents, "json") {
        let parsed = serde_json::from_str::<Value>(&block.text);
        parsed.unwrap_or_else(|error| panic!("{place}: {error}\n{}", block.text));
        count += 1;
    }
    assert!(count >= 30, "{count} blocks");
}

/// Runs lines of shell in a home of its own.
struct Shell {
    world: World,
}

impl Shell {
    fn new() -> Self {
        Self { world: World::new() }
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).current_dir(self.world.directory.path()).env_clear();
        command.env("HOME", self.world.directory.path()).output().unwrap()
    }

    /// Has the program look at the arguments of a command, and do no more.
    fn look(&self, command: &str) -> Output {
        let arguments = command.strip_prefix("nexus-router ").unwrap();
        let look = format!("look() {{ '{PROGRAM}' \"$@\" --help > /dev/null; }}");
        self.run(&format!("{look}; look {arguments}"))
    }
}

#[test]
fn commands_exist_with_the_options_they_use() {
    let (documents, shell) = (documents(), Shell::new());
    let mut count = 0;
    for (place, block) in blocks(&documents, "sh") {
        let checked = shell.run(&format!("set -n\n{}", block.text));
        assert!(checked.status.success(), "{place}: {checked:?}");
        for command in document::commands(&block.text) {
            let shown = shell.look(&command);
            assert!(shown.status.success(), "{place}: {command}\n{shown:?}");
            count += 1;
        }
    }
    assert!(count >= 40, "{count} commands");
    for wrong in ["nexus-router adapter dosc", "nexus-router adapter list --runing"] {
        assert!(!shell.look(wrong).status.success(), "{wrong}: this test could not fail");
    }
}

#[test]
fn examples_of_help_use_options_that_exist() {
    let shell = Shell::new();
    assert_eq!(shell.world.run(&["man", "--out", "man"]).code(), 0);
    let mut count = 0;
    for page in std::fs::read_dir(shell.world.path("man")).unwrap().flatten() {
        let text = std::fs::read_to_string(page.path()).unwrap();
        let plain = text.replace(r"\-", "-").replace(r"\*(Aq", "'").replace(r"\\", r"\");
        for line in plain.lines().filter(|line| line.starts_with("  nexus-router ")) {
            // Behind two blanks stands what the command is for.
            let command = line.trim_start().split("  ").next().unwrap();
            let shown = shell.look(document::alone(command));
            assert!(shown.status.success(), "{:?}: {command}\n{shown:?}", page.file_name());
            count += 1;
        }
    }
    assert!(count >= 50, "{count} examples");
}

#[test]
fn every_block_has_a_known_language_and_fragments_are_few() {
    let known = BTreeSet::from(["", "console", "json", "rust", "sh", "text", "toml"]);
    let mut fragments = 0;
    for document in &documents() {
        for block in &document.blocks {
            let place = format!("{}:{}", document.name, block.line);
            assert!(known.contains(block.language.as_str()), "{place}: {}", block.language);
            if let Some(Marker::Fragment(reason)) = &block.marker {
                assert!(reason.split_whitespace().count() >= 3, "{place}: why is it a fragment?");
                fragments += 1;
            }
        }
    }
    assert!(fragments <= MAX_FRAGMENTS, "{fragments} fragments");
}

#[test]
fn comments_hide_no_example_from_the_compiler() {
    // Examples in comments are compiled as doc-tests, unless they say that they are not to be.
    for root in ["adapter-sdk", "router/src", "adapters", "templates"] {
        let mut open = vec![workspace().join(root)];
        while let Some(place) = open.pop() {
            for entry in std::fs::read_dir(&place).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let hidden = text.lines().map(str::trim_start).find(|line| {
                        let fence = line.strip_prefix("///").or(line.strip_prefix("//!"));
                        let language = fence.and_then(|line| line.trim_start().strip_prefix("```"));
                        language.is_some_and(|language| language.contains("ignore"))
                    });
                    assert_eq!(hidden, None, "{}", path.display());
                }
            }
        }
    }
}

//! The rules of the layout, as tests: flow order, unsafe rooms, file headers, file length, public words.

use std::path::{Path, PathBuf};

use crate::support::workspace;

/// Files that may contain `unsafe`.
const UNSAFE_ROOMS: &[&str] = &[
    "adapter-sdk/abi/src/lib.rs",
    "adapter-sdk/src/export.rs",
    "router/src/loader/library.rs",
    "router/src/sandbox/sys.rs",
    "router/src/sandbox/notify.rs",
];

/// Declarative tables, which may be long.
const TABLES: &[&str] = &[];

#[test]
fn modules_use_only_modules_above_them() {
    let source = workspace().join("router/src");
    let map = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    let order: Vec<&str> = map
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod ")))
        .map(|line| line.trim_end_matches(';'))
        .collect();
    assert!(order.len() > 5, "the map lists the modules");
    for file in rust_files(&source) {
        let inside = file.strip_prefix(&source).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(place) = order.iter().position(|known| *known == module) else { continue };
        for used in used_modules(&std::fs::read_to_string(&file).unwrap()) {
            if let Some(other) = order.iter().position(|known| *known == used) {
                assert!(
                    other <= place,
                    "{}: `{module}` must not use `{used}`, which comes after it",
                    inside.display()
                );
            }
        }
    }
}

/// Returns the modules that a file names behind `crate::`.
fn used_modules(text: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut used = Vec::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => used.push(word(after)),
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                used.extend(group.split(',').map(|item| word(item.trim())));
            }
        }
    }
    used
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for file in all_rust_files() {
        let shown = relative(&file);
        let text = std::fs::read_to_string(&file).unwrap();
        let allows = text.lines().any(|line| {
            let line = line.trim();
            !line.starts_with("//")
                && (line.contains("unsafe_code,") || line.contains("allow(unsafe_code"))
        });
        if UNSAFE_ROOMS.contains(&shown.as_str()) || shown.starts_with("tests/") {
            continue;
        }
        assert!(!allows, "{shown} lets unsafe code in, and is no unsafe room");
    }
}

#[test]
fn adapters_forbid_unsafe_code() {
    let adapters = std::fs::read_dir(workspace().join("adapters")).unwrap().flatten();
    for adapter in adapters.filter(|entry| entry.path().is_dir()) {
        let root = adapter.path().join("src/lib.rs");
        let text = std::fs::read_to_string(&root).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{}", relative(&root));
    }
}

#[test]
fn every_file_says_its_duty_first_and_is_short() {
    for file in all_rust_files() {
        let shown = relative(&file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{shown} does not begin with its duty");
        let lines = text.lines().count();
        assert!(
            lines <= 500 || TABLES.contains(&shown.as_str()),
            "{shown} has {lines} lines: it wants to be split"
        );
    }
}

#[test]
fn top_level_holds_what_it_should() {
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "router",
        "adapter-sdk",
        "adapters",
        "templates",
        "tests",
        "target",
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE",
        "SECURITY.md",
    ];
    for entry in std::fs::read_dir(workspace()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        assert!(name.starts_with('.') || allowed.contains(&name.as_str()), "{name}");
    }
}

fn all_rust_files() -> Vec<PathBuf> {
    let roots = ["router", "adapter-sdk", "adapters", "tests"];
    roots.iter().flat_map(|root| rust_files(&workspace().join(root))).collect()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn relative(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap().display().to_string()
}

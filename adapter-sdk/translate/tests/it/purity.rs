//! The core reaches for nothing: the built code of it and of all that it stands on needs only memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSymbol as _};

/// What code without `std` may need from outside: to move memory, and to unwind.
const ALLOWED: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "_Unwind_Resume",
    "rust_eh_personality",
    "_GLOBAL_OFFSET_TABLE_",
];

/// And to have memory; the compiler puts these into a crate of its own.
const ALLOCATION: &[&str] = &[
    "___rust_alloc",
    "___rust_alloc_zeroed",
    "___rust_dealloc",
    "___rust_realloc",
    "___rust_no_alloc_shim_is_unstable_v2",
];

#[test]
fn built_core_needs_nothing_but_memory() {
    let crates = dependencies();
    assert!(crates.contains("sha2") && crates.contains("ryu_js"), "{crates:?}");
    let (mut needed, mut defined, mut seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for library in libraries(&crates) {
        let bytes = std::fs::read(&library).unwrap();
        for member in members(&bytes) {
            let Ok(file) = ElfFile64::<object::Endianness>::parse(member) else { continue };
            for symbol in file.symbols() {
                let name = symbol.name().unwrap().to_owned();
                if symbol.is_undefined() {
                    needed.insert(name);
                } else {
                    defined.insert(name);
                }
            }
        }
        let name = library.file_name().unwrap().to_str().unwrap();
        seen.insert(name.split_once('-').unwrap().0["lib".len()..].to_owned());
    }
    assert!(seen.contains("nexus_router_translate") && defined.len() > 100, "{seen:?}");
    for name in needed.difference(&defined).filter(|name| !name.is_empty()) {
        // Names of Rust say the crate that has them, with the length of its name before it.
        let of = |krate: &str| name.contains(krate);
        let is_core = ["4core", "5alloc", "17compiler_builtins"].into_iter().any(of);
        let is_memory = of("7___rustc") && ALLOCATION.iter().any(|known| name.ends_with(known));
        let is_allowed = is_core || is_memory || ALLOWED.contains(&name.as_str());
        assert!(is_allowed && !of("3std"), "the core needs {name}");
    }
}

/// The crates that the core is made of, as cargo says: no build scripts, no macros.
fn dependencies() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "nexus-router-translate"])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{lib}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| line.trim().replace('-', "_")).filter(|line| !line.is_empty()).collect()
}

/// The libraries of these crates beside this test.
fn libraries(crates: &BTreeSet<String>) -> Vec<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let beside: &Path = test.parent().unwrap();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let library = name.strip_prefix("lib").and_then(|name| name.strip_suffix(".rlib"));
        library
            .and_then(|name| name.rsplit_once('-'))
            .is_some_and(|(name, _)| crates.contains(name))
    };
    let entries = std::fs::read_dir(beside).unwrap().flatten().map(|entry| entry.path());
    entries.filter(is_one).collect()
}

/// The members of an archive: a header of 60 bytes before each, with its size at 48.
fn members(archive: &[u8]) -> Vec<&[u8]> {
    assert!(archive.starts_with(b"!<arch>\n"));
    let (mut at, mut found) = (8, Vec::new());
    while let Some(header) = archive.get(at..at + 60) {
        let size = std::str::from_utf8(&header[48..58]).unwrap().trim();
        let size: usize = size.parse().unwrap();
        found.push(&archive[at + 60..at + 60 + size]);
        at += 60 + size + size % 2;
    }
    found
}

#[test]
fn core_says_that_it_has_no_std() {
    let root =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    assert!(root.contains("#![no_std]") && root.contains("#![forbid(unsafe_code)]"));
    assert!(!root.contains("extern crate std"));
}

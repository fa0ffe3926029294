//! What stands at a library's path and is none.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nexus_router::Call;
use nexus_router::loader::{AdapterPath, LoadRequest, Reason};
use nexus_router_sdk::Object;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::Corpus;
use super::compile::compile_c;
use super::forge::Library;
use crate::support::PROGRAM;

/// A case: its name, what makes the file at a path, the reason, and what the error says.
type Case = (&'static str, fn(&Path), Reason, &'static str);

const CASES: &[Case] = &[
    ("empty", |path| fs::write(path, "").unwrap(), Reason::NotALibrary, "is empty"),
    (
        "text",
        |path| fs::write(path, "#!/bin/sh\necho hello\n").unwrap(),
        Reason::NotALibrary,
        "not an ELF file",
    ),
    (
        "random_bytes",
        |path| fs::write(path, super::damage::Random::new(7).bytes(100_000)).unwrap(),
        Reason::NotALibrary,
        "not an ELF file",
    ),
    ("directory", |path| fs::create_dir(path).unwrap(), Reason::NotARegularFile, "a directory"),
    (
        "pipe",
        |path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
        Reason::NotARegularFile,
        "a pipe",
    ),
    ("device", |path| symlink("/dev/zero", path).unwrap(), Reason::NotARegularFile, "a device"),
    (
        "socket",
        |path| mknodat(CWD, path, FileType::Socket, Mode::RWXU, 0).unwrap(),
        Reason::LibraryUnreadable,
        "cannot read",
    ),
    (
        "dangling_link",
        |path| symlink("nowhere", path).unwrap(),
        Reason::LibraryUnreadable,
        "No such file",
    ),
    (
        "link_to_itself",
        |path| symlink(path, path).unwrap(),
        Reason::LibraryUnreadable,
        "symbolic link",
    ),
    (
        "writable_by_everybody",
        |path| {
            fs::write(path, Library::good().0).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        },
        Reason::UnsafePermissions,
        "mode 0666",
    ),
    (
        // A hole, not a gigabyte.
        "too_large",
        |path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap(),
        Reason::LibraryTooLarge,
        "has 1073741824 bytes",
    ),
    ("executable", |path| symlink(PROGRAM, path).unwrap(), Reason::NotALibrary, "an executable"),
    (
        "object_file",
        |path| compile_c("int x;\n", path, &["-c"]),
        Reason::NotALibrary,
        "an object file",
    ),
    (
        "static_library",
        |path| fs::write(path, "!<arch>\n/               0           0     0     0").unwrap(),
        Reason::NotALibrary,
        "not an ELF file",
    ),
    (
        "library_of_something_else",
        |path| compile_c("int x;\n", path, &["-shared"]),
        Reason::NotAnAdapter,
        "no section .nexus_adapter",
    ),
];

#[test]
fn what_is_no_library_is_refused() {
    let corpus = Corpus::new();
    for (name, make, reason, says) in CASES {
        make(&corpus.file(name));
        let factory_ref = format!("{name}:create_adapter");
        corpus.assert_refused(&corpus.loader, &factory_ref, &json!({}), *reason, says);
    }
}

#[test]
fn paths_are_accepted_in_place_of_names() {
    let corpus = Corpus::new();
    let good = corpus.file("good");
    corpus.assert_works(&format!("{}:create_adapter", good.display()), "by path");
    for (path, reason) in [
        ("/dev/zero", Reason::NotARegularFile),
        ("/", Reason::NotARegularFile),
        ("/nowhere/libx.so", Reason::LibraryUnreadable),
    ] {
        let factory_ref = format!("{path}:create_adapter");
        corpus.assert_refused(&corpus.loader, &factory_ref, &json!({}), reason, path);
    }
}

#[test]
fn links_and_copies_of_a_good_library_work() {
    let corpus = Corpus::new();
    symlink(corpus.file("good"), corpus.file("linked")).unwrap();
    fs::hard_link(corpus.file("good"), corpus.file("hard_linked")).unwrap();
    fs::copy(corpus.file("good"), corpus.file("copied")).unwrap();
    for module in ["linked", "hard_linked", "copied", "good"] {
        corpus.assert_works(&format!("{module}:create_adapter"), module);
    }
}

#[test]
fn two_copies_under_two_names_live_side_by_side() {
    let corpus = Corpus::new();
    fs::copy(corpus.file("good"), corpus.file("copied")).unwrap();
    let load = |factory_ref, id| {
        let config = json!({});
        let request = LoadRequest { factory_ref, adapter_id: Some(id), config: &config, pin: None };
        corpus.loader.load(&request).unwrap()
    };
    let one = load("good:create_adapter", "one");
    let two = load("copied:create_adapter", "two");
    let three = load("good:create_adapter", "three");
    assert_eq!(one.digest(), two.digest());
    drop(one);
    for (adapter, id) in [(two, "two"), (three, "three")] {
        assert_eq!(adapter.adapter_id(), id);
        assert!(adapter.call(&Call::new("t", "m", &Object::new())).is_ok());
    }
}

#[test]
fn paths_need_not_be_text() {
    let mut corpus = Corpus::new();
    let directory = corpus.world.directory.path().join(std::ffi::OsStr::from_bytes(b"not\xfftext"));
    fs::create_dir(&directory).unwrap();
    fs::copy(corpus.file("good"), directory.join("libstrange.so")).unwrap();
    fs::write(directory.join("libworse.so"), "x").unwrap();
    let path = [directory.clone(), corpus.world.directory.path().to_owned()];
    corpus.loader.adapter_path = AdapterPath::new(path);
    corpus.loader.cache_dir = directory.join("cache");
    corpus.assert_works("strange:create_adapter", "in a directory whose name is no text");
    let loader = corpus.loader.clone();
    corpus.assert_refused(
        &loader,
        "worse:create_adapter",
        &json!({}),
        Reason::NotALibrary,
        "worse",
    );
}

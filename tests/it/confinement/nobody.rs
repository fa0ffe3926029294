//! The same tests again, as a user without rights, when these run as the superuser.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::{is_root, program};
use crate::support::built_library;

/// Names the variable that tells a copy of these tests where the copy of the program is.
pub const PROGRAM_OF_COPY: &str = "NEXUS_ROUTER_TEST_PROGRAM";

/// The user without rights.
const NOBODY: u32 = 65534;

fn copy(from: &Path, directory: &Path) -> std::path::PathBuf {
    let to = directory.join(from.file_name().unwrap());
    std::fs::copy(from, &to).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
    to
}

#[test]
fn all_of_it_holds_for_a_user_without_rights() {
    if !is_root() {
        // Then all of it was just tried as one.
        return;
    }
    // Where that user can reach it: the build may be in somebody's home.
    let place = tempfile::Builder::new().prefix("nobody").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let temporary = place.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    std::os::unix::fs::chown(&temporary, Some(NOBODY), Some(NOBODY)).unwrap();
    let tests = copy(&std::env::current_exe().unwrap(), place.path());
    let program = copy(&program(), place.path());
    for module in ["escape_adapters", "nexus_router_adapter_echo"] {
        drop(copy(&built_library(module), place.path()));
    }
    let output = Command::new(tests)
        .args([
            "confinement::",
            "envoy::",
            "--skip",
            "corpus::",
            "--skip",
            "nobody::",
            "--test-threads=2",
        ])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir(&temporary)
        .env_clear()
        .env("TMPDIR", &temporary)
        .env("HOME", &temporary)
        .env("PATH", "/usr/bin:/bin")
        .env(PROGRAM_OF_COPY, program)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = printed.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(output.status.success() && passed > 20, "{passed} passed: {printed}");
}

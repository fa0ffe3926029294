//! Side doors of the kernel: closed, whatever is granted.

use nexus_router::grant::Grants;
use serde_json::json;

use super::{EACCES, EPERM, Stage, nothing, path, unconfined};

/// Attempts that are denied by their number alone.
const DENIED: &[&str] = &[
    "io_uring",
    "key",
    "bpf",
    #[cfg(target_arch = "x86_64")]
    "inotify_init",
    "inotify_init1",
    "inotify_watch",
    "fanotify_init",
    "fanotify_mark",
    "userfault",
    "performance",
    "mount",
    "open_file_system",
    "open_tree",
    "personality",
    "type_into_terminal",
    "raise_memory_limit",
];

#[test]
fn side_doors_are_closed_whatever_is_granted() {
    let everything = Stage::new(|stage| Grants {
        read: vec!["/".into()],
        write: vec![stage.world.path("granted")],
        run: vec![std::fs::canonicalize("/bin/sh").unwrap()],
        ..Grants::default()
    });
    for stage in [Stage::new(nothing), Stage::anything_readable(), everything] {
        for method in DENIED {
            stage.assert_denied(method, &json!({}), &[EPERM]);
        }
        stage.assert_denied("own_memory_file", &json!({}), &[EACCES]);
        stage.assert_denied("lease", &path("/etc/passwd"), &[EPERM]);
        stage.assert_denied("type_into_device", &path("/dev/null"), &[EPERM, EACCES]);
    }
}

/// The test of denials would prove nothing if the kernel refused these calls to everybody.
#[test]
fn unconfined_processes_may_watch_files() {
    assert_eq!(unconfined("inotify_init1", &json!({})), 0);
    assert_ne!(unconfined("inotify_watch", &json!({})), EPERM, "the descriptor is not valid");
}

/// x86-64 has a second set of numbers, which a list of the first does not know.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_second_set_of_numbers_is_no_way_around() {
    for stage in [Stage::new(nothing), Stage::anything_readable()] {
        for method in ["other_number_of_getpid", "other_number_of_socket"] {
            stage.assert_denied(method, &json!({}), &[EPERM]);
        }
    }
}

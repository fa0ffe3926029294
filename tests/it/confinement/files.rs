//! Files: what a confined process reads and writes, with and without grants.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;

use nexus_router::grant::Grants;
use rustix::io::FdFlags;
use serde_json::{Value, json};

use super::{
    EACCES, EBADF, ENOENT, ENOSYS, EOPNOTSUPP, EPERM, EXDEV, Stage, is_root, nothing, path,
    unconfined,
};

fn writing() -> Stage {
    Stage::new(|stage| Grants { write: vec![stage.world.path("granted")], ..Grants::default() })
}

/// Every way to change files at a place, and what it must come to.
fn changes(stage: &Stage, directory: &str) -> Vec<(&'static str, Value, &'static [i64])> {
    let place = stage.world.path(directory);
    let (file, made) = (place.join("file"), place.join("made"));
    let beside = json!({ "path": file, "to": made });
    vec![
        ("open_to_write", path(&file), &[EACCES]),
        ("open_to_truncate", path(&file), &[EACCES]),
        ("truncate", path(&file), &[EACCES, EPERM]),
        ("create", path(&made), &[EACCES]),
        ("remove", path(&made), &[EACCES]),
        ("nameless", path(&place), &[EACCES]),
        ("symlink", json!({ "path": made, "to": "file" }), &[EACCES]),
        ("remove", path(&made), &[EACCES]),
        ("make_pipe", path(&made), &[EACCES]),
        ("remove", path(&made), &[EACCES]),
        ("link", beside, &[EACCES]),
        ("remove", path(&file), &[EACCES]),
        ("rename", json!({ "path": made, "to": file }), &[EACCES]),
        ("make_directory", path(&made), &[EACCES]),
    ]
}

/// Asserts that every way to change files outside is denied.
fn assert_unchangeable(stage: &Stage) {
    for (method, args, errnos) in changes(stage, "outside") {
        // What an attempt before could not make is not there to be removed.
        let absent = ["remove", "rename"].contains(&method).then_some(ENOENT);
        let errnos: Vec<i64> = errnos.iter().copied().chain(absent).collect();
        stage.assert_denied(method, &args, &errnos);
    }
}

/// Every way to change what the system says of a file.
const METADATA: &[&str] = &["chmod", "fchmod", "fchmodat2", "chown", "utime", "set_attribute"];

#[test]
fn nothing_can_be_written_without_a_grant() {
    for stage in [Stage::new(nothing), Stage::anything_readable()] {
        assert_unchangeable(&stage);
        for place in ["/dev/shm/nexus-router-made", "/tmp/nexus-router-made", "/proc/self/mem"] {
            stage.assert_denied("write", &json!({ "path": place, "text": "x" }), &[EACCES]);
        }
        stage.assert_untouched();
    }
}

/// Without this, the attempts could fail by themselves.
#[test]
fn what_is_denied_works_for_whoever_is_not_confined() {
    let stage = Stage::anything_readable();
    for (method, args, _) in changes(&stage, "outside") {
        assert_eq!(unconfined(method, &args), 0, "{method} {args}");
    }
    // Not every file system keeps attributes, and not every kernel has the newest call.
    let file = path(stage.granted("file"));
    for method in METADATA {
        assert!([0, 38, 95].contains(&unconfined(method, &file)), "{method}");
    }
}

#[test]
fn what_is_said_of_a_file_cannot_be_changed_even_where_writing_is_granted() {
    for stage in [Stage::anything_readable(), writing()] {
        for method in METADATA {
            // Whoever may not read a file has no descriptor of it to begin with.
            let denied = if *method == "set_attribute" { EOPNOTSUPP } else { EPERM };
            stage.assert_denied(method, &path(stage.granted("file")), &[denied]);
            stage.assert_denied(method, &path(stage.outside("file")), &[denied, EACCES]);
        }
        stage.assert_untouched();
    }
}

#[test]
fn workers_create_no_set_id_files() {
    let stage = writing();
    let methods = ["set_id_openat", "set_id_nameless", "set_id_mknodat", "set_id_chmod"];
    #[cfg(target_arch = "x86_64")]
    let methods = [&methods[..], &["set_id_open", "set_id_creat", "set_id_mknod"]].concat();
    for method in methods {
        let made = path(stage.granted(method));
        assert_eq!(unconfined(method, &path(stage.world.path(method))), 0, "{method}");
        stage.assert_denied(method, &made, &[EPERM]);
    }
    stage.assert_denied("set_id_openat2", &path(stage.granted("made")), &[ENOSYS]);
}

#[test]
fn a_grant_to_write_ends_at_its_directory() {
    let stage = writing();
    for (method, args, _) in changes(&stage, "granted") {
        stage.assert_works(method, &args);
    }
    stage.assert_works("write", &json!({ "path": stage.granted("kept"), "text": "kept" }));
    assert_eq!(stage.data("read", &path(stage.granted("kept"))), "kept");
    assert_unchangeable(&stage);
    stage.assert_untouched();
}

#[test]
fn nothing_leads_out_of_a_granted_directory() {
    let stage = writing();
    let (link, outside) = (stage.granted("leads-out"), stage.outside("file"));
    stage.assert_works("symlink", &json!({ "path": link, "to": outside }));
    stage.assert_denied("open_to_write", &path(&link), &[EACCES]);
    stage.assert_denied("truncate", &path(&link), &[EACCES]);
    stage.assert_denied("read", &path(&link), &[EACCES]);
    let taken = json!({ "path": outside, "to": stage.granted("taken") });
    stage.assert_denied("link", &taken, &[EACCES, EXDEV]);
    stage.assert_denied("rename", &taken, &[EACCES, EXDEV]);
    let given = json!({ "path": stage.granted("file"), "to": stage.outside("given") });
    stage.assert_denied("rename", &given, &[EACCES, EXDEV]);
    stage.assert_denied("link", &given, &[EACCES, EXDEV]);
    let over = json!({ "path": stage.granted("file"), "to": outside });
    stage.assert_denied("rename", &over, &[EACCES, EXDEV]);
    stage.assert_untouched();
}

#[test]
fn a_link_that_was_there_before_leads_nowhere_either() {
    let stage = writing();
    symlink(stage.world.path("outside"), stage.granted("way-out")).unwrap();
    stage.assert_denied("create", &path(stage.granted("way-out/made")), &[EACCES]);
    stage.assert_denied("list", &path(stage.granted("way-out")), &[EACCES]);
    stage.assert_untouched();
}

#[test]
fn only_what_is_granted_can_be_read() {
    let stage =
        Stage::new(|stage| Grants { read: vec![stage.world.path("granted")], ..Grants::default() });
    assert_eq!(stage.data("read", &path(stage.granted("file"))), "untouched");
    assert_eq!(stage.data("list", &path(stage.world.path("granted"))), json!(["file"]));
    stage.assert_denied("read", &path(stage.outside("file")), &[EACCES]);
    stage.assert_denied("list", &path(stage.world.path("outside")), &[EACCES]);
    stage.assert_denied("list", &path(stage.world.path("")), &[EACCES]);
    stage.assert_denied("open_to_write", &path(stage.granted("file")), &[EACCES]);
    stage.assert_denied("create", &path(stage.granted("made")), &[EACCES]);
}

#[test]
fn one_granted_file_is_not_its_directory() {
    let stage = Stage::new(|stage| Grants {
        read: vec![stage.granted("file")],
        write: vec![stage.outside("file")],
        ..Grants::default()
    });
    assert_eq!(stage.data("read", &path(stage.granted("file"))), "untouched");
    stage.assert_denied("list", &path(stage.world.path("granted")), &[EACCES]);
    stage.assert_works("write", &json!({ "path": stage.outside("file"), "text": "new" }));
    stage.assert_denied("remove", &path(stage.outside("file")), &[EACCES]);
    stage.assert_denied("create", &path(stage.outside("made")), &[EACCES]);
}

#[test]
fn what_every_program_needs_can_be_read_and_no_secret() {
    let stage = Stage::new(nothing);
    for file in ["/etc/passwd", "/proc/self/status", "/proc/self/maps", "/proc/meminfo"] {
        stage.assert_works("read", &path(file));
    }
    stage.assert_works("list", &path("/usr/lib"));
    stage.assert_works("write", &json!({ "path": "/dev/null", "text": "x" }));
    for directory in ["/", "/etc", "/root", "/home", "/tmp", "/proc", "/proc/1", "/var", "/run"] {
        stage.assert_denied("list", &path(directory), &[EACCES]);
    }
    for file in ["/etc/shadow", "/proc/1/cmdline", "/proc/1/status", "/proc/uptime"] {
        stage.assert_denied("read", &path(file), &[EACCES]);
    }
    let parent = format!("/proc/{}", std::process::id());
    stage.assert_denied("read", &path(format!("{parent}/status")), &[EACCES]);
    stage.assert_denied("list", &path(format!("{parent}/fd")), &[EACCES]);
    // The store, the cache and the configuration of the router are files like any other.
    stage.assert_denied("list", &path(&stage.loader.cache_dir), &[EACCES]);
    if is_root() {
        assert_eq!(unconfined("read", &path("/etc/shadow")), 0);
    }
}

#[test]
fn descriptors_of_the_parent_are_out_of_reach() {
    let stage = Stage::anything_readable();
    let mut file =
        std::fs::File::options().read(true).write(true).open(stage.outside("file")).unwrap();
    // Left open for every program that is started, as hosts do by accident; with a number that a child
    // does not give to a file of its own.
    let left_open = rustix::io::fcntl_dupfd_cloexec(&file, 200).unwrap();
    rustix::io::fcntl_setfd(&left_open, FdFlags::empty()).unwrap();
    let descriptor = json!({ "descriptor": left_open.as_raw_fd() });
    for stage in [&stage, &writing()] {
        stage.assert_denied("write_descriptor", &descriptor, &[EBADF]);
        stage.assert_denied("write_parent_descriptor", &descriptor, &[EACCES, EPERM]);
        stage.assert_denied("see_parent_descriptor", &json!({}), &[EACCES, EPERM]);
    }
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "untouched");
    assert_eq!(unconfined("write_descriptor", &descriptor), 0);
}

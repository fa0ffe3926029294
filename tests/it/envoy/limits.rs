//! Limits of disk and files, for programs that are short, locked away, or run after others.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::json;

use super::hostile::reason;
use super::{Stage, test};

/// Waits until new files have a later time than those that exist.
pub(super) fn wait_for_newer_files(stage: &Stage) {
    let file = stage.world.path("clock");
    let time = || {
        std::fs::write(&file, "x").unwrap();
        let status = std::fs::metadata(&file).unwrap();
        (status.ctime(), status.ctime_nsec())
    };
    let first = time();
    while time() == first {
        std::thread::yield_now();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn short_programs_are_held_to_the_limits() {
    let stage =
        Stage::new("files = 10\nfile_mb = 4\ndisk_mb = 2", "run = [\"/bin/sh\", \"/bin/dd\"]");
    let many = "i=0; while [ $i -lt 50 ]; do : >f$i; i=$((i+1)); done; echo done";
    let (output, told) = reason(&stage, test(&["sh", "-c", many]));
    assert_eq!((&output["exit_code"], told.as_str()), (&json!(137), "files_limit"), "{output}");
    assert_eq!(output["ok"], false);
    wait_for_newer_files(&stage);
    let large = "dd if=/dev/zero of=large bs=1048576 count=3 2>/dev/null; exit 3";
    let (output, told) = reason(&stage, test(&["sh", "-c", large]));
    assert_eq!((&output["exit_code"], told.as_str()), (&json!(137), "disk_limit"), "{output}");
    wait_for_newer_files(&stage);
    let (output, told) = reason(&stage, test(&["sh", "-c", "echo x >new; exit 3"]));
    assert_eq!((&output["exit_code"], told.as_str()), (&json!(3), "exit_code:3"), "{output}");
}

#[test]
fn files_of_the_step_before_do_not_count() {
    let stage = Stage::new("files = 50", "run = [\"/bin/sh\", \"/bin/sleep\"]");
    let make = |name: &str| {
        // Files get the time of the last tick of the kernel, which is shorter.
        let line = format!(
            "i=0; while [ $i -lt 40 ]; do : >{name}$i; i=$((i+1)); done; sleep 0.1; echo done"
        );
        test(&["sh", "-c", &line])
    };
    let run = stage.run(&[make("a"), make("b"), make("c")]);
    for step in run["results"].as_array().unwrap() {
        assert_eq!(step["output"]["stdout"], "done\n", "{run}");
        assert_eq!(step["output"]["exit_code"], 0, "{run}");
    }
}

#[test]
fn a_locked_directory_ends_only_the_execution_that_made_it() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/mkdir\"]");
    let (output, told) = reason(&stage, test(&["sh", "-c", "mkdir -m 0 locked; echo done"]));
    // A superuser reads every directory.
    if is_root() {
        assert_eq!((&output["exit_code"], told.as_str()), (&json!(0), "ok"), "{output}");
    } else {
        assert_eq!((&output["exit_code"], told.as_str()), (&json!(137), "files_limit"), "{output}");
        let message = output["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("workspace/locked is not readable"), "{message}");
    }
    wait_for_newer_files(&stage);
    let (output, told) = reason(&stage, test(&["sh", "-c", "echo done"]));
    assert_eq!((&output["stdout"], told.as_str()), (&json!("done\n"), "ok"), "{output}");
    let locked = stage.workspace("locked");
    std::fs::set_permissions(locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_program_that_is_not_readable_hides_no_files() {
    let stage = Stage::new(
        "run_workspace = true\nfile_mb = 4\ndisk_mb = 16",
        "run = [\"/bin/sh\", \"/bin/dd\", \"/bin/rm\"]",
    );
    let program = stage.workspace("unreadable");
    std::fs::copy("/bin/sh", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o111)).unwrap();
    let fill = "for i in 3 4 5 6 7 8 9; do eval \"exec $i>f\"; rm f; \
                dd if=/dev/zero bs=1048576 count=4 2>/dev/null >&$i; done; while :; do :; done";
    let line = format!("exec ./unreadable -c '{fill}'");
    let args = json!({ "argv": ["sh", "-c", line], "timeout_s": 60 });
    let (output, told) = reason(&stage, json!({ "tool": "build_exec", "args": args }));
    assert_eq!((&output["exit_code"], told.as_str()), (&json!(137), "disk_limit"), "{output}");
}

#[test]
fn nothing_of_an_execution_stays_in_its_own_directory() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/mkdir\", \"/bin/chmod\"]");
    let line = "mkdir \"$TMPDIR/d\" && : >\"$TMPDIR/d/file\" && chmod 0 \"$TMPDIR/d\"";
    let args = json!({ "argv": ["sh", "-c", line], "env": ["TMPDIR"] });
    let (output, _) = reason(&stage, json!({ "tool": "build_exec", "args": args }));
    assert_eq!(output["stderr"], "", "{output}");
    let left = std::fs::read_dir(stage.world.path("cache/staging")).unwrap();
    assert_eq!(left.count(), 0);
}

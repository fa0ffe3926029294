//! What a command can see, what it cannot keep, and how it is ended.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helping functions too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_router_adapter_subprocess::{Subprocess, create_adapter};
use nexus_router_sdk::testing::{self, Recorder};
use nexus_router_sdk::{Adapter, AdapterError, ErrorKind, Object};
use serde_json::{Value, json};

/// Longer than anything here takes on a slow machine, and much shorter than the commands run.
const PATIENCE: Duration = Duration::from_secs(10);

fn shell(script: &str, config: Value) -> Subprocess {
    let mut config = config;
    config["base_cmd"] = json!(["sh", "-c", script, "tool"]);
    create_adapter(None, serde_json::from_value(config).unwrap()).unwrap()
}

fn call(adapter: &Subprocess) -> Result<Object, AdapterError> {
    testing::call(adapter, "t", "m", json!({}))
}

fn run(script: &str, config: Value) -> Value {
    Value::Object(call(&shell(script, config)).unwrap())
}

fn fail(script: &str, config: Value) -> AdapterError {
    expected(call(&shell(script, config)))
}

/// Every failure is operational and tells which arguments it had.
fn expected(result: Result<Object, AdapterError>) -> AdapterError {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operational, "{error}");
    assert_eq!(error.details["args_digest"].as_str().map(str::len), Some(12), "{error}");
    error
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_pid(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A killed process is gone, or waits as a zombie for a parent that this test does not control.
fn is_dead(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// A script that leaves a process behind and tells its id in the file `$PIDFILE`.
const LEAVE_BEHIND: &str =
    "sleep 300 & echo $! > \"$PIDFILE.new\"; mv \"$PIDFILE.new\" \"$PIDFILE\";";

#[test]
fn timeout_ends_the_whole_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let config = json!({ "timeout_s": 2, "env": { "PIDFILE": file } });
    let error = fail(&format!("{LEAVE_BEHIND} wait"), config);
    assert_eq!((error.code.as_str(), &error.details["timeout_s"]), ("TIMEOUT", &json!(2.0)));
    let pid = read_pid(&file).unwrap();
    until("the grandchild is dead", || is_dead(pid));
}

#[test]
fn callers_deadline_ends_a_command_too() {
    let adapter = shell("exec sleep 300", json!({ "timeout_s": 200 }));
    let start = Instant::now();
    let context = Recorder::default().context_with_time(Duration::from_millis(200));
    let error = expected(adapter.call(&context, "t", "m", Object::new()));
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(error.code, "TIMEOUT");
    assert_eq!(error.details["limited_by"], "the call's deadline");
    assert!(error.details["timeout_s"].as_f64().unwrap() <= 0.2);
}

#[test]
fn cancellation_ends_the_whole_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let adapter = shell(&format!("{LEAVE_BEHIND} wait"), json!({ "env": { "PIDFILE": file } }));
    let (context, cancel) = Recorder::default().cancellable_context();
    let error = std::thread::scope(|scope| {
        let call = scope.spawn(|| adapter.call(&context, "t", "m", Object::new()));
        until("the grandchild runs", || file.exists());
        cancel();
        expected(call.join().unwrap())
    });
    assert_eq!(error.code, "CANCELLED");
    let pid = read_pid(&file).unwrap();
    until("the grandchild is dead", || is_dead(pid));

    fs::remove_file(&file).unwrap();
    assert_eq!(expected(adapter.call(&context, "t", "m", Object::new())).code, "CANCELLED");
    assert!(!file.exists(), "a cancelled call starts nothing");
}

#[test]
fn call_past_its_deadline_starts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("ran");
    let adapter = shell("touch \"$MARKER\"; echo '{}'", json!({ "env": { "MARKER": marker } }));
    let context = Recorder::default().context_with_time(Duration::ZERO);
    assert_eq!(expected(adapter.call(&context, "t", "m", Object::new())).code, "TIMEOUT");
    let (context, cancel) = Recorder::default().cancellable_context();
    cancel();
    assert_eq!(expected(adapter.call(&context, "t", "m", Object::new())).code, "CANCELLED");
    assert!(!marker.exists());
}

#[test]
fn command_that_leaves_a_process_behind_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let start = Instant::now();
    let config = json!({ "timeout_s": 200, "env": { "PIDFILE": file } });
    assert_eq!(run(&format!("{LEAVE_BEHIND} echo '{{}}'"), config), json!({}));
    assert!(start.elapsed() < PATIENCE);
    let pid = read_pid(&file).unwrap();
    until("the process left behind is dead", || is_dead(pid));
}

#[test]
fn process_left_behind_cannot_write_for_ever() {
    let start = Instant::now();
    let error = fail("yes & echo '{}'; sleep 0.1", json!({ "timeout_s": 200 }));
    assert!(["INVALID_JSON_OUTPUT", "OUTPUT_TOO_LARGE"].contains(&error.code.as_str()), "{error}");
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn output_before_the_exit_is_complete() {
    // More than a pipe holds, so that the command ends while much of it is unread.
    let script = "printf '{\"a\":\"'; head -c 3000000 /dev/zero | tr '\\0' x; printf '\"}'";
    assert_eq!(run(script, json!({}))["a"].as_str().unwrap().len(), 3_000_000);
}

#[test]
fn output_is_bounded() {
    let start = Instant::now();
    let config = json!({ "timeout_s": 200, "max_stdout_chars": 10 });
    let error = fail("head -c 52428800 /dev/zero | tr '\\0' x; sleep 300", config);
    assert_eq!(error.code, "OUTPUT_TOO_LARGE");
    assert_eq!(error.details["max_output_bytes"], 10 * 1024 * 1024);
    assert_eq!(error.details["stdout_excerpt"], "xxxxxxxxxx... [truncated at 10]");

    let config = json!({ "timeout_s": 200, "max_output_bytes": 4 });
    assert_eq!(run("printf '{  }'", config.clone()), json!({}));
    assert_eq!(fail("printf '{   }'", config.clone()).code, "OUTPUT_TOO_LARGE");
    assert_eq!(fail("exec yes", config).code, "OUTPUT_TOO_LARGE");

    let much_stderr = "head -c 52428800 /dev/zero | tr '\\0' x >&2; echo '{}'";
    assert_eq!(run(much_stderr, json!({ "timeout_s": 200 })), json!({}));
    let config = json!({ "timeout_s": 200, "max_stderr_chars": 3 });
    let error = fail("head -c 5242880 /dev/zero | tr '\\0' x >&2; exit 3", config);
    assert_eq!(error.details["stderr_excerpt"], "xxx... [truncated at 3]");
    assert!(start.elapsed() < 3 * PATIENCE);
}

#[test]
fn environment_is_what_is_allowed_and_added() {
    let script = "printf '{\"pkg\":\"%s\",\"own\":\"%s\",\"path\":%s}' \
                  \"$CARGO_PKG_NAME\" \"$OWN\" \"$([ -n \"$PATH\" ] && echo true || echo false)\"";
    let package = std::env::var("CARGO_PKG_NAME").unwrap();
    let env = json!({ "OWN": "x" });
    assert_eq!(run(script, json!({ "env": env })), json!({ "pkg": "", "own": "x", "path": true }));
    let allow = json!({ "env": env, "env_allow": ["PATH", "CARGO_PKG_NAME", "NOT_SET_ANYWHERE"] });
    assert_eq!(run(script, allow)["pkg"], package);

    let names = run(
        "env -0 | tr '\\0\\n' '\\n ' | cut -d= -f1 | sort | tr '\\n' ' ' |
                     sed 's/.*/{\"names\":\"&\"}/'",
        json!({ "env": { "OWN": "x" } }),
    );
    let by_shell = ["OLDPWD", "PWD", "SHLVL", "_"];
    let allowed = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OWN"];
    for name in names["names"].as_str().unwrap().split_whitespace() {
        assert!(by_shell.contains(&name) || allowed.contains(&name), "{name} came through");
    }
}

#[test]
fn bad_variables_are_refused() {
    for (env, key) in [
        (json!({ "A": null }), "A"),
        (json!({ "A": "secret\u{0}" }), "A"),
        (json!({ "A=B": "secret" }), "A=B"),
        (json!({ "": "secret" }), ""),
    ] {
        let error = fail("echo '{}'", json!({ "env": env }));
        assert_eq!((error.code.as_str(), &error.details["key"]), ("ENV_INVALID", &json!(key)));
        assert!(!format!("{error:?}").contains("secret"));
    }
}

#[test]
fn stdin_is_empty() {
    assert_eq!(run("printf '{\"read\":%d}' \"$(cat | wc -c)\"", json!({})), json!({ "read": 0 }));
}

#[test]
fn descriptors_of_the_host_are_not_inherited() {
    use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
    use std::os::fd::AsRawFd;
    let file = tempfile::tempfile().unwrap();
    let careless = fcntl_dupfd_cloexec(&file, 200).unwrap();
    fcntl_setfd(&careless, FdFlags::empty()).unwrap();
    let script = format!(
        "if [ -e /proc/$$/fd/{} ]; then echo '{{\"open\":true}}'; else echo '{{\"open\":false}}'; fi",
        careless.as_raw_fd()
    );
    assert_eq!(run(&script, json!({})), json!({ "open": false }));
}

#[test]
fn args_file_is_private_and_goes_away() {
    let script = "printf '{\"path\":\"%s\",\"file\":\"%s\",\"directory\":\"%s\"}' \"$5\" \
                  \"$(stat -c %a \"$5\")\" \"$(stat -c %a \"$(dirname \"$5\")\")\"";
    let seen = run(script, json!({}));
    assert_eq!((&seen["file"], &seen["directory"]), (&json!("600"), &json!("700")));
    let path = Path::new(seen["path"].as_str().unwrap()).to_owned();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("nexus-router-args-") && name.ends_with(".json"), "{name}");
    assert!(path.is_absolute() && !path.exists() && !path.parent().unwrap().exists());

    for (script, code) in [
        ("echo \"$5\" >&2; exit 1", "NONZERO_EXIT"),
        ("echo \"$5\" >&2; exec sleep 300", "TIMEOUT"),
        ("rm -r \"$(dirname \"$5\")\"; echo \"$5\" >&2; exit 1", "NONZERO_EXIT"),
    ] {
        let error = fail(script, json!({ "timeout_s": 2 }));
        assert_eq!(error.code, code);
        let path = Path::new(error.details["stderr_excerpt"].as_str().unwrap().trim());
        assert!(path.is_absolute() && !path.parent().unwrap().exists(), "{path:?}");
    }
}

#[test]
fn words_that_are_no_words_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("ran");
    let adapter = shell("touch \"$MARKER\"; echo '{}'", json!({ "env": { "MARKER": marker } }));
    for (tool, method) in [("--help", "m"), ("t", "-x"), ("-", "m"), ("a\0b", "m"), ("t", "\0")] {
        let error = expected(testing::call(&adapter, tool, method, json!({ "a": 1 })));
        assert_eq!(error.code, "INVALID_ARGUMENT", "{tool:?} {method:?}");
    }
    assert!(!marker.exists());
    let long = "x".repeat(3 << 20);
    let error = expected(testing::call(&adapter, &long, "m", json!({})));
    assert_eq!(
        error.to_string(),
        "OS_ERROR: OS error executing command: [Errno 7] Argument list too long"
    );
    let context = Recorder::default().dry_run_context();
    let error = expected(adapter.call(&context, "t", "m", Object::new()));
    assert_eq!(error.code, "DRY_RUN_UNSUPPORTED");
    assert!(!marker.exists());
}

#[test]
fn bytes_that_are_no_text_are_no_json() {
    let error = fail("printf '{\"a\":\"\\377\"}'", json!({}));
    assert_eq!(error.code, "INVALID_JSON_OUTPUT");
    assert_eq!(error.message, "Invalid JSON output: Invalid UTF-8 at byte 6");
    let error = fail("printf '\\377' >&2; exit 1", json!({}));
    assert_eq!(error.details["stderr_excerpt"], "\u{fffd}");
}

#[test]
fn only_excerpts_are_redacted() {
    let output = json!({ "password": "hunter2", "text": "token=abc" });
    assert_eq!(run(&format!("echo '{output}'"), json!({})), output);
    for script in [
        "echo '{\"password\": \"hunter2\"} rest'",
        "echo 'Authorization: Basic hunter2' >&2; exit 1",
        "echo 'mysql://root:hunter2@db/x' >&2; echo 'pwd=hunter2'; exec sleep 300",
    ] {
        let error = fail(script, json!({ "timeout_s": 2 }));
        let shown = serde_json::to_string(&error).unwrap();
        assert!(shown.contains("[REDACTED]") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn programs_that_cannot_run_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("program");
    let attempt = |mode: u32, content: &[u8]| {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let config = serde_json::from_value(json!({ "base_cmd": [file] })).unwrap();
        let adapter = create_adapter(None, config).unwrap();
        let mut told = String::new();
        // Another test may have forked while the file was open for writing.
        until("the file is no longer busy", || {
            told = expected(call(&adapter)).to_string();
            !told.contains("Text file busy")
        });
        told
    };
    let path = file.display();
    assert_eq!(
        attempt(0o600, b"#!/bin/sh\n"),
        format!("PERMISSION_DENIED: Permission denied executing command: {path}")
    );
    assert_eq!(
        attempt(0o700, b"#!/nonexistent\n"),
        format!("COMMAND_NOT_FOUND: Command not found: {path}")
    );
    assert_eq!(
        attempt(0o700, b"\x7fELF garbage"),
        "OS_ERROR: OS error executing command: [Errno 8] Exec format error"
    );
}

#[test]
fn calls_may_run_at_once() {
    let adapter = shell("echo '{\"a\":1}'", json!({}));
    std::thread::scope(|scope| {
        for call_thread in (0..8).map(|_| scope.spawn(|| call(&adapter))).collect::<Vec<_>>() {
            assert_eq!(call_thread.join().unwrap().unwrap()["a"], 1);
        }
    });
}

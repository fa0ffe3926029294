//! Programs that do what no program should: contained, ended, and recorded.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::escapes::{attempts, probe_step, probing_with, run_probe};
use super::limits::wait_for_newer_files;
use super::{Stage, read, shell_granted, test};

/// Carries out a step, and returns its output and the reason that is sealed.
pub(super) fn reason(stage: &Stage, step: Value) -> (Value, String) {
    let run = stage.run(&[step]);
    let summary = read(&stage.evidence(&run).join("step-1/run_summary.json"));
    let output = run["results"][0]["output"].clone();
    assert_eq!(
        summary["outcome"],
        if output["ok"] == true { "SUCCEEDED" } else { "FAILED" },
        "{run}"
    );
    (output, summary["reason"].as_str().unwrap().to_owned())
}

/// Says whether a process with this text among its arguments is there.
fn is_alive(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
}

fn assert_gone(mark: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while is_alive(mark) {
        assert!(Instant::now() < end, "{mark} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a text that no other process has among its arguments.
fn mark(stage: &Stage) -> String {
    let directory = stage.world.directory.path();
    format!("mark{}", directory.file_name().unwrap().to_string_lossy().replace('.', ""))
}

#[test]
fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let stage = Stage::usual();
    let mark = mark(&stage);
    // It ignores every signal that can be ignored, and so do those that it starts.
    let line = format!(
        "trap '' TERM INT HUP; (while :; do sleep 1; done; : {mark}) & while :; do sleep 1; done"
    );
    let step =
        json!({ "tool": "test_exec", "args": { "argv": ["sh", "-c", line], "timeout_s": 1 } });
    let (output, reason) = reason(&stage, step);
    assert_eq!((&output["exit_code"], reason.as_str()), (&json!(124), "timeout"), "{output}");
    assert_gone(&mark);
    stage.assert_verified();
}

#[test]
fn what_is_left_in_the_background_is_ended() {
    let stage = Stage::usual();
    let mark = mark(&stage);
    let line = format!("(sleep 1000; : {mark}) >/dev/null 2>&1 & echo done");
    let (output, reason) = reason(&stage, test(&["sh", "-c", &line]));
    assert_eq!((&output["stdout"], reason.as_str()), (&json!("done\n"), "ok"), "{output}");
    assert_gone(&mark);
}

#[test]
fn a_step_that_is_given_less_time_than_its_program_ends_as_one_that_took_too_long() {
    let stage = Stage::usual();
    let mut step = test(&["sh", "-c", "echo begun; while :; do :; done"]);
    step["timeout_ms"] = json!(1500);
    let (output, reason) = reason(&stage, step);
    assert_eq!((&output["exit_code"], reason.as_str()), (&json!(124), "timeout"), "{output}");
    assert_eq!(output["stdout"], "begun\n", "what it wrote until then is kept");
}

#[test]
fn who_writes_without_end_is_ended_and_what_fits_is_kept() {
    let stage = Stage::new("output_kb = 64", "run = [\"/bin/sh\"]");
    for (line, stream) in [
        ("while :; do echo yyyyyyyyyyyyyyyy; done", "stdout"),
        ("while :; do echo y >&2; done", "stderr"),
    ] {
        let (output, reason) = reason(&stage, test(&["sh", "-c", line]));
        assert_eq!((&output["exit_code"], reason.as_str()), (&json!(137), "output_limit"));
        assert_eq!(output[stream].as_str().unwrap().len(), 64 * 1024, "{stream}");
    }
    // One that writes too much and ends at once is no different.
    let much = "i=0; while [ $i -lt 70000 ]; do printf y; i=$((i+1)); done";
    let (_, reason) = reason(&stage, test(&["sh", "-c", much]));
    assert_eq!(reason, "output_limit");
    stage.assert_verified();
}

#[test]
fn what_is_no_text_is_recorded_all_the_same() {
    let stage = Stage::usual();
    let (output, reason) = reason(&stage, test(&["sh", "-c", r"printf '\377\000a'"]));
    assert_eq!((&output["stdout"], reason.as_str()), (&json!("\u{fffd}\0a"), "ok"));
    stage.assert_verified();
}

#[test]
fn who_multiplies_without_end_is_ended() {
    let stage = Stage::usual();
    let mark = mark(&stage);
    let line = format!("f() {{ f & f & : {mark}; }}; f; while :; do :; done");
    let args = json!({ "argv": ["sh", "-c", line], "timeout_s": 60 });
    let (output, told) = reason(&stage, json!({ "tool": "test_exec", "args": args }));
    assert_eq!(told, "process_limit", "{output}");
    assert_gone(&mark);
    // Those that have ended are not counted any more.
    let stage = Stage::new("processes = 3", "run = [\"/bin/sh\"]");
    let many = "i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done; echo done";
    let (output, told) = reason(&stage, test(&["sh", "-c", many]));
    assert_eq!((&output["stdout"], told.as_str()), (&json!("done\n"), "ok"), "{output}");
    let spin = "while :; do :; done &";
    let line = format!("{spin} {spin} {spin} wait");
    let (output, told) = reason(&stage, test(&["sh", "-c", &line]));
    assert_eq!(told, "process_limit", "four at once: {output}");
}

#[test]
fn hidden_processes_end_with_their_execution() {
    let stage = probing_with("timeout_s = 30", "");
    for method in ["outlive_by_name", "outlive_by_first_thread"] {
        let file = stage.workspace(method);
        let wanted = json!([[method, { "path": file }]]);
        let (run, answers) = attempts(&stage, "test_exec", &wanted, None);
        assert_eq!(answers[0]["errno"], 0, "{method}: {answers:?}");
        // The process that was left had it locked.
        let locked = std::fs::File::open(file).unwrap().try_lock();
        assert!(locked.is_ok(), "{method}: {locked:?}");
        assert_eq!(run["results"][0]["output"]["exit_code"], 0, "{method}: {run}");
    }
}

#[test]
fn processes_with_any_name_are_counted() {
    let stage = probing_with("processes = 16\ntimeout_s = 60", "");
    let arguments =
        stage.plan(&[probe_step("test_exec", &json!([["multiply_by_name", {}]]), None)]);
    let run = run_probe(&stage, &arguments);
    assert_eq!(run["results"][0]["output"]["errors"][0]["code"], "process_limit", "{run}");
}

#[test]
fn who_fills_the_disk_is_ended() {
    let stage = Stage::new("file_mb = 4\ndisk_mb = 16", "run = [\"/bin/sh\", \"/bin/dd\"]");
    let fill =
        "i=0; while :; do dd if=/dev/zero of=big$i bs=65536 count=32 2>/dev/null; i=$((i+1)); done";
    let step =
        json!({ "tool": "test_exec", "args": { "argv": ["sh", "-c", fill], "timeout_s": 60 } });
    let (output, reason) = reason(&stage, step);
    assert_eq!(reason, "disk_limit", "{output}");
    let names = std::fs::read_dir(stage.workspace("")).unwrap().flatten();
    let written: u64 = names.map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(written > 16 << 20, "{written}");
    // A single file that is too large ends whoever writes it.
    let (output, reason) = super::hostile::reason(
        &stage,
        json!({ "tool": "test_exec", "args": { "argv": ["dd", "if=/dev/zero", "of=one", "bs=1000000", "count=9"] } }),
    );
    assert_eq!(reason, format!("signal:{}", 25), "{output}");
    assert_eq!(std::fs::metadata(stage.workspace("one")).unwrap().len(), 4 << 20);
}

#[test]
fn open_files_without_names_count_as_disk() {
    let stage =
        Stage::new("file_mb = 4\ndisk_mb = 16", "run = [\"/bin/sh\", \"/bin/dd\", \"/bin/rm\"]");
    let fill = "for i in 3 4 5 6 7 8 9; do eval \"exec $i>f\"; rm f; \
                dd if=/dev/zero bs=1048576 count=4 2>/dev/null >&$i; done; while :; do :; done";
    let step =
        json!({ "tool": "test_exec", "args": { "argv": ["sh", "-c", fill], "timeout_s": 60 } });
    let (output, reason) = reason(&stage, step);
    assert_eq!((&output["exit_code"], reason.as_str()), (&json!(137), "disk_limit"), "{output}");
}

#[test]
fn files_in_memory_and_mapped_files_count_as_disk() {
    let stage = probing_with("file_mb = 256\ndisk_mb = 16\ntimeout_s = 60", "");
    let methods =
        ["hold_memory_files", "hold_mapped_files", "hold_mapped_pages", "hold_mapped_raw_names"];
    for method in methods {
        let wanted = json!([[method, { "path": stage.workspace("held") }]]);
        let arguments = stage.plan(&[probe_step("build_exec", &wanted, None)]);
        let run = run_probe(&stage, &arguments);
        let output = &run["results"][0]["output"];
        assert_eq!(output["errors"][0]["code"], "disk_limit", "{method}: {run}");
    }
}

#[test]
fn too_many_files_end_an_execution() {
    let stage = Stage::new("files = 500", "run = [\"/bin/sh\", \"/bin/rm\", \"/bin/mkdir\"]");
    for make in [": >f$i", "mkdir d$i"] {
        let line = format!("i=0; while :; do {make}; i=$((i+1)); done");
        let args = json!({ "argv": ["sh", "-c", line], "timeout_s": 60 });
        let (output, told) = reason(&stage, json!({ "tool": "build_exec", "args": args }));
        assert_eq!((&output["exit_code"], told.as_str()), (&json!(137), "files_limit"), "{output}");
        assert_eq!(output["errors"][0]["code"], "files_limit");
    }
    stage.assert_verified();
    // Files that are gone, and those of earlier executions, do not count.
    let stage = Stage::new("files = 500", "run = [\"/bin/sh\"]");
    for number in 0..600 {
        std::fs::write(stage.workspace(&format!("old{number}")), "x").unwrap();
    }
    wait_for_newer_files(&stage);
    let line = "i=0; while [ $i -lt 3000 ]; do echo $i >same; i=$((i+1)); done; echo done";
    let (output, told) = reason(&stage, test(&["sh", "-c", line]));
    assert_eq!((&output["stdout"], told.as_str()), (&json!("done\n"), "ok"), "{output}");
}

#[test]
fn a_crash_is_told_by_its_signal() {
    let stage = Stage::usual();
    let (output, reason) = reason(&stage, test(&["sh", "-c", "kill -SEGV $$"]));
    assert_eq!((&output["exit_code"], reason.as_str()), (&json!(139), "signal:11"), "{output}");
}

#[test]
fn a_program_that_cannot_be_started_is_no_result_of_it() {
    let stage = Stage::new("", "run = [\"/etc/passwd\"]");
    let (output, reason) = reason(&stage, test(&["passwd"]));
    assert_eq!(
        (&output["exit_code"], reason.as_str()),
        (&json!(125), "executor_failed"),
        "{output}"
    );
}

#[test]
fn links_are_not_followed_whoever_put_them_there() {
    let stage = Stage::usual();
    let outside = stage.outside("");
    // Also while somebody puts links there and takes them away again.
    let (target, workspace) = (outside.clone(), stage.workspace(""));
    std::fs::create_dir(stage.workspace("real")).unwrap();
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = std::sync::Arc::clone(&over);
    let racer = std::thread::spawn(move || {
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            drop(std::os::unix::fs::symlink(&target, workspace.join("next")));
            drop(std::fs::rename(workspace.join("next"), workspace.join("place")));
            drop(std::fs::remove_file(workspace.join("place")));
            drop(std::fs::create_dir(workspace.join("place")));
            drop(std::fs::remove_dir_all(workspace.join("place")));
        }
    });
    let mut steps = Vec::new();
    for number in 0..40 {
        let mode = ["create", "replace", "append"][number % 3];
        let args = json!({ "path": format!("place/file{number}"), "text": "x", "mode": mode });
        steps.push(json!({ "tool": "file_write", "args": args }));
        let args = json!({ "paths": ["place"], "name": "p.tar" });
        steps.push(json!({ "tool": "artifact_pack", "args": args }));
    }
    let run = stage.run(&steps);
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    racer.join().unwrap();
    assert_eq!(run["results"].as_array().unwrap().len(), 80, "{run}");
    stage.assert_untouched();
    for number in 1..=80 {
        let archive = stage.evidence(&run).join(format!("step-{number}/outputs/artifacts/p.tar"));
        let packed = std::fs::read(archive).unwrap_or_default();
        assert!(!packed.windows(9).any(|part| part == b"untouched"), "what is outside was packed");
    }
    // A link that stays leads nowhere either.
    drop(std::fs::remove_dir_all(stage.workspace("place")));
    std::os::unix::fs::symlink(&outside, stage.workspace("stays")).unwrap();
    for args in [
        json!({ "path": "stays/made", "text": "x" }),
        json!({ "path": "stays", "text": "x", "mode": "append" }),
    ] {
        let step = stage.step(json!({ "tool": "file_write", "args": args }));
        assert_eq!(step["output"]["ok"], false, "{step}");
    }
    let step = stage
        .step(json!({ "tool": "artifact_pack", "args": { "paths": ["stays/file"], "name": "p" } }));
    assert_eq!(step["output"]["ok"], false, "{step}");
    // And nothing is made writable by one that was named as writable.
    let args =
        json!({ "argv": ["sh", "-c", "echo x >stays/file"], "paths": ["stays"], "cwd": "stays" });
    let step = stage.step(json!({ "tool": "test_exec", "args": args }));
    assert_eq!(step["error"]["code"], "SANDBOX_UNAVAILABLE", "{step}");
    stage.assert_untouched();
}

#[test]
fn no_file_of_others_gets_a_mode_where_that_is_denied() {
    let stage =
        Stage::new("shell_exec = true", "run = [\"/bin/sh\", \"/bin/chmod\", \"/usr/bin/touch\"]");
    std::fs::write(stage.workspace("own"), "x").unwrap();
    let outside = stage.outside("file");
    let line = format!(
        "chmod 777 {0} 2>/dev/null && exit 1; chmod 777 own 2>/dev/null && exit 2; touch -d 2001-01-01 own 2>/dev/null && exit 3; exit 0",
        outside.display()
    );
    let (output, _) = reason(&stage, shell_granted(&line));
    assert_eq!(output["exit_code"], 0, "{output}");
    // Where builds need it, no file becomes one that lends its owner's rights.
    let line = "chmod 755 own || exit 1; chmod 4755 own 2>/dev/null && exit 2; chmod g+s own 2>/dev/null && exit 3; touch -d 2001-01-01 own || exit 4";
    let (output, _) = reason(&stage, test(&["sh", "-c", line]));
    assert_eq!(output["exit_code"], 0, "{output}");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(stage.workspace("own")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

//! Programs: those that are granted run, confined like the adapter that starts them; no others do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nexus_router::grant::Grants;
use serde_json::{Value, json};

use super::{EACCES, EPERM, Stage, is_root, path};

/// A shell, by the path behind all links.
fn shell() -> PathBuf {
    std::fs::canonicalize("/bin/sh").unwrap()
}

fn running(more: impl FnOnce(&Stage) -> Grants) -> Stage {
    Stage::new(|stage| Grants { run: vec![shell()], ..more(stage) })
}

/// Runs a script, and returns how it ended, and what it printed.
fn script(stage: &Stage, text: &str) -> (Value, String, String) {
    let output = stage.data("run", &json!({ "path": shell(), "args": ["-c", text] }));
    let text = |key: &str| output[key].as_str().unwrap().to_owned();
    (output["code"].clone(), text("out"), text("err"))
}

#[test]
fn a_granted_program_runs_and_is_confined_too() {
    let stage = running(|_| Grants::default());
    assert_eq!(script(&stage, "echo alive; exit 3").0, 3);
    assert_eq!(script(&stage, "echo alive").1, "alive\n");
    let made = stage.outside("made");
    let (code, _, error) = script(&stage, &format!("echo x > '{}'", made.display()));
    assert!(code != 0 && error.contains("ermission denied"), "{code} {error}");
    let (_, out, _) = script(
        &stage,
        &format!("read line < '{}'; echo \"got $line\"", stage.outside("file").display()),
    );
    assert_eq!(out.trim_end(), "got");
    let (code, _, _) = script(&stage, &format!("kill -0 {}", std::process::id()));
    assert_ne!(code, 0);
    // Two children deep it is no different.
    let deep = format!("( ( echo x > '{}' ) ; echo done )", made.display());
    assert_eq!(script(&stage, &deep).1, "done\n");
    stage.assert_untouched();
}

#[test]
fn no_other_program_runs() {
    let stage =
        running(|stage| Grants { write: vec![stage.world.path("granted")], ..Grants::default() });
    let other = Path::new("/bin/true");
    stage.assert_denied("run", &path(other), &[EACCES]);
    stage.assert_denied("execute", &path(other), &[EACCES]);
    let (code, _, _) = script(&stage, "/bin/true");
    assert_eq!(code, 126);
    // What it makes itself is no program either: not on disk, and not in memory.
    let own = stage.granted("own");
    std::fs::copy(shell(), &own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.assert_denied("execute", &path(&own), &[EACCES]);
    stage.assert_denied("make_runnable_memory", &json!({}), &[EPERM]);
    stage.assert_denied("execute_memory", &path(&own), &[EPERM]);
}

#[test]
fn signals_stay_among_what_was_started() {
    let stage = running(|_| Grants::default());
    assert_eq!(script(&stage, "kill -0 $$ && echo self").1, "self\n");
    let child = "(while :; do :; done) & kill $! && wait $!; echo $?";
    assert_eq!(script(&stage, child).1, "143\n");
    for method in ["signal_parent", "signal_parent_by_descriptor", "own_signals_to_parent"] {
        stage.assert_denied(method, &json!({}), &[EPERM]);
    }
    for method in ["trace_parent", "read_parent_memory", "limit_parent", "outlive_parent"] {
        stage.assert_denied(method, &json!({}), &[EPERM]);
    }
    for method in ["new_user_namespace", "clone_user_namespace", "clone_for_parent"] {
        stage.assert_denied(method, &json!({}), &[EPERM]);
    }
}

#[test]
fn a_process_of_a_process_writes_nothing_either() {
    let stage = running(|_| Grants::default());
    let args = path(stage.outside("made"));
    assert_eq!(stage.data("write_after_two_forks", &args), EACCES);
    stage.assert_untouched();
}

#[test]
fn programs_have_the_other_grants_and_nothing_of_a_superuser() {
    let stage = Stage::new(|stage| Grants {
        run: vec![shell(), std::fs::canonicalize("/bin/cat").unwrap()],
        read: vec!["/proc".into()],
        write: vec![stage.world.path("granted")],
        ..Grants::default()
    });
    let written = format!("echo new > '{}' && echo ok", stage.granted("new").display());
    assert_eq!(script(&stage, &written).1, "ok\n");
    assert_eq!(std::fs::read_to_string(stage.granted("new")).unwrap(), "new\n");
    let (_, status, error) = script(&stage, "exec /bin/cat /proc/self/status");
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), Some("0000000000000000"), "{set} {status} {error}");
    }
    assert_eq!(value("NoNewPrivs:"), Some("1"));
    assert_eq!(value("Seccomp:"), Some("2"));
}

#[test]
fn a_program_with_the_rights_of_another_user_gets_none_of_them() {
    // Whatever sets its user when it is started; `su` is everywhere.
    let Some(su) = ["/bin/su", "/usr/bin/su"].iter().map(Path::new).find(|path| path.exists())
    else {
        panic!("there is no su to try");
    };
    let granted = Stage::new(|_| Grants { run: vec![su.to_owned()], ..Grants::default() });
    let not_granted = running(|_| Grants::default());
    not_granted.assert_denied("run", &path(su), &[EACCES]);
    // It starts, and asks in vain: it may not read who may become whom.
    let args = json!({ "path": su, "args": ["-c", "echo escaped"] });
    let output = granted.data("run", &args);
    assert_ne!(output["code"], 0, "{output}");
    assert!(!output["out"].as_str().unwrap().contains("escaped"), "{output}");
    if !is_root() {
        assert!(output["err"].as_str().is_some_and(|text| !text.is_empty()), "{output}");
    }
}

#[test]
fn a_program_cannot_read_the_memory_of_its_adapter() {
    let stage = running(|_| Grants::default());
    for file in ["maps", "mem", "environ"] {
        let (_, out, _) =
            script(&stage, &format!("read -r line < /proc/$PPID/{file} && echo \"read $line\""));
        assert_eq!(out, "", "{file}");
    }
}

#[test]
fn programs_whose_parents_have_ended_are_buried() {
    let stage = running(|_| Grants::default());
    for _ in 0..20 {
        assert_eq!(script(&stage, "(exec >&- 2>&-; exit 0) & echo begun").1, "begun\n");
    }
    let guard = stage.worker.get().unwrap().workers().unwrap().processes[0];
    crate::worker::eventually("none of them is left", || {
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"));
        // The worker itself is one.
        children.unwrap().split_whitespace().count() == 1
    });
}

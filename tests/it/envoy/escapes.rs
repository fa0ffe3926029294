//! Ways out of the sandbox of an execution, each tried by a program that is granted.
//!
//! The program is this test itself, run again: it loads the adapter that makes one attempt per call, and makes
//! those that it reads from its standard input.

use std::io::Read as _;
use std::path::Path;

use nexus_router::loader::DryRun;
use nexus_router::{Adapter, Call, Loader};
use serde_json::{Value, json};

use super::Stage;
use crate::confinement::request;
use crate::support::{World, built_directory};

/// Stands before the answers among what else a test prints.
const MARK: &str = "ANSWERS ";
/// Where the probe finds its library, in the workspace.
const CACHE: &str = "probe-cache";
/// Makes the test the program, and names the place of its library.
const ROLE: &str = "ENVOY_PROBES";

/// A name that the class `repo_ops` starts.
const REPOSITORY_PROGRAM: &str = "hg";

const EPERM: i64 = 1;
const EOPNOTSUPP: i64 = 95;
const EACCES: i64 = 13;

/// Makes a stage whose envoy may run this test.
pub(super) fn probing(grants: &str) -> Stage {
    probing_with("", grants)
}

/// As [`probing`], with more settings.
pub(super) fn probing_with(settings: &str, grants: &str) -> Stage {
    let test = std::env::current_exe().unwrap();
    // The class `repo_ops` starts programs of certain names alone.
    let programs = tempfile::tempdir().unwrap();
    let repository_program = programs.path().join(REPOSITORY_PROGRAM);
    std::os::unix::fs::symlink(&test, &repository_program).unwrap();
    let mut stage = Stage::new(
        &format!("shell_exec = true\n{settings}"),
        &format!(
            "run = [\"/bin/sh\", {test:?}, {repository_program:?}]\nread = [{:?}]\nenv = [\"{ROLE}\"]\n{grants}",
            built_directory()
        ),
    );
    stage.programs = Some(programs);
    // The probe cannot keep a copy of its library where modes cannot be changed, so there is one already.
    load_escapes(&stage.workspace(CACHE));
    stage
}

/// Loads the adapter that makes attempts.
fn load_escapes(cache: &Path) -> Adapter {
    let world = World::new();
    let cache_dir = cache.to_owned();
    let loader = Loader { dry_run: DryRun::Off, cache_dir, ..world.loader() };
    loader.load(&request("escapes").load()).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes attempts in one execution, and returns the run and the answers.
pub(super) fn attempts(
    stage: &Stage,
    class: &str,
    wanted: &Value,
    grants: Option<Value>,
) -> (Value, Vec<Value>) {
    let step = probe_step(class, wanted, grants);
    let arguments = stage.plan(&[step]);
    let run = run_probe(stage, &arguments);
    let output = &run["results"][0]["output"];
    let printed = output["stdout"].as_str().unwrap_or_else(|| panic!("{run}"));
    let line = printed.lines().find_map(|line| Some(line.split_once(MARK)?.1));
    let answers = line.unwrap_or_else(|| panic!("{output}"));
    (run.clone(), serde_json::from_str(answers).unwrap())
}

/// Carries out a plan whose programs are probes.
pub(super) fn run_probe(stage: &Stage, arguments: &[String; 8]) -> Value {
    let mut command = stage.command(&arguments.each_ref().map(String::as_str));
    let run = command.env(ROLE, stage.workspace(CACHE)).output().unwrap();
    serde_json::from_slice(&run.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&run.stderr)))
}

/// Makes the step that makes attempts.
pub(super) fn probe_step(class: &str, wanted: &Value, grants: Option<Value>) -> Value {
    let test = std::env::current_exe().unwrap();
    let started = match class {
        "repo_ops" => REPOSITORY_PROGRAM,
        _ => test.to_str().unwrap(),
    };
    let argv = [started, "--exact", "envoy::escapes::probe", "--nocapture"];
    let mut step = json!({ "tool": class, "args": { "argv": argv, "stdin": wanted.to_string(),
        "env": ["TMPDIR", ROLE] } });
    if let Some(grants) = grants {
        step["grants"] = grants;
    }
    step
}

/// Makes attempts, if this is the program; else there is nothing to do.
#[test]
fn probe() {
    let Some(cache) = std::env::var_os(ROLE) else { return };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let wanted: Vec<(String, Value)> = serde_json::from_str(&text).unwrap();
    let adapter = load_escapes(Path::new(&cache));
    let answers: Vec<Value> = wanted
        .iter()
        .map(|(method, args)| {
            let args = args.as_object().unwrap();
            let answer = adapter.call(&Call::new("escape", method, args));
            Value::Object(answer.unwrap_or_else(|error| panic!("{method}: {error:?}")))
        })
        .collect();
    #[allow(clippy::print_stdout, reason = "this is what the program is for")]
    {
        println!("{MARK}{}", json!(answers));
    }
}

#[test]
fn no_way_out_of_a_sandbox_is_open() {
    let stage = probing("");
    let outside = stage.outside("file");
    let to = |name: &str| stage.outside(name);
    let inside = stage.workspace("inside");
    // What an envoy could gain most by: the law, the roles, the log, what is sealed.
    let run =
        stage.run(&[json!({ "tool": "file_write", "args": { "path": "first", "text": "x" } })]);
    let sealed = stage.evidence(&run).join("step-1/run_summary.json");
    let policy = stage.world.path("router.toml");
    let log = stage.world.path("sealed/log/checkpoint");
    let store = stage.world.path("runs.db");
    let trust = nexus_router::seal::trust_path(&stage.world.path("sealed"));
    for file in [&sealed, &policy, &log, &store, &trust] {
        assert!(file.exists(), "{file:?}");
    }
    let protected = [&outside, &sealed, &policy, &log, &store, &trust];
    let before: Vec<Vec<u8>> =
        protected[1..4].iter().map(|file| std::fs::read(file).unwrap()).collect();

    let mut wanted: Vec<(&str, Value, &[i64])> = vec![
        ("write", json!({ "path": inside, "text": "x" }), &[0]),
        ("create", json!({ "path": to("made") }), &[EACCES]),
        ("nameless", json!({ "path": to("") }), &[EACCES]),
        ("make_directory", json!({ "path": to("made") }), &[EACCES]),
        ("make_pipe", json!({ "path": to("made") }), &[EACCES]),
        ("symlink", json!({ "path": to("made"), "to": "/etc/passwd" }), &[EACCES]),
        ("create", json!({ "path": "/dev/shm/nexus-router-test" }), &[EACCES]),
        ("write_after_two_forks", json!({ "path": to("made") }), &[EACCES]),
        ("set_attribute", json!({ "path": inside }), &[EOPNOTSUPP]),
        ("chown", json!({ "path": outside }), &[EPERM]),
        ("tcp_socket", json!({}), &[EPERM]),
        ("tcp_socket_v6", json!({}), &[EPERM]),
        ("mptcp", json!({}), &[EPERM]),
        ("udp", json!({}), &[EPERM]),
        ("udp_v6", json!({}), &[EPERM]),
        ("raw", json!({}), &[EPERM]),
        ("netlink", json!({}), &[EPERM]),
        ("vsock", json!({}), &[EPERM]),
        ("packet", json!({}), &[EPERM]),
        ("unix_datagram", json!({}), &[EPERM]),
        ("unix_path", json!({ "path": "/run/nothing" }), &[EPERM]),
        ("io_uring", json!({}), &[EPERM]),
        ("key", json!({}), &[EPERM]),
        ("bpf", json!({}), &[EPERM]),
        ("userfault", json!({}), &[EPERM]),
        ("performance", json!({}), &[EPERM]),
        ("mount", json!({}), &[EPERM]),
        ("open_file_system", json!({}), &[EPERM]),
        ("open_tree", json!({}), &[EPERM]),
        ("personality", json!({}), &[EPERM]),
        ("own_memory_file", json!({}), &[EACCES]),
        ("make_runnable_memory", json!({}), &[EPERM]),
        ("signal_parent", json!({}), &[EPERM]),
        ("signal_parent_by_descriptor", json!({}), &[EPERM]),
        ("trace_me", json!({}), &[EPERM]),
        ("trace_parent", json!({}), &[EPERM]),
        ("read_parent_memory", json!({}), &[EPERM]),
        ("read_parent_environment", json!({}), &[EACCES]),
        ("see_parent_descriptor", json!({}), &[EACCES]),
        ("limit_parent", json!({}), &[EPERM]),
        ("outlive_parent", json!({}), &[EPERM]),
        ("new_user_namespace", json!({}), &[EPERM]),
        ("clone_user_namespace", json!({}), &[EPERM]),
        ("clone_for_parent", json!({}), &[EPERM]),
        ("execute", json!({ "path": "/bin/cat" }), &[EACCES]),
    ];
    for file in protected {
        for method in ["open_to_write", "open_to_truncate", "truncate", "remove"] {
            wanted.push((method, json!({ "path": file }), &[EACCES]));
        }
        wanted.push(("rename", json!({ "path": inside, "to": file }), &[EACCES]));
        wanted.push((
            "rename",
            json!({ "path": file, "to": stage.workspace("taken") }),
            &[EACCES, 18],
        ));
        wanted.push((
            "link",
            json!({ "path": file, "to": stage.workspace("linked") }),
            &[EACCES, EPERM, 18],
        ));
        // A link in the workspace leads to what is outside, and gives no rights to it.
        let link = stage.workspace(&format!("link-{}", wanted.len()));
        wanted.push(("symlink", json!({ "path": link, "to": file }), &[0]));
        wanted.push(("open_to_write", json!({ "path": link }), &[EACCES]));
    }
    let asked: Vec<Value> = wanted.iter().map(|(method, args, _)| json!([method, args])).collect();
    let (_, answers) = attempts(&stage, "test_exec", &json!(asked), None);
    assert_eq!(answers.len(), wanted.len());
    for ((method, args, expected), answer) in wanted.iter().zip(&answers) {
        let told = if *method == "write_after_two_forks" { "data" } else { "errno" };
        let errno = answer[told].as_i64().unwrap_or(-1);
        assert!(expected.contains(&errno), "{method} {args}: {answer}, not one of {expected:?}");
    }
    let after: Vec<Vec<u8>> =
        protected[1..4].iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert_eq!(before[..2], after[..2], "what is sealed, and the law");
    stage.assert_untouched();
    stage.assert_verified();
}

#[test]
fn nothing_is_inherited_and_nothing_of_the_router_is_seen() {
    let stage = probing("");
    let wanted: Vec<Value> =
        (3..12).map(|number| json!(["write_descriptor", { "descriptor": number }])).collect();
    let (_, answers) = attempts(&stage, "test_exec", &json!(wanted), None);
    // Whatever is open there is the program's own, and it has opened nothing to write to.
    assert!(answers.iter().all(|answer| answer["errno"] == 9), "{answers:?}");
    let output = stage.shell("cat /proc/self/environ; ls /proc; cat router.toml ../router.toml");
    assert_eq!(output["stdout"], "", "{output}");
}

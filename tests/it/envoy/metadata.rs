//! Modes, owners, times and attributes of files: changed inside the workspace by the router, and nowhere else.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::{Value, json};

use super::escapes::{attempts, probing};
use super::{Stage, test};

const EPERM: i64 = 1;
const EOPNOTSUPP: i64 = 95;
const ENOSYS: i64 = 38;

/// Calls that change modes or times.
const CHANGES: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "raw_chmod",
    "raw_fchmod",
    "raw_fchmodat",
    "raw_fchmodat_below",
    "raw_fchmodat_relative",
    "raw_fchmodat_of_descriptor",
    "raw_fchmodat2",
    "raw_fchmodat2_empty",
    #[cfg(target_arch = "x86_64")]
    "raw_utime",
    #[cfg(target_arch = "x86_64")]
    "raw_utimes",
    #[cfg(target_arch = "x86_64")]
    "raw_futimesat",
    "raw_utimensat",
    "raw_utimensat_link",
    "raw_futimens",
    "raw_touch",
    "raw_fchownat_same",
];

/// Calls that change the owner.
const OWNERS: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "raw_chown",
    #[cfg(target_arch = "x86_64")]
    "raw_lchown",
    "raw_fchown",
    "raw_fchownat",
    "raw_file_setattr",
];

/// Calls that change extended attributes.
const ATTRIBUTES: &[&str] = &[
    "raw_setxattr",
    "raw_lsetxattr",
    "raw_fsetxattr",
    "raw_setxattrat",
    "raw_removexattr",
    "raw_lremovexattr",
    "raw_fremovexattr",
    "raw_removexattrat",
];

/// Ways to make a file that has set-id bits, and their results.
const CREATIONS: &[(&str, i64)] = &[
    #[cfg(target_arch = "x86_64")]
    ("set_id_open", EPERM),
    ("set_id_openat", EPERM),
    ("set_id_nameless", EPERM),
    ("set_id_openat2", ENOSYS),
    #[cfg(target_arch = "x86_64")]
    ("set_id_creat", EPERM),
    #[cfg(target_arch = "x86_64")]
    ("set_id_mknod", EPERM),
    ("set_id_mknodat", EPERM),
    ("set_id_chmod", EPERM),
    ("set_id_mkdir", 0),
];

/// Every class that starts programs, its plan grants, and whether the router changes metadata for it.
fn classes() -> [(&'static str, Option<Value>, bool); 4] {
    [
        ("test_exec", None, true),
        ("build_exec", None, true),
        ("repo_ops", None, true),
        ("shell_exec", Some(json!([{ "grant": "shell_exec" }])), false),
    ]
}

/// Mode, owner, last change and content time of a file. Every call that sets a time also sets the last change, which no call
/// can set back. The access time is left out: the kernel changes it when any process reads the file.
fn state(file: &Path) -> (u32, u32, u32, i64, i64, i64) {
    let status = std::fs::symlink_metadata(file).unwrap();
    let owner = (status.uid(), status.gid());
    let changed = (status.ctime(), status.ctime_nsec());
    (status.mode(), owner.0, owner.1, changed.0, changed.1, status.mtime())
}

/// Makes attempts, and asserts their results.
fn assert_results(
    stage: &Stage,
    class: &(&str, Option<Value>, bool),
    wanted: &[(&str, Value, i64)],
) {
    let asked: Vec<Value> = wanted.iter().map(|(method, args, _)| json!([method, args])).collect();
    let (_, answers) = attempts(stage, class.0, &json!(asked), class.1.clone());
    assert_eq!(answers.len(), wanted.len());
    for ((method, args, expected), answer) in wanted.iter().zip(&answers) {
        assert_eq!(answer["errno"], *expected, "{} {method} {args}: {answer}", class.0);
    }
}

fn path(path: &Path) -> Value {
    json!({ "path": path })
}

#[test]
fn no_class_changes_metadata_outside_the_workspace() {
    let stage = probing("");
    let outside = stage.outside("file");
    let links = [stage.workspace("link"), stage.workspace("to-directory")];
    std::os::unix::fs::symlink(&outside, &links[0]).unwrap();
    std::os::unix::fs::symlink(stage.outside(""), &links[1]).unwrap();
    let protected = [
        outside.clone(),
        stage.outside("").join("../router.toml"),
        stage.world.path("outside"),
        "/etc/passwd".into(),
        "/dev/null".into(),
    ];
    let before: Vec<_> = protected.iter().map(|file| state(file)).collect();
    // A link to a file outside is itself inside, and so are its own times.
    let own_of_link = ["raw_utimensat_link", "raw_fchmodat2"];
    for class in &classes() {
        let mut wanted = Vec::new();
        for method in CHANGES.iter().chain(OWNERS) {
            for file in &protected {
                wanted.push((*method, path(file), EPERM));
            }
            wanted.push((*method, path(&links[1].join("file")), EPERM));
            if !own_of_link.contains(method) && !method.contains("file_setattr") {
                wanted.push((*method, path(&links[0]), EPERM));
            }
        }
        for method in ATTRIBUTES {
            wanted.push((*method, path(&outside), EOPNOTSUPP));
        }
        assert_results(&stage, class, &wanted);
    }
    let after: Vec<_> = protected.iter().map(|file| state(file)).collect();
    assert_eq!(before[..4], after[..4]);
    stage.assert_untouched();
}

#[test]
fn builds_change_modes_and_times_inside_the_workspace() {
    let stage = probing("");
    for class in &classes() {
        let name = format!("of-{}", class.0);
        std::fs::create_dir(stage.workspace(&name)).unwrap();
        let file = stage.workspace(&name).join("file");
        std::fs::write(&file, "x").unwrap();
        let allowed = if class.2 { 0 } else { EPERM };
        let mut wanted: Vec<(&str, Value, i64)> =
            CHANGES.iter().map(|method| (*method, path(&file), allowed)).collect();
        wanted.extend(OWNERS.iter().map(|method| (*method, path(&file), EPERM)));
        wanted.extend(ATTRIBUTES.iter().map(|method| (*method, path(&file), EOPNOTSUPP)));
        // A link is followed as long as it stays inside.
        let link = stage.workspace(&name).join("link");
        wanted.push(("symlink", json!({ "path": link, "to": "../nowhere" }), 0));
        wanted.push(("raw_fchmodat", path(&link), if class.2 { 2 } else { EPERM }));
        wanted.push(("remove", path(&link), 0));
        wanted.push(("symlink", json!({ "path": link, "to": "file" }), 0));
        wanted.push(("raw_fchmodat", path(&link), allowed));
        wanted.push(("raw_fchmodat2", path(&link), if class.2 { EOPNOTSUPP } else { EPERM }));
        wanted.push(("raw_utimensat", path(&file), allowed));
        wanted.push(("raw_fchmodat", path(&stage.workspace(&name)), allowed));
        assert_results(&stage, class, &wanted);
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(stage.workspace(&name), open).unwrap();
        let status = std::fs::metadata(&file).unwrap();
        assert_eq!((status.mode() & 0o7777 == 0o640, status.mtime() == 2), (class.2, class.2));
    }
}

#[test]
fn only_writable_paths_of_the_workspace_are_changed() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/chmod\"]");
    for name in ["open", "closed"] {
        std::fs::create_dir(stage.workspace(name)).unwrap();
        std::fs::write(stage.workspace(name).join("file"), "x").unwrap();
    }
    std::fs::write(stage.workspace("single"), "x").unwrap();
    let before = state(&stage.workspace("closed/file"));
    let line = "chmod 640 file && chmod 640 ../single && chmod 750 . && ! chmod 640 ../closed/file \
                && ! chmod 640 ../closed && ! chmod 755 .. && chmod 750 \"$TMPDIR\"/../tmp";
    let args = json!({ "argv": ["sh", "-c", line], "paths": ["open", "single"], "cwd": "open",
        "env": ["TMPDIR"] });
    let step = stage.step(json!({ "tool": "build_exec", "args": args }));
    assert_eq!(step["output"]["exit_code"], 0, "{step}");
    assert_eq!(state(&stage.workspace("closed/file")), before);
    let mode = |name: &str| std::fs::metadata(stage.workspace(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("open/file"), mode("single"), mode("open")), (0o640, 0o640, 0o750));
}

#[test]
fn no_new_file_has_a_set_id_bit() {
    for class in &classes() {
        let stage = probing("");
        std::fs::write(stage.workspace("readable"), "x").unwrap();
        let mut wanted: Vec<(&str, Value, i64)> = CREATIONS
            .iter()
            .map(|(method, expected)| (*method, path(&stage.workspace(method)), *expected))
            .collect();
        wanted.push(("set_id_without_create", path(&stage.workspace("readable")), 0));
        assert_results(&stage, class, &wanted);
        for entry in std::fs::read_dir(stage.workspace("")).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().mode();
            assert_eq!(mode & 0o6000, 0, "{} {:?}", class.0, entry.file_name());
        }
    }
}

#[test]
fn racing_a_change_reaches_nothing_outside() {
    let stage = probing("");
    // Both paths have one length, so that one can be written over the other.
    let inside = stage.workspace("file");
    std::fs::write(&inside, "x").unwrap();
    let names = (inside.to_str().unwrap().len(), stage.outside("file").to_str().unwrap().len());
    let padding = "/".repeat(names.0 - names.1);
    let padded = format!("{}/{padding}file", stage.outside("file").parent().unwrap().display());
    assert_eq!(padded.len(), names.0);
    let before = state(&stage.outside("file"));
    let directory = stage.workspace("race");
    std::fs::create_dir(&directory).unwrap();
    let wanted = json!([
        ["race_memory", { "path": inside, "to": padded }],
        ["race_links", { "path": directory, "to": stage.outside("") }],
    ]);
    for class in ["test_exec", "build_exec"] {
        let (_, answers) = attempts(&stage, class, &wanted, None);
        for answer in &answers {
            assert_eq!(answer["errno"], 0, "{answer}");
            let counts = [&answer["data"][0], &answer["data"][1]];
            assert!(counts.iter().all(|count| count.as_u64().unwrap() > 0), "{answer}");
        }
        assert_eq!(state(&stage.outside("file")), before, "{class}");
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::create_dir(&directory).unwrap();
    }
    stage.assert_untouched();
}

/// Returns the file of a program.
fn program(name: &str) -> String {
    let places = ["/usr/bin", "/bin", "/usr/local/bin"].map(|place| Path::new(place).join(name));
    let found = places.into_iter().find(|file| file.is_file());
    let found = found.unwrap_or_else(|| panic!("{name} is not installed"));
    found.to_str().unwrap().to_owned()
}

#[test]
fn build_tools_work_inside_the_workspace() {
    let tools = ["cp", "tar", "install", "make", "touch", "mkdir", "chmod", "sh", "rm", "cat"];
    let granted: Vec<String> = tools.iter().map(|name| program(name)).collect();
    let stage = Stage::new("", &format!("run = {granted:?}\nenv = [\"PATH\"]"));
    let makefile =
        "all: out/tool\nout/tool: tool.sh\n\tinstall -d out\n\tinstall -m 755 tool.sh out/tool\n";
    std::fs::write(stage.workspace("Makefile"), makefile).unwrap();
    std::fs::write(stage.workspace("tool.sh"), "#!/bin/sh\n").unwrap();
    let line = "set -e; make -s; touch -d 2001-02-03 tool.sh; chmod 750 tool.sh; mkdir -p d; \
        cp -p tool.sh d/; cp -a d e; tar cf d.tar d; mkdir x; tar xpf d.tar -C x; echo done";
    let mut step = test(&["sh", "-c", line]);
    step["args"]["env"] = json!(["PATH"]);
    step["tool"] = json!("build_exec");
    let arguments = stage.plan(&[step]);
    let mut command = stage.command(&arguments.each_ref().map(String::as_str));
    let run = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    let output = &run["results"][0]["output"];
    assert_eq!((&output["stdout"], &output["stderr"]), (&json!("done\n"), &json!("")), "{run}");
    let mode = |name: &str| std::fs::metadata(stage.workspace(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("out/tool"), 0o755);
    let first = std::fs::metadata(stage.workspace("tool.sh")).unwrap().mtime();
    for copy in ["d/tool.sh", "e/tool.sh", "x/d/tool.sh"] {
        assert_eq!(mode(copy), 0o750, "{copy}");
        assert_eq!(std::fs::metadata(stage.workspace(copy)).unwrap().mtime(), first, "{copy}");
    }
}

#[test]
fn no_execution_locks_the_workspace() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/chmod\"]");
    let root = stage.workspace("");
    let output = stage.shell("chmod 000 .; chmod 500 .; chmod 711 . && echo done");
    assert!(output.to_string().contains("done"), "{output}");
    assert_eq!(std::fs::metadata(&root).unwrap().mode() & 0o777, 0o711, "{output}");
}

/// Returns the inodes that a process has locked, as stores do.
fn locked_inodes(process: u32) -> Vec<u64> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_its = fields[1] == "POSIX" && fields[4] == process.to_string();
        fields[5].rsplit(':').next()?.parse().ok().filter(|_| is_its)
    };
    locks.lines().filter_map(inode).collect()
}

#[test]
fn a_change_of_an_open_file_keeps_the_locks_of_the_router() {
    let stage = Stage::new("timeout_s = 120", "run = [\"/bin/sh\", \"/bin/chmod\"]");
    let readable = stage.world.directory.path().to_str().unwrap();
    let mut config = std::fs::read_to_string(stage.world.path("router.toml")).unwrap();
    config.push_str(&format!("read = [{readable:?}]\n"));
    std::fs::write(stage.world.path("router.toml"), config).unwrap();
    let names = ["runs.db", "runs.db-wal", "runs.db-shm"];
    let change = names
        .map(|name| format!("exec 3<{readable}/{name} && chmod 600 /proc/self/fd/3;"))
        .concat();
    let line = format!("{change} : >changed; until [ -e go ]; do :; done");
    let arguments = stage.plan(&[test(&["sh", "-c", &line])]);
    let mut command = stage.command(&arguments.each_ref().map(String::as_str));
    let mut router = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    while !stage.workspace("changed").exists() {
        assert_eq!(router.try_wait().unwrap(), None, "it ended before it changed anything");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let locked = locked_inodes(router.id());
    let files = names.map(|name| std::fs::metadata(stage.world.path(name)).unwrap().ino());
    std::fs::write(stage.workspace("go"), "").unwrap();
    let run = router.wait_with_output().unwrap();
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(run["results"][0]["output"]["exit_code"], 0, "{run}");
    assert!(locked.iter().any(|inode| files.contains(inode)), "{locked:?} {files:?}");
}

#[test]
fn the_router_lends_no_rights_of_a_superuser() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/chmod\", \"/usr/bin/touch\"]");
    let file = stage.workspace("others");
    if rustix::process::geteuid().is_root() {
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&file, Some(12_345), Some(12_345)).unwrap();
    } else {
        // Only a superuser can make files of others. This one is in the workspace by a link.
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    }
    let state = |file: &Path| state(&file.canonicalize().unwrap());
    let before = state(&file);
    let output = stage.shell("chmod 666 others; touch -d 2001-01-01 others; touch others");
    assert_eq!(state(&file), before, "{output}");
}

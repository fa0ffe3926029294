//! Bundles that were made to hurt whoever looks at them: each has a verdict with a reason, in bounded memory and time.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nexus_router::evidence::verify::{Limits, Options, Reason, Standing, Verdict, verify_bundle};

use super::samples::{Samples, copy};

/// A genuine bundle, to which something is done.
fn judged(limits: Limits, act: impl FnOnce(&Path)) -> Verdict {
    let samples = Samples::empty();
    let directory = samples.envoy("e1", "t1");
    act(&directory);
    let options = Options { limits, ..Options::default() };
    verify_bundle(&directory, Some(&samples.trust()), options)
}

fn has(verdict: &Verdict, reason: Reason, file: &str) -> bool {
    verdict.findings.list().iter().any(|found| found.reason == reason && found.file == file)
}

#[test]
fn links_pipes_sockets_and_devices_are_told_and_not_opened() {
    type Act = (&'static str, fn(&Path), Reason, &'static str);
    let acts: [Act; 8] = [
        (
            "a link to itself",
            |root| symlink("loop", root.join("outputs/loop")).unwrap(),
            Reason::Symlink,
            "outputs/loop",
        ),
        (
            "a link to above",
            |root| symlink("../..", root.join("up")).unwrap(),
            Reason::Symlink,
            "up",
        ),
        (
            "a link to a secret",
            |root| symlink("/etc/shadow", root.join("outputs/x")).unwrap(),
            Reason::Symlink,
            "outputs/x",
        ),
        (
            "outputs elsewhere",
            |root| {
                let moved = root.parent().unwrap().join("moved");
                fs::rename(root.join("outputs"), &moved).unwrap();
                symlink(&moved, root.join("outputs")).unwrap();
            },
            Reason::Symlink,
            "outputs",
        ),
        (
            "a pipe",
            |root| {
                rustix::fs::mkfifoat(rustix::fs::CWD, root.join("outputs/pipe"), 0o644.into())
                    .unwrap();
            },
            Reason::SpecialFile,
            "outputs/pipe",
        ),
        (
            "a pipe for the manifest",
            |root| {
                fs::remove_file(root.join("manifest.sha256.json")).unwrap();
                rustix::fs::mkfifoat(
                    rustix::fs::CWD,
                    root.join("manifest.sha256.json"),
                    0o644.into(),
                )
                .unwrap();
            },
            Reason::SpecialFile,
            "manifest.sha256.json",
        ),
        (
            "a socket",
            |root| {
                drop(std::os::unix::net::UnixListener::bind(root.join("volatile/socket")).unwrap());
            },
            Reason::SpecialFile,
            "volatile/socket",
        ),
        (
            "a name with a newline",
            |root| fs::write(root.join("outputs/a\nb"), "x").unwrap(),
            Reason::BadName,
            "outputs/a\nb",
        ),
    ];
    for (what, act, reason, file) in acts {
        let verdict = judged(Limits::default(), act);
        assert_eq!(verdict.standing(), Standing::Forged, "{what}");
        assert!(has(&verdict, reason, file), "{what}: {:?}", verdict.to_lines());
        // What is printed is one line each, whatever the names are.
        assert!(verdict.to_lines().iter().all(|line| !line.contains('\n')), "{what}");
    }
}

#[test]
fn a_device_is_told_where_one_can_be_made() {
    let mut made = false;
    let verdict = judged(Limits::default(), |root| {
        let (kind, device) = (rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 5));
        let path = root.join("outputs/zero");
        made = rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o644.into(), device).is_ok();
    });
    // Only the superuser makes devices; for all others the bundle is as it was.
    let found = has(&verdict, Reason::SpecialFile, "outputs/zero");
    assert_eq!((found, verdict.standing() == Standing::Forged), (made, made));
}

#[test]
fn a_file_of_ten_gigabytes_is_refused_by_its_size() {
    for file in [
        "outputs/huge.bin",
        "outputs/a.bin",
        "manifest.sha256.json",
        "exec_spec.json",
        "stdout.txt",
    ] {
        let verdict = judged(Limits::default(), |root| {
            let file = fs::OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(root.join(file));
            file.unwrap().set_len(10 << 30).unwrap();
        });
        assert_ne!(verdict.standing(), Standing::Genuine, "{file}");
        assert!(has(&verdict, Reason::FileTooLarge, file), "{:?}", verdict.to_lines());
    }
    // Many that are not too large alone are too large together.
    let limits = Limits { total_bytes: 10_000, ..Limits::default() };
    let verdict = judged(limits, |root| {
        for number in 0..10 {
            fs::write(root.join(format!("outputs/x{number}")), vec![0; 2_000]).unwrap();
        }
    });
    assert_ne!(verdict.standing(), Standing::Genuine);
    // A document may be smaller than a file.
    let limits = Limits { document_bytes: 100, ..Limits::default() };
    let verdict = judged(limits, |_| ());
    assert_eq!(verdict.standing(), Standing::Unclear, "{:?}", verdict.to_lines());
}

#[test]
fn many_files_are_not_all_looked_at() {
    let limits = Limits { entries: 1_000, ..Limits::default() };
    let verdict = judged(limits, |root| {
        for number in 0..20_000 {
            fs::write(root.join(format!("outputs/{number}")), "").unwrap();
        }
    });
    assert!(has(&verdict, Reason::TooManyEntries, "outputs"), "{:?}", verdict.to_lines());
    assert_ne!(verdict.standing(), Standing::Genuine);
    assert!(verdict.findings.list().len() <= limits.findings && verdict.findings.left_out() > 0);
    // And of many names at the top.
    let verdict = judged(limits, |root| {
        for number in 0..2_000 {
            fs::write(root.join(format!("{number}")), "").unwrap();
        }
    });
    assert!(has(&verdict, Reason::TooManyEntries, ""), "{:?}", verdict.to_lines());
}

#[test]
fn deep_directories_are_not_all_gone_into() {
    let verdict = judged(Limits::default(), |root| {
        let mut path = root.join("outputs");
        for _ in 0..300 {
            path.push("d");
        }
        fs::create_dir_all(path).unwrap();
    });
    assert_ne!(verdict.standing(), Standing::Genuine);
    let deep = verdict.findings.list().iter().any(|found| found.reason == Reason::TooDeep);
    assert!(deep, "{:?}", verdict.to_lines());
}

#[test]
fn documents_that_are_none_are_told() {
    let deep = "[".repeat(100_000);
    let wide = format!(
        "{{\"files\":{{{}}}}}",
        (0..70_000).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(",")
    );
    let up = format!("{{\"files\":{{\"../../../etc/passwd\":\"{}\"}}}}", "0".repeat(64));
    let twice =
        format!("{{\"files\":{{\"stdout.txt\":\"{0}\",\"stdout.txt\":\"{0}\"}}}}", "0".repeat(64));
    let texts: [&[u8]; 9] = [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"\0\0\0",
        deep.as_bytes(),
        wide.as_bytes(),
        up.as_bytes(),
        twice.as_bytes(),
    ];
    for text in texts {
        for file in [
            "manifest.sha256.json",
            "exec_spec.json",
            "run_summary.json",
            "outputs/parsed.json",
            "outputs/inputs.manifest.json",
            "attestation.intoto.jsonl",
            "inclusion.tlog-proof",
        ] {
            let verdict =
                judged(Limits::default(), |root| fs::write(root.join(file), text).unwrap());
            assert_eq!(verdict.standing(), Standing::Forged, "{file}");
            assert!(!verdict.findings.list().is_empty());
            let longest = verdict.findings.list().iter().map(|found| found.message.len()).max();
            assert!(longest.unwrap() < 4096, "{file}: a message of {longest:?} bytes");
        }
    }
}

#[test]
fn what_cannot_be_opened_cannot_be_told() {
    let samples = Samples::empty();
    let directory = samples.envoy("e1", "t1");
    let options = Options::default();
    let judge = |path: &Path| verify_bundle(path, Some(&samples.trust()), options);
    let reason = |path: &Path| {
        let verdict = judge(path);
        (verdict.standing(), verdict.findings.list()[0].reason)
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let missing = elsewhere.path().join("missing");
    assert_eq!(reason(&missing), (Standing::Unclear, Reason::Unreadable));
    let empty = elsewhere.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(reason(&empty), (Standing::Unclear, Reason::Unrecognized));
    let file = elsewhere.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(reason(&file), (Standing::Unclear, Reason::Unrecognized));
    let link = elsewhere.path().join("link");
    symlink(&directory, &link).unwrap();
    assert_eq!(reason(&link), (Standing::Unclear, Reason::Unrecognized));
    assert_eq!(judge(&directory).standing(), Standing::Genuine);
}

/// As another user than the superuser, who reads everything: the program itself, on a bundle with a closed file.
#[test]
fn a_file_that_may_not_be_read_cannot_be_told() {
    let world = crate::support::World::new();
    let samples = Samples::empty();
    let directory = world.path("bundle");
    copy(&samples.envoy("e1", "t1"), &directory);
    fs::copy(samples.root().join("keys/trust.json"), world.path("trust.json")).unwrap();
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(world.path("trust.json"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(directory.join("stdout.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    let program = world.path("nexus-router");
    fs::copy(crate::support::PROGRAM, &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["evidence", "verify", "bundle", "--trust", "trust.json", "--format", "json"]);
    command.current_dir(world.directory.path()).env_clear();
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt as _;
        command.uid(65534).gid(65534);
    }
    let run = crate::support::Run(command.output().unwrap());
    assert_eq!(run.code(), 2, "{}", run.stderr());
    let json = run.json();
    assert_eq!(json["verdicts"][0]["findings"][0]["reason"], "unreadable", "{json}");
    assert_eq!(json["verdict"], "could_not_tell");
}

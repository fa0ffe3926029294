//! Processes that end at any moment: what a checkpoint covers stays, and what none covers does no harm.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nexus_router::tlog::{Error, Tree};

use super::files::listed;
use super::{audited, defined, entries, open, place, verifier};

/// Names the directory to which the child appends until it is killed.
const CHILD: &str = "NEXUS_ROUTER_TEST_LOG";
/// How many children are killed.
const KILLS: u64 = 12;

fn copy(from: &Path, to: &Path) {
    for file in listed(from) {
        let path = to.join(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&file), path).unwrap();
    }
}

#[test]
fn what_no_checkpoint_covers_may_be_anything() {
    // Sizes before and after, so that tiles begin, go on and become full.
    for (before, after) in [(0, 1), (3, 5), (250, 256), (250, 700), (256, 257), (700, 1030)] {
        let start = place();
        open(start.path()).unwrap().append(&entries(0..before)).unwrap();
        let end = place();
        copy(start.path(), end.path());
        open(end.path()).unwrap().append(&entries(before..after)).unwrap();
        let old = listed(start.path());
        let new: Vec<String> = listed(end.path()).difference(&old).cloned().collect();
        assert!(new.len() >= 2, "{new:?}");
        // Each file alone as if the disk had only that, then all of them.
        let damages: [fn(Vec<u8>) -> Vec<u8>; 4] = [
            |bytes| bytes,
            |bytes| bytes[..bytes.len() / 2].to_vec(),
            |_| Vec::new(),
            |bytes| vec![0xa5; bytes.len() + 1],
        ];
        let alone = new.iter().map(std::slice::from_ref);
        for there in alone.chain([&new[..]]) {
            for damage in damages {
                let crashed = place();
                copy(start.path(), crashed.path());
                for file in there {
                    let bytes = damage(std::fs::read(end.path().join(file)).unwrap());
                    let path = crashed.path().join(file);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, bytes).unwrap();
                }
                std::fs::write(crashed.path().join("checkpoint.new"), "half a check").unwrap();
                let log = open(crashed.path()).unwrap();
                assert_eq!(log.size(), before);
                // Other entries than those that were lost.
                let others = entries(10_000..10_000 + after - before);
                let appended = log.append(&others).unwrap();
                let all = [entries(0..before), others].concat();
                assert_eq!(appended.checkpoint.root, defined(&all));
                audited(crashed.path());
                assert_eq!(listed(crashed.path()), listed(end.path()), "{there:?}");
            }
        }
    }
}

#[test]
fn append_that_fails_changes_nothing_and_the_next_one_goes_on() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    log.append(&entries(0..254)).unwrap();
    let before = log.checkpoint();
    // The last file but the checkpoint, and the file that becomes the checkpoint, cannot be written.
    for blocked in ["tile/entries/001.p", "checkpoint.new"] {
        let blocked = directory.path().join(blocked);
        std::fs::create_dir_all(&blocked).unwrap();
        std::fs::create_dir_all(blocked.join("3")).unwrap();
        let failed = log.append(&entries(900..905));
        assert!(matches!(failed, Err(Error::File { .. })), "{}", blocked.display());
        assert_eq!(log.checkpoint(), before);
        audited(directory.path());
        std::fs::remove_dir_all(&blocked).unwrap();
    }
    let appended = log.append(&entries(254..260)).unwrap();
    assert_eq!(appended.checkpoint.root, defined(&entries(0..260)));
    audited(directory.path());
}

#[test]
fn checkpoint_never_goes_back() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let path = directory.path().join("checkpoint");
    log.append(&entries(0..10)).unwrap();
    let old = std::fs::read(&path).unwrap();
    log.append(&entries(10..20)).unwrap();
    let new = std::fs::read(&path).unwrap();
    std::fs::write(&path, &old).unwrap();
    let refused = log.append(&entries(20..21)).unwrap_err();
    assert!(matches!(refused, Error::Forked { seen: 20, found: 10, .. }), "{refused}");
    // Another history of the same key, longer than what was seen.
    let other = place();
    open(other.path()).unwrap().append(&entries(500..530)).unwrap();
    copy(other.path(), directory.path());
    let refused = log.append(&entries(20..21)).unwrap_err();
    assert!(matches!(refused, Error::Forked { seen: 20, found: 30, .. }), "{refused}");
    // Without its checkpoint a log does not begin again.
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(log.append(&entries(20..21)), Err(Error::File { .. })));
    let refused = open(directory.path()).unwrap_err();
    assert!(refused.to_string().contains("there are tiles"), "{refused}");
    // With it the log goes on: its own tiles are still there, and nothing of the other history was kept.
    std::fs::write(&path, &new).unwrap();
    let appended = log.append(&entries(20..21)).unwrap();
    assert_eq!(appended.checkpoint.root, defined(&entries(0..21)));
    log.proof(3, &appended.checkpoint).unwrap().verify(b"entry 3", &[verifier()]).unwrap();
    audited(directory.path());
}

#[test]
fn partial_tiles_that_a_killed_process_left_are_swept() {
    let directory = place();
    open(directory.path()).unwrap().append(&entries(0..256)).unwrap();
    for left in ["tile/0/000.p/9", "tile/entries/000.p/9"] {
        let left = directory.path().join(left);
        std::fs::create_dir_all(left.parent().unwrap()).unwrap();
        std::fs::write(left, "left").unwrap();
    }
    open(directory.path()).unwrap();
    let left: Vec<String> =
        listed(directory.path()).into_iter().filter(|file| file.contains("000.p/9")).collect();
    assert_eq!(left, Vec::<String>::new());
    audited(directory.path());
}

#[test]
fn killed_processes_lose_nothing_that_they_told() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return append_until_killed(Path::new(&directory));
    }
    let directory = place();
    let test = module_path!().split_once("::").unwrap().1;
    let test = format!("{test}::killed_processes_lose_nothing_that_they_told");
    let mut told: Vec<(u64, String)> = Vec::new();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--nocapture"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Let it append some, then kill it a moment later, in the midst of something.
        let mut appended = 0;
        let mut hear = |line: String| {
            let parts: Vec<&str> = line.split(' ').collect();
            if let ["appended", index, entry] = parts[..] {
                told.push((index.parse().unwrap(), entry.to_owned()));
                appended += 1;
            }
            appended
        };
        while hear(lines.next().unwrap().unwrap()) < 3 + round % 4 {}
        std::thread::sleep(std::time::Duration::from_micros(1371 * round));
        child.kill().unwrap();
        // What it said before it was killed counts too; a line that was cut off does not.
        for line in lines.map_while(Result::ok).filter(|line| line.ends_with('.')) {
            hear(line);
        }
        child.wait().unwrap();
        let (tree, checkpoint) = audited(directory.path());
        for (index, entry) in &told {
            assert_eq!(tree.entry(*index).unwrap(), entry.as_bytes());
            let proof = tree.proof(*index, &checkpoint).unwrap();
            proof.verify(entry.as_bytes(), &[verifier()]).unwrap();
        }
    }
    assert!(told.len() as u64 >= 3 * KILLS);
}

/// Appends, and tells what is durable, until the process is killed.
fn append_until_killed(directory: &Path) {
    let log = open(directory).unwrap();
    for round in 0_u64.. {
        let entry = format!("{}-{round}.", std::process::id());
        // Sometimes many, so that tiles become full.
        let more = entries(0..if round % 3 == 1 { 180 } else { 0 });
        let batch = [vec![entry.clone().into_bytes()], more].concat();
        let appended = log.append(&batch).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "appended {} {entry}", appended.first).unwrap();
    }
}

#[test]
fn tree_that_was_opened_before_reads_on() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    log.append(&entries(0..200)).unwrap();
    let tree = Tree::open(directory.path()).unwrap();
    // The tile that it would read becomes full, and the part is removed.
    log.append(&entries(200..400)).unwrap();
    assert!(!directory.path().join("tile/0/000.p").exists());
    let checkpoint = tree.checkpoint(&[verifier()]).unwrap();
    assert_eq!(checkpoint.size, 200);
    tree.audit(&checkpoint).unwrap();
    tree.proof(199, &checkpoint).unwrap().verify(b"entry 199", &[verifier()]).unwrap();
    assert_eq!(tree.entries_from(0).unwrap().len(), 200);
}

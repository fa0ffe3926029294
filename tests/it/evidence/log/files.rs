//! The files of a log: those that C2SP asks for and no others, few of them written, and none of them believed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nexus_router::tlog::{Error, Log, Tree};
use proptest::prelude::*;

use super::{audited, defined, entries, open, place, verifier};

/// Returns the files below a directory, without it.
pub fn listed(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// Returns the files that a log has that had checkpoints of these sizes, written down independently of the program for
/// trees of fewer than 256 000 entries.
fn expected(sizes: &[u64]) -> BTreeSet<String> {
    let last = sizes.last().copied().unwrap_or(0);
    let mut files = BTreeSet::from(["checkpoint".to_owned(), "lock".to_owned()]);
    for (name, per_hash) in [("entries", 1), ("0", 1), ("1", 256), ("2", 65_536)] {
        let full = last / per_hash / 256;
        files.extend((0..full).map(|tile| format!("tile/{name}/{tile:03}")));
        for size in sizes.iter().filter(|size| *size / per_hash / 256 == full) {
            let width = size / per_hash % 256;
            if width > 0 {
                files.insert(format!("tile/{name}/{full:03}.p/{width}"));
            }
        }
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_batches_make_the_files_of_the_format(
        batches in proptest::collection::vec(
            prop_oneof![4 => 0_u64..8, 2 => 200_u64..300, 1 => Just(256), 1 => 500_u64..1100], 1..9)
    ) {
        let directory = place();
        let mut log = open(directory.path()).unwrap();
        let (mut all, mut sizes) = (Vec::new(), Vec::new());
        for batch in batches {
            let first = all.len() as u64;
            let new = entries(first..first + batch);
            all.extend(new.clone());
            let appended = log.append(&new).unwrap();
            sizes.push(first + batch);
            prop_assert_eq!(appended.first, first);
            prop_assert_eq!(appended.checkpoint.root, defined(&all));
            prop_assert_eq!(listed(directory.path()), expected(&sizes));
            if batch % 2 == 0 {
                log = open(directory.path()).unwrap();
            }
        }
        let (tree, checkpoint) = audited(directory.path());
        for index in (0..checkpoint.size).step_by(97) {
            let proof = tree.proof(index, &checkpoint).unwrap();
            let entry = &all[usize::try_from(index).unwrap()];
            prop_assert_eq!(&proof.verify(entry, &[verifier()]).unwrap(), &checkpoint);
        }
    }
}

#[test]
fn tree_of_three_levels_has_the_tiles_of_the_specification() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let all = entries(0..70_000);
    let checkpoint = log.append(&all).unwrap().checkpoint;
    assert_eq!(checkpoint.root, defined(&all));
    assert_eq!(listed(directory.path()), expected(&[70_000]));
    let (tree, checkpoint) = audited(directory.path());
    for index in [0, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999] {
        let proof = tree.proof(index, &checkpoint).unwrap();
        assert_eq!(proof, log.proof(index, &checkpoint).unwrap());
        proof.verify(&all[usize::try_from(index).unwrap()], &[verifier()]).unwrap();
    }
    // A number of entries that fills tiles on two levels at once.
    let directory = place();
    open(directory.path()).unwrap().append(&all[..65_535]).unwrap();
    let log = open(directory.path()).unwrap();
    assert_eq!(log.append(&all[65_535..65_536]).unwrap().checkpoint.root, defined(&all[..65_536]));
    assert_eq!(listed(directory.path()), expected(&[65_535, 65_536]));
    let log = open(directory.path()).unwrap();
    assert_eq!(log.append(&all[65_536..65_537]).unwrap().checkpoint.root, defined(&all[..65_537]));
    audited(directory.path());
}

#[test]
fn few_files_are_waited_for() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let mut size = 0;
    let mut append = |log: &Log, count| {
        log.append(&entries(size..size + count)).unwrap();
        size += count;
        log.syncs()
    };
    append(&log, 300);
    // Two tiles, two directories, the checkpoint and its directory.
    for _ in 0..5 {
        assert_eq!(append(&log, 1), 6);
    }
    assert_eq!(append(&log, 100), 6);
    // Two full tiles, two that begin and one above, and the directories of all these.
    assert!(append(&log, 256) <= 6 + 12);
    // 100 full tiles, twice: a directory that holds many of them is waited for once.
    assert!(append(&log, 25_600) <= 2 * 100 + 20);
    assert_eq!(log.append(&[]).unwrap().first, size);
}

#[test]
fn entries_of_any_length_are_kept_up_to_the_longest() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let all: Vec<Vec<u8>> = [0, 1, 255, 256, 65_535].map(|length| vec![7; length]).into();
    log.append(&all).unwrap();
    let (tree, _) = audited(directory.path());
    assert_eq!(tree.entries_from(0).unwrap(), all);
    let before = log.checkpoint();
    let refused = log.append(&[vec![1], vec![0; 65_536]]).unwrap_err();
    assert!(matches!(refused, Error::TooLong { number: 1, length: 65_536 }), "{refused}");
    assert_eq!(open(directory.path()).unwrap().checkpoint(), before);
}

/// Returns what each of those who use a log say to it: who goes on with it, who audits it, who proves an entry.
fn verdicts(directory: &Path, index: u64) -> [Result<(), Error>; 3] {
    let tree = || {
        let tree = Tree::open(directory)?;
        let checkpoint = tree.checkpoint(&[verifier()])?;
        Ok::<_, Error>((tree, checkpoint))
    };
    let audit = || tree().and_then(|(tree, checkpoint)| tree.audit(&checkpoint));
    let prove = || tree().and_then(|(tree, checkpoint)| tree.proof(index, &checkpoint)).map(drop);
    [open(directory).map(drop), audit(), prove()]
}

#[test]
fn every_file_that_was_changed_is_named() {
    let directory = place();
    open(directory.path()).unwrap().append(&entries(0..70_000)).unwrap();
    assert!(verdicts(directory.path(), 5).iter().all(Result::is_ok));
    // Which file, and who must notice: whoever goes on, and whoever proves entry 5. An audit notices all.
    let files = [
        ("tile/0/000", false, true),
        ("tile/0/100", false, false),
        ("tile/0/272", true, false),
        ("tile/0/273.p/112", true, true),
        ("tile/1/000", true, true),
        ("tile/1/001.p/17", true, true),
        ("tile/2/000.p/1", true, true),
        ("tile/entries/000", false, false),
        ("tile/entries/273.p/112", true, false),
    ];
    for (file, goes_on, proves) in files {
        let path = directory.path().join(file);
        let good = std::fs::read(&path).unwrap();
        // Not the first hash, which the proof of an entry below it does not need.
        let mut flipped = good.clone();
        flipped[40 % good.len()] ^= 1;
        let longer = [&good[..], &[0]].concat();
        let bad = [flipped, good[..good.len() - 1].to_vec(), longer, Vec::new()];
        let bad = bad.into_iter().map(Some).chain([None]);
        for content in bad {
            match &content {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let said = verdicts(directory.path(), 5);
            let [going_on, audit, prove] = &said;
            let length = content.map(|bytes| bytes.len());
            assert!(!goes_on || going_on.is_err(), "{file}: {length:?} bytes");
            assert!(!proves || prove.is_err(), "{file}: {length:?} bytes");
            let told = audit.as_ref().unwrap_err().to_string();
            // The root is made of several tiles, and says so; whatever else is found names its file.
            let named = told.contains(file.split(".p").next().unwrap());
            assert!(named || told.contains("root"), "{file}: {told}");
        }
        std::fs::write(&path, good).unwrap();
    }
    assert!(verdicts(directory.path(), 5).iter().all(Result::is_ok));
}

#[test]
fn foreign_things_in_place_of_files_are_refused_at_once() {
    let directory = place();
    open(directory.path()).unwrap().append(&entries(0..3)).unwrap();
    let files: Vec<PathBuf> = ["checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"]
        .map(|file| directory.path().join(file))
        .into();
    for path in files {
        let good = std::fs::read(&path).unwrap();
        let refused = || verdicts(directory.path(), 0).iter().any(Result::is_err);
        std::fs::remove_file(&path).unwrap();
        assert!(refused());
        std::fs::create_dir(&path).unwrap();
        assert!(refused());
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(refused());
        std::fs::remove_file(&path).unwrap();
        // Ten gigabytes of nothing.
        std::fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
        assert!(refused());
        std::fs::write(&path, [0xff; 100]).unwrap();
        assert!(refused());
        std::fs::write(&path, good).unwrap();
    }
    audited(directory.path());
}

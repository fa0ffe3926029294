//! A log that is kept in the tree: what the program writes is that, byte by byte, and programs of others read it
//! (`tests/peers`).

use std::path::Path;

use super::files::listed;
use super::{audited, entries, open, place, verifier};
use crate::support::workspace;

/// The entries that have proofs beside the log.
const PROVED: [u64; 6] = [0, 1, 255, 256, 511, 599];

/// Writes the log anew.
fn write(directory: &Path) {
    let log = open(directory).unwrap();
    for (from, to) in [(0, 1), (1, 100), (100, 256), (256, 600)] {
        log.append(&entries(from..to)).unwrap();
    }
    std::fs::create_dir(directory.join("proofs")).unwrap();
    for index in PROVED {
        let proof = log.proof(index, &log.checkpoint()).unwrap();
        let path = directory.join(format!("proofs/{index}.tlog-proof"));
        std::fs::write(path, proof.to_string()).unwrap();
    }
    std::fs::write(directory.join("vkey"), format!("{}\n", verifier())).unwrap();
    std::fs::remove_file(directory.join("lock")).unwrap();
}

#[test]
fn log_is_written_as_it_always_was() {
    let (directory, golden) = (place(), workspace().join("tests/golden/tlog"));
    write(directory.path());
    assert_eq!(listed(directory.path()), listed(&golden));
    for file in listed(&golden) {
        let (ours, theirs) = (directory.path().join(&file), golden.join(&file));
        assert!(std::fs::read(ours).unwrap() == std::fs::read(theirs).unwrap(), "{file}");
    }
    audited(&golden);
}

//! Several who append to one directory, each as if it were alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_router::tlog::Tree;

use super::{audited, entries, open, place, verifier};

#[test]
fn those_who_append_at_once_share_one_log() {
    let directory = place();
    let shared = open(directory.path()).unwrap();
    let ended = AtomicBool::new(false);
    let told: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        // Four with a log of their own, as processes have, and two that share one.
        let writers: Vec<_> = (0..6_u64)
            .map(|number| {
                let (shared, path) = (&shared, directory.path());
                scope.spawn(move || {
                    let own = open(path).unwrap();
                    let log = if number < 4 { &own } else { shared };
                    let mut told = Vec::new();
                    for round in 0..20 {
                        let count = if round % 5 == 4 { 60 } else { 1 + round % 3 };
                        let first = 1_000_000 * number + 1000 * round;
                        let batch = entries(first..first + count);
                        let appended = log.append(&batch).unwrap();
                        let proof = log.proof(appended.first, &appended.checkpoint).unwrap();
                        proof.verify(&batch[0], &[verifier()]).unwrap();
                        told.extend((appended.first..).zip(batch));
                    }
                    told
                })
            })
            .collect();
        // Whoever reads meanwhile always sees a whole log that continues the one before.
        let reader = scope.spawn(|| {
            let mut last = None;
            let mut seen = 0;
            while !ended.load(Ordering::Relaxed) {
                let tree = Tree::open(directory.path()).unwrap();
                let checkpoint = tree.checkpoint(&[verifier()]).unwrap();
                tree.audit(&checkpoint).unwrap();
                if let Some(last) = last.replace(checkpoint.clone()) {
                    tree.consistency(&last, &checkpoint).unwrap();
                }
                seen += 1;
            }
            seen
        });
        let told = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
        told
    });
    let (tree, checkpoint) = audited(directory.path());
    let told: BTreeMap<u64, Vec<u8>> = told.into_iter().collect();
    assert_eq!(told.len() as u64, checkpoint.size);
    assert!(told.into_keys().eq(0..checkpoint.size));
    assert_eq!(tree.size(), checkpoint.size);
}

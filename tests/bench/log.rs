//! What the transparency log costs as it grows to ten million entries: to append, to prove, and to wait for the disk.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_router::key::SigningKey;
use nexus_router::tlog::{Log, Signer, Tree, Verifier};

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (last, rounds) = if smoke { (10_000, 3) } else { (10_000_000, 101) };
    let directory = tempfile::tempdir().unwrap();
    // Growth is measured where nobody waits for a disk, if there is such a place, so that it shows what the program does.
    let memory = Path::new("/dev/shm");
    let growing = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    growth(growing.unwrap().path(), last);
    waiting(directory.path(), rounds);
}

fn open(directory: &Path) -> (Log, Verifier) {
    let signer = Signer::new("example.com/log", key(directory)).unwrap();
    let verifier = signer.verifier();
    (Log::open(&directory.join("log"), signer, &[]).unwrap(), verifier)
}

fn key(directory: &Path) -> SigningKey {
    let path: PathBuf = directory.join("key.pem");
    SigningKey::create(&path).unwrap()
}

/// Returns entries of the length that those of the evidence have.
fn entries(first: u64, count: u64) -> Vec<Vec<u8>> {
    (first..first + count).map(|number| format!("{number:0>250}").into_bytes()).collect()
}

fn micros(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).max(1e-3)
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns how long something takes.
fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    black_box(work());
    begun.elapsed()
}

/// Appends until there are as many as wanted, and tells at each power of ten what the next ones cost.
fn growth(directory: &Path, last: u64) {
    let (log, verifier) = open(directory);
    let verifiers = [verifier];
    let (mut base, mut open_base): (Option<[f64; 4]>, Option<f64>) = (None, None);
    let mut target = 1000;
    let begun = Instant::now();
    while target <= last {
        while log.size() < target {
            let count = (target - log.size()).min(16 * 1024);
            log.append(&entries(log.size(), count)).unwrap();
        }
        // One entry at a time, then the proofs of those, of any entry by somebody who has just come, and whole tiles.
        let append = |count: u64, rounds: u32| {
            let times = (0..rounds).map(|_| {
                let batch = entries(log.size(), count);
                time(|| log.append(&batch).unwrap())
            });
            micros(middle(times.collect()))
        };
        let one = append(1, 301);
        let checkpoint = log.checkpoint();
        let size = checkpoint.size;
        let new = size - 200..size;
        let new = new.map(|index| time(|| log.proof(index, &checkpoint).unwrap()));
        let fresh = micros(middle(new.collect()));
        let any = (0..201_u64).map(|round| {
            let index = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size;
            let prove = || {
                let tree = Tree::open(&directory.join("log")).unwrap();
                let proof = tree.proof(index, &checkpoint).unwrap();
                (tree, proof)
            };
            let (tree, proof) = prove();
            proof.verify(&tree.entry(index).unwrap(), &verifiers).unwrap();
            time(prove)
        });
        let cold = micros(middle(any.collect()));
        // The same by somebody who has the log open: the tiles above the leaves are read once.
        let tree = Tree::open(&directory.join("log")).unwrap();
        for tile in 0..size.div_ceil(65_536) {
            tree.proof((tile * 65_536).min(size - 1), &checkpoint).unwrap();
        }
        let any = (0..2001_u64).map(|round| {
            let index = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % size;
            time(|| tree.proof(index, &checkpoint).unwrap())
        });
        let warm = micros(middle(any.collect()));
        let many = append(256, 5) / 256.0;
        let now = [one, many, fresh, cold];
        let first = *base.get_or_insert(now);
        let ratio = |at: usize| now[at] / first[at];
        // The tiles of the leaves of a small log are kept too; beyond that one is read for each proof.
        let open = match size {
            0..65_536 => "all of it kept".to_owned(),
            _ => format!("{:.2} times", warm / *open_base.get_or_insert(warm)),
        };
        println!(
            "{size} entries: append of one {one:.1} µs ({:.2} times), of many {many:.2} µs each ({:.2} times), proof of a new \
             entry {fresh:.1} µs ({:.2} times), of any entry in a log just opened {cold:.0} µs ({:.2} times), in one that is open {warm:.0} µs ({open})",
            ratio(0),
            ratio(1),
            ratio(2),
            ratio(3)
        );
        target *= 10;
    }
    println!("growth to {} entries took {:?}", log.size(), begun.elapsed());
}

/// Appends to a disk, beside a file that is written and waited for there.
fn waiting(directory: &Path, rounds: usize) {
    let (log, _) = open(directory);
    log.append(&entries(0, 300)).unwrap();
    let file = directory.join("file");
    let write = || {
        std::fs::write(&file, [7; 4096]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
    };
    let bare = middle((0..rounds).map(|_| time(write)).collect());
    for count in [1, 100] {
        let times = (0..rounds).map(|_| {
            let batch = entries(log.size(), count);
            time(|| log.append(&batch).unwrap())
        });
        let took = middle(times.collect());
        println!(
            "durable append of {count}: p50 {took:?}, {:.1} times a file that is written and waited for ({bare:?}); the last \
             waited {} times",
            took.as_secs_f64() / bare.as_secs_f64(),
            log.syncs()
        );
    }
}

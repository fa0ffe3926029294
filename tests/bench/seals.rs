//! What a seal costs: the time of the processor for each, in batches, and what it is made of.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_router::attest::{Envelope, IN_TOTO, Link, RunLink, Statement, Subject};
use nexus_router::digest::Digest;
use nexus_router::key::SigningKey;
use nexus_router::seal::{Kind, Leaf, Seal, Sealer, verify};

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 3 } else { 200 };
    let directory = tempfile::tempdir().unwrap();
    let signing = parts(directory.path(), rounds * 50);
    sealing(&directory.path().join("sealed"), rounds, signing);
}

/// A run to be sealed, one of many.
fn thing(n: u64) -> (Leaf, Statement) {
    let manifest_sha256 = Digest::of(&n.to_le_bytes());
    let run = RunLink {
        plan_sha256: Digest::of(b"plan"),
        chain_head: manifest_sha256,
        status: "completed",
        events: 12,
        router_version: "1.2.0",
        role_table_sha256: Digest::of(b"roles"),
    };
    let leaf = Leaf { kind: Kind::Run, manifest_sha256, spec_sha256: None };
    (leaf, Link::of_run(&run).about(vec![Subject::new("bundle.json", manifest_sha256)]))
}

/// How much time of the processor the threads of this process took.
fn processor() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let times = threads.map(|thread| {
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    Duration::from_nanos(times.sum())
}

fn micros(took: Duration, count: u64) -> f64 {
    took.as_secs_f64() * 1e6 / count as f64
}

/// What a seal is made of; returns the time of a bare signature, the baseline.
fn parts(directory: &Path, rounds: u64) -> f64 {
    let key = SigningKey::create(&directory.join("key.pem")).unwrap();
    let (_, statement) = thing(1);
    let bytes = statement.to_bytes().unwrap();
    let time = |work: &dyn Fn()| {
        let begun = Instant::now();
        (0..rounds).for_each(|_| work());
        micros(begun.elapsed(), rounds)
    };
    let signing = time(&|| {
        black_box(key.sign(&bytes));
    });
    let writing = time(&|| drop(black_box(thing(1).1.to_bytes())));
    let line = Envelope::sign(IN_TOTO, bytes.clone(), &key).to_line();
    let reading = time(&|| {
        black_box(Envelope::parse(line.as_bytes()).unwrap().verify(&[key.public()]).unwrap());
    });
    println!(
        "a signature {signing:.1} µs; a statement of {} bytes {writing:.1} µs; an envelope read and verified {reading:.1} µs",
        bytes.len()
    );
    signing
}

/// Seals in batches, and one by one.
fn sealing(root: &Path, rounds: u64, signing: f64) {
    let sealer = Sealer::open(root).unwrap();
    for batch in [1, 10, 100, 1000] {
        let rounds = (rounds * 10 / batch).clamp(3, rounds);
        let things: Vec<Vec<_>> = (0..rounds)
            .map(|round| (0..batch).map(|n| thing(round * batch + n)).collect())
            .collect();
        let (used, begun) = (processor(), Instant::now());
        let seals: Vec<Vec<Seal>> =
            things.iter().map(|things| sealer.seal_all(things).unwrap()).collect();
        let (used, took) = (processor() - used, begun.elapsed());
        let each = micros(used, rounds * batch);
        println!(
            "batches of {batch}: {each:.1} µs of the processor for each seal{}, {:.1} times a signature; {:.1} µs by the clock",
            if batch == 100 { " (goal: 100 µs)" } else { "" },
            each / signing,
            micros(took, rounds * batch),
        );
        verifying(&sealer, &things, &seals);
    }
}

/// Verifies what was sealed.
fn verifying(sealer: &Sealer, things: &[Vec<(Leaf, Statement)>], seals: &[Vec<Seal>]) {
    let trust = sealer.trust();
    let pairs = things.iter().flatten().zip(seals.iter().flatten());
    let (begun, mut count) = (Instant::now(), 0);
    for ((leaf, statement), seal) in pairs {
        let found = verify(&trust, *leaf, seal.attestation.as_bytes(), &seal.proof).unwrap();
        assert_eq!(found.statement, *statement);
        count += 1;
    }
    println!("  verified, each: {:.1} µs", micros(begun.elapsed(), count));
}

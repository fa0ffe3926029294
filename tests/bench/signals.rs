//! What signal contracts cost: one call of the program, many contracts of a directory linted by it, a manifest of
//! many, and a hash.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router::digest::Digest;
use nexus_router::json::{Object, to_canonical, to_indented};
use nexus_router::key::SigningKey;
use nexus_router::signal::{
    Discovery, Registry, bump, contract_hash, input_schema_hash, lint, scaffold,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (rounds, many) = if smoke { (100, 50) } else { (100_000, 10_000) };
    let directory = tempfile::tempdir().unwrap();
    one_call(directory.path());
    hashing(rounds);
    linting(directory.path(), many);
    listing(&directory.path().join("contracts"), rounds);
    manifest(directory.path(), many.min(1000));
}

/// A contract as authors write them, one of many.
fn contract(n: usize) -> Object {
    let fields: Vec<String> = (0..12).map(|field| format!("signal_{}_{field}", n % 7)).collect();
    let mut contract =
        scaffold(&format!("acme.team_{}.c{n}", n % 50), "1.0.0", &fields.join(",")).unwrap();
    bump(&mut contract, "1.1.0", false).unwrap();
    contract
}

fn seconds(took: Duration) -> f64 {
    took.as_secs_f64().max(1e-9)
}

/// Returns the middle of some times.
fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Runs the program, which must say yes, and returns how long it took.
fn run(directory: &Path, arguments: &[&str]) -> Duration {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(directory).stdout(Stdio::null());
    let begun = Instant::now();
    assert!(command.status().unwrap().success(), "{arguments:?}");
    begun.elapsed()
}

/// One contract linted by one call, beside a call that only tells the version.
fn one_call(directory: &Path) {
    std::fs::write(directory.join("one.json"), to_indented(&contract(0).into())).unwrap();
    let time = |arguments: &[&str]| middle((0..21).map(|_| run(directory, arguments)).collect());
    let (bare, took) = (time(&["--version"]), time(&["contract", "lint", "one.json"]));
    println!(
        "one call: {took:?} (goal: 10 ms), {:.2} times as long as --version",
        seconds(took) / seconds(bare)
    );
}

/// Both hashes and a whole lint, beside the SHA-256 of the canonical text.
fn hashing(rounds: u32) {
    let contract = contract(1);
    let text = to_canonical(&contract.clone().into());
    let time = |work: &dyn Fn()| {
        let begun = Instant::now();
        (0..rounds).for_each(|_| work());
        begun.elapsed() / rounds
    };
    let bare = time(&|| {
        black_box(Digest::of(black_box(text.as_bytes())));
    });
    let hashes = time(&|| {
        black_box(contract_hash(black_box(&contract)).unwrap());
        black_box(input_schema_hash(black_box(&contract)).unwrap());
    });
    let whole = time(&|| drop(black_box(lint(black_box(&contract)))));
    println!(
        "hashes: both of a contract in {hashes:?}, {:.1} times the SHA-256 of its text; a lint in {whole:?}, {:.1} times",
        seconds(hashes) / seconds(bare),
        seconds(whole) / seconds(bare)
    );
}

/// Many contracts of a directory, beside reading them and the SHA-256 of their bytes.
fn linting(directory: &Path, many: usize) {
    let place = directory.join("contracts");
    std::fs::create_dir(&place).unwrap();
    for n in 0..many {
        let file = place.join(format!("c{n}.adapter_contract.json"));
        std::fs::write(file, to_indented(&contract(n).into())).unwrap();
    }
    let read = || {
        let begun = Instant::now();
        for entry in std::fs::read_dir(&place).unwrap() {
            black_box(Digest::of(&std::fs::read(entry.unwrap().path()).unwrap()));
        }
        begun.elapsed()
    };
    let bare = middle((0..3).map(|_| read()).collect());
    let lint = || run(directory, &["contract", "lint", "contracts"]);
    let took = middle((0..3).map(|_| lint()).collect());
    println!(
        "lint: {many} contracts in {took:?} (goal: 2 s for 10000), {:.1} times as long as to read and hash them",
        seconds(took) / seconds(bare)
    );
}

/// A manifest of many contracts verified by one call, beside its signatures alone on one processor.
fn manifest(directory: &Path, many: usize) {
    let place = directory.join("published");
    std::fs::create_dir(&place).unwrap();
    for n in 0..many {
        let file = place.join(format!("c{n}.adapter_contract.json"));
        std::fs::write(file, to_indented(&contract(n).into())).unwrap();
    }
    let key = SigningKey::create(&directory.join("key.pem")).unwrap();
    let build = ["contract", "manifest", "build", "published", "--key", "key.pem"];
    let named = ["--publisher-id", "acme.publisher", "--valid-for", "30", "--out", "manifest.json"];
    let built = run(directory, &[&build[..], &named].concat());
    let (public, signature) = (key.public(), key.sign(&[b'0'; 64]));
    let begun = Instant::now();
    (0..many).for_each(|_| assert!(public.verifies(black_box(&[b'0'; 64]), &signature)));
    let bare = begun.elapsed();
    let base64 = public.to_base64();
    let verify = ["contract", "manifest", "verify", "manifest.json", "--require-signature"];
    let verify = || run(directory, &[&verify[..], &["--public-key-base64", &base64]].concat());
    let took = middle((0..5).map(|_| verify()).collect());
    println!(
        "manifest: {many} entries verified in {took:?} (goal: 100 ms for 1000), {:.2} times as long as their signatures \
         alone; built in {built:?}",
        seconds(took) / seconds(bare)
    );
}

/// What is told of many contracts: written once at a reload, and asked for often.
fn listing(place: &Path, rounds: u32) {
    let begun = Instant::now();
    let registry = Arc::new(Registry::open(Some(place)));
    let read = begun.elapsed();
    let begun = Instant::now();
    let discovery = Discovery::new(Arc::clone(&registry), None, None);
    let written = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..rounds {
        black_box(discovery.listing().clone());
        black_box(discovery.contract("acme.team_1.c1", None).unwrap());
    }
    println!(
        "listing: {} contracts, {} bytes, written in {written:?}, {:.2} times as long as to read them; asked for in {:?}",
        registry.contracts().count(),
        discovery.listing().body.len(),
        seconds(written) / seconds(read),
        begun.elapsed() / rounds
    );
}

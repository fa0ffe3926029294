//! What evidence costs: bundles verified on one processor, beside reading and hashing their files and beside two bare
//! signatures; bundles written and sealed; a whole cabinet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_router::digest::Digest;
use nexus_router::evidence::verify::{Options, Standing, Verifier};
use nexus_router::evidence::{
    Cabinet, Execution, ExecutionSpec, Inputs, Kind, Outcome, Redactor, SealFiles, SpecFields,
    Staged, normalize, statement,
};
use nexus_router::json::{Limits, Object, parse};
use nexus_router::key::SigningKey;
use nexus_router::role::{ActionClass, Role};
use nexus_router::seal::{self, Leaf, Sealer};

/// What is sealed in one append.
const BATCH: usize = 100;

const OUTPUT: &str = r#"{"action_class":"web_search","adapter_role":"scout","adapter_version":"1.0.0","errors":[],
    "ok":true,"result":{"answer":"forty-two","latency_ms":12},"sources":[{"url":"https://a.example/"}]}"#;

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (many, rounds) = if smoke { (100, 1) } else { (5_000, 5) };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("sealed");
    std::fs::create_dir(&root).unwrap();
    let sealer = Sealer::open(&root).unwrap();
    let bundles = writing(&root, &sealer, many);
    verifying(&bundles, &sealer, directory.path(), rounds);
    whole(&root, &sealer, rounds);
}

fn seconds(took: Duration) -> f64 {
    took.as_secs_f64().max(1e-9)
}

/// Returns the middle of some times.
fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn stage(cabinet: &Cabinet, number: usize) -> (Staged, nexus_router::attest::Statement) {
    let mut inputs = Inputs::new();
    inputs.add("input/question.txt", Digest::of(b"what is it?")).unwrap();
    inputs.add("adapter/version", Digest::of(b"1.0.0")).unwrap();
    let spec = ExecutionSpec::new(SpecFields {
        action: ActionClass::WebSearch,
        cmd_argv: vec!["search".to_owned(), "what is it?".to_owned()],
        cwd: ".".to_owned(),
        env_allowlist: Vec::new(),
        exec_id: format!("e{number}"),
        inputs_manifest_sha256: inputs.digest(),
        kind: Kind::Shell,
        note: None,
        paths_allowlist: vec![".".to_owned()],
        role: Role::Scout,
        task_id: format!("t{}", number / 100),
        timeout_s: 60,
    })
    .unwrap();
    let output = parse(OUTPUT.as_bytes(), Limits::REQUEST).unwrap();
    let output = normalize(Role::Scout, None, Redactor::Nothing, output).unwrap();
    let key = spec.digest().to_string();
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.idempotency_key = Some(&key);
    execution.parsed = Some(&output);
    execution.stdout = output.text().as_bytes();
    let staged = cabinet.stage_execution(&execution).unwrap();
    let facts = statement::ExecutionFacts {
        spec: &spec,
        inputs: &inputs,
        files: staged.files(),
        volatile: staged.volatile(),
        exit_code: None,
    };
    let statement = statement::about(&staged, statement::execution(&facts, Object::new()));
    (staged, statement)
}

/// Bundles written and sealed, many in one append.
fn writing(root: &Path, sealer: &Sealer, many: usize) -> Vec<PathBuf> {
    let cabinet = Cabinet::open(root).unwrap();
    let mut paths = Vec::new();
    let begun = Instant::now();
    let numbers: Vec<usize> = (0..many).collect();
    for batch in numbers.chunks(BATCH) {
        let staged: Vec<_> = batch.iter().map(|number| stage(&cabinet, *number)).collect();
        let leaf = |staged: &Staged| Leaf {
            kind: seal::Kind::Execution,
            manifest_sha256: staged.manifest_sha256(),
            spec_sha256: staged.spec_sha256(),
        };
        let things: Vec<_> =
            staged.iter().map(|(staged, statement)| (leaf(staged), statement.clone())).collect();
        let seals = sealer.seal_all(&things).unwrap();
        let list = staged.into_iter().zip(&seals).map(|((staged, _), seal)| {
            (staged, Some(SealFiles { attestation: &seal.attestation, proof: &seal.proof }))
        });
        let published = Staged::publish_all(list.collect());
        paths.extend(published.into_iter().map(|published| published.unwrap().path));
    }
    let took = begun.elapsed();
    println!(
        "written: {many} bundles in {took:?}, {:.0} in a second, {BATCH} in an append; {:.2} ms each",
        many as f64 / seconds(took),
        seconds(took) * 1e3 / many as f64
    );
    paths
}

fn read_all(directory: &Path) -> usize {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            bytes += read_all(&entry.path());
        } else {
            let content = std::fs::read(entry.path()).unwrap();
            black_box(Digest::of(&content));
            bytes += content.len();
        }
    }
    bytes
}

/// Bundles verified one after the other, beside what cannot be left out.
fn verifying(bundles: &[PathBuf], sealer: &Sealer, directory: &Path, rounds: u32) {
    let many = bundles.len();
    let mut verifier = Verifier::new(Some(sealer.trust()), Options::default());
    let mut verify = || {
        let begun = Instant::now();
        for bundle in bundles {
            assert_eq!(verifier.bundle(bundle).standing(), Standing::Genuine);
        }
        begun.elapsed()
    };
    let took = middle((0..rounds).map(|_| verify()).collect());
    let mut bytes = 0;
    let mut read = || {
        let begun = Instant::now();
        bytes = bundles.iter().map(|bundle| read_all(bundle)).sum();
        begun.elapsed()
    };
    let bare = middle((0..rounds).map(|_| read()).collect());
    let key = SigningKey::create(&directory.join("key.pem")).unwrap();
    let (public, message) = (key.public(), [7; 1000]);
    let signature = key.sign(&message);
    let begun = Instant::now();
    (0..2 * many).for_each(|_| assert!(public.verifies(black_box(&message), &signature)));
    let signatures = begun.elapsed();
    println!(
        "verified: {many} bundles of {} bytes in {took:?}, {:.0} in a second on one processor (goal: 2000), {:.1} times as \
         long as to read and hash their files, {:.2} times as long as to do that and verify two signatures each",
        bytes / many,
        many as f64 / seconds(took),
        seconds(took) / seconds(bare),
        seconds(took) / seconds(bare + signatures)
    );
}

/// A whole cabinet with its log, on all processors.
fn whole(root: &Path, sealer: &Sealer, rounds: u32) {
    let mut verifier = Verifier::new(Some(sealer.trust()), Options::default());
    let mut entries = 0;
    let mut verify = || {
        let begun = Instant::now();
        let mut count = 0_u64;
        let report = verifier.cabinet(root, None, &mut |verdict| {
            assert_eq!(verdict.standing(), Standing::Genuine);
            count += 1;
        });
        assert_eq!((report.entries, report.log.unwrap().standing()), (count, Standing::Genuine));
        entries = count;
        begun.elapsed()
    };
    let took = middle((0..rounds).map(|_| verify()).collect());
    println!(
        "cabinet: {entries} bundles and their log in {took:?}, {:.0} in a second on {} processors",
        entries as f64 / seconds(took),
        std::thread::available_parallelism().map_or(1, usize::from)
    );
}

//! Keys, seals, and their rotation.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nexus_router::attest::{Envelope, IN_TOTO, Link, RunLink, Statement, Subject};
use nexus_router::digest::Digest;
use nexus_router::key::SigningKey;
use nexus_router::seal::{
    Entry, Error, Kind, Leaf, Sealer, Trust, rotate_attestation, rotate_log, verify,
};
use nexus_router::tlog::{Tree, Verifier};

use crate::support::workspace;

/// Where a second process is to work.
const INSIDE: &str = "NEXUS_ROUTER_TEST_SEALS";

/// Something to be sealed, one of many.
fn thing(n: u64) -> (Leaf, Statement) {
    let manifest_sha256 = Digest::of(&n.to_le_bytes());
    let leaf = Leaf { kind: Kind::Execution, manifest_sha256, spec_sha256: Some(Digest::of(b"s")) };
    let link = Link { name: format!("envoy/file_write {n}"), ..Link::default() };
    (leaf, link.about(vec![Subject::new("manifest.sha256.json", manifest_sha256)]))
}

/// A key of RFC 8032 as a file.
fn known_key(directory: &Path, base64: &str) -> SigningKey {
    let path = directory.join("known.pem");
    drop(fs::remove_file(&path));
    let text = format!(
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI{base64}\n-----END PRIVATE KEY-----\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    SigningKey::read(&path).unwrap()
}

#[test]
fn bytes_of_envelopes_and_trust_are_those_that_were_recorded() {
    let directory = tempfile::tempdir().unwrap();
    // The seeds 9d61…7f60 and 4ccd…a6fb.
    let key = known_key(directory.path(), "J1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g");
    let log = known_key(directory.path(), "EzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7").public();
    let golden = workspace().join("tests/golden/evidence");
    let read = |name: &str| fs::read_to_string(golden.join(name)).unwrap();
    let run = RunLink {
        plan_sha256: Digest::of(b"plan"),
        chain_head: Digest::of(b"head"),
        status: "completed",
        events: 12,
        router_version: "1.2.0",
        role_table_sha256: Digest::of(b"roles"),
    };
    let statement = Link::of_run(&run).about(vec![Subject::new("bundle.json", Digest::of(b"b"))]);
    let bytes = statement.to_bytes().unwrap();
    let envelope = Envelope::sign(IN_TOTO, bytes.clone(), &key);
    assert_eq!(String::from_utf8(bytes).unwrap(), read("statement.json"));
    assert_eq!(envelope.to_line(), read("attestation.intoto.jsonl"));
    assert_eq!(envelope.to_sigstore_bundle(), read("attestation.sigstore.json"));
    let trust = Trust::of(key.public(), Verifier::new("example.com/log", log).unwrap());
    assert_eq!(trust.to_json(), read("trust.json"));
    let leaf = Leaf { kind: Kind::Run, manifest_sha256: Digest::of(b"b"), spec_sha256: None };
    let entry = leaf.entry(Digest::of(envelope.payload())).to_bytes();
    assert_eq!(String::from_utf8(entry).unwrap(), read("entry.json"));
    // And what was recorded is believed.
    let recorded = Envelope::parse(read("attestation.intoto.jsonl").as_bytes()).unwrap();
    assert_eq!(recorded.verify(&trust.public_keys()), Ok(key.public()));
    assert_eq!(Statement::parse(recorded.payload()), Ok(statement));
}

/// A second process: this test program again, which runs one test.
struct Again(Child);

impl Again {
    fn new(test: &str, root: &Path, job: &str) -> Self {
        let module = module_path!().split_once("::").unwrap().1;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::{test}"), "--nocapture"])
            .env(INSIDE, format!("{job}:{}", root.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn end(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the job and the directory, if this is a second process.
fn inside() -> Option<(String, PathBuf)> {
    let told = std::env::var(INSIDE).ok()?;
    let (job, root) = told.split_once(':')?;
    Some((job.to_owned(), root.into()))
}

/// Seals a thing and writes the seal down.
fn seal_and_keep(sealer: &Sealer, n: u64, directory: &Path) -> Result<(), Error> {
    let (leaf, statement) = thing(n);
    let seal = sealer.seal(leaf, &statement)?;
    let kept = directory.join(format!(".{n}-{}", seal.index));
    fs::write(&kept, format!("{}{}", seal.attestation, seal.proof)).unwrap();
    // Whole or not at all: whoever writes it may be killed.
    fs::rename(&kept, directory.join(format!("{n}-{}", seal.index))).unwrap();
    Ok(())
}

/// Verifies every seal that was written down, and returns the entries of the log that they have.
fn check_kept(trust: &Trust, directory: &Path) -> BTreeSet<u64> {
    let mut indexes = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') {
            continue;
        }
        let (n, index) = name.split_once('-').unwrap();
        let text = fs::read_to_string(entry.path()).unwrap();
        let (attestation, proof) = text.split_at(text.find('\n').unwrap() + 1);
        let (leaf, statement) = thing(n.parse().unwrap());
        let verified = verify(trust, leaf, attestation.as_bytes(), proof).unwrap();
        assert_eq!((verified.index, verified.statement), (index.parse().unwrap(), statement));
        assert!(indexes.insert(verified.index), "{index} was given twice");
    }
    indexes
}

/// Reads the whole log: each entry is one, those of replaced keys are where they should be, and the tiles are those of its
/// checkpoint. Returns how many entries there are.
fn check_log(root: &Path, trust: &Trust) -> u64 {
    let tree = Tree::open(&root.join("log")).unwrap();
    let checkpoint = tree.checkpoint(&trust.verifiers()).unwrap();
    tree.audit(&checkpoint).unwrap();
    assert!(trust.admits_log(&checkpoint.signers()[0], checkpoint.size));
    let replaced: BTreeSet<u64> = trust.successions().iter().map(|it| it.index).collect();
    for index in 0..checkpoint.size {
        let entry = Entry::parse(&tree.entry(index).unwrap()).unwrap();
        assert_eq!(entry.leaf.kind == Kind::Key, replaced.contains(&index), "entry {index}");
    }
    trust.verify_successions(|index| Ok::<_, Error>(Some(tree.entry(index)?))).unwrap();
    checkpoint.size
}

#[test]
fn processes_that_begin_at_once_agree() {
    const TEST: &str = "processes_that_begin_at_once_agree";
    const EACH: u64 = 10;
    if let Some((job, root)) = inside() {
        let sealer = Sealer::open(&root.join("sealed")).unwrap();
        let first = job.parse::<u64>().unwrap() * EACH;
        for n in first..first + EACH {
            seal_and_keep(&sealer, n, &root.join("kept")).unwrap();
        }
        return;
    }
    for _ in 0..5 {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("kept")).unwrap();
        let all: Vec<Again> =
            (0..4).map(|n| Again::new(TEST, root.path(), &n.to_string())).collect();
        all.into_iter().for_each(Again::end);
        let trust = Trust::read(&root.path().join("sealed/keys/trust.json")).unwrap();
        let indexes = check_kept(&trust, &root.path().join("kept"));
        assert_eq!(indexes, (0..4 * EACH).collect());
        assert_eq!(check_log(&root.path().join("sealed"), &trust), 4 * EACH);
        let keys = fs::read_dir(root.path().join("sealed/keys")).unwrap();
        let mut names: Vec<_> = keys.map(|key| key.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["attestation.pem", "lock", "log.pem", "trust.json"]);
    }
}

#[test]
fn a_process_that_is_killed_while_it_replaces_keys_does_no_harm() {
    const TEST: &str = "a_process_that_is_killed_while_it_replaces_keys_does_no_harm";
    if let Some((job, root)) = inside() {
        let sealed = root.join("sealed");
        let sealer = Sealer::open(&sealed).unwrap();
        for n in job.parse().unwrap().. {
            seal_and_keep(&sealer, n, &root.join("kept")).unwrap();
            let rotated =
                if n % 2 == 0 { rotate_log(&sealed) } else { rotate_attestation(&sealed) };
            rotated.unwrap();
        }
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (sealed, kept) = (root.path().join("sealed"), root.path().join("kept"));
    fs::create_dir(&kept).unwrap();
    // What goes on meanwhile, and takes up whatever keys there are.
    let sealer = Sealer::open(&sealed).unwrap();
    let mut state = 7_u64;
    for round in 0..12_u64 {
        let mut child = Again::new(TEST, root.path(), &(round * 10_000).to_string());
        let enough = (round + 1) * 2;
        while fs::read_dir(&kept).unwrap().count() < usize::try_from(enough).unwrap() {
            assert_eq!(child.0.try_wait().unwrap(), None, "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((state >> 33) % 20_000));
        drop(child);
        let (leaf, statement) = thing(round);
        let seal = sealer.seal(leaf, &statement).unwrap();
        verify(&sealer.trust(), leaf, seal.attestation.as_bytes(), &seal.proof).unwrap();
    }
    drop(sealer);
    drop(Sealer::open(&sealed).unwrap());
    let trust = Trust::read(&sealed.join("keys/trust.json")).unwrap();
    assert!(trust.successions().len() > 4, "{} keys were replaced", trust.successions().len());
    let size = check_log(&sealed, &trust);
    let indexes = check_kept(&trust, &kept);
    assert!(indexes.len() > 12 && indexes.iter().all(|index| *index < size));
    for succession in trust.successions() {
        let history = sealed.join("keys/history").join(succession.index.to_string());
        let read = |name: &str| fs::read_to_string(history.join(name)).unwrap();
        let (attestation, proof) = (read("attestation.intoto.jsonl"), read("inclusion.tlog-proof"));
        verify(&trust, succession.leaf(), attestation.as_bytes(), &proof).unwrap();
    }
}

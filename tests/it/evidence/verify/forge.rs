//! Forgers who know the formats, recompute whatever can be recomputed without the keys, and have other genuine bundles
//! at hand.

use std::path::Path;
use std::sync::Arc;

use nexus_router::attest::Envelope;
use nexus_router::digest::Digest;
use nexus_router::evidence::verify::{Options, Reason, Standing, Verdict, Verifier, verify_bundle};
use nexus_router::evidence::{Manifest, RunSummary};
use nexus_router::json::{Value, to_jcs};
use nexus_router::key::SigningKey;
use nexus_router::seal::{self, Leaf, Trust};

use super::mutate::{Patient, changes, document};
use super::samples::{Samples, copy};
use super::verdict;

const ATTESTATION: &str = "attestation.intoto.jsonl";
const PROOF: &str = "inclusion.tlog-proof";

/// Writes spec, manifest and summary again, so that every hash fits what is there now.
fn rehash(patient: &Patient) {
    let read = |file: &str| std::fs::read(patient.path(file)).unwrap_or_default();
    let inputs = Digest::of(&read("outputs/inputs.manifest.json"));
    let spec = document(&read("exec_spec.json")).and_then(Value::into_object);
    if let Some(mut spec) = spec.clone() {
        spec.insert("inputs_manifest_sha256", inputs.to_string());
        patient.write("exec_spec.json", to_jcs(&spec.into()).unwrap().as_bytes());
    }
    let Ok(manifest) = Manifest::parse(&read("manifest.sha256.json")) else { return };
    let files = manifest.files().keys().map(|file| (file.clone(), Digest::of(&read(file))));
    let manifest = Manifest::new(files.collect()).unwrap();
    patient.write("manifest.sha256.json", manifest.text().as_bytes());
    let Ok(mut summary) = RunSummary::parse(&read("run_summary.json")) else { return };
    summary.manifest_sha256 = manifest.digest();
    summary.spec_sha256 = Digest::of(&read("exec_spec.json"));
    summary.idempotency_key = Some(summary.spec_sha256.to_string());
    summary.inputs_manifest_sha256 = inputs;
    if let Some(spec) = spec {
        let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or("x").to_owned();
        (summary.task_id, summary.exec_id) = (text("task_id"), text("exec_id"));
    }
    if let Ok(text) = summary.text() {
        patient.write("run_summary.json", text.as_bytes());
    }
}

/// A copy of a bundle that is forged in place.
fn patient(directory: &Path) -> (tempfile::TempDir, Patient) {
    let elsewhere = tempfile::tempdir().unwrap();
    let copied = elsewhere.path().join("bundle");
    copy(directory, &copied);
    let patient = Patient::new(&copied);
    (elsewhere, patient)
}

fn reasons(verdict: &Verdict) -> Vec<Reason> {
    verdict.findings.list().iter().map(|finding| finding.reason).collect()
}

#[test]
fn a_change_whose_hashes_all_fit_is_found_by_the_seal() {
    let samples = Samples::new();
    let trust = samples.trust();
    let (mut done, mut by_seal) = (0, 0);
    for (name, directory) in samples.bundles() {
        let (_kept, patient) = patient(&directory);
        let mut verifier = Verifier::new(Some(Arc::new(trust.clone())), Options::default());
        let hashes = Options { hashes_only: true, ..Options::default() };
        for (file, bytes) in &patient.files {
            if [ATTESTATION, PROOF].contains(&file.as_str()) {
                continue;
            }
            let mut forms: Vec<(String, Vec<u8>)> = vec![
                ("emptied".to_owned(), Vec::new()),
                ("longer".to_owned(), [&bytes[..], b"x"].concat()),
            ];
            if let Some(value) = document(bytes) {
                let text =
                    |(what, value): (String, Value)| (what, to_jcs(&value).unwrap().into_bytes());
                forms.extend(changes(&value).into_iter().map(text));
            }
            for (what, changed) in forms.into_iter().filter(|(_, changed)| changed != bytes) {
                patient.write(file, &changed);
                rehash(&patient);
                let now = Patient::new(&patient.directory);
                if now.files == patient.files {
                    // What was changed is what a forger puts right again.
                    let mended = ["exec_spec.json", "manifest.sha256.json", "run_summary.json"];
                    assert!(mended.contains(&file.as_str()), "{file}: {what}");
                    continue;
                }
                let verdict = verifier.bundle(&patient.directory);
                assert_eq!(verdict.standing(), Standing::Forged, "{name}/{file}: {what}");
                done += 1;
                // A forger who got everything right but the seal.
                let unsealed = verify_bundle(&patient.directory, None, hashes);
                by_seal += usize::from(unsealed.standing() == Standing::Genuine);
                for file in patient.files.keys() {
                    patient.restore(file);
                }
            }
        }
    }
    eprintln!("{done} forgeries, of which only the seal finds {by_seal}");
    assert!(done > 300 && by_seal > 20, "{done} {by_seal}");
}

#[test]
fn a_seal_of_another_bundle_is_none() {
    let samples = Samples::new();
    let trust = samples.trust();
    let mut bundles = samples.bundles();
    bundles.push(("other scout", samples.root().join("evidence/t2/e1")));
    let mut done = 0;
    for (name, directory) in &bundles {
        let (_kept, patient) = patient(directory);
        for (other, from) in bundles.iter().filter(|(other, _)| other != name) {
            for files in [&[ATTESTATION][..], &[PROOF], &[ATTESTATION, PROOF]] {
                for file in files {
                    patient.write(file, &std::fs::read(from.join(file)).unwrap());
                }
                let verdict = verdict(&patient.directory, &trust);
                assert_eq!(
                    verdict.standing(),
                    Standing::Forged,
                    "{name} with {files:?} of {other}"
                );
                for file in files {
                    patient.restore(file);
                }
                done += 1;
            }
        }
    }
    assert_eq!(done, 60);
}

#[test]
fn keys_that_are_not_trusted_vouch_for_nothing() {
    let samples = Samples::new();
    let (directory, trust) = (&samples.bundles()[0].1, samples.trust());
    // The same evidence, sealed by somebody else.
    let other = Samples::new();
    let forged = verdict(&other.bundles()[0].1, &trust);
    assert_eq!(reasons(&forged), [Reason::UntrustedKey], "{:?}", forged.to_lines());
    // A trusted attestation, in a log of somebody else.
    let mixed = Trust::of(trust.public_keys()[0], other.trust().verifiers()[0].clone());
    let verdict = verdict(directory, &mixed);
    assert_eq!(reasons(&verdict), [Reason::UntrustedLog], "{:?}", verdict.to_lines());
    // The log of the cabinet, and an attestation that another key signed.
    let (_kept, patient) = patient(directory);
    let line = std::fs::read(patient.path(ATTESTATION)).unwrap();
    let payload = Envelope::parse(&line).unwrap().payload().to_vec();
    let key = SigningKey::create(&samples.directory.path().join("other.pem")).unwrap();
    let envelope = Envelope::sign(nexus_router::attest::IN_TOTO, payload, &key);
    patient.write(ATTESTATION, envelope.to_line().as_bytes());
    let verdict = super::verdict(&patient.directory, &trust);
    assert_eq!(reasons(&verdict), [Reason::UntrustedKey], "{:?}", verdict.to_lines());
    // The trusted key's name, and another key's signature.
    let name = trust.public_keys()[0].fingerprint().to_string();
    let changed = envelope.to_line().replace(&key.public().fingerprint().to_string(), &name);
    patient.write(ATTESTATION, changed.as_bytes());
    let verdict = super::verdict(&patient.directory, &trust);
    assert_eq!(reasons(&verdict), [Reason::BadSignature], "{:?}", verdict.to_lines());
}

#[test]
fn without_keys_or_without_a_seal_nothing_is_genuine() {
    let samples = Samples::new();
    let trust = samples.trust();
    for (name, directory) in samples.bundles() {
        let unknown = verify_bundle(&directory, None, Options::default());
        assert_eq!(reasons(&unknown), [Reason::NoTrust], "{name}");
        assert_eq!(unknown.standing(), Standing::Unclear);
        let (_kept, patient) = patient(&directory);
        std::fs::remove_file(patient.path(ATTESTATION)).unwrap();
        std::fs::remove_file(patient.path(PROOF)).unwrap();
        let verdict = verdict(&patient.directory, &trust);
        assert_eq!(reasons(&verdict), [Reason::Unsealed], "{name}");
        let hashes = Options { hashes_only: true, ..Options::default() };
        let verdict = verify_bundle(&patient.directory, None, hashes);
        assert_eq!(verdict.standing(), Standing::Genuine, "{name}: {:?}", verdict.to_lines());
        assert!(verdict.rests_on.is_none());
    }
}

#[test]
fn a_key_is_good_for_its_part_of_the_log_only() {
    let samples = Samples::new();
    let before = samples.root().join("evidence/t1/e1");
    seal::rotate_attestation(&samples.root()).unwrap();
    let between = samples.scout("e1", "t3");
    seal::rotate_log(&samples.root()).unwrap();
    let after = samples.scout("e1", "t4");
    let trust = samples.trust();
    for directory in [&before, &between, &after] {
        let verdict = verdict(directory, &trust);
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
    }
    // Whoever stole the first key after it was replaced signs with it what is in the log later.
    let (_kept, patient) = patient(&between);
    let payload = Envelope::parse(&patient.files[ATTESTATION]).unwrap().payload().to_vec();
    let stolen = SigningKey::read(&samples.root().join("keys/attestation.pem")).unwrap();
    let envelope = Envelope::sign(nexus_router::attest::IN_TOTO, payload, &stolen);
    patient.write(ATTESTATION, envelope.to_line().as_bytes());
    let verdict = verdict(&patient.directory, &trust);
    assert_eq!(reasons(&verdict), [Reason::ExpiredKey], "{:?}", verdict.to_lines());
    // Keys of before the change know nothing of what came after.
    let (attestation, log) = (trust.public_keys()[0], trust.verifiers()[0].clone());
    let former = Trust::of(attestation, log);
    assert_eq!(super::verdict(&before, &former).standing(), Standing::Genuine);
    assert_eq!(super::verdict(&between, &former).standing(), Standing::Forged);
    // The whole cabinet, with both changes in its log.
    let report = whole(&samples, &trust, None);
    assert_eq!(report.0, Standing::Genuine, "{:?}", report.1);
}

/// Judges a cabinet, and returns what it comes to with all findings.
fn whole(samples: &Samples, trust: &Trust, since: Option<&str>) -> (Standing, Vec<String>) {
    let mut verifier = Verifier::new(Some(Arc::new(trust.clone())), Options::default());
    let mut ids = Vec::new();
    let mut standing = Standing::Genuine;
    let mut note = |verdict: &Verdict| {
        ids.extend(verdict.findings.list().iter().map(|finding| verdict.id(finding)));
        standing = standing.max(verdict.standing());
    };
    let report = verifier.cabinet(&samples.root(), since, &mut note);
    note(&report.cabinet);
    note(&report.log.unwrap());
    (standing, ids)
}

#[test]
fn what_is_done_to_a_cabinet_is_found() {
    type Act = (&'static str, fn(&Path), &'static str);
    let acts: [Act; 14] = [
        (
            "a bundle removed",
            |root| std::fs::remove_dir_all(root.join("evidence/t1/e1")).unwrap(),
            "missing_bundle:log",
        ),
        (
            "a task removed",
            |root| std::fs::remove_dir_all(root.join("evidence/t2")).unwrap(),
            "missing_bundle:log",
        ),
        (
            "all evidence removed",
            |root| std::fs::remove_dir_all(root.join("evidence")).unwrap(),
            "missing_bundle:log",
        ),
        (
            "a bundle renamed",
            |root| {
                std::fs::rename(root.join("evidence/t1/e1"), root.join("evidence/t1/e9")).unwrap();
            },
            "misplaced:execution",
        ),
        (
            "a task renamed",
            |root| std::fs::rename(root.join("evidence/t2"), root.join("evidence/t9")).unwrap(),
            "misplaced:execution",
        ),
        (
            "a bundle copied",
            |root| copy(&root.join("evidence/t1/e1"), &root.join("evidence/t1/e9")),
            "misplaced:execution",
        ),
        (
            "two tasks swapped",
            |root| {
                let at = |name: &str| root.join("evidence").join(name);
                std::fs::rename(at("t1"), at("t")).unwrap();
                std::fs::rename(at("t2"), at("t1")).unwrap();
                std::fs::rename(at("t"), at("t2")).unwrap();
            },
            "misplaced:execution",
        ),
        (
            "a file beside the tasks",
            |root| std::fs::write(root.join("evidence/note.txt"), "x").unwrap(),
            "unlisted:cabinet",
        ),
        (
            "a link to a bundle",
            |root| std::os::unix::fs::symlink("e1", root.join("evidence/t1/e3")).unwrap(),
            "symlink:cabinet",
        ),
        (
            "an empty bundle",
            |root| std::fs::create_dir(root.join("evidence/t1/e3")).unwrap(),
            "missing:execution",
        ),
        (
            "the log removed",
            |root| std::fs::remove_dir_all(root.join("log")).unwrap(),
            "log_damaged:log",
        ),
        (
            "the checkpoint removed",
            |root| std::fs::remove_file(root.join("log/checkpoint")).unwrap(),
            "log_damaged:log",
        ),
        (
            "the tiles removed",
            |root| std::fs::remove_dir_all(root.join("log/tile")).unwrap(),
            "log_damaged:log",
        ),
        (
            "a plan changed",
            |root| {
                let plan =
                    std::fs::read_dir(root.join("plan")).unwrap().next().unwrap().unwrap().path();
                let file = plan.join("plan_manifest.sha256.json");
                let text = std::fs::read_to_string(&file).unwrap().replace("p1", "p2");
                std::fs::write(file, text).unwrap();
            },
            "misplaced:plan",
        ),
    ];
    for (what, act, expected) in acts {
        let samples = Samples::new();
        let trust = samples.trust();
        assert_eq!(whole(&samples, &trust, None).0, Standing::Genuine, "before {what}");
        act(&samples.root());
        let (standing, ids) = whole(&samples, &trust, None);
        assert_eq!(standing, Standing::Forged, "{what}: {ids:?}");
        assert!(
            ids.iter().any(|id| id.starts_with(expected)),
            "{what}: {expected} is not in {ids:?}"
        );
    }
}

/// Says whether a file of the log is one that the last checkpoint covers: of the parts of a tile that is not full, only
/// the largest is.
fn is_covered(file: &str, patient: &Patient) -> bool {
    let Some((tile, width)) = file.rsplit_once(".p/") else { return true };
    let width: u32 = width.parse().unwrap();
    patient.files.keys().all(|other| {
        let other = other.strip_prefix(tile).and_then(|rest| rest.strip_prefix(".p/"));
        other.is_none_or(|other| other.parse::<u32>().unwrap() <= width)
    })
}

#[test]
fn every_byte_of_the_log_counts() {
    let samples = Samples::new();
    let trust = samples.trust();
    let patient = Patient::new(&samples.root().join("log"));
    let mut done = 0;
    let mut see = |what: &str| {
        let (standing, ids) = whole(&samples, &trust, None);
        assert_ne!(standing, Standing::Genuine, "{what}: {ids:?}");
        done += 1;
    };
    for (file, bytes) in patient.files.iter().filter(|(file, _)| is_covered(file, &patient)) {
        for at in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            patient.write(file, &changed);
            see(&format!("{file}: byte {at}"));
        }
        for length in (0..bytes.len()).step_by(11) {
            patient.write(file, &bytes[..length]);
            see(&format!("{file}: cut to {length}"));
        }
        patient.restore(file);
    }
    assert_eq!(whole(&samples, &trust, None).0, Standing::Genuine);
    eprintln!("{done} changes of the log, all found");
    assert!(done > 500, "{done}");
}

#[test]
fn a_log_that_was_rolled_back_or_written_again_is_found() {
    let samples = Samples::new();
    let trust = samples.trust();
    let log = samples.root().join("log");
    let kept = samples.directory.path().join("kept");
    copy(&log, &kept);
    let early = std::fs::read_to_string(log.join("checkpoint")).unwrap();
    samples.scout("e1", "t5");
    let late = std::fs::read_to_string(log.join("checkpoint")).unwrap();
    assert_eq!(whole(&samples, &trust, Some(&early)).0, Standing::Genuine);
    assert_eq!(whole(&samples, &trust, Some(&late)).0, Standing::Genuine);
    // As it was before the last entry: the checkpoint is genuine, and old.
    std::fs::remove_dir_all(&log).unwrap();
    copy(&kept, &log);
    let (standing, ids) = whole(&samples, &trust, None);
    assert_eq!(standing, Standing::Forged, "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("not_in_log:execution:evidence/t5/e1")), "{ids:?}");
    let (_, ids) = whole(&samples, &trust, Some(&late));
    assert!(ids.iter().any(|id| id.starts_with("log_rewritten:log")), "{ids:?}");
    // Whoever has the keys begins the log anew, with the same evidence in another order.
    let sealed = samples.root();
    std::fs::remove_dir_all(sealed.join("log")).unwrap();
    let again = seal::Sealer::open(&sealed);
    if let Ok(again) = again {
        let leaf =
            Leaf { kind: seal::Kind::Run, manifest_sha256: Digest::of(b"x"), spec_sha256: None };
        let subject = nexus_router::attest::Subject::new("run", Digest::of(b"x"));
        let link = nexus_router::attest::Link { name: "run".to_owned(), ..Default::default() };
        let statement = link.about(vec![subject]);
        for _ in 0..8 {
            again.seal(leaf, &statement).unwrap();
        }
    }
    let (standing, ids) = whole(&samples, &trust, Some(&early));
    assert_eq!(standing, Standing::Forged, "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("log_")), "{ids:?}");
    // An earlier checkpoint of another log proves nothing.
    let other = Samples::new();
    let foreign = std::fs::read_to_string(other.root().join("log/checkpoint")).unwrap();
    let fresh = Samples::new();
    let (standing, ids) = whole(&fresh, &fresh.trust(), Some(&foreign));
    assert_eq!(standing, Standing::Unclear, "{ids:?}");
}

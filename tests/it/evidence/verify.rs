//! Verdicts about bundles that were changed in every way.

mod forge;
mod hostile;
mod mutate;
mod program;
mod samples;

use std::collections::BTreeMap;

use nexus_router::evidence::verify::{Options, Standing, Verifier, verify_bundle};
use nexus_router::seal::Trust;

use mutate::Patient;
use samples::{Samples, copy};

/// Judges a bundle.
fn verdict(directory: &std::path::Path, trust: &Trust) -> nexus_router::evidence::verify::Verdict {
    verify_bundle(directory, Some(trust), Options::default())
}

#[test]
fn what_was_sealed_is_genuine() {
    let samples = Samples::new();
    let trust = samples.trust();
    for (name, directory) in samples.bundles() {
        let verdict = verdict(&directory, &trust);
        assert_eq!(verdict.standing(), Standing::Genuine, "{name}: {:?}", verdict.to_lines());
        assert!(verdict.rests_on.is_some() && !verdict.checked.is_empty());
        // A copy elsewhere may have any name.
        let elsewhere = tempfile::tempdir().unwrap();
        let copied = elsewhere.path().join("any-name");
        copy(&directory, &copied);
        let again = self::verdict(&copied, &trust);
        assert_eq!(again.standing(), Standing::Genuine, "{name}: {:?}", again.to_lines());
        assert_eq!((again.task_id, again.exec_id), (verdict.task_id, verdict.exec_id));
        assert_eq!(again.rests_on, verdict.rests_on);
    }
}

#[test]
fn a_whole_cabinet_is_genuine() {
    let samples = Samples::new();
    let trust = std::sync::Arc::new(samples.trust());
    let mut verifier = Verifier::new(Some(trust), Options::default());
    assert!(verifier.is_cabinet(&samples.root()).unwrap());
    let mut seen = Vec::new();
    let report = verifier.cabinet(&samples.root(), None, &mut |verdict| {
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
        seen.push(format!("{} {}", verdict.kind.name(), verdict.place));
    });
    let (cabinet, log) = (report.cabinet, report.log.unwrap());
    assert_eq!(cabinet.standing(), Standing::Genuine, "{:?}", cabinet.to_lines());
    assert_eq!(log.standing(), Standing::Genuine, "{:?}", log.to_lines());
    assert_eq!((seen.len(), report.entries), (7, 6), "{seen:?}");
}

/// Does everything to a bundle, and wants each to be found. Returns how many things were done.
fn all_found(
    name: &str,
    directory: &std::path::Path,
    trust: &Trust,
    act: impl Fn(&Patient, mutate::Seen<'_>),
) -> usize {
    let elsewhere = tempfile::tempdir().unwrap();
    let copied = elsewhere.path().join("bundle");
    copy(directory, &copied);
    let patient = Patient::new(&copied);
    let mut verifier = Verifier::new(Some(std::sync::Arc::new(trust.clone())), Options::default());
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut done = 0;
    act(&patient, &mut |patient, what| {
        let verdict = verifier.bundle(&patient.directory);
        assert_ne!(verdict.standing(), Standing::Genuine, "{name}: {what} was not found");
        let reason = verdict.findings.list()[0].reason.id();
        *reasons.entry(reason).or_default() += 1;
        done += 1;
    });
    // Whatever was done is undone, so that each was found for itself.
    let verdict = verifier.bundle(&copied);
    assert_eq!(verdict.standing(), Standing::Genuine, "{name}: {:?}", verdict.to_lines());
    eprintln!("{name}: {done} changes, all found: {reasons:?}");
    done
}

#[test]
fn every_flipped_bit_is_found() {
    let samples = Samples::new();
    let trust = samples.trust();
    let found = samples.bundles().into_iter().map(|(name, directory)| {
        all_found(name, &directory, &trust, |patient, seen| patient.flips(seen))
    });
    let found: usize = found.sum();
    assert!(found > 10_000, "{found}");
}

#[test]
fn every_cut_and_every_added_byte_is_found() {
    let samples = Samples::new();
    let trust = samples.trust();
    let found = samples.bundles().into_iter().map(|(name, directory)| {
        all_found(name, &directory, &trust, |patient, seen| patient.lengths(seen))
    });
    let found: usize = found.sum();
    assert!(found > 10_000, "{found}");
}

#[test]
fn every_file_removed_added_renamed_or_swapped_is_found() {
    let samples = Samples::new();
    let trust = samples.trust();
    let found = samples.bundles().into_iter().map(|(name, directory)| {
        all_found(name, &directory, &trust, |patient, seen| {
            patient.removals(seen);
            patient.additions(seen);
            patient.renames(seen);
        })
    });
    let found: usize = found.sum();
    assert!(found > 1_000, "{found}");
}

#[test]
fn every_changed_member_is_found() {
    let samples = Samples::new();
    let trust = samples.trust();
    let found = samples.bundles().into_iter().map(|(name, directory)| {
        all_found(name, &directory, &trust, |patient, seen| patient.members(seen))
    });
    let found: usize = found.sum();
    assert!(found > 500, "{found}");
}

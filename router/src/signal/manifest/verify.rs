//! Verifies a manifest: hashes, signatures, collisions, pointers, freshness.

use std::collections::HashMap;

use super::super::Finding;
use super::super::Severity;
use super::super::entry::{bad_pointers, entry_form, entry_hash, entry_name, entry_status, text};
use super::super::publisher::{SignatureStatus, Trust};
use super::freshness::{self, FreshnessReport};
use super::{badness, entries, manifest_hash};
use crate::clock::Timestamp;
use crate::json::{Object, Value, to_canonical};

/// From how many signatures on they are checked on more than one thread.
const MANY: usize = 128;

/// What a manifest is held to.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    /// Whose signatures are believed.
    pub trust: &'a Trust,
    /// The time at which it must be good.
    pub now: Timestamp,
    /// Everything must be signed, and every signature be checked.
    pub require_signature: bool,
    /// It must say how fresh it is.
    pub require_freshness: bool,
    /// The least sequence.
    pub min_sequence: Option<u64>,
    /// The manifest that was taken before it.
    pub previous: Option<&'a Object>,
    /// Warnings count as errors.
    pub strict: bool,
}

impl<'a> Rules<'a> {
    /// The rules of the AiGentsy tools.
    #[must_use]
    pub const fn plain(trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            require_signature: false,
            require_freshness: false,
            min_sequence: None,
            previous: None,
            strict: false,
        }
    }
}

/// What is known of a hash.
#[derive(Clone, Debug, PartialEq)]
pub enum HashStatus {
    /// There is none.
    Absent,
    /// It holds.
    Ok,
    /// It does not.
    Mismatch {
        /// What the document says.
        expected: Value,
        /// What it is.
        recomputed: String,
    },
}

impl HashStatus {
    fn of(expected: Option<&Value>, recomputed: impl FnOnce() -> String) -> Self {
        let Some(expected) = expected else { return Self::Absent };
        let recomputed = recomputed();
        if expected.as_str() == Some(&recomputed) {
            return Self::Ok;
        }
        Self::Mismatch { expected: expected.clone(), recomputed }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Ok => "ok",
            Self::Mismatch { .. } => "mismatch",
        }
    }
}

/// What is known of one entry.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place.
    pub index: usize,
    /// `ID@VERSION`.
    pub name: String,
    /// Its id, its version and its status as they stand there.
    pub said: [Value; 3],
    /// What is known of its hash.
    pub hash: HashStatus,
    /// What is known of its signature.
    pub signature: SignatureStatus,
    /// Whether its status is one.
    pub has_status: bool,
    /// What is wrong with its form.
    pub form: Vec<&'static str>,
}

/// What is known of a manifest as a whole.
#[derive(Clone, Debug)]
pub struct Top {
    /// What is known of its hash.
    pub hash: HashStatus,
    /// What is known of its signature.
    pub signature: SignatureStatus,
}

/// What was found about a manifest.
#[derive(Clone, Debug)]
pub struct Report {
    /// About it as a whole.
    pub top: Top,
    /// About each entry.
    pub rows: Vec<Row>,
    /// Id and version of entries that another entry contradicts.
    pub collisions: Vec<[Value; 2]>,
    /// About its freshness.
    pub freshness: FreshnessReport,
    /// Everything that is wrong, or worth knowing.
    pub findings: Vec<Finding>,
    /// Whether it holds, by the rules.
    pub ok: bool,
    /// Whether every signature that there must be was checked, and holds.
    pub verified: bool,
}

/// Verifies a manifest.
///
/// # Errors
/// Everything in it that is no entry; then nothing is known.
pub fn verify(manifest: &Object, rules: &Rules<'_>) -> Result<Report, Vec<String>> {
    let entries = entries(manifest)?;
    let mut findings = Vec::new();
    let top = check_top(manifest, &entries, rules.trust);
    tell_top(&top, &entries, rules, &mut findings);
    let rows = rows(&entries, rules.trust);
    for (row, entry) in rows.iter().zip(&entries) {
        tell_row(row, entry, rules, &mut findings);
    }
    let collisions = collisions(&entries, &mut findings);
    graph(&entries, &mut findings);
    let freshness = freshness::check(manifest, rules.trust, rules.now, &mut findings);
    let sequence = freshness.freshness.as_ref().map(|it| it.sequence);
    if (rules.require_freshness || rules.strict) && !manifest.contains_key(freshness::MEMBER) {
        let message =
            "it does not say how fresh it is; build it with nexus-router contract manifest build";
        findings.push(Finding::error("/freshness", message));
    }
    if let Some(least) = rules.min_sequence.filter(|least| sequence.is_none_or(|it| it < *least)) {
        let told = sequence.map_or_else(|| "none".to_owned(), |it| it.to_string());
        let message = format!("its sequence is {told}, and must be at least {least}");
        findings.push(Finding::error("/freshness/sequence", message));
    }
    if let Some(previous) = rules.previous {
        let present = freshness.freshness.as_ref();
        freshness::compare(manifest, present, previous, rules.trust, &mut findings);
        history(&entries, previous, &mut findings);
    }
    let is_bad = |finding: &Finding| rules.strict || finding.severity == Severity::Error;
    let ok = !findings.iter().any(is_bad);
    let signed = |status| status == SignatureStatus::Ok;
    let all_signed = signed(top.signature) && rows.iter().all(|row| signed(row.signature));
    let verified = ok && all_signed && top.hash == HashStatus::Ok;
    Ok(Report { top, rows, collisions, freshness, findings, ok, verified })
}

/// Holds the hash and the signature of a manifest to it.
#[must_use]
pub fn check_top(manifest: &Object, entries: &[&Object], trust: &Trust) -> Top {
    let declared = manifest.get("manifest_hash");
    let message = declared.and_then(Value::as_str).unwrap_or_default();
    Top {
        hash: HashStatus::of(declared, || manifest_hash(manifest, entries)),
        signature: trust.judge(manifest, message.as_bytes(), manifest.get("manifest_signature")),
    }
}

/// Holds the hash and the signature of an entry to it.
#[must_use]
pub fn check_row(index: usize, entry: &Object, trust: &Trust) -> Row {
    let declared = entry.get("entry_hash");
    let message = declared.and_then(Value::as_str).unwrap_or_default();
    let said = |key: &str, absent: &str| entry.get(key).cloned().unwrap_or(absent.into());
    Row {
        index,
        name: entry_name(entry),
        said: [said("adapter_id", ""), said("adapter_version", ""), said("status", "active")],
        hash: HashStatus::of(declared, || entry_hash(entry)),
        signature: trust.judge(entry, message.as_bytes(), entry.get("entry_signature")),
        has_status: entry.get("status").is_some_and(Value::is_null)
            || entry_status(entry).is_some(),
        form: entry_form(entry),
    }
}

/// Checks every entry. A signature takes as long as a hundred hashes, so many are shared among the processors.
fn rows(entries: &[&Object], trust: &Trust) -> Vec<Row> {
    let check = |from: usize, part: &[&Object]| -> Vec<Row> {
        let rows = part.iter().enumerate().map(|(at, entry)| check_row(from + at, entry, trust));
        rows.collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    if entries.len() < MANY || threads < 2 || !trust.is_somebody() {
        return check(0, entries);
    }
    let size = entries.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (entries.chunks(size).enumerate())
            .map(|(part, entries)| (part * size, entries))
            .map(|(from, part)| (from, part, scope.spawn(move || check(from, part))))
            .collect();
        let joined = parts
            .into_iter()
            .flat_map(|(from, part, thread)| thread.join().unwrap_or_else(|_| check(from, part)));
        joined.collect()
    })
}

fn tell_top(top: &Top, entries: &[&Object], rules: &Rules<'_>, findings: &mut Vec<Finding>) {
    let weigh = |is_bad: bool, pointer: &str, message: &str| match is_bad {
        true => Finding::error(pointer, message),
        false => Finding::warning(pointer, message),
    };
    let unhashed = top.hash == HashStatus::Absent;
    let unsigned = top.signature == SignatureStatus::Absent;
    if unhashed && unsigned && entries.is_empty() {
        let message = "there is nothing to verify: no contracts, no hash and no signature";
        return findings.push(Finding::error("", message));
    }
    match &top.hash {
        HashStatus::Ok => {}
        HashStatus::Absent => findings.push(weigh(
            rules.require_signature,
            "/manifest_hash",
            "there is no manifest_hash: entries can be left out, and nobody notices",
        )),
        HashStatus::Mismatch { recomputed, .. } => {
            let message = format!("manifest_hash does not hold: its entries have {recomputed}");
            findings.push(Finding::error("/manifest_hash", message));
        }
    }
    let message = format!("the manifest: {}", top.signature.meaning());
    let is_bad = match top.signature {
        SignatureStatus::Ok => return,
        SignatureStatus::NoPublicKey => rules.require_signature,
        SignatureStatus::Absent => !unhashed || rules.require_signature,
        _ => true,
    };
    findings.push(weigh(is_bad, "/manifest_signature", &message));
}

fn tell_row(row: &Row, entry: &Object, rules: &Rules<'_>, findings: &mut Vec<Finding>) {
    let place = |key: &str| format!("/contracts/{}/{key}", row.index);
    let named = |message: &str| format!("{}: {message}", row.name);
    match &row.hash {
        HashStatus::Ok => {}
        HashStatus::Absent => {
            findings.push(Finding::error(place("entry_hash"), named("there is no entry_hash")));
        }
        HashStatus::Mismatch { recomputed, .. } => {
            let message = format!("entry_hash does not hold: the entry has {recomputed}");
            findings.push(Finding::error(place("entry_hash"), named(&message)));
        }
    }
    let message = named(row.signature.meaning());
    match row.signature {
        SignatureStatus::Ok => {}
        SignatureStatus::NoPublicKey if !rules.require_signature => {
            findings.push(Finding::warning(place("entry_signature"), message));
        }
        _ => findings.push(Finding::error(place("entry_signature"), message)),
    }
    if !row.has_status {
        let message = named("its status is none of active, deprecated and revoked");
        findings.push(Finding::error(place("status"), message));
    }
    for message in &row.form {
        findings.push(Finding::error(format!("/contracts/{}", row.index), named(message)));
    }
    for key in bad_pointers(entry) {
        let message = format!("{key} is no ID@VERSION, and leads nowhere");
        findings.push(Finding::warning(place(key), named(&message)));
    }
}

/// Finds entries of the same id and version that bind different contracts.
fn collisions(entries: &[&Object], findings: &mut Vec<Finding>) -> Vec<[Value; 2]> {
    let mut seen: HashMap<String, Option<&Value>> = HashMap::with_capacity(entries.len());
    let mut became: HashMap<String, usize> = HashMap::with_capacity(entries.len());
    let mut found = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let part = |key: &str| entry.get(key).cloned().unwrap_or("".into());
        let key = [part("adapter_id"), part("adapter_version")];
        let hash = entry.get("contract_hash");
        let before = seen.insert(to_canonical(&Value::Array(key.to_vec())), hash).flatten();
        if before.is_some_and(|before| !before.is_null() && Some(before) != hash) {
            let message =
                format!("{}: another entry binds it to another contract", entry_name(entry));
            findings.push(Finding::error(format!("/contracts/{index}/contract_hash"), message));
            found.push(key);
        }
        // Of two that say different things of what became of one contract, nobody knows which is newer.
        let status = badness(entry);
        let former = became.insert(entry_name(entry), status);
        if former.is_some_and(|former| former != status) {
            let message = format!("{}: another entry gives it another status", entry_name(entry));
            findings.push(Finding::warning(format!("/contracts/{index}/status"), message));
        }
    }
    found
}

/// Finds replacements that are not in the manifest, and those that lead back to where they began.
fn graph(entries: &[&Object], findings: &mut Vec<Finding>) {
    let names: Vec<String> = entries.iter().map(|entry| entry_name(entry)).collect();
    let places: HashMap<&str, usize> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let next: Vec<Option<usize>> = (entries.iter().enumerate())
        .map(|(index, entry)| {
            let pointer = text(entry, "replaced_by").filter(|it| !it.is_empty())?;
            let place = places.get(pointer).copied();
            if place.is_none() && bad_pointers(entry).is_empty() {
                let message = format!("{}: {pointer} is not in the manifest", entry_name(entry));
                let pointer = format!("/contracts/{index}/replaced_by");
                findings.push(Finding::warning(pointer, message));
            }
            place
        })
        .collect();
    // Every entry leads to one other at most, so that each is walked over once.
    let mut walk_of = vec![usize::MAX; entries.len()];
    for start in 0..entries.len() {
        let mut at = Some(start);
        while let Some(place) = at.filter(|place| walk_of[*place] == usize::MAX) {
            walk_of[place] = start;
            at = next[place];
            if at.is_some_and(|after| walk_of[after] == start) {
                let message = format!("{}: its replacements lead back to it", names[place]);
                let pointer = format!("/contracts/{place}/replaced_by");
                findings.push(Finding::warning(pointer, message));
            }
        }
    }
}

/// Finds what became of entries that it must not become: another contract, or one that is good again.
fn history(present: &[&Object], previous: &Object, findings: &mut Vec<Finding>) {
    let Ok(before) = entries(previous) else { return };
    let now: HashMap<String, (usize, &Object)> =
        (present.iter().enumerate()).map(|(at, entry)| (entry_name(entry), (at, *entry))).collect();
    for old in before {
        let name = entry_name(old);
        let was_revoked = entry_status(old) == Some("revoked");
        let Some((index, new)) = now.get(&name) else {
            if was_revoked {
                let message = format!("{name}: it was revoked, and is no longer listed");
                findings.push(Finding::warning("/contracts", message));
            }
            continue;
        };
        if old.get("contract_hash") != new.get("contract_hash") {
            let message = format!("{name}: it was another contract before");
            findings.push(Finding::error(format!("/contracts/{index}/contract_hash"), message));
        }
        if was_revoked && entry_status(new) != Some("revoked") {
            let message = format!("{name}: it was revoked before");
            findings.push(Finding::error(format!("/contracts/{index}/status"), message));
        }
    }
}

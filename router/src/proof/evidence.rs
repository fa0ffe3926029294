//! Every bundle of a run, read from its bytes: what is wrong with each, by the check that finds it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::artifact::read;
use super::deeds::{Expected, Probe, deeds, probes};
use super::file;
use crate::digest::Digest;
use crate::evidence::manifest::{INPUTS, OUTPUTS, PARSED, PLAN, SPEC};
use crate::evidence::verify::{Basis, Kind, Limits, Options, Reason, Verdict, Verifier, list};
use crate::files;
use crate::json::Value;
use crate::notary;
use crate::role;
use crate::seal::Trust;

/// Where the rejections of a task are, beside its executions.
const REJECTIONS: &str = "rejections";

/// The checks, in their order; the first that fails is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    Layout,
    Hashes,
    Canonical,
    RoleTable,
    OperationTable,
    Allowed,
    Outputs,
    Normalized,
    Versions,
    Events,
    Signatures,
    Inclusion,
    Consistency,
    Probes,
    Results,
}

/// What was found.
#[derive(Default)]
pub(super) struct Examined {
    pub(super) findings: Vec<(Check, String)>,
    /// The entries of the log that the bundles claim.
    pub(super) claims: Vec<(String, Basis)>,
}

impl Examined {
    pub(super) fn tell(&mut self, check: Check, reason: impl Into<String>) {
        self.findings.push((check, reason.into()));
    }

    /// Takes over a verdict.
    fn judged(&mut self, place: &str, verdict: &Verdict) {
        for finding in verdict.findings.list() {
            let mut reason = format!("{}:{}:{place}", finding.reason.id(), verdict.kind.name());
            if !finding.file.is_empty() {
                reason = format!("{reason}:{}", finding.file);
            }
            let check = match verdict.kind {
                Kind::Run if finding.reason == Reason::HashMismatch => Check::Events,
                _ => check_of(finding.reason),
            };
            self.tell(check, reason);
        }
        if let Some(basis) = &verdict.rests_on {
            self.claims.push((place.to_owned(), basis.clone()));
        }
    }
}

/// Returns the check that a reason belongs to.
const fn check_of(reason: Reason) -> Check {
    match reason {
        Reason::HashMismatch | Reason::Mismatch => Check::Hashes,
        Reason::Malformed | Reason::NotCanonical => Check::Canonical,
        Reason::ActionNotAllowed => Check::Allowed,
        Reason::OutputRefused => Check::Outputs,
        Reason::NotNormalized => Check::Normalized,
        Reason::Unsealed
        | Reason::UntrustedKey
        | Reason::BadSignature
        | Reason::ExpiredKey
        | Reason::StatementMismatch
        | Reason::NoSeal
        | Reason::NoTrust => Check::Signatures,
        Reason::BadProof | Reason::UntrustedLog | Reason::NotInLog | Reason::MissingBundle => {
            Check::Inclusion
        }
        Reason::LogDamaged | Reason::LogRewritten => Check::Consistency,
        _ => Check::Layout,
    }
}

/// Looks at both cabinets of a run, and at what stands beside them.
pub(super) fn examine(run: &Path, trust: &Arc<Trust>) -> Examined {
    let mut examined = Examined::default();
    let beside = [
        file::ARTIFACT,
        file::ATTESTATION,
        file::PROOF,
        file::CHECKPOINT,
        file::PREVIOUS,
        file::AGAIN,
    ];
    closed(&mut examined, run, "", &beside);
    closed(&mut examined, &run.join(file::AGAIN), "again/", &[]);
    for below in ["", "again/"] {
        runs(&mut examined, run, below, trust);
        cabinet(&mut examined, run, below, trust);
    }
    examined
}

/// Tells what lies in a directory and has no place there.
fn closed(examined: &mut Examined, directory: &Path, below: &str, beside: &[&str]) {
    let cabinet = ["evidence", "plan", file::RUNS];
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return examined.tell(Check::Layout, format!("unreadable:{below}:{error}")),
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !cabinet.iter().chain(beside).any(|known| *known == name) {
            examined.tell(Check::Layout, format!("unlisted:proof:{below}{name}"));
        }
    }
}

fn cabinet(examined: &mut Examined, run: &Path, below: &str, trust: &Arc<Trust>) {
    let root = run.join(below);
    let mut found = Vec::new();
    match list(&root, Limits::default(), &mut |listed| found.push((listed.kind, listed.path))) {
        Ok(strange) => {
            for finding in strange.list() {
                let (reason, file) = (finding.reason.id(), &finding.file);
                examined.tell(Check::Layout, format!("{reason}:cabinet:{below}{file}"));
            }
        }
        Err(error) => return examined.tell(Check::Layout, format!("unreadable:{below}:{error}")),
    }
    let tasks: BTreeSet<&str> = tasks().map(|(task, _)| task).collect();
    let mut full = Verifier::new(Some(Arc::clone(trust)), Options::default());
    let mut named = BTreeSet::new();
    let mut plans = BTreeSet::new();
    for (kind, path) in &found {
        let (directory, place) = (root.join(path), format!("{below}{path}"));
        if *kind == Kind::Plan {
            plans.insert(plan(examined, &directory, &place));
            continue;
        }
        let task = path.split('/').nth(1).unwrap_or_default();
        if *kind != Kind::Verification && !tasks.contains(task) {
            examined.tell(Check::Layout, format!("unlisted:{}:{place}", kind.name()));
        }
        examined.judged(&place, &full.bundle(&directory));
        if *kind == Kind::Execution {
            named.extend(execution(examined, &directory, &place));
        }
    }
    let wrong = named.symmetric_difference(&plans);
    for plan in wrong.filter(|plan| !plan.is_empty()) {
        let reason = if plans.contains(plan) { "unlisted" } else { "missing" };
        examined.tell(Check::Layout, format!("{reason}:plan:{below}plan/{plan}"));
    }
}

/// Lists the tasks, and whether a rejection is wanted of each.
fn tasks() -> impl Iterator<Item = (&'static str, bool)> {
    let deeds = deeds().into_iter().map(|deed| (deed.task_id, false));
    let rejected = |probe: &Probe| matches!(probe.expected, Expected::Rejected(_));
    deeds.chain(probes().into_iter().map(move |probe| (probe.task_id, rejected(&probe))))
}

/// Says whether there is evidence of a task, and not only the place for it: a rejection where one is wanted, otherwise
/// an execution.
fn is_kept(evidence: &Path, rejected: bool) -> bool {
    let directory = if rejected { evidence.join(REJECTIONS) } else { evidence.to_owned() };
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| rejected || entry.file_name() != REJECTIONS)
}

/// Holds a plan to its name; executions vouch for it by that.
fn plan(examined: &mut Examined, directory: &Path, place: &str) -> String {
    let options = Options { hashes_only: true, ..Options::default() };
    examined.judged(place, &Verifier::new(None, options).bundle(directory));
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = files::read_bounded(&directory.join(PLAN), 1 << 20).unwrap_or_default();
    if Digest::of(&bytes).to_string() != name {
        examined.tell(Check::Hashes, format!("hash_mismatch:plan:{place}:{PLAN}"));
    }
    name
}

/// Holds an execution to the contract that is pinned here, and returns the plan that it names.
fn execution(examined: &mut Examined, directory: &Path, place: &str) -> Option<String> {
    let outputs = directory.join(OUTPUTS);
    let inputs = read(&outputs.join(INPUTS))?;
    let input = |name: &str| inputs.get("files")?.get(name)?.as_str();
    for (name, pinned, reason) in [
        ("policy/roles", role::TABLE_SHA256, "role_table"),
        ("contract/role", role::CONTRACT_SHA256, "role_contract"),
    ] {
        if input(name) != Some(pinned) {
            examined.tell(Check::RoleTable, format!("{reason}:{place}"));
        }
    }
    let spec = read(&directory.join(SPEC))?;
    let parsed = read(&outputs.join(PARSED))?;
    let told =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let role = told(&spec, "role").unwrap_or_default();
    let wanted = role::contract().pointer(&format!("/roles/{role}/adapter_version"));
    let (wanted, found) = (wanted.and_then(Value::as_str), told(&parsed, "adapter_version"));
    // What is refused was written by the router, whatever adapter was to give it.
    let given = parsed.get("ok").and_then(Value::as_bool) == Some(true);
    if given && (wanted.is_none() || found.as_deref() != wanted) {
        let (found, wanted) = (found.unwrap_or_default(), wanted.unwrap_or_default());
        examined.tell(Check::Versions, format!("adapter_version:{place}:{found}:{wanted}"));
    }
    input("plan/spec").map(str::to_owned)
}

/// Looks at the exported runs: the chain of their events, and their seals.
fn runs(examined: &mut Examined, run: &Path, below: &str, trust: &Trust) {
    let directory = run.join(below).join(file::RUNS);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => {
            return examined.tell(Check::Layout, format!("unreadable:{below}runs:{error}"));
        }
    };
    let mut found: BTreeSet<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for (task, rejected) in tasks() {
        let name = format!("{task}.json");
        let evidence = run.join(below).join("evidence").join(task);
        let there = found.remove(&name);
        let place = format!("{below}runs/{name}");
        if there {
            if !is_kept(&evidence, rejected) {
                examined.tell(Check::Layout, format!("missing:evidence:{below}evidence/{task}"));
            }
            examined.judged(&place, &notary::judge(&directory.join(&name), Some(trust)));
            let told = read_run(&directory.join(&name));
            if told.as_deref() != Some(task) {
                examined.tell(Check::Layout, format!("misplaced:run:{place}"));
            }
        } else if evidence.exists() {
            examined.tell(Check::Layout, format!("missing:run:{place}"));
        }
    }
    for name in found {
        examined.tell(Check::Layout, format!("unlisted:run:{below}runs/{name}"));
    }
}

/// Returns the id of an exported run.
fn read_run(path: &Path) -> Option<String> {
    Some(read(path)?.pointer("/run/run_id")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(directory: &Path, version: &str, table: &str) {
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("exec_spec.json", r#"{"role":"scout"}"#.to_owned());
        write("outputs/parsed.json", format!(r#"{{"adapter_version":"{version}","ok":true}}"#));
        let contract = role::CONTRACT_SHA256;
        let inputs = format!(
            r#"{{"files":{{"contract/role":"{contract}","plan/spec":"p","policy/roles":"{table}"}}}}"#
        );
        write("outputs/inputs.manifest.json", inputs);
    }

    #[test]
    fn executions_are_held_to_the_versions_and_tables_of_the_contract() {
        let place = tempfile::tempdir().unwrap();
        let judged = |version: &str, table: &str| {
            bundle(place.path(), version, table);
            let mut examined = Examined::default();
            assert_eq!(execution(&mut examined, place.path(), "b").as_deref(), Some("p"));
            examined.findings
        };
        assert_eq!(judged("1.0.0", role::TABLE_SHA256), []);
        assert_eq!(
            judged("1.0.1", role::TABLE_SHA256),
            [(Check::Versions, "adapter_version:b:1.0.1:1.0.0".to_owned())]
        );
        let other = "0".repeat(64);
        assert_eq!(judged("1.0.0", &other), [(Check::RoleTable, "role_table:b".to_owned())]);
    }
}

//! Whether a proof holds, by its bytes, by the pins of this program, and by the keys that whoever asks trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifact::{self, Assignments, CONTENT, Logged, SCHEMA};
use super::evidence::{self, Check, Examined};
use super::{Place, chain, file, run};
use crate::attest::TestResult;
use crate::digest::Digest;
use crate::files;
use crate::interface;
use crate::json::{self, Object, Value};
use crate::role;
use crate::seal::{self, Kind, Leaf, Trust};

/// Whether a proof without a scout may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scout {
    /// It may not.
    #[default]
    Required,
    /// It may, and says that it was skipped.
    Optional,
}

/// What is verified.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The run, instead of the last one.
    pub run_id: Option<String>,
    /// The keys that are trusted, instead of those beside the log.
    pub trust: Option<PathBuf>,
    /// An earlier checkpoint, which the log has to continue: a file, or the directory of earlier proofs.
    pub previous: Option<PathBuf>,
    /// Whether it holds without a scout.
    pub scout: Scout,
}

/// Why a proof does not hold: the first check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which thing, and what is wrong with it.
    pub reason: String,
    /// Whether it is the scout alone that did not do what it had to.
    pub of_scout: bool,
}

/// What is said of a proof.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The artifact, if it could be read.
    pub artifact: Option<Value>,
    /// How many things are wrong.
    pub findings: Vec<String>,
    /// Why it does not hold; if it does, whether the scout was skipped.
    pub holds: Result<bool, Failure>,
}

impl Verdict {
    /// Returns the last line.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.holds {
            Ok(false) => "OK:weekly_proof_verified".to_owned(),
            Ok(true) => "OK:weekly_proof_verified skipped=scout".to_owned(),
            Err(failure) => format!("FAIL:{}", failure.reason),
        }
    }

    fn failed(artifact: Option<Value>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let findings = vec![reason.clone()];
        Self { artifact, findings, holds: Err(Failure { reason, of_scout: false }) }
    }
}

/// Verifies a proof. Nothing is known of how it was made.
#[must_use]
pub fn verify(place: &Place, asked: &Asked) -> Verdict {
    let runs = match place.runs() {
        Ok(runs) => runs,
        Err(error) => return Verdict::failed(None, format!("unreadable:{error}")),
    };
    let run_id = asked.run_id.clone().or_else(|| runs.last().cloned());
    let Some(run_id) = run_id.filter(|run_id| runs.contains(run_id)) else {
        return Verdict::failed(None, "missing:proof");
    };
    let run = place.of_run(&run_id);
    let bytes = match files::read_bounded(&run.join(file::ARTIFACT), 1 << 20) {
        Ok(bytes) => bytes,
        Err(error) => {
            return Verdict::failed(None, format!("unreadable:{}:{error}", file::ARTIFACT));
        }
    };
    let Ok(artifact) = artifact::parse(&bytes) else {
        return Verdict::failed(None, format!("malformed:{}", file::ARTIFACT));
    };
    match judge(place, asked, (&run_id, &run), (&bytes, &artifact), runs.last() == Some(&run_id)) {
        Ok(examined) => conclude(examined, artifact, asked.scout),
        Err(reason) => Verdict::failed(Some(artifact), reason),
    }
}

fn judge(
    place: &Place,
    asked: &Asked,
    (run_id, run): (&str, &Path),
    (bytes, artifact): (&[u8], &Value),
    last: bool,
) -> Result<Examined, String> {
    if let Some(pointer) = zero(artifact, "") {
        return Err(format!("zero_hash:{pointer}"));
    }
    let told = |name: &str| artifact.get(name).and_then(Value::as_str);
    let logged = Logged::of(artifact).filter(|logged| logged.run_id == run_id);
    let (Some(logged), Some(assignments), Some(SCHEMA)) =
        (logged, Assignments::of(artifact), told("schema_version"))
    else {
        return Err(format!("malformed:{}", file::ARTIFACT));
    };
    let trust_path = asked.trust.clone().unwrap_or_else(|| seal::trust_path(place.root()));
    let trust = Trust::read(&trust_path).map_err(|_| "no_trust:keys/trust.json".to_owned())?;
    let trust = Arc::new(trust);
    let previous = asked.previous.as_deref().map(read_previous).transpose()?;

    let mut examined = evidence::examine(run, &trust);
    if last && files::read_bounded(&place.artifact(), 1 << 20).ok().as_deref() != Some(bytes) {
        examined.tell(Check::Layout, "artifact_differs:artifacts");
    }
    pins(&mut examined, artifact);
    attestation(&mut examined, run, &trust, (bytes, artifact), &logged);
    chain::examine(&mut examined, (place, run), &trust, &logged, previous.as_deref());
    results(&mut examined, artifact);
    let derived = artifact::derive(run, &assignments, &logged);
    if let Some(name) = differing(artifact, &derived) {
        examined.tell(Check::Results, format!("artifact_differs:{name}"));
    }
    Ok(examined)
}

/// The first check that fails decides; a scout that was skipped fails nothing if it may be.
fn conclude(mut examined: Examined, artifact: Value, scout: Scout) -> Verdict {
    let skipped = is_skipped(&artifact);
    if skipped && scout == Scout::Optional {
        examined.findings.retain(|(_, reason)| !reason.starts_with(SKIPPED));
    }
    examined.findings.sort_by_key(|(check, _)| *check);
    let findings: Vec<String> =
        examined.findings.iter().map(|(_, reason)| reason.clone()).collect();
    let of_scout =
        |reason: &String| reason.starts_with(SKIPPED) || reason.starts_with("failed:scout");
    let holds = match findings.first() {
        None => Ok(skipped),
        Some(reason) => {
            Err(Failure { reason: reason.clone(), of_scout: findings.iter().all(of_scout) })
        }
    };
    Verdict { artifact: Some(artifact), findings, holds }
}

/// What stands before the name of what was not tried.
const SKIPPED: &str = "skipped:";

fn is_skipped(artifact: &Value) -> bool {
    artifact.pointer("/results/scout/skipped").and_then(Value::as_bool) != Some(false)
}

/// Holds the tables of this program to their pins, and the artifact to them.
fn pins(examined: &mut Examined, artifact: &Value) {
    let operations = json::to_jcs(&interface::operation_table()).unwrap_or_default();
    let operations = Digest::of(operations.as_bytes());
    for (check, name, pinned, own) in [
        (Check::RoleTable, "role_table_sha256", role::TABLE_SHA256, role::table_sha256()),
        (Check::RoleTable, "role_contract_sha256", role::CONTRACT_SHA256, role::contract_sha256()),
        (
            Check::OperationTable,
            "operation_table_sha256",
            interface::OPERATION_TABLE_SHA256,
            operations,
        ),
    ] {
        let told = artifact.get(name).and_then(Value::as_str);
        if told != Some(pinned) || own.to_string() != pinned {
            let name = name.trim_end_matches("_sha256");
            examined.tell(check, format!("{name}:{}", told.unwrap_or_default()));
        }
    }
}

/// Holds the artifact to what was signed of it.
fn attestation(
    examined: &mut Examined,
    run: &Path,
    trust: &Trust,
    (bytes, artifact): (&[u8], &Value),
    logged: &Logged,
) {
    let read = |name: &str| files::read_bounded(&run.join(name), 1 << 20).unwrap_or_default();
    let (line, proof) = (read(file::ATTESTATION), read(file::PROOF));
    if line.is_empty() || proof.is_empty() {
        return examined.tell(Check::Signatures, "unsealed:weekly_proof");
    }
    // What was signed comes before where it stands in the log: a statement of something else is told as that.
    let Ok((_, _, statement)) = seal::signed(trust, &line) else {
        return examined.tell(Check::Signatures, "bad_signature:weekly_proof");
    };
    let digest = Digest::of(bytes);
    let said = statement.subject(file::ARTIFACT) == Some(digest)
        && statement.subjects.len() == 1
        && TestResult::of(&statement).is_ok_and(|result| result == run::result(artifact));
    if !said {
        return examined.tell(Check::Signatures, "statement_mismatch:weekly_proof");
    }
    let leaf = Leaf { kind: Kind::Weekly, manifest_sha256: digest, spec_sha256: None };
    let proof = String::from_utf8(proof).unwrap_or_default();
    let verified = match seal::verify(trust, leaf, &line, &proof) {
        Ok(verified) => verified,
        Err(
            seal::Broken::Proof(_) | seal::Broken::Added(_) | seal::Broken::LogKeyOutOfRange { .. },
        ) => {
            return examined.tell(Check::Inclusion, "bad_proof:weekly_proof");
        }
        Err(_) => return examined.tell(Check::Signatures, "bad_signature:weekly_proof"),
    };
    if verified.index != logged.tree_size {
        examined.tell(Check::Inclusion, "other_week:weekly_proof");
    }
}

/// Everything that was to succeed did, twice and equally; everything that was to be held back was.
fn results(examined: &mut Examined, artifact: &Value) {
    for row in artifact.get("probes").and_then(Value::as_array).unwrap_or_default() {
        let name = row.get("name").and_then(Value::as_str).unwrap_or_default();
        if flag(row, "skipped") != Some(false) {
            // Without a scout nobody answers in its place either; that is told once.
            if !is_skipped(artifact) {
                examined.tell(Check::Probes, format!("{SKIPPED}probe:{name}"));
            }
        } else if flag(row, "ok") != Some(true) {
            let part = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or("missing");
            let (outcome, reason) = (part("outcome"), part("reason"));
            let tried = row.get("attempts").and_then(Value::as_i64);
            let tried = tried.map_or_else(String::new, |tried| format!(":attempts={tried}"));
            examined.tell(Check::Probes, format!("probe:{name}:{outcome}:{reason}{tried}"));
        }
    }
    for role in role::Role::ALL {
        let name = role.name();
        let result = artifact.pointer(&format!("/results/{name}")).unwrap_or(&Value::Null);
        if flag(result, "skipped") != Some(false) {
            examined.tell(Check::Results, format!("{SKIPPED}{name}"));
            continue;
        }
        let rows = result.get("executions").and_then(Value::as_array).unwrap_or_default();
        for row in rows.iter().filter(|row| flag(row, "ok") != Some(true)) {
            let part = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or("missing");
            let why = match part("evaluation_decision") {
                "accept" => part("outcome"),
                _ => "differs",
            };
            let (step, class) = (part("exec_id"), part("action_class"));
            examined.tell(Check::Results, format!("failed:{name}:{step}:{class}:{why}"));
        }
        if flag(result, "ok") != Some(true) {
            examined.tell(Check::Results, format!("failed:{name}"));
        }
    }
}

fn flag(row: &Value, name: &str) -> Option<bool> {
    row.get(name).and_then(Value::as_bool)
}

/// Returns the first member that is not what the files say.
fn differing(artifact: &Value, derived: &Object) -> Option<String> {
    let Some(told) = artifact.as_object() else { return Some(String::new()) };
    let names = derived.keys().chain(told.keys());
    let wrong: Vec<&str> = names.filter(|name| derived.get(name) != told.get(name)).collect();
    // The digest follows from the others; told alone it says little.
    let first = wrong.iter().find(|name| **name != CONTENT);
    first.or(wrong.first()).map(|name| (*name).to_owned())
}

/// Finds a digest that is none.
fn zero(value: &Value, pointer: &str) -> Option<String> {
    match value {
        Value::String(text) if text.len() == 64 && text.bytes().all(|byte| byte == b'0') => {
            Some(pointer.to_owned())
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| zero(item, &format!("{pointer}/{index}"))),
        Value::Object(object) => {
            object.iter().find_map(|(name, item)| zero(item, &format!("{pointer}/{name}")))
        }
        _ => None,
    }
}

/// Reads an earlier checkpoint: a file, or that of the log of earlier proofs.
fn read_previous(path: &Path) -> Result<String, String> {
    let file =
        if path.is_dir() { seal::log_directory(path).join("checkpoint") } else { path.to_owned() };
    let bytes = files::read_bounded(&file, chain::MAX_CHECKPOINT);
    bytes
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| "unreadable:previous".to_owned())
}

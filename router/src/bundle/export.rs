//! Writes a bundle.

use sha2::{Digest as _, Sha256};

use super::{Error, VERSION, canonical};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};
use crate::store::{Log, RunRecord, Store};

/// Where a log comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name. Its directory is nobody's business elsewhere.
    name: String,
    payloads: Payloads,
}

/// In which form a source keeps payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payloads {
    /// As canonical text.
    Canonical,
    /// As the Python router wrote them.
    Python,
}

impl Source {
    /// Says where the logs of a store come from.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let name = store.path().and_then(|path| path.file_name());
        Self {
            name: name
                .map_or_else(|| ":memory:".into(), |name| name.to_string_lossy().into_owned()),
            payloads: if store.is_python() { Payloads::Python } else { Payloads::Canonical },
        }
    }
}

/// Whether a bundle says where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provenance {
    /// It does.
    #[default]
    Include,
    /// It does not.
    Omit,
}

/// What proves that a bundle is what was recorded: stands beside what its digest covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The DSSE envelope around the statement about the run, as JSON.
    pub attestation: String,
    /// The proof that the statement is in the log, as C2SP writes it.
    pub proof: String,
}

impl Attached {
    /// Appends the members of a bundle.
    pub(super) fn write(&self, text: &mut String) {
        text.push_str(",\"attestation\":");
        text.push_str(self.attestation.trim_end());
        text.push_str(",\"proof\":");
        json::write_canonical_str(text, &self.proof);
    }
}

/// A bundle, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The bundle.
    pub text: String,
    /// The digest of its run and events.
    pub digest: Digest,
}

impl Exported {
    /// Puts the seal of the run beside what the digest covers.
    #[must_use]
    pub fn sealed(mut self, seal: &Attached) -> Self {
        // The last character closes the object.
        self.text.pop();
        seal.write(&mut self.text);
        self.text.push('}');
        self
    }

    /// Returns the bundle as a value.
    ///
    /// # Errors
    /// When the stored events are damaged.
    pub fn to_json(&self) -> Result<Value, Error> {
        Ok(json::parse(self.text.as_bytes(), Limits::BUNDLE)?)
    }
}

/// Writes a run as a bundle. Stored lines are canonical, so they are only put together.
///
/// # Errors
/// When the log is of a Python store and holds what JSON cannot say.
pub fn export(
    log: &Log,
    source: &Source,
    provenance: Provenance,
    now: Timestamp,
) -> Result<Exported, Error> {
    let record = &log.record;
    match source.payloads {
        Payloads::Canonical => Ok(splice(log, source, provenance, now)),
        Payloads::Python => {
            let lines = canonical(log).map_err(|unreadable| Error::Unreadable {
                run_id: record.header.run_id.clone(),
                reason: unreadable.to_string(),
            })?;
            Ok(write(record, &[lines.body], lines.head, source, provenance, now))
        }
    }
}

/// Writes a run of a store of ours as a bundle.
pub(super) fn splice(
    log: &Log,
    source: &Source,
    provenance: Provenance,
    now: Timestamp,
) -> Exported {
    let Log { record, bodies } = log;
    write(record, bodies, record.progress.head, source, provenance, now)
}

fn write(
    record: &RunRecord,
    bodies: &[String],
    head: Digest,
    source: &Source,
    provenance: Provenance,
    now: Timestamp,
) -> Exported {
    let mut text = String::with_capacity(bodies.iter().map(String::len).sum::<usize>() + 2048);
    text.push_str("{\"bundle_version\":");
    json::write_canonical_str(&mut text, VERSION);
    text.push_str(",\"exported_at\":");
    json::write_canonical_str(&mut text, &now.to_string());
    text.push(',');
    // The digest is that of an object with these two members alone.
    let covered = text.len();
    text.push_str("\"events\":[");
    for (index, line) in bodies.iter().flat_map(|body| body.lines()).enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(line);
    }
    text.push_str("],\"run\":");
    json::write_canonical_object(&mut text, &run(record));
    let digest = digest(&text[covered..]);
    text.push_str(&format!(",\"digests\":{{\"sha256\":\"{digest}\"}}"));
    text.push_str(&format!(",\"chain\":{{\"alg\":\"sha256\",\"head\":\"{head}\"}}"));
    write_provenance(&mut text, record, source, provenance);
    text.push('}');
    Exported { text, digest }
}

/// Appends the member that names the source of a bundle, if it is wanted.
pub(super) fn write_provenance(
    text: &mut String,
    record: &RunRecord,
    source: &Source,
    provenance: Provenance,
) {
    if provenance == Provenance::Omit {
        return;
    }
    let mut provenance = Object::new();
    provenance.insert("export_method", "nexus-router.export");
    provenance.insert("export_version", VERSION);
    provenance.insert("source_db_path", source.name.as_str());
    provenance.insert("source_run_id", record.header.run_id.as_str());
    text.push_str(",\"provenance\":");
    json::write_canonical_object(text, &provenance);
}

pub(super) fn run(record: &RunRecord) -> Object {
    let mut run = Object::with_capacity(5);
    run.insert("created_at", record.header.created_at.as_str());
    run.insert("goal", record.header.goal.as_str());
    run.insert("mode", record.header.mode.as_str());
    run.insert("run_id", record.header.run_id.as_str());
    run.insert("status", record.progress.status.name());
    run
}

/// Returns the digest that the bundle of a run has.
pub(super) fn digest_of(log: &Log) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update("{\"events\":[");
    for (index, line) in log.bodies.iter().flat_map(|body| body.lines()).enumerate() {
        if index > 0 {
            hasher.update(",");
        }
        hasher.update(line);
    }
    let mut last = "],\"run\":".to_owned();
    json::write_canonical_object(&mut last, &run(&log.record));
    last.push('}');
    hasher.update(last);
    Digest::from_bytes(hasher.finalize().into())
}

/// Returns the digest of an object, given the text of its members.
fn digest(members: &str) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update("{");
    hasher.update(members);
    hasher.update("}");
    Digest::from_bytes(hasher.finalize().into())
}

/// Returns the form that callers get when there is no such run.
#[must_use]
pub fn not_found(run_id: &str) -> Value {
    let mut error = Object::new();
    error.insert("code", "RUN_NOT_FOUND");
    error.insert("message", format!("Run {run_id} not found"));
    let mut response = Object::new();
    response.insert("ok", false);
    response.insert("error", error);
    response.into()
}

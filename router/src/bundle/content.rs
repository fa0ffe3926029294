//! What a bundle holds, with every digest taken anew: for whoever holds it to a seal.

use super::Error;
use super::import::Check;
use super::prepare::prepare;
use super::read::Bundle;
use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::store::{Log, Status};

/// The members that a bundle may have.
const MEMBERS: [&str; 9] = [
    "bundle_version",
    "exported_at",
    "events",
    "run",
    "digests",
    "chain",
    "provenance",
    "attestation",
    "proof",
];

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The run.
    pub run_id: String,
    /// How it ended.
    pub status: Status,
    /// How many events it has.
    pub events: u64,
    /// The digest of the run and its events.
    pub digest: Digest,
    /// The digest of the line that says its plan.
    pub plan: Digest,
    /// The last link of its hash chain.
    pub head: Digest,
    /// Members that no bundle has.
    pub strange: Vec<String>,
}

/// Reads a bundle, and takes its digests anew.
///
/// # Errors
/// When it is no bundle, or says other digests than it has.
pub fn content(bundle: &Value) -> Result<Content, Error> {
    let frame = Bundle::read(bundle)?;
    let strange = frame_members(bundle).filter(|name| !MEMBERS.contains(name));
    let strange = strange.map(str::to_owned).collect();
    let (run_id, status) = (frame.header.run_id.clone(), frame.status);
    let prepared = prepare(frame, Check::Verify)?;
    let (digest, head) = (prepared.digest, prepared.lines.head);
    let lines = || prepared.lines.body.lines();
    let (events, plan) = (lines().count() as u64, plan(lines()));
    Ok(Content { run_id, status, events, digest, plan, head, strange })
}

fn frame_members(bundle: &Value) -> impl Iterator<Item = &str> {
    let members = match bundle {
        Value::Object(object) => Some(object),
        _ => None,
    };
    members.into_iter().flat_map(Object::iter).map(|(name, _)| name)
}

/// Returns the digest of the second line: what comes after the beginning of a run is its plan.
fn plan<'a>(mut lines: impl Iterator<Item = &'a str>) -> Digest {
    Digest::of(lines.nth(1).unwrap_or_default().as_bytes())
}

/// Says what the bundle of a run would hold.
#[must_use]
pub fn content_of(log: &Log) -> Content {
    let Log { record, .. } = log;
    Content {
        run_id: record.header.run_id.clone(),
        status: record.progress.status,
        events: record.progress.events,
        digest: super::export::digest_of(log),
        plan: plan(log.lines()),
        head: record.progress.head,
        strange: Vec::new(),
    }
}

//! What the bundles of a cabinet say of themselves. Nothing of it is verified.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};

use super::places::Places;
use super::verdict::{Findings, Kind};
use super::walk::{Limits, open_named};
use crate::json::{self, Object, Value};

/// A document that is only listed is no larger.
const LISTED: json::Limits = json::Limits { bytes: 1 << 20, depth: 64, values: 100_000 };

/// What a bundle says of itself.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What it is, by its place.
    pub kind: Kind,
    /// The path from the root of the cabinet.
    pub path: String,
    /// The role, of an execution.
    pub role: Option<String>,
    /// The class of its action, of an execution.
    pub action: Option<String>,
    /// What came of it.
    pub outcome: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Whether there is an attestation, whatever it is worth.
    pub sealed: bool,
}

impl Listed {
    /// Returns it for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(7);
        object.insert("kind", self.kind.name());
        object.insert("path", self.path.as_str());
        object.insert("role", self.role.clone());
        object.insert("action", self.action.clone());
        object.insert("outcome", self.outcome.clone());
        object.insert("reason", self.reason.clone());
        object.insert("sealed", self.sealed);
        object.into()
    }
}

/// Tells of every bundle of a cabinet, and returns what in it is none.
///
/// # Errors
/// When the cabinet cannot be opened.
pub fn list(root: &Path, limits: Limits, each: &mut dyn FnMut(Listed)) -> io::Result<Findings> {
    let directory = open_named(root)?;
    let mut findings = Findings::new(limits.findings);
    let mut give = |spot: super::places::Spot| {
        let directory = spot.directory.as_fd();
        let document = |name: &str| read(directory, name).unwrap_or(Value::Null);
        let text = |document: &Value, name: &str| {
            document.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let (spec, told) = match spot.kind {
            Kind::Execution => (document("exec_spec.json"), document("run_summary.json")),
            Kind::Rejection => (Value::Null, document("rejection.json")),
            _ => (Value::Null, document("manifest.sha256.json")),
        };
        let attestation = statat(directory, "attestation.intoto.jsonl", AtFlags::SYMLINK_NOFOLLOW);
        each(Listed {
            kind: spot.kind,
            role: text(&spec, "role"),
            action: text(&spec, "action"),
            outcome: text(&told, "outcome"),
            reason: text(&told, "reason"),
            sealed: attestation.is_ok(),
            path: spot.path,
        });
    };
    Places { limits, findings: &mut findings, found: 0, each: &mut give }.walk(directory.as_fd());
    Ok(findings)
}

/// Reads a document of a bundle, if there is one.
fn read(directory: BorrowedFd<'_>, name: &str) -> Option<Value> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || usize::try_from(stat.st_size).ok()? > LISTED.bytes {
        return None;
    }
    let mut bytes = Vec::new();
    let file = io::Read::take(std::fs::File::from(file), LISTED.bytes as u64 + 1);
    io::Read::read_to_end(&mut { file }, &mut bytes).ok()?;
    json::parse(&bytes, LISTED).ok()
}

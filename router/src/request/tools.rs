//! What a caller asks of the record: the requests of the tools that inspect, replay, export, import.

use super::shape::{self, Kind, Place, Shape};
use super::{Error, Request, table, whole};
use crate::json::{Object, Value};

/// The request of `nexus-router.run`: a run request that may also name a store.
#[derive(Clone, Debug, PartialEq)]
pub struct RunToolRequest {
    /// The store to record in; the host's own if absent.
    pub db_path: Option<String>,
    /// The run.
    pub request: Request,
}

/// The request of `nexus-router.inspect`: which runs to list. Filters are combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectRequest {
    /// The store.
    pub db_path: String,
    /// Only this run.
    pub run_id: Option<String>,
    /// Only runs of this status: `RUNNING`, `COMPLETED` or `FAILED`.
    pub status: Option<String>,
    /// How many at most; from 1 to 1000.
    pub limit: u64,
    /// How many to pass over first.
    pub offset: u64,
    /// Only runs created at this time or later.
    pub since: Option<String>,
}

/// The request of `nexus-router.replay`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The store.
    pub db_path: String,
    /// The run.
    pub run_id: String,
    /// Violations make the replay fail.
    pub strict: bool,
}

/// The request of `nexus-router.export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    /// The store.
    pub db_path: String,
    /// The run.
    pub run_id: String,
    /// The bundle says where it comes from.
    pub include_provenance: bool,
    /// The form of the bundle.
    pub format: Format,
}

/// A form of bundles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The form 0.3, which the Python router shares.
    #[default]
    BundleV03,
}

/// The request of `nexus-router.import`.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportRequest {
    /// The store.
    pub db_path: String,
    /// The bundle; only its frame has been checked.
    pub bundle: Value,
    /// What happens when the store has a run of that id.
    pub mode: ImportMode,
    /// The id to import under, with [`ImportMode::NewRunId`]; a fresh one if absent.
    pub new_run_id: Option<String>,
    /// The bundle's digest is compared.
    pub verify_digest: bool,
    /// The imported run is replayed.
    pub replay_after_import: bool,
}

/// What an import does when the store has a run of that id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportMode {
    /// It changes nothing.
    #[default]
    RejectOnConflict,
    /// It imports under another id; without a conflict, too.
    NewRunId,
    /// It replaces the run.
    Overwrite,
}

impl ImportMode {
    /// Returns the name that requests use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RejectOnConflict => "reject_on_conflict",
            Self::NewRunId => "new_run_id",
            Self::Overwrite => "overwrite",
        }
    }

    /// Returns the mode of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::RejectOnConflict, Self::NewRunId, Self::Overwrite]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

impl RunToolRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// With the first mistake.
    pub fn read(mut request: Value) -> Result<Self, Error> {
        let db_path = match &mut request {
            Value::Object(members) => members.remove("db_path"),
            _ => None,
        };
        let place = Place::Root { schema: table::RUN_SCHEMA };
        if let Some(path) = &db_path {
            shape::check(path, &Kind::NAME, &Place::Member(&place, "db_path"))?;
        }
        Ok(Self { db_path: db_path.and_then(into_text), request: Request::read(request)? })
    }
}

impl InspectRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// With the first mistake.
    pub fn read(request: Value) -> Result<Self, Error> {
        let mut given = checked(request, &table::INSPECT, table::INSPECT_SCHEMA)?;
        Ok(Self {
            db_path: take(&mut given, "db_path").unwrap_or_default(),
            run_id: take(&mut given, "run_id"),
            status: take(&mut given, "status"),
            limit: whole(&given, "limit").unwrap_or(50),
            offset: whole(&given, "offset").unwrap_or(0),
            since: take(&mut given, "since"),
        })
    }
}

impl ReplayRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// With the first mistake.
    pub fn read(request: Value) -> Result<Self, Error> {
        let mut given = checked(request, &table::REPLAY, table::REPLAY_SCHEMA)?;
        Ok(Self {
            db_path: take(&mut given, "db_path").unwrap_or_default(),
            run_id: take(&mut given, "run_id").unwrap_or_default(),
            strict: unless_denied(&given, "strict"),
        })
    }
}

impl ExportRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// With the first mistake.
    pub fn read(request: Value) -> Result<Self, Error> {
        let mut given = checked(request, &table::EXPORT, table::EXPORT_SCHEMA)?;
        Ok(Self {
            db_path: take(&mut given, "db_path").unwrap_or_default(),
            run_id: take(&mut given, "run_id").unwrap_or_default(),
            include_provenance: unless_denied(&given, "include_provenance"),
            format: Format::BundleV03,
        })
    }
}

impl ImportRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// With the first mistake of the request itself; what is wrong inside the bundle is found by the
    /// import.
    pub fn read(request: Value) -> Result<Self, Error> {
        let mut given = checked(request, &table::IMPORT, table::IMPORT_SCHEMA)?;
        let mode = take(&mut given, "mode").and_then(|name| ImportMode::from_name(&name));
        Ok(Self {
            db_path: take(&mut given, "db_path").unwrap_or_default(),
            bundle: given.remove("bundle").unwrap_or(Value::Null),
            mode: mode.unwrap_or_default(),
            new_run_id: take(&mut given, "new_run_id").filter(|id| !id.is_empty()),
            verify_digest: unless_denied(&given, "verify_digest"),
            replay_after_import: unless_denied(&given, "replay_after_import"),
        })
    }
}

fn checked(request: Value, shape: &'static Shape, schema: &'static str) -> Result<Object, Error> {
    shape::check(&request, &Kind::Object(shape), &Place::Root { schema })?;
    Ok(request.into_object().unwrap_or_default())
}

fn take(given: &mut Object, key: &str) -> Option<String> {
    given.remove(key).and_then(into_text)
}

fn into_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Reads a switch that is on by default.
fn unless_denied(given: &Object, key: &str) -> bool {
    given.get(key).and_then(Value::as_bool).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), json::Limits::REQUEST).unwrap()
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let inspect = InspectRequest::read(value(r#"{"db_path": "x"}"#)).unwrap();
        assert_eq!((inspect.limit, inspect.offset, inspect.since), (50, 0, None));
        let replay = ReplayRequest::read(value(r#"{"db_path": "x", "run_id": "r"}"#)).unwrap();
        assert!(replay.strict && replay.run_id == "r");
        let export = ExportRequest::read(value(r#"{"db_path": "x", "run_id": "r"}"#)).unwrap();
        assert!(export.include_provenance && export.format == Format::BundleV03);
        let bundle = r#"{"bundle_version": "0.3", "run": {}, "events": [], "digests": {}}"#;
        let import = value(&format!(r#"{{"db_path": "x", "bundle": {bundle}, "new_run_id": ""}}"#));
        let import = ImportRequest::read(import).unwrap();
        assert_eq!((import.mode, import.new_run_id), (ImportMode::RejectOnConflict, None));
        assert!(import.verify_digest && import.replay_after_import);
        assert_eq!(import.bundle, value(bundle));
    }

    #[test]
    fn what_is_given_is_read() {
        let inspect =
            r#"{"db_path": "x", "status": "FAILED", "limit": 2.0, "offset": 9, "since": "t"}"#;
        let inspect = InspectRequest::read(value(inspect)).unwrap();
        assert_eq!((inspect.limit, inspect.offset), (2, 9));
        assert_eq!(
            (inspect.status.as_deref(), inspect.since.as_deref()),
            (Some("FAILED"), Some("t"))
        );
        let import = r#"{"db_path": "x", "mode": "overwrite", "new_run_id": "n", "verify_digest": false,
            "bundle": {"bundle_version": "0.3", "run": {}, "events": [], "digests": {}}}"#;
        let import = ImportRequest::read(value(import)).unwrap();
        assert_eq!((import.mode, import.new_run_id.as_deref()), (ImportMode::Overwrite, Some("n")));
        assert!(!import.verify_digest);
        let error = InspectRequest::read(value(r#"{"db_path": "x", "statsu": "x"}"#)).unwrap_err();
        assert_eq!(
            (error.pointer(), error.hint().as_str()),
            ("/statsu", r#"did you mean "status"?"#)
        );
    }

    #[test]
    fn a_run_may_name_its_store_only_as_a_tool() {
        let request = value(r#"{"goal": "g", "db_path": "x"}"#);
        assert_eq!(Request::read(request.clone()).unwrap_err().pointer(), "/db_path");
        let tool = RunToolRequest::read(request).unwrap();
        assert_eq!((tool.db_path.as_deref(), tool.request.goal()), (Some("x"), "g"));
        assert!(tool.request.raw().get("db_path").is_none());
        assert_eq!(RunToolRequest::read(value(r#"{"goal": "g"}"#)).unwrap().db_path, None);
        for wrong in [r#"{"goal": "g", "db_path": ""}"#, r#"{"goal": "g", "db_path": 1}"#] {
            assert_eq!(RunToolRequest::read(value(wrong)).unwrap_err().pointer(), "/db_path");
        }
        assert_eq!(RunToolRequest::read(value("[]")).unwrap_err().pointer(), "");
    }
}

//! The tools that run plans and look at their record.

use std::path::Path;

use super::super::{Absent, App, Error, IN_MEMORY, try_import};
use crate::budget::Reservation;
use crate::bundle::{self, Check, ImportOptions, Provenance, Replays};
use crate::clock::Clock;
use crate::inspect;
use crate::json::{Object, Value};
use crate::replay::{self, Strictness};
use crate::request::{ExportRequest, ImportRequest, InspectRequest, ReplayRequest, RunToolRequest};
use crate::store::{Filter, Status, Store, VisibleRuns};

pub(super) fn run(app: &App, request: Value) -> Result<Value, Error> {
    let RunToolRequest { db_path, request } = RunToolRequest::read(request)?;
    let outcome = match db_path.as_deref() {
        None => app.router(Absent::Create)?.run_blocking(request)?,
        Some(path) if app.is_own(path) => app.router(Absent::Create)?.run_blocking(request)?,
        Some(path) => {
            let fleet = app.fleet()?;
            let store = match path {
                IN_MEMORY => Store::in_memory()?,
                path => app.store_at(path)?,
            };
            app.router_on(store, &fleet)?.run_blocking(request)?
        }
    };
    Ok(outcome.to_json())
}

pub(super) fn inspect(app: &App, request: Value) -> Result<Value, Error> {
    let request = InspectRequest::read(request)?;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let filter = Filter {
        run_id: request.run_id,
        status: request.status.as_deref().and_then(Status::from_name),
        since: request.since,
        limit: count(request.limit),
        offset: count(request.offset),
        ..Filter::default()
    };
    let store = app.reader_at(&request.db_path)?;
    Ok(inspect::inspect(&store, &filter)?.to_json())
}

pub(super) fn replay(app: &App, request: Value) -> Result<Value, Error> {
    let request = ReplayRequest::read(request)?;
    let store = app.reader_at(&request.db_path)?;
    let strictness = if request.strict { Strictness::Strict } else { Strictness::Lenient };
    let _reservation = reserve(app, &store, &request.run_id)?;
    Ok(match store.log(&request.run_id)? {
        Some(log) => replay::replay(&log).to_json(strictness),
        None => replay::not_found(&request.run_id),
    })
}

/// Reserves memory for the record of a run: its text, the text of its answer, and the values of that.
fn reserve(app: &App, store: &Store, run_id: &str) -> Result<Option<Reservation>, Error> {
    const COPIES: usize = 4;
    if store.is_python() {
        return Ok(None);
    }
    let Some(size) = store.record_size(run_id, &VisibleRuns::All)? else { return Ok(None) };
    let reserved = app.memory().try_reserve("", size.bytes.saturating_mul(COPIES));
    reserved.map(Some).map_err(|shortage| crate::router::Error::from(shortage).into())
}

pub(super) fn export(app: &App, request: Value) -> Result<Value, Error> {
    let request = ExportRequest::read(request)?;
    let store = app.reader_at(&request.db_path)?;
    let _reservation = reserve(app, &store, &request.run_id)?;
    let Some(log) = store.log(&request.run_id)? else {
        return Ok(bundle::not_found(&request.run_id));
    };
    let provenance =
        if request.include_provenance { Provenance::Include } else { Provenance::Omit };
    let exported = app.export(&store, &log, provenance)?;
    let mut response = Object::new();
    response.insert("ok", true);
    response.insert("artifact", exported.to_json()?);
    Ok(response.into())
}

pub(super) fn import(app: &App, request: Value) -> Result<Value, Error> {
    let request = ImportRequest::read(request)?;
    let options = ImportOptions {
        mode: request.mode,
        new_run_id: request.new_run_id,
        check: if request.verify_digest { Check::Verify } else { Check::Skip },
        replays: if request.replay_after_import { Replays::Report } else { Replays::Never },
        ..ImportOptions::new(Clock::System.now())
    };
    let imported = || {
        if !app.is_open(&request.db_path) && !Path::new(&request.db_path).exists() {
            try_import(&request.bundle, &options)?;
        }
        Ok(bundle::import_value(&app.store_at(&request.db_path)?, &request.bundle, &options)?)
    };
    match imported() {
        Ok(imported) => Ok(imported.to_json()),
        // What is wrong with the bundle is the answer.
        Err(Error::Bundle(error)) => Ok(error.to_json()),
        Err(error) => Err(error),
    }
}

//! Cases that are open: on disk before the call is made, so that a call of which nothing else can be kept leaves evidence.
//!
//! After the call the disk may be full, or the process gone. Then what is here is still there, and whoever next can write
//! makes of it the evidence that the call was let through, and that what came of it was not kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cabinet::{Error, STAGING, Shared};
use super::directory::Directory;
use super::manifest;
use super::plan::{self, Plan};
use super::settle::Batch;
use super::spec::ExecutionSpec;
use super::{Inputs, spec};
use crate::id;
use crate::json::{self, Limits, Object, Value};

/// The file of a case, in a directory of its own in staging.
pub(super) const CASE: &str = "case.json";
const LIMITS: Limits = Limits { bytes: spec::LIMITS.bytes * 4, depth: 64, values: 200_000 };

/// What has to be known of a case to make evidence of it.
#[derive(Clone, Debug)]
pub(super) struct CaseFacts {
    pub spec: ExecutionSpec,
    pub inputs: Inputs,
    pub native: bool,
    pub sandbox: Object,
}

impl CaseFacts {
    fn text(&self) -> String {
        let mut object = Object::with_capacity(4);
        object.insert("inputs", self.inputs.text());
        object.insert("native", self.native);
        object.insert("sandbox", self.sandbox.clone());
        object.insert("spec", self.spec.text());
        json::to_canonical(&object.into())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let value = json::parse(bytes, LIMITS).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::as_bytes);
        Some(Self {
            spec: ExecutionSpec::parse_canonical(text("spec")?).ok()?,
            inputs: Inputs::parse(text("inputs")?).ok()?,
            native: value.get("native").and_then(Value::as_bool)?,
            sandbox: value.get("sandbox").and_then(Value::as_object)?.clone(),
        })
    }
}

/// A case that is open. Nothing of it is left when it is dropped, unless it was made to last.
#[derive(Debug)]
pub(super) struct Docket {
    shared: Arc<Shared>,
    name: String,
    /// Held, so that nobody who sweeps takes it up meanwhile.
    held: Directory,
    lasts: AtomicBool,
}

impl Docket {
    /// Writes a case, with its plan if that may not be there yet. It is not durable.
    pub(super) fn new(
        shared: &Arc<Shared>,
        facts: &CaseFacts,
        plan: Option<&Plan>,
    ) -> Result<Self, Error> {
        let name = id::run_id();
        let failed = |source| Error::File { path: shared.root.join(STAGING).join(&name), source };
        let held = shared.stage(&name).map_err(failed)?;
        let lasts = AtomicBool::new(false);
        let docket = Self { shared: Arc::clone(shared), name: name.clone(), held, lasts };
        docket.held.write(CASE, facts.text().as_bytes()).map_err(failed)?;
        if let Some(plan) = plan {
            docket.held.write(manifest::PLAN, plan.text().as_bytes()).map_err(failed)?;
        }
        Ok(docket)
    }

    /// Adds what has to become durable.
    pub(super) fn parts(&self, owner: usize, batch: &mut Batch) {
        for name in [CASE, manifest::PLAN] {
            match self.held.has(name) {
                Ok(false) => {}
                Ok(true) => batch.push(owner, self.held.written(name)),
                Err(error) => batch.push(owner, Err(error)),
            }
        }
        batch.push(owner, self.held.again().map(Directory::named));
        batch.push(owner, self.shared.staging.again().map(Directory::named));
    }

    /// Waits until it is durable, where it does not become so with something else.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut batch = Batch::default();
        self.parts(0, &mut batch);
        match batch.finish().remove(&0) {
            Some(source) => {
                Err(Error::File { path: self.shared.root.join(STAGING).join(&self.name), source })
            }
            None => Ok(()),
        }
    }

    /// Takes note that it is durable: from now on it outlasts this process.
    pub(super) fn lasts(&self) {
        self.lasts.store(true, Ordering::Release);
    }

    /// Takes note that it is not needed any more.
    pub(super) fn is_over(&self) {
        self.lasts.store(false, Ordering::Release);
    }
}

impl Drop for Docket {
    fn drop(&mut self) {
        if !self.lasts.load(Ordering::Acquire) {
            // What cannot be removed now is swept later: there is evidence of it, or nothing was called.
            drop(self.shared.staging.remove(&self.name));
        }
    }
}

/// A case that a process left open.
#[derive(Debug)]
pub struct OpenCase {
    pub(super) facts: CaseFacts,
    pub(super) plan: Option<Plan>,
    pub(super) docket: Docket,
}

/// Takes up a case that nobody holds; nothing if it is not there whole, for then nothing was called.
pub(super) fn take_up(shared: &Arc<Shared>, name: &str, held: Directory) -> Option<OpenCase> {
    let facts = CaseFacts::parse(&held.read(CASE, LIMITS.bytes).ok()?)?;
    let plan = match held.has(manifest::PLAN) {
        Ok(false) => None,
        _ => {
            let text = held.read(manifest::PLAN, plan::LIMITS.bytes).ok()?;
            Some(Plan::parse_canonical(&text).ok()?)
        }
    };
    let (shared, name, lasts) = (Arc::clone(shared), name.to_owned(), AtomicBool::new(true));
    Some(OpenCase { facts, plan, docket: Docket { shared, name, held, lasts } })
}

//! Envoy, an adapter that is the router itself: it carries out the six classes of actions of its role, each in a
//! sandbox of its own.
//!
//! What a call asks for is read into an order, judged by the frozen conditions of the role, by the
//! grants of the plan and by the operator's gates, and then carried out by `confine`. The gate
//! judges a call before it is made, and the same function judges it here again.

mod carrying;
mod judging;
mod order;
mod settings;
mod staging;

use std::collections::HashMap;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nexus_router_sdk::{AdapterError, code};

pub use judging::{Asked, PlanGrant, Refusal};
pub use settings::Settings;

use crate::confine::{self, Act, Errand, Job, Unrun};
use crate::evidence::{Ordered, Report};
use crate::grant::{Feature, Grants};
use crate::json::{self, Limits, Object, Value};
use crate::role::{ActionClass, Role};
use crate::sandbox::Confinement;
use order::Order;
use staging::{Place, Staging};

/// The ref under which it is loaded.
pub const REF: &str = crate::config::AdapterEntry::ENVOY_REF;
/// Its id, if nobody gives it another.
pub const DEFAULT_ID: &str = "envoy";
/// The one method of each of its tools, which are called like the classes.
pub const METHOD: &str = "run";

/// The variable that whoever may connect gets, as workers do: names are asked for over connections, because there are
/// no datagrams, and as they are, because no others are known.
const NAMES: (&str, &str) = ("RES_OPTIONS", "use-vc ndots:0");

/// The code of a call that was not carried out because it could not be confined.
pub const UNAVAILABLE: &str = "SANDBOX_UNAVAILABLE";

/// The envoy of one workspace.
#[derive(Debug)]
pub struct Envoy {
    adapter_id: String,
    settings: Settings,
    grants: Grants,
    /// Bytes of address space of each process.
    memory: u64,
    helper: PathBuf,
    staging: Staging,
    /// What confines executions here, as far as that was tried.
    confinement: Confinement,
    /// Executions under way: each ends when its pipe is closed.
    calls: Mutex<HashMap<String, PipeWriter>>,
}

/// What an envoy is made of besides its own settings.
#[derive(Debug)]
pub struct Makings {
    /// Its id.
    pub adapter_id: String,
    /// What the operator grants; `connect` is the gate for the network.
    pub grants: Grants,
    /// Bytes of address space of each process.
    pub memory: u64,
    /// This program.
    pub helper: PathBuf,
    /// Where executions have their own directories.
    pub staging: PathBuf,
}

/// An answer, as adapters give it, and what evidence says besides.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) text: String,
    pub(crate) report: Report,
}

impl Envoy {
    /// Makes an envoy, and tries whether it could be confined.
    ///
    /// # Errors
    /// When its directories cannot be used, or it is granted what it must not be.
    pub fn open(settings: Settings, makings: Makings) -> Result<Self, String> {
        let Makings { adapter_id, grants, memory, helper, staging } = makings;
        settings.check(&grants)?;
        let staging = Staging::open(&staging)?;
        let (calls, confinement) = (Mutex::default(), Confinement::default());
        let mut envoy =
            Self { adapter_id, settings, grants, memory, helper, staging, confinement, calls };
        envoy.confinement = envoy.try_sandbox()?;
        Ok(envoy)
    }

    /// Returns what confines executions here; what is missing will have every one of them rejected.
    pub(crate) const fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Returns the directory in which it works.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.settings.workspace
    }

    /// Returns what it is granted.
    #[must_use]
    pub const fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the class of an operation; the name of a tool is that of its class.
    #[must_use]
    pub fn class_of(tool: &str) -> Option<ActionClass> {
        ActionClass::from_name(tool).filter(|class| Role::Envoy.allows(*class))
    }

    /// Says what a call would execute, with the arguments as they are recorded: references to secrets stand for
    /// themselves. Nothing for a call that cannot be read.
    #[must_use]
    pub fn describe(
        &self,
        class: ActionClass,
        args: &Object,
        grants: &[PlanGrant],
    ) -> Option<(Ordered, Grants)> {
        let order = Order::read(class, args, &self.settings).ok()?;
        let granted = self.granted(&order, grants);
        let mut ordered = order.described(&self.settings);
        if !granted.connect.is_empty() {
            ordered.env.push(NAMES.0.to_owned());
        }
        Some((ordered, granted))
    }

    /// Carries out a request that is text, as adapters get it, and waits for the end.
    pub(crate) fn call(&self, request: &str) -> Result<Answered, AdapterError> {
        let limits = Limits { bytes: usize::MAX, values: usize::MAX, ..Limits::REQUEST };
        let request = json::parse(request.as_bytes(), limits)
            .map_err(|error| AdapterError::bug(format!("the request is none: {error}")))?;
        let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
        let nothing = Object::new();
        let args = request.get("args").and_then(Value::as_object).unwrap_or(&nothing);
        let grants = request.get("grants").map(PlanGrant::read_all).unwrap_or_default();
        let asked = Asked { tool: text("tool"), method: text("method"), args, grants: &grants };
        let (class, order) = self.judged(&asked).map_err(Refusal::into_error)?;
        let deadline = request.get("deadline_ms").and_then(Value::as_i64);
        self.carry_out(class, &order, &grants, (text("call_id"), deadline))
    }

    /// Ends an execution. One that is over needs no end.
    pub(crate) fn cancel(&self, call_id: &str) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        drop(calls.remove(call_id));
    }

    /// Makes a sandbox in which nothing happens.
    fn try_sandbox(&self) -> Result<Confinement, String> {
        let staged = self.staging.directory(vec![Place::Artifacts, Place::Temporary])?;
        let probe = Order::probe();
        let profile = self.profile(&probe, &[], &staged);
        let (reader, _writer) = std::io::pipe().map_err(|error| error.to_string())?;
        let job = Job { profile, cwd: ".".to_owned(), act: Act::Nothing };
        let errand = self.errand(job, &probe, &staged, self.settings.timeout);
        match confine::run(&Errand { helper: self.helper.clone(), ..errand }, &reader.into()) {
            Ok(ran) => Ok(ran.confinement),
            Err(Unrun::Lacking(missing)) => Ok(Confinement { missing, ..Confinement::default() }),
            Err(Unrun::Unfit(why)) => Err(why),
        }
    }
}

/// Makes the error of a call that could not be confined.
fn unavailable(unrun: &Unrun) -> AdapterError {
    let error = match unrun {
        Unrun::Lacking(missing) => lacking(missing),
        Unrun::Unfit(why) => unconfined("setup", why),
    };
    error.details(serde_json::json!({ "role": Role::Envoy.name() }))
}

/// Makes the error of a call that was not carried out because the kernel lacks what confines it.
pub(crate) fn lacking(missing: &[Feature]) -> AdapterError {
    let names: Vec<&str> = missing.iter().map(|feature| feature.name()).collect();
    let what = names.first().copied().unwrap_or("landlock");
    unconfined(what, &format!("the kernel lacks {}", names.join(", ")))
}

fn unconfined(what: &str, why: &str) -> AdapterError {
    let message = format!("nothing was executed, because it cannot be confined: {why}");
    AdapterError::operational(UNAVAILABLE, message).details(serde_json::json!({
        "called": false,
        "reason": format!("sandbox_unavailable:{what}"),
    }))
}

/// Makes the error of an execution that nobody wanted any more.
fn cancelled() -> AdapterError {
    AdapterError::operational(
        code::CANCELLED,
        "the execution was ended, with all that it had started",
    )
}

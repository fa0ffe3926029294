//! An adapter in workers: how each of them is started, and what its team is made of.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::asking::Ask;
use super::error::{AdapterLoadError, Reason};
use super::hearing::{Halt, Hearing};
use super::library::Stage;
use super::notice::{self, Notice};
use super::opened::Opened;
use super::placement::Confined;
use super::simulation;
use super::verdict::{KnownLoad, TrialVerdict};
use super::wire::{Job, Task};
use super::{Adapter, Incident, Loader, Placement, dry_run, helper_error, trial};
use crate::grant::{Feature, Grants};
use crate::sandbox::{Metadata, Profile, Reading};
use crate::worker::broker;
use crate::worker::{
    self, Begun, CHILD_ARGUMENT, Ending, Followed, Makeup, Process, Recipe, Rules, Team,
};

/// Descriptors that a worker may have.
const DESCRIPTORS: u64 = 1024;
/// What a worker prints goes to the log, but no more than so many texts a second.
const PRINTED_RATE: u32 = 20;

/// A worker that serves, and what it said on the way.
pub(super) struct Started {
    pub(super) begun: Begun,
    pub(super) description: String,
    confined: Confined,
}

/// How a worker did not come to serve.
pub(super) struct Failed {
    pub(super) halt: Halt,
    pub(super) stage: Option<Stage>,
    pub(super) printed: String,
    /// Whether it ran out of time because it got too little of the processors.
    pub(super) is_starved: bool,
}

/// Loads an adapter into workers. One that is known to load is started when it is first called.
pub(super) fn load(loader: &Loader, opened: Opened) -> Result<Adapter, AdapterLoadError> {
    let factory_ref = opened.factory_ref.as_str().to_owned();
    let program = loader.helper(&opened)?.to_owned();
    let unusable = |error: &std::io::Error| helper_error(&factory_ref, &program, error);
    let grants = granted(loader, &opened)?;
    let profile = profile(loader, &opened, grants.clone());
    let verdict = loader.verdict_of(&opened)?;
    let known = match verdict.recall() {
        Some(TrialVerdict::Refused(refusal)) => return Err(refusal.error(&opened)),
        Some(TrialVerdict::Loads(known)) => known.worker,
        None => None,
    };
    let job = opened.job(Task::Serve, profile);
    let recipe = Recipe {
        program: program.clone(),
        argument: CHILD_ARGUMENT,
        lasting: true,
        guarded: !grants.run.is_empty(),
        environment: environment(loader, &grants),
        directory: None,
        job: serde_json::to_vec(&job).map_err(|error| unusable(&error.into()))?,
    };
    let label = opened.label();
    let start_timeout = loader.placement.start_timeout;
    let start = move |limit| start(&recipe, limit, &grants, &label);
    let (first, description, confined) = match known {
        Some((description, confined)) => (None, description, confined),
        None => {
            // The start of the worker handles a library that the kernel cannot confine.
            let tried = match loader.placement.require_valid {
                true => loader.admit_tried(&opened, &verdict).map(drop),
                false => Ok(()),
            };
            if let Err(failed) = tried
                && !failed.is_unconfined
            {
                return Err(failed.error);
            }
            let place = loader.trial_place(&opened)?;
            let started = start(place.limit(start_timeout)).map_err(|error| unusable(&error))?;
            drop(place);
            if let Err(Failed { halt: Halt::Unconfined { missing }, .. }) = &started
                && let Some(stand_in) = stand_in(loader, &opened, missing)
            {
                return Ok(stand_in);
            }
            let Started { begun, description, confined } = started.map_err(|failed| {
                let error = opened.halted(&failed.halt, failed.stage, &failed.printed);
                let lasts = trial::is_lasting(&failed.halt, failed.stage, start_timeout);
                if lasts && !failed.is_starved {
                    verdict.remember_refusal(&opened, &error);
                }
                error
            })?;
            (Some(begun), description, confined)
        }
    };
    let admitted = opened.admit(&description)?;
    opened.check_id(&admitted)?;
    if first.is_some() {
        let worker = Some((description.clone(), confined.clone()));
        verdict.remember_load(KnownLoad { worker });
    }
    let digest = opened.digest();
    let adapter_id = admitted.adapter_id.clone();
    let confinement = &confined.confinement;
    tracing::info!(adapter = %adapter_id, factory_ref, %digest, confinement, "adapter admitted");
    let opened = Arc::new(opened);
    let simulation = simulation::workers(loader, &opened, &admitted, &description);
    let manifest = opened.view.clone();
    let makeup = makeup(loader, &adapter_id, {
        let known_confined = confined.clone();
        move || check_started(start(start_timeout), &opened, &description, Some(&known_confined))
    });
    let team = Team::new(makeup, first);
    let adapter = Adapter::of_team(&factory_ref, admitted, team, digest, confined, simulation);
    Ok(adapter.counting_undeclared(manifest.as_ref()))
}

/// Checks that a started worker is the admitted one, and confined as before if `confined` is known.
pub(super) fn check_started(
    started: std::io::Result<Result<Started, Failed>>,
    opened: &Opened,
    description: &str,
    confined: Option<&Confined>,
) -> Result<Begun, String> {
    match started {
        Err(error) => Err(error.to_string()),
        Ok(Err(Failed { halt, stage, printed, .. })) => {
            Err(opened.halted(&halt, stage, &printed).to_string())
        }
        Ok(Ok(started)) if started.description != description => {
            Err("the description differs from the admitted one".to_owned())
        }
        Ok(Ok(started)) if confined.is_some_and(|confined| started.confined != *confined) => {
            Err("it is confined otherwise than before".to_owned())
        }
        Ok(Ok(started)) => Ok(started.begun),
    }
}

/// Returns what stands in for an adapter that the kernel cannot confine, if its calls are to be rejected one by one and
/// its id is known without running it.
fn stand_in(loader: &Loader, opened: &Opened, missing: &[Feature]) -> Option<Adapter> {
    let adapter_id = opened.adapter_id.as_ref().filter(|_| loader.placement.rejects_unconfined)?;
    let names: Vec<&str> = missing.iter().map(|feature| feature.name()).collect();
    tracing::warn!(
        adapter = %adapter_id,
        missing = names.join(", "),
        "the kernel cannot confine the adapter; every call of it is rejected"
    );
    Some(Adapter::unconfined(adapter_id, opened, &loader.placement.grants, missing))
}

/// Returns what an adapter gets. What it does not declare it does not get, whoever grants it.
pub(super) fn granted(loader: &Loader, opened: &Opened) -> Result<Grants, AdapterLoadError> {
    let grants = &loader.placement.grants;
    let declared = opened
        .view
        .as_ref()
        .is_some_and(|view| view.capabilities.iter().any(|capability| capability == "external"));
    if grants.is_empty() || declared {
        return Ok(grants.clone());
    }
    let message = "something is granted, and the manifest does not declare 'external'";
    Err(opened.fail(Reason::GrantNotDeclared, message))
}

pub(super) fn profile(loader: &Loader, opened: &Opened, grants: Grants) -> Profile {
    let Placement { memory, accept_missing, .. } = &loader.placement;
    Profile {
        memory: *memory,
        processor: None,
        descriptors: DESCRIPTORS,
        reading: Reading::Granted,
        library_path: loader.readable(opened),
        grants,
        workspace: None,
        metadata: Metadata::Denied,
        processes: None,
        file_size: None,
        accept: accept_missing.clone(),
    }
}

/// Returns all that a worker sees of the environment.
pub(super) fn environment(loader: &Loader, grants: &Grants) -> Vec<(OsString, OsString)> {
    let library_path = loader.library_path.clone().map(|path| ("LD_LIBRARY_PATH".into(), path));
    // Names are asked for over connections, which can be granted; there are no datagrams. And they are asked for
    // as they are, because no others are known.
    let names =
        (!grants.connect.is_empty()).then(|| ("RES_OPTIONS".into(), "use-vc ndots:0".into()));
    let granted = grants.env.iter().filter_map(|name| {
        let value = crate::config::variable(name)?;
        Some((name.into(), value))
    });
    library_path.into_iter().chain(names).chain(granted).collect()
}

/// Starts a worker, and waits until it serves.
pub(super) fn start(
    recipe: &Recipe,
    limit: Duration,
    grants: &Grants,
    label: &str,
) -> std::io::Result<Result<Started, Failed>> {
    let mut process = Process::start(recipe)?;
    let mut hearing = Hearing::default();
    let mut broker = None;
    let followed = process.follow(&recipe.job, Instant::now() + limit, |frame, descriptor| {
        let flow = hearing.take(frame, descriptor);
        // Attended to from the start: a factory may connect already.
        if let Some(listener) = hearing.connects.take() {
            broker = Some(broker::attend(listener, grants.connect.clone(), label));
        }
        flow
    })?;
    if let Some(session) = hearing.session {
        process.set_session(session);
    }
    let broker = match broker.transpose() {
        Ok(broker) => broker,
        Err(error) => {
            let why = format!("its connects cannot be attended to: {error}");
            let (halt, stage) = (Halt::Unfit { why }, Some(Stage::Start));
            let printed = String::new();
            return Ok(Err(Failed { halt, stage, printed, is_starved: false }));
        }
    };
    let Hearing { result, stage, confinement, serving, epitaph, .. } = hearing;
    let is_late = matches!(followed, Followed::Late);
    let halt = match (followed, result, serving) {
        (Followed::Enough, None, Some(description)) => {
            let confinement = confinement.unwrap_or_default();
            let confined = Confined::worker(&confinement, grants);
            return Ok(Ok(Started { begun: Begun { process, broker }, description, confined }));
        }
        (_, Some(Err(halt)), _) => halt,
        (Followed::Ended(status), _, _) => {
            // Without a guard, only the library itself could have said it.
            let ending = epitaph.filter(|_| recipe.guarded).or(status.map(Ending::of));
            Halt::Ended(ending.unwrap_or(Ending::Exited { code: -1 }))
        }
        (Followed::Late, _, _) => Halt::Ended(Ending::TimedOut { limit }),
        (Followed::Garbled | Followed::Enough, _, _) => {
            Halt::Ended(Ending::Garbled { how: "it sent what it should not" })
        }
    };
    let is_starved = is_late && dry_run::is_starved(process.id(), limit);
    process.stop();
    Ok(Err(Failed { halt, stage, printed: process.take_printed(), is_starved }))
}

pub(super) fn makeup(
    loader: &Loader,
    adapter_id: &str,
    begin: impl Fn() -> Result<Begun, String> + Send + Sync + 'static,
) -> Makeup {
    let Placement { processes, crashes, crash_window, quarantine, .. } = loader.placement;
    let rules = Rules { processes, crashes, window: crash_window, quarantine };
    let (told, printing) = (loader.notices.clone(), loader.notices.clone());
    let asks = loader.asks.clone();
    let incidents = loader.incidents.clone();
    let adapter_id: Arc<str> = adapter_id.into();
    let [teller, printer] = [(); 2].map(|()| Arc::clone(&adapter_id));
    let rate = Mutex::new((Instant::now(), 0));
    Makeup {
        rules,
        begin: Box::new(begin),
        notices: Box::new(move |text| {
            if let Some(notice) = notice::read(Some(&teller), text) {
                told(&teller, notice);
            }
        }),
        asks: Box::new(move |asked| asks(Ask::new(asked))),
        printed: Box::new(move |text| {
            let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
            if rate.0.elapsed() > Duration::from_secs(1) {
                *rate = (Instant::now(), 0);
            }
            rate.1 += 1;
            if rate.1 <= PRINTED_RATE {
                let message = format!("printed: {}", text.trim_end());
                let (level, fields) = ("info".to_owned(), nexus_router_sdk::Object::new());
                printing(&printer, Notice::Log { level, message, fields, call_id: None });
            }
        }),
        incidents: Box::new(move |incident: worker::Incident| {
            incidents(&Incident::of(&adapter_id, &incident));
        }),
    }
}

impl Opened {
    /// Returns what a child is told to do.
    pub(super) fn job(&self, task: Task, profile: Profile) -> Job {
        Job {
            library: self.image.copy.as_os_str().as_bytes().to_vec(),
            function: self.factory_ref.function().to_owned(),
            adapter_id: self.adapter_id.clone(),
            config: self.config_text(),
            task,
            profile,
        }
    }

    /// Returns the name under which people know it before it has said its own.
    pub(super) fn label(&self) -> String {
        self.adapter_id.clone().unwrap_or_else(|| self.factory_ref.as_str().to_owned())
    }
}

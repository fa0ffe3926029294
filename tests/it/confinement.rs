//! What a confined process can do, grant by grant, proven by an adapter that makes one attempt per call.
//!
//! All of it holds for the superuser and for a user without rights: `nobody` runs the rest again as one.

mod files;
mod kernel;
pub(crate) mod lacking;
mod network;
mod nobody;
mod processes;
mod programs;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nexus_router::grant::{Grants, Isolation};
use nexus_router::loader::{DryRun, LoadRequest, Placement};
use nexus_router::{Adapter, Call, Loader};
use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::support::{PROGRAM, World};

const EPERM: i64 = 1;
const ENOENT: i64 = 2;
const EBADF: i64 = 9;
const EACCES: i64 = 13;
const EXDEV: i64 = 18;
const ENOSYS: i64 = 38;
const EOPNOTSUPP: i64 = 95;

/// An adapter with grants, a file that it is not granted, and a directory that it may be.
struct Stage {
    world: World,
    loader: Loader,
    worker: OnceLock<Adapter>,
}

impl Stage {
    /// Makes a stage on which the adapter has these grants, and on which nothing may be missing.
    fn new(grants: impl FnOnce(&Self) -> Grants) -> Self {
        let mut stage = Self::anything_readable();
        stage.loader.placement = Placement { grants: grants(&stage), ..Placement::worker() };
        stage
    }

    /// Makes a stage without grants on which whatever the user may read can be read, as in a dry run.
    fn anything_readable() -> Self {
        let world = World::new();
        let mut loader = world.loader();
        loader.dry_run = DryRun::Helper(program());
        for directory in ["granted", "outside"] {
            std::fs::create_dir(world.path(directory)).unwrap();
            std::fs::write(world.path(directory).join("file"), "untouched").unwrap();
        }
        Self { world, loader, worker: OnceLock::new() }
    }

    fn granted(&self, name: &str) -> PathBuf {
        self.world.path("granted").join(name)
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.world.path("outside").join(name)
    }

    /// Makes one attempt in a worker, or where everything is readable in a dry run, and returns the whole
    /// answer.
    fn attempt(&self, method: &str, args: &Value) -> Value {
        if self.loader.placement.isolation == Isolation::Inline {
            return self.dry_attempt(method, args);
        }
        let adapter = self.worker.get_or_init(|| {
            let granted = !self.loader.placement.grants.is_empty();
            let factory = if granted { "escapes_external" } else { "escapes" };
            let loaded = self.loader.load(&request(factory).load());
            loaded.unwrap_or_else(|error| panic!("{error}"))
        });
        let args = args.as_object().unwrap().clone();
        let answer = adapter.call(&Call::new("escape", method, &args));
        Value::Object(answer.unwrap_or_else(|error| panic!("{method}: {error:?}")))
    }

    /// Makes one attempt in a dry run.
    fn dry_attempt(&self, method: &str, args: &Value) -> Value {
        self.dry_attempt_by("escapes", method, args)
    }

    fn dry_attempt_by(&self, factory: &str, method: &str, args: &Value) -> Value {
        let args = args.as_object().unwrap().clone();
        let request = request(factory);
        let trial = self.loader.try_call(&request.load(), &Call::new("escape", method, &args));
        let trial = trial.unwrap_or_else(|error| panic!("{method}: {error}"));
        Value::Object(trial.answer.unwrap_or_else(|error| panic!("{method}: {error:?}")))
    }

    /// Makes one attempt and returns the error's number; 0 when it succeeded.
    fn errno(&self, method: &str, args: &Value) -> i64 {
        let answer = self.attempt(method, args);
        answer["errno"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    fn data(&self, method: &str, args: &Value) -> Value {
        let answer = self.attempt(method, args);
        assert_eq!(answer["errno"], 0, "{method} {args}: {answer}");
        answer["data"].clone()
    }

    fn assert_denied(&self, method: &str, args: &Value, errnos: &[i64]) {
        let errno = self.errno(method, args);
        assert!(errnos.contains(&errno), "{method} {args}: errno {errno}, not one of {errnos:?}");
    }

    fn assert_works(&self, method: &str, args: &Value) {
        drop(self.data(method, args));
    }

    /// Asserts that nothing outside has changed.
    fn assert_untouched(&self) {
        let directory = self.world.path("outside");
        let names: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(std::fs::read_to_string(self.outside("file")).unwrap(), "untouched");
        let mode = std::fs::metadata(self.outside("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}

/// What is loaded for an attempt.
pub(crate) struct Request {
    factory_ref: String,
    config: Value,
}

impl Request {
    pub(crate) fn load(&self) -> LoadRequest<'_> {
        let (factory_ref, config) = (self.factory_ref.as_str(), &self.config);
        LoadRequest { factory_ref, adapter_id: None, config, pin: None }
    }
}

pub(crate) fn request(factory: &str) -> Request {
    Request { factory_ref: format!("escape_adapters:{factory}"), config: json!({}) }
}

/// Makes one attempt in this process, without confinement, and returns the error's number.
fn unconfined(method: &str, args: &Value) -> i64 {
    let world = World::new();
    let loader = Loader { dry_run: DryRun::Off, ..world.loader() };
    let adapter = loader.load(&request("escapes").load()).unwrap();
    let args: Object = args.as_object().unwrap().clone();
    let answer = adapter.call(&Call::new("escape", method, &args)).unwrap();
    answer["errno"].as_i64().unwrap_or_else(|| panic!("{method}: {answer:?}"))
}

/// The program under test; `nobody` has a copy of its own.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(nobody::PROGRAM_OF_COPY).map_or_else(|| PROGRAM.into(), PathBuf::from)
}

fn nothing(_: &Stage) -> Grants {
    Grants::default()
}

fn path(path: impl AsRef<Path>) -> Value {
    json!({ "path": path.as_ref() })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says whether this process could not touch its parent anyway.
fn parent_is_another_users() -> bool {
    let parent = format!("/proc/{}", std::os::unix::process::parent_id());
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(parent).map_or(true, |parent| parent.uid() != own)
}

#[test]
fn an_adapter_that_declares_effects_is_confined_like_any_other() {
    let stage = Stage::new(nothing);
    for factory in ["escapes", "escapes_external"] {
        let answer = stage.dry_attempt_by(factory, "create", &path(stage.outside("made")));
        assert_eq!(answer["errno"], EACCES, "{factory}");
        let answer = stage.dry_attempt_by(factory, "udp", &json!({}));
        assert_eq!(answer["errno"], EPERM, "{factory}");
    }
}

#[test]
fn a_grant_of_what_is_not_there_is_refused_by_name() {
    for place in ["read", "write", "run"] {
        let stage = Stage::new(|stage| {
            let missing = vec![stage.granted("missing")];
            let mut grants = Grants::default();
            match place {
                "read" => grants.read = missing,
                "write" => grants.write = missing,
                _ => grants.run = missing,
            }
            grants
        });
        let request = request("escapes");
        let call = Object::new();
        let tried = stage.loader.try_call(&request.load(), &Call::new("escape", "fork", &call));
        let error = tried.unwrap_err().to_string();
        assert!(error.contains("granted/missing"), "{place}: {error}");
    }
    let directory =
        Stage::new(|stage| Grants { run: vec![stage.world.path("granted")], ..Grants::default() });
    let (request, call) = (request("escapes"), Object::new());
    let tried = directory.loader.try_call(&request.load(), &Call::new("escape", "fork", &call));
    let error = tried.unwrap_err().to_string();
    assert!(error.contains("granted is a directory"), "{error}");
}

//! One round of a proof: an app of its own, fresh workers and sandboxes, every deed and every probe, and the record of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::deeds::{self, CLIENT, ENVOY, HELD, IMPOSTOR, OUTSIDE, SCOUT, TARGETS, deeds, probes};
use super::library::Library;
use super::{Error, file};
use crate::app::{self, Absent, App, Named};
use crate::bundle::Provenance;
use crate::caller::Caller;
use crate::config::{AdapterEntry, ConfigFile, Environment, EvidenceSettings, SourceEntry};
use crate::envoy;
use crate::grant::{Grants, Isolation};
use crate::json::Object;
use crate::loader::{LoadRequest, Loader, Reason};
use crate::request::Request;
use crate::role::{ActionClass, Role};
use crate::router::Submission;
use crate::seal;
use crate::store::Store;

const SCOUT_REF: &str = "nexus_router_adapter_scout:create_adapter";
const HTTP_REF: &str = "nexus_router_adapter_http:create_adapter";
/// The adapter behind the sources.
const LIBRARY: &str = "library";

/// What a round is made of.
pub(super) struct Round<'a> {
    pub(super) environment: &'a Environment,
    pub(super) adapter_path: &'a [PathBuf],
    /// The keys and the log.
    pub(super) log_root: &'a Path,
    /// Where evidence is kept.
    pub(super) cabinet: PathBuf,
    /// What is gone afterwards: the workspace and the store.
    pub(super) scratch: PathBuf,
    /// Whether scouts are tried too.
    pub(super) scout: bool,
}

impl Round<'_> {
    /// Carries out everything. What came of it is on the disk.
    pub(super) fn carry_out(&self) -> Result<(), Error> {
        let library = Library::open().map_err(Error::at(Path::new("127.0.0.1")))?;
        self.prepare(&library).map_err(Error::at(&self.scratch))?;
        let app = self.app(&library)?;
        let router = app.router(Absent::Create)?;
        let submit = |task_id: &str, caller: Option<Role>, steps: &[deeds::Step]| {
            let request = deeds::request(task_id, steps).to_string();
            let request = Request::parse(request.as_bytes()).map_err(app::Error::from)?;
            let mut submission = Submission::from(request).named(task_id);
            if let Some(role) = caller {
                let name = format!("proof-{}", role.name());
                submission =
                    submission.by(Arc::new(Caller { name, role: caller, ..Caller::local() }));
            }
            // What came of it is told by its evidence, a failure too.
            match router.run_blocking(submission) {
                Ok(_) => Ok(()),
                Err(error) if error.outcome().is_some() => Ok(()),
                Err(error) => Err(Error::from(app::Error::from(error))),
            }
        };
        for deed in deeds().iter().filter(|deed| self.scout || deed.role != Role::Scout) {
            submit(deed.task_id, None, &deed.steps)?;
        }
        for probe in probes().iter().filter(|probe| self.scout || !probe.needs_scout()) {
            submit(probe.task_id, probe.caller, std::slice::from_ref(&probe.step))?;
        }
        // Whoever seals the runs ends with the app.
        drop(router);
        drop(app);
        self.export(&self.app(&library)?)
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.join("workspace")
    }

    /// Makes the workspace, and tells the probes what to try.
    fn prepare(&self, library: &Library) -> io::Result<()> {
        let workspace = self.workspace();
        std::fs::create_dir_all(&workspace)?;
        std::fs::create_dir_all(&self.cabinet)?;
        let targets: [PathBuf; OUTSIDE] = [
            self.scratch.join("outside"),
            self.cabinet.join("evidence/forged"),
            self.cabinet.join("plan/forged"),
            seal::log_directory(self.log_root).join("checkpoint"),
            seal::trust_path(self.log_root),
            self.scratch.join("runs.db"),
        ];
        let lines: String = targets.iter().map(|path| format!("{}\n", path.display())).collect();
        std::fs::write(workspace.join(TARGETS), lines)?;
        // Only the kernel's word counts: a program that fails otherwise was not held back.
        let client = format!(
            "said=$({} health --url http://{} 2>&1) && exit 0\n\
             case $said in *'Operation not permitted'* | *'Permission denied'*) exit {HELD} ;; esac\n\
             printf '%s\\n' \"$said\" >&2\nexit 1\n",
            quoted(&self.program()?),
            library.address,
        );
        std::fs::write(workspace.join(CLIENT), client)
    }

    fn program(&self) -> io::Result<PathBuf> {
        let named = self.environment.helper.clone().or_else(|| self.environment.executable.clone());
        named
            .ok_or_else(|| io::Error::other("it is not known which program this is"))?
            .canonicalize()
    }

    /// Finds a program as a shell does.
    fn find(&self, name: &str) -> Result<PathBuf, Error> {
        let found = self.environment.program_path.iter().map(|directory| directory.join(name));
        let mut found = found.filter(|path| path.is_file());
        found.next().ok_or_else(|| Error::NoProgram(name.to_owned()))
    }

    fn app(&self, library: &Library) -> Result<App, Error> {
        let mut adapters = vec![self.envoy()?];
        if self.scout {
            let address = library.address;
            let http = |id: &str, below: &str, role| {
                Ok::<_, Error>(AdapterEntry {
                    factory_ref: HTTP_REF.to_owned(),
                    id: Some(id.to_owned()),
                    config: object(&json!({ "base_url": format!("http://{address}{below}") })),
                    isolation: Some(Isolation::Worker),
                    grants: Grants {
                        connect: vec![address.to_string().parse().map_err(Error::Loopback)?],
                        ..Grants::default()
                    },
                    role,
                    ..AdapterEntry::default()
                })
            };
            adapters.push(scout());
            adapters.push(http(LIBRARY, "", None)?);
            adapters.push(http(IMPOSTOR, &format!("/{IMPOSTOR}"), Some(Role::Scout))?);
        }
        let config = ConfigFile {
            adapters,
            default_adapter: Some(ENVOY.to_owned()),
            evidence: EvidenceSettings { seal: true, directory: Some(self.cabinet.clone()) },
            ..ConfigFile::default()
        };
        let named = Named {
            db: Some(self.scratch.join("runs.db")),
            adapter_path: self.adapter_path.to_vec(),
            without_contracts: true,
            log_root: Some(self.log_root.to_owned()),
            ..Named::default()
        };
        Ok(App::new(self.environment, config, named))
    }

    fn envoy(&self) -> Result<AdapterEntry, Error> {
        let program = self.program().map_err(Error::at(Path::new("nexus-router")))?;
        let run = vec![self.find("sh")?, self.find("git")?, program];
        Ok(AdapterEntry {
            factory_ref: envoy::REF.to_owned(),
            id: Some(ENVOY.to_owned()),
            config: object(&json!({ "workspace": self.workspace(), "shell_exec": true })),
            grants: Grants { run, ..Grants::default() },
            ..AdapterEntry::default()
        })
    }

    /// Writes the runs down as bundles, with their chains and seals.
    fn export(&self, app: &App) -> Result<(), Error> {
        let store: Store = app.reader()?;
        let directory = self.cabinet.join(file::RUNS);
        std::fs::create_dir_all(&directory).map_err(Error::at(&directory))?;
        let tasks = deeds().into_iter().map(|deed| deed.task_id);
        for task_id in tasks.chain(probes().into_iter().map(|probe| probe.task_id)) {
            let Some(log) = store.log(task_id).map_err(app::Error::from)? else { continue };
            let exported = app.export(&store, &log, Provenance::Omit)?;
            let path = directory.join(format!("{task_id}.json"));
            crate::files::write_whole(&path, exported.text.as_bytes()).map_err(Error::at(&path))?;
        }
        // It is empty: everything that was staged has its place.
        let staging = self.cabinet.join("staging");
        std::fs::remove_dir_all(&staging).map_err(Error::at(&staging))
    }
}

fn scout() -> AdapterEntry {
    let source = |name: &str, tool: &str, method: &str, action_class| SourceEntry {
        name: name.to_owned(),
        adapter: LIBRARY.to_owned(),
        tool: tool.to_owned(),
        method: method.to_owned(),
        action_class,
        args: Object::new(),
        volatile: if name == "web" { vec!["/took".to_owned()] } else { Vec::new() },
        timeout: None,
    };
    AdapterEntry {
        factory_ref: SCOUT_REF.to_owned(),
        id: Some(SCOUT.to_owned()),
        config: object(&json!({ "searches": { "web": { "query": "q", "hits": "/hits" } } })),
        role: Some(Role::Scout),
        sources: vec![
            source("web", "index", "search", ActionClass::WebSearch),
            source("docs", "documents", "get", ActionClass::DocRetrieval),
            source("rows", "data", "rows", ActionClass::DataLookup),
        ],
        ..AdapterEntry::default()
    }
}

fn object(value: &serde_json::Value) -> Object {
    value.as_object().map(Object::from).unwrap_or_default()
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Says which library is not there that scouts need. One that is there and does not load is no reason to try none.
pub(super) fn lacking(environment: &Environment, adapter_path: &[PathBuf]) -> Option<String> {
    let loader = Loader::with_path(environment, adapter_path, &[]);
    let config = serde_json::json!({});
    [SCOUT_REF, HTTP_REF].into_iter().find_map(|factory_ref| {
        let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
        let error = loader.digest(&request).err()?;
        (error.reason() == Reason::LibraryNotFound).then(|| error.to_string())
    })
}

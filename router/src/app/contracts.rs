//! The contracts that adapters keep and the tools that are registered, as they stand on disk.

mod policy_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fleet::Fleet;
use super::{App, Error, TOOLS, signals};
use crate::config::ConfigFile;
use crate::files::{Mark, mark};
use crate::interface::{self, Finding, History, Interface, Shelf, Verified};
use crate::loader::Adapter;
use crate::mapping::{Known, Violation};
use crate::policy::{Keeping, Law};
use crate::register::{Register, Standing};
use crate::signal;

/// What stands on disk: the contracts that hold, and the registered tools.
#[derive(Debug, Default)]
pub(super) struct Contracts {
    pub(super) interfaces: Arc<BTreeMap<String, Interface>>,
    pub(super) history: Arc<History>,
    pub(super) tools: Vec<Standing>,
    /// The signal contracts, if the output of any adapter is held to one, or they are published.
    pub(super) signals: Option<Arc<signal::Registry>>,
    /// What is told of them to anybody, if anything is.
    pub(super) discovery: Option<Arc<signal::Discovery>>,
    /// The state of the files that they were read from.
    read: Vec<(PathBuf, Mark)>,
}

/// The directories of contracts and of tools; none where nobody names one and there is no data directory.
struct Places {
    interfaces: Option<PathBuf>,
    tools: Option<PathBuf>,
    signals: Option<PathBuf>,
    /// What says how outputs are judged, as far as any is, and what is told to anybody.
    judging: Vec<PathBuf>,
    /// Whether signal contracts are told to anybody.
    publishes: bool,
}

impl Places {
    /// Returns the state of everything that says which contracts hold and which tools are registered.
    fn marks(&self) -> Vec<(PathBuf, Mark)> {
        let contracts = self.interfaces.iter().flat_map(|directory| Shelf::files_in(directory));
        let register = self.tools.iter().map(|directory| Register::file(directory));
        let files = contracts.chain(register).chain(self.judging.iter().cloned());
        files.map(|file| (file.clone(), mark(&file))).collect()
    }
}

/// The names of the router's own operations, which local tools may name.
pub(super) fn builtins() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.id).collect()
}

impl Contracts {
    /// The contracts of this program, and no tools.
    fn own() -> Self {
        let own = interface::frozen().iter();
        let interfaces = own.map(|interface| (interface.adapter_id.clone(), interface.clone()));
        Self { interfaces: Arc::new(interfaces.collect()), ..Self::default() }
    }

    fn load(places: &Places, config: &ConfigFile, before: Option<&Fleet>) -> Result<Self, Error> {
        // Before they are read: what changes meanwhile is seen later.
        let read = places.marks();
        let Verified { interfaces, history, .. } = verified(places, config)?;
        let former = before.map(|before| &before.contracts.history);
        let rewritten = former.map(|former| interface::rewritten(former, &history));
        if let Some(id) = rewritten.and_then(|ids| ids.into_iter().next()) {
            let message =
                format!("the revisions of {id} are not those that are in force, and more");
            let finding = Finding { pointer: String::new(), code: "LOCK_BROKEN", message };
            let findings = vec![(interface::LOCK_NAME.to_owned(), finding)];
            let directory = places.interfaces.clone().unwrap_or_default();
            return Err(Error::Contracts { directory, findings });
        }
        let (interfaces, history) = (Arc::new(interfaces), Arc::new(history));
        let tools = judged(places, &interfaces, &history)?;
        let signals = match places.publishes || signals::wanted(config) {
            true => Some(signals::registry(places.signals.as_deref(), before.is_some())?),
            false => None,
        };
        let signals = signals.map(Arc::new);
        let discovery = match &signals {
            Some(registry) if places.publishes => Some(signals::discovery(config, registry)?),
            _ => None,
        };
        Ok(Self { interfaces, history, tools, signals, discovery: discovery.map(Arc::new), read })
    }
}

/// Reads contracts that must hold. Without a directory there are those of this program.
fn verified(places: &Places, config: &ConfigFile) -> Result<Verified, Error> {
    let directory = places.interfaces.as_deref();
    let shelf = directory.map_or_else(|| Ok(Shelf::empty()), Shelf::open)?;
    let verified = interface::verify(&shelf, &config.contracts.approvers);
    if verified.findings.is_empty() {
        return Ok(verified);
    }
    let directory = directory.map(Path::to_owned).unwrap_or_default();
    Err(Error::Contracts { directory, findings: verified.findings })
}

/// Judges all registered tools by contracts.
fn judged(
    places: &Places,
    interfaces: &BTreeMap<String, Interface>,
    history: &History,
) -> Result<Vec<Standing>, Error> {
    let Some(directory) = &places.tools else { return Ok(Vec::new()) };
    let builtins = builtins();
    Ok(Register::open(directory)?.judge(&Known::new(interfaces, &builtins), history))
}

impl App {
    /// Returns the directory of interface contracts, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn interfaces_dir(&self) -> Result<PathBuf, Error> {
        self.places(&self.config()).interfaces.ok_or(Error::NoPlace)
    }

    /// Returns the directory of registered tools, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn tools_dir(&self) -> Result<PathBuf, Error> {
        self.places(&self.config()).tools.ok_or(Error::NoPlace)
    }

    /// Each for itself: what is named must not be passed over because something else has no place.
    fn places(&self, config: &ConfigFile) -> Places {
        let or = |configured: &Option<PathBuf>, name: &str| {
            configured.clone().or_else(|| Some(self.data_dir().ok()?.join(name)))
        };
        let settings = &config.contracts;
        let interfaces = or(&settings.interfaces, "interfaces");
        let signals = self.signals_dir_of(config);
        let publishes = self.named.publishes;
        let judging = signals::files(config, signals.as_deref(), publishes);
        Places { interfaces, tools: or(&settings.tools, "tools"), signals, judging, publishes }
    }

    /// Reads the contracts and the register of a configuration.
    pub(super) fn contracts_of(
        &self,
        config: &ConfigFile,
        before: Option<&Fleet>,
    ) -> Result<Contracts, Error> {
        match self.named.without_contracts {
            true => Ok(Contracts::own()),
            false => Contracts::load(&self.places(config), config, before),
        }
    }

    /// Reads the register alone, and judges it by the contracts that are in force.
    pub(super) fn register_of(&self, before: &Fleet) -> Result<Contracts, Error> {
        let places = self.places(&self.config());
        let read = places.marks();
        let Contracts { interfaces, history, signals, discovery, .. } = &*before.contracts;
        let tools = judged(&places, interfaces, history)?;
        Ok(Contracts {
            interfaces: Arc::clone(interfaces),
            history: Arc::clone(history),
            tools,
            signals: signals.clone(),
            discovery: discovery.clone(),
            read,
        })
    }

    /// Returns the state of contracts and register, if it is not the one that was read.
    pub(crate) fn changed_contracts(&self) -> Option<Vec<(PathBuf, Mark)>> {
        let now = self.places(&self.config()).marks();
        (self.fleet().ok()?.contracts.read != now).then_some(now)
    }

    /// Returns the contracts that hold, and all revisions.
    ///
    /// # Errors
    /// When they cannot be read, or are not those that are locked.
    pub fn interfaces(&self) -> Result<(BTreeMap<String, Interface>, History), Error> {
        let config = self.config();
        let Verified { interfaces, history, .. } = verified(&self.places(&config), &config)?;
        Ok((interfaces, history))
    }

    /// Lists the registered tools, each as it stands now.
    ///
    /// # Errors
    /// When they or the contracts cannot be read.
    pub fn registered(&self) -> Result<Vec<Standing>, Error> {
        Ok(self.contracts_of(&self.config(), None)?.tools)
    }

    /// Tells which registered tools contracts do not let through.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn tools_refused_by(&self, verified: &Verified) -> Result<Vec<(String, Finding)>, Error> {
        let places = self.places(&self.config());
        let standings = judged(&places, &verified.interfaces, &verified.history)?;
        let told = |standing: Standing| {
            let violations = standing.refused.map(|report| report.violations).unwrap_or_default();
            violations.into_iter().map(move |violation| {
                let Violation { pointer, code, message, .. } = violation;
                (format!("the tool {}", standing.tool_id), Finding { pointer, code, message })
            })
        };
        Ok(standings.into_iter().flat_map(told).collect())
    }

    /// Lists the registered tools that one contract lets through and the next one does not.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn tools_broken_by(&self, old: &Interface, new: &Interface) -> Result<Vec<String>, Error> {
        let Some(directory) = self.places(&self.config()).tools else { return Ok(Vec::new()) };
        let (register, builtins) = (Register::open(&directory)?, builtins());
        let broken_by = |interface: &Interface| -> Vec<String> {
            let id = interface.adapter_id.clone();
            let interfaces = BTreeMap::from([(id.clone(), interface.clone())]);
            let known = Known::new(&interfaces, &builtins);
            let standings = register.documents().filter(|it| it.adapter_id.as_ref() == Some(&id));
            let broken = standings.filter(|document| Register::refused(document, &known).is_some());
            broken.map(|document| document.tool_id).collect()
        };
        let before = broken_by(old);
        Ok(broken_by(new).into_iter().filter(|tool| !before.contains(tool)).collect())
    }

    /// Returns the loaded adapter that keeps a contract, or the default one.
    ///
    /// # Errors
    /// When one does not load.
    pub fn adapter_of(&self, interface_id: &str) -> Result<Adapter, Error> {
        let fleet = self.fleet()?;
        match fleet.keeper(interface_id) {
            Some(keeper) => Ok(keeper.clone()),
            // One that did not load may be the one.
            None if !fleet.has_all() => Err(fleet.first_failure()),
            None => Ok(self.registry()?.get_default()?.clone()),
        }
    }
}

/// Makes the contracts of adapters ready for calls; one that was ready before is not made again.
pub(super) fn keepings<'a>(
    contracts: &Contracts,
    members: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    before: Option<&Law>,
) -> Result<BTreeMap<String, Arc<Keeping>>, Error> {
    let mut keepings = BTreeMap::new();
    for (adapter_id, named) in members {
        let interface_id = named.unwrap_or(adapter_id);
        let Some(interface) = contracts.interfaces.get(interface_id) else {
            if named.is_some() {
                let (adapter_id, interface_id) = (adapter_id.to_owned(), interface_id.to_owned());
                return Err(Error::UnknownContract { adapter_id, interface_id });
            }
            continue;
        };
        let known = before.and_then(|law| law.interfaces.get(adapter_id));
        let keeping = match known.filter(|known| known.digest == interface.digest) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Keeping::of(interface).map_err(|message| {
                let finding = Finding { pointer: String::new(), code: "SCHEMA_INVALID", message };
                let directory = PathBuf::from(interface_id);
                Error::Contracts { directory, findings: vec![(interface_id.to_owned(), finding)] }
            })?),
        };
        keepings.insert(adapter_id.to_owned(), keeping);
    }
    Ok(keepings)
}

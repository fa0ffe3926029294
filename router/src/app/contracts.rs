//! The contracts that adapters keep and the tools that are registered, as they stand on disk.

mod policy_file;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::fleet::Fleet;
use super::{App, Error, TOOLS, signals};
use crate::config::ConfigFile;
use crate::files::{Mark, mark};
use crate::interface::{
    self, ContractFault, EXTENSION, Finding, History, Interface, Shelf, UnusableContract,
    UnusableContracts, Verified,
};
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
    /// The contracts that do not hold or were removed; adapters that keep one are not called.
    pub(super) unusable: Arc<UnusableContracts>,
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
    /// Whether the configuration names the directory of contracts, so that it must be there.
    names_interfaces: bool,
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
        let Verified { mut interfaces, mut history, mut unusable, .. } = verified(places, config)?;
        let former = before.map(|before| &*before.contracts.history);
        for id in former.map(|former| interface::rewritten(former, &history)).unwrap_or_default() {
            // What was in force is what the next look compares with.
            let known = former.and_then(|former| former.get(&id)).cloned();
            history.insert(id.clone(), known.unwrap_or_default());
            interfaces.remove(&id);
            if unusable.get(&id).is_none() {
                unusable.add_rewritten(&id);
            }
        }
        let tools = judged(places, (&interfaces, &unusable), &history)?;
        let (interfaces, history) = (Arc::new(interfaces), Arc::new(history));
        let unusable = Arc::new(unusable);
        let signals = match places.publishes || signals::wanted(config) {
            true => Some(signals::registry(places.signals.as_deref(), before.is_some())?),
            false => None,
        };
        let signals = signals.map(Arc::new);
        let discovery = match &signals {
            Some(registry) if places.publishes => Some(signals::discovery(config, registry)?),
            _ => None,
        };
        let discovery = discovery.map(Arc::new);
        Ok(Self { interfaces, history, unusable, tools, signals, discovery, read })
    }
}

/// Reads and verifies the contracts. Without a directory there are those of this program.
fn verified(places: &Places, config: &ConfigFile) -> Result<Verified, Error> {
    let shelf = match places.interfaces.as_deref() {
        None => Shelf::empty(),
        Some(directory) if places.names_interfaces => Shelf::open_existing(directory)?,
        Some(directory) => Shelf::open_readable(directory)?,
    };
    Ok(interface::verify(&shelf, &config.contracts.trust))
}

/// Judges all registered tools by contracts.
fn judged(
    places: &Places,
    (interfaces, unusable): (&BTreeMap<String, Interface>, &UnusableContracts),
    history: &History,
) -> Result<Vec<Standing>, Error> {
    let Some(directory) = &places.tools else { return Ok(Vec::new()) };
    let (builtins, invalid) = (builtins(), unusable.invalid_ids());
    let known = Known::new(interfaces, &builtins).with_unfrozen(&invalid);
    Ok(Register::open(directory)?.judge(&known, history))
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
        let (tools, names_interfaces) =
            (or(&settings.tools, "tools"), settings.interfaces.is_some());
        Places { interfaces, tools, signals, names_interfaces, judging, publishes }
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
        let Contracts { interfaces, history, unusable, signals, discovery, .. } =
            &*before.contracts;
        let tools = judged(&places, (interfaces, unusable), history)?;
        Ok(Contracts {
            interfaces: Arc::clone(interfaces),
            history: Arc::clone(history),
            unusable: Arc::clone(unusable),
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

    /// Reads and verifies the contracts.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub fn verified_contracts(&self) -> Result<Verified, Error> {
        let config = self.config();
        verified(&self.places(&config), &config)
    }

    /// Lists the registered tools, each as it stands now.
    ///
    /// # Errors
    /// When they or the contracts cannot be read.
    pub fn registered(&self) -> Result<Vec<Standing>, Error> {
        let mut standings = self.contracts_of(&self.config(), None)?.tools;
        self.mark_unavailable(&mut standings);
        Ok(standings)
    }

    /// Tells which registered tools contracts do not let through.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn tools_refused_by(&self, verified: &Verified) -> Result<Vec<(String, Finding)>, Error> {
        let places = self.places(&self.config());
        let contracts = (&verified.interfaces, &verified.unusable);
        let standings = judged(&places, contracts, &verified.history)?;
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

/// The contracts of adapters, by the adapters' ids.
#[derive(Debug, Default)]
pub(super) struct AdapterContracts {
    /// Contracts that are ready for calls.
    pub(super) kept: BTreeMap<String, Arc<Keeping>>,
    /// Contracts that cannot be used.
    pub(super) unusable: BTreeMap<String, UnusableContract>,
}

/// Makes the contracts of adapters ready for calls; one that was ready before is not made again.
pub(super) fn keepings<'a>(
    contracts: &Contracts,
    members: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    before: Option<&Law>,
) -> Result<AdapterContracts, Error> {
    let mut of_adapters = AdapterContracts::default();
    for (adapter_id, named) in members {
        let interface_id = named.unwrap_or(adapter_id);
        let mut unusable = contracts.unusable.get(interface_id);
        let interface = contracts.interfaces.get(interface_id).filter(|_| unusable.is_none());
        if let Some(interface) = interface {
            let known = before.and_then(|law| law.interfaces.get(adapter_id));
            let keeping = match known.filter(|known| known.digest == interface.digest) {
                Some(known) => Ok(Arc::clone(known)),
                None => Keeping::of(interface).map(Arc::new),
            };
            match keeping {
                Ok(keeping) => drop(of_adapters.kept.insert(adapter_id.to_owned(), keeping)),
                Err(message) => unusable = Some(uncompiled(interface_id, message)),
            }
        } else if named.is_some() && unusable.is_none() {
            let (adapter_id, interface_id) = (adapter_id.to_owned(), interface_id.to_owned());
            return Err(Error::UnknownContract { adapter_id, interface_id });
        }
        of_adapters.unusable.extend(unusable.map(|unusable| (adapter_id.to_owned(), unusable)));
    }
    Ok(of_adapters)
}

fn uncompiled(interface_id: &str, message: String) -> UnusableContract {
    let fault = ContractFault::Invalid {
        file: format!("{interface_id}{EXTENSION}"),
        finding: Finding { pointer: String::new(), code: "SCHEMA_INVALID", message },
        more: 0,
    };
    UnusableContract { interface_id: interface_id.to_owned(), fault }
}

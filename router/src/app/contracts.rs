//! The contracts that adapters keep and the tools that are registered, as they stand on disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::fleet::Fleet;
use super::{Absent, App, Error, TOOLS};
use crate::clock::{Clock, Timestamp};
use crate::config::ConfigFile;
use crate::files::{Mark, mark};
use crate::interface::{self, Finding, Interface, Shelf};
use crate::json::Value;
use crate::loader::Adapter;
use crate::mapping::{
    Failure, Known, Report, RunRecord, ToolDocument, Violation, gate_4, gate_6, unreadable,
};
use crate::register::{Register, Standing};

/// What stands on disk: the contracts that hold, and the registered tools.
#[derive(Debug, Default)]
pub(super) struct Contracts {
    pub(super) interfaces: BTreeMap<String, Interface>,
    pub(super) tools: Vec<Standing>,
    /// The state of the files that they were read from.
    pub(super) read: Vec<Mark>,
}

/// What came of a tool spec at the gates.
#[derive(Debug)]
pub struct Judged {
    /// The tool, if that could be read.
    pub tool_id: Option<String>,
    /// Everything that broke a rule; nothing, if it passed.
    pub violations: Vec<Violation>,
    /// The id of the record that was written, if it did not pass.
    pub record: Option<String>,
}

/// The names of the router's own operations, which local tools may name.
pub(super) fn builtins() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.id).collect()
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    files.iter().map(|file| mark(file)).collect()
}

impl Contracts {
    /// The contracts of this program, and no tools.
    fn own() -> Self {
        let own = interface::frozen().iter();
        let interfaces = own.map(|interface| (interface.adapter_id.clone(), interface.clone()));
        Self { interfaces: interfaces.collect(), ..Self::default() }
    }

    fn load(directories: (PathBuf, PathBuf), config: &ConfigFile) -> Result<Self, Error> {
        let (interfaces, tools) = directories;
        // Before they are read: what changes meanwhile is seen later.
        let read = marks(&[interfaces.join(interface::LOCK_NAME), Register::file(&tools)]);
        let shelf = Shelf::open(&interfaces)?;
        let verified = interface::verify(&shelf, &config.contracts.approvers);
        if !verified.findings.is_empty() {
            return Err(Error::Contracts { directory: interfaces, findings: verified.findings });
        }
        let (interfaces, builtins) = (verified.interfaces, builtins());
        let tools = Register::open(&tools)?.judge(&Known::new(&interfaces, &builtins));
        Ok(Self { interfaces, tools, read })
    }
}

impl App {
    /// Returns the directory of interface contracts, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn interfaces_dir(&self) -> Result<PathBuf, Error> {
        let configured = self.setup().config.contracts.interfaces.clone();
        configured.map_or_else(|| Ok(self.data_dir()?.join("interfaces")), Ok)
    }

    /// Returns the directory of registered tools, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn tools_dir(&self) -> Result<PathBuf, Error> {
        let configured = self.setup().config.contracts.tools.clone();
        configured.map_or_else(|| Ok(self.data_dir()?.join("tools")), Ok)
    }

    /// Returns the state of the lock and of the register, if it is not the one that was read.
    pub(crate) fn changed_contracts(&self) -> Option<Vec<Mark>> {
        let now = marks(&self.contract_files());
        let read = self.fleet().ok()?;
        (read.contracts_read != now).then_some(now)
    }

    /// Returns the files that say which contracts hold and which tools are registered.
    fn contract_files(&self) -> Vec<PathBuf> {
        let lock = self.interfaces_dir().map(|directory| directory.join(interface::LOCK_NAME));
        let register = self.tools_dir().map(|directory| Register::file(&directory));
        [lock, register].into_iter().flatten().collect()
    }

    /// Reads the contracts and the register of a configuration. Without a place for them there are those of this
    /// program.
    pub(super) fn contracts_of(&self, config: &ConfigFile) -> Result<Contracts, Error> {
        let settings = &config.contracts;
        let or = |configured: &Option<PathBuf>, name: &str| match configured {
            Some(configured) => Ok(configured.clone()),
            None => Ok::<_, Error>(self.data_dir()?.join(name)),
        };
        let directories = or(&settings.interfaces, "interfaces")
            .and_then(|interfaces| Ok((interfaces, or(&settings.tools, "tools")?)));
        match directories {
            Ok(directories) if !self.named.without_contracts => {
                Contracts::load(directories, config)
            }
            _ => Ok(Contracts::own()),
        }
    }

    /// Returns the contracts that hold.
    ///
    /// # Errors
    /// When they cannot be read, or are not those that are locked.
    pub fn interfaces(&self) -> Result<BTreeMap<String, Interface>, Error> {
        Ok(self.contracts_of(&self.config())?.interfaces)
    }

    /// Lists the registered tools, each as it stands now.
    ///
    /// # Errors
    /// When they or the contracts cannot be read.
    pub fn registered(&self) -> Result<Vec<Standing>, Error> {
        Ok(self.contracts_of(&self.config())?.tools)
    }

    /// Tells which registered tools contracts do not let through.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn tools_refused_by(
        &self,
        interfaces: &BTreeMap<String, Interface>,
    ) -> Result<Vec<(String, Finding)>, Error> {
        let builtins = builtins();
        let standings =
            Register::open(&self.tools_dir()?)?.judge(&Known::new(interfaces, &builtins));
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
        let register = Register::open(&self.tools_dir()?)?;
        let builtins = builtins();
        let broken_by = |interface: &Interface| -> Vec<String> {
            let id = interface.adapter_id.clone();
            let interfaces = BTreeMap::from([(id.clone(), interface.clone())]);
            let standings = register.judge(&Known::new(&interfaces, &builtins));
            let of_it = |standing: &Standing| {
                standing.document.as_ref().is_some_and(|it| it.adapter_id.as_ref() == Some(&id))
            };
            let broken = standings.into_iter().filter(|it| of_it(it) && it.refused.is_some());
            broken.map(|standing| standing.tool_id).collect()
        };
        let before = broken_by(old);
        Ok(broken_by(new).into_iter().filter(|tool| !before.contains(tool)).collect())
    }

    /// Returns the loaded adapter that keeps a contract, or the default one.
    ///
    /// # Errors
    /// When one does not load.
    pub fn adapter_of(&self, interface_id: &str) -> Result<Adapter, Error> {
        match self.fleet()?.keeper(interface_id) {
            Some(keeper) => Ok(keeper.clone()),
            None => Ok(self.registry()?.get_default()?.clone()),
        }
    }

    /// Holds a tool spec to the gates. What does not pass is recorded, or there is no answer.
    ///
    /// # Errors
    /// When the contracts cannot be read, or the record cannot be written.
    pub fn check_tool(&self, text: &[u8]) -> Result<Judged, Error> {
        self.judge_tool(text).map(|(judged, _)| judged)
    }

    /// Registers a tool if it passes the gates. What does not pass is recorded, or there is no answer.
    ///
    /// # Errors
    /// When the contracts cannot be read, or the record or the register cannot be written.
    pub fn register_tool(&self, text: &[u8]) -> Result<Judged, Error> {
        let directory = self.tools_dir()?;
        let (judged, document) = self.judge_tool(text)?;
        if let Some(document) = document.filter(|_| judged.violations.is_empty()) {
            let alone = Register::seize(&directory)?;
            let mut register = Register::open(&directory)?;
            register.put(&document, &Clock::System.now().to_string())?;
            drop(alone);
        }
        Ok(judged)
    }

    /// Disables a registered tool. Says whether there is such a tool.
    ///
    /// # Errors
    /// When the register cannot be read or written.
    pub fn disable_tool(&self, tool_id: &str, reason: &str) -> Result<bool, Error> {
        let directory = self.tools_dir()?;
        if Register::open(&directory)?.entries.is_empty() {
            return Ok(false);
        }
        let alone = Register::seize(&directory)?;
        let mut register = Register::open(&directory)?;
        let disabled = register.disable(tool_id, reason, &Clock::System.now().to_string())?;
        drop(alone);
        Ok(disabled)
    }

    fn judge_tool(&self, text: &[u8]) -> Result<(Judged, Option<ToolDocument>), Error> {
        let started = Clock::System.now();
        let (interfaces, builtins) = (self.interfaces()?, builtins());
        let known = Known::new(&interfaces, &builtins);
        let document = match ToolDocument::read(text) {
            Ok(document) => document,
            Err(findings) => {
                let report = unreadable(&findings);
                let text: Value = String::from_utf8_lossy(text).into_owned().into();
                let record = self.record_refusal(&report, None, &text, started)?;
                let judged =
                    Judged { tool_id: None, violations: report.violations, record: Some(record) };
                return Ok((judged, None));
            }
        };
        let mut judged = Judged {
            tool_id: Some(document.tool_id.clone()),
            violations: Vec::new(),
            record: None,
        };
        for gate in [gate_4, gate_6] {
            let report = gate(&document, &known);
            if report.passed() {
                continue;
            }
            let spec = Some(&document);
            let record = self.record_refusal(&report, spec, &document.document, started)?;
            judged.record.get_or_insert(record);
            let new = report.violations.into_iter().filter(|one| {
                !judged.violations.iter().any(|known| known.check_id == one.check_id)
            });
            let new: Vec<Violation> = new.collect();
            judged.violations.extend(new);
        }
        Ok((judged, Some(document)))
    }

    /// Records what registered tools a gate does not let through any more, unless that was so before.
    pub(super) fn record_refused(
        &self,
        fleet: &Fleet,
        before: Option<&Fleet>,
    ) -> Result<(), Error> {
        let refused_before = |standing: &Standing| {
            let known = before.into_iter().flat_map(|before| &before.registered);
            let mut same = known.filter(|it| it.tool_id == standing.tool_id);
            same.any(|it| it.disabled == standing.disabled)
        };
        for standing in fleet.registered.iter().filter(|standing| !refused_before(standing)) {
            let (Some(report), Some(document)) = (&standing.refused, &standing.document) else {
                continue;
            };
            let now = Clock::System.now();
            self.record_refusal(report, Some(document), &document.document, now)?;
        }
        Ok(())
    }

    /// Writes the record of a gate that was not passed, and returns its id.
    fn record_refusal(
        &self,
        report: &Report,
        document: Option<&ToolDocument>,
        toolspec: &Value,
        started: Timestamp,
    ) -> Result<String, Error> {
        let version = document.map(|document| document.version.to_string());
        let record = RunRecord::of_failure(&Failure {
            report,
            intent_id: None,
            tool_id: document.map(|document| document.tool_id.as_str()),
            tool_version: version.as_deref(),
            intent: &Value::Null,
            toolspec,
            inputs: &Value::Null,
            started,
            finished: Clock::System.now(),
            logs_ref: "nexus-router tool records",
        });
        self.store(Absent::Create)?.append_run_record(&record)?;
        Ok(record.run_id().to_owned())
    }
}

/// Makes the contracts of adapters ready for calls; one that was ready before is not made again.
pub(super) fn keepings<'a>(
    contracts: &Contracts,
    members: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    before: Option<&crate::policy::Law>,
) -> Result<BTreeMap<String, Arc<crate::policy::Keeping>>, Error> {
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
            None => Arc::new(crate::policy::Keeping::of(interface).map_err(|problem| {
                let (pointer, code) = (String::new(), "SCHEMA_INVALID");
                let finding = Finding { pointer, code, message: problem };
                let directory = PathBuf::from(interface_id);
                Error::Contracts { directory, findings: vec![(interface_id.to_owned(), finding)] }
            })?),
        };
        keepings.insert(adapter_id.to_owned(), keeping);
    }
    Ok(keepings)
}

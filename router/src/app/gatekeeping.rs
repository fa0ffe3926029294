//! Tool specs at the gates: judged, registered, disabled, and what was refused recorded.

use super::contracts::builtins;
use super::fleet::Fleet;
use super::{Absent, App, Error};
use crate::clock::{Clock, Timestamp};
use crate::interface::Verified;
use crate::json::Value;
use crate::mapping::{
    Failure, Known, Report, RunRecord, ToolDocument, Violation, gate_4, gate_6, unreadable,
};
use crate::register::{Register, Standing};

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

impl Judged {
    /// Says whether it passed.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

impl App {
    /// Holds tool specs to the gates. What does not pass is recorded, or there is no answer.
    ///
    /// # Errors
    /// When the contracts cannot be read, or a record cannot be written.
    pub fn check_tools(&self, texts: &[Vec<u8>]) -> Result<Vec<Judged>, Error> {
        let Verified { interfaces, unusable, .. } = self.verified_contracts()?;
        let (builtins, invalid) = (builtins(), unusable.invalid_ids());
        let known = Known::new(&interfaces, &builtins).with_unfrozen(&invalid);
        texts.iter().map(|text| Ok(self.judge_tool(text, &known)?.0)).collect()
    }

    /// Registers tools if all of them pass the gates. What does not pass is recorded, or there is no answer.
    ///
    /// # Errors
    /// When the contracts cannot be read, or a record or the register cannot be written.
    pub fn register_tools(&self, texts: &[Vec<u8>]) -> Result<Vec<Judged>, Error> {
        let directory = self.tools_dir()?;
        // Held over both: what is registered is what was judged.
        let alone = Register::seize(&directory)?;
        let Verified { interfaces, unusable, .. } = self.verified_contracts()?;
        let (builtins, invalid) = (builtins(), unusable.invalid_ids());
        let known = Known::new(&interfaces, &builtins).with_unfrozen(&invalid);
        let (mut judged, mut documents) = (Vec::new(), Vec::new());
        for text in texts {
            let (one, document) = self.judge_tool(text, &known)?;
            judged.push(one);
            documents.extend(document);
        }
        let twin = documents.iter().enumerate().find(|(index, document)| {
            documents[..*index].iter().any(|other| other.tool_id == document.tool_id)
        });
        if let Some((_, document)) = twin {
            return Err(Error::Tool {
                message: format!("two of the specs are of the tool {}", document.tool_id),
                pointer: "/tool_id".to_owned(),
                hint: "give each its own tool_id".to_owned(),
            });
        }
        if judged.iter().all(Judged::passed) {
            let mut register = Register::open(&directory)?;
            register.repair()?;
            let now = Clock::System.now().to_string();
            for document in &documents {
                let contract = document.adapter_id.as_ref().and_then(|id| interfaces.get(id));
                register.keep(document, contract, &now)?;
            }
            register.save()?;
        }
        drop(alone);
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
        register.repair()?;
        let disabled = register.disable(tool_id, reason, &Clock::System.now().to_string())?;
        drop(alone);
        Ok(disabled)
    }

    /// Removes a registered tool. Returns whether there was such a tool.
    ///
    /// # Errors
    /// When the register cannot be read or written.
    pub fn unregister_tool(&self, tool_id: &str) -> Result<bool, Error> {
        let directory = self.tools_dir()?;
        if Register::open(&directory)?.entries.is_empty() {
            return Ok(false);
        }
        let alone = Register::seize(&directory)?;
        let mut register = Register::open(&directory)?;
        register.repair()?;
        let removed = register.unregister(tool_id)?;
        drop(alone);
        Ok(removed)
    }

    fn judge_tool(
        &self,
        text: &[u8],
        known: &Known<'_>,
    ) -> Result<(Judged, Option<ToolDocument>), Error> {
        let started = Clock::System.now();
        let document = match ToolDocument::read(text) {
            Ok(document) => document,
            Err(findings) => {
                let report = unreadable(&findings);
                let text: Value = String::from_utf8_lossy(text).into_owned().into();
                let record = Some(self.record_refusal(&report, None, &text, started)?);
                let violations = report.violations;
                return Ok((Judged { tool_id: None, violations, record }, None));
            }
        };
        let tool_id = Some(document.tool_id.clone());
        let mut judged = Judged { tool_id, violations: Vec::new(), record: None };
        for gate in [gate_4, gate_6] {
            let report = gate(&document, known);
            if report.passed() {
                continue;
            }
            let spec = Some(&document);
            let record = self.record_refusal(&report, spec, &document.document, started)?;
            judged.record.get_or_insert(record);
            // Both gates look at the mapping; what one told the other need not.
            let told: Vec<&str> = judged.violations.iter().map(|one| one.check_id).collect();
            let new = report.violations.into_iter().filter(|one| !told.contains(&one.check_id));
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
            let known = before.into_iter().flat_map(|before| &before.contracts.tools);
            let mut same = known.filter(|it| it.tool_id == standing.tool_id);
            same.any(|it| it.disabled == standing.disabled)
        };
        for standing in fleet.contracts.tools.iter().filter(|standing| !refused_before(standing)) {
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

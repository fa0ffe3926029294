//! The gates: hold a tool spec to every rule, and tell everything that breaks one.

use std::collections::{BTreeMap, BTreeSet};

use super::checks::Fault;
use super::document::ToolDocument;
use super::fragment::Fragment;
use super::rules::{Gate, RULES, Rule};
use crate::interface::{Finding, Interface};

/// What there is for tools to name.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The interface contracts, by adapter id.
    pub interfaces: &'a BTreeMap<String, Interface>,
    /// The operations of the router itself.
    pub builtins: &'a [&'a str],
    /// Adapters whose contract is not the one that was locked.
    pub unfrozen: Option<&'a BTreeSet<String>>,
}

impl<'a> Known<'a> {
    /// Takes contracts, each as it was locked, and the names of the router's own operations.
    #[must_use]
    pub const fn new(interfaces: &'a BTreeMap<String, Interface>, builtins: &'a [&'a str]) -> Self {
        Self { interfaces, builtins, unfrozen: None }
    }

    /// Says of which adapters the contract is not the one that was locked.
    #[must_use]
    pub const fn with_unfrozen(self, unfrozen: &'a BTreeSet<String>) -> Self {
        Self { unfrozen: Some(unfrozen), ..self }
    }
}

/// What is judged: a mapping, and the rest of the spec if it is there.
pub(super) struct Subject<'a> {
    pub(super) fragment: &'a Fragment,
    pub(super) document: Option<&'a ToolDocument>,
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where it was found.
    pub gate: Gate,
    /// The number of the rule in the specification, if it has one.
    pub rule: Option<u8>,
    /// The stable id of the rule.
    pub check_id: &'static str,
    /// The code of the error.
    pub code: &'static str,
    /// Where in the tool spec, as a JSON pointer.
    pub pointer: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Violation {
    fn new(gate: Gate, rule: &Rule, fault: Fault) -> Self {
        let Fault { pointer, message } = fault;
        let message = format!("{message}; {}", rule.remedy);
        Self { gate, rule: rule.number, check_id: rule.id, code: rule.code, pointer, message }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.pointer.is_empty() { "the whole" } else { self.pointer.as_str() };
        write!(f, "{place}: {} [{}, {}]", self.message, self.code, self.check_id)
    }
}

/// What came of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// It is kept.
    Pass,
    /// It is broken.
    Fail,
    /// It does not apply, or what it is about is not there.
    Skip,
}

impl CheckResult {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// A rule and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The rule.
    pub rule: &'static Rule,
    /// What came of it.
    pub result: CheckResult,
}

/// What a gate says.
#[derive(Clone, Debug)]
pub struct Report {
    /// The gate.
    pub gate: Gate,
    /// Every rule of the gate, in the order of the table.
    pub checks: Vec<Check>,
    /// Everything that breaks a rule, in the same order.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Says whether the gate is passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Holds a mapping to the six mapping rules of gate 6: the five of the specification, and the form of ids.
#[must_use]
pub fn check_mapping(fragment: &Fragment, known: &Known<'_>) -> Vec<Violation> {
    judge(Gate::Registration, &Subject { fragment, document: None }, known).violations
}

/// Holds a tool spec to the rules that must hold when it is read: 1 to 10, and our own.
#[must_use]
pub fn gate_4(document: &ToolDocument, known: &Known<'_>) -> Report {
    let fragment = Fragment::of(document);
    judge(Gate::ToolSpec, &Subject { fragment: &fragment, document: Some(document) }, known)
}

/// Holds a tool spec to the rules that must hold when it is registered: the mapping, versions and schemas.
#[must_use]
pub fn gate_6(document: &ToolDocument, known: &Known<'_>) -> Report {
    let fragment = Fragment::of(document);
    judge(Gate::Registration, &Subject { fragment: &fragment, document: Some(document) }, known)
}

/// Says what gate 4 says of a document that cannot be read: no rule but the first could be looked at.
#[must_use]
pub fn unreadable(findings: &[Finding]) -> Report {
    let gate = Gate::ToolSpec;
    let rules = || RULES.iter().filter(|rule| rule.gates.contains(&gate));
    let violations = rules().take(1).flat_map(|rule| {
        findings.iter().map(|finding| {
            let Finding { pointer, code, message } = finding.clone();
            Violation { gate, rule: rule.number, check_id: rule.id, code, pointer, message }
        })
    });
    let checks = rules().enumerate().map(|(index, rule)| {
        let result = if index == 0 { CheckResult::Fail } else { CheckResult::Skip };
        Check { rule, result }
    });
    Report { gate, checks: checks.collect(), violations: violations.collect() }
}

fn judge(gate: Gate, subject: &Subject<'_>, known: &Known<'_>) -> Report {
    let mut report = Report { gate, checks: Vec::new(), violations: Vec::new() };
    for rule in RULES.iter().filter(|rule| rule.gates.contains(&gate)) {
        let found = (rule.check)(subject, known);
        let result = match &found {
            None => CheckResult::Skip,
            Some(faults) if faults.is_empty() => CheckResult::Pass,
            Some(_) => CheckResult::Fail,
        };
        report.checks.push(Check { rule, result });
        let faults = found.unwrap_or_default().into_iter();
        report.violations.extend(faults.map(|fault| Violation::new(gate, rule, fault)));
    }
    report
}

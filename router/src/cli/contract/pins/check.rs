//! `nexus-router contract pins check`: the gate for continuous integration.

use std::path::PathBuf;

use super::super::super::output::{Format, Output};
use super::super::super::{Answer, Error};
use super::super::manifest::{Held, Keys, Unread, annotation, read};
use crate::config::Environment;
use crate::files;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::signal::Severity;
use crate::signal::manifest::{LIMITS, Source, gather};
use crate::signal::pins::{Contract, Gate, PinFile, PinFinding, check};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("keys").required(true).args(["public_key_base64", "publishers"])))]
pub(in crate::cli) struct Arguments {
    /// Contracts that are used: files, or directories of them. Each must be pinned.
    #[arg(value_name = "PATH")]
    contracts: Vec<PathBuf>,
    /// The pin file.
    #[arg(long, value_name = "FILE", default_value = "pinned_adapters.json")]
    pins: PathBuf,
    /// The manifest.
    #[arg(long, value_name = "FILE")]
    manifest: String,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    held: Held,
    /// Let deprecated contracts through.
    #[arg(long)]
    allow_deprecated: bool,
    /// Let revoked contracts through that were pinned to look at them.
    #[arg(long)]
    allow_revoked_for_legacy_inspection: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let Some(trust) = arguments.keys.trust()? else { return Ok(Answer::No) };
    if !trust.is_somebody() {
        let hint =
            "give --public-key-base64 or --publishers: what nobody signed is not let through";
        return Err(Error::usage("there is no key to check signatures with", hint));
    }
    let pins_shown = arguments.pins.display().to_string();
    let bytes = files::read_bounded(&arguments.pins, LIMITS.bytes).map_err(|error| {
        let hint = "nexus-router contract pin writes a pin file";
        Error::usage(format!("cannot read {pins_shown}: {error}"), hint)
    })?;
    let mut wrong = Vec::new();
    let pins = PinFile::read(&bytes).unwrap_or_else(|found| {
        wrong.extend(found.into_iter().map(|it| broken(&pins_shown, it)));
        PinFile::default()
    });
    let manifest = match read(&arguments.manifest) {
        Ok(manifest) => Some(manifest),
        Err(Unread::Malformed(file, error)) => {
            wrong.push(broken(&file, error.to_string()));
            None
        }
        Err(unread) => return Err(unread.into()),
    };
    let previous = match arguments.held.previous()? {
        Ok(previous) => previous,
        Err(answer) => return Ok(answer),
    };
    let contracts = arguments.contracts(&mut wrong)?;
    let mut rules = arguments.held.rules(&trust, previous.as_ref());
    rules.require_signature = true;
    let gate = Gate {
        deprecated: arguments.allow_deprecated,
        revoked: arguments.allow_revoked_for_legacy_inspection,
    };
    let found = manifest.map(|manifest| check(&pins, &manifest, &contracts, &rules, gate));
    match found {
        Some(Ok(found)) => wrong.extend(found),
        Some(Err(found)) => {
            wrong.extend(found.into_iter().map(|it| broken(&arguments.manifest, it)));
        }
        None => {}
    }
    // A gate that had nothing to look at must not say that all is well.
    let is_error = |finding: &PinFinding| finding.severity == Severity::Error;
    if pins.pins().is_empty() && !wrong.iter().any(is_error) {
        let message = "nothing is pinned; nexus-router contract pin does that".to_owned();
        wrong.push(PinFinding { code: "nothing_pinned", ..broken(&pins_shown, message) });
    }
    arguments.tell(&wrong, pins.pins().len(), contracts.len(), environment)?;
    let errors = || wrong.iter().filter(|finding| finding.severity == Severity::Error);
    Ok(match errors().any(|finding| finding.code == "revoked") {
        true => Answer::Revoked,
        false if errors().next().is_some() => Answer::No,
        false => Answer::Yes,
    })
}

/// Makes a finding of a file that is not what it should be.
fn broken(file: &str, message: String) -> PinFinding {
    PinFinding {
        severity: Severity::Error,
        code: "malformed",
        name: String::new(),
        file: Some(file.to_owned()),
        message,
    }
}

impl Arguments {
    fn contracts(&self, wrong: &mut Vec<PinFinding>) -> Result<Vec<Contract>, Error> {
        let files = gather(&self.contracts).map_err(|(path, error)| {
            let message = format!("cannot read {}: {error}", path.display());
            Error::usage(message, "name files or directories of contracts")
        })?;
        let mut contracts = Vec::with_capacity(files.len());
        for file in files {
            let file = file.display().to_string();
            match read(&file).map(Source::of) {
                Ok(Source::Declaration(declaration)) => {
                    contracts.push(Contract { file, declaration });
                }
                // A directory may hold entries too; they are not what is used. What is named as a contract is.
                Ok(_) if file.ends_with(".entry.json") => {}
                Ok(_) => {
                    let message =
                        "it is named as a contract, and has members of a manifest or an entry";
                    wrong.push(broken(&file, message.to_owned()));
                }
                Err(Unread::Malformed(_, error)) => wrong.push(broken(&file, error.to_string())),
                Err(unread) => return Err(unread.into()),
            }
        }
        if contracts.is_empty() && !self.contracts.is_empty() && wrong.is_empty() {
            let hint = "contracts in directories are named adapter_contract.json or *.adapter_contract.json";
            return Err(Error::usage("there are no contracts", hint));
        }
        Ok(contracts)
    }

    fn tell(
        &self,
        found: &[PinFinding],
        pins: usize,
        contracts: usize,
        environment: &Environment,
    ) -> Result<(), Error> {
        let mut output = Output::new(environment);
        let errors = found.iter().filter(|it| it.severity == Severity::Error).count();
        match self.format {
            Format::Json => {
                let mut report = Object::with_capacity(4);
                report.insert("ok", errors == 0);
                report.insert("pins", pins);
                report.insert("contracts", contracts);
                report.insert("findings", found.iter().map(as_json).collect::<Vec<_>>());
                output.line(&to_indented(&report.into()))?;
            }
            Format::Github => {
                let pins = self.pins.display().to_string();
                for finding in found {
                    let is_error = finding.severity == Severity::Error;
                    let file = finding.file.as_deref().unwrap_or(&pins);
                    output.line(&annotation(is_error, file, finding.code, &message(finding)))?;
                }
            }
            Format::Human => {
                for finding in found {
                    let sign = if finding.severity == Severity::Error { '✗' } else { '!' };
                    let file = finding.file.as_ref().map(|file| format!("{file}: "));
                    let line = format!("{sign} {}{}", file.unwrap_or_default(), message(finding));
                    output.line(&visible(&line))?;
                }
                let verdict = match errors {
                    0 => format!("ok: {pins} pins hold, {contracts} contracts are pinned"),
                    _ => format!("not ok: {errors} findings; {pins} pins, {contracts} contracts"),
                };
                output.line(&verdict)?;
            }
        }
        Ok(())
    }
}

fn message(finding: &PinFinding) -> String {
    // What is told of an entry names it already.
    if finding.name.is_empty() || finding.message.starts_with(&finding.name) {
        return finding.message.clone();
    }
    format!("{}: {}", finding.name, finding.message)
}

fn as_json(finding: &PinFinding) -> Value {
    let mut told = Object::with_capacity(5);
    let is_error = finding.severity == Severity::Error;
    told.insert("severity", if is_error { "error" } else { "warning" });
    told.insert("code", finding.code);
    told.insert("contract", finding.name.as_str());
    told.insert("file", finding.file.as_deref());
    told.insert("message", finding.message.as_str());
    told.into()
}

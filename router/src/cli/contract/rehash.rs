//! `nexus-router contract rehash PATH...`.

use std::path::PathBuf;

use super::super::output::{Format, Output, tell};
use super::super::{Answer, Error};
use super::report::{
    Loaded, Source, annotation, any_error, finding_annotation, finding_json, finding_line,
    messages, print, replace, sources, whole,
};
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::signal::{Finding, Severity, lint, rehash_text};

const HELP: &str = "\
Examples:
  nexus-router contract rehash adapter_contract.json
  nexus-router contract rehash contracts --check
  nexus-router contract rehash - < edited.json > adapter_contract.json

Where the hashes stand in the text, nothing else of it changes. Exits 0 if the contracts have nothing wrong now, and 1 if
they have, or if with --check something would change.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct Arguments {
    /// Files, directories, or - for standard input, which is written to standard output.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only tell what would change. Exits 1 if something would.
    #[arg(long)]
    check: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

/// What became of one contract.
struct Outcome {
    path: String,
    changed: bool,
    /// The contract as it is now.
    contract: Option<Object>,
    findings: Vec<Finding>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut outcomes = Vec::new();
    let mut closed = Vec::new();
    let mut piped = false;
    let mut output = Output::new(environment);
    for source in sources(&arguments.paths)? {
        match source.load() {
            Loaded::Contract(text, contract) => {
                // Whoever asks on standard input wants the contract, not a report.
                let through = source.file().is_none() && !arguments.check;
                piped |= through;
                let (outcome, text) = rehashed(&source, &text, contract);
                if through {
                    output.text(&text)?;
                } else if let Some(file) =
                    source.file().filter(|_| outcome.changed && !arguments.check)
                    && let Err(error) = replace(file, &text)
                {
                    closed.push((source.shown, format!("cannot be written: {error}")));
                    continue;
                }
                outcomes.push(outcome);
            }
            Loaded::Refused(finding) => outcomes.push(Outcome {
                path: source.shown,
                changed: false,
                contract: None,
                findings: vec![finding],
            }),
            Loaded::Unreadable(why) => closed.push((source.shown, why)),
        }
    }
    let failed = outcomes.iter().filter(|it| any_error(&it.findings)).count();
    let changed = outcomes.iter().filter(|it| it.changed).count();
    let ok = failed == 0 && closed.is_empty() && !(arguments.check && changed > 0);
    if piped {
        for Outcome { path, findings, .. } in &outcomes {
            findings.iter().for_each(|finding| tell(&finding_line(&output, path, finding)));
        }
    } else {
        match arguments.format {
            Format::Json => {
                let mut report = Object::with_capacity(5);
                report.insert("ok", ok);
                report.insert("checked", outcomes.len());
                report.insert("changed", changed);
                report.insert("failed", failed);
                report.insert("contracts", outcomes.iter().map(as_json).collect::<Vec<Value>>());
                print(&mut output, report)?;
            }
            Format::Human => human(&mut output, &outcomes, arguments.check)?,
            Format::Github => github(&mut output, &outcomes, arguments.check)?,
        }
    }
    whole(&closed)?;
    Ok(if ok { Answer::Yes } else { Answer::No })
}

/// Computes the hashes of a contract anew. Returns its text too.
fn rehashed(source: &Source, text: &[u8], contract: Object) -> (Outcome, String) {
    // It was read as JSON, so it is UTF-8.
    let text = String::from_utf8_lossy(text).into_owned();
    let path = source.shown.clone();
    let (changed, text, contract) = match rehash_text(&text, &contract) {
        Ok(Some((text, contract))) => (true, text, contract),
        // What has no order is told by the lint.
        Ok(None) | Err(_) => (false, text, contract),
    };
    let findings = lint(&contract);
    (Outcome { path, changed, contract: Some(contract), findings }, text)
}

fn as_json(outcome: &Outcome) -> Value {
    let mut object = Object::with_capacity(8);
    object.insert("path", outcome.path.as_str());
    object.insert("ok", !any_error(&outcome.findings));
    object.insert("changed", outcome.changed);
    for key in ["adapter_id", "contract_hash", "input_schema_hash"] {
        object.insert(key, outcome.contract.as_ref().and_then(|it| it.get(key)).cloned());
    }
    object.insert("errors", messages(&outcome.findings, Severity::Error));
    object.insert("warnings", messages(&outcome.findings, Severity::Warning));
    let findings = outcome.findings.iter().map(|it| finding_json(&outcome.path, it));
    object.insert("findings", findings.collect::<Vec<Value>>());
    object.into()
}

fn human(output: &mut Output, outcomes: &[Outcome], check: bool) -> std::io::Result<()> {
    for Outcome { path, changed, findings, .. } in outcomes {
        let state = match (changed, check) {
            (true, true) => {
                "has other hashes than it should; nexus-router contract rehash computes them"
            }
            (true, false) => "has new hashes",
            (false, _) => "is as it was",
        };
        output.line(&visible(&format!("{path} {state}")))?;
        for finding in findings {
            output.line(&finding_line(output, path, finding))?;
        }
    }
    Ok(())
}

fn github(output: &mut Output, outcomes: &[Outcome], check: bool) -> std::io::Result<()> {
    for Outcome { path, changed, findings, .. } in outcomes {
        if *changed && check {
            let message = "the hashes are not those of the contract\nhint: nexus-router contract rehash computes them";
            output.line(&annotation("error", path, message))?;
        }
        for finding in findings {
            output.line(&finding_annotation(path, finding))?;
        }
    }
    Ok(())
}

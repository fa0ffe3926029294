//! `nexus-router interface verify`.

use super::super::output::{Format, Output, tell};
use super::super::{Answer, Error};
use super::{Place, finding_json};
use crate::config::Environment;
use crate::interface::{Finding, verify};
use crate::json::{Object, Value};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, approvers) = arguments.place.open(environment)?;
    let mut verified = verify(&shelf, &approvers);
    // A revision that breaks others is due when all tools are made for it.
    let broken = arguments.place.app(environment)?.tools_refused_by(&verified)?;
    verified.findings.extend(broken);
    let findings = &verified.findings;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => {
            let mut report = Object::with_capacity(3);
            report.insert("ok", findings.is_empty());
            report.insert("contracts", verified.interfaces.len());
            let told = findings.iter().map(|(file, finding)| finding_json(file, finding));
            report.insert("findings", told.collect::<Vec<Value>>());
            output.value(&report.into())?;
        }
        Format::Github => {
            for (file, finding) in findings {
                output.line(&annotation(
                    &shelf.directory().join(file).display().to_string(),
                    finding,
                ))?;
            }
        }
        Format::Human => {
            for (file, finding) in findings {
                output.line(&visible(&format!("✗ {file}: {finding}")))?;
            }
            let count = verified.interfaces.len();
            let verdict = match findings.len() {
                0 => format!("ok: {count} contracts hold"),
                found => format!("not ok: {found} findings, {count} contracts hold"),
            };
            output.line(&verdict)?;
        }
    }
    if !findings.is_empty() && arguments.format == Format::Human {
        tell("hint: nexus-router explain CODE tells what a code means");
    }
    Ok(if findings.is_empty() { Answer::Yes } else { Answer::No })
}

/// Tells findings to people.
pub(super) fn tell_all(findings: &[(String, Finding)]) {
    for (file, finding) in findings {
        tell(&visible(&format!("✗ {file}: {finding}")));
    }
}

/// Writes a finding as a command of GitHub workflows.
fn annotation(file: &str, finding: &Finding) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
    format!(
        "::error file={},title={}::{}",
        property(file),
        property(finding.code),
        visible(&escaped(&finding.to_string()))
    )
}

//! `nexus-router interface verify`.

use super::super::output::{Format, Output, tell};
use super::super::{Answer, Error};
use super::{Place, finding_json};
use crate::config::Environment;
use crate::interface::{Anchoring, Finding, LOCK_NAME, Verified, verify};
use crate::json::{Object, Value};
use crate::python_text::visible;

/// So many contracts without an anchor are named.
const SHOWN: usize = 8;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Fail unless the newest revision of every contract in the lock is anchored in router.toml.
    #[arg(long)]
    require_anchors: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, trust) = arguments.place.open(environment)?;
    let mut verified = verify(&shelf, &trust);
    // A revision that breaks others is due when all tools are made for it.
    let broken = arguments.place.app(environment)?.tools_refused_by(&verified)?;
    verified.findings.extend(broken);
    let unanchored = unanchored(&verified);
    if arguments.require_anchors {
        verified
            .findings
            .extend(unanchored.iter().map(|(id, anchoring)| not_anchored(id, anchoring)));
    }
    let findings = &verified.findings;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => {
            let mut report = Object::with_capacity(4);
            report.insert("ok", findings.is_empty());
            report.insert("contracts", verified.interfaces.len());
            let ids = unanchored.iter().map(|(id, _)| Value::from(id.as_str()));
            report.insert("not_anchored", ids.collect::<Vec<Value>>());
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
            if !unanchored.is_empty() && !arguments.require_anchors {
                let shown = unanchored
                    .iter()
                    .map(|(id, anchoring)| format!("{id} {}", anchoring.describe()));
                let shown: Vec<String> = shown.collect();
                output.line(&visible(&format!("note: not anchored: {}", listed(&shown))))?;
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

/// Lists the histories whose newest revision is not anchored.
fn unanchored(verified: &Verified) -> Vec<(String, Anchoring)> {
    let unanchored = verified.anchoring.iter().filter(|(_, anchoring)| !anchoring.is_complete());
    unanchored.map(|(id, anchoring)| (id.clone(), anchoring.clone())).collect()
}

fn not_anchored(id: &str, anchoring: &Anchoring) -> (String, Finding) {
    let message = format!(
        "{id} {}; nexus-router interface anchors prints the line for [contracts.anchors] of router.toml",
        anchoring.describe()
    );
    let finding = Finding { pointer: String::new(), code: "INTERFACE_NOT_ANCHORED", message };
    (LOCK_NAME.to_owned(), finding)
}

/// Lists the first texts, and says how many more there are.
fn listed(texts: &[String]) -> String {
    match texts.get(..SHOWN) {
        Some(first) if texts.len() > SHOWN => {
            format!("{}, and {} more", first.join(", "), texts.len() - SHOWN)
        }
        _ => texts.join(", "),
    }
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

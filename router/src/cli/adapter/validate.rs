//! `nexus-router adapter validate REF`.

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::Examination;
use crate::check::{CHECKS, CheckResult, Status, Validation, validate};
use crate::config::Environment;
use crate::python_text::visible;

pub(super) fn run(arguments: &Examination, environment: &Environment) -> Result<Answer, Error> {
    let validation = arguments.run(environment, validate)?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => output.json(&validation.to_json())?,
        Format::Human => human(&mut output, &validation)?,
        Format::Github => github(&mut output, &validation)?,
    }
    Ok(if validation.ok() { Answer::Yes } else { Answer::No })
}

fn human(output: &mut Output, validation: &Validation) -> std::io::Result<()> {
    let width = validation.checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    for check in &validation.checks {
        let (sign, message) = (output.sign(check.status), visible(&check.message));
        output.line(&format!("{sign} {:<width$}  {message}", check.id))?;
        if check.status == Status::Fail {
            if let Some(cause) = cause(check, validation) {
                output.line(&format!("  cause: {cause}"))?;
            }
            output.line(&format!("  hint: {}", remedy(check.id, validation)))?;
        }
    }
    let count = |status| validation.with_status(status).count();
    let verdict = if validation.ok() { "ok" } else { "not ok" };
    output.line("")?;
    output.line(&format!(
        "{verdict}: {} passed, {} failed, {} warned, {} skipped",
        count(Status::Pass),
        count(Status::Fail),
        count(Status::Warn),
        count(Status::Skip)
    ))
}

fn github(output: &mut Output, validation: &Validation) -> std::io::Result<()> {
    for check in &validation.checks {
        let message = escape(&check.message);
        match check.status {
            Status::Fail => {
                let hint = escape(&remedy(check.id, validation));
                let cause =
                    cause(check, validation).map(|text| format!("%0Acause: {}", escape(&text)));
                let cause = cause.unwrap_or_default();
                output.line(&format!(
                    "::error title={}::{message}{cause}%0Ahint: {hint}",
                    check.id
                ))?;
            }
            Status::Warn => output.line(&format!("::warning title={}::{message}", check.id))?,
            Status::Pass => output.line(&format!("PASS: {}", check.id))?,
            Status::Skip => output.line(&format!("SKIP: {}", check.id))?,
        }
    }
    Ok(())
}

/// Escapes the data of a workflow command: a message cannot end the command and begin another.
fn escape(message: &str) -> String {
    visible(message).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Returns the cause of a failed load, if its message does not have it.
fn cause(check: &CheckResult, validation: &Validation) -> Option<String> {
    let error = validation.error.as_ref().filter(|_| check.id == CHECKS[0].id)?;
    let cause = &error.cause()?.text;
    (!check.message.contains(cause.as_str())).then(|| visible(cause))
}

fn remedy(id: &str, validation: &Validation) -> String {
    if let Some(error) = validation.error.as_ref().filter(|_| id == CHECKS[0].id) {
        return format!("{} [{}]", visible(error.hint()), error.reason().code());
    }
    CHECKS.iter().find(|check| check.id == id).map_or("", |check| check.remedy).to_owned()
}

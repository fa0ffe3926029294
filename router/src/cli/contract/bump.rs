//! `nexus-router contract bump FILE --version VERSION`.

use std::path::PathBuf;

use super::super::output::{Form, Output, tell};
use super::super::{Answer, Error};
use super::report::{finding_line, one, print, replace};
use crate::config::Environment;
use crate::json::{Object, to_indented};
use crate::python_text::visible;
use crate::signal::{BumpError, bump, lint};

const HELP: &str = "\
Examples:
  nexus-router contract bump adapter_contract.json --version 0.2.0
  nexus-router contract bump adapter_contract.json --version 1.0.0 --set-supersedes

What else is wrong with the contract is told on standard error, and does not change the answer.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct Arguments {
    /// The file of the contract.
    path: PathBuf,
    /// The version that it gets, which must be higher than the one that it has.
    #[arg(long, allow_hyphen_values = true)]
    version: String,
    /// Let the contract say that it supersedes what it was.
    #[arg(long)]
    set_supersedes: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value = "json")]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let path = arguments.path.display().to_string();
    let prefix = format!("failed to parse {path}: ");
    let mut contract = one(&arguments.path, &format!("file not found: {path}"), &prefix)?;
    let previous = match bump(&mut contract, &arguments.version, arguments.set_supersedes) {
        Ok(previous) => previous,
        Err(same @ BumpError::Same(_)) => {
            tell(&visible(&format!("warning: {same}")));
            return Ok(Answer::Yes);
        }
        Err(error) => return Err(Error::usage(error.to_string(), error.hint())),
    };
    let text = to_indented(&contract.clone().into()) + "\n";
    replace(&arguments.path, &text).map_err(|error| {
        let hint = "it is as before; see that its directory can be written to";
        Error::usage(format!("{path} cannot be written: {error}"), hint)
    })?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Human => output.line(&visible(&format!("{path} is {} now", arguments.version)))?,
        Form::Json => {
            let mut report = Object::with_capacity(7);
            report.insert("ok", true);
            report.insert(
                "adapter_id",
                contract.get("adapter_id").cloned().unwrap_or_else(|| "".into()),
            );
            report.insert("previous_version", previous);
            report.insert("new_version", arguments.version.as_str());
            report.insert("new_contract_hash", contract.get("contract_hash").cloned());
            report.insert("new_input_schema_hash", contract.get("input_schema_hash").cloned());
            report.insert("path", path.as_str());
            print(&mut output, report)?;
        }
    }
    // The version is higher, whatever else is wrong or out of date; whoever raised it wants to know.
    for finding in lint(&contract) {
        tell(&finding_line(&output, &path, &finding));
    }
    Ok(Answer::Yes)
}

//! `nexus-router contract scaffold --id ID`.

use std::path::PathBuf;

use super::super::output::{Form, Output};
use super::super::{Answer, Error};
use super::report::print;
use crate::config::Environment;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::shell::quoted;
use crate::signal::{SCAFFOLD_FILE, scaffold};

/// The validators that a new contract can have.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Validator {
    /// Every field is true or false.
    Boolean,
}

const HELP: &str = "\
Examples:
  nexus-router contract scaffold --id acme.eval_suite.v0 --fields all_tests_passed,coverage_met
  nexus-router contract scaffold --id acme.eval_suite.v0 --version 1.0.0 --out contracts/eval

Exits 0 if the contract was written, and 2 if not. Then nothing was changed.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct Arguments {
    /// The id of the adapter: parts with dots between them, like `acme.eval_suite.v0`.
    #[arg(long, allow_hyphen_values = true)]
    id: String,
    /// The version of the contract.
    #[arg(long, default_value = "0.1.0", allow_hyphen_values = true)]
    version: String,
    /// The validator that says of which form the fields are.
    #[arg(long, value_enum, default_value = "boolean")]
    validator: Validator,
    /// The fields, with commas between them.
    #[arg(long, default_value = "signal_a,signal_b,signal_c", allow_hyphen_values = true)]
    fields: String,
    /// The directory to write `adapter_contract.json` to; it is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Write over a contract that is there.
    #[arg(long)]
    force: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value = "json")]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let Validator::Boolean = arguments.validator;
    let contract = scaffold(&arguments.id, &arguments.version, &arguments.fields)
        .map_err(|error| Error::usage(error.to_string(), error.hint()))?;
    let cannot = |error: std::io::Error| {
        Error::usage(
            format!("cannot write to {}: {error}", arguments.out.display()),
            "name a directory that can be written to with --out",
        )
    };
    std::fs::create_dir_all(&arguments.out).map_err(cannot)?;
    let file = std::fs::canonicalize(&arguments.out).map_err(cannot)?.join(SCAFFOLD_FILE);
    if !arguments.force && file.symlink_metadata().is_ok() {
        return Err(Error::usage(
            format!("{} is there already", file.display()),
            "write it to another directory with --out, or over this one with --force",
        ));
    }
    let text = to_indented(&contract.clone().into()) + "\n";
    crate::files::write_whole(&file, text.as_bytes()).map_err(cannot)?;
    let mut output = Output::new(environment);
    let shown = file.display().to_string();
    match arguments.format {
        Form::Human => output.line(&visible(&format!("wrote {shown}")))?,
        Form::Json => {
            let mut report = Object::with_capacity(6);
            report.insert("ok", true);
            report.insert("adapter_id", arguments.id.as_str());
            report.insert("out", shown.as_str());
            for key in ["contract_hash", "input_schema_hash"] {
                report.insert(key, contract.get(key).cloned());
            }
            let quoted = quoted(&shown);
            let next: [Value; 4] = [
                format!("nexus-router contract lint {quoted}").into(),
                "edit output_fields / allowed_policy_fields to match your adapter".into(),
                format!("nexus-router contract rehash {quoted}").into(),
                "drop the file into AIGENTSY_ADAPTER_CONTRACTS_DIR on the runtime".into(),
            ];
            report.insert("next", next.to_vec());
            print(&mut output, report)?;
        }
    }
    Ok(Answer::Yes)
}

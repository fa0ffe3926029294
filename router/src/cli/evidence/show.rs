//! `nexus-router evidence show`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error};
use super::{Format, Place};
use crate::config::Environment;
use crate::evidence::verify::{Limits, Shown, show};
use crate::json::{Value, to_compact};
use crate::python_text::{json_escaped, visible};

#[derive(clap::Args)]
#[command(after_help = "\
What is shown is what the files say; nexus-router evidence verify tells whether it is true.

Examples:
  nexus-router evidence show task-1/exec-1
  nexus-router evidence show sealed/evidence/task-1/exec-1 --format json")]
pub(in crate::cli) struct Arguments {
    /// The bundle: a directory, or TASK/EXECUTION of the cabinet.
    bundle: PathBuf,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let bundle = super::find(&arguments.bundle, &arguments.place, environment)?;
    let shown = show(&bundle, Limits::default()).map_err(|error| {
        let message = format!("cannot read {}: {error}", bundle.display());
        Error::usage(message, "check the path, and that this user may read it")
    })?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => output.value(&shown.to_json())?,
        Format::Text => {
            for line in lines(&shown) {
                output.line(&line)?;
            }
        }
    }
    Ok(Answer::Yes)
}

fn lines(shown: &Shown) -> Vec<String> {
    let mut lines = vec![format!("{} {}", shown.kind.name(), visible(&shown.place))];
    for (name, value) in &shown.documents {
        lines.push(format!("\n{}", visible(name)));
        match value {
            Value::Object(object) => lines.extend(object.iter().map(|(name, value)| {
                format!("  {}: {}", visible(name), json_escaped(&to_compact(value)))
            })),
            other => lines.push(format!("  {}", json_escaped(&to_compact(other)))),
        }
    }
    if let Some(proof) = &shown.proof {
        let (index, size) = (proof.index, proof.tree_size);
        lines.push(format!("\nentry {index} of a log of {size}, {}", visible(&proof.origin)));
    }
    lines.push("\nfiles".to_owned());
    lines.extend(shown.files.iter().map(|(name, digest)| format!("  {digest}  {}", visible(name))));
    for finding in shown.findings.list() {
        let (reason, file) = (finding.reason.id(), visible(&finding.file));
        lines.push(format!("\n{reason}: {file}: {}", visible(&finding.message)));
    }
    lines
}

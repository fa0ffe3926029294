//! `nexus-router evidence list`.

use super::super::output::{Output, columns, shortened, tell};
use super::super::{Answer, Error};
use super::{Format, Place};
use crate::config::Environment;
use crate::evidence::verify::{self, Limits, Listed};
use crate::python_text::visible;

#[derive(clap::Args)]
#[command(after_help = "\
What is listed is what the bundles say of themselves; nexus-router evidence verify tells whether it is true.

Examples:
  nexus-router evidence list
  nexus-router evidence list --task task-1 --format json")]
pub(in crate::cli) struct Arguments {
    /// Only the bundles of this task.
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let root = arguments.place.root(environment)?;
    let mut rows = Vec::new();
    let task = arguments.task.as_ref().map(|task| format!("evidence/{task}/"));
    let mut each = |listed: Listed| {
        if task.as_ref().is_none_or(|task| listed.path.starts_with(task)) {
            rows.push(listed);
        }
    };
    let findings = verify::list(&root, Limits::default(), &mut each).map_err(|error| {
        let message = format!("cannot read the cabinet {}: {error}", root.display());
        Error::usage(message, "name it with --root, or run something that seals first")
    })?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => {
            output.value(&rows.iter().map(Listed::to_json).collect::<Vec<_>>().into())?;
        }
        Format::Text => {
            let head = ["KIND", "BUNDLE", "ROLE", "ACTION", "OUTCOME", "REASON", "SEALED"];
            let mut table = vec![head.map(str::to_owned).to_vec()];
            table.extend(rows.iter().map(row));
            for line in columns(&table) {
                output.line(&line)?;
            }
        }
    }
    let strange = findings.list().len() + findings.left_out();
    if strange > 0 {
        tell(&format!(
            "hint: {strange} things in the cabinet are no bundles; nexus-router evidence verify tells them"
        ));
    }
    Ok(Answer::Yes)
}

fn row(listed: &Listed) -> Vec<String> {
    let path = listed.path.strip_prefix("evidence/").unwrap_or(&listed.path);
    let cell = |text: &Option<String>| {
        text.as_deref().map_or_else(|| "-".to_owned(), |text| shortened(&visible(text)))
    };
    vec![
        listed.kind.name().to_owned(),
        visible(path),
        cell(&listed.role),
        cell(&listed.action),
        cell(&listed.outcome),
        cell(&listed.reason),
        if listed.sealed { "yes" } else { "no" }.to_owned(),
    ]
}

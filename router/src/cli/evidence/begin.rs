//! `nexus-router evidence begin`.

use super::super::options::StoreOptions;
use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::python_text::visible;

#[derive(clap::Args)]
#[command(after_help = "\
A store knows where in the log its runs are sealed, and a log that is older, another one, or gone is not continued. Put the \
directory back if you can: what was sealed there can be proved only with it. If it is lost for good, this makes new keys \
and a new log in its place; runs that were sealed before have no proof from then on. Give trust.json to whoever checks you.

Examples:
  mv sealed sealed-damaged
  nexus-router evidence begin --db runs.db")]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (root, trust) = arguments.store.app(environment)?.begin_log()?;
    let shown = visible(&root.display().to_string());
    let mut output = Output::new(environment);
    output.line(&format!("{shown}: the log {} is begun", visible(trust.origin())))?;
    Ok(Answer::Yes)
}

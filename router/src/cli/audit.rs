//! `nexus-router audit …`: what happened to the daemon itself.

use clap::Subcommand;

use super::options::StoreOptions;
use super::output::Output;
use super::{Answer, Error};
use crate::config::Environment;
use crate::json::{self, Limits, Value};

/// So many lines are in memory at a time.
const PAGE: usize = 500;

const EXAMPLES: &str = "\
Examples:
  nexus-router audit export
  nexus-router audit export --after 1200 >> audit.jsonl
  nexus-router audit export --config-file /etc/nexus-router/router.toml | grep access.refused";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Print the audit log: one JSON object per line, in order. `store check` verifies its chain.
    Export(ExportArguments),
}

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArguments {
    /// Begin after the event with this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    store: StoreOptions,
}

pub(super) fn run(verb: &Verb, environment: &Environment) -> Result<Answer, Error> {
    let Verb::Export(ExportArguments { after, store }) = verb;
    let store = store.app(environment)?.reader()?;
    let mut output = Output::new(environment);
    let mut after = *after;
    loop {
        let lines = store.audit_page(after, PAGE)?;
        let Some(last) = lines.last() else { return Ok(Answer::Yes) };
        // The lines are canonical JSON, which is ASCII and has nothing that a terminal obeys.
        output.text(&(lines.join("\n") + "\n"))?;
        let seq = json::parse(last.as_bytes(), Limits::BUNDLE).ok();
        let seq = seq.as_ref().and_then(|line| line.get("seq")).and_then(Value::as_i64);
        match seq.and_then(|seq| u64::try_from(seq).ok()).filter(|seq| *seq > after) {
            Some(seq) => after = seq,
            None => {
                let problem = format!("a line of the audit log after {after} has no number");
                return Err(crate::store::Error::Damaged(problem).into());
            }
        }
    }
}

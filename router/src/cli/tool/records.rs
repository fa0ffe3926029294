//! `nexus-router tool records`.

use super::super::options::StoreOptions;
use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;

/// So many are read at once.
const PAGE: usize = 1_000;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let store = arguments.store.app(environment)?.reader()?;
    let mut output = Output::new(environment);
    let mut after = 0;
    loop {
        let page = store.run_records_page(after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(Answer::Yes) };
        after = *last;
        for (_, line) in &page {
            output.line(line)?;
        }
    }
}

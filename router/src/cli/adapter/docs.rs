//! `nexus-router adapter docs`.

use std::path::PathBuf;

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::Search;
use crate::check::{doc_entries, docs};
use crate::config::Environment;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    search: Search,
    /// Compare with a file instead of writing: exits 1 if it is out of date.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// The title of the document.
    #[arg(long, default_value = "Adapters")]
    title: String,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let loader = arguments.search.loader(environment)?;
    let text = docs::markdown(&doc_entries(&loader), &arguments.title);
    let Some(file) = &arguments.check else {
        Output::new(environment).text(&text)?;
        return Ok(Answer::Yes);
    };
    let shown = file.display();
    let stored = std::fs::read_to_string(file).map_err(|error| {
        Error::usage(
            format!("cannot read {shown}: {error}"),
            format!("write it with nexus-router adapter docs > {shown}"),
        )
    })?;
    if stored == text {
        tell(&format!("{shown} is up to date"));
        return Ok(Answer::Yes);
    }
    let differs = stored.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| stored.lines().count().min(text.lines().count())) + 1;
    tell(&format!("{shown} is out of date: it differs from line {line} on"));
    tell(&format!("hint: write it again with nexus-router adapter docs > {shown}"));
    Ok(Answer::No)
}

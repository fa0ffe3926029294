//! `nexus-router runs export ID`.

use std::path::{Path, PathBuf};

use super::super::options::StoreOptions;
use super::super::output::{Form, Output, tell};
use super::super::progress::Progress;
use super::super::{Answer, Error};
use crate::bundle::{self, Exported, Provenance};
use crate::config::Environment;
use crate::files;
use crate::json::Object;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The run.
    run_id: String,
    #[command(flatten)]
    store: StoreOptions,
    /// The file to write; without it, the bundle goes to standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not say where the bundle comes from.
    #[arg(long)]
    no_provenance: bool,
    /// The format of the answer; the bundle itself is always the same.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let store = app.reader()?;
    let mut progress = Progress::new("exporting");
    progress.phase("reading the run");
    let log = store.log(&arguments.run_id)?;
    let mut output = Output::new(environment);
    let Some(log) = log else {
        drop(progress);
        if arguments.format == Form::Human {
            return Ok(super::not_found(&arguments.run_id));
        }
        output.value(&bundle::not_found(&arguments.run_id))?;
        return Ok(Answer::No);
    };
    progress.phase("writing the bundle");
    let provenance = if arguments.no_provenance { Provenance::Omit } else { Provenance::Include };
    let exported = app.export(&store, &log, provenance)?;
    if let Some(file) = &arguments.output {
        write(file, &exported.text)?;
    }
    drop(progress);
    answer(&mut output, arguments, &exported, log.record.progress.events)?;
    Ok(Answer::Yes)
}

fn answer(
    output: &mut Output,
    arguments: &Arguments,
    exported: &Exported,
    events: u64,
) -> Result<(), Error> {
    match (&arguments.output, arguments.format) {
        (None, Form::Human) => output.line(&exported.text)?,
        // The text is canonical JSON already.
        (None, Form::Json) => {
            output.text("{\"ok\":true,\"artifact\":")?;
            output.text(&exported.text)?;
            output.line("}")?;
        }
        (Some(file), Form::Human) => {
            tell(&format!("wrote {}: {events} events, {}", file.display(), exported.digest));
        }
        (Some(file), Form::Json) => {
            let mut response = Object::new();
            response.insert("ok", true);
            response.insert("path", file.display().to_string());
            response.insert("events", events);
            response.insert("sha256", exported.digest.to_string());
            output.value(&response.into())?;
        }
    }
    Ok(())
}

/// Writes a file that is whole, or not at all.
fn write(file: &Path, text: &str) -> Result<(), Error> {
    files::write_whole(file, format!("{text}\n").as_bytes()).map_err(|error| {
        let message = format!("cannot write {}: {error}", file.display());
        Error::usage(message, "check that the directory exists and has room, and may be written")
    })
}

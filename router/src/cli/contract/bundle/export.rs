//! `nexus-router contract bundle export RUN_ID`.

use std::path::PathBuf;

use super::super::super::options::StoreOptions;
use super::super::super::output::{Output, tell};
use super::super::super::{Answer, Error};
use crate::clock::Clock;
use crate::config::Environment;
use crate::files;
use crate::json::to_indented;
use crate::key::SigningKey;
use crate::python_text::visible;
use crate::signal::bundle::{self, Log, RunError};
use crate::store::Status;

#[derive(clap::Args)]
#[command(
    after_help = "Each export is one more leaf of the log, and has a signed tree head of its own.

Example:
  nexus-router contract bundle export RUN_ID --key log.pem --out bundle.json"
)]
pub(in crate::cli) struct Arguments {
    /// The run.
    run_id: String,
    #[command(flatten)]
    store: StoreOptions,
    /// The file to write; without it, the bundle goes to standard output.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The key that signs the heads of the log.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The directory of the log [default: signal-log in the data directory].
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let key = SigningKey::read(&arguments.key)?;
    let stored = app.reader()?.log(&arguments.run_id)?;
    let Some(stored) = stored else {
        return Err(Error::NotFound { run_id: arguments.run_id.clone() });
    };
    if stored.record.progress.status == Status::Running {
        tell(&visible(&format!("the run {} is not over: nothing is sealed", arguments.run_id)));
        return Ok(Answer::No);
    }
    let now = Clock::System.now().to_string();
    let head = &stored.record.progress.head;
    let draft = match bundle::of_run(&arguments.run_id, head, stored.lines(), &now) {
        Ok(draft) => draft,
        Err(error @ RunError::Nothing { .. }) => {
            tell(&visible(&error.to_string()));
            tell("hint: only steps whose adapters have signal contracts are evaluated");
            return Ok(Answer::No);
        }
        Err(error) => {
            let hint = "nexus-router store check tells what is wrong with the store";
            return Err(Error::usage(error.to_string(), hint));
        }
    };
    let directory = match &arguments.log_dir {
        Some(directory) => directory.clone(),
        None => app.data_dir()?.join("signal-log"),
    };
    // A leaf that nobody gets the bundle of cannot be taken back, so the file is looked at first.
    if let Some(file) = &arguments.out {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        if file.is_dir() || !parent.unwrap_or(std::path::Path::new(".")).is_dir() {
            let message = format!("cannot write {}: it is a directory, or in none", file.display());
            return Err(Error::usage(message, "name a file in a directory that exists"));
        }
    }
    let failed = |error: bundle::LogError| Error::usage(error.to_string(), error.hint());
    let mut log = Log::open(&directory).map_err(failed)?;
    let proofs = draft.proofs.len();
    let made = bundle::build(draft, &mut log, &key).map_err(failed)?;
    let text = format!("{}\n", to_indented(&made.into()));
    match &arguments.out {
        None => Output::new(environment).text(&text)?,
        Some(file) => {
            files::write_whole(file, text.as_bytes()).map_err(|error| {
                let hint = "check that the directory exists and has room, and may be written";
                Error::usage(format!("cannot write {}: {error}", file.display()), hint)
            })?;
            let (size, file) = (log.size(), file.display());
            tell(&format!("wrote {file}: {proofs} evaluations, leaf {} of the log", size - 1));
        }
    }
    Ok(Answer::Yes)
}

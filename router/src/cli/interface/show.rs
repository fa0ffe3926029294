//! `nexus-router interface show ID`.

use super::super::output::{Form, Output, tell};
use super::super::{Answer, Error};
use super::diff::{find, is_file};
use super::{Place, lock, tell_findings};
use crate::config::Environment;
use crate::interface::{Before, EXTENSION, Interface, Shelf, docs};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The adapter, for its newest revision in the lock; ID@VERSION for another revision; or a file.
    #[arg(value_name = "ID")]
    interface: String,
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, _) = arguments.place.open(environment)?;
    let named = arguments.interface.as_str();
    let unlocked = unlocked(&shelf, named)?;
    let found = match unlocked {
        Some(interface) => Some(interface.clone()),
        None => find(&shelf, named)?,
    };
    let Some(interface) = found else { return Ok(Answer::No) };
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&interface.document)?,
        Form::Human => output.text(&docs(&[&interface]))?,
    }
    match unlocked {
        Some(_) => tell(&format!("{named} is not locked: this is its file")),
        None => tell_difference(&shelf, named, &interface),
    }
    Ok(Answer::Yes)
}

/// Returns the contract in the file of an adapter that has no revision.
fn unlocked<'a>(shelf: &'a Shelf, named: &str) -> Result<Option<&'a Interface>, Error> {
    if is_file(named) || Before::of(lock(shelf)?, named).is_some() {
        return Ok(None);
    }
    let file = shelf.files.get(&format!("{named}{EXTENSION}"));
    Ok(file.and_then(|file| file.as_ref().ok()))
}

/// Tells that the file of an adapter is not the newest revision, which is shown.
fn tell_difference(shelf: &Shelf, named: &str, shown: &Interface) {
    let name = format!("{named}{EXTENSION}");
    match shelf.files.get(&name) {
        None => {}
        Some(Ok(file)) if file.digest == shown.digest => {}
        Some(Ok(file)) => tell(&format!(
            "{name} has {}, which is not the {} that is locked; nexus-router interface diff {named}",
            file.version, shown.version
        )),
        Some(Err(findings)) => {
            tell_findings(&name, findings);
            tell(&format!("{name} is not the {} that is locked", shown.version));
        }
    }
}

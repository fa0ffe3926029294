//! `nexus-router contract keygen`: makes a key to publish with, and the document that tells its public part.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::files;
use crate::json::{Object, to_indented};
use crate::key::SigningKey;
use crate::signal::document;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The file to make; only its owner can read it.
    file: PathBuf,
    /// Write the document of this publisher too, for those who verify.
    #[arg(long, value_name = "FILE", requires = "publisher_id")]
    document: Option<PathBuf>,
    /// Who publishes with the key.
    #[arg(long, value_name = "ID", requires = "document")]
    publisher_id: Option<String>,
    /// What the publisher calls the key [default: a name that follows from it].
    #[arg(long, value_name = "ID", requires = "document")]
    publisher_key_id: Option<String>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    if let Some(path) = arguments.document.as_ref().filter(|path| path.exists()) {
        let message = format!("{} is there already", path.display());
        return Err(Error::usage(message, "name another file: others may trust what it says"));
    }
    let key = SigningKey::create(&arguments.file)?.public();
    let key_id = arguments.publisher_key_id.clone().unwrap_or_else(|| key.key_id());
    if let (Some(path), Some(publisher)) = (&arguments.document, &arguments.publisher_id) {
        let text = to_indented(&document(publisher, &key_id, &key).into());
        files::write_whole(path, format!("{text}\n").as_bytes()).map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            Error::usage(message, "the key is made; write the document by hand, or delete the key")
        })?;
    }
    let mut report = Object::with_capacity(6);
    report.insert("ok", true);
    report.insert("key_id", key_id);
    report.insert("public_key_base64", key.to_base64());
    report.insert("public_key", key.to_string());
    report.insert("file", arguments.file.display().to_string());
    if let Some(path) = &arguments.document {
        report.insert("document", path.display().to_string());
    }
    Output::new(environment).line(&to_indented(&report.into()))?;
    Ok(Answer::Yes)
}

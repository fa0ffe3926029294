//! `nexus-router evidence …`: sealed executions, listed, shown, verified and exported offline.

mod begin;
mod export;
mod keys;
mod list;
mod proof;
mod show;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Answer, Error};
use crate::app::{App, Named};
use crate::config::{ConfigFile, Environment};
use crate::seal::{self, Trust};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the bundles of the cabinet: executions, rejections and verifications.
    List(list::Arguments),
    /// Show a bundle: its documents, its attestation, its place in the log.
    Show(show::Arguments),
    /// Verify bundles or whole cabinets, offline. Exits 0 if all are genuine, 1 if not, 2 if that cannot be told.
    Verify(verify::Arguments),
    /// Copy a bundle with everything that an auditor needs to verify it.
    Export(export::Arguments),
    /// Prove that the roles and the evidence hold, by executing them: make such a proof every week, and verify it.
    #[command(subcommand)]
    Proof(Box<proof::Verb>),
    /// Show and rotate the keys that seal.
    #[command(subcommand)]
    Keys(keys::Verb),
    /// Begin another log, when the one that the store knows is lost for good.
    Begin(begin::Arguments),
}

pub(super) fn run(verb: &Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List(arguments) => list::run(arguments, environment),
        Verb::Show(arguments) => show::run(arguments, environment),
        Verb::Verify(arguments) => verify::run(arguments, environment),
        Verb::Export(arguments) => export::run(arguments, environment),
        Verb::Proof(verb) => proof::run(verb, environment),
        Verb::Keys(verb) => keys::run(verb, environment),
        Verb::Begin(arguments) => begin::run(arguments, environment),
    }
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    #[default]
    #[value(alias = "human")]
    Text,
    /// For programs.
    Json,
}

/// Where the cabinet is.
#[derive(clap::Args)]
struct Place {
    /// The directory of all that is sealed [default: that of router.toml, or sealed beside the store].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The data directory [default: that of `NEXUS_ROUTER_DATA_DIR`, of router.toml, or
    /// ~/.local/state/nexus-router].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
}

impl Place {
    fn root(&self, environment: &Environment) -> Result<PathBuf, Error> {
        if let Some(root) = &self.root {
            return Ok(root.clone());
        }
        self.app(environment)?.sealed_dir().ok_or_else(|| {
            let hint = "name it with --root, or a data directory with --data-dir";
            Error::usage("it is not known where evidence is kept", hint)
        })
    }

    fn app(&self, environment: &Environment) -> Result<App, Error> {
        let config = ConfigFile::find(self.config_file.as_deref(), environment)?;
        let named = Named { data_dir: self.data_dir.clone(), ..Named::default() };
        Ok(App::new(environment, config, named))
    }
}

/// Finds a bundle: a directory as it is named, or as its path is below `evidence/` of the cabinet.
fn find(bundle: &Path, place: &Place, environment: &Environment) -> Result<PathBuf, Error> {
    if bundle.is_dir() {
        return Ok(bundle.to_owned());
    }
    let root = place.root(environment)?;
    let inside = root.join("evidence").join(bundle);
    let plain = bundle.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if plain && inside.is_dir() {
        return Ok(inside);
    }
    Err(Error::usage(
        format!("there is no bundle {} here or in {}", bundle.display(), root.display()),
        "nexus-router evidence list lists them; name a directory, or TASK/EXECUTION of the cabinet",
    ))
}

/// Reads the keys of a cabinet.
fn trust(root: &Path) -> Result<Trust, Error> {
    Trust::read(&root.join("keys").join("trust.json")).map_err(|error| failed(&error))
}

fn failed(error: &seal::Error) -> Error {
    Error::usage(error.to_string(), error.hint())
}

//! `nexus-router interface …`: the contracts of adapters' operations, and the lock that they are held to.

mod anchors;
mod approve;
mod diff;
mod docs;
mod freeze;
mod list;
mod show;
mod test;
mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::output::{Output, tell};
use super::{Answer, Error};
use crate::app::{App, Named};
use crate::config::{ConfigFile, Environment};
use crate::interface::{ContractTrust, Finding, Interface, Lock, Revision, Shelf};
use crate::json::{Object, Value};
use crate::key::SigningKey;
use crate::python_text::visible;

const FREEZE_HELP: &str = "\
Examples:
  nexus-router interface freeze interfaces/shop.interface.json
  nexus-router interface freeze --from libshop.so:create_adapter --examples calls.json --id shop
  nexus-router interface freeze --draft shop.interface.json
  nexus-router interface freeze --remove shop

--from writes a draft into drafts/, which nobody is held to: edit it, and freeze its file. --lock locks it as it is.
Contracts and lock are written together: after a crash there is all of it or nothing. 
A contract that breaks others is locked too, but holds only when its examples passed
(interface test) and an author and a reviewer signed it (interface approve).";

const VERIFY_HELP: &str = "\
Examples:
  nexus-router interface verify
  nexus-router interface verify --dir interfaces --format github
  nexus-router interface verify --require-anchors

Exits 0 if every contract is the one that is locked, 1 if not, and 2 if something cannot be read. A history that was made
anew, rolled back or cut is found where [contracts.anchors] of router.toml has its newest revision (interface anchors).";

const DIFF_HELP: &str = "\
Examples:
  nexus-router interface diff old.interface.json new.interface.json
  nexus-router interface diff shop@1.0.0 shop@1.1.0
  nexus-router interface diff qdrant-vector interfaces/qdrant-vector.interface.json
  nexus-router interface diff qdrant-vector

OLD and NEW are files, ID@VERSION for a revision of the lock, or ID for its newest revision. Without NEW, the newest
revision of ID is compared with the file of ID. Exits 1 if the version of NEW is too low for its changes.";

const TEST_HELP: &str = "\
Examples:
  nexus-router interface test shop --adapter libshop.so:create_adapter
  nexus-router interface test qdrant-vector --adapter MODULE:FUNCTION --adapter-config @qdrant.json

Makes the calls of all examples in the order of the contract, against an adapter whose service is in the state that they
need. An output may have more members than the example shows, if output_schema allows them. The calls of fault_examples
are not made. A contract of this program is tested like others; nothing is recorded for it.";

const ANCHORS_HELP: &str = "\
Example:
  nexus-router interface anchors

The digest of a history covers its newest revision and all before it. Where router.toml has it, a lock that was made anew,
rolled back or cut is found, and the adapters that keep the contract are not called. Put the table into router.toml,
and replace it after each freeze.";

const APPROVE_HELP: &str = "\
Examples:
  nexus-router interface keygen ada.pem
  nexus-router interface approve shop --as author --key ada.pem
  nexus-router interface approve shop --as reviewer --key bob.pem";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the contracts: those of this program, and those of the directory.
    List(list::Arguments),
    /// Show the newest revision of a contract, and tell if its file differs.
    Show(show::Arguments),
    /// Lock contracts as they are, or draft one from an adapter and examples.
    #[command(after_help = FREEZE_HELP)]
    Freeze(freeze::Arguments),
    /// Hold all contracts to the lock: the gate for continuous integration.
    #[command(after_help = VERIFY_HELP)]
    Verify(verify::Arguments),
    /// Print the anchors of all histories for router.toml.
    #[command(after_help = ANCHORS_HELP)]
    Anchors(anchors::Arguments),
    /// Tell what differs between two contracts, which version that needs, and which tools it breaks.
    #[command(after_help = DIFF_HELP)]
    Diff(diff::Arguments),
    /// Write the document for people: `ADAPTER_CONTRACTS.md`.
    Docs(docs::Arguments),
    /// Make the calls of a contract's examples, and record that they passed.
    #[command(after_help = TEST_HELP)]
    Test(test::Arguments),
    /// Sign the newest revision of a contract.
    #[command(after_help = APPROVE_HELP)]
    Approve(approve::Arguments),
    /// Make a key to approve with, and print its public part.
    Keygen(KeygenArguments),
}

#[derive(clap::Args)]
pub(super) struct KeygenArguments {
    /// The file to make; only its owner can read it.
    file: PathBuf,
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List(arguments) => list::run(&arguments, environment),
        Verb::Show(arguments) => show::run(&arguments, environment),
        Verb::Freeze(arguments) => freeze::run(&arguments, environment),
        Verb::Verify(arguments) => verify::run(&arguments, environment),
        Verb::Anchors(arguments) => anchors::run(&arguments, environment),
        Verb::Diff(arguments) => diff::run(&arguments, environment),
        Verb::Docs(arguments) => docs::run(&arguments, environment),
        Verb::Test(arguments) => test::run(&arguments, environment),
        Verb::Approve(arguments) => approve::run(&arguments, environment),
        Verb::Keygen(arguments) => {
            let key = SigningKey::create(&arguments.file)?;
            Output::new(environment).line(&key.public().to_string())?;
            Ok(Answer::Yes)
        }
    }
}

/// Where the contracts are.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The directory of contracts [default: that of router.toml, or interfaces in the data directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The data directory [default: that of `NEXUS_ROUTER_DATA_DIR`, of router.toml, or
    /// ~/.local/state/nexus-router].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
}

impl Place {
    /// Makes the app of a verb that calls no adapter.
    fn app(&self, environment: &Environment) -> Result<App, Error> {
        let config = ConfigFile::find(self.config_file.as_deref(), environment)?;
        let named = Named { data_dir: self.data_dir.clone(), ..Named::default() };
        Ok(App::new(environment, config, named))
    }

    fn directory(&self, app: &App) -> Result<PathBuf, Error> {
        Ok(self.dir.clone().map_or_else(|| app.interfaces_dir(), Ok)?)
    }

    /// Refuses a directory that somebody named and that is not there: it is a mistake, and not a directory without
    /// contracts.
    fn require(&self, directory: &Path, app: &App) -> Result<(), Error> {
        let is_named = self.dir.is_some() || app.config().contracts.interfaces.is_some();
        if is_named && !directory.is_dir() {
            let message = format!("{} is not a directory", directory.display());
            return Err(Error::usage(message, "correct --dir, or interfaces in [contracts]"));
        }
        Ok(())
    }

    /// Reads the contracts, and whom the operator trusts with them.
    fn open(&self, environment: &Environment) -> Result<(Shelf, ContractTrust), Error> {
        let app = self.app(environment)?;
        let directory = self.directory(&app)?;
        self.require(&directory, &app)?;
        Ok((Shelf::open(&directory)?, app.config().contracts.trust))
    }

    /// The same, for whoever changes them: nobody else does as long as what is returned is there.
    fn open_alone(&self, environment: &Environment) -> Result<(Shelf, ContractTrust, File), Error> {
        let app = self.app(environment)?;
        self.require(&self.directory(&app)?, &app)?;
        self.open_or_create_alone(environment)
    }

    /// The same, with a directory that is made if it is not there.
    fn open_or_create_alone(
        &self,
        environment: &Environment,
    ) -> Result<(Shelf, ContractTrust, File), Error> {
        let app = self.app(environment)?;
        let directory = self.directory(&app)?;
        let alone = Shelf::seize(&directory)?;
        for path in Shelf::repair(&directory)? {
            tell(&format!("finished what was interrupted: wrote {}", path.display()));
        }
        Ok((Shelf::open(&directory)?, app.config().contracts.trust, alone))
    }
}

/// Returns the lock of a shelf, or tells what is wrong with it.
fn lock(shelf: &Shelf) -> Result<&Lock, Error> {
    shelf.lock.as_ref().map_err(|findings| {
        tell_findings("interfaces.lock", findings);
        Error::usage("the lock cannot be used", "restore interfaces.lock from version control")
    })
}

/// Finds the newest revision of an adapter, or the one of `ID@VERSION`.
fn revision<'a>(lock: &'a mut Lock, named: &str) -> Option<&'a mut Revision> {
    let (id, version) = match named.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (named, None),
    };
    let found = lock.revisions.iter_mut().rfind(|revision| {
        revision.adapter_id == id && version.is_none_or(|it| revision.version.to_string() == it)
    });
    if found.is_none() {
        tell(&format!(
            "{named} has no revision in the lock; nexus-router interface freeze makes one"
        ));
    }
    found
}

/// Tells what is wrong with a file.
pub(super) fn tell_findings(file: &str, findings: &[Finding]) {
    for finding in findings {
        tell(&visible(&format!("{file}: {finding}")));
    }
}

/// Reads a contract from a file.
fn read(path: &Path) -> Result<Result<Interface, Vec<Finding>>, Error> {
    let bytes = crate::files::read_bounded(path, crate::interface::MAX_BYTES);
    let bytes =
        bytes.map_err(|source| crate::interface::Error { path: path.to_owned(), source })?;
    Ok(Interface::read(&bytes))
}

/// Returns the form of a finding for programs.
pub(super) fn finding_json(file: &str, finding: &Finding) -> Value {
    let mut object = Object::with_capacity(4);
    object.insert("file", file);
    object.insert("pointer", finding.pointer.as_str());
    object.insert("code", finding.code);
    object.insert("message", finding.message.as_str());
    object.into()
}

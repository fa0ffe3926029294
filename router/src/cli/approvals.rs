//! `nexus-router approvals`: what runs wait for, asked of a daemon, or of a store that no daemon has.

mod decide;
mod list;

use super::daemon::Daemon;
use super::options::RouterOptions;
use super::reach::Reach;
use super::{Answer, Error};
use crate::app::App;
use crate::config::Environment;
use crate::router;

/// The largest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;
/// Where a daemon is asked.
const PATH: &str = "/v1/approvals";

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// List the approvals that runs wait for, the newest first.
    List(list::Arguments),
    /// Let a call be made; its run goes on. Without a daemon it does so here: then the exit code is that of run.
    Approve(decide::Arguments),
    /// Refuse a call; its run goes on without it.
    Deny(decide::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List(arguments) => list::run(&arguments, environment),
        Verb::Approve(arguments) => decide::run(&arguments, router::Answer::Approve, environment),
        Verb::Deny(arguments) => decide::run(&arguments, router::Answer::Deny, environment),
    }
}

/// Which daemon is asked, or which store.
#[derive(clap::Args)]
struct Place {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    router: RouterOptions,
}

/// Who answers.
enum Door {
    Daemon(Box<Daemon>),
    /// No daemon: the store itself, and the adapters that are configured.
    Store(Box<App>),
}

impl Place {
    /// Finds who answers: the daemon that is named, or the store that is, or the daemon of the
    /// configuration if it is up, or else its store.
    fn door(&self, environment: &Environment) -> Result<Door, Error> {
        let store = || Ok(Door::Store(Box::new(self.router.app(environment)?)));
        if self.reach.url.is_none() && self.router.names_store() {
            return store();
        }
        let daemon = self.reach.daemon(self.router.config_file(), environment)?;
        if self.reach.url.is_some() || daemon.listens() {
            return Ok(Door::Daemon(Box::new(daemon)));
        }
        store()
    }
}

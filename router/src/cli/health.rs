//! `nexus-router health`: asks a daemon whether runs should be sent to it.

use std::path::PathBuf;
use std::time::Duration;

use super::daemon::Daemon;
use super::output::{Output, tell};
use super::{Answer, Error};
use crate::config::Environment;
use crate::json::Value;
use crate::python_text::visible;

/// What is asked for.
const PATH: &str = "/readyz";
/// The largest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;

const EXAMPLES: &str = "\
Examples:
  nexus-router health                                   the first listener of router.toml
  nexus-router health --url http://127.0.0.1:7433
  nexus-router health --url https://router.example.com:7433 --ca ca.pem

It sends no token, and exits 0 if the daemon is ready, 1 if it says that it is not, 2 if nothing answers.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE", conflicts_with = "url")]
    config_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Take any certificate. Nothing secret is sent, but anybody may have answered.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// How long to wait for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (url, config_file) = (arguments.url.as_deref(), arguments.config_file.as_deref());
    let daemon = Daemon {
        ca: arguments.ca.clone(),
        insecure: arguments.insecure,
        timeout: Duration::from_secs(arguments.timeout),
        ..Daemon::find(url, config_file, environment)?
    };
    let (status, body) = daemon.get(PATH, MAX_ANSWER)?;
    let base = &daemon.base;
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(visible);
    match (status, text("status"), text("code")) {
        (200, Some(word), _) if word == "ready" => {
            Output::new(environment).line(&format!("ready: {base}"))?;
            Ok(Answer::Yes)
        }
        (503, _, Some(code)) => {
            Output::new(environment).line(&format!("not ready: {base}"))?;
            tell(&format!("{code}: {}", text("detail").unwrap_or_default()));
            Ok(Answer::No)
        }
        _ => Err(daemon.stranger(PATH, status)),
    }
}

//! `nexus-router evidence verify`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::{Format, Place};
use crate::config::Environment;
use crate::evidence::verify::{Options, Report, Standing, Verdict, Verifier};
use crate::files;
use crate::json;
use crate::key::PublicKey;
use crate::python_text::visible;
use crate::seal::Trust;
use crate::tlog;

#[derive(clap::Args)]
#[command(after_help = "\
Exits 0 if everything is genuine, 1 if something is not, and 2 if that cannot be told: something cannot be read, no \
trusted keys are known, or there is more than the verifier takes upon itself.

Keys are taken from --trust, or --key and --log-key, or keys/trust.json of the cabinet that --root or the configuration \
names; never from what is verified, unless that is this very cabinet.

Examples:
  nexus-router evidence verify
  nexus-router evidence verify sealed/evidence/task-1/exec-1 --trust trust.json
  nexus-router evidence verify sealed --since checkpoint-of-last-week --format json")]
pub(in crate::cli) struct Arguments {
    /// Bundles, or cabinets as a whole [default: the cabinet].
    directories: Vec<PathBuf>,
    /// The keys that are trusted, with their ranges [default: keys/trust.json of the cabinet].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "log_key"])]
    trust: Option<PathBuf>,
    /// An attestation key that is trusted for every leaf, as ed25519:…; may be given more than once.
    #[arg(long, value_name = "KEY", requires = "log_key")]
    key: Vec<PublicKey>,
    /// A log key that is trusted for every size, as a vkey NAME+HASH+KEY; may be given more than once.
    #[arg(long, value_name = "VKEY", requires = "key")]
    log_key: Vec<tlog::Verifier>,
    /// An earlier checkpoint of the log: the log has to begin with what it says.
    #[arg(long, value_name = "FILE", conflicts_with = "hashes_only")]
    since: Option<PathBuf>,
    /// Check hashes, documents and roles alone: shows damage, not forgery.
    #[arg(long)]
    hashes_only: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

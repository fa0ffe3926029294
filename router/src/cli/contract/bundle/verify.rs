//! `nexus-router contract bundle verify`.

use std::path::{Path, PathBuf};

use super::super::super::output::{Output, tell};
use super::super::super::{Answer, Error};
use super::text;
use crate::config::Environment;
use crate::files;
use crate::json::{Limits, Value, parse, to_indented};
use crate::key::PublicKey;
use crate::python_text::visible;
use crate::signal::bundle::{self, LIMITS, Options};

/// A file with a public key is no larger.
const KEY: Limits = Limits { bytes: 64 * 1024, depth: 16, values: 1024 };

#[derive(clap::Args)]
#[command(
    version,
    after_help = "Exits 0 if the bundle verifies, 1 if not, 2 if it cannot be read.

Without a public key, only the integrity of the bundle is verified: anyone can have made it. Bundles of other programs may
have events after the anchored one, or no signed tree head. The report names them as anchored in part or not anchored, and
--strict refuses them.

Examples:
  nexus-router contract bundle verify bundle.json --public-key log.json --strict
  nexus-router contract bundle verify later.json --public-key log.json --earlier bundle.json"
)]
pub(in crate::cli) struct Arguments {
    /// The bundle, or - for standard input.
    file: PathBuf,
    /// Write the report as JSON.
    #[arg(long)]
    json: bool,
    /// Refuse a bundle whose tree head cannot be verified, or does not cover every event.
    #[arg(long)]
    strict: bool,
    /// Also hold the bundle to the profile of swarms.
    #[arg(long)]
    swarm_strict: bool,
    /// Fetch the public key of the log: this program has no network here, and says so.
    #[arg(long)]
    fetch_key: bool,
    /// The public key of the log: a JSON file with `public_key_base64`, or a file with an `ed25519:` key.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// A bundle with whose log that of this one has to begin.
    #[arg(long, value_name = "BUNDLE", requires = "public_key")]
    earlier: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    if arguments.fetch_key {
        return Err(Error::usage(
            "--fetch-key needs a network, and bundles are verified offline",
            "get the key of the log on a way that you trust, and name its file with --public-key",
        ));
    }
    let key = arguments.public_key.as_deref().map(read_key).transpose()?;
    let whole = read(&arguments.file)?;
    let earlier = arguments.earlier.as_deref().map(read).transpose()?;
    let report = bundle::verify(
        &whole,
        &Options {
            key: key.as_ref(),
            strict: arguments.strict,
            swarm: arguments.swarm_strict,
            earlier: earlier.as_ref(),
        },
    );
    let verified = report.verified;
    let uncovered = report.value.get("anchoring").and_then(|it| it.get("message")).cloned();
    if let Some(message) = uncovered.as_ref().and_then(Value::as_str)
        && verified
    {
        tell(&visible(&format!("warning: {message}; --strict refuses such bundles")));
    }
    let mut output = Output::new(environment);
    if arguments.json {
        output.line(&to_indented(&report.value.into()))?;
    } else {
        output.text(&text::render(&whole, &report.value))?;
    }
    Ok(if verified { Answer::Yes } else { Answer::No })
}

fn read(path: &Path) -> Result<Value, Error> {
    let shown = path.display();
    let bytes = files::read_named(path, LIMITS.bytes).map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!("file not found: {shown}"),
            _ => format!("cannot read {shown}: {error}"),
        };
        Error::usage(message, "check the path, and that this user may read it")
    })?;
    parse(&bytes, LIMITS).map_err(|error| {
        let hint = "a bundle is one strict JSON object: no name twice, no NaN, no lone surrogate";
        Error::usage(format!("{shown}: invalid JSON: {error}"), hint)
    })
}

/// Reads a public key.
fn read_key(path: &Path) -> Result<PublicKey, Error> {
    let failed = |why: String| {
        let message = format!("cannot load public key: {}: {why}", path.display());
        let hint = "name a JSON file with public_key_base64, or a file with the ed25519: key that contract keygen prints";
        Error::usage(message, hint)
    };
    let bytes = files::read_bounded(path, KEY.bytes).map_err(|error| failed(error.to_string()))?;
    if let Some(key) = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(key);
    }
    let value = parse(&bytes, KEY).map_err(|error| failed(error.to_string()))?;
    let Some(text) = value.get("public_key_base64").and_then(Value::as_str) else {
        return Err(failed("it has no public_key_base64".to_owned()));
    };
    format!("ed25519:{text}")
        .parse()
        .map_err(|_| failed("public_key_base64 is not the base64 of 32 bytes".to_owned()))
}

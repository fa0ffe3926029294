//! `nexus-router contract pin`: writes down which contract was reviewed, and what its manifest says of it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::fetch::FetchOptions;
use super::manifest::{Keys, tell_all};
use crate::clock::Clock;
use crate::config::Environment;
use crate::files;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::signal::manifest::LIMITS;
use crate::signal::pins::{PinFile, Refusal, Wanted, pin};
use crate::signal::{is_hash, is_id, is_semver};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The id of the contract.
    #[arg(long)]
    id: String,
    /// The version of the contract.
    #[arg(long)]
    version: String,
    /// The `contract_hash` that was reviewed.
    #[arg(long, value_name = "SHA256")]
    hash: String,
    /// The pin file.
    #[arg(long, value_name = "FILE", default_value = "pinned_adapters.json")]
    out: PathBuf,
    /// The manifest that lists the contract: a file, or with --fetch an https:// URL.
    #[arg(long, value_name = "FILE")]
    manifest: Option<String>,
    #[command(flatten)]
    fetch: FetchOptions,
    #[command(flatten)]
    keys: Keys,
    /// Pin a revoked contract, to look at it and for nothing else.
    #[arg(long)]
    allow_revoked_for_legacy_inspection: bool,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let usage = |message: &str, hint: &str| Err(Error::usage(message, hint));
    if !is_id(&arguments.id) {
        return usage("--id must be reverse-DNS style", "such as acme.eval_suite.v0");
    }
    if !is_semver(&arguments.version) {
        return usage("--version must be semver", "such as 1.2.0");
    }
    if !is_hash(&arguments.hash) {
        let hint = "nexus-router contract lint prints the contract_hash of a file";
        return usage("--hash must be 64 lowercase hex chars", hint);
    }
    let Some(trust) = arguments.keys.trust()? else { return Ok(Answer::No) };
    let manifest =
        match arguments.manifest.as_deref().map(|it| arguments.fetch.read(it)).transpose() {
            Ok(manifest) => manifest,
            Err(unread) => return unread.answer(),
        };
    let wanted = Wanted {
        id: &arguments.id,
        version: &arguments.version,
        contract_hash: &arguments.hash,
        allow_revoked: arguments.allow_revoked_for_legacy_inspection,
    };
    let pinned = match pin(wanted, manifest.as_ref(), &trust, Clock::System.now()) {
        Ok(pinned) => pinned,
        Err(Refusal::Revoked(told)) => {
            tell(&to_indented(&told.into()));
            return Ok(Answer::Revoked);
        }
        Err(Refusal::Wrong(wrong)) => {
            tell_all(&format!("{}@{}", arguments.id, arguments.version), &wrong);
            tell("nothing was pinned");
            return Ok(Answer::No);
        }
    };
    let unwritten = |error: io::Error| {
        let message = format!("cannot write {}: {error}", arguments.out.display());
        Error::usage(
            message,
            "check that its directory is there, and that this user may write there",
        )
    };
    // Held until the end: of two who pin at once, neither must lose what the other pinned.
    let _alone = seize(&arguments.out).map_err(unwritten)?;
    let mut file = match read(&arguments.out)? {
        Ok(file) => file,
        Err(wrong) => {
            tell_all(&arguments.out.display().to_string(), &wrong);
            tell("nothing was pinned: mend the pin file, or name another one with --out");
            return Ok(Answer::No);
        }
    };
    file.put(pinned.pin);
    files::write_whole(&arguments.out, file.to_text().as_bytes()).map_err(unwritten)?;
    if let Some(notice) = pinned.notice {
        tell(&visible(&notice));
    }
    let mut report = Object::with_capacity(3);
    report.insert("ok", true);
    report.insert("pinned", file.pins().iter().cloned().map(Value::from).collect::<Vec<_>>());
    report.insert("out", arguments.out.display().to_string());
    Output::new(environment).line(&to_indented(&report.into()))?;
    Ok(Answer::Yes)
}

/// Holds the directory of a file, so that nothing is left behind beside it.
fn seize(path: &Path) -> io::Result<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new(".")))?;
    directory.lock()?;
    Ok(directory)
}

/// Reads the pin file; there need not be one.
fn read(path: &Path) -> Result<Result<PinFile, Vec<String>>, Error> {
    match files::read_bounded(path, LIMITS.bytes) {
        Ok(bytes) => Ok(PinFile::read(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(PinFile::default())),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            Err(Error::usage(message, "check that it is a file that this user may read"))
        }
    }
}

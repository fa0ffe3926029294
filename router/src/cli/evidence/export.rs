//! `nexus-router evidence export`.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::super::output::Output;
use super::super::{Answer, Error};
use super::Place;
use crate::config::Environment;
use crate::evidence::verify::{Options, Standing, Verifier, copy};
use crate::files;
use crate::python_text::visible;
use crate::seal::Trust;

/// The verifier that needs nothing of this program.
const VERIFY_SH: &str = include_str!("../../../../templates/verify.sh");

#[derive(clap::Args)]
#[command(after_help = "\
What is written: bundle/ with the files as they are, keys/ with the public keys and trust.json, and verify.sh, which needs \
sh, sha256sum, jq and openssl. Whoever gets it should have the keys from elsewhere too: keys that come with what they \
vouch for show damage, and no forgery.

Examples:
  nexus-router evidence export task-1/exec-1 --to audit
  sh audit/verify.sh audit/bundle")]
pub(in crate::cli) struct Arguments {
    /// The bundle: a directory, or TASK/EXECUTION of the cabinet.
    bundle: PathBuf,
    /// The directory that is made for it.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Export it although it is not genuine.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let trust = super::trust(&arguments.place.root(environment)?)?;
    let bundle = super::find(&arguments.bundle, &arguments.place, environment)?;
    let mut verifier = Verifier::new(Some(std::sync::Arc::new(trust.clone())), Options::default());
    let verdict = verifier.bundle(&bundle);
    let mut output = Output::new(environment);
    if verdict.standing() != Standing::Genuine && !arguments.force {
        output.text(&(verdict.to_lines().join("\n") + "\n"))?;
        return Err(Error::usage(
            format!("{} is not exported", bundle.display()),
            "it is not known to be genuine; --force exports it as it is",
        ));
    }
    let to = &arguments.to;
    let failed = |path: &Path| {
        let shown = path.display().to_string();
        move |error: std::io::Error| {
            Error::usage(
                format!("cannot write {shown}: {error}"),
                "name a directory that is not there yet",
            )
        }
    };
    // Whom else to show it is the operator's to say.
    std::fs::DirBuilder::new().mode(0o700).create(to).map_err(failed(to))?;
    copy(&bundle, &to.join("bundle"), Options::default().limits)
        .map_err(failed(&to.join("bundle")))?;
    let keys = to.join("keys");
    std::fs::create_dir(&keys).map_err(failed(&keys))?;
    let write = |name: &str, text: &str| {
        let file = to.join(name);
        files::write_whole(&file, text.as_bytes()).map_err(failed(&file))
    };
    for (name, text) in public(&trust) {
        write(&format!("keys/{name}"), &text)?;
    }
    write("verify.sh", VERIFY_SH)?;
    let shown = visible(&to.display().to_string());
    output.line(&format!("{shown}: verify it with sh {shown}/verify.sh {shown}/bundle"))?;
    Ok(Answer::Yes)
}

/// Returns the files of the public keys.
fn public(trust: &Trust) -> Vec<(String, String)> {
    let named = |name: &str, number: usize| match number {
        0 => format!("{name}.pub.pem"),
        number => format!("{name}-{}.pub.pem", number + 1),
    };
    let attestation = trust.attestation_keys().iter().map(|key| key.key.to_pem()).enumerate();
    let log = trust.log_keys().iter().map(|key| key.verifier.key().to_pem()).enumerate();
    let mut files = vec![("trust.json".to_owned(), trust.to_json())];
    files.extend(attestation.map(|(number, pem)| (named("attestation", number), pem)));
    files.extend(log.map(|(number, pem)| (named("log", number), pem)));
    files
}

//! `nexus-router adapter new KIND`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::template::{self, SdkSource};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The kind of the adapter, such as weather; the crate becomes nexus-router-adapter-KIND.
    kind: String,
    /// The SDK of a checkout [default: the checkout that this program was built in, if any].
    #[arg(long, value_name = "DIR")]
    sdk_path: Option<PathBuf>,
    /// The directory in which the crate is created.
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let found = environment.executable.as_deref().and_then(template::checkout_sdk);
    let sdk = match arguments.sdk_path.clone().or(found) {
        Some(path) => SdkSource::Path(path),
        None => SdkSource::Version(env!("CARGO_PKG_VERSION").to_owned()),
    };
    let created = template::create(&arguments.kind, &arguments.output, &sdk)?;
    let mut output = Output::new(environment);
    output.line(&format!("created {} in {}", created.package, created.directory.display()))?;
    output.line("")?;
    for command in &created.next {
        output.line(&format!("  {command}"))?;
    }
    Ok(Answer::Yes)
}

//! `nexus-router contract manifest build`.

use super::super::super::{Answer, Error};
use crate::config::Environment;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {}

pub(super) fn run(_: &Arguments, _: &Environment) -> Result<Answer, Error> {
    Err(Error::usage("not there yet", ""))
}

//! Stands in until the broker is merged.
use std::io;
use std::os::fd::OwnedFd;

use crate::grant::Endpoint;

pub(crate) struct Broker;

pub(crate) fn attend(_: OwnedFd, _: Vec<Endpoint>, _: &str) -> io::Result<Broker> {
    Err(io::ErrorKind::Unsupported.into())
}

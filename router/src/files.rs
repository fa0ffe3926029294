//! Files that the operator names, opened without waiting for whoever is at the other end.

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading. A pipe that nobody writes to must not be waited for, and a device that
/// never ends is no file.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    Ok(file)
}

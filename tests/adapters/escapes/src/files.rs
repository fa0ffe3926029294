//! Attempts on files: reading, writing, and changing what the system says of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};

use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::{Attempt, c_text, number, text};

/// The number of a system call that libc does not name on every machine.
const FCHMODAT2: libc::c_long = 452;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("read", |args| Ok(fs::read_to_string(text(args, "path")?)?.into())),
    ("list", |args| {
        let names = fs::read_dir(text(args, "path")?)?;
        Ok(names.flatten().map(|entry| entry.file_name().display().to_string()).collect())
    }),
    ("create", |args| opened(args, OpenOptions::new().write(true).create_new(true))),
    ("open_to_write", |args| opened(args, OpenOptions::new().write(true))),
    ("open_to_truncate", |args| {
        opened(args, OpenOptions::new().read(true).custom_flags(libc::O_TRUNC))
    }),
    ("nameless", |args| opened(args, OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE))),
    ("write", |args| done(fs::write(text(args, "path")?, text(args, "text")?))),
    ("truncate", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::truncate(path.as_ptr(), 1))
    }),
    ("rename", |args| done(fs::rename(text(args, "path")?, text(args, "to")?))),
    ("link", |args| done(fs::hard_link(text(args, "path")?, text(args, "to")?))),
    ("symlink", |args| done(symlink(text(args, "to")?, text(args, "path")?))),
    ("remove", |args| done(fs::remove_file(text(args, "path")?))),
    ("make_directory", |args| done(fs::create_dir(text(args, "path")?))),
    ("make_pipe", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::mkfifo(path.as_ptr(), 0o600))
    }),
    ("chmod", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::chmod(path.as_ptr(), 0o640))
    }),
    ("fchmod", |args| {
        let file = File::open(text(args, "path")?)?;
        attempt!(libc::fchmod(file.as_raw_fd(), 0o640))
    }),
    ("fchmodat2", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(FCHMODAT2, libc::AT_FDCWD, path.as_ptr(), 0o640, 0))
    }),
    ("chown", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::chown(path.as_ptr(), libc::uid_t::MAX, libc::gid_t::MAX))
    }),
    ("utime", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::utimes(path.as_ptr(), std::ptr::null()))
    }),
    ("set_attribute", |args| {
        let path = c_text(args, "path")?;
        let value = c"x";
        attempt!(libc::setxattr(path.as_ptr(), c"user.x".as_ptr(), value.as_ptr().cast(), 1, 0))
    }),
    ("write_descriptor", |args| {
        let descriptor = number(args, "descriptor")?;
        // As data, what else the process has open.
        let open = fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default();
        drop(attempt!(
            i32::try_from(libc::write(descriptor, c"x".as_ptr().cast(), 1)).unwrap_or(-1)
        )?);
        Ok(json!(open))
    }),
];

fn done(result: io::Result<()>) -> io::Result<Value> {
    result.map(|()| Value::Null)
}

/// Opens a file, and writes to it if that is what it was opened for.
fn opened(args: &Object, options: &OpenOptions) -> io::Result<Value> {
    let mut file = options.open(text(args, "path")?)?;
    match file.write_all(b"x") {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(Value::Null),
        result => done(result),
    }
}

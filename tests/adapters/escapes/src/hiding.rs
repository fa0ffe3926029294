//! Attempts to hide processes and files from the router, so that they outlive an execution or are not counted.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use nexus_router_sdk::Object;
use serde_json::Value;

use crate::{Attempt, checked, text};

/// A name that is not text.
const RAW_NAME: &[u8] = b"\xff\0";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("outlive_by_name", |args| leave_locked(args, hide_name)),
    ("outlive_by_first_thread", |args| leave_locked(args, end_first_thread)),
    ("multiply_by_name", |_| {
        set_raw_name();
        let processes = (0..64).map(|_| in_other_process(sleep_for_ever));
        processes.collect::<io::Result<Vec<()>>>().map(|all| all.len().into())
    }),
    ("hold_memory_files", |args| hold(args, memory_file)),
    ("hold_mapped_files", |args| hold(args, mapped_file)),
    ("hold_mapped_pages", |args| hold(args, mapped_page)),
    ("hold_mapped_raw_names", |args| hold(args, mapped_raw_name)),
];

/// Leaves a process that has the file `path` locked, and returns when the process is hidden. The process calls `hide`
/// with the descriptor to which it writes a byte then.
fn leave_locked(args: &Object, hide: fn(i32)) -> io::Result<Value> {
    let file = File::create(text(args, "path")?)?;
    drop(attempt!(libc::flock(file.as_raw_fd(), libc::LOCK_EX))?);
    let (mut hidden, told) = io::pipe()?;
    in_other_process(|| hide(told.as_raw_fd()))?;
    drop(told);
    hidden.read_exact(&mut [0])?;
    Ok(Value::Null)
}

fn hide_name(told: i32) {
    set_raw_name();
    tell(told);
    sleep_for_ever();
}

/// Ends the first thread while another one lives: the state of the process is that of a zombie.
fn end_first_thread(told: i32) {
    /// The kernel writes 0 here when the thread ends.
    static FIRST_THREAD: AtomicI32 = AtomicI32::new(1);
    drop(std::thread::spawn(move || {
        while FIRST_THREAD.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        tell(told);
        sleep_for_ever();
    }));
    drop(attempt!(libc::syscall(libc::SYS_set_tid_address, FIRST_THREAD.as_ptr())));
    drop(attempt!(libc::syscall(libc::SYS_exit, 0)));
}

fn set_raw_name() {
    drop(attempt!(libc::prctl(libc::PR_SET_NAME, RAW_NAME.as_ptr())));
}

fn tell(descriptor: i32) {
    drop(attempt!(i32::try_from(libc::write(descriptor, c"x".as_ptr().cast(), 1)).unwrap_or(-1)));
}

fn sleep_for_ever() {
    loop {
        std::thread::park();
    }
}

/// Starts another process, which does something and ends.
fn in_other_process(work: impl FnOnce()) -> io::Result<()> {
    // SAFETY: this process has no threads that hold locks which `work` needs.
    match unsafe { libc::fork() } {
        0 => {
            work();
            // SAFETY: the process ends at once, by a function that is safe in any state.
            unsafe { libc::_exit(0) }
        }
        child => checked(child.into()).map(drop),
    }
}

/// Makes eight files of four mebibytes, and waits for the end.
fn hold(args: &Object, make: fn(&Object) -> io::Result<Option<OwnedFd>>) -> io::Result<Value> {
    let _held: Vec<Option<OwnedFd>> = (0..8).map(|_| make(args)).collect::<io::Result<_>>()?;
    loop {
        std::thread::park();
    }
}

/// Makes a file in memory.
fn memory_file(_: &Object) -> io::Result<Option<OwnedFd>> {
    const NOT_RUNNABLE: u32 = 8;
    let made = attempt!(libc::memfd_create(c"held".as_ptr(), NOT_RUNNABLE))?;
    let made = made.as_i64().and_then(|number| i32::try_from(number).ok());
    let made = made.ok_or_else(|| io::Error::other("no descriptor"))?;
    // SAFETY: the kernel made this descriptor just now.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(made) });
    io::Write::write_all(&mut file, &vec![1; HELD])?;
    Ok(Some(file.into()))
}

fn mapped_file(args: &Object) -> io::Result<Option<OwnedFd>> {
    map_file(Path::new(text(args, "path")?), HELD)
}

fn mapped_page(args: &Object) -> io::Result<Option<OwnedFd>> {
    map_file(Path::new(text(args, "path")?), 4096)
}

fn mapped_raw_name(args: &Object) -> io::Result<Option<OwnedFd>> {
    map_file(&Path::new(text(args, "path")?).with_file_name(OsStr::from_bytes(b"\xff")), HELD)
}

/// Makes a file that is mapped up to a length, and has neither a name nor a descriptor.
fn map_file(path: &Path, length: usize) -> io::Result<Option<OwnedFd>> {
    fs::write(path, vec![1; HELD])?;
    let file = File::open(path)?;
    fs::remove_file(path)?;
    let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
    let (nowhere, number) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: the kernel chooses the place, and nobody reads it.
    let mapped = unsafe { libc::mmap(nowhere, length, read, shared, number, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(None) }
}

const HELD: usize = 4 << 20;

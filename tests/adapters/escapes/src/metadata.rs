//! Attempts on modes, owners, times and attributes, one per system call, and on set-id bits of new files.

use std::ffi::{CString, c_long};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::{Attempt, c_text, text};

// System calls that libc does not name on every machine. From 424 on, all machines share the numbers.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;

const MODE: libc::mode_t = 0o640;
const SET_ID: libc::mode_t = 0o6755;
const HERE: i32 = libc::AT_FDCWD;

/// Two times: 1 and 2 seconds, without fractions.
const TIMES: [i64; 4] = [1, 0, 2, 0];

pub(crate) const ATTEMPTS: &[Attempt] = &[
    #[cfg(target_arch = "x86_64")]
    ("raw_chmod", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_chmod, path.as_ptr(), MODE))
    }),
    ("raw_fchmod", |args| {
        let file = open(args)?;
        attempt!(libc::syscall(libc::SYS_fchmod, file.as_raw_fd(), MODE))
    }),
    ("raw_fchmodat", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_fchmodat, HERE, path.as_ptr(), MODE))
    }),
    ("raw_fchmodat_below", |args| {
        let (directory, name) = split(args)?;
        attempt!(libc::syscall(libc::SYS_fchmodat, directory.as_raw_fd(), name.as_ptr(), MODE))
    }),
    ("raw_fchmodat_relative", |args| {
        let path = c_text(args, "path")?;
        // From the working directory up to the root, and down again.
        let up = CString::new([b"../".repeat(64).as_slice(), path.as_bytes()].concat())?;
        attempt!(libc::syscall(libc::SYS_fchmodat, HERE, up.as_ptr(), MODE))
    }),
    ("raw_fchmodat_of_descriptor", |args| {
        let file = open(args)?;
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        attempt!(libc::syscall(libc::SYS_fchmodat, HERE, path.as_ptr(), MODE))
    }),
    ("raw_fchmodat2", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(FCHMODAT2, HERE, path.as_ptr(), MODE, libc::AT_SYMLINK_NOFOLLOW))
    }),
    ("raw_fchmodat2_empty", |args| {
        let file = open(args)?;
        let empty = c"".as_ptr();
        attempt!(libc::syscall(FCHMODAT2, file.as_raw_fd(), empty, MODE, libc::AT_EMPTY_PATH))
    }),
    #[cfg(target_arch = "x86_64")]
    ("raw_utime", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_utime, path.as_ptr(), TIMES.as_ptr()))
    }),
    #[cfg(target_arch = "x86_64")]
    ("raw_utimes", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_utimes, path.as_ptr(), TIMES.as_ptr()))
    }),
    #[cfg(target_arch = "x86_64")]
    ("raw_futimesat", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_futimesat, HERE, path.as_ptr(), TIMES.as_ptr()))
    }),
    ("raw_utimensat", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_utimensat, HERE, path.as_ptr(), TIMES.as_ptr(), 0))
    }),
    ("raw_utimensat_link", |args| {
        let (path, flag) = (c_text(args, "path")?, libc::AT_SYMLINK_NOFOLLOW);
        attempt!(libc::syscall(libc::SYS_utimensat, HERE, path.as_ptr(), TIMES.as_ptr(), flag))
    }),
    ("raw_futimens", |args| {
        let file = open(args)?;
        let (call, nothing) = (libc::SYS_utimensat, std::ptr::null::<u8>());
        attempt!(libc::syscall(call, file.as_raw_fd(), nothing, TIMES.as_ptr(), 0))
    }),
    ("raw_touch", |args| {
        let path = c_text(args, "path")?;
        let now = std::ptr::null::<i64>();
        attempt!(libc::syscall(libc::SYS_utimensat, HERE, path.as_ptr(), now, 0))
    }),
    #[cfg(target_arch = "x86_64")]
    ("raw_chown", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_chown, path.as_ptr(), 12_345, 12_345))
    }),
    #[cfg(target_arch = "x86_64")]
    ("raw_lchown", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_lchown, path.as_ptr(), -1, 12_345))
    }),
    ("raw_fchown", |args| {
        let file = open(args)?;
        attempt!(libc::syscall(libc::SYS_fchown, file.as_raw_fd(), 12_345, -1))
    }),
    ("raw_fchownat", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_fchownat, HERE, path.as_ptr(), 12_345, 12_345, 0))
    }),
    ("raw_fchownat_same", |args| {
        let path = c_text(args, "path")?;
        // SAFETY: it only returns a number.
        let user = unsafe { libc::geteuid() };
        // SAFETY: it only returns a number.
        let group = unsafe { libc::getegid() };
        attempt!(libc::syscall(libc::SYS_fchownat, HERE, path.as_ptr(), user, group, 0))
    }),
    ("raw_setxattr", |args| set_attribute(args, libc::SYS_setxattr)),
    ("raw_lsetxattr", |args| set_attribute(args, libc::SYS_lsetxattr)),
    ("raw_fsetxattr", |args| {
        let file = open(args)?;
        let (name, value) = (c"user.x".as_ptr(), c"x".as_ptr());
        attempt!(libc::syscall(libc::SYS_fsetxattr, file.as_raw_fd(), name, value, 1, 0))
    }),
    ("raw_setxattrat", |args| {
        let path = c_text(args, "path")?;
        let name = c"user.x".as_ptr();
        attempt!(libc::syscall(SETXATTRAT, HERE, path.as_ptr(), 0, name, [0_u64; 2].as_ptr(), 16))
    }),
    ("raw_removexattr", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_removexattr, path.as_ptr(), c"user.x".as_ptr()))
    }),
    ("raw_lremovexattr", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_lremovexattr, path.as_ptr(), c"user.x".as_ptr()))
    }),
    ("raw_fremovexattr", |args| {
        let file = open(args)?;
        attempt!(libc::syscall(libc::SYS_fremovexattr, file.as_raw_fd(), c"user.x".as_ptr()))
    }),
    ("raw_removexattrat", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(REMOVEXATTRAT, HERE, path.as_ptr(), 0, c"user.x".as_ptr()))
    }),
    ("raw_file_setattr", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(FILE_SETATTR, HERE, path.as_ptr(), [0_u64; 3].as_ptr(), 24, 0))
    }),
    #[cfg(target_arch = "x86_64")]
    ("set_id_open", |args| {
        let path = c_text(args, "path")?;
        made(attempt!(libc::syscall(libc::SYS_open, path.as_ptr(), CREATE, SET_ID)))
    }),
    ("set_id_openat", |args| {
        let path = c_text(args, "path")?;
        made(attempt!(libc::syscall(libc::SYS_openat, HERE, path.as_ptr(), CREATE, SET_ID)))
    }),
    ("set_id_nameless", |args| {
        let (directory, _) = split(args)?;
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        let (call, here) = (libc::SYS_openat, c".".as_ptr());
        made(attempt!(libc::syscall(call, directory.as_raw_fd(), here, flags, SET_ID)))
    }),
    ("set_id_openat2", |args| {
        let path = c_text(args, "path")?;
        let how = [u64::from(CREATE.cast_unsigned()), u64::from(SET_ID), 0];
        made(attempt!(libc::syscall(libc::SYS_openat2, HERE, path.as_ptr(), how.as_ptr(), 24)))
    }),
    #[cfg(target_arch = "x86_64")]
    ("set_id_creat", |args| {
        let path = c_text(args, "path")?;
        made(attempt!(libc::syscall(libc::SYS_creat, path.as_ptr(), SET_ID)))
    }),
    #[cfg(target_arch = "x86_64")]
    ("set_id_mknod", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_mknod, path.as_ptr(), libc::S_IFREG | SET_ID, 0))
    }),
    ("set_id_mknodat", |args| {
        let path = c_text(args, "path")?;
        let mode = libc::S_IFREG | SET_ID;
        attempt!(libc::syscall(libc::SYS_mknodat, HERE, path.as_ptr(), mode, 0))
    }),
    ("set_id_chmod", |args| {
        let path = c_text(args, "path")?;
        File::create(text(args, "path")?)?;
        attempt!(libc::syscall(libc::SYS_fchmodat, HERE, path.as_ptr(), libc::S_ISUID | 0o755))
    }),
    // The kernel ignores the bits.
    ("set_id_mkdir", |args| {
        let path = c_text(args, "path")?;
        attempt!(libc::syscall(libc::SYS_mkdirat, HERE, path.as_ptr(), SET_ID))
    }),
    // Without a flag that creates, the mode means nothing.
    ("set_id_without_create", |args| {
        let path = c_text(args, "path")?;
        made(attempt!(libc::syscall(libc::SYS_openat, HERE, path.as_ptr(), libc::O_RDONLY, SET_ID)))
    }),
    ("race_memory", race_memory),
    ("race_links", race_links),
];

const CREATE: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;

/// Opens a file, at least so that it can be named by a descriptor.
fn open(args: &Object) -> io::Result<File> {
    let path = text(args, "path")?;
    let named = || OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    File::open(path).or_else(|_| named())
}

/// Opens the directory of a file, and returns the name in it.
fn split(args: &Object) -> io::Result<(File, CString)> {
    let (directory, name) =
        text(args, "path")?.rsplit_once('/').ok_or_else(|| io::Error::other("no directory"))?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(directory)?;
    Ok((file, CString::new(name)?))
}

fn set_attribute(args: &Object, call: c_long) -> io::Result<Value> {
    let path = c_text(args, "path")?;
    attempt!(libc::syscall(call, path.as_ptr(), c"user.x".as_ptr(), c"x".as_ptr(), 1, 0))
}

/// Closes a file that was made.
fn made(result: io::Result<Value>) -> io::Result<Value> {
    let number = result?.as_i64().and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| io::Error::other("no descriptor"))?;
    // SAFETY: the kernel made this descriptor just now.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(Value::Null)
}

/// Changes modes until both results were seen, and often enough.
fn change_until_both(path: *const u8) -> io::Result<Value> {
    let (mut changed, mut refused) = (0_u64, 0_u64);
    while changed + refused < 5000 || changed == 0 || refused == 0 {
        let mode = if changed % 2 == 0 { 0o600 } else { 0o666 };
        match attempt!(libc::syscall(libc::SYS_fchmodat, HERE, path, mode)) {
            Ok(_) => changed += 1,
            Err(_) => refused += 1,
        }
    }
    Ok(json!([changed, refused]))
}

/// Changes the mode of `path` while a thread turns the path into `to` and back, in place. Both have the same length.
fn race_memory(args: &Object) -> io::Result<Value> {
    let (inside, outside) = (c_text(args, "path")?, c_text(args, "to")?);
    let bytes = inside.as_bytes_with_nul();
    let memory: Arc<Vec<AtomicU8>> =
        Arc::new(bytes.iter().map(|byte| AtomicU8::new(*byte)).collect());
    let over = Arc::new(AtomicBool::new(false));
    let (theirs, told) = (Arc::clone(&memory), Arc::clone(&over));
    let racer = std::thread::spawn(move || {
        let paths = [outside.into_bytes_with_nul(), inside.into_bytes_with_nul()];
        while !told.load(Ordering::Relaxed) {
            for path in &paths {
                for (place, byte) in theirs.iter().zip(path) {
                    place.store(*byte, Ordering::Relaxed);
                }
            }
        }
    });
    let result = change_until_both(memory.as_ptr().cast());
    over.store(true, Ordering::Relaxed);
    drop(racer.join());
    result
}

/// Changes the mode of `path/place/file` while a thread exchanges the directory `place` and a link to `to`.
fn race_links(args: &Object) -> io::Result<Value> {
    let directory = std::path::PathBuf::from(text(args, "path")?);
    let (place, link) = (directory.join("place"), directory.join("link"));
    fs::create_dir(&place)?;
    fs::write(place.join("file"), "x")?;
    symlink(text(args, "to")?, &link)?;
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let names = [&place, &link].map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
    let [from, to] = names.map(Result::unwrap_or_default);
    let racer = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            let (call, from, to) = (libc::SYS_renameat2, from.as_ptr(), to.as_ptr());
            drop(attempt!(libc::syscall(call, HERE, from, HERE, to, libc::RENAME_EXCHANGE)));
        }
    });
    let file = CString::new(place.join("file").as_os_str().as_encoded_bytes())?;
    let result = change_until_both(file.as_ptr().cast());
    over.store(true, Ordering::Relaxed);
    drop(racer.join());
    result
}

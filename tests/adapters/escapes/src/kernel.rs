//! Attempts on the kernel: its side doors, devices, and other numbers for its calls.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;

use crate::{Attempt, text};

/// The bit that tells the second set of numbers of x86-64 from the first.
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 0x4000_0000;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("io_uring", |_| {
        let mut parameters = [0_u64; 32];
        attempt!(libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()))
    }),
    ("key", |_| {
        const KEYCTL_GET_KEYRING_ID: i32 = 0;
        const KEY_SPEC_SESSION_KEYRING: i32 = -3;
        let (number, operation) = (libc::SYS_keyctl, KEYCTL_GET_KEYRING_ID);
        attempt!(libc::syscall(number, operation, KEY_SPEC_SESSION_KEYRING, 0))
    }),
    ("bpf", |_| attempt!(libc::syscall(libc::SYS_bpf, 0, 0, 0))),
    #[cfg(target_arch = "x86_64")]
    ("inotify_init", |_| attempt!(libc::syscall(libc::SYS_inotify_init))),
    ("inotify_init1", |_| attempt!(libc::inotify_init1(libc::IN_CLOEXEC))),
    ("inotify_watch", |_| {
        // A watch that another process opened would do as well: the call itself is denied.
        attempt!(libc::inotify_add_watch(-1, c"/etc".as_ptr(), libc::IN_ALL_EVENTS))
    }),
    ("fanotify_init", |_| attempt!(libc::fanotify_init(libc::FAN_REPORT_FID, 0))),
    ("fanotify_mark", |_| {
        let (add, opened) = (libc::FAN_MARK_ADD, libc::FAN_OPEN);
        attempt!(libc::fanotify_mark(-1, add, opened, libc::AT_FDCWD, c"/etc".as_ptr()))
    }),
    ("userfault", |_| attempt!(libc::syscall(libc::SYS_userfaultfd, 1))),
    ("performance", |_| attempt!(libc::syscall(libc::SYS_perf_event_open, 0, 0, -1, -1, 0))),
    ("mount", |_| {
        let (nothing, tmpfs) = (std::ptr::null(), c"tmpfs".as_ptr());
        attempt!(libc::mount(tmpfs, c"/mnt".as_ptr(), tmpfs, 0, nothing))
    }),
    ("open_file_system", |_| attempt!(libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0))),
    ("open_tree", |_| {
        attempt!(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 0))
    }),
    ("personality", |_| attempt!(libc::personality(0x0004_0000))),
    ("own_memory_file", |_| {
        OpenOptions::new().write(true).open("/proc/self/mem").map(|_| serde_json::Value::Null)
    }),
    ("type_into_terminal", |_| attempt!(libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()))),
    ("type_into_device", |args| {
        let device = OpenOptions::new().read(true).open(text(args, "path")?)?;
        attempt!(libc::ioctl(device.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()))
    }),
    ("lease", |args| {
        let file = OpenOptions::new().read(true).open(text(args, "path")?)?;
        attempt!(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK))
    }),
    #[cfg(target_arch = "x86_64")]
    ("other_number_of_getpid", |_| attempt!(libc::syscall(X32 + libc::SYS_getpid))),
    #[cfg(target_arch = "x86_64")]
    ("other_number_of_socket", |_| {
        attempt!(libc::syscall(X32 + libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0))
    }),
    ("raise_memory_limit", |_| {
        let most = libc::RLIM_INFINITY;
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        attempt!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit))
    }),
];

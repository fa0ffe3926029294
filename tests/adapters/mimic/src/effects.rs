//! What a library must not do while it is loaded, and what it may: one attempt each, whose failure is ignored.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a comment on each would only say the same again"
)]

use std::ffi::{CString, c_int};
use std::fs::{self, File, OpenOptions};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

/// Makes an attempt. The library goes on after a failure.
pub(crate) fn attempt(effect: &str, subject: &str) {
    drop(make(effect, subject));
}

fn make(effect: &str, subject: &str) -> std::io::Result<()> {
    let other = format!("{subject}.other");
    match effect {
        "write" => fs::write(subject, "overwritten"),
        "create" => fs::write(other, "new"),
        "append" => OpenOptions::new().append(true).open(subject).map(drop),
        "remove" => fs::remove_file(subject),
        "rename" => fs::rename(subject, other),
        "directory" => fs::create_dir(other),
        "link" => fs::hard_link(subject, other),
        "symlink" => symlink(subject, other),
        "truncate" => check(with_path(subject, |path| {
            // SAFETY: the path is a C string that lives through the call.
            unsafe { libc::truncate(path.as_ptr(), 0) }
        })),
        "mode" => fs::set_permissions(subject, fs::Permissions::from_mode(0o777)),
        "own_root" => fs::write(format!("/proc/self/root{subject}"), "overwritten"),
        "connect" => TcpStream::connect(subject).map(drop),
        "datagram" => UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", subject).map(drop),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "unix_connect" => UnixStream::connect(subject).map(drop),
        "unix_datagram" => UnixDatagram::unbound()?.send_to(b"hello", subject).map(drop),
        "fork" => fork(subject),
        "clone3" => clone3(subject),
        "program" => {
            Command::new("/bin/sh").args(["-c", &format!("echo > {other}")]).status().map(drop)
        }
        // SAFETY: the signal is ignored by whoever does not ask for it, and goes to the parent.
        "signal" => check(unsafe { libc::kill(libc::getppid(), libc::SIGCONT) }),
        // SAFETY: it sets a timer that is long.
        "alarm" => check(unsafe { libc::alarm(3600) }.cast_signed()),
        "interval_timer" => interval_timer(),
        "timer" => timer(),
        // SAFETY: it sets a mask.
        "umask" => check(unsafe { libc::umask(0o077) }.cast_signed()),
        "limit" => limit(),
        // SAFETY: it sets a number of this process.
        "priority" => check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) }),
        "scheduling" => scheduling(),
        "signal_mask" => signal_mask(),
        "identity" => {
            // SAFETY: it takes a number.
            check(unsafe { libc::setgid(12345) })
        }
        "shared_memory" => {
            // SAFETY: it takes numbers.
            check(unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) })
        }
        "read" => fs::read(subject).map(drop),
        "ended_threads" => ended_threads(),
        "runtime" => runtime(),
        "null" => null(),
        "own_name" => fs::write("/proc/self/comm", "mimic"),
        "probe" => probe(),
        "ring" => ring(),
        "file_flags" => file_flags(),
        "oom" => fs::write("/proc/self/oom_score_adj", "1000"),
        "no_new_privileges" => {
            // SAFETY: it takes numbers.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
        }
        // SAFETY: it takes numbers.
        "subreaper" => check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }),
        // SAFETY: it takes numbers.
        "timer_slack" => check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 12345, 0, 0, 0) }),
        // SAFETY: what is open there belongs to nobody in the library; where it would matter, nobody opens it.
        "close_all" => check(unsafe { libc::close_range(20, u32::MAX, 0) }),
        "unblock" => {
            // SAFETY: it sets a flag of standard output.
            check(unsafe { libc::fcntl(1, libc::F_SETFL, libc::O_WRONLY | libc::O_APPEND) })
        }
        "late_thread" => late_thread(),
        "names" => names(),
        "memory_file" => memory_file(),
        other => panic!("the test wants an effect that is none: {other}"),
    }
}

fn check(result: c_int) -> std::io::Result<()> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn with_path(path: &str, call: impl FnOnce(&CString) -> c_int) -> c_int {
    CString::new(path).map_or(-1, |path| call(&path))
}

/// Leaves a process that writes a file beside the subject.
fn fork(subject: &str) -> std::io::Result<()> {
    let path = CString::new(format!("{subject}.other"))?;
    // SAFETY: the new process only makes calls that are safe in any state, and ends.
    unsafe {
        match libc::fork() {
            0 => {
                libc::creat(path.as_ptr(), 0o600);
                libc::_exit(0)
            }
            made => check(made),
        }
    }
}

/// Does the same by the newest call, and does not fall back to an older one.
fn clone3(subject: &str) -> std::io::Result<()> {
    let path = CString::new(format!("{subject}.other"))?;
    let mut arguments = [0_u64; 8];
    arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: without flags it is a fork; the new process does as above.
    unsafe {
        match libc::syscall(libc::SYS_clone3, arguments.as_mut_ptr(), size_of_val(&arguments)) {
            0 => {
                libc::creat(path.as_ptr(), 0o600);
                libc::_exit(0)
            }
            made => check(c_int::try_from(made).unwrap_or(-1)),
        }
    }
}

fn interval_timer() -> std::io::Result<()> {
    let hour = libc::timeval { tv_sec: 3600, tv_usec: 0 };
    let value = libc::itimerval { it_interval: hour, it_value: hour };
    // SAFETY: the value lives through the call.
    check(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const value, std::ptr::null_mut()) })
}

fn timer() -> std::io::Result<()> {
    let mut made = std::mem::MaybeUninit::<libc::timer_t>::uninit();
    // SAFETY: the call writes the timer to memory that is ours, and needs nothing else.
    check(unsafe {
        libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), made.as_mut_ptr())
    })
}

fn limit() -> std::io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur -= 1;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
}

/// Gives this thread another policy.
fn scheduling() -> std::io::Result<()> {
    // SAFETY: a policy without parameters needs a priority of 0, which the zeroes are.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameters live through the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) })
}

fn signal_mask() -> std::io::Result<()> {
    // SAFETY: a set of signals is plain bits, and lives through the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))
    }
}

/// Threads that are gone when they were waited for.
fn ended_threads() -> std::io::Result<()> {
    for _ in 0..20 {
        let threads: Vec<_> = (0..4).map(|number| std::thread::spawn(move || number)).collect();
        for thread in threads {
            drop(thread.join());
        }
    }
    Ok(())
}

/// What an asynchronous runtime makes when it begins, and lets go of when it ends.
fn runtime() -> std::io::Result<()> {
    // SAFETY: each call makes a descriptor that is closed again; the rest are plain numbers.
    unsafe {
        let poll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let waker = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
        for descriptor in [poll, waker, timer] {
            check(descriptor)?;
            libc::close(descriptor);
        }
    }
    let (reader, writer) = UnixStream::pair()?;
    drop((reader, writer));
    let (sender, receiver) = std::sync::mpsc::channel();
    let workers: Vec<_> = (0..3)
        .map(|number| {
            let sender = sender.clone();
            let name = format!("worker-{number}");
            std::thread::Builder::new().name(name).spawn(move || sender.send(number).is_ok())
        })
        .collect::<Result<_, _>>()?;
    drop(sender);
    drop(std::thread::available_parallelism());
    assert_eq!(receiver.iter().count(), workers.len());
    for worker in workers {
        drop(worker.join());
    }
    Ok(())
}

/// Writes to what takes everything, and keeps nothing.
fn null() -> std::io::Result<()> {
    use std::io::Write as _;
    let mut null = File::options().read(true).write(true).open("/dev/null")?;
    null.write_all(b"nothing")
}

/// Asks for what runtimes do without if it is not there.
fn probe() -> std::io::Result<()> {
    // SAFETY: it takes numbers, and compares a process with itself.
    let order = unsafe {
        let own = libc::getpid();
        libc::syscall(libc::SYS_kcmp, own, own, 2, 0_usize, 0_usize)
    };
    check(c_int::try_from(order).unwrap_or(-1))
}

/// Asks for a queue of calls past every filter.
fn ring() -> std::io::Result<()> {
    // SAFETY: it takes numbers, and a null pointer where it is to fail.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, std::ptr::null_mut::<u8>()) };
    check(c_int::try_from(ring).unwrap_or(-1))
}

/// Sets flags of a file that is only open for reading, to those of most files.
fn file_flags() -> std::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let file = File::open("/dev/null")?;
    let flags: std::ffi::c_long = 0;
    // SAFETY: the flags live through the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) })
}

/// Leaves a thread that ends soon after.
fn late_thread() -> std::io::Result<()> {
    drop(std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(50))));
    Ok(())
}

/// Asks for a user, a host and the interfaces, as the C library does it.
fn names() -> std::io::Result<()> {
    use std::net::ToSocketAddrs as _;
    // SAFETY: what is returned is not looked at, and what was made is freed.
    unsafe {
        libc::getpwuid(54321);
        let mut interfaces = std::ptr::null_mut();
        if libc::getifaddrs(&raw mut interfaces) == 0 {
            libc::freeifaddrs(interfaces);
        }
    }
    ("localhost", 0).to_socket_addrs().map(drop)
}

/// Writes to memory that is a file.
fn memory_file() -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::fd::FromRawFd as _;
    // SAFETY: the name is a C string, and the descriptor is new and ours.
    let mut file = unsafe {
        let made = libc::memfd_create(c"memory".as_ptr(), libc::MFD_CLOEXEC);
        check(made)?;
        File::from_raw_fd(made)
    };
    file.write_all(b"bytes")
}

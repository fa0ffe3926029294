//! A factory that tries to get out of its confinement and reports, attempt by attempt, what came of it.

use std::ffi::{CString, c_int};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_router_sdk::{AdapterError, CallContext, Capability, Object, export_adapter};
use serde_json::Value;

/// The number of a system call that libc does not name on every machine.
const FCHMODAT2: libc::c_long = 452;

/// A way out: its name, and the try, in a directory that holds the writable file `victim`.
type Attempt = (&'static str, fn(&Path) -> io::Result<()>);

/// Every way that succeeds in an unconfined process without hurting it.
const HARMLESS: &[Attempt] = &[
    ("create_file", |dir| fs::write(dir.join("made"), "x")),
    ("append_to_file", |dir| {
        OpenOptions::new().append(true).open(dir.join("victim"))?.write_all(b"x")
    }),
    ("truncate_file", |dir| {
        let path = CString::new(dir.join("victim").into_os_string().into_encoded_bytes())?;
        // SAFETY: the path is a C string that lives through the call.
        check(unsafe { libc::truncate(path.as_ptr(), 0) })
    }),
    ("rename_file", |dir| fs::rename(dir.join("victim"), dir.join("victim"))),
    ("link_file", |dir| fs::hard_link(dir.join("victim"), dir.join("linked"))),
    ("symlink", |dir| symlink("victim", dir.join("symlinked"))),
    ("make_directory", |dir| fs::create_dir(dir.join("directory"))),
    ("change_mode", |dir| {
        fs::set_permissions(dir.join("victim"), fs::Permissions::from_mode(0o640))
    }),
    ("change_mode_at", change_mode_at),
    ("change_times", |dir| {
        // Opened for reading: changing times needs ownership only.
        fs::File::open(dir.join("victim"))?.set_modified(std::time::UNIX_EPOCH)
    }),
    ("remove_file", |dir| {
        fs::remove_file(dir.join("victim"))?;
        fs::write(dir.join("victim"), "back")
    }),
    ("tcp_listen", |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("udp_socket", |_| UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("unix_socket", |_| UnixDatagram::unbound().map(drop)),
    ("run_program", |_| Command::new("true").status().map(drop)),
    ("fork", |_| fork()),
    ("signal_parent", |_| {
        // SAFETY: signal 0 only asks whether a signal could be sent.
        check(unsafe { libc::kill(parent(), 0) })
    }),
    ("limit_parent", |_| limit_parent()),
    ("slow_parent", |_| {
        let parent = unsigned(parent());
        // SAFETY: plain numbers. The value is the one that the parent has.
        let now = unsafe { libc::getpriority(libc::PRIO_PROCESS, parent) };
        // SAFETY: as above.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, parent, now) })
    }),
    ("pin_parent", |_| pin_parent()),
    ("shared_memory", |_| {
        // SAFETY: plain numbers; the segment is removed again at once.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
        check(id)?;
        // SAFETY: the segment was made above.
        check(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) })
    }),
];

/// Ways that would change an unconfined process for good, or that need privileges.
const HARMFUL: &[Attempt] = &[
    ("trace_me", |_| {
        // SAFETY: plain numbers.
        let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        check(c_int::from(traced != 0).wrapping_neg())
    }),
    ("new_namespace", |_| {
        // SAFETY: plain numbers.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
    }),
    ("write_own_memory_file", |_| OpenOptions::new().write(true).open("/proc/self/mem").map(drop)),
    ("raise_memory_limit", |_| {
        let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit lives through the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) })
    }),
    ("write_device", |_| OpenOptions::new().write(true).open("/dev/tty").map(drop)),
];

/// Tries every way in `config.directory`; only the harmless ones with `config.harmless_only`.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a factory")]
fn escapes(_: Option<&str>, config: Object) -> Result<Escaped, AdapterError> {
    let directory = config.get("directory").and_then(Value::as_str).unwrap_or_default();
    let directory = PathBuf::from(directory);
    let harmful = if config.contains_key("harmless_only") { &[] } else { HARMFUL };
    let outcomes = HARMLESS.iter().chain(harmful).map(|(name, attempt)| {
        let outcome = match attempt(&directory) {
            Ok(()) => "succeeded".to_owned(),
            Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), errno_name),
        };
        ((*name).to_owned(), Value::from(outcome))
    });
    Ok(Escaped { outcomes: outcomes.collect() })
}

export_adapter!(escapes);

/// An adapter that answers every call with the report of its factory.
struct Escaped {
    outcomes: Object,
}

impl nexus_router_sdk::Adapter for Escaped {
    fn adapter_id(&self) -> &str {
        crate::stub::KIND
    }

    fn adapter_kind(&self) -> &str {
        crate::stub::KIND
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Apply]
    }

    fn call(&self, _: &CallContext, _: &str, _: &str, _: Object) -> Result<Object, AdapterError> {
        Ok(self.outcomes.clone())
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn errno_name(errno: i32) -> String {
    match errno {
        libc::EPERM => "EPERM".to_owned(),
        libc::EACCES => "EACCES".to_owned(),
        libc::ENOSYS => "ENOSYS".to_owned(),
        other => io::Error::from_raw_os_error(other).to_string(),
    }
}

fn fork() -> io::Result<()> {
    // SAFETY: the new process ends at once, by a function that is safe in any state.
    match unsafe { libc::fork() } {
        // SAFETY: as above.
        0 => unsafe { libc::_exit(0) },
        made => {
            check(made)?;
            // SAFETY: the process is this one's child; its status is not asked for.
            check(unsafe { libc::waitpid(made, std::ptr::null_mut(), 0) })
        }
    }
}

/// Changes a mode by the newest system call for it, which older kernels do not have.
fn change_mode_at(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.join("victim").into_os_string().into_encoded_bytes())?;
    // SAFETY: the path is a C string that lives through the call; the rest are plain numbers.
    let changed = unsafe { libc::syscall(FCHMODAT2, libc::AT_FDCWD, path.as_ptr(), 0o600, 0) };
    check(c_int::try_from(changed).unwrap_or(-1))
}

/// Sets a limit of the parent to what it is. With another value this could end the parent.
fn limit_parent() -> io::Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call.
    check(unsafe {
        libc::prlimit64(parent(), libc::RLIMIT_CPU, std::ptr::null(), &raw mut limit)
    })?;
    // SAFETY: as above.
    check(unsafe {
        libc::prlimit64(parent(), libc::RLIMIT_CPU, &raw const limit, std::ptr::null_mut())
    })
}

/// Binds the parent to the processors to which it is bound.
fn pin_parent() -> io::Result<()> {
    // SAFETY: a set of processors is plain bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the set lives through the call and has the size that is told.
    check(unsafe { libc::sched_getaffinity(parent(), size, &raw mut set) })?;
    // SAFETY: as above.
    check(unsafe { libc::sched_setaffinity(parent(), size, &raw const set) })
}

fn parent() -> libc::pid_t {
    // SAFETY: the call has no conditions.
    unsafe { libc::getppid() }
}

fn unsigned(pid: libc::pid_t) -> libc::id_t {
    pid.unsigned_abs()
}

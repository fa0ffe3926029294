//! Attempts on processes: starting them, and touching those of others.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;

use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::{Attempt, c_text, checked, parent, text};

/// Says which signal a descriptor sends; libc does not name it.
const F_SETSIG: i32 = 10;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("fork", |_| in_fork(|| 0)),
    ("write_after_two_forks", |args| {
        let path = c_text(args, "path")?;
        // A number that is no error in the end: whatever the grandchild got.
        in_fork(|| match in_fork(|| create(&path)) {
            Ok(status) => status.as_i64().and_then(|status| status.try_into().ok()).unwrap_or(-1),
            Err(error) => error.raw_os_error().unwrap_or(-1),
        })
    }),
    ("run", run),
    ("execute", |args| {
        let path = c_text(args, "path")?;
        let arguments = [path.as_ptr(), std::ptr::null()];
        let environment = [std::ptr::null()];
        attempt!(libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()))
    }),
    ("execute_memory", |args| execute_memory(text(args, "path")?)),
    ("make_runnable_memory", |_| memory(libc::MFD_CLOEXEC).map(|_| Value::Null)),
    ("signal_parent", |_| attempt!(libc::kill(parent(), 0))),
    ("signal_all", |_| attempt!(libc::kill(-1, 0))),
    ("signal_parent_by_descriptor", |_| {
        let descriptor = attempt!(libc::syscall(libc::SYS_pidfd_open, parent(), 0))?;
        let nothing = std::ptr::null::<libc::siginfo_t>();
        let number = libc::SYS_pidfd_send_signal;
        attempt!(libc::syscall(number, descriptor.as_i64().unwrap_or(-1), 0, nothing, 0))
    }),
    ("own_signals_to_parent", |_| {
        let (theirs, mut ours) = io::pipe()?;
        // A signal that does nothing unless somebody asks for it: the parent lives on if it arrives.
        drop(attempt!(libc::fcntl(theirs.as_raw_fd(), F_SETSIG, libc::SIGURG))?);
        drop(attempt!(libc::fcntl(theirs.as_raw_fd(), libc::F_SETOWN, parent()))?);
        drop(attempt!(libc::fcntl(theirs.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC))?);
        ours.write_all(b"x").map(|()| Value::Null)
    }),
    ("trace_me", |_| attempt!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))),
    ("trace_parent", |_| attempt!(libc::ptrace(libc::PTRACE_SEIZE, parent(), 0, 0))),
    ("read_parent_memory", |_| {
        let mut byte = 0_u8;
        let ours = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(1), iov_len: 1 };
        let (ours, theirs) = (&raw const ours, &raw const theirs);
        attempt!(
            i32::try_from(libc::process_vm_readv(parent(), ours, 1, theirs, 1, 0)).unwrap_or(-1)
        )
    }),
    ("read_parent_environment", |_| {
        Ok(std::fs::read(format!("/proc/{}/environ", parent()))?.len().into())
    }),
    ("see_parent_descriptor", |_| {
        let target = std::fs::read_link(format!("/proc/{}/fd/0", parent()))?;
        Ok(target.display().to_string().into())
    }),
    ("write_parent_descriptor", |args| {
        let path = format!("/proc/{}/fd/{}", parent(), crate::number(args, "descriptor")?);
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(b"x").map(|()| Value::Null)
    }),
    ("limit_parent", |_| {
        let (mut limit, resource) = (libc::rlimit64 { rlim_cur: 0, rlim_max: 0 }, libc::RLIMIT_CPU);
        let (none, limit) = (std::ptr::null(), &raw mut limit);
        attempt!(libc::prlimit64(parent(), resource, none, limit))
    }),
    ("outlive_parent", |_| attempt!(libc::prctl(libc::PR_SET_PDEATHSIG, 0))),
    ("new_user_namespace", |_| attempt!(libc::unshare(libc::CLONE_NEWUSER))),
    ("clone_user_namespace", |_| {
        let flags = i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
        // SAFETY: like fork, the new process goes on in a copy of this memory.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            // SAFETY: it ends at once, by a function that is safe in any state.
            0 => unsafe { libc::_exit(0) },
            result => checked(result),
        }
    }),
    ("clone_for_parent", |_| {
        let flags = i64::from(libc::CLONE_PARENT | libc::SIGCHLD);
        // SAFETY: like fork, the new process goes on in a copy of this memory.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            // SAFETY: it ends at once, by a function that is safe in any state.
            0 => unsafe { libc::_exit(0) },
            result => checked(result),
        }
    }),
];

/// Runs something in another process, and returns the status with which it ends.
fn in_fork(work: impl FnOnce() -> i32) -> io::Result<Value> {
    // SAFETY: this process has no threads that hold locks which `work` needs.
    match unsafe { libc::fork() } {
        0 => {
            let status = work();
            // SAFETY: the process ends at once, by a function that is safe in any state.
            unsafe { libc::_exit(status) }
        }
        child => {
            drop(checked(child.into())?);
            let mut status = 0;
            drop(attempt!(libc::waitpid(child, &raw mut status, 0))?);
            Ok(libc::WEXITSTATUS(status).into())
        }
    }
}

/// Creates a file, and returns the error's number or 0.
fn create(path: &CString) -> i32 {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let opened = attempt!(libc::open(path.as_ptr(), flags, 0o600));
    opened.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Runs a program, and tells how it ended and what it printed.
fn run(args: &Object) -> io::Result<Value> {
    let arguments = args.get("args").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let output = Command::new(text(args, "path")?).args(arguments).env_clear().output()?;
    Ok(json!({
        "code": output.status.code(),
        "out": String::from_utf8_lossy(&output.stdout),
        "err": String::from_utf8_lossy(&output.stderr),
    }))
}

fn memory(flags: libc::c_uint) -> io::Result<File> {
    // SAFETY: the name lives through the call.
    let descriptor = unsafe { libc::memfd_create(c"program".as_ptr(), flags) };
    drop(checked(descriptor.into())?);
    // SAFETY: the descriptor was made above, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}

/// Copies a program into memory and runs it from there, in another process.
fn execute_memory(path: &str) -> io::Result<Value> {
    let mut file = memory(libc::MFD_CLOEXEC)?;
    // Without a program in it, it still shows whether it would be started. Where nothing may be written, a
    // signal would end the process instead.
    // SAFETY: no handler is set.
    let _before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    drop(File::open(path).and_then(|mut program| io::copy(&mut program, &mut file)));
    in_fork(|| {
        let arguments = [c"program".as_ptr(), std::ptr::null()];
        let environment = [std::ptr::null::<libc::c_char>()];
        let done = attempt!(libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        ));
        done.err().and_then(|error| error.raw_os_error()).unwrap_or(-1)
    })
}

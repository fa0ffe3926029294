//! The system calls that are observed, in words: what each does, and where its subject stands.

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallAction {
    pub(super) name: &'static str,
    pub(super) subject: CallSubject,
    /// Whether it changes something if it is not denied.
    pub(super) is_effect: bool,
}

/// The place of what a call is about among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallSubject {
    Nothing,
    /// The call itself says enough.
    Name(&'static str),
    /// A path, which may begin at a directory.
    Path {
        at: Option<usize>,
        path: usize,
    },
    /// An open file.
    File(usize),
    /// An address of the network.
    Address {
        at: usize,
        length: usize,
    },
    /// A message, which has an address.
    Message,
    /// A signal, to a process.
    Signal {
        process: Option<usize>,
        signal: usize,
    },
    /// A number, of something.
    Number {
        at: usize,
        unit: &'static str,
    },
}

/// Returns what a call does.
pub(super) fn action(call: i64) -> CallAction {
    #[cfg(target_arch = "x86_64")]
    if let Some(action) = of_older(call) {
        return action;
    }
    let effect = |name, subject| CallAction { name, subject, is_effect: true };
    let path = |path| CallSubject::Path { at: None, path };
    let below = |at, path| CallSubject::Path { at: Some(at), path };
    match call {
        libc::SYS_openat | OPENAT2 => effect("write", below(0, 1)),
        libc::SYS_truncate => effect("truncate", path(0)),
        libc::SYS_mkdirat | libc::SYS_mknodat => effect("create", below(0, 1)),
        libc::SYS_unlinkat => effect("remove", below(0, 1)),
        libc::SYS_renameat | libc::SYS_renameat2 => effect("rename", below(0, 1)),
        libc::SYS_linkat => effect("link", below(2, 3)),
        libc::SYS_symlinkat => effect("link", below(1, 2)),
        libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_utimensat | FCHMODAT2 => {
            effect("change metadata", below(0, 1))
        }
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
            effect("change metadata", CallSubject::File(0))
        }
        libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr => effect("change metadata", path(0)),
        libc::SYS_connect => effect("connect", CallSubject::Address { at: 1, length: 2 }),
        libc::SYS_bind => effect("bind", CallSubject::Address { at: 1, length: 2 }),
        libc::SYS_sendto => effect("send", CallSubject::Address { at: 4, length: 5 }),
        libc::SYS_sendmsg => effect("send", CallSubject::Message),
        libc::SYS_sendmmsg => effect("send", CallSubject::Nothing),
        libc::SYS_listen | libc::SYS_accept | libc::SYS_accept4 => {
            effect("listen", CallSubject::Nothing)
        }
        libc::SYS_clone => effect("process", CallSubject::Name("clone")),
        libc::SYS_clone3 => effect("process", CallSubject::Name("clone3")),
        libc::SYS_execve => effect("program", path(0)),
        libc::SYS_execveat => effect("program", below(0, 1)),
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => {
            effect("signal", CallSubject::Signal { process: Some(0), signal: 1 })
        }
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => {
            effect("signal", CallSubject::Signal { process: Some(0), signal: 2 })
        }
        libc::SYS_pidfd_send_signal => {
            effect("signal", CallSubject::Signal { process: None, signal: 1 })
        }
        libc::SYS_setitimer => effect("timer", CallSubject::Name("setitimer")),
        libc::SYS_timer_create => effect("timer", CallSubject::Name("timer_create")),
        libc::SYS_prlimit64 => {
            effect("limits", CallSubject::Number { at: 0, unit: "is the process" })
        }
        libc::SYS_prctl => {
            effect("process setting", CallSubject::Number { at: 0, unit: "of prctl" })
        }
        _ => other(call),
    }
}

const FCHMODAT2: i64 = crate::sandbox::table::FCHMODAT2;
const OPENAT2: i64 = libc::SYS_openat2;

/// Returns what a call does that newer machines do not have.
#[cfg(target_arch = "x86_64")]
fn of_older(call: i64) -> Option<CallAction> {
    let path = |path| CallSubject::Path { at: None, path };
    let (name, subject) = match call {
        libc::SYS_open | libc::SYS_creat => ("write", path(0)),
        libc::SYS_mkdir | libc::SYS_mknod => ("create", path(0)),
        libc::SYS_unlink | libc::SYS_rmdir => ("remove", path(0)),
        libc::SYS_rename => ("rename", path(0)),
        libc::SYS_link | libc::SYS_symlink => ("link", path(1)),
        libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_utime
        | libc::SYS_utimes => ("change metadata", path(0)),
        libc::SYS_futimesat => ("change metadata", CallSubject::Path { at: Some(0), path: 1 }),
        libc::SYS_fork => ("process", CallSubject::Name("fork")),
        libc::SYS_vfork => ("process", CallSubject::Name("vfork")),
        libc::SYS_alarm => ("timer", CallSubject::Number { at: 0, unit: "s, alarm" }),
        _ => return None,
    };
    Some(CallAction { name, subject, is_effect: true })
}

/// Calls by their names.
macro_rules! named {
    ($($name:ident)*) => {
        &[$((libc::$name, stringify!($name))),*]
    };
}

/// Calls that runtimes make as probes, and that change nothing even where nobody denies them: stack unwinders read memory
/// of their own process, drivers compare descriptors, and pairs of sockets reach nobody.
const PROBES: &[(i64, &str)] = named! {
    SYS_process_vm_readv SYS_kcmp SYS_socketpair
};

/// Other calls that are denied.
const EFFECTS: &[(i64, &str)] = named! {
    SYS_ioctl SYS_fcntl SYS_seccomp SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
    SYS_inotify_init1 SYS_inotify_add_watch SYS_fanotify_init SYS_fanotify_mark
    SYS_process_madvise SYS_process_mrelease SYS_migrate_pages SYS_move_pages
    SYS_perf_event_open SYS_userfaultfd SYS_bpf SYS_pidfd_open SYS_pidfd_getfd SYS_keyctl
    SYS_request_key SYS_syslog SYS_quotactl SYS_quotactl_fd SYS_sched_setaffinity SYS_open_tree
    SYS_fsopen SYS_fspick SYS_open_by_handle_at SYS_landlock_restrict_self
    SYS_setsid SYS_setpgid SYS_ptrace SYS_process_vm_writev SYS_setpriority SYS_ioprio_set
    SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_shmget SYS_shmat SYS_shmctl
    SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
    SYS_mq_open SYS_mq_unlink SYS_mount SYS_umount2 SYS_move_mount SYS_fsconfig SYS_fsmount
    SYS_mount_setattr SYS_unshare SYS_setns SYS_chroot SYS_pivot_root SYS_add_key
    SYS_personality SYS_acct SYS_swapon SYS_swapoff SYS_settimeofday SYS_clock_settime
    SYS_clock_adjtime SYS_adjtimex SYS_sethostname SYS_setdomainname SYS_reboot SYS_init_module
    SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_vhangup SYS_setuid
    SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid
    SYS_setgroups SYS_capset
};

/// Device requests that only ask.
const QUESTIONS: &[u32] = &[
    // TCGETS2, TIOCGPGRP, TIOCOUTQ, TIOCGSID, FIOQSIZE, FS_IOC_GETFLAGS, BLKGETSIZE64.
    0x802c_542a,
    0x540f,
    0x5411,
    0x5429,
    0x5460,
    0x8008_6601,
    0x8008_1272,
];

/// Requests to the log of the kernel that leave it as it is: reading all of it, and its sizes.
const LOG_READS: &[u32] = &[3, 9, 10];

/// Returns whether a call only asks, as its registers say, although other calls of this kind change something.
pub(super) fn only_asks(call: i64, arguments: &[u64; 6]) -> bool {
    let low = |at: usize| super::low(arguments[at]);
    match call {
        libc::SYS_ioctl => QUESTIONS.contains(&low(1)),
        libc::SYS_syslog => LOG_READS.contains(&low(0)),
        // Without nodes, it tells where pages are.
        libc::SYS_move_pages => arguments[3] == 0,
        _ => false,
    }
}

/// Sockets of services that answer questions of the C library about names, and that it does without.
const NAME_SERVICES: &[&str] =
    &["nscd/socket", "nslcd/socket", "avahi-daemon/socket", "systemd/resolve/io.systemd.Resolve"];

/// Returns whether a path is that of a service that is only asked for names: of hosts, users or groups.
pub(super) fn is_name_service(path: &str) -> bool {
    let of_run = ["/run/", "/var/run/"].iter().find_map(|place| path.strip_prefix(place));
    let is_pipe_of_sssd = path == "/var/lib/sss/pipes/nss";
    is_pipe_of_sssd
        || of_run.is_some_and(|rest| {
            let name = rest.strip_prefix("systemd/userdb/");
            NAME_SERVICES.contains(&rest) || name.is_some_and(|name| !name.contains('/'))
        })
}

fn other(call: i64) -> CallAction {
    let name_in = |list: &[(i64, &'static str)]| {
        list.iter().find(|(number, _)| *number == call).map(|(_, name)| *name)
    };
    let plain = |name: &'static str| name.strip_prefix("SYS_").unwrap_or(name);
    if let Some(name) = name_in(PROBES) {
        return CallAction { name: plain(name), subject: CallSubject::Nothing, is_effect: false };
    }
    let name = name_in(EFFECTS).map_or("another system call", plain);
    CallAction { name, subject: CallSubject::Nothing, is_effect: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::table::{CHANGES, CONNECTING, DENIED, IDENTITIES, OPENINGS, PROGRAMS};
    use std::collections::BTreeSet;

    #[test]
    fn observed_calls_have_names() {
        let known: BTreeSet<i64> = PROBES.iter().chain(EFFECTS).map(|(call, _)| *call).collect();
        let openings = OPENINGS.iter().map(|(call, _)| call);
        let lists = [CHANGES, CONNECTING, IDENTITIES, PROGRAMS];
        for call in lists.into_iter().flatten().chain(openings) {
            let named = known.contains(call) || action(*call).name != "another system call";
            // A socket is recorded by itself.
            assert!(named || *call == libc::SYS_socket, "{call}");
        }
        assert!(DENIED.iter().filter(|call| known.contains(call)).count() > 60);
    }

    #[test]
    fn probes_are_no_effects() {
        assert!(!action(libc::SYS_process_vm_readv).is_effect);
        for call in [
            libc::SYS_io_uring_setup,
            libc::SYS_open_by_handle_at,
            libc::SYS_ioctl,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_fcntl,
            libc::SYS_pidfd_getfd,
            libc::SYS_process_mrelease,
            libc::SYS_quotactl,
            libc::SYS_sched_setaffinity,
            libc::SYS_landlock_restrict_self,
            libc::SYS_mount,
            libc::SYS_unlinkat,
        ] {
            assert!(action(call).is_effect, "{}", action(call).name);
        }
    }

    #[test]
    fn questions_are_told_from_changes() {
        const SET_FLAGS: u64 = 0x4008_6602;
        let asks = |call, second, fourth| only_asks(call, &[3, second, 0, fourth, 0, 0]);
        assert!(asks(libc::SYS_ioctl, 0x802c_542a, 1) && !asks(libc::SYS_ioctl, SET_FLAGS, 1));
        assert!(asks(libc::SYS_move_pages, 1, 0) && !asks(libc::SYS_move_pages, 1, 7));
        assert!(asks(libc::SYS_syslog, 0, 0) && !only_asks(libc::SYS_syslog, &[5; 6]));
        assert!(!asks(libc::SYS_keyctl, 0, 0));
    }

    #[test]
    fn name_services_are_told_from_other_sockets() {
        for path in ["/var/run/nscd/socket", "/run/systemd/userdb/io.systemd.DynamicUser"] {
            assert!(is_name_service(path), "{path}");
        }
        for path in ["/run/systemd/private", "/run/systemd/userdb/../private", "/dev/log", "", "x"]
        {
            assert!(!is_name_service(path), "{path}");
        }
    }
}

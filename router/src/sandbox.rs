//! UNSAFE room 3 (libc): how a child process confines itself before it opens foreign code.
//!
//! Reading stays open, because a library may live on anything installed. Writing, starting programs and
//! processes, sockets, signals to others, tracing, terminals and kernel side doors are closed, and the
//! rights of a superuser are given up. Resource limits bound memory and processor time. What the kernel
//! cannot do is reported, not hidden.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

#[cfg_attr(not(test), expect(dead_code, reason = "no adapter has a process of its own yet"))]
mod notify;

pub(crate) use notify::{Listener, Notice, Target, nowhere};
#[cfg(test)]
pub(crate) use notify::{MARK, hostile, listen, probe};

/// What a confined process may use.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// How long the whole dry run may take.
    pub time: Duration,
    /// How much address space the process may have.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), memory: 2 * 1024 * 1024 * 1024 }
    }
}

/// Which parts of the confinement are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Confinement {
    /// No file can be changed and no program started: `full`, `partial` or `none`.
    pub(crate) landlock: String,
    /// Sockets, processes and kernel side doors are closed: `full` or `none`.
    pub(crate) seccomp: String,
}

impl Confinement {
    /// Says whether all of it is in force.
    pub(crate) fn is_full(&self) -> bool {
        self.landlock == "full" && self.seccomp == "full"
    }
}

/// Confines this process, for good. Call it before foreign code runs, with one thread running. `parent`
/// is the process that must outlive this one.
pub(crate) fn enter(limits: Limits, parent: u32) -> io::Result<Confinement> {
    close_inherited_descriptors()?;
    // A session of its own has no terminal, and its group is not the parent's.
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let parent_now = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if parent_now != Some(parent) {
        return Err(io::Error::other("the parent has gone"));
    }
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::As, limits.memory)?;
    set_limit(Resource::Cpu, limits.time.as_secs().saturating_add(2))?;
    set_limit(Resource::Nofile, 256)?;
    set_limit(Resource::Fsize, 0)?;
    rustix::thread::set_no_new_privs(true)?;
    give_up_capabilities()?;
    Ok(Confinement { landlock: restrict_files(), seccomp: restrict_calls() })
}

/// Gives up whatever a superuser may do beyond others. Nothing can bring it back: no program can be
/// started, and no new privileges can be gained.
fn give_up_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

/// Closes every descriptor above standard error: an embedding host may leave some open by accident.
fn close_inherited_descriptors() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe interface closes descriptors that nobody owns")]
    // SAFETY: `run_child` is to be called first, so nothing here owns a descriptor above 2 yet.
    let closed = unsafe { libc::close_range(3, u32::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns where each signal goes, from signal 1 on: the address of its handler, or what stands for the
/// default and for ignoring it.
#[expect(unsafe_code, reason = "no safe interface asks for a handler")]
pub(crate) fn signal_handlers() -> Vec<usize> {
    (1..=libc::SIGRTMAX())
        .map(|signal| {
            let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: no new action is given, and the old one is written to memory that we own.
            unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
            // SAFETY: a number that is no signal leaves it all zeroes, which is a valid action.
            unsafe { action.assume_init() }.sa_sigaction
        })
        .collect()
}

fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    // A limit that is already lower stays: raising it is not ours to do.
    let limit = rustix::process::getrlimit(resource).maximum.map_or(limit, |now| now.min(limit));
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

fn restrict_files() -> String {
    let status = (|| {
        let abi = ABI::V6;
        // Reading is not handled and so stays open. Execute is: no program can be started, while the
        // loader maps libraries without it.
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_write(abi) | AccessFs::Execute)?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .set_compatibility(CompatLevel::BestEffort)
            .restrict_self()
    })();
    match status.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => "full",
        Ok(RulesetStatus::PartiallyEnforced) => "partial",
        Ok(RulesetStatus::NotEnforced) | Err(_) => "none",
    }
    .to_owned()
}

fn restrict_calls() -> String {
    let applied = filters().and_then(|filters| {
        filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(|_| ()))
    });
    if applied.is_ok() { "full" } else { "none" }.to_owned()
}

/// Builds the two filters. What they deny fails with an error instead of killing, because a library that
/// merely tries and copes is no crash.
fn filters() -> Result<[BpfProgram; 2], ()> {
    let arch = std::env::consts::ARCH.try_into().map_err(|_| ())?;
    let filter = |rules, errno: i32| {
        let errno = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)
            .and_then(TryInto::try_into)
            .map_err(|_| ())
    };
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().map(|number| (*number, Vec::new())).collect();
    let first_argument = |length, comparison, value| {
        SeccompCondition::new(0, length, comparison, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|_| ())
    };
    // Threads are fine, processes are not.
    let thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD.unsigned_abs().into());
    let not_a_thread = first_argument(SeccompCmpArgLen::Qword, thread, 0)?;
    denied.insert(libc::SYS_clone, vec![not_a_thread]);
    // A process may bound itself. Bounding the processor time of its parent would end the parent.
    for number in OWN_PROCESS_ONLY {
        let another = first_argument(SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        denied.insert(*number, vec![another]);
    }
    // Abort raises its signal with this call, in its own process.
    let own = u64::from(std::process::id());
    let another = first_argument(SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, own)?;
    denied.insert(libc::SYS_tgkill, vec![another]);
    // What ends this process with its parent stays in force.
    let death_signal = u64::from(libc::PR_SET_PDEATHSIG.unsigned_abs());
    let death_signal = first_argument(SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, death_signal)?;
    denied.insert(libc::SYS_prctl, vec![death_signal]);
    denied.insert(libc::SYS_ioctl, vec![other_requests()?]);
    // The flags of clone3 are in memory, out of a filter's reach; without it libc falls back to clone.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([filter(denied, libc::EPERM)?, filter(absent, libc::ENOSYS)?])
}

/// Matches every device request that is not one of the harmless ones. Some of the others change files
/// that are only open for reading, or type into terminals.
fn other_requests() -> Result<SeccompRule, ()> {
    let harmless = [
        libc::FIOCLEX,
        libc::FIONCLEX,
        libc::FIONBIO,
        libc::FIONREAD,
        libc::TCGETS,
        libc::TIOCGWINSZ,
    ];
    let conditions: Result<Vec<SeccompCondition>, _> = harmless
        .iter()
        .map(|request| {
            SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *request)
        })
        .collect();
    SeccompRule::new(conditions.map_err(|_| ())?).map_err(|_| ())
}

// System calls that libc does not name on every machine. From 424 on, all machines share the numbers.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// The system calls whose first argument names a process, and that are denied unless it is 0: this one.
const OWN_PROCESS_ONLY: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The system calls that are denied.
const DENIED: &[i64] = &[
    // Network. Reading and writing the inherited socket pair needs none of these.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    // Leaving the session or the group.
    libc::SYS_setpgid,
    libc::SYS_setsid,
    // Others' processes.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Memory, semaphores and queues that others share, or that outlive the process.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Truncation, which Landlock covers only since its third version.
    libc::SYS_truncate,
    // File metadata, which Landlock does not cover.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Kernel side doors.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
];

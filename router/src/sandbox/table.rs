//! The system calls that are denied, by the grant that takes them back.

// System calls that libc does not name on every machine. From 424 on, all machines share the numbers.
pub(super) const FCHMODAT2: i64 = 452;
const LSM_SET_SELF_ATTR: i64 = 460;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Denied unless connections are granted. Reading and writing the inherited socket pair needs none of these.
pub(super) const CONNECTING: &[i64] =
    &[libc::SYS_socket, libc::SYS_connect, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Denied unless programs are granted. Landlock says which.
pub(super) const PROGRAMS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    // Leaving the group.
    libc::SYS_setpgid,
];

/// Denied unless programs are granted. Then Landlock keeps them among what this process started.
pub(super) const SIGNALS: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];

/// Denied unless writing is granted. Truncation is what Landlock covers only since its third version.
pub(super) const WRITING: &[i64] = &[libc::SYS_truncate];

/// Calls that change the mode of a file, with the argument that is the mode. Landlock does not cover them.
pub(super) const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
];

/// Calls that change the times of a file. Landlock does not cover them.
pub(super) const TIMES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
];

/// Calls that change the owner of a file. Landlock does not cover them.
pub(super) const OWNERS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
];

/// Calls that set extended attributes of a file. They fail as on a file system without attributes, so that programs
/// that copy files carry on. Landlock does not cover them.
pub(super) const ATTRIBUTES: &[i64] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
];

/// Calls that create a file, with the argument that is its mode, and the one that has the flags, if there is one.
/// The kernel ignores set-id bits in the mode of a new directory.
pub(super) const CREATIONS: &[(i64, u8, Option<u8>)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, Some(1)),
    (libc::SYS_openat, 3, Some(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, None),
    (libc::SYS_mknodat, 2, None),
];

/// Calls whose arguments are in memory, out of a filter's reach: flags of a process in `clone3`, the mode of a new
/// file in `openat2`. They fail as on a kernel without them, and programs fall back to the older calls.
pub(super) const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Denied unless the first argument, which names a process, is 0: this one.
pub(super) const OWN_PROCESS_ONLY: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Denied whatever is granted.
pub(super) const DENIED: &[i64] = &[
    // Leaving the session: by it everything is found that has to end.
    libc::SYS_setsid,
    // Waiting for others in the network.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Others' processes.
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
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
    // Attributes of files, which Landlock does not cover.
    FILE_SETATTR,
    // Watching files of others. Landlock does not cover that, and no grant includes it.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Other views of the file tree.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_open_by_handle_at,
    // Side doors of the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    LSM_SET_SELF_ATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    // The machine. Most of it needs rights that were given up; that is no reason to leave it open.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Calls that change what is in a directory. Landlock bounds them to what may be written.
pub(super) const CHANGES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    libc::SYS_linkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_mknodat,
];

/// Calls that open a file by a path, with the argument that has the flags.
pub(super) const OPENINGS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// Calls that change who a process is.
pub(super) const IDENTITIES: &[i64] = &[
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Calls after which a signal comes.
pub(super) const TIMERS: &[i64] = &[libc::SYS_setitimer, libc::SYS_timer_create];

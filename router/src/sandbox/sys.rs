//! UNSAFE room 3 (libc): the calls of the kernel that nobody wraps safely.

use std::io;

use rustix::process::Pid;

/// Closes every descriptor above standard error: an embedding host may leave some open by accident.
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe interface closes descriptors that nobody owns")]
    // SAFETY: `enter` is to be called first, so nothing here owns a descriptor above 2 yet.
    let closed = unsafe { libc::close_range(3, u32::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a second process like this one, and returns its id; none in that process. Call it with one thread running:
/// what other threads hold locked would be locked for good.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    #[expect(unsafe_code, reason = "no safe interface forks")]
    // SAFETY: it is called before anything starts a thread, so the copy is whole.
    let process = unsafe { libc::fork() };
    if process < 0 { Err(io::Error::last_os_error()) } else { Ok(Pid::from_raw(process)) }
}

/// Returns the session of a process; none if it has gone. Threads of the kernel have none either.
pub(crate) fn session_of(process: i32) -> Option<u32> {
    #[expect(unsafe_code, reason = "the safe interface takes every session for a process")]
    // SAFETY: it takes and returns numbers.
    let session = unsafe { libc::getsid(process) };
    u32::try_from(session).ok().filter(|session| *session != 0)
}

/// Returns the group of a process; none if it has gone. Threads of the kernel have none either.
pub(crate) fn group_of(process: i32) -> Option<Pid> {
    #[expect(unsafe_code, reason = "the safe interface takes every group for a process")]
    // SAFETY: it takes and returns numbers.
    let group = unsafe { libc::getpgid(process) };
    Some(group).filter(|group| *group > 0).and_then(Pid::from_raw)
}

/// Returns whether two threads share one table of descriptors; false also if the kernel does not say.
pub(crate) fn share_descriptors(one: i32, other: i32) -> bool {
    const KCMP_FILES: libc::c_int = 2;
    #[expect(unsafe_code, reason = "no safe interface compares tables of descriptors")]
    // SAFETY: it takes and returns numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0_usize, 0_usize) };
    order == 0
}

/// Has the ends of children told, which whoever started this program may have turned off for it: programs are
/// waited for, and how they ended is not to be lost.
pub(crate) fn heed_children() {
    #[expect(unsafe_code, reason = "no safe interface sets what becomes of a signal")]
    // SAFETY: no handler is set; the default runs no code of ours.
    let _before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Makes writing past the size that files may have an error instead of an end. Memory that is written like a file has
/// that size too.
pub(crate) fn ignore_file_size_signal() {
    #[expect(unsafe_code, reason = "no safe interface sets what becomes of a signal")]
    // SAFETY: no handler is set; to ignore it runs no code of ours.
    let _before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns settings of this process and thread that only `prctl` tells, by name.
pub(crate) fn process_settings() -> [(&'static str, libc::c_int); 5] {
    let asked = |option: libc::c_int| {
        #[expect(unsafe_code, reason = "no safe interface asks for all of them")]
        // SAFETY: these options take no arguments and return a number.
        unsafe {
            libc::prctl(option, 0, 0, 0, 0)
        }
    };
    let mut subreaper = 0;
    #[expect(unsafe_code, reason = "the safe interface takes every answer for a process")]
    // SAFETY: the answer is written to a number that we own.
    unsafe {
        libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut subreaper, 0, 0, 0);
    }
    [
        ("dumpable", asked(libc::PR_GET_DUMPABLE)),
        ("child subreaper", subreaper),
        ("securebits", asked(libc::PR_GET_SECUREBITS)),
        ("timer slack", asked(libc::PR_GET_TIMERSLACK)),
        ("huge pages", asked(libc::PR_GET_THP_DISABLE)),
    ]
}

/// Has every signal do what it does by default: whoever started this program may have turned some off, and a program
/// that is started inherits that.
pub(crate) fn heed_all_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        #[expect(unsafe_code, reason = "no safe interface sets what becomes of a signal")]
        // SAFETY: no handler is set; the default runs no code of ours. What is no signal is refused.
        let _before = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes the allocator of the C library return large blocks to the system as soon as they are freed. By default their
/// size grows with use, and the process keeps them. The number of arenas stays as it is: with fewer, threads wait for
/// each other in every allocation.
pub(crate) fn set_up_allocator() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 256 * 1024;
        #[expect(unsafe_code, reason = "no safe interface sets up the allocator")]
        // SAFETY: it changes a number that the allocator reads under its own lock.
        let _is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
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

/// Returns which interval timers of this process are armed: that of the clock, and those of processor time.
#[expect(unsafe_code, reason = "no safe interface asks for a timer")]
pub(crate) fn is_timer_armed() -> [bool; 3] {
    [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF].map(|timer| {
        let mut value = std::mem::MaybeUninit::<libc::itimerval>::zeroed();
        // SAFETY: the value is written to memory that we own.
        unsafe { libc::getitimer(timer, value.as_mut_ptr()) };
        // SAFETY: it began as zeroes, which are a valid value.
        let left = unsafe { value.assume_init() }.it_value;
        (left.tv_sec, left.tv_usec) != (0, 0)
    })
}

/// Returns the version of Landlock that the kernel has; 0 when it has none, or has it turned off.
pub(super) fn landlock_version() -> u32 {
    const ASK_FOR_VERSION: u32 = 1;
    ask_landlock(ASK_FOR_VERSION).unwrap_or(0)
}

/// Returns which errors of Landlock the kernel has mended, a bit each. Kernels before 6.15 may not know the question.
pub(super) fn landlock_errata() -> Option<u32> {
    const ASK_FOR_ERRATA: u32 = 1 << 1;
    ask_landlock(ASK_FOR_ERRATA)
}

fn ask_landlock(question: u32) -> Option<u32> {
    let nothing = std::ptr::null::<libc::c_void>();
    #[expect(unsafe_code, reason = "no safe interface asks for it")]
    // SAFETY: with these flags the kernel reads nothing and makes nothing.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, question) };
    u32::try_from(answer).ok()
}

/// Says whether the kernel has seccomp, with notices.
pub(super) fn seccomp_notices() -> bool {
    let mut sizes = [0_u16; 3];
    #[expect(unsafe_code, reason = "no safe interface asks for it")]
    // SAFETY: the kernel writes three numbers of 16 bits, to memory that we own.
    let asked = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, sizes.as_mut_ptr())
    };
    asked == 0
}

/// The code of this process, and what is constant beside it, as they are mapped.
pub(crate) struct Code(Vec<(usize, usize)>);

impl Code {
    /// Returns what is mapped now. Call it before foreign code is: only our own is known to be as in its file.
    pub(crate) fn now() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let range = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            let mut fields = rest.split_whitespace();
            let (rights, offset, name) = (fields.next()?, fields.next()?, fields.nth(2)?);
            // What is at the beginning of a file was never open for writing. Behind it may stand what was
            // written to when the program was put in its place, and only then closed.
            let unwritten = rights == "r-xp" || (rights == "r--p" && offset == "00000000");
            (unwritten && name.starts_with('/')).then_some((start, end - start))
        };
        Self(maps.lines().filter_map(range).collect())
    }

    /// Lets go of the code in memory. What is needed again is taken from the file, which the kernel keeps
    /// anyway; what only starting needed is not a part of this process any more.
    #[expect(unsafe_code, reason = "no safe interface gives advice about memory by its address")]
    pub(crate) fn let_go(&self) {
        for (start, length) in &self.0 {
            let start = std::ptr::without_provenance_mut(*start);
            // SAFETY: the range is a mapping of a file that nobody has written to and nobody unmaps, so what is
            // let go of is the same when it comes back.
            unsafe { libc::madvise(start, *length, libc::MADV_DONTNEED) };
        }
    }
}

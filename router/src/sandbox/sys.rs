//! UNSAFE room 3 (libc): the calls of the kernel that nobody wraps safely.

use std::io;

/// Closes every descriptor above standard error: an embedding host may leave some open by accident.
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe interface closes descriptors that nobody owns")]
    // SAFETY: `enter` is to be called first, so nothing here owns a descriptor above 2 yet.
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

/// Returns the version of Landlock that the kernel has; 0 when it has none, or has it turned off.
pub(super) fn landlock_version() -> u32 {
    const ASK_FOR_VERSION: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    #[expect(unsafe_code, reason = "no safe interface asks for the version")]
    // SAFETY: with this flag the kernel reads nothing and makes nothing.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, ASK_FOR_VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

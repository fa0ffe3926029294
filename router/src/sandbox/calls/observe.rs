//! The filter for a process under observation: each call that a library must not make while it is loaded is a notice.
//!
//! It stands in for the filters that deny. The observer outside denies each call with the same error, and reports it.
//! Without an observer, the kernel fails the call as one that it does not have. So no call is made in either case.

use super::{Rules, TargetArch, all, bits, compile, denied, flag, metadata_calls, none_of, notify};
use crate::grant::Grants;
use crate::sandbox::table::{ABSENT, ATTRIBUTES, CHANGES, IDENTITIES, OPENINGS, TIMERS};
use crate::sandbox::{Profile, Reading};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::Eq;
#[cfg(target_arch = "x86_64")]
use seccompiler::SeccompCmpOp::Ne;
use seccompiler::{BpfProgram, SeccompAction};

/// Returns the filter for a profile; its grants do not matter. `own` is the id of this process.
pub(in crate::sandbox) fn filter(
    profile: &Profile,
    own: u32,
    machine: TargetArch,
) -> Option<BpfProgram> {
    let mut noticed: Rules = denied(&Grants::default(), false, own)?;
    let every = |numbers: &[i64]| -> Rules { numbers.iter().map(|n| (*n, Vec::new())).collect() };
    noticed.extend(metadata_calls().map(|number| (number, Vec::new())));
    for numbers in [ABSENT, ATTRIBUTES, CHANGES, IDENTITIES, TIMERS] {
        noticed.extend(every(numbers));
    }
    // Settings of the process that it cannot take back, that the child has already, or that nobody can compare.
    let settings = LASTING_SETTINGS.iter().map(|option| all(&[(0, Dword, Eq, bits(*option))]));
    noticed.insert(libc::SYS_prctl, settings.collect::<Option<_>>()?);
    noticed.insert(libc::SYS_seccomp, vec![none_of(0, SECCOMP_QUESTIONS)?]);
    noticed.insert(libc::SYS_landlock_restrict_self, Vec::new());
    // To turn an alarm off is harmless.
    #[cfg(target_arch = "x86_64")]
    noticed.insert(libc::SYS_alarm, vec![all(&[(0, Dword, Ne, 0)])?]);
    for (number, flags) in OPENINGS {
        let mut writes = Vec::new();
        for bit in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC] {
            writes.push(all(&[flag(*flags, bits(bit))])?);
        }
        // What may not be read is worth a word too.
        let rules = if profile.reading == Reading::Granted { Vec::new() } else { writes };
        noticed.insert(*number, rules);
    }
    let filter = compile(noticed, SeccompAction::Trace(notify::MARK), machine)?;
    let mut program = if machine == TargetArch::x86_64 { other_numbers() } else { Vec::new() };
    program.extend(filter);
    Some(program)
}

/// Options of `prctl` that change what the whole process, or the thread for good, may do or gets.
const LASTING_SETTINGS: &[i32] = &[
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_SECCOMP,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_SECUREBITS,
    libc::PR_SET_KEEPCAPS,
    libc::PR_SET_MM,
    libc::PR_SET_THP_DISABLE,
    libc::PR_SET_PTRACER,
    libc::PR_MCE_KILL,
    libc::PR_SET_TSC,
    PR_SET_IO_FLUSHER,
    libc::PR_SET_SPECULATION_CTRL,
];

const PR_SET_IO_FLUSHER: i32 = 57;

/// Operations of `seccomp` that only ask.
const SECCOMP_QUESTIONS: &[u64] =
    &[libc::SECCOMP_GET_ACTION_AVAIL as u64, libc::SECCOMP_GET_NOTIF_SIZES as u64];

/// Returns the beginning of a filter that notices the second set of numbers of x86-64, and leaves the rest to what
/// stands behind it.
fn other_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST: u32 = 0x4000_0000;
    let line = |code, k, jt, jf| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        line(LOAD_NUMBER, 0, 0, 0),
        line(JUMP_IF_AT_LEAST, FIRST, 0, 1),
        line(RETURN, SeccompAction::Trace(notify::MARK).into(), 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::tests::profile;

    #[test]
    fn filters_can_be_made_for_every_machine() {
        for machine in [TargetArch::x86_64, TargetArch::aarch64] {
            for reading in [Reading::Granted, Reading::Anything] {
                let profile = Profile { reading, ..profile(Grants::default()) };
                assert!(filter(&profile, 1, machine).is_some());
            }
        }
    }
}

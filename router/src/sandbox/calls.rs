//! Which system calls a confined process may make: filters of seccomp.
//!
//! They deny what Landlock does not bound: sockets, processes of others, metadata of files, side doors of the
//! kernel. What is denied fails with an error instead of killing, because a library that merely tries and
//! copes is no crash.
//!
//! A grant takes as little back as it needs. Modes, owners, times and attributes of files stay out of
//! reach even where writing is granted, since no rule of Landlock bounds them to the granted places. Builds need
//! modes and times: for them the router changes these itself, inside the granted places. No file gets a set-id bit.

pub(super) mod observe;

use std::collections::BTreeMap;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::table::{
    ABSENT, ATTRIBUTES, CONNECTING, CREATIONS, DENIED, MODES, OWN_PROCESS_ONLY, OWNERS, PROGRAMS,
    SIGNALS, TIMES, WRITING,
};
use super::{Metadata, Profile, notify};
use crate::digest::Digest;
use crate::grant::Grants;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the machine for which filters are made here.
pub(super) fn machine() -> Option<TargetArch> {
    std::env::consts::ARCH.try_into().ok()
}

/// Puts filters in force, for this thread and those that it will start. False when the kernel has none.
pub(super) fn restrict(filters: &[BpfProgram]) -> bool {
    !filters.is_empty() && filters.iter().all(|filter| seccompiler::apply_filter(filter).is_ok())
}

/// Returns the filter that turns calls into notices: every connect, every new process, and every change of metadata, as
/// far as the router decides on them.
pub(super) fn notices(profile: &Profile, machine: TargetArch) -> Option<BpfProgram> {
    let mut noticed = Rules::new();
    if !profile.grants.connect.is_empty() {
        noticed.insert(libc::SYS_connect, Vec::new());
    }
    if profile.processes.is_some() {
        // Threads are not counted: they live and end with their process.
        let process = all(&[(0, Qword, MaskedEq(bits(libc::CLONE_THREAD)), 0)])?;
        noticed.insert(libc::SYS_clone, vec![process]);
        #[cfg(target_arch = "x86_64")]
        noticed.extend([(libc::SYS_fork, Vec::new()), (libc::SYS_vfork, Vec::new())]);
    }
    if profile.metadata == Metadata::Mediated {
        noticed.extend(metadata_calls().map(|number| (number, Vec::new())));
    }
    compile(noticed, SeccompAction::Trace(notify::MARK), machine)
}

/// Returns the calls that change modes, times and owners of files.
fn metadata_calls() -> impl Iterator<Item = i64> {
    let modes = MODES.iter().map(|(number, _)| *number);
    modes.chain(TIMES.iter().copied()).chain(OWNERS.iter().copied())
}

/// Returns the digest of all filters of a profile, as a record names them. The id of the process, which some
/// have, is left out of it.
pub(super) fn digest(profile: &Profile) -> Option<Digest> {
    let machine = machine()?;
    let mut filters = denials(profile, 0, machine)?;
    if profile.asks() {
        filters.insert(0, notices(profile, machine)?);
    }
    let mut bytes = Vec::new();
    for line in filters.iter().flatten() {
        bytes.extend(line.code.to_le_bytes());
        bytes.extend([line.jt, line.jf]);
        bytes.extend(line.k.to_le_bytes());
    }
    Some(Digest::of(&bytes))
}

/// Returns the filters that deny what is not granted. `own` is the id of this process.
pub(super) fn denials(profile: &Profile, own: u32, machine: TargetArch) -> Option<Vec<BpfProgram>> {
    let mut denied = denied(&profile.grants, profile.writes(), own)?;
    denied.extend(metadata(profile.metadata)?);
    denied.extend(set_id_creations()?);
    let every = |numbers: &[i64]| numbers.iter().map(|number| (*number, Vec::new())).collect();
    let mut filters = vec![
        compile(denied, errno(libc::EPERM), machine)?,
        compile(every(ABSENT), errno(libc::ENOSYS), machine)?,
        compile(every(ATTRIBUTES), errno(libc::EOPNOTSUPP), machine)?,
    ];
    if machine == TargetArch::x86_64 {
        filters.push(other_numbers());
    }
    Some(filters)
}

/// The bits of a mode that lend the rights of a file's owner or group to users who start it.
const SET_ID_BITS: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Matches changes of modes, times and owners that are denied. Where the router makes them, it is only asked about modes
/// without set-id bits: a denial takes precedence over a notice.
fn metadata(metadata: Metadata) -> Option<Rules> {
    match metadata {
        Metadata::Denied => Some(metadata_calls().map(|number| (number, Vec::new())).collect()),
        Metadata::Mediated => {
            let rules = |(number, mode): &(i64, u8)| Some((*number, set_id(*mode, &[])?));
            MODES.iter().map(rules).collect()
        }
    }
}

/// Matches the creation of files with set-id bits.
fn set_id_creations() -> Option<Rules> {
    let nameless = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let rules = |(number, mode, flags): &(i64, u8, Option<u8>)| {
        let Some(flags) = flags else { return Some((*number, set_id(*mode, &[])?)) };
        // Without these flags the mode is not read, and may be anything.
        let mut rules = set_id(*mode, &[flag(*flags, bits(libc::O_CREAT))])?;
        rules.extend(set_id(*mode, &[flag(*flags, bits(nameless))])?);
        Some((*number, rules))
    };
    CREATIONS.iter().map(rules).collect()
}

/// Matches when the mode has a set-id bit and all other conditions hold.
fn set_id(mode: u8, others: &[Condition]) -> Option<Vec<SeccompRule>> {
    let rule = |bit: &u32| all(&[&[flag(mode, u64::from(*bit))], others].concat());
    SET_ID_BITS.iter().map(rule).collect()
}

fn denied(grants: &Grants, writes: bool, own: u32) -> Option<Rules> {
    let mut denied = Rules::new();
    let mut deny = |numbers: &[i64]| denied.extend(numbers.iter().map(|n| (*n, Vec::new())));
    deny(DENIED);
    let (connect, run) = (!grants.connect.is_empty(), !grants.run.is_empty());
    if !connect {
        deny(CONNECTING);
    }
    if !run {
        deny(PROGRAMS);
        deny(SIGNALS);
    }
    if !writes {
        deny(WRITING);
    }
    // A process may bound itself. Bounding the processor time of its parent would end the parent.
    for number in OWN_PROCESS_ONLY {
        denied.insert(*number, vec![all(&[(0, Dword, Ne, 0)])?]);
    }
    denied.insert(libc::SYS_clone, clones(run)?);
    if run {
        denied.insert(libc::SYS_memfd_create, vec![runnable_memory()?]);
    } else {
        // Abort raises its signal with this call, in its own process.
        denied.insert(libc::SYS_tgkill, vec![all(&[(0, Dword, Ne, own.into())])?]);
    }
    let mut pairs = vec![none_of(0, &[bits(libc::AF_UNIX)])?];
    if connect {
        denied.insert(libc::SYS_socket, other_sockets()?);
        pairs.push(none_of(1, &PAIRS.map(bits))?);
        let opens = |flags| all(&[flag(flags, bits(libc::MSG_FASTOPEN))]);
        denied.insert(libc::SYS_sendto, vec![all(&[(4, Qword, Ne, 0)])?, opens(3)?]);
        denied.insert(libc::SYS_sendmsg, vec![opens(2)?]);
        denied.insert(libc::SYS_sendmmsg, vec![opens(3)?]);
        let routes: Option<Vec<_>> = ROUTES
            .iter()
            .map(|(level, option)| {
                all(&[(1, Dword, Eq, bits(*level)), (2, Dword, Eq, bits(*option))])
            })
            .collect();
        denied.insert(libc::SYS_setsockopt, routes?);
    }
    denied.insert(libc::SYS_socketpair, pairs);
    // Whoever hears of a call can also let it through.
    denied.insert(libc::SYS_seccomp, vec![all(&[flag(1, NEW_LISTENER)])?]);
    // The signal that ends this process with its parent stays in force, and its descriptors stay visible.
    let options = [libc::PR_SET_PDEATHSIG, libc::PR_SET_DUMPABLE];
    let options: Option<Vec<_>> =
        options.iter().map(|option| all(&[(0, Dword, Eq, bits(*option))])).collect();
    denied.insert(libc::SYS_prctl, options?);
    // Asking is fine. Changing it would make readable memory runnable, or addresses known.
    denied.insert(libc::SYS_personality, vec![all(&[(0, Dword, Ne, u32::MAX.into())])?]);
    denied.insert(libc::SYS_ioctl, vec![none_of(1, HARMLESS_REQUESTS)?]);
    let commands = [libc::F_SETOWN, F_SETOWN_EX, libc::F_SETLEASE];
    let commands: Option<Vec<_>> =
        commands.iter().map(|command| all(&[(1, Dword, Eq, bits(*command))])).collect();
    denied.insert(libc::SYS_fcntl, commands?);
    Some(denied)
}

/// Options that send the packets of a granted connection by way of another host: IP_OPTIONS, and the headers
/// of IPv6 for routes, hops and destinations, in their new and old numbers.
const ROUTES: [(i32, i32); 9] = [
    (libc::IPPROTO_IP, 4),
    (libc::IPPROTO_IPV6, 3),
    (libc::IPPROTO_IPV6, 4),
    (libc::IPPROTO_IPV6, 5),
    (libc::IPPROTO_IPV6, 6),
    (libc::IPPROTO_IPV6, 54),
    (libc::IPPROTO_IPV6, 55),
    (libc::IPPROTO_IPV6, 57),
    (libc::IPPROTO_IPV6, 59),
];

/// The flag with which a filter has somebody who hears of calls.
const NEW_LISTENER: u64 = 8;

/// The signals of a descriptor go where these say: to the parent, too, before Landlock knew of signals. And a
/// lease makes others wait for a file.
const F_SETOWN_EX: i32 = 15;

/// Device requests that change nothing of others. Some of the rest change files that are only open for
/// reading, or type into terminals.
const HARMLESS_REQUESTS: &[u64] =
    &[libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ];

/// Matches the starts of processes that are denied: all but threads, or, with programs granted, those in
/// other namespaces and those that would be the parent's.
fn clones(run: bool) -> Option<Vec<SeccompRule>> {
    let apart = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_PARENT,
    ];
    let apart = apart.iter().map(|flag_bits| all(&[flag(0, bits(*flag_bits))]));
    let process = all(&[(0, Qword, MaskedEq(bits(libc::CLONE_THREAD)), 0)]);
    apart.chain((!run).then_some(process)).collect()
}

/// Matches files in memory that could be started as programs: Landlock does not see them.
fn runnable_memory() -> Option<SeccompRule> {
    const NOT_RUNNABLE: u64 = 8;
    all(&[(1, Dword, MaskedEq(NOT_RUNNABLE), 0)])
}

/// Streams, with every flag that a socket can be made with.
const STREAMS: [i32; 4] = [
    libc::SOCK_STREAM,
    libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
    libc::SOCK_STREAM | libc::SOCK_NONBLOCK,
    libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
];

/// The pairs that are left where sending to an address is not denied. Half a pair for datagrams sends to
/// whatever address it is told: to every daemon that waits for datagrams.
const PAIRS: [i32; 8] = {
    let mut pairs = [libc::SOCK_SEQPACKET; 8];
    let mut index = 0;
    while index < 4 {
        pairs[index] = STREAMS[index];
        pairs[index + 4] = STREAMS[index] - libc::SOCK_STREAM + libc::SOCK_SEQPACKET;
        index += 1;
    }
    pairs
};

/// Matches every socket that is not one of plain TCP.
fn other_sockets() -> Option<Vec<SeccompRule>> {
    Some(vec![
        none_of(0, &[bits(libc::AF_INET), bits(libc::AF_INET6)])?,
        none_of(1, &STREAMS.map(bits))?,
        none_of(2, &[0, bits(libc::IPPROTO_TCP)])?,
    ])
}

/// A condition: which argument, how much of it, how it is compared, with what.
type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// Holds when the bit is set in an argument.
fn flag(argument: u8, bit: u64) -> Condition {
    (argument, Dword, MaskedEq(bit), bit)
}

/// Matches when all conditions hold.
fn all(conditions: &[Condition]) -> Option<SeccompRule> {
    let conditions: Result<_, _> = conditions
        .iter()
        .cloned()
        .map(|(argument, length, comparison, value)| {
            SeccompCondition::new(argument, length, comparison, value)
        })
        .collect();
    SeccompRule::new(conditions.ok()?).ok()
}

/// Matches when an argument is none of the values.
fn none_of(argument: u8, values: &[u64]) -> Option<SeccompRule> {
    let conditions: Vec<Condition> =
        values.iter().map(|value| (argument, Dword, Ne, *value)).collect();
    all(&conditions)
}

/// The constants of libc are signed; their bits are not.
fn bits(constant: i32) -> u64 {
    u64::from(constant.cast_unsigned())
}

fn errno(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.cast_unsigned())
}

fn compile(rules: Rules, action: SeccompAction, machine: TargetArch) -> Option<BpfProgram> {
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).ok()?;
    filter.try_into().ok()
}

/// Denies the second set of numbers that x86-64 has for its calls ("x32"): the filters above know only the
/// first, and the kernel says that both are of the same machine.
fn other_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST: u32 = 0x4000_0000;
    let line = |code, k, jt, jf| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        line(LOAD_NUMBER, 0, 0, 0),
        line(JUMP_IF_AT_LEAST, FIRST, 0, 1),
        line(RETURN, errno(libc::EPERM).into(), 0, 0),
        line(RETURN, SeccompAction::Allow.into(), 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Grants> {
        let (path, endpoint) = (vec!["/x".into()], vec!["h:1".parse().unwrap()]);
        vec![
            Grants::default(),
            Grants { connect: endpoint.clone(), ..Grants::default() },
            Grants { run: path.clone(), ..Grants::default() },
            Grants { write: path.clone(), ..Grants::default() },
            Grants { connect: endpoint, run: path.clone(), write: path, ..Grants::default() },
        ]
    }

    fn profile() -> Profile {
        super::super::tests::profile(Grants::default())
    }

    #[test]
    fn the_digest_is_of_the_filters_and_of_nothing_else() {
        let of = |profile: &Profile| digest(profile).unwrap();
        let denied = profile();
        assert_eq!(of(&denied), of(&profile()));
        let mediated = Profile { metadata: Metadata::Mediated, ..profile() };
        assert_ne!(of(&denied), of(&mediated));
        let running = Grants { run: vec!["/x".into()], ..Grants::default() };
        assert_ne!(of(&denied), of(&Profile { grants: running, ..profile() }));
    }

    #[test]
    fn filters_can_be_made_for_every_machine_and_grant() {
        for machine in [TargetArch::x86_64, TargetArch::aarch64] {
            let asking = Profile { processes: Some(1), ..profile() };
            assert!(notices(&asking, machine).is_some());
            for grants in every_kind() {
                for metadata in [Metadata::Denied, Metadata::Mediated] {
                    let profile = Profile { grants: grants.clone(), metadata, ..profile() };
                    let filters = denials(&profile, 1, machine).unwrap();
                    assert_eq!(filters.len(), if machine == TargetArch::x86_64 { 4 } else { 3 });
                }
            }
        }
    }

    #[test]
    fn a_grant_takes_back_what_it_needs_and_no_more() {
        let whole = |grants: &Grants| -> Vec<i64> {
            let denied = denied(grants, !grants.write.is_empty(), 1).unwrap();
            denied.into_iter().filter(|(_, rules)| rules.is_empty()).map(|(n, _)| n).collect()
        };
        let nothing = whole(&Grants::default());
        for grants in every_kind() {
            let left = whole(&grants);
            for number in &nothing {
                let taken_back = (!grants.connect.is_empty() && CONNECTING.contains(number))
                    || (!grants.run.is_empty() && PROGRAMS.contains(number))
                    || (!grants.run.is_empty() && SIGNALS.contains(number))
                    || (!grants.write.is_empty() && WRITING.contains(number));
                assert_eq!(left.contains(number), !taken_back, "{number} with {grants:?}");
            }
        }
    }

    #[test]
    fn a_call_stands_in_one_list() {
        let lists = [
            ABSENT,
            ATTRIBUTES,
            CONNECTING,
            DENIED,
            OWN_PROCESS_ONLY,
            OWNERS,
            PROGRAMS,
            SIGNALS,
            TIMES,
            WRITING,
        ];
        let mut numbers: Vec<i64> = lists.concat();
        numbers.extend(MODES.iter().map(|(number, _)| *number));
        numbers.extend(CREATIONS.iter().map(|(number, ..)| *number));
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}

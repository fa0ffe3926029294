//! What a confined process reaches of files, TCP ports and other processes: Landlock.
//!
//! A rule is bound to the file that a path leads to now. A file that is replaced by another one later, as
//! editors do it, is not covered any more; what is made in a granted directory is. Landlock does not bound
//! asking for a file's size, times or link target, nor watching it.

use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
    make_bitflags,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::{Profile, Reading, Workspace, sys};
use crate::grant::Grants;

/// The lowest version that bounds every way to write: the second knows no truncation.
pub(super) const WHOLE: u32 = 3;

/// The lowest version that keeps signals inside.
pub(super) const SCOPED: u32 = 6;

/// The lowest version that knows ports.
const PORTS: u32 = 4;

/// The highest version whose rights we know.
const KNOWN: u32 = 9;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Devices, sockets by path and programs are no part of writing.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | Refer | RemoveDir | RemoveFile | MakeDir | MakeReg
        | MakeSock | MakeFifo | MakeSym
});

const RUN: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | Execute});

/// The rights that a file has that is no directory.
const OF_FILES: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | Execute});

/// What every program with shared libraries may read, and that holds nobody's secrets. Not all of it is
/// everywhere.
const EVERYBODYS: &[&str] = &[
    // Libraries, and how they are found.
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    // Languages and times.
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/etc/localtime",
    "/etc/timezone",
    // Names of hosts, services and users.
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    // Whom to trust. The directories beside these hold private keys.
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    // The machine, as allocators and thread pools look at it.
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
];

/// What starts programs with shared libraries. The kernel opens it like a program.
const STARTERS: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "/lib64/ld-linux-x86-64.so.2",
    #[cfg(target_arch = "x86_64")]
    "/lib/ld-musl-x86_64.so.1",
    #[cfg(target_arch = "aarch64")]
    "/lib/ld-linux-aarch64.so.1",
    #[cfg(target_arch = "aarch64")]
    "/lib/ld-musl-aarch64.so.1",
];

/// A file or directory, and what may be done with it.
struct Rule {
    file: OwnedFd,
    access: BitFlags<AccessFs>,
}

/// Who holds connections to the granted hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connects {
    /// Somebody outside makes them. None can be made here.
    Outside,
    /// The process makes them itself, to the granted ports of any host.
    Here,
}

/// Bounds this thread and those that it will start. Returns the version of Landlock that is in force, or 0.
///
/// # Errors
/// When something granted cannot be opened.
pub(super) fn restrict(profile: &Profile, connects: Connects) -> io::Result<u32> {
    // Also without Landlock: a grant of nothing is a mistake everywhere.
    let rules = rules(profile)?;
    let version = sys::landlock_version().min(KNOWN);
    let in_force = version > 0 && enforce(profile, connects, version, &rules).is_ok();
    Ok(if in_force { version } else { 0 })
}

fn enforce(
    profile: &Profile,
    connects: Connects,
    version: u32,
    rules: &[Rule],
) -> Result<(), RulesetError> {
    let abi = ABI::from(i32::try_from(version).unwrap_or_default());
    let mut handled = AccessFs::from_write(abi) | AccessFs::Execute;
    if profile.reading == Reading::Granted {
        handled |= READ;
    }
    // The version is the kernel's own, so whatever is refused is a failure and not an older kernel.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?;
    let ports = ports(profile, connects);
    if version >= PORTS {
        let any = AccessNet::from_all(abi) & !BitFlags::from(AccessNet::ConnectTcp);
        ruleset = match ports {
            Some(_) => ruleset.handle_access(AccessNet::from_all(abi))?,
            None => ruleset.handle_access(any)?,
        };
    }
    if version >= SCOPED {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut ruleset = ruleset.create()?;
    for rule in rules {
        let access = rule.access & handled;
        if !access.is_empty() {
            ruleset = ruleset.add_rule(PathBeneath::new(&rule.file, access))?;
        }
    }
    if version >= PORTS {
        for port in ports.unwrap_or_default() {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
    }
    ruleset.restrict_self().map(drop)
}

/// Returns the ports to which this process itself may connect; none means any.
fn ports(profile: &Profile, connects: Connects) -> Option<Vec<u16>> {
    match connects {
        Connects::Outside => Some(Vec::new()),
        Connects::Here => profile.grants.connect.iter().map(|endpoint| endpoint.port).collect(),
    }
}

/// Lists the places that a process may read which may not read everything.
pub(super) fn readable(profile: &Profile) -> impl Iterator<Item = PathBuf> {
    let Grants { read, write, run, .. } = &profile.grants;
    let granted = [&profile.library_path, read, write, run].into_iter().flatten().cloned();
    EVERYBODYS.iter().map(PathBuf::from).chain(granted)
}

fn rules(profile: &Profile) -> io::Result<Vec<Rule>> {
    let grants = &profile.grants;
    let null = BitFlags::from(AccessFs::WriteFile) | READ;
    let mut rules = vec![rule(Path::new("/dev/null"), null)?];
    if profile.reading == Reading::Granted {
        let everybodys = EVERYBODYS.iter().map(PathBuf::from);
        for path in everybodys.chain(profile.library_path.iter().cloned()) {
            rules.extend(if_there(rule(&path, READ))?);
        }
        // What it starts would have it too, and could read the memory of whoever started it.
        if grants.run.is_empty() {
            rules.extend(if_there(of_this_process())?);
        }
    }
    let granted = [(&grants.read, READ), (&grants.write, WRITE), (&grants.run, RUN)];
    for (paths, access) in granted {
        for path in paths {
            rules.push(rule(path, access)?);
        }
    }
    if let Some(workspace) = &profile.workspace {
        rules.extend(of_workspace(workspace)?);
    }
    if !grants.run.is_empty() {
        for path in STARTERS {
            rules.extend(if_there(rule(Path::new(path), RUN))?);
        }
    }
    Ok(rules)
}

/// Lets the process read what the kernel tells of it, and of no other.
fn of_this_process() -> io::Result<Rule> {
    let rule = rule(Path::new("/proc/self"), READ)?;
    // The kernel makes this directory anew when nobody holds it, and the rule would be about the old one.
    // So it is held for good.
    let _held: i32 = rule.file.try_clone()?.into_raw_fd();
    Ok(rule)
}

/// Lets the process work in its workspace, and nowhere where a link in it leads.
fn of_workspace(workspace: &Workspace) -> io::Result<Vec<Rule>> {
    let run = if workspace.run { AccessFs::Execute.into() } else { BitFlags::empty() };
    let mut root = rule(&workspace.root, READ)?;
    root.access |= run;
    let mut rules = Vec::with_capacity(workspace.write.len() + 1);
    for path in &workspace.write {
        let within = |error: rustix::io::Errno| {
            let error = io::Error::from(error);
            let text = format!("cannot open {path:?} in the workspace: {error}");
            io::Error::new(error.kind(), text)
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let straight =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&root.file, path.as_str(), flags, Mode::empty(), straight);
        let file = opened.map_err(within)?;
        let status = rustix::fs::fstat(&file).map_err(within)?;
        let access = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => WRITE,
            _ => WRITE & OF_FILES,
        };
        rules.push(Rule { file, access });
    }
    rules.push(root);
    Ok(rules)
}

fn rule(path: &Path, access: BitFlags<AccessFs>) -> io::Result<Rule> {
    let named = |error: rustix::io::Errno| {
        let error = io::Error::from(error);
        let text = format!("cannot open {}, which it is to have: {error}", path.display());
        io::Error::new(error.kind(), text)
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(named)?;
    let status = rustix::fs::fstat(&file).map_err(named)?;
    let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    let access = match (is_directory, access.contains(AccessFs::Execute)) {
        (true, true) => {
            let text = format!("{} is a directory, and no program", path.display());
            return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
        }
        (true, false) => access,
        (false, _) => access & OF_FILES,
    };
    Ok(Rule { file, access })
}

/// Turns what is not there into nothing.
fn if_there(rule: io::Result<Rule>) -> io::Result<Option<Rule>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match rule {
        Ok(rule) => Ok(Some(rule)),
        // What cannot even be looked up is as good as not there.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

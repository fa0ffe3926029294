//! How a process confines itself, by what is granted, before it opens foreign code.
//!
//! Without grants it can change no file, start no program and reach no host or process. Depending on the
//! profile it can read everything, because a library may live on anything installed, or only what every
//! program needs. Each grant opens as much as it says:
//!
//! - `read`: that file, or the directory with all in it.
//! - `write`: the same, to make, change and remove what is there. Modes, owners, times and attributes cannot
//!   be changed anywhere: no kernel bounds that to a place.
//! - `run`: that program, and whatever starts programs with shared libraries. A script needs its interpreter
//!   granted too. What is started is confined like this process, and sees `/proc/self` only if `/proc` is
//!   granted. The line is drawn between programs, not between codes: what starts shared libraries can be
//!   told to start any that can be read.
//! - `connect`: connections over TCP, made by somebody outside who knows the granted hosts. Nothing else:
//!   neither datagrams nor waiting for others.
//!
//! The rights of a superuser are given up in any case, limits bound memory and processor time, and what the
//! kernel cannot do is reported, not hidden.

mod attempt;
mod calls;
mod file_change;
mod files;
mod notify;
mod sys;
mod table;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::grant::{Feature, Grants};
pub(crate) use attempt::{Attempt, ReadablePlaces};
pub(crate) use file_change::{ChangeKind, ChangeTarget, FileChange};
use files::Connects;
pub(crate) use notify::{Listener, Notice, NoticeKind, Target, nowhere, probe};
#[cfg(test)]
pub(crate) use notify::{MARK, hostile, listen};
pub(crate) use sys::{
    Code, close_inherited_descriptors, fork, group_of, heed_all_signals, heed_children,
    ignore_file_size_signal, is_timer_armed, process_settings, session_of, set_up_allocator,
    share_descriptors, signal_handlers,
};

/// What a dry run may use.
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

/// What a confined process may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// Whatever its user may.
    Anything,
    /// What every program needs, and what is granted.
    Granted,
}

/// What a confined process may use and reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// How much address space it may have.
    pub(crate) memory: u64,
    /// How much processor time it may take.
    pub(crate) processor: Option<Duration>,
    /// How many descriptors it may have open.
    pub(crate) descriptors: u64,
    pub(crate) reading: Reading,
    /// More places that may be read: the library, and where the system's loader looks for others. Those that
    /// are not there are left out.
    #[serde(with = "paths")]
    pub(crate) library_path: Vec<PathBuf>,
    pub(crate) grants: Grants,
    /// A directory in which it works, by paths that lead nowhere else.
    pub(crate) workspace: Option<Workspace>,
    /// Handling of changes to modes and times.
    pub(crate) metadata: Metadata,
    /// How many processes it may have, itself among them. Somebody outside lets each begin or not; without this, nobody
    /// is asked.
    pub(crate) processes: Option<usize>,
    /// How large a file may become that it writes; where nothing may be written, no file grows at all.
    pub(crate) file_size: Option<u64>,
    /// What may be missing.
    pub(crate) accept: Vec<Feature>,
}

/// A directory in which a process works: all of it can be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Workspace {
    /// The directory.
    pub(crate) root: PathBuf,
    /// What of it may be written, by relative paths. None of them leads through a link: whoever may write there
    /// could have put one.
    pub(crate) write: Vec<String>,
    /// Whether programs may be started that are in it.
    pub(crate) run: bool,
}

/// Whether modes and times of files may be changed. No kernel bounds that to a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metadata {
    /// Nowhere.
    #[default]
    Denied,
    /// In the places that may be written: the router changes them there, on descriptors of its own.
    Mediated,
}

impl Metadata {
    /// Returns the name that evidence records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Mediated => "mediated",
        }
    }
}

impl Profile {
    /// Says whether it may write anywhere.
    fn writes(&self) -> bool {
        let within = |workspace: &Workspace| !workspace.write.is_empty();
        !self.grants.write.is_empty() || self.workspace.as_ref().is_some_and(within)
    }

    /// Returns the digest of the filters of seccomp that it leads to; none where there can be none.
    pub(crate) fn seccomp_digest(&self) -> Option<Digest> {
        calls::digest(self)
    }

    /// Returns what this profile needs of the kernel.
    pub(crate) fn needed(&self) -> Vec<Feature> {
        let mut needed = vec![Feature::Landlock, Feature::Seccomp];
        if !self.grants.run.is_empty() {
            needed.push(Feature::LandlockScope);
        }
        if self.asks() {
            needed.push(Feature::SeccompNotify);
        }
        needed
    }

    /// Says whether somebody outside is asked about some of its calls.
    fn asks(&self) -> bool {
        !self.grants.connect.is_empty()
            || self.processes.is_some()
            || self.metadata == Metadata::Mediated
    }

    /// Returns what is missing and may not be: with any of it, no foreign code is to be opened.
    pub(crate) fn refused(&self, confinement: &Confinement) -> Vec<Feature> {
        let accepted = |feature: &Feature| self.accept.contains(feature);
        confinement.missing.iter().copied().filter(|feature| !accepted(feature)).collect()
    }
}

/// Tells what the kernel offers to confine processes with, so that what was found out with it is not believed without
/// it. Nothing is confined.
pub(crate) fn offered() -> String {
    let (version, notices) = (sys::landlock_version(), sys::seccomp_notices());
    format!("landlock {version}, notices of seccomp {notices}\n")
}

/// Which parts of the confinement are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// The version of Landlock that is in force; 0 is none.
    pub(crate) landlock: u32,
    /// The errors of Landlock that the kernel has mended, a bit each, if it tells.
    pub(crate) errata: Option<u32>,
    /// Whether the filters of seccomp are in force.
    pub(crate) seccomp: bool,
    /// What the profile needs and the kernel did not give.
    pub(crate) missing: Vec<Feature>,
}

impl Confinement {
    /// Says whether all of it is in force.
    pub(crate) fn is_full(&self) -> bool {
        self.landlock >= files::WHOLE && self.seccomp && self.missing.is_empty()
    }

    fn of(profile: &Profile, landlock: u32, seccomp: bool, notices: bool) -> Self {
        let is_missing = |feature: &Feature| match feature {
            Feature::Landlock => landlock < files::WHOLE,
            Feature::LandlockScope => landlock < files::SCOPED,
            Feature::Seccomp => !seccomp,
            Feature::SeccompNotify => !notices,
        };
        let missing = profile.needed().into_iter().filter(is_missing).collect();
        let errata = sys::landlock_errata().filter(|_| landlock > 0);
        Self { landlock, errata, seccomp, missing }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match self.landlock {
            0 => "none",
            version if version < files::WHOLE => "partial",
            _ => "full",
        };
        let seccomp = if self.seccomp { "full" } else { "none" };
        write!(f, "Landlock {landlock}, seccomp {seccomp}")?;
        for (index, feature) in self.missing.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "; missing: " } else { ", " }, feature.name())?;
        }
        Ok(())
    }
}

/// What comes of confining a process.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) confinement: Confinement,
    /// Where notices of connects, and of processes that begin, arrive, if there are any. Whoever holds it decides on them, so it has to be
    /// handed to somebody outside, and closed here, before foreign code is opened.
    pub(crate) connects: Option<OwnedFd>,
}

/// Confines this process, for good. Call it before foreign code runs, with one thread running. `parent`
/// is the process that must outlive this one. Whether to go on with what is missing is the caller's to say.
///
/// # Errors
/// When the parent has gone, when something granted cannot be opened, or when a limit cannot be set.
pub(crate) fn enter(profile: &Profile, parent: u32) -> io::Result<Entered> {
    confine(profile, parent, None)
}

/// As [`enter`], but what hears of calls is handed over at once: who is granted no connections cannot send it later.
///
/// # Errors
/// As [`enter`], and when it cannot be handed over.
pub(crate) fn enter_handing(
    profile: &Profile,
    parent: u32,
    hand: impl Fn(OwnedFd) -> io::Result<()>,
) -> io::Result<Entered> {
    confine(profile, parent, Some(&hand))
}

/// As [`enter`], for a process under observation: its attempts are denied even if they are granted, and the owner of the
/// listener is notified. Where the kernel has no notices, there is no listener, and `hand` is not called.
///
/// # Errors
/// As [`enter`], and when it cannot be handed over.
pub(crate) fn enter_observed(
    profile: &Profile,
    parent: u32,
    hand: impl FnOnce(OwnedFd) -> io::Result<()> + Send + 'static,
) -> io::Result<Entered> {
    begin(profile, parent)?;
    let machine = calls::machine();
    let landlock = files::restrict(profile, Connects::Outside)?;
    // The filter holds for this thread, and sending is a part of it. So another thread hands the listener over, and is
    // gone before foreign code is opened.
    let (sender, receiver) = std::sync::mpsc::channel::<OwnedFd>();
    let handing = std::thread::Builder::new().stack_size(HANDING_STACK).spawn(move || {
        // Nothing comes if there are no notices.
        receiver.recv().map_or(Ok(()), hand)
    })?;
    let filter = machine.and_then(|it| calls::observe::filter(profile, std::process::id(), it));
    let listener = filter.and_then(|filter| notify::listen(&filter).ok());
    let is_observed = listener.is_some();
    if let Some(listener) = listener {
        sender.send(listener).map_err(io::Error::other)?;
    }
    drop(sender);
    handing.join().map_err(|_| io::Error::other("the listener was not handed over"))??;
    let denied = Profile { grants: Grants::default(), ..profile.clone() };
    let filters = || calls::denials(&denied, std::process::id(), machine?);
    let seccomp = is_observed || filters().is_some_and(|filters| calls::restrict(&filters));
    let confinement = Confinement::of(profile, landlock, seccomp, is_observed);
    Ok(Entered { confinement, connects: None })
}

/// Bytes of stack of the thread that hands a listener over.
const HANDING_STACK: usize = 256 * 1024;

fn confine(profile: &Profile, parent: u32, hand: Option<&Hand<'_>>) -> io::Result<Entered> {
    begin(profile, parent)?;
    // Whether connects can be noticed says what Landlock has to do about them, so it is tried first.
    let machine = calls::machine();
    let wanted = machine.filter(|_| profile.asks());
    let filter = wanted.and_then(|machine| calls::notices(profile, machine));
    let mut connects = filter.and_then(|filter| notify::listen(&filter).ok());
    let asked = connects.is_some();
    let here = !profile.grants.connect.is_empty() && connects.is_none();
    let landlock = files::restrict(profile, if here { Connects::Here } else { Connects::Outside })?;
    if let Some((hand, connects)) = hand.zip(connects.take_if(|_| hand.is_some())) {
        hand(connects)?;
    }
    // Last, since it denies some of what the steps above need.
    let filters = machine.and_then(|machine| calls::denials(profile, std::process::id(), machine));
    let seccomp = filters.is_some_and(|filters| calls::restrict(&filters));
    let confinement = Confinement::of(profile, landlock, seccomp, asked);
    Ok(Entered { confinement, connects })
}

/// Leaves the session of the parent, ties this process to it, and bounds it.
fn begin(profile: &Profile, parent: u32) -> io::Result<()> {
    sys::close_inherited_descriptors()?;
    // A session of its own has no terminal, and its group is not the parent's.
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let parent_now = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if parent_now != Some(parent) {
        return Err(io::Error::other("the parent has gone"));
    }
    set_limits(profile)?;
    rustix::thread::set_no_new_privs(true)?;
    give_up_capabilities()
}

/// Takes what hears of calls away from a process that is about to be confined.
type Hand<'a> = dyn Fn(OwnedFd) -> io::Result<()> + 'a;

/// Gives up whatever a superuser may do beyond others. Nothing can bring it back: no new privileges can be
/// gained, also by starting a program.
fn give_up_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

fn set_limits(profile: &Profile) -> io::Result<()> {
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::As, profile.memory)?;
    if let Some(processor) = profile.processor {
        set_limit(Resource::Cpu, processor.as_secs())?;
    }
    set_limit(Resource::Nofile, profile.descriptors)?;
    let file_size = profile.file_size.filter(|_| profile.writes());
    if let Some(most) = file_size.or((!profile.writes()).then_some(0)) {
        set_limit(Resource::Fsize, most)?;
    }
    Ok(())
}

fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    // A limit that is already lower stays: raising it is not ours to do.
    let limit = rustix::process::getrlimit(resource).maximum.map_or(limit, |now| now.min(limit));
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// Paths as bytes: they need not be text.
mod paths {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        paths: &[PathBuf],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.as_os_str().as_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<Vec<u8>>::deserialize(deserializer)?;
        Ok(paths.into_iter().map(|path| OsString::from_vec(path).into()).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(in crate::sandbox) fn profile(grants: Grants) -> Profile {
        Profile {
            memory: 1,
            processor: None,
            descriptors: 1,
            reading: Reading::Granted,
            library_path: Vec::new(),
            grants,
            workspace: None,
            metadata: Metadata::Denied,
            processes: None,
            file_size: None,
            accept: vec![Feature::LandlockScope],
        }
    }

    fn running() -> Grants {
        Grants { run: vec!["/bin/true".into()], ..Grants::default() }
    }

    fn connecting() -> Grants {
        Grants { connect: vec!["h:1".parse().unwrap()], ..Grants::default() }
    }

    #[test]
    fn what_is_needed_follows_from_what_is_granted() {
        use Feature::{Landlock, LandlockScope, Seccomp, SeccompNotify};
        assert_eq!(profile(Grants::default()).needed(), [Landlock, Seccomp]);
        assert_eq!(profile(running()).needed(), [Landlock, Seccomp, LandlockScope]);
        assert_eq!(profile(connecting()).needed(), [Landlock, Seccomp, SeccompNotify]);
        let counted = Profile { processes: Some(9), ..profile(Grants::default()) };
        assert_eq!(counted.needed(), [Landlock, Seccomp, SeccompNotify]);
    }

    #[test]
    fn what_is_missing_is_what_was_needed_and_is_not_there() {
        use Feature::{Landlock, LandlockScope, Seccomp, SeccompNotify};
        let (nothing, run, connect) =
            (profile(Grants::default()), profile(running()), profile(connecting()));
        for (profile, landlock, seccomp, notices, missing) in [
            (&nothing, 7, true, false, vec![]),
            (&nothing, 3, true, false, vec![]),
            (&nothing, 2, true, false, vec![Landlock]),
            (&nothing, 0, false, false, vec![Landlock, Seccomp]),
            (&run, 6, true, false, vec![]),
            (&run, 5, true, false, vec![LandlockScope]),
            (&run, 0, true, false, vec![Landlock, LandlockScope]),
            (&connect, 6, true, true, vec![]),
            (&connect, 3, true, false, vec![SeccompNotify]),
        ] {
            let confinement = Confinement::of(profile, landlock, seccomp, notices);
            assert_eq!(confinement.is_full(), missing.is_empty(), "{confinement:?}");
            assert_eq!(confinement.missing, missing);
        }
    }

    #[test]
    fn only_what_is_accepted_may_be_missing() {
        let run = profile(running());
        let missing = |landlock| run.refused(&Confinement::of(&run, landlock, true, false));
        assert_eq!(missing(7), []);
        assert_eq!(missing(5), []);
        assert_eq!(missing(0), [Feature::Landlock]);
    }

    #[test]
    fn a_confinement_that_nobody_told_is_none() {
        let untold = Confinement::default();
        assert!(!untold.is_full());
        assert_eq!(untold.to_string(), "Landlock none, seccomp none");
        let missing = vec![Feature::Landlock];
        let partial = Confinement { landlock: 2, errata: None, seccomp: true, missing };
        assert_eq!(partial.to_string(), "Landlock partial, seccomp full; missing: landlock");
    }

    #[test]
    fn a_profile_survives_the_wire_with_paths_that_are_no_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let mut sent = profile(connecting());
        sent.library_path = vec![std::ffi::OsString::from_vec(vec![b'/', 0xff]).into()];
        let line = serde_json::to_vec(&sent).unwrap();
        let got: Profile = serde_json::from_slice(&line).unwrap();
        assert_eq!(got.library_path, sent.library_path);
        assert_eq!(got.grants, sent.grants);
    }
}

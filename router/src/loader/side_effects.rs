//! Changes that loading a library leaves in the process: threads, descriptors, environment, signals, directory, timers,
//! limits, priority.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Resource;

use crate::sandbox;

/// Limits of a process, by name.
const LIMITS: &[(&str, Resource)] = &[
    ("address space", Resource::As),
    ("core", Resource::Core),
    ("processor time", Resource::Cpu),
    ("data", Resource::Data),
    ("file size", Resource::Fsize),
    ("locks", Resource::Locks),
    ("locked memory", Resource::Memlock),
    ("message queues", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("descriptors", Resource::Nofile),
    ("processes", Resource::Nproc),
    ("resident memory", Resource::Rss),
    ("real-time priority", Resource::Rtprio),
    ("real-time time", Resource::Rttime),
    ("pending signals", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// Bit of a thread's flags that is set as soon as it begins to end.
const EXITING: u64 = 4;

/// The state of a process, as far as a library must leave it alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessState {
    threads: usize,
    /// What each descriptor stands for, and its flags.
    descriptors: BTreeMap<OsString, (Option<PathBuf>, String)>,
    environment: BTreeMap<OsString, OsString>,
    /// What is blocked, and where each signal goes.
    signals: (String, Vec<usize>),
    directory: Option<PathBuf>,
    /// Whether each interval timer is armed, and how many other timers there are.
    timers: ([bool; 3], usize),
    umask: String,
    limits: Vec<(Option<u64>, Option<u64>)>,
    /// Niceness, priority and policy of the main thread and of this one, and the processors of this one.
    scheduling: (Vec<String>, Vec<String>, String),
    /// Privileges, filters, locked memory and the like, by name.
    settings: BTreeMap<&'static str, String>,
}

/// Lines of a thread's status that a library must leave alone, with their names.
const STATUS_LINES: &[(&str, &str)] = &[
    ("NoNewPrivs:", "new privileges"),
    ("Seccomp:", "seccomp mode"),
    ("Seccomp_filters:", "seccomp filters"),
    ("CapInh:", "inheritable capabilities"),
    ("CapPrm:", "permitted capabilities"),
    ("CapEff:", "effective capabilities"),
    ("CapBnd:", "capability bounding set"),
    ("CapAmb:", "ambient capabilities"),
    ("VmLck:", "locked memory"),
];

/// Time that threads get to end.
const SETTLING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

impl ProcessState {
    /// Takes note of the present state.
    pub(super) fn now() -> Self {
        let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
        // Of this thread, in which the library is opened: the other one blocks signals while it starts us.
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/thread-self/status");
        let of_status = |name: &str| {
            status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
        };
        let blocked = of_status("SigBlk:");
        // A thread that was waited for may still be listed while it ends.
        let is_running = |stat: &str| {
            let fields = fields(stat);
            let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok());
            !fields.is_empty() && flags.is_none_or(|flags| flags & EXITING == 0)
        };
        let timers = read("/proc/self/timers");
        let limits = LIMITS.iter().map(|(_, limit)| {
            let limit = rustix::process::getrlimit(*limit);
            (limit.current, limit.maximum)
        });
        let scheduled = |stat: &str| -> Vec<String> {
            let fields = fields(stat);
            let of = |at: usize| fields.get(at).map(|field| (*field).to_owned());
            [16, 37, 38].into_iter().filter_map(of).collect()
        };
        Self {
            threads: entries("/proc/self/task")
                .filter(|task| {
                    let stat = std::fs::read_to_string(task.path().join("stat"));
                    stat.is_ok_and(|stat| is_running(&stat))
                })
                .count(),
            // The descriptor that lists the others has no target any more; it is the same each time.
            descriptors: entries("/proc/self/fd")
                .map(|entry| {
                    let info = std::path::Path::new("/proc/self/fdinfo").join(entry.file_name());
                    let info = std::fs::read_to_string(info).unwrap_or_default();
                    let flags = info.lines().find(|line| line.starts_with("flags:"));
                    let flags = flags.unwrap_or_default().to_owned();
                    (entry.file_name(), (std::fs::read_link(entry.path()).ok(), flags))
                })
                .collect(),
            environment: std::env::vars_os().collect(),
            signals: (blocked, sandbox::signal_handlers()),
            directory: std::env::current_dir().ok(),
            timers: (
                sandbox::is_timer_armed(),
                timers.lines().filter(|line| line.starts_with("ID:")).count(),
            ),
            umask: of_status("Umask:"),
            limits: limits.collect(),
            scheduling: (
                scheduled(&read("/proc/self/stat")),
                scheduled(&read("/proc/thread-self/stat")),
                of_status("Cpus_allowed:"),
            ),
            settings: STATUS_LINES
                .iter()
                .map(|(line, name)| (*name, of_status(line)))
                .chain(sandbox::process_settings().map(|(name, value)| (name, value.to_string())))
                .chain([("choice when memory is short", read("/proc/self/oom_score_adj"))])
                .collect(),
        }
    }

    /// Takes note of the present state as soon as there are no more threads than before, or threads had time to end.
    pub(super) fn settled(&self) -> Self {
        let deadline = Instant::now() + SETTLING;
        loop {
            let after = Self::now();
            if after.threads <= self.threads || Instant::now() >= deadline {
                return after;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Tells what changed from `self` to `after`, a line each. Values of variables are not told.
    pub(super) fn changes(&self, after: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if after.threads != self.threads {
            changes.push(format!("threads: {} before, {} after", self.threads, after.threads));
        }
        if after.descriptors != self.descriptors {
            changes.push(format!(
                "open descriptors: {} before, {} after, not the same",
                self.descriptors.len(),
                after.descriptors.len()
            ));
        }
        for (name, value) in &after.environment {
            match self.environment.get(name) {
                None => changes.push(format!("environment: {} was set", name.display())),
                Some(old) if old != value => {
                    changes.push(format!("environment: {} was changed", name.display()));
                }
                Some(_) => {}
            }
        }
        for name in self.environment.keys().filter(|name| !after.environment.contains_key(*name)) {
            changes.push(format!("environment: {} was removed", name.display()));
        }
        if after.signals.0 != self.signals.0 {
            changes.push("signal handling: other signals are blocked".to_owned());
        }
        let handlers = self.signals.1.iter().zip(&after.signals.1);
        for (index, _) in handlers.enumerate().filter(|(_, (before, after))| before != after) {
            changes.push(format!("signal handling: signal {} goes elsewhere", index + 1));
        }
        if after.directory != self.directory {
            changes.push("the working directory was changed".to_owned());
        }
        if after.timers != self.timers {
            changes.push("timers: other timers are armed".to_owned());
        }
        if after.umask != self.umask {
            changes.push("the umask was changed".to_owned());
        }
        let limits = LIMITS.iter().zip(self.limits.iter().zip(&after.limits));
        for ((name, _), _) in limits.filter(|(_, (before, after))| before != after) {
            changes.push(format!("limits: that of {name} was changed"));
        }
        for (name, _) in
            self.settings.iter().filter(|(name, old)| after.settings.get(*name) != Some(old))
        {
            changes.push(format!("process setting: {name} was changed"));
        }
        if after.scheduling != self.scheduling {
            changes.push("scheduling: priority, policy or processors were changed".to_owned());
        }
        changes
    }
}

/// Returns the fields of a `stat` file behind the name of the thread, which may hold blanks.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_without_values() {
        let before = ProcessState::now();
        let mut after = ProcessState::now();
        assert_eq!(before.changes(&before), [""; 0]);
        after.threads = before.threads + 1;
        after.environment.insert("NEW".into(), "secret".into());
        after.directory = None;
        let changes = before.changes(&after).join("\n");
        assert!(changes.contains("threads:") && changes.contains("NEW was set"), "{changes}");
        assert!(!changes.contains("secret"), "{changes}");
    }

    #[test]
    fn settings_of_the_process_are_compared() {
        let before = ProcessState::now();
        let changed = |change: fn(&mut ProcessState), told: &str| {
            let mut after = ProcessState::now();
            change(&mut after);
            let changes = before.changes(&after);
            assert!(changes.iter().any(|line| line.contains(told)), "{told}: {changes:?}");
        };
        changed(|state| state.timers.0[0] = true, "timers");
        changed(|state| state.timers.1 += 1, "timers");
        changed(|state| state.umask.push('7'), "umask");
        changed(|state| state.limits[9] = (Some(1), Some(1)), "limits: that of descriptors");
        changed(|state| state.scheduling.1[0].push('1'), "scheduling");
        changed(
            |state| state.descriptors.values_mut().for_each(|(_, flags)| flags.push('1')),
            "descriptors",
        );
        for (line, name) in STATUS_LINES {
            assert!(before.settings[name].starts_with(line), "{name}");
        }
        let names: Vec<&'static str> = before.settings.keys().copied().collect();
        assert!(names.contains(&"child subreaper") && names.contains(&"locked memory"));
        for name in names {
            let mut after = ProcessState::now();
            after.settings.insert(name, "other".to_owned());
            let told = format!("process setting: {name} was changed");
            assert!(before.changes(&after).contains(&told), "{name}");
        }
    }

    #[test]
    fn ending_threads_are_waited_for() {
        let mut before = ProcessState::now();
        // Other tests run beside this one: as many threads as there may be are never too many.
        before.threads = usize::MAX;
        let (held, release) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || release.recv().is_err());
        assert!(before.settled().threads < before.threads);
        before.threads = 0;
        assert!(before.settled().threads > 0);
        drop(held);
        assert!(thread.join().unwrap());
    }

    #[test]
    fn fields_stand_behind_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 64 7";
        assert_eq!(fields(stat)[..3], ["S", "1", "2"]);
        assert_eq!(fields(stat)[6], "64");
        assert!(fields("").is_empty());
    }
}

//! Side effects of loading: each is found, and none is carried out.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

use nexus_router::loader::{Placement, Reason};
use serde_json::json;

use super::{TrialWorld, check};
use crate::mimic::Mimic;

/// Effects on a file, with what the report says.
const ON_FILES: &[(&str, &str)] = &[
    ("write", "write: "),
    ("create", "victim.other"),
    ("append", "write: "),
    ("remove", "remove: "),
    ("rename", "rename: "),
    ("directory", "create: "),
    ("link", "link: "),
    ("symlink", "link: "),
    ("truncate", "truncate: "),
    ("mode", "change metadata: "),
    ("own_root", "write: /proc/self/root"),
    ("fork", "process: "),
    ("clone3", "process: clone3"),
    ("program", "process: "),
];

/// Effects on the process and on others, with what the report says.
const ON_PROCESSES: &[(&str, &str)] = &[
    ("signal", "signal: 18 to process"),
    ("alarm", "timer: 3600 s, alarm"),
    ("interval_timer", "timer: setitimer"),
    ("timer", "timer: timer_create"),
    ("umask", "umask was changed"),
    ("limit", "limits: that of descriptors"),
    ("priority", "setpriority"),
    ("scheduling", "scheduling: "),
    ("signal_mask", "other signals are blocked"),
    ("identity", "setgid"),
    ("shared_memory", "shmget"),
    ("listen", "bind: port 0"),
    ("ring", "io_uring_setup"),
    ("file_flags", "ioctl"),
    ("oom", "write: /proc/self/oom_score_adj"),
    ("no_new_privileges", "process setting: 38 of prctl"),
    ("subreaper", "process setting: 36 of prctl"),
    ("timer_slack", "process setting: timer slack"),
    ("close_all", "open descriptors: "),
    ("unblock", "open descriptors: "),
];

fn with_effect(part: &str, effect: &str, subject: &str) -> Mimic {
    Mimic::of_kind("mimic").script(part, json!([effect, subject]))
}

/// Asserts that the gate finds an effect, and that no host opens the library.
fn assert_found(trial: &TrialWorld, effect: &str, told: &str) {
    let run = trial.validate(&[]);
    assert_eq!(run.code(), 1, "{effect}: {}", run.stdout());
    let report = run.json();
    let (status, message) = check(&report, "NO_SIDE_EFFECTS");
    assert_eq!(status, "fail", "{effect}: {message}");
    assert!(message.contains(told), "{effect}: '{told}' is not in '{message}'");
    trial.assert_untouched(effect);
    for placement in [Placement::inline(), Placement::worker()] {
        let error = trial.load(placement).unwrap_err();
        assert_eq!(error.reason(), Reason::ChecksFailed, "{effect}: {error}");
        assert!(error.to_string().contains(told), "{effect}: {error}");
        assert_eq!(error.cause().unwrap().text, "NO_SIDE_EFFECTS", "{effect}: {error}");
        assert!(error.hint().contains("require_valid"), "{effect}: {}", error.hint());
        trial.assert_untouched(effect);
    }
}

#[test]
fn effects_on_files_are_found_and_not_carried_out() {
    for (effect, told) in ON_FILES {
        let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
        trial.write(&with_effect("constructor_effect", effect, &trial.victim()));
        assert_found(&trial, effect, told);
    }
}

#[test]
fn effects_on_processes_are_found_and_not_carried_out() {
    for (effect, told) in ON_PROCESSES {
        let trial = TrialWorld::new(&with_effect("constructor_effect", effect, ""));
        assert_found(&trial, effect, told);
    }
}

#[test]
fn effects_of_factories_are_found_and_not_carried_out() {
    for (effect, told) in [("remove", "remove: "), ("fork", "process: ")] {
        let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
        trial.write(&with_effect("factory_effect", effect, &trial.victim()));
        assert_found(&trial, effect, told);
    }
}

#[test]
fn connections_are_found_and_not_made() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let paths = ["stream", "datagram"].map(|name| directory.path().join(name));
    let stream = UnixListener::bind(&paths[0]).unwrap();
    stream.set_nonblocking(true).unwrap();
    let datagram = UnixDatagram::bind(&paths[1]).unwrap();
    datagram.set_nonblocking(true).unwrap();
    let addresses = [
        ("connect", tcp.local_addr().unwrap().to_string()),
        ("datagram", udp.local_addr().unwrap().to_string()),
        ("unix_connect", paths[0].to_str().unwrap().to_owned()),
        ("unix_datagram", paths[1].to_str().unwrap().to_owned()),
    ];
    for (effect, address) in &addresses {
        let trial = TrialWorld::new(&with_effect("constructor_effect", effect, address));
        // A datagram is sent from a socket that is bound first, which is denied already.
        let told = if *effect == "datagram" { "bind: port 0" } else { address };
        assert_found(&trial, effect, told);
    }
    let mut byte = [0];
    assert!(tcp.accept().is_err() && stream.accept().is_err());
    assert!(udp.recv(&mut byte).is_err() && datagram.recv(&mut byte).is_err());
}

/// Without this, the tests above could pass because the libraries do nothing.
#[test]
fn effects_are_carried_out_where_checks_are_not_required() {
    for (effect, is_done) in [("remove", false), ("create", true)] {
        let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
        trial.write(&with_effect("constructor_effect", effect, &trial.victim()));
        trial.load(Placement { require_valid: false, ..Placement::inline() }).unwrap();
        let place = if is_done { "victim.other" } else { "victim" };
        assert_eq!(trial.world.path(place).exists(), is_done, "{effect}");
    }
}

#[test]
fn usual_beginnings_are_no_effects() {
    let usual = [
        "ended_threads",
        "runtime",
        "late_thread",
        "null",
        "own_name",
        "memory_file",
        "probe",
        "names",
    ];
    for effect in usual {
        for part in ["constructor_effect", "factory_effect"] {
            // Threads cannot end while the system's loader holds its lock.
            let has_threads = ["ended_threads", "runtime", "late_thread"].contains(&effect);
            if has_threads && part == "constructor_effect" {
                continue;
            }
            let trial = TrialWorld::new(&with_effect(part, effect, ""));
            let run = trial.validate(&[]);
            let report = run.json();
            let (status, message) = check(&report, "NO_SIDE_EFFECTS");
            let expected = if ["probe", "names"].contains(&effect) { "warn" } else { "pass" };
            assert_eq!(status, expected, "{effect} in {part}: {message}");
            assert_eq!(run.code(), 0, "{effect} in {part}: {}", run.stdout());
            trial.load(Placement::inline()).unwrap();
            trial.load(Placement::worker()).unwrap();
        }
    }
}

#[test]
fn denied_reads_are_warnings() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    trial.write(&with_effect("constructor_effect", "read", &trial.victim()));
    let report = trial.validate(&[]).json();
    let (status, message) = check(&report, "NO_SIDE_EFFECTS");
    assert_eq!(status, "warn", "{message}");
    assert!(message.contains(&format!("read: {}", trial.victim())), "{message}");
    assert_eq!(report["ok"], true, "{report:#}");
    // Inline it may read what the router may.
    let report = trial.validate(&["--isolation", "inline"]).json();
    assert_eq!(check(&report, "NO_SIDE_EFFECTS").0, "pass");
}

//! Locks that this process has on a file stay when a worker names the file in a connect.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::FlockOperation;

use super::*;

/// Stands before the path of a file in the act of a worker.
pub(super) const ACT_ON_FILE: &str = "connect ";

#[test]
fn a_connect_on_a_file_drops_no_locks_of_the_router() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("locked");
    let file = File::create(&path).unwrap();
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(is_locked(&file));
    let act = format!("{ACT_ON_FILE}{}", path.display());
    start(&act, &[], (0, 0), ask_system).succeeds();
    assert!(is_locked(&file));
}

/// Returns whether this process has a lock on a file.
fn is_locked(file: &File) -> bool {
    let inode = format!(":{}", file.metadata().unwrap().ino());
    let process = std::process::id().to_string();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let is_ours = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1] == "POSIX" && fields[4] == process && fields[5].ends_with(&inode)
    };
    locks.lines().any(is_ours)
}

/// Connects on a descriptor of a file.
pub(super) fn connect_on(path: &str) {
    let file = File::open(Path::new(path)).unwrap();
    let place = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    assert_eq!(rustix::net::connect(&file, &place), Err(Errno::NOTSOCK));
}

//! What can stand where a store should be: nothing is damaged, nothing waits for ever, and the error says
//! what it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use nexus_router::store::{self, Error, Store};
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{PATIENCE, Place, namespaces};

const FINE: &str = "";

/// What a use of a file came to: the code of the error, or nothing.
fn code<T>(result: Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => FINE,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.hint().is_empty());
            error.code()
        }
    }
}

/// Does something that must not take for ever.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits) = channel();
    std::thread::spawn(move || done.send(work()));
    waits.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} takes for ever"))
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

fn database(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Every kind: its name, what makes it, what reading and what writing comes to.
type Kind = (&'static str, fn(&Path), &'static str, &'static str);

const KINDS: &[Kind] = &[
    ("nothing", |_| {}, "STORE_NOT_FOUND", FINE),
    ("an empty file", |path| fs::write(path, "").unwrap(), "STORE_NOT_FOUND", FINE),
    (
        "a text",
        |path| fs::write(path, "goal: survive\n").unwrap(),
        "STORE_FOREIGN",
        "STORE_FOREIGN",
    ),
    (
        "a long text",
        |path| fs::write(path, "survive\n".repeat(10_000)).unwrap(),
        "STORE_FOREIGN",
        "STORE_FOREIGN",
    ),
    (
        "a database of another program",
        |path| database(path, "CREATE TABLE runs (a); CREATE TABLE other (b);"),
        "STORE_FOREIGN",
        "STORE_FOREIGN",
    ),
    (
        "an empty database of another program",
        |path| database(path, "PRAGMA application_id = 7; CREATE TABLE a (b); DROP TABLE a;"),
        "STORE_FOREIGN",
        "STORE_FOREIGN",
    ),
    (
        "a store of the Python router",
        |path| {
            database(
                path,
                "CREATE TABLE runs (run_id TEXT PRIMARY KEY, mode TEXT, goal TEXT, status TEXT, \
                 created_at TEXT); CREATE TABLE events (event_id TEXT PRIMARY KEY, run_id TEXT, \
                 seq INTEGER, type TEXT, payload_json TEXT, ts TEXT);",
            );
        },
        FINE,
        "STORE_PYTHON",
    ),
    ("a newer store", |path| version(path, 8), "STORE_NEWER", "STORE_NEWER"),
    ("a store of no version", |path| version(path, 0), "STORE_DAMAGED", "STORE_DAMAGED"),
    ("a directory", |path| fs::create_dir(path).unwrap(), "STORE_UNOPENABLE", "STORE_UNOPENABLE"),
    ("a pipe", pipe, "STORE_UNOPENABLE", "STORE_UNOPENABLE"),
    (
        "a socket",
        |path| drop(UnixListener::bind(path).unwrap()),
        "STORE_UNOPENABLE",
        "STORE_UNOPENABLE",
    ),
    (
        "a device that keeps nothing",
        |path| symlink("/dev/null", path).unwrap(),
        "STORE_UNOPENABLE",
        "STORE_UNOPENABLE",
    ),
    (
        "a device without an end",
        |path| symlink("/dev/zero", path).unwrap(),
        "STORE_UNOPENABLE",
        "STORE_UNOPENABLE",
    ),
    (
        "a name that means itself",
        |path| symlink(path, path).unwrap(),
        "STORE_UNOPENABLE",
        "STORE_UNOPENABLE",
    ),
];

/// Makes a store, and says that it is of another version.
fn version(path: &Path, version: i64) {
    drop(Store::open(path).unwrap());
    database(path, &format!("PRAGMA journal_mode = DELETE; PRAGMA user_version = {version};"));
}

/// What a file holds, if it is one.
fn bytes(path: &Path) -> Option<Vec<u8>> {
    path.is_file().then(|| fs::read(path).unwrap())
}

#[test]
fn whatever_stands_in_the_place_of_a_store_is_named_and_left_as_it_is() {
    let place = Place::new();
    for (number, (name, make, read, write)) in KINDS.iter().enumerate() {
        let path = place.path(&format!("{number}.db"));
        make(&path);
        let (before, there) = (bytes(&path), path.clone());
        let found = soon(name, move || code(Store::open_read_only(&there)));
        assert_eq!(found, *read, "reading {name}");
        assert_eq!(bytes(&path), before, "reading {name} changes nothing");
        let there = path.clone();
        let found = soon(name, move || code(Store::open(&there)));
        assert_eq!(found, *write, "writing {name}");
        if *write != FINE {
            assert_eq!(bytes(&path), before, "writing {name} changes nothing");
            assert!(!place.path(&format!("{number}.db-owners")).exists(), "{name} has no owner");
        }
    }
}

#[test]
fn whatever_stands_in_the_place_of_a_copy_is_named_and_not_restored() {
    let place = Place::new();
    let store = place.db();
    drop(Store::open(&store).unwrap());
    let before = bytes(&store);
    for (number, (name, make, read, _)) in KINDS.iter().enumerate() {
        let path = place.path(&format!("{number}.copy"));
        make(&path);
        if *read == FINE {
            continue;
        }
        let (copy, onto) = (path.clone(), store.clone());
        let found = soon(name, move || code(store::restore(&copy, &onto, |_, _| ())));
        assert_eq!(found, *read, "restoring {name}");
        assert_eq!(bytes(&store), before, "restoring {name} changes nothing");
        let (copy, target) = (path.clone(), place.path(&format!("{number}.target")));
        let there = target.clone();
        let found = soon(name, move || code(store::backup(&copy, &there, |_, _| ())));
        // A newer or damaged store is copied as it is; what is none at all is not.
        if !matches!(*read, "STORE_NEWER" | "STORE_DAMAGED") {
            assert_eq!((found, target.exists()), (*read, false), "copying {name}");
        }
    }
}

#[test]
fn whatever_stands_beside_a_store_gives_an_error_or_nothing() {
    let place = Place::new();
    for (kind, make, ..) in
        KINDS.iter().filter(|(kind, ..)| ["a directory", "a pipe", "a long text"].contains(kind))
    {
        for beside in ["-wal", "-shm", "-journal", "-owners"] {
            let name = format!("{kind}{beside}");
            let path = place.path(&format!("{name}.db"));
            drop(Store::open(&path).unwrap());
            let mut other = path.clone().into_os_string();
            other.push(beside);
            make(Path::new(&other));
            let there = path.clone();
            let (read, write) = soon(&name, move || {
                (code(Store::open_read_only(&there)), code(Store::open(&there)))
            });
            let known = [FINE, "STORE_UNOPENABLE", "STORE_DISK_FAILED", "STORE_DAMAGED"];
            assert!(known.contains(&read) && known.contains(&write), "{name}: {read} {write}");
            fs::remove_file(&other).or_else(|_| fs::remove_dir_all(&other)).ok();
            assert_eq!(code(Store::open(&path)), FINE, "{name} is gone");
        }
    }
}

#[test]
fn what_a_user_may_not_read_or_write_is_said() {
    const NAME: &str = "faults::kinds::what_a_user_may_not_read_or_write_is_said";
    if let Some(place) = Place::inside() {
        let closed = place.path("closed");
        assert_eq!(code(Store::open_read_only(&closed)), "STORE_UNOPENABLE");
        assert_eq!(code(Store::open(&closed)), "STORE_UNOPENABLE");
        let read_only = place.path("read-only");
        assert_eq!(code(Store::open_read_only(&read_only)), FINE);
        let Err(Error::Unopenable { message, .. }) = Store::open(&read_only) else { panic!() };
        assert_eq!(message, "this user may not write to it");
        let within = place.path("directory/runs.db");
        assert_eq!(code(Store::open_read_only(&within)), FINE);
        assert_eq!(code(Store::open(&within)), "STORE_UNOPENABLE");
        assert_eq!(code(Store::open(&place.path("directory/new.db"))), "STORE_UNOPENABLE");
        return place.done();
    }
    let place = Place::new();
    let mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir(place.path("directory")).unwrap();
    for name in ["closed", "read-only", "directory/runs.db"] {
        drop(Store::open(&place.path(name)).unwrap());
    }
    mode("closed", 0);
    mode("read-only", 0o444);
    mode("directory", 0o555);
    // For root the bits count only in a namespace in which it is nobody.
    if !rustix::process::geteuid().is_root() {
        place.run_again(NAME, "exec \"$@\"");
    } else if namespaces("-U") {
        place.run_again(NAME, "exec unshare -U \"$@\"");
    }
    mode("directory", 0o755);
}

#[test]
fn a_store_with_two_names_is_one_store() {
    let place = Place::new();
    let (path, link) = (place.db(), place.path("link.db"));
    let copy = place.path("copy.db");
    drop(Store::open(&path).unwrap());
    symlink(&path, &link).unwrap();
    store::backup(&link, &copy, |_, _| ()).unwrap();
    let owners = || fs::read_dir(place.path("runs.db-owners")).unwrap().count();
    let one = Store::open(&path).unwrap();
    let other = Store::open(&link).unwrap();
    assert_eq!((owners(), place.path("link.db-owners").exists()), (2, false));
    assert_eq!(code(store::restore(&copy, &link, |_, _| ())), "STORE_UNOPENABLE");
    drop((one, other));
    let kept: Option<PathBuf> = store::restore(&copy, &link, |_, _| ()).unwrap();
    assert!(kept.is_some_and(|kept| kept.is_file()) && link.is_symlink() && !path.is_symlink());
}

#[test]
fn a_new_store_is_made_by_many_at_once_and_left_by_them() {
    const MANY: usize = 6;
    let place = Place::new_in_memory();
    for number in 0..40 {
        let path = place.path(&format!("{number}.db"));
        let start = std::sync::Barrier::new(MANY);
        std::thread::scope(|scope| {
            for _ in 0..MANY {
                scope.spawn(|| {
                    start.wait();
                    // Some leave while others come.
                    drop(Store::open(&path).unwrap());
                    drop(Store::open(&path).unwrap());
                });
            }
        });
        let health = Store::open(&path).unwrap().check(|_, _| ()).unwrap();
        assert_eq!(health.findings, []);
        assert!(!place.path(&format!("{number}.db-owners")).exists());
    }
}

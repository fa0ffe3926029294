//! Displaced stores: what is refused, what is saved, and what comes back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;
use crate::store::memory_limit::sized_append;
use crate::store::{Status, Store, Ticket};

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    directory: tempfile::TempDir,
    store: Option<Store>,
}

impl Place {
    /// A store with one run, `a`.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        let mut place = Self { directory, store: None };
        place.store = Some(Store::open(&place.db()).unwrap());
        place.write("a").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn db(&self) -> PathBuf {
        self.path("data/runs.db")
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn write(&self, run_id: &str) -> Result<(), Error> {
        let append = sized_append(Ticket::default(), run_id, Status::Completed, 100);
        let receipt = self.store().append(append).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(receipt.durable()).map_err(|unwritten| unwritten.error)
    }

    /// Writes a run that must be refused, and returns the displacement once everything is safe.
    fn refused(&self) -> Displacement {
        let error = self.write("b").unwrap_err();
        assert_eq!(error.code(), "STORE_DISPLACED", "{error}");
        let end = Instant::now() + PATIENCE;
        loop {
            let displacement = self.store().displacement().unwrap();
            if displacement.rescue != Rescue::Pending {
                // What is there can still be read.
                assert!(self.store().find("a").unwrap().is_some());
                assert!(self.store().find("b").unwrap().is_none());
                return displacement;
            }
            assert!(Instant::now() < end, "nothing was saved");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Opens a file as the next process would.
    fn runs_in(path: &Path) -> Vec<String> {
        let store = Store::open(path).unwrap();
        let listing = store.list(&crate::store::Filter::default()).unwrap();
        listing.runs.into_iter().map(|listed| listed.record.header.run_id).collect()
    }

    fn audited(path: &Path, kind: &str) -> bool {
        let lines = Store::open_read_only(path).unwrap().audit_page(0, 100).unwrap();
        lines.iter().any(|line| line.contains(kind))
    }

    fn rescued_copies(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("data")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().contains(".rescued-")).collect()
    }
}

#[test]
fn removed_log_is_noticed_and_its_content_saved() {
    let mut place = Place::new();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    let displacement = place.refused();
    assert_eq!(displacement.change, FileChange::Removed);
    assert!(displacement.path.ends_with("runs.db-wal"), "{displacement:?}");
    assert_eq!(displacement.rescue, Rescue::InPlace);
    // As after kill -9: the file alone has everything.
    std::fs::copy(place.db(), place.path("copy.db")).unwrap();
    let store = Store::open_read_only(&place.path("copy.db")).unwrap();
    assert!(store.find("a").unwrap().is_some() && store.find("b").unwrap().is_none());
    drop(store);
    // It stays refused until the process is another one.
    assert!(place.write("c").is_err());
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
    assert!(Place::audited(&place.db(), "store.displaced"));
}

#[test]
fn idle_store_notices_a_removed_log() {
    let place = Place::new();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    let files = place.store().shared.files.as_ref().unwrap();
    let end = Instant::now() + PATIENCE;
    while files.displacement().is_none_or(|it| it.rescue == Rescue::Pending) {
        assert!(Instant::now() < end, "nobody looked");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn removed_store_is_put_back() {
    let mut place = Place::new();
    for name in ["runs.db", "runs.db-wal", "runs.db-shm"] {
        std::fs::remove_file(place.path("data").join(name)).unwrap();
    }
    let displacement = place.refused();
    assert_eq!(displacement.change, FileChange::Removed);
    assert_eq!(displacement.rescue, Rescue::Copied(place.store().path().unwrap().to_owned()));
    assert_eq!(place.rescued_copies(), Vec::<PathBuf>::new());
    assert!(place.write("c").is_err(), "nothing is written beside the copy");
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
    assert!(Place::audited(&place.db(), "store.rescued"));
}

#[test]
fn store_without_its_log_files_is_put_back_clean() {
    let mut place = Place::new();
    // The WAL and its index stay behind, and must not be applied to the copy.
    std::fs::remove_file(place.db()).unwrap();
    let displacement = place.refused();
    assert_eq!(displacement.rescue, Rescue::Copied(place.store().path().unwrap().to_owned()));
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
    let health = Store::open_read_only(&place.db()).unwrap().check(|_, _| ()).unwrap();
    let file_findings = health.findings.iter().filter(|finding| finding.run_id.is_none());
    assert_eq!(file_findings.count(), 0, "{health:?}");
}

#[test]
fn file_of_another_keeps_its_name() {
    let mut place = Place::new();
    std::fs::remove_file(place.db()).unwrap();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    std::fs::write(place.db(), "another file").unwrap();
    std::fs::write(place.path("data/runs.db-wal"), "another log").unwrap();
    let Rescue::Copied(copy) = place.refused().rescue else { panic!("no copy") };
    assert_eq!(place.rescued_copies().len(), 1);
    place.store = None;
    assert_eq!(std::fs::read_to_string(place.db()).unwrap(), "another file");
    assert_eq!(std::fs::read_to_string(place.path("data/runs.db-wal")).unwrap(), "another log");
    assert_eq!(Place::runs_in(&copy), ["a"]);
}

#[test]
fn renamed_directory_may_come_back() {
    let place = Place::new();
    std::fs::rename(place.path("data"), place.path("elsewhere")).unwrap();
    let displacement = place.refused();
    assert_eq!(displacement.change, FileChange::Moved);
    assert_eq!(displacement.rescue, Rescue::InPlace);
    std::fs::rename(place.path("elsewhere"), place.path("data")).unwrap();
    assert_eq!(place.store().displacement(), None);
    place.write("c").unwrap();
    assert!(place.store().find("c").unwrap().is_some());
}

#[test]
fn store_moved_alone_has_all_of_its_log() {
    let mut place = Place::new();
    std::fs::rename(place.db(), place.path("data/other.db")).unwrap();
    assert_eq!(place.refused().rescue, Rescue::InPlace);
    let log = std::fs::metadata(place.path("data/runs.db-wal")).unwrap();
    assert_eq!(log.len(), 0, "what is left must not be applied to another file");
    place.store = None;
    assert_eq!(Place::runs_in(&place.path("data/other.db")), ["a"]);
}

#[test]
fn lost_index_or_lock_is_final() {
    for name in ["runs.db-shm", "runs.db-owners"] {
        let place = Place::new();
        let (from, to) = (place.path("data").join(name), place.path("aside"));
        std::fs::rename(&from, &to).unwrap();
        assert_eq!(place.refused().rescue, Rescue::InPlace, "{name}");
        std::fs::rename(&to, &from).unwrap();
        assert!(place.store().displacement().is_some(), "{name}: another process may have begun");
    }
}

#[test]
fn log_of_another_process_is_not_mixed_with_ours() {
    let mut place = Place::new();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    std::fs::write(place.path("data/runs.db-wal"), "what another process wrote").unwrap();
    let Rescue::Copied(copy) = place.refused().rescue else { panic!("no copy") };
    assert!(copy.to_string_lossy().contains("runs.db.rescued-"), "{copy:?}");
    place.store = None;
    assert_eq!(Place::runs_in(&copy), ["a"]);
    let log = std::fs::read_to_string(place.path("data/runs.db-wal")).unwrap();
    assert_eq!(log, "what another process wrote");
}

#[test]
fn audit_and_imports_are_refused_too() {
    let place = Place::new();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    let error = place.store().append_audit(Vec::new()).unwrap_err();
    assert_eq!(error.code(), "STORE_DISPLACED");
    assert_eq!(place.store().adopt_orphans().unwrap_err().code(), "STORE_DISPLACED");
    assert_eq!(place.store().refuse_unusable().unwrap_err().code(), "STORE_DISPLACED");
}

#[test]
fn failed_rescue_is_tried_again() {
    let mut place = Place::new();
    // A file in the place of its directory leaves no place for a copy.
    std::fs::remove_dir_all(place.path("data")).unwrap();
    std::fs::write(place.path("data"), "").unwrap();
    assert_eq!(place.write("b").unwrap_err().code(), "STORE_DISPLACED");
    let files = place.store().shared.files.clone().unwrap();
    let end = Instant::now() + PATIENCE;
    while files.state().retry.is_none() {
        assert!(Instant::now() < end, "nothing was tried");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(place.store().displacement().unwrap().rescue, Rescue::Pending);
    assert_eq!(place.store().finish().unwrap_err().code(), "STORE_DISPLACED");
    std::fs::remove_file(place.path("data")).unwrap();
    std::fs::create_dir(place.path("data")).unwrap();
    place.store().finish().unwrap();
    assert_eq!(place.refused().rescue, Rescue::Copied(files.path().to_owned()));
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
}

#[test]
fn removed_directory_is_made_again_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut place = Place::new();
    std::fs::remove_dir_all(place.path("data")).unwrap();
    assert_eq!(place.refused().rescue, Rescue::Copied(place.db()));
    let mode = std::fs::metadata(place.path("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
}

#[test]
fn link_to_the_store_is_another_file() {
    let mut place = Place::new();
    let aside = place.path("data/real.db");
    std::fs::rename(place.db(), &aside).unwrap();
    std::os::unix::fs::symlink(&aside, place.db()).unwrap();
    let displacement = place.refused();
    assert_eq!(displacement.change, FileChange::Replaced);
    assert_eq!(displacement.rescue, Rescue::InPlace);
    // SQLite finds no WAL by the name that the link leads to: the file alone has everything.
    std::fs::copy(&aside, place.path("copy.db")).unwrap();
    assert!(Store::open_read_only(&place.path("copy.db")).unwrap().find("a").unwrap().is_some());
    // Another process may have written through the link.
    std::fs::rename(&aside, place.db()).unwrap();
    assert!(place.write("c").is_err());
    place.store = None;
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
}

#[test]
fn log_beside_the_new_name_is_not_overwritten() {
    let mut place = Place::new();
    let aside = place.path("data/real.db");
    std::fs::write(place.path("data/real.db-wal"), "what another process wrote").unwrap();
    std::fs::rename(place.db(), &aside).unwrap();
    std::os::unix::fs::symlink(&aside, place.db()).unwrap();
    let Rescue::Copied(copy) = place.refused().rescue else { panic!("no copy") };
    place.store = None;
    assert_eq!(Place::runs_in(&copy), ["a"]);
}

#[test]
fn switched_link_displaces_until_it_is_switched_back() {
    for links_file in [false, true] {
        let mut place = Place::new();
        place.store = None;
        let link = place.path("link");
        let (one, other) = (place.path("data"), place.path("other"));
        std::fs::create_dir(&other).unwrap();
        let (db, one, other) = match links_file {
            true => (link.clone(), one.join("runs.db"), other.join("runs.db")),
            false => (link.join("runs.db"), one, other),
        };
        let switch = |target: &Path| {
            drop(std::fs::remove_file(&link));
            std::os::unix::fs::symlink(target, &link).unwrap();
        };
        switch(&one);
        place.store = Some(Store::open(&db).unwrap());
        switch(&other);
        let displacement = place.refused();
        assert_eq!(displacement.path, db);
        assert_eq!(displacement.rescue, Rescue::InPlace);
        // The file alone has everything.
        std::fs::copy(place.db(), place.path("copy.db")).unwrap();
        assert!(
            Store::open_read_only(&place.path("copy.db")).unwrap().find("a").unwrap().is_some()
        );
        switch(&one);
        assert_eq!(place.store().displacement(), None);
        place.write("c").unwrap();
    }
}

#[test]
fn backup_put_over_the_store_stays_whole() {
    for keeps_old in [false, true] {
        let mut place = Place::new();
        let backup = place.path("data/backup.db");
        crate::store::backup(&place.db(), &backup, |_, _| ()).unwrap();
        crate::store::adopt(&backup).unwrap();
        let before = std::fs::read(&backup).unwrap();
        for number in 0..20 {
            place.write(&format!("later-{number}")).unwrap();
        }
        if keeps_old {
            std::fs::rename(place.db(), place.path("data/old.db")).unwrap();
        }
        std::fs::rename(&backup, place.db()).unwrap();
        let rescued = match place.refused().rescue {
            Rescue::Copied(copy) => copy,
            other => {
                assert_eq!((other, keeps_old), (Rescue::InPlace, true));
                place.path("data/old.db")
            }
        };
        for suffix in ["-wal", "-shm"] {
            assert!(
                !beside(&place.db(), suffix).exists(),
                "{suffix} would be applied to the backup"
            );
        }
        let copies = crate::store::rescued_copies(&place.db());
        assert_eq!(copies, place.rescued_copies());
        assert_eq!(copies.len(), usize::from(!keeps_old));
        place.store = None;
        assert_eq!(std::fs::read(place.db()).unwrap(), before);
        assert_eq!(Place::runs_in(&place.db()), ["a"]);
        assert_eq!(Place::runs_in(&rescued).len(), 21);
    }
}

#[test]
fn displaced_store_writes_nothing_when_it_is_closed() {
    let mut place = Place::new();
    std::fs::remove_file(place.path("data/runs.db-wal")).unwrap();
    assert_eq!(place.refused().rescue, Rescue::InPlace);
    place.store = None;
    assert_eq!(crate::store::lost_log_pages(&place.db()), None);
    assert_eq!(Place::runs_in(&place.db()), ["a"]);
}

#[test]
fn truncated_store_is_noticed_and_not_called_safe() {
    let place = Place::new();
    let file = std::fs::File::options().write(true).open(place.db()).unwrap();
    // All content is in the file, and then it is not.
    let checkpoint = |connection: &mut rusqlite::Connection| {
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    };
    place.store().writer().unwrap().job(checkpoint).unwrap().unwrap();
    place.write("more").unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = place.write("b").unwrap_err();
    assert_eq!(error.code(), "STORE_DISPLACED", "{error}");
    assert!(error.to_string().contains("runs.db was truncated"), "{error}");
    let files = place.store().shared.files.clone().unwrap();
    let end = Instant::now() + PATIENCE;
    while files.state().retry.is_none() && files.displacement().unwrap().rescue == Rescue::Pending {
        assert!(Instant::now() < end, "nothing was tried");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_ne!(files.displacement().unwrap().rescue, Rescue::InPlace);
    file.set_len(1 << 30).unwrap();
    assert!(place.write("c").is_err(), "what was cut off does not come back");
}

#[test]
fn truncated_log_is_noticed_before_the_next_commit() {
    for share in [0, 2] {
        let place = Place::new();
        for run in 0..50 {
            place.write(&format!("more {run}")).unwrap();
        }
        let log = place.path("data/runs.db-wal");
        let file = std::fs::File::options().write(true).open(&log).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(size * share / 4).unwrap();
        let error = place.write("b").unwrap_err();
        assert_eq!(error.code(), "STORE_DISPLACED", "{error}");
        assert!(error.to_string().contains("runs.db-wal was truncated"), "{error}");
        assert!(place.write("c").is_err(), "what was cut off does not come back");
        // Nothing was written behind the cut, so the next process can tell that runs are missing.
        assert_eq!(file.metadata().unwrap().len(), size * share / 4);
        assert!(crate::store::lost_log_pages(&place.db()).is_some_and(|pages| pages > 0));
        assert_ne!(place.store().displacement().unwrap().rescue, Rescue::InPlace);
    }
}

#[test]
fn checkpoints_are_no_truncation() {
    let place = Place::new();
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        place.write(mode).unwrap();
        let other = rusqlite::Connection::open(place.db()).unwrap();
        other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        place.write(&format!("{mode} done")).unwrap();
    }
    assert_eq!(place.store().displacement(), None);
}

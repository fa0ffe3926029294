//! Copies of a store: made while others write, and put back over whatever is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nexus_router::router::{How, Resumable};
use nexus_router::store::{self, Filter, Status, Store};
use serde_json::json;

use super::dice::Dice;
use super::{DONE, Place, assert_sound, external, request, wait_for_run, wait_until};
use crate::engine::{plan, set};

/// The runs of a store that nothing is wrong with.
fn runs(path: &Path) -> BTreeSet<String> {
    let store = Store::open_read_only(path).unwrap();
    assert_sound(&store);
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let listed = store.list(&filter).unwrap().runs.into_iter();
    listed.map(|listed| listed.record.header.run_id).collect()
}

/// Makes a store with so many runs.
fn store_of(place: &Place, path: &Path, count: usize) -> BTreeSet<String> {
    let router = place.router_with(path, &json!({ "sleep_ms": 600_000 }));
    for _ in 0..count {
        router.run_blocking(request(&external(&["a", "b"]))).unwrap();
    }
    drop(router);
    runs(path)
}

fn same(_: u64, _: u64) {}

#[test]
fn a_copy_that_is_made_while_others_write_is_whole() {
    let place = Place::new();
    let router = place.router();
    let args = json!({ "text": "x".repeat(100_000) });
    let large = set(plan(&["a"]), "/plan_override/0/call/args", args);
    for _ in 0..16 {
        router.run_blocking(request(&large)).unwrap();
    }
    let (acknowledged, stop) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    let count = || acknowledged.lock().unwrap().len();
    std::thread::scope(|scope| {
        for kind in [external(&["a", "b"]), plan(&["a"]), external(&["a"]), plan(&["a", "b"])] {
            let (router, acknowledged, stop) = (&router, &acknowledged, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let run_id = router.run_blocking(request(&kind)).unwrap().run_id;
                    acknowledged.lock().unwrap().insert(run_id);
                }
            });
        }
        let copying = std::panic::catch_unwind(|| {
            for copy in ["one.db", "two.db"] {
                let copy = place.path(copy);
                wait_until(|| (count() > 0).then_some(()));
                let before = acknowledged.lock().unwrap().clone();
                let (steps, pages) = (AtomicUsize::new(0), AtomicUsize::new(0));
                store::backup(&place.db(), &copy, |done, _| {
                    // Whatever is written meanwhile, the copy does not begin again.
                    let done = usize::try_from(done).unwrap();
                    assert!(pages.swap(done, Ordering::Relaxed) <= done, "the copy began again");
                    steps.fetch_add(1, Ordering::Relaxed);
                    let written = count();
                    wait_until(|| (count() > written).then_some(()));
                })
                .unwrap();
                assert!(steps.into_inner() > 1, "the store is too small for this test");
                let there = runs(&copy);
                assert!(there.is_superset(&before) && there.len() >= before.len() + 16);
            }
        });
        stop.store(true, Ordering::Relaxed);
        copying.unwrap();
    });
    assert_sound(router.store());
    let again = store::backup(&place.db(), &place.path("one.db"), same).unwrap_err();
    assert!(again.to_string().ends_with("one.db: the file exists already"), "{again}");
}

#[test]
fn a_run_that_was_under_way_is_carried_out_by_nobody_in_the_copy() {
    let place = Place::new();
    let router = place.router();
    let copy = place.path("copy.db");
    let run_id = std::thread::scope(|scope| {
        let mut held = place.hold_calls();
        let running = scope.spawn(|| router.run_blocking(request(&external(&["a"]))).unwrap());
        let run_id = wait_for_run(router.store(), Status::Running);
        store::backup(&place.db(), &copy, same).unwrap();
        assert_eq!(router.store().orphans().unwrap(), Vec::<String>::new());
        store::adopt(&copy).unwrap();
        let other = place.router_with(&copy, &json!({ "return": {} }));
        let recovered = other.recover_blocking(Resumable::Resume).unwrap();
        assert_eq!(recovered.len(), 1);
        assert!(matches!(recovered[0].how, How::Ended { in_doubt: true, .. }), "{recovered:?}");
        assert_eq!(recovered[0].run_id, run_id);
        held.release();
        assert_eq!(running.join().unwrap().status, Status::Completed);
        run_id
    });
    assert!(runs(&copy).contains(&run_id) && runs(&place.db()).contains(&run_id));
}

#[test]
fn a_copy_is_not_put_over_a_store_that_is_in_use_and_what_was_there_is_kept() {
    let place = Place::new();
    let (path, copy) = (place.db(), place.path("copy.db"));
    let old = store_of(&place, &path, 2);
    store::backup(&path, &copy, same).unwrap();
    let store = Store::open(&path).unwrap();
    let error = store::restore(&copy, &path, same).unwrap_err();
    let said = format!("process {} has the store open; stop it first", std::process::id());
    assert_eq!(error.code(), "STORE_UNOPENABLE");
    assert!(error.to_string().ends_with(&said), "{error}");
    drop(store);
    let more = store_of(&place, &path, 1);
    let kept = store::restore(&copy, &path, same).unwrap().unwrap();
    assert_eq!((runs(&path), runs(&kept)), (old.clone(), more));
    // It is a store like any other.
    assert_eq!(store_of(&place, &path, 1).len(), old.len() + 1);
    let new = place.path("new.db");
    assert_eq!(store::restore(&copy, &new, same).unwrap(), None);
    assert_eq!(runs(&new), old);
    let names = fs::read_dir(&place.directory).unwrap().flatten();
    let names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    let leftover = |name: &&String| name.contains(".part") || name.contains(".restoring");
    assert_eq!(names.iter().find(leftover), None);
}

/// A damaged store cannot be asked to take in its WAL; that must not go into the new store either.
#[test]
fn a_copy_is_put_over_a_damaged_store_and_not_mixed_with_it() {
    let place = Place::new();
    let (path, copy) = (place.db(), place.path("copy.db"));
    let old = store_of(&place, &path, 2);
    store::backup(&path, &copy, same).unwrap();
    // A WAL that has nothing of the first page cannot heal it, and would be a lie in another file.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE counts SET runs = 7777", []).unwrap();
    let (mut file, wal) = (fs::read(&path).unwrap(), fs::read(place.path("runs.db-wal")).unwrap());
    drop(connection);
    file[..60].fill(0xff);
    for missing in [false, true] {
        fs::write(&path, &file).unwrap();
        fs::write(place.path("runs.db-wal"), &wal).unwrap();
        if missing {
            fs::remove_file(&path).unwrap();
        } else {
            assert_eq!(Store::open(&path).unwrap_err().code(), "STORE_FOREIGN");
        }
        let kept = store::restore(&copy, &path, same).unwrap();
        assert_eq!(runs(&path), old);
        if let Some(kept) = kept {
            assert_eq!(fs::read(&kept).unwrap(), file);
            assert_eq!(fs::read(format!("{}-wal", kept.display())).unwrap(), wal);
        }
        assert_eq!(store_of(&place, &path, 1).len(), old.len() + 1);
    }
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_store_or_the_new_one() {
    const NAME: &str =
        "faults::copies::a_restore_that_is_killed_leaves_the_old_store_or_the_new_one";
    if let Some(place) = Place::inside() {
        loop {
            for copy in ["one.db", "two.db"] {
                store::restore(&place.path(copy), &place.db(), same).unwrap();
                place.done();
            }
        }
    }
    let place = Place::new();
    let one = store_of(&place, &place.path("one.db"), 2);
    let two = store_of(&place, &place.path("two.db"), 3);
    store::backup(&place.path("one.db"), &place.db(), same).unwrap();
    let kills = std::env::var("NEXUS_ROUTER_KILLS").map_or(12, |text| text.parse().unwrap());
    let mut dice = Dice::new(0x5eed);
    for kill in 0..kills {
        let mut process = place.again(NAME, "exec \"$@\"").spawn().unwrap();
        wait_until(|| place.path(DONE).exists().then_some(()));
        let moment = Instant::now() + Duration::from_micros(dice.below(60_000));
        while Instant::now() < moment {
            assert!(place.db().exists(), "at no time is there none");
        }
        process.kill().unwrap();
        process.wait().unwrap();
        fs::remove_file(place.path(DONE)).unwrap();
        let there = runs(&place.db());
        assert!(there == one || there == two, "after {kill} kills: {there:?}");
    }
    assert!(store_of(&place, &place.db(), 1).len() > two.len().min(one.len()));
}

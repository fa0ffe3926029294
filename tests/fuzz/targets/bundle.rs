//! Any bytes as a bundle: it is imported or refused, and what was imported exports and imports again.
#![no_main]

use nexus_router::bundle::{self, Imported, ImportOptions, Provenance, Source};
use nexus_router::clock::Timestamp;
use nexus_router::store::Store;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let now = Timestamp::from_millis(0);
    let options = ImportOptions { check: bundle::Check::Skip, ..ImportOptions::new(now) };
    let store = Store::in_memory().unwrap();
    let run_id = match bundle::import(&store, bytes, &options) {
        Ok(Imported::Stored { run_id, .. }) => run_id,
        Ok(Imported::Skipped { .. }) => panic!("an empty store has no conflict"),
        Err(error) => return drop((error.to_string(), error.hint())),
    };
    let log = store.log(&run_id).unwrap().unwrap();
    let exported = bundle::export(&log, &Source::of(&store), Provenance::Include, now).unwrap();
    let other = Store::in_memory().unwrap();
    let again = bundle::import(&other, exported.text.as_bytes(), &ImportOptions::new(now)).unwrap();
    assert!(matches!(again, Imported::Stored { .. }));
    assert_eq!(other.log(&run_id).unwrap().unwrap().bodies, log.bodies);
});

//! Files with bytes that nobody wrote: whatever is read is what was recorded, or the damage is told.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nexus_router::replay::{self, Strictness};
use nexus_router::store::{self, Error, Filter, Log, Store};
use serde_json::json;

use super::dice::Dice;
use super::{Place, external, is_sound, request};
use crate::engine::{plan, set};

/// The errors that a damaged file may give: they name the file or the damage.
const TYPED: [&str; 7] = [
    "STORE_NOT_FOUND",
    "STORE_DAMAGED",
    "STORE_FOREIGN",
    "STORE_NEWER",
    "STORE_UNOPENABLE",
    "STORE_DISK_FAILED",
    "STORE_PYTHON",
];

/// Where chance begins; `NEXUS_ROUTER_SEED` chooses another beginning.
fn seed() -> u64 {
    std::env::var("NEXUS_ROUTER_SEED").map_or(0x5eed, |text| text.parse().unwrap())
}

/// A small store of every kind of run, as bytes.
struct Original {
    runs: BTreeMap<String, Log>,
    file: Vec<u8>,
    wal: Vec<u8>,
    place: Place,
}

/// How much of the store is still in its WAL.
enum Wal {
    Merged,
    Open,
}

impl Original {
    fn new(wal: &Wal) -> Self {
        let place = Place::new_in_memory();
        let requests = [
            external(&["a", "b", "c"]),
            plan(&["a", "b"]),
            set(plan(&["a"]), "/mode", json!("dry_run")),
            set(plan(&["a"]), "/policy/allow_apply", json!(false)),
            set(
                plan(&["a", "b"]),
                "/plan_override/0/call/args",
                json!({ "text": "täxt ".repeat(500) }),
            ),
            external(&["a", "b"]),
        ];
        // What is run first is in the file itself, the rest at first in the WAL alone.
        for requests in requests.chunks(3) {
            let router = place.router();
            for plan in requests {
                router.run_blocking(request(plan)).unwrap();
            }
            if let Wal::Open = wal {
                let (file, wal) = (fs::read(place.db()), fs::read(place.path("runs.db-wal")));
                fs::write(place.path("file"), file.unwrap()).unwrap();
                fs::write(place.path("wal"), wal.unwrap()).unwrap();
            }
        }
        let store = Store::open_read_only(&place.db()).unwrap();
        let runs = store.list(&Filter::default()).unwrap().runs.into_iter();
        let runs = runs.map(|listed| listed.record.header.run_id);
        let runs =
            runs.map(|run_id| (run_id.clone(), store.log(&run_id).unwrap().unwrap())).collect();
        drop(store);
        let read = |name: &str| fs::read(place.path(name)).unwrap();
        let (file, wal) = match wal {
            Wal::Merged => (read("runs.db"), Vec::new()),
            Wal::Open => (read("file"), read("wal")),
        };
        Self { runs, file, wal, place }
    }

    /// Puts bytes where nothing was.
    fn put(&self, name: &str, file: &[u8], wal: &[u8]) -> PathBuf {
        let directory = self.place.path("damaged");
        drop(fs::remove_dir_all(&directory));
        fs::create_dir(&directory).unwrap();
        let path = directory.join(format!("{name}.db"));
        fs::write(&path, file).unwrap();
        if !wal.is_empty() {
            fs::write(directory.join(format!("{name}.db-wal")), wal).unwrap();
        }
        path
    }
}

/// What a store still says.
#[derive(Default)]
struct Said {
    /// The logs that can be read.
    logs: BTreeMap<String, Log>,
    /// Whether the check, or any question, told of damage.
    told: bool,
}

impl Said {
    fn take<T>(&mut self, answer: Result<T, Error>, case: &str) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert!(TYPED.contains(&error.code()), "{case}: {}: {error}", error.code());
                self.told = true;
                None
            }
        }
    }
}

/// Asks a store everything that can be asked.
fn ask(
    open: impl Fn(&Path) -> Result<Store, Error>,
    path: &Path,
    original: &Original,
    case: &str,
) -> Said {
    let mut said = Said::default();
    let Some(store) = said.take(open(path), case) else { return said };
    said.take(store.list(&Filter::default()), case);
    said.take(store.orphans(), case);
    for run_id in original.runs.keys() {
        if let Some(Some(log)) = said.take(store.log(run_id), case) {
            said.told |= !is_sound(&log);
            assert!(replay::replay(&log).to_json(Strictness::Strict).as_object().is_some());
            said.logs.insert(run_id.clone(), log);
        }
    }
    if let Some(health) = said.take(store.check(|_, _| ()), case) {
        said.told |= !health.findings.is_empty();
    }
    said
}

/// Opens a store for writing that was copied. The process of the original is that of the test, which lives.
fn adopted(path: &Path) -> Result<Store, Error> {
    drop(rusqlite::Connection::open(path).and_then(|it| it.execute("DELETE FROM owners", [])));
    store::adopt(path)?;
    Store::open(path)
}

/// Either the damage is told, or everything is there as it was.
fn assert_told(path: &Path, original: &Original, case: &str) {
    let said = ask(Store::open_read_only, path, original, case);
    let lines = |logs: &BTreeMap<String, Log>| -> Vec<(String, Vec<String>)> {
        logs.iter().map(|(run_id, log)| (run_id.clone(), log.bodies.clone())).collect()
    };
    assert!(said.told || lines(&said.logs) == lines(&original.runs), "{case}: nobody noticed");
}

/// Changes a byte to any other.
fn flip(bytes: &mut [u8], at: usize, dice: &mut Dice) {
    bytes[at] ^= u8::try_from(dice.below(255)).unwrap() + 1;
}

#[test]
fn a_flipped_byte_anywhere_is_told_or_changes_nothing() {
    let original = Original::new(&Wal::Merged);
    let mut dice = Dice::new(seed());
    let length = original.file.len();
    let header = 0..100;
    let anywhere = (0..200).map(|_| dice.index(length)).collect::<Vec<_>>();
    let end = length - 20..length;
    for (number, at) in header.chain(anywhere).chain(end).enumerate() {
        let mut file = original.file.clone();
        flip(&mut file, at, &mut dice);
        let case =
            format!("seed {}, byte {at} is {} and not {}", seed(), file[at], original.file[at]);
        assert_told(&original.put("flipped", &file, &[]), &original, &case);
        if number % 4 == 0 {
            ask(adopted, &original.put("flipped", &file, &[]), &original, &case);
        }
    }
}

#[test]
fn many_flipped_bytes_are_told() {
    let original = Original::new(&Wal::Merged);
    let mut dice = Dice::new(seed());
    for number in 0..60 {
        let mut file = original.file.clone();
        let start = dice.index(file.len());
        for _ in 0..200 {
            let at = (start + dice.index(5000)) % file.len();
            flip(&mut file, at, &mut dice);
        }
        let case = format!("seed {}, bytes from {start} on, number {number}", seed());
        assert_told(&original.put("torn", &file, &[]), &original, &case);
        ask(adopted, &original.put("torn", &file, &[]), &original, &case);
    }
}

#[test]
fn a_file_that_is_cut_off_is_told() {
    let original = Original::new(&Wal::Merged);
    let mut dice = Dice::new(seed());
    let length = original.file.len();
    let pages = (0..length).step_by(8192).flat_map(|page| [page.saturating_sub(1), page, page + 1]);
    let small = [1, 15, 16, 17, 50, 99, 100, 101, 511, 512, 513];
    let anywhere = (0..30).map(|_| dice.index(length)).collect::<Vec<_>>();
    for length in small.into_iter().chain(pages).chain(anywhere).filter(|length| *length > 0) {
        let case = format!("cut off at {length}");
        let path = original.put("short", &original.file[..length], &[]);
        let said = ask(Store::open_read_only, &path, &original, &case);
        assert!(said.told, "{case}: nobody noticed");
        ask(adopted, &path, &original, &case);
    }
}

#[test]
fn a_flipped_byte_in_an_event_is_found_by_check_and_by_replay() {
    let original = Original::new(&Wal::Merged);
    let mut dice = Dice::new(seed());
    let mut flipped = 0;
    for (run_id, log) in &original.runs {
        // What does not fit into a page is in pieces, which the tests above reach.
        for body in log.bodies.iter().filter(|body| body.len() < 8000) {
            // SQLite may have left old copies where there is nothing now.
            let starts: Vec<usize> = (0..=original.file.len() - body.len())
                .filter(|start| original.file[*start..].starts_with(body.as_bytes()))
                .collect();
            assert!(!starts.is_empty(), "it is in the file");
            for _ in 0..30 {
                let (at, mut file) = (dice.index(body.len()), original.file.clone());
                for start in &starts {
                    flip(&mut file, start + at, &mut dice);
                }
                let case = format!("run {run_id}, byte {at} of {}", body.len());
                let store = Store::open_read_only(&original.put("event", &file, &[])).unwrap();
                let findings = store.check(|_, _| ()).unwrap().findings;
                let of_run = |found: &Option<String>| found.as_ref() == Some(run_id);
                assert!(
                    findings.iter().any(|finding| of_run(&finding.run_id)),
                    "{case}: {findings:?}"
                );
                let replayed = replay::replay(&store.log(run_id).unwrap().unwrap());
                let broken = |violation: &replay::Violation| violation.code == "CHAIN_BROKEN";
                assert!(replayed.violations.iter().any(broken), "{case}");
                flipped += 1;
            }
        }
    }
    assert!(flipped >= 180, "{flipped}");
}

/// A WAL ends where it is damaged; what is before that is whole.
#[test]
fn a_damaged_wal_leaves_a_whole_store() {
    let original = Original::new(&Wal::Open);
    let mut dice = Dice::new(seed());
    let length = original.wal.len();
    let mut variants = vec![("as it was".to_owned(), original.wal.clone())];
    for at in (0..40).chain((0..60).map(|_| dice.index(length)).collect::<Vec<_>>()) {
        let mut wal = original.wal.clone();
        flip(&mut wal, at, &mut dice);
        variants.push((format!("seed {}, byte {at} flipped", seed()), wal));
        let short = dice.index(length);
        variants.push((format!("cut off at {short}"), original.wal[..short].to_vec()));
    }
    let (mut whole, mut shorter) = (0, 0);
    for (number, (case, wal)) in variants.iter().enumerate() {
        let path = original.put("wal", &original.file, wal);
        if number % 3 == 0 {
            let noise: Vec<u8> = (0..32_768).map(|_| dice.next().to_le_bytes()[0]).collect();
            fs::write(path.with_extension("db-shm"), noise).unwrap();
        }
        let reads = ask(Store::open_read_only, &path, &original, case);
        let writes = ask(adopted, &path, &original, case);
        for said in [&reads, &writes] {
            assert!(!said.told, "{case}");
            for (run_id, log) in &said.logs {
                let before = &original.runs[run_id];
                assert!(before.bodies.starts_with(&log.bodies), "{case}: {run_id} is another");
            }
        }
        assert_eq!(reads.logs, writes.logs, "{case}");
        if writes.logs.len() == original.runs.len() { whole += 1 } else { shorter += 1 }
    }
    assert!(whole > 0 && shorter > 10, "{whole} whole, {shorter} shorter");
}

//! Random damage: whatever happens to the bytes of a library, the host gets an adapter or an error.

use std::collections::BTreeMap;
use std::process::Command;

use nexus_router::loader::LoadRequest;
use serde_json::json;

use super::Corpus;
use super::forge::{Library, header};

const CASES: u64 = 200;

/// What tells the test that it is the host, and no longer the one who watches it.
const HOST: &str = "NEXUS_ROUTER_TEST_DAMAGED_HOST";

/// A small generator of numbers: the same seed gives the same damage everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// Damages a library in one of the places where it matters, or anywhere.
fn damage(library: &mut Library, random: &mut Random) -> String {
    const SECTIONS: &[&str] = &[
        ".dynamic",
        ".dynsym",
        ".dynstr",
        ".gnu.hash",
        ".gnu.version_r",
        ".rela.dyn",
        ".init_array",
        ".fini_array",
        ".data",
        ".data.rel.ro",
        ".eh_frame_hdr",
        ".nexus_adapter",
    ];
    let place = match random.below(SECTIONS.len() + 4) {
        0 => 0..64,
        1 => 64..1024,
        2 => library.sections()[0].entry..library.0.len(),
        3 => 0..library.0.len(),
        other => library.section(SECTIONS[other - 4]).contents(),
    };
    let at = place.start + random.below(place.len());
    let length = [1, 1, 4, 8, 64][random.below(5)].min(library.0.len() - at);
    let bytes = match random.below(4) {
        0 => vec![0; length],
        1 => vec![0xff; length],
        2 => vec![library.0[at] ^ (1 << random.below(8))],
        _ => random.bytes(length),
    };
    library.put(at, &bytes);
    format!("{} bytes at {at} of {place:?}", bytes.len())
}

#[test]
fn host_survives_any_damage() {
    if std::env::var_os(HOST).is_some() {
        return load_damaged_libraries();
    }
    // A process of its own, so that a host that dies tells which damage killed it.
    let test = format!("{}::host_survives_any_damage", module_path!().split_once("::").unwrap().1);
    let host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(HOST, "1")
        .output()
        .unwrap();
    let shown = [host.stdout, host.stderr].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(host.status.success() && shown.contains("1 passed"), "{}:\n{shown}", host.status);
}

fn load_damaged_libraries() {
    let corpus = Corpus::new();
    let good = Library::good();
    assert_eq!(good.number::<2>(header::TYPE), 3);
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..CASES {
        let mut library = good.clone();
        let what = damage(&mut library, &mut Random::new(seed));
        eprintln!("seed {seed}: {what}");
        corpus.write("damaged", &library.0);
        let (factory_ref, config) = ("damaged:create_adapter", json!({}));
        let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
        let end = match corpus.loader.load(&request) {
            Ok(_) => "loaded".to_owned(),
            Err(error) => error.reason().code().to_owned(),
        };
        *ends.entry(end).or_default() += 1;
        corpus.assert_host_goes_on(&what);
    }
    eprintln!("{ends:?}");
    assert!(ends.len() > 3, "the damage is too tame: {ends:?}");
}

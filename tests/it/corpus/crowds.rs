//! Library files whose tables are much too large: each is refused at once, whatever its tables multiply to.

use nexus_router::loader::Reason;

use super::forge::{Library, header, record, record_text};
use super::images::{Case, assert_all_refused};

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const UNWINDING: u64 = 0x6474_e550;

const SEGMENTS: &[Case] = &[
    (
        "many_segments",
        |l| {
            let table = many_segments(l, 60_000);
            l.set_program_table(&table);
        },
        Reason::LibraryDamaged,
        "has 60000 program headers; the limit is 256",
    ),
    (
        // The count does not fit into the header and stands in the first section instead.
        "more_segments_than_the_header_counts",
        |l| {
            let table = many_segments(l, 100_000);
            l.set_program_table(&table);
            l.put(header::PROGRAM_COUNT, &u16::MAX.to_ne_bytes());
            l.put(l.sections()[0].entry + 44, &100_000_u32.to_ne_bytes());
        },
        Reason::LibraryDamaged,
        "has 100000 program headers; the limit is 256",
    ),
    (
        "many_loadable_segments",
        |l| {
            let table = many_segments(l, 200);
            l.set_program_table(&table);
        },
        Reason::LibraryDamaged,
        "loadable segments; the limit is 64",
    ),
    (
        "many_segments_and_relocations",
        |l| {
            many_relocations(l, 20_000);
            let table = many_segments(l, 60_000);
            l.set_program_table(&table);
        },
        Reason::LibraryDamaged,
        "the limit is 256",
    ),
];

const ENTRIES: &[Case] = &[
    ("many_relocations", |l| many_relocations(l, 500_000), Reason::LibraryDamaged, "a relocation"),
    (
        "many_dynamic_entries",
        |l| {
            let entries: Vec<u8> = (1..=500_000_u64)
                .flat_map(|tag| [tag << 32, 0])
                .chain([0, 0])
                .flat_map(u64::to_ne_bytes)
                .collect();
            let address = l.load_at_end(UNWINDING, &entries);
            let segment = l.segment(DYNAMIC);
            l.put(segment + 16, &address.to_ne_bytes());
            l.put(segment + 32, &(entries.len() as u64).to_ne_bytes());
        },
        Reason::LibraryDamaged,
        "has 500000 dynamic entries; the limit is 4096",
    ),
    (
        "many_sections",
        |l| {
            // The count does not fit into the header and stands in the first section instead.
            let entry = l.sections()[1].entry;
            let mut table = l.0[entry..entry + 64].repeat(100_000);
            table[..64].fill(0);
            table[32..40].copy_from_slice(&100_000_u64.to_ne_bytes());
            let place = l.append(&table);
            l.put(header::SECTION_TABLE, &place.to_ne_bytes());
            l.put(header::SECTION_COUNT, &[0, 0]);
        },
        Reason::LibraryDamaged,
        "has 100000 sections; the limit is 4096",
    ),
];

const NAMES: &[Case] = &[
    (
        // Finding out where each name ends would read as many bytes as both tables multiply to.
        "many_symbols_without_an_end",
        |l| {
            let mut symbol = [0; 24];
            symbol[6..8].copy_from_slice(&1_u16.to_ne_bytes());
            l.set_section(".dynsym", &symbol.repeat(300_000));
            l.set_section(".dynstr", &vec![b'x'; 4 << 20]);
            l.set_metadata(&many_records(1000));
        },
        Reason::FactoryNotFound,
        "names the factory 'factory_0'",
    ),
    (
        "many_symbols",
        |l| l.set_section(".dynsym", &vec![0; 24 * ((1 << 20) + 1)]),
        Reason::LibraryDamaged,
        "has 1048577 dynamic symbols; the limit is 1048576",
    ),
    (
        "many_section_names_without_an_end",
        |l| {
            let names = l.append(&vec![b'x'; 4 << 20]);
            let entry = l.sections()[1].entry;
            let mut table = l.0[entry..entry + 64].repeat(4096);
            table[..64].fill(0);
            table[64 + 24..64 + 32].copy_from_slice(&names.to_ne_bytes());
            table[64 + 32..64 + 40].copy_from_slice(&(4_u64 << 20).to_ne_bytes());
            for section in table.chunks_exact_mut(64) {
                section[..4].fill(0);
            }
            let place = l.append(&table);
            l.put(header::SECTION_TABLE, &place.to_ne_bytes());
            l.put(header::SECTION_COUNT, &4096_u16.to_ne_bytes());
            l.put(header::SECTION_NAMES, &1_u16.to_ne_bytes());
        },
        Reason::NotAnAdapter,
        "no section",
    ),
    (
        "many_records",
        |l| l.set_metadata(&many_records(1001)),
        Reason::MetadataInvalid,
        "more than 1000 records",
    ),
    (
        // Each is short enough. As values they would take gigabytes.
        "many_long_records",
        |l| {
            let manifest = format!("\"manifest\":[0{}]", ",0".repeat(100_000));
            let text =
                |n| record_text(&format!("factory_{n}")).replace("\"manifest\":null", &manifest);
            l.set_metadata(&(0..100).flat_map(|n| record(&text(n))).collect::<Vec<u8>>());
        },
        Reason::MetadataInvalid,
        "the limit is 4194304",
    ),
    (
        "endless_factory_name",
        |l| l.set_metadata(&record(&record_text(&"x".repeat(256)))),
        Reason::MetadataInvalid,
        "has 256 bytes; the limit is 255",
    ),
];

/// Returns a program table of so many entries: the library's first segment again and again, and only then
/// those that a search looks for.
fn many_segments(library: &Library, count: usize) -> Vec<u8> {
    let entry = library.segment(LOAD);
    let table = library.program_table();
    let more = count - table.len() / 56;
    [library.0[entry..entry + 56].repeat(more), table].concat()
}

/// Gives a library so many relocations, of which only the last one is wrong.
fn many_relocations(library: &mut Library, count: usize) {
    let address = library.object_addresses("create_adapter").start;
    let mut table: Vec<u8> = [address, 8, 0].map(u64::to_ne_bytes).concat().repeat(count);
    let last = table.len() - 24;
    table[last..last + 8].copy_from_slice(&0x7654_0000_0000_u64.to_ne_bytes());
    let loaded = library.load_at_end(UNWINDING, &table);
    library.set_dynamic(7, loaded);
    library.set_dynamic(8, table.len() as u64);
}

fn many_records(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| record(&record_text(&format!("factory_{n}")))).collect()
}

#[test]
fn too_many_segments_are_refused() {
    assert_all_refused(SEGMENTS);
}

#[test]
fn too_many_entries_are_refused() {
    assert_all_refused(ENTRIES);
}

#[test]
fn too_many_names_are_refused() {
    assert_all_refused(NAMES);
}

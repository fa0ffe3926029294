//! Library files with damaged tables, headers and metadata.

use nexus_router::loader::Reason;
use serde_json::json;

use super::Corpus;
use super::forge::{Library, header, record, record_text};

/// A case: its name, the damage to a good library, the reason, and what the error says.
pub type Case = (&'static str, fn(&mut Library), Reason, &'static str);

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const THREAD_DATA: u64 = 7;
const PROTECTED: u64 = 0x6474_e552;

const TABLES: &[Case] = &[
    ("wrong_class", |l| l.put(header::CLASS, &[1]), Reason::WrongPlatform, "32-bit"),
    ("wrong_byte_order", |l| l.put(header::BYTE_ORDER, &[2]), Reason::WrongPlatform, "byte order"),
    ("other_machine", other_machine, Reason::WrongPlatform, "machine 2"),
    ("type_executable", |l| set_type(l, 2), Reason::NotALibrary, "an executable"),
    ("type_object", |l| set_type(l, 1), Reason::NotALibrary, "an object file"),
    ("type_core", |l| set_type(l, 4), Reason::NotALibrary, "of type 4"),
    ("dynamic_zeroed", |l| fill_dynamic(l, 0), Reason::LibraryDamaged, "string table"),
    ("dynamic_garbage", |l| fill_dynamic(l, 0xa5), Reason::LibraryDamaged, "dynamic section"),
    (
        "dynamic_points_nowhere",
        |l| l.set_dynamic(5, 0x7654_0000_0000),
        Reason::LibraryDamaged,
        "outside of every",
    ),
    ("dynamic_without_end", dynamic_without_end, Reason::LibraryDamaged, "has no end"),
    (
        "no_dynamic_segment",
        |l| l.put(l.segment(DYNAMIC), &[0; 4]),
        Reason::NotALibrary,
        "no dynamic section",
    ),
    (
        "segment_beyond_the_file",
        |l| l.put(l.segment(LOAD) + 32, &u64::MAX.to_ne_bytes()),
        Reason::LibraryTruncated,
        "a segment",
    ),
    (
        "segment_larger_than_memory",
        |l| l.put(l.segment(LOAD) + 40, &1_u64.to_ne_bytes()),
        Reason::LibraryDamaged,
        "larger in the file",
    ),
    (
        "segments_in_another_order",
        |l| l.swap_segments(1, 2),
        Reason::LibraryDamaged,
        "not in order",
    ),
    (
        "thread_data_elsewhere",
        |l| l.put(l.segment(THREAD_DATA) + 16, &0x7654_0000_0000_u64.to_ne_bytes()),
        Reason::LibraryDamaged,
        "the thread-local data",
    ),
    (
        "protected_data_elsewhere",
        |l| l.put(l.segment(PROTECTED) + 16, &0x7654_0000_0000_u64.to_ne_bytes()),
        Reason::LibraryDamaged,
        "the protected data",
    ),
    (
        "section_table_elsewhere",
        |l| l.put(header::SECTION_TABLE, &u64::MAX.to_ne_bytes()),
        Reason::LibraryTruncated,
        "the section table",
    ),
    (
        "section_table_gone",
        |l| l.put(header::SECTION_TABLE, &[0; 8]),
        Reason::NotAnAdapter,
        "no section",
    ),
    (
        "section_entries_of_another_size",
        |l| l.put(header::SECTION_ENTRY_SIZE, &[9, 0]),
        Reason::LibraryDamaged,
        "section",
    ),
    (
        "section_names_elsewhere",
        |l| l.put(header::SECTION_NAMES, &[0xfe, 0xfe]),
        Reason::LibraryDamaged,
        "section",
    ),
    (
        "section_beyond_the_file",
        |l| l.put(l.section(".dynstr").entry + 32, &u64::MAX.to_ne_bytes()),
        Reason::LibraryTruncated,
        "a section",
    ),
    (
        "symbols_garbage",
        |l| fill(l, ".dynsym", 0xff),
        Reason::FactoryNotFound,
        "does not export it",
    ),
    ("relocations_garbage", |l| fill(l, ".rela.dyn", 0x5a), Reason::LibraryDamaged, "relocation"),
    (
        "header_too_small",
        |l| l.put(l.symbol("create_adapter") + 16, &4_u64.to_ne_bytes()),
        Reason::NotAFactory,
        "not as an adapter header",
    ),
    (
        "header_is_a_function",
        |l| l.put(l.symbol("create_adapter") + 4, &[0x12]),
        Reason::NotAFactory,
        "not as an adapter header",
    ),
    (
        "header_is_undefined",
        |l| l.put(l.symbol("create_adapter") + 6, &[0, 0]),
        Reason::FactoryNotFound,
        "does not export it",
    ),
];

const HEADERS: &[Case] = &[
    (
        "header_without_magic",
        |l| l.put(l.object("create_adapter"), b"something else entirely"),
        Reason::AbiMismatch,
        "",
    ),
    (
        "header_of_another_minor",
        |l| l.put(l.object("create_adapter") + 36, &10_u32.to_ne_bytes()),
        Reason::AbiMismatch,
        "",
    ),
    (
        "header_of_another_major",
        |l| l.put(l.object("create_adapter") + 32, &1_u32.to_ne_bytes()),
        Reason::AbiMismatch,
        "",
    ),
    (
        "header_forged",
        |l| l.derange_pointers("create_adapter"),
        Reason::LibraryCrashed,
        "while its header was checked",
    ),
    (
        "layout_changed",
        |l| l.replace(";describe;_self,call;", ";describe;_self,kall;"),
        Reason::AbiMismatch,
        "",
    ),
];

const METADATA: &[Case] = &[
    (
        "section_renamed",
        |l| l.replace(".nexus_adapter", ".nexus_adaptez"),
        Reason::NotAnAdapter,
        "no section",
    ),
    ("metadata_empty", |l| l.set_metadata(b""), Reason::NotAnAdapter, "is empty"),
    ("metadata_zeroes", |l| l.set_metadata(&[0; 64]), Reason::NotAnAdapter, "is empty"),
    ("metadata_garbage", |l| l.set_metadata(b"garbage here"), Reason::MetadataInvalid, "no record"),
    (
        "metadata_cut_off",
        |l| {
            let whole = record(&record_text("create_adapter"));
            l.set_metadata(&whole[..whole.len() - 9]);
        },
        Reason::MetadataInvalid,
        "is cut off",
    ),
    ("metadata_not_json", |l| l.set_metadata(&record("{")), Reason::MetadataInvalid, "not valid"),
    (
        "metadata_huge",
        |l| {
            let manifest = format!("\"manifest\":\"{}\"", "x".repeat(256 * 1024));
            let text = record_text("create_adapter").replace("\"manifest\":null", &manifest);
            l.set_metadata(&record(&text));
        },
        Reason::MetadataInvalid,
        "the limit is 262144",
    ),
    (
        "metadata_deep",
        |l| l.set_metadata(&record(&"[".repeat(100_000))),
        Reason::MetadataInvalid,
        "not valid",
    ),
    (
        "metadata_twice",
        |l| l.set_metadata(&record(&record_text("create_adapter")).repeat(2)),
        Reason::MetadataInvalid,
        "two records",
    ),
    (
        "factory_not_exported",
        |l| l.set_metadata(&record(&record_text("create_other"))),
        Reason::FactoryNotFound,
        "does not export it",
    ),
    (
        "newer_abi",
        |l| {
            let text = record_text("create_adapter").replace("\"abi\":1", "\"abi\":2");
            l.set_metadata(&record(&text));
        },
        Reason::AbiMismatch,
        "has ABI 2",
    ),
    (
        "manifest_no_object",
        |l| {
            let text = record_text("create_adapter").replace("null", "[]");
            l.set_metadata(&record(&text));
        },
        Reason::ManifestInvalid,
        "must be a dict",
    ),
];

fn other_machine(library: &mut Library) {
    // A machine that this one never is.
    library.put(header::MACHINE, &2_u16.to_ne_bytes());
}

fn set_type(library: &mut Library, kind: u16) {
    library.put(header::TYPE, &kind.to_ne_bytes());
}

fn fill(library: &mut Library, section: &str, byte: u8) {
    let contents = library.section(section).contents();
    library.0[contents].fill(byte);
}

fn fill_dynamic(library: &mut Library, byte: u8) {
    fill(library, ".dynamic", byte);
}

fn dynamic_without_end(library: &mut Library) {
    let entries = library.section(".dynamic").contents().step_by(16);
    let ends: Vec<usize> = entries.filter(|entry| library.number::<8>(*entry) == 0).collect();
    for end in ends {
        // A debug entry, which says nothing.
        library.put(end, &21_u64.to_ne_bytes());
    }
}

pub fn assert_all_refused(cases: &[Case]) {
    let corpus = Corpus::new();
    for (name, damage, reason, says) in cases {
        let mut library = Library::good();
        damage(&mut library);
        corpus.write(name, &library.0);
        let factory_ref = format!("{name}:create_adapter");
        corpus.assert_refused(&corpus.loader, &factory_ref, &json!({}), *reason, says);
    }
}

#[test]
fn damaged_tables_are_refused() {
    assert_all_refused(TABLES);
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    assert_all_refused(HEADERS);
}

#[test]
fn bad_metadata_is_refused() {
    assert_all_refused(METADATA);
}

#[test]
fn cut_off_libraries_are_refused() {
    let corpus = Corpus::new();
    let good = Library::good().0;
    let end = good.len();
    let lengths = [
        (1, Reason::NotALibrary),
        (19, Reason::NotALibrary),
        (20, Reason::LibraryDamaged),
        (52, Reason::LibraryDamaged),
        (64, Reason::LibraryTruncated),
        (512, Reason::LibraryTruncated),
        (4096, Reason::LibraryTruncated),
        (end / 4, Reason::LibraryTruncated),
        (end / 2, Reason::LibraryTruncated),
        (end * 3 / 4, Reason::LibraryTruncated),
        (end - 4096, Reason::LibraryTruncated),
        (end - 100, Reason::LibraryTruncated),
        (end - 1, Reason::LibraryTruncated),
    ];
    for (length, reason) in lengths {
        corpus.write("cut", &good[..length]);
        corpus.assert_refused(&corpus.loader, "cut:create_adapter", &json!({}), reason, "");
    }
}

#[test]
fn factories_are_told_from_other_names() {
    let corpus = Corpus::new();
    let refuse = |factory_ref: &str, reason, says: &str| {
        corpus.assert_refused(&corpus.loader, factory_ref, &json!({}), reason, says);
    };
    refuse("good:create_adaptor", Reason::FactoryNotFound, "has no attribute 'create_adaptor'");
    // Many are exported and one is recorded: the others are names, not factories.
    let mut library = Library::built("bad_adapters");
    library.set_metadata(&record(&record_text("factory_panics")));
    corpus.write("unrecorded", &library.0);
    refuse("unrecorded:factory_errs", Reason::NotAFactory, "is not callable");
    refuse("unrecorded:factory_panics", Reason::FactoryPanicked, "gave up");
}

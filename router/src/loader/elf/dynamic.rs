//! The dynamic section: what the system's loader reads, and the memory that it changes, without asking.

mod dependencies;

use std::collections::BTreeMap;
use std::ops::Range;

use object::elf;
use object::read::elf::ProgramHeader as _;
use object::{Endianness, ReadRef as _, U64};

use super::{Dependencies, Finding, Reason, Segment, damaged_text, limit};

/// More loadable segments are refused; linkers make four or five.
const MAX_LOADED: usize = 64;

/// More dynamic entries are refused; linkers make about thirty, and one per needed library.
const MAX_ENTRIES: usize = 4096;

/// More words of packed relocations are refused. Each stands for up to 63 places.
const MAX_PACKED: usize = 1024 * 1024;

/// The largest page of any machine.
const MAX_PAGE: u64 = 64 * 1024;

/// The bytes that a relocation changes.
const WORD: u64 = 8;

/// The words of a relocation with and without an addend.
const RELA: usize = 3;
const REL: usize = 2;

/// Checks that the dynamic section has what the system's loader reads without asking, and that the
/// addresses in it lie inside the loaded segments.
pub(super) fn check(segments: &[Segment], endian: Endianness, bytes: &[u8]) -> Result<(), Finding> {
    let loaded = Loaded::new(segments, endian, bytes)?;
    check_segments(segments, &loaded)?;
    // Of several entries of one tag the last counts, as for the system's loader. Only the libraries that
    // are needed stand under one tag together.
    let every_entry = read_entries(segments, &loaded)?;
    let entries: BTreeMap<i64, u64> = every_entry.iter().copied().collect();
    for (tag, value) in &entries {
        check_entry(elf::DynamicTag(*tag), *value, &loaded)?;
    }
    dependencies::check(&every_entry, &loaded)?;
    let value = |tag: elf::DynamicTag| entries.get(&tag.0).copied();
    for (tag, name) in [
        (elf::DT_STRTAB, "string table"),
        (elf::DT_SYMTAB, "symbol table"),
        (elf::DT_STRSZ, "string table size"),
    ] {
        if value(tag).is_none() {
            return Err(damaged_text(&format!("the dynamic section names no {name}")));
        }
    }
    let table = |table: elf::DynamicTag, size: elf::DynamicTag| match (value(table), value(size)) {
        (None, _) => Ok(&[][..]),
        (Some(_), None) => Err(damaged_text("the dynamic section names relocations of no size")),
        (Some(table), Some(size)) => loaded
            .words(table, size)
            .ok_or_else(|| damaged_text("the relocations are not in the file")),
    };
    let without_addends = value(elf::DT_PLTREL) == u64::try_from(elf::DT_REL.0).ok();
    let late = if without_addends { REL } else { RELA };
    check_relocations(table(elf::DT_RELA, elf::DT_RELASZ)?, RELA, &loaded)?;
    check_relocations(table(elf::DT_REL, elf::DT_RELSZ)?, REL, &loaded)?;
    check_relocations(table(elf::DT_JMPREL, elf::DT_PLTRELSZ)?, late, &loaded)?;
    check_packed(table(elf::DT_RELR, elf::DT_RELRSZ)?, &loaded)
}

/// Returns the dependencies that the dynamic section names.
pub(super) fn dependencies(
    segments: &[Segment],
    endian: Endianness,
    bytes: &[u8],
) -> Result<Dependencies, Finding> {
    let loaded = Loaded::new(segments, endian, bytes)?;
    dependencies::list(&read_entries(segments, &loaded)?, &loaded)
}

/// Checks that what the system's loader copies for each thread, and what it protects, is the library's own.
fn check_segments(segments: &[Segment], loaded: &Loaded<'_>) -> Result<(), Finding> {
    for segment in segments {
        let start = segment.p_vaddr(loaded.endian);
        let (what, inside) = match segment.p_type(loaded.endian) {
            elf::PT_TLS => {
                let size = segment.p_filesz(loaded.endian);
                ("thread-local data", size == 0 || loaded.holds(start, size))
            }
            elf::PT_GNU_RELRO => {
                let end = start.checked_add(segment.p_memsz(loaded.endian));
                ("protected data", end.is_some_and(|end| loaded.surrounds(start..end)))
            }
            _ => continue,
        };
        if !inside {
            let problem = format!("the {what} at {start:#x} is outside of every loadable segment");
            return Err(damaged_text(&problem));
        }
    }
    Ok(())
}

/// Returns the entries: tag and value. Of several sections the last counts, as for the system's loader.
fn read_entries(segments: &[Segment], loaded: &Loaded<'_>) -> Result<Vec<(i64, u64)>, Finding> {
    let endian = loaded.endian;
    let dynamic = segments.iter().rfind(|segment| segment.p_type(endian) == elf::PT_DYNAMIC);
    let dynamic = dynamic.ok_or_else(|| {
        (Reason::NotALibrary, "has no dynamic section: it is not a shared library".to_owned())
    })?;
    // Read where it is loaded: that is what counts, whatever the place in the file says.
    let words = loaded.words(dynamic.p_vaddr(endian), dynamic.p_filesz(endian));
    let words = words.ok_or_else(|| damaged_text("the dynamic section is not in the file"))?;
    let entries = words.chunks_exact(2).map(|entry| (entry[0].get(endian), entry[1].get(endian)));
    let end = entries.clone().position(|(tag, _)| tag == 0);
    let end = end.ok_or_else(|| damaged_text("the dynamic section has no end"))?;
    limit(end, "dynamic entries", MAX_ENTRIES)?;
    Ok(entries.take(end).map(|(tag, value)| (tag.cast_signed(), value)).collect())
}

fn check_entry(tag: elf::DynamicTag, value: u64, loaded: &Loaded<'_>) -> Result<(), Finding> {
    match tag {
        elf::DT_HASH
        | elf::DT_STRTAB
        | elf::DT_SYMTAB
        | elf::DT_RELA
        | elf::DT_REL
        | elf::DT_RELR
        | elf::DT_JMPREL
        | elf::DT_PLTGOT
        | elf::DT_INIT
        | elf::DT_FINI
        | elf::DT_INIT_ARRAY
        | elf::DT_FINI_ARRAY
        | elf::DT_GNU_HASH
        | elf::DT_VERSYM
        | elf::DT_VERDEF
        | elf::DT_VERNEED
            if !loaded.holds(value, 1) =>
        {
            Err(damaged_text(&format!(
                "dynamic entry {:#x} points to {value:#x}, outside of every segment",
                tag.0
            )))
        }
        elf::DT_FLAGS_1 if value & elf::DF_1_PIE.0 != 0 => {
            Err((Reason::NotALibrary, "is an executable, not a shared library".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Checks that relocations change nothing but this library. The system's loader writes wherever they say,
/// which in a host would be into somebody else's memory.
fn check_relocations(
    words: &[U64<Endianness>],
    entry: usize,
    loaded: &Loaded<'_>,
) -> Result<(), Finding> {
    let entries = words.chunks_exact(entry);
    if !entries.remainder().is_empty() {
        return Err(damaged_text("the last relocation is cut off"));
    }
    for entry in entries {
        let (target, info) = (entry[0].get(loaded.endian), entry[1].get(loaded.endian));
        // Nothing is done for a relocation of type 0; linkers leave them where others were.
        if info != 0 {
            loaded.check_target(target)?;
        }
    }
    Ok(())
}

/// Checks packed relocations in the same way. An even word is a place. An odd one has a bit for each of the
/// 63 places behind those of the word before it.
fn check_packed(words: &[U64<Endianness>], loaded: &Loaded<'_>) -> Result<(), Finding> {
    limit(words.len(), "words of packed relocations", MAX_PACKED)?;
    let mut next = None;
    for word in words {
        let word = word.get(loaded.endian);
        if word & 1 == 0 {
            loaded.check_target(word)?;
            next = word.checked_add(WORD);
            continue;
        }
        let base = next.ok_or_else(|| damaged_text("the packed relocations begin nowhere"))?;
        for bit in (0..63).filter(|bit| word >> (bit + 1) & 1 == 1) {
            loaded.check_target(base.saturating_add(bit * WORD))?;
        }
        next = base.checked_add(63 * WORD);
    }
    Ok(())
}

/// The segments of a library that are loaded.
struct Loaded<'d> {
    endian: Endianness,
    bytes: &'d [u8],
    segments: Vec<&'d Segment>,
    /// The addresses that they cover, in order; neighbours are merged.
    addresses: Vec<Range<u64>>,
}

impl<'d> Loaded<'d> {
    fn new(segments: &'d [Segment], endian: Endianness, bytes: &'d [u8]) -> Result<Self, Finding> {
        let segments = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let segments: Vec<&Segment> = segments.collect();
        limit(segments.len(), "loadable segments", MAX_LOADED)?;
        let mut addresses: Vec<Range<u64>> = Vec::new();
        for segment in &segments {
            let start = segment.p_vaddr(endian);
            let end = start.checked_add(segment.p_memsz(endian));
            let end = end.ok_or_else(|| damaged_text("a segment ends beyond any memory"))?;
            match addresses.last_mut() {
                // The system's loader reserves what lies between the first segment and the end of the last
                // one, and maps the others over whatever is at their addresses.
                Some(last) if start < last.end => {
                    return Err(damaged_text("the loadable segments are not in order"));
                }
                Some(last) if start == last.end => last.end = end,
                _ => addresses.push(start..end),
            }
        }
        Ok(Self { endian, bytes, segments, addresses })
    }

    /// Says whether so many bytes at an address are loaded.
    fn holds(&self, address: u64, size: u64) -> bool {
        let after = self.addresses.partition_point(|range| range.start <= address);
        let range = after.checked_sub(1).map(|at| &self.addresses[at]);
        range.is_some_and(|range| range.end.saturating_sub(address) >= size)
    }

    /// Says whether a range lies between the first and the last address, up to the end of the last page.
    fn surrounds(&self, range: Range<u64>) -> bool {
        let bounds = self.addresses.first().zip(self.addresses.last());
        bounds.is_some_and(|(first, last)| {
            let end = last.end.checked_next_multiple_of(MAX_PAGE).unwrap_or(u64::MAX);
            first.start <= range.start && range.end <= end
        })
    }

    fn check_target(&self, target: u64) -> Result<(), Finding> {
        if self.holds(target, WORD) {
            return Ok(());
        }
        let problem = format!("a relocation changes {target:#x}, outside of every segment");
        Err(damaged_text(&problem))
    }

    /// Returns the words of a table that is loaded from the file.
    fn words(&self, table: u64, size: u64) -> Option<&'d [U64<Endianness>]> {
        let count = usize::try_from(size / WORD).ok().filter(|_| size.is_multiple_of(WORD))?;
        self.bytes.read_slice_at(self.place(table, size)?, count).ok()
    }

    /// Returns the bytes at an address that are loaded from the file.
    fn bytes_at(&self, address: u64, size: u64) -> Option<&'d [u8]> {
        self.bytes.read_bytes_at(self.place(address, size)?, size).ok()
    }

    /// Returns where in the file something lies that is loaded from it.
    fn place(&self, address: u64, size: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let into = address.checked_sub(segment.p_vaddr(self.endian))?;
            let end = into.checked_add(size)?;
            let place = segment.p_offset(self.endian).checked_add(into)?;
            (end <= segment.p_filesz(self.endian)).then_some(place)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::U32;

    const ENDIAN: Endianness =
        if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };

    /// Where the file is loaded, what else is loaded, and between them a gap.
    const START: u64 = 0x1000;
    const OTHER: Range<u64> = 0x1000_0000..0x1000_0020;

    fn segment(kind: elf::ProgramType, addresses: Range<u64>, in_file: u64) -> Segment {
        let number = |number| U64::new(ENDIAN, number);
        Segment {
            p_type: U32::new(ENDIAN, kind),
            p_flags: U32::new(ENDIAN, elf::PF_R),
            p_offset: number(0),
            p_vaddr: number(addresses.start),
            p_paddr: number(0),
            p_filesz: number(in_file),
            p_memsz: number(addresses.end - addresses.start),
            p_align: number(8),
        }
    }

    /// Checks a file that is a dynamic section and a table behind it.
    fn check_table(entries: &[(elf::DynamicTag, u64)], table: &[u64]) -> Result<(), String> {
        let tables = [(elf::DT_STRTAB, START), (elf::DT_SYMTAB, START), (elf::DT_STRSZ, 0)];
        let entries = tables.iter().chain(entries).chain([&(elf::DT_NULL, 0)]);
        let entries = entries.flat_map(|(tag, value)| [tag.0.cast_unsigned(), *value]);
        let words: Vec<u64> = entries.chain(table.iter().copied()).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let size = bytes.len() as u64;
        let segments = [
            segment(elf::PT_LOAD, START..START + size, size),
            segment(elf::PT_LOAD, OTHER, 0),
            segment(elf::PT_DYNAMIC, START..START + size, size),
        ];
        check(&segments, ENDIAN, &bytes).map_err(|(reason, found)| {
            assert_eq!(reason, Reason::LibraryDamaged);
            found
        })
    }

    /// Checks a table of relocations of one kind. It stands behind the six entries of the section.
    fn check_kind(
        (at, size): (elf::DynamicTag, elf::DynamicTag),
        table: &[u64],
    ) -> Result<(), String> {
        let bytes = table.len() as u64 * WORD;
        check_table(&[(at, START + 6 * 2 * WORD), (size, bytes)], table)
    }

    #[track_caller]
    fn assert_damaged(result: Result<(), String>, says: &str) {
        let found = result.unwrap_err();
        assert!(found.contains(says), "'{says}' is not in '{found}'");
    }

    #[test]
    fn every_kind_of_relocation_stays_inside_the_segments() {
        let (rela, rel) = ((elf::DT_RELA, elf::DT_RELASZ), (elf::DT_REL, elf::DT_RELSZ));
        let late = (elf::DT_JMPREL, elf::DT_PLTRELSZ);
        let last = OTHER.end - WORD;
        for (kind, good, bad) in [
            (rela, vec![START, 8, 0, last, 8, 0, 7, 0, 0], vec![START, 8, 0, last + 1, 8, 0]),
            (rel, vec![START, 8, last, 8, 7, 0], vec![START, 8, last + 1, 8]),
            (late, vec![last, 7, 0], vec![START - 1, 7, 0]),
        ] {
            check_kind(kind, &good).unwrap();
            assert_damaged(check_kind(kind, &bad), "outside of every segment");
            assert_damaged(check_kind(kind, &good[1..]), "cut off");
        }
        let sizeless = check_table(&[(elf::DT_RELA, START)], &[]);
        assert_damaged(sizeless, "relocations of no size");
        let longer = check_table(&[(elf::DT_RELA, START), (elf::DT_RELASZ, 24 * 1000)], &[]);
        assert_damaged(longer, "not in the file");
    }

    #[test]
    fn packed_relocations_stay_inside_the_segments() {
        let check = |table: &[u64]| check_kind((elf::DT_RELR, elf::DT_RELRSZ), table);
        let bitmap = |places: &[u32]| places.iter().fold(1_u64, |word, place| word | 2 << place);
        // Four words fit into the other segment: one by its address, three by their bits.
        for good in [
            vec![OTHER.start, bitmap(&[0, 1, 2])],
            vec![OTHER.start, START, bitmap(&[0]), OTHER.end - WORD, bitmap(&[]), OTHER.start],
        ] {
            check(&good).unwrap_or_else(|found| panic!("{good:x?}: {found}"));
        }
        for (bad, says) in [
            (vec![bitmap(&[0])], "begin nowhere"),
            (vec![0], "outside"),
            (vec![OTHER.end], "outside"),
            (vec![OTHER.end - 6], "outside"),
            (vec![OTHER.start, bitmap(&[3])], "changes 0x10000020"),
            (vec![OTHER.start, bitmap(&[62])], "outside"),
            (vec![OTHER.start, bitmap(&[]), bitmap(&[0])], "changes 0x10000200"),
            (vec![START; MAX_PACKED + 1], "has 1048577 words of packed relocations"),
        ] {
            assert_damaged(check(&bad), says);
        }
    }

    #[test]
    fn data_of_threads_and_protected_data_are_the_librarys_own() {
        let check_one = |kind, range: Range<u64>, in_file| {
            let segments = [
                segment(elf::PT_LOAD, START..START + 32, 32),
                segment(elf::PT_LOAD, OTHER, 0),
                segment(kind, range, in_file),
            ];
            let loaded = Loaded::new(&segments, ENDIAN, &[]).unwrap();
            check_segments(&segments, &loaded).map_err(|(_, found)| found)
        };
        let (tls, relro) = (elf::PT_TLS, elf::PT_GNU_RELRO);
        // What is not in the file is nowhere, and protection may reach over gaps to the end of a page.
        check_one(tls, START + 16..START + 64, 16).unwrap();
        check_one(tls, 0..64, 0).unwrap();
        check_one(relro, START + 16..OTHER.start + MAX_PAGE, 16).unwrap();
        for (kind, range, in_file) in [
            (tls, START + 16..START + 64, 17),
            (tls, OTHER.end..OTHER.end + 1, 1),
            (relro, START - 1..START + 16, 0),
            (relro, START..OTHER.start + MAX_PAGE + 1, 0),
        ] {
            assert_damaged(check_one(kind, range, in_file), "outside of every loadable segment");
        }
    }

    #[test]
    fn last_of_several_entries_counts() {
        let nowhere = OTHER.end;
        let twice = [(elf::DT_HASH, nowhere), (elf::DT_HASH, START)];
        check_table(&twice, &[]).unwrap();
        assert_damaged(check_table(&[twice[1], twice[0]], &[]), "points to 0x10000020");
    }

    #[test]
    fn dynamic_entries_and_segments_are_limited() {
        let entry = (elf::DT_DEBUG, 0);
        check_table(&vec![entry; MAX_ENTRIES - 3], &[]).unwrap();
        let more = check_table(&vec![entry; MAX_ENTRIES - 2], &[]);
        assert_damaged(more, "has 4097 dynamic entries; the limit is 4096");
        let segments = [segment(elf::PT_LOAD, START..START, 0); MAX_LOADED + 1];
        assert!(Loaded::new(&segments[1..], ENDIAN, &[]).is_ok());
        let (_, found) = Loaded::new(&segments, ENDIAN, &[]).err().unwrap();
        assert_eq!(found, "has 65 loadable segments; the limit is 64");
    }

    #[test]
    fn loaded_addresses_are_in_order_and_merged() {
        let load = |range| segment(elf::PT_LOAD, range, 0);
        let segments = [0..10, 10..20, 40..48, 60..60, 100..u64::MAX].map(load);
        let loaded = Loaded::new(&segments, ENDIAN, &[]).unwrap();
        assert_eq!(loaded.addresses, [0..20, 40..48, 60..60, 100..u64::MAX]);
        for (address, size, held) in [
            (0, 20, true),
            (12, 8, true),
            (13, 8, false),
            (20, 1, false),
            (39, 1, false),
            (40, 8, true),
            (60, 1, false),
            (u64::MAX - 8, 8, true),
            (u64::MAX - 7, 8, false),
            (u64::MAX, 1, false),
        ] {
            assert_eq!(loaded.holds(address, size), held, "{size} bytes at {address}");
        }
        for ranges in [[40..48, 0..10], [0..10, 0..10], [0..10, 9..20]] {
            let (_, found) = Loaded::new(&ranges.map(load), ENDIAN, &[]).err().unwrap();
            assert!(found.contains("not in order"), "{found}");
        }
        let mut beyond = load(8..16);
        beyond.p_memsz = U64::new(ENDIAN, u64::MAX);
        assert!(Loaded::new(&[beyond], ENDIAN, &[]).is_err());
    }
}

//! The static pre-flight: everything that the file itself tells, before any code of it runs.
//!
//! The system's loader trusts the tables of a file; a damaged one kills the process that opens it. What
//! can be known from the bytes is therefore checked here, and the child process catches the rest.

use std::collections::BTreeMap;
use std::path::Path;

use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef as _};

use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;
use super::image;
use super::metadata::{FactoryRecord, read_records};
use nexus_router_sdk::metadata::SECTION;

type Header = elf::FileHeader64<Endianness>;
type Elf<'a> = ElfFile64<'a, Endianness>;

/// A finding of the pre-flight: the reason and what was found.
type Finding = (Reason, String);

/// Examines a file and returns the records of all factories that it exports.
pub(super) fn examine(
    factory_ref: &str,
    shown: &str,
    bytes: &[u8],
) -> Result<Vec<FactoryRecord>, AdapterLoadError> {
    examine_bytes(bytes).map(|(_, records)| records).map_err(|(reason, found)| {
        AdapterLoadError::new(factory_ref, reason, format!("{shown} {found}"))
    })
}

/// Returns the record of the factory that a ref names, in the records of its library.
pub(super) fn select<'r>(
    factory_ref: &FactoryRef,
    path: &Path,
    records: &'r [FactoryRecord],
) -> Result<&'r FactoryRecord, AdapterLoadError> {
    let (module, function) = (factory_ref.module(), factory_ref.function());
    if let Some(record) = records.iter().find(|record| record.factory == function) {
        return Ok(record);
    }
    let bytes = image::read(factory_ref.as_str(), path)?;
    let exported = Elf::parse(&*bytes).is_ok_and(|elf| defined_symbol(&elf, function).is_some());
    let (reason, message) = if exported {
        (Reason::NotAFactory, format!("'{function}' in module '{module}' is not callable"))
    } else {
        (Reason::FactoryNotFound, format!("Module '{module}' has no attribute '{function}'"))
    };
    let names: Vec<&str> = records.iter().map(|record| record.factory.as_str()).collect();
    Err(AdapterLoadError::new(factory_ref.as_str(), reason, message)
        .with_hint(format!("the library exports {}", names.join(", "))))
}

fn examine_bytes(bytes: &[u8]) -> Result<(Elf<'_>, Vec<FactoryRecord>), Finding> {
    check_identity(bytes)?;
    let header = Header::parse(bytes).map_err(|error| damaged(&error))?;
    let endian = header.endian().map_err(|error| damaged(&error))?;
    check_extent(header, endian, bytes)?;
    check_dynamic(header, endian, bytes)?;
    let elf = Elf::parse(bytes).map_err(|error| damaged(&error))?;
    let section = elf.section_by_name(SECTION).ok_or_else(|| {
        (Reason::NotAnAdapter, format!("is not a nexus-router adapter: no section {SECTION}"))
    })?;
    let data = section.data().map_err(|error| damaged(&error))?;
    let invalid =
        |problem| (Reason::MetadataInvalid, format!("has unreadable metadata: {problem}"));
    let records = read_records(data).map_err(invalid)?;
    if records.is_empty() {
        return Err((Reason::NotAnAdapter, format!("exports no factory: {SECTION} is empty")));
    }
    for record in &records {
        check_symbol(&elf, &record.factory)?;
    }
    Ok((elf, records))
}

/// Checks that the file is a shared library for this machine.
fn check_identity(bytes: &[u8]) -> Result<(), Finding> {
    let not_a_library = |what: &str| (Reason::NotALibrary, format!("is {what}"));
    if bytes.is_empty() {
        return Err(not_a_library("empty"));
    }
    if bytes.len() < 20 || !bytes.starts_with(b"\x7fELF") {
        return Err(not_a_library("not an ELF file"));
    }
    let (class, data) = (elf::FileClass(bytes[4]), elf::DataEncoding(bytes[5]));
    let field = |at: usize| {
        let pair = [bytes[at], bytes[at + 1]];
        if data == elf::ELFDATA2MSB { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    };
    let wrong = |what: String, host: &str| {
        (Reason::WrongPlatform, format!("is built for {what}; this machine is {host}"))
    };
    if class != elf::ELFCLASS64 {
        return Err(wrong("32-bit machines".to_owned(), "64-bit"));
    }
    let host_data = if cfg!(target_endian = "big") { elf::ELFDATA2MSB } else { elf::ELFDATA2LSB };
    if data != host_data {
        return Err(wrong("the other byte order".to_owned(), std::env::consts::ARCH));
    }
    let machine = elf::Machine(field(18));
    let host_machine = match std::env::consts::ARCH {
        "x86_64" => elf::EM_X86_64,
        "aarch64" => elf::EM_AARCH64,
        "riscv64" => elf::EM_RISCV,
        _ => machine,
    };
    if machine != host_machine {
        return Err(wrong(machine_name(machine), std::env::consts::ARCH));
    }
    match elf::FileType(field(16)) {
        elf::ET_DYN => Ok(()),
        elf::ET_EXEC => Err(not_a_library("an executable, not a shared library")),
        elf::ET_REL => Err(not_a_library("an object file, not a shared library")),
        other => {
            Err(not_a_library(&format!("an ELF file of type {}, not a shared library", other.0)))
        }
    }
}

/// Checks that every table and segment lies inside the file.
fn check_extent(header: &Header, endian: Endianness, bytes: &[u8]) -> Result<(), Finding> {
    let truncated = |what: &str, end: Option<u64>| {
        let end = end.map_or_else(|| "beyond any file".to_owned(), |end| format!("at byte {end}"));
        let size = bytes.len();
        (Reason::LibraryTruncated, format!("is cut off: {what} ends {end}, the file at {size}"))
    };
    let inside = |what: &str, offset: u64, size: u64| match offset.checked_add(size) {
        Some(end) if end <= bytes.len() as u64 => Ok(()),
        end => Err(truncated(what, end)),
    };
    let table = |count: u16, size: u16| u64::from(count) * u64::from(size);
    let programs = table(header.e_phnum.get(endian), header.e_phentsize.get(endian));
    inside("the program header table", header.e_phoff.get(endian), programs)?;
    let sections = table(header.e_shnum.get(endian), header.e_shentsize.get(endian));
    inside("the section table", header.e_shoff.get(endian), sections)?;
    for segment in header.program_headers(endian, bytes).map_err(|error| damaged(&error))? {
        inside("a segment", segment.p_offset(endian), segment.p_filesz(endian))?;
        if segment.p_type(endian) == elf::PT_LOAD
            && segment.p_filesz(endian) > segment.p_memsz(endian)
        {
            return Err(damaged_text("a segment is larger in the file than in memory"));
        }
    }
    for section in header.sections(endian, bytes).map_err(|error| damaged(&error))?.iter() {
        if section.sh_type.get(endian) != elf::SHT_NOBITS {
            inside("a section", section.sh_offset.get(endian), section.sh_size.get(endian))?;
        }
    }
    Ok(())
}

/// Checks that the dynamic section has what the system's loader reads without asking, and that the
/// addresses in it lie inside the loaded segments.
fn check_dynamic(header: &Header, endian: Endianness, bytes: &[u8]) -> Result<(), Finding> {
    let segments = header.program_headers(endian, bytes).map_err(|error| damaged(&error))?;
    let loaded = |address: u64| {
        segments.iter().any(|segment| {
            segment.p_type(endian) == elf::PT_LOAD
                && address >= segment.p_vaddr(endian)
                && address - segment.p_vaddr(endian) < segment.p_memsz(endian)
        })
    };
    let dynamic = segments
        .iter()
        .find_map(|segment| segment.dynamic(endian, bytes).transpose())
        .ok_or((
            Reason::NotALibrary,
            "has no dynamic section: it is not a shared library".to_owned(),
        ))?
        .map_err(|error| damaged(&error))?;
    let mut seen = BTreeMap::new();
    let mut ended = false;
    for entry in dynamic {
        let tag = entry.d_tag(endian);
        let value = entry.d_val(endian);
        match tag {
            elf::DT_NULL => {
                ended = true;
                break;
            }
            elf::DT_HASH
            | elf::DT_STRTAB
            | elf::DT_SYMTAB
            | elf::DT_RELA
            | elf::DT_REL
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
                if !loaded(value) =>
            {
                return Err(damaged_text(&format!(
                    "dynamic entry {:#x} points to {value:#x}, outside of every segment",
                    tag.0
                )));
            }
            elf::DT_FLAGS_1 if value & elf::DF_1_PIE.0 != 0 => {
                let what = "is an executable, not a shared library".to_owned();
                return Err((Reason::NotALibrary, what));
            }
            _ => {}
        }
        seen.insert(tag.0, value);
    }
    for (tag, name) in [
        (elf::DT_STRTAB, "string table"),
        (elf::DT_SYMTAB, "symbol table"),
        (elf::DT_STRSZ, "string table size"),
    ] {
        if !seen.contains_key(&tag.0) {
            return Err(damaged_text(&format!("the dynamic section names no {name}")));
        }
    }
    if !ended {
        return Err(damaged_text("the dynamic section has no end"));
    }
    let value = |tag: elf::DynamicTag| seen.get(&tag.0).copied();
    for (table, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
        if let (Some(table), Some(size)) = (value(table), value(size)) {
            check_relocations(segments, endian, bytes, table, size)?;
        }
    }
    Ok(())
}

/// Checks that relocations lie in the file and change nothing but this library. The system's loader writes
/// wherever they say, which in a host would be into somebody else's memory.
fn check_relocations(
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    bytes: &[u8],
    table: u64,
    size: u64,
) -> Result<(), Finding> {
    let loaded = || segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let place = loaded().find_map(|segment| {
        let into = table.checked_sub(segment.p_vaddr(endian))?;
        let end = into.checked_add(size)?;
        (end <= segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(into))?
    });
    let place = place.ok_or_else(|| damaged_text("the relocations are not in the file"))?;
    let count = usize::try_from(size).unwrap_or(usize::MAX) / size_of::<elf::Rela64<Endianness>>();
    let relocations: &[elf::Rela64<Endianness>] = bytes
        .read_slice_at(place, count)
        .map_err(|()| damaged_text("the relocations are not in the file"))?;
    for relocation in relocations {
        let target = relocation.r_offset.get(endian);
        let inside = loaded().any(|segment| {
            let into = target.checked_sub(segment.p_vaddr(endian));
            into.and_then(|into| into.checked_add(8))
                .is_some_and(|end| end <= segment.p_memsz(endian))
        });
        if !inside && relocation.r_info.get(endian) != 0 {
            let problem = format!("a relocation changes {target:#x}, outside of every segment");
            return Err(damaged_text(&problem));
        }
    }
    Ok(())
}

/// Checks that a factory's symbol is data large enough to be a header: what is read from it is bounded.
fn check_symbol(elf: &Elf<'_>, function: &str) -> Result<(), Finding> {
    let Some((kind, size)) = defined_symbol(elf, function) else {
        let found =
            format!("names the factory '{function}' in its metadata, but does not export it");
        return Err((Reason::FactoryNotFound, found));
    };
    let needed = size_of::<nexus_router_abi::LibHeader>() as u64;
    if kind != elf::STT_OBJECT || size < needed {
        let found = format!("exports '{function}', but not as an adapter header of {needed} bytes");
        return Err((Reason::NotAFactory, found));
    }
    Ok(())
}

/// Returns type and size of a symbol that the library defines.
fn defined_symbol(elf: &Elf<'_>, name: &str) -> Option<(elf::SymbolType, u64)> {
    let symbol = elf.dynamic_symbols().find(|symbol| {
        !symbol.is_undefined() && symbol.name_bytes().is_ok_and(|found| found == name.as_bytes())
    })?;
    Some((symbol.elf_symbol().st_type(), symbol.size()))
}

fn damaged(error: &object::Error) -> Finding {
    damaged_text(&error.to_string())
}

fn damaged_text(problem: &str) -> Finding {
    (Reason::LibraryDamaged, format!("is damaged: {problem}"))
}

fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_X86_64 => "x86_64".to_owned(),
        elf::EM_AARCH64 => "aarch64".to_owned(),
        elf::EM_RISCV => "riscv64".to_owned(),
        elf::EM_386 => "x86".to_owned(),
        elf::EM_ARM => "arm".to_owned(),
        other => format!("machine {}", other.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::ops::Range;
    use std::path::PathBuf;
    use std::sync::LazyLock;

    /// A good library: the echo adapter, which is built beside the tests.
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        test.with_file_name("libnexus_router_adapter_echo.so")
    });

    static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read(&*PATH).unwrap());

    /// The parts of the good library that the pre-flight reads.
    static READ_PARTS: LazyLock<Vec<Range<usize>>> = LazyLock::new(|| {
        let elf = Elf::parse(GOOD.as_slice()).unwrap();
        let part = |name: &str| {
            let (start, size) = elf.section_by_name(name).unwrap().file_range().unwrap();
            let start = usize::try_from(start).unwrap();
            start..start + usize::try_from(size).unwrap()
        };
        let names = [".dynamic", ".dynsym", ".dynstr", ".rela.dyn", SECTION];
        let table = elf.elf_header().e_shoff.get(elf.endian());
        let table = usize::try_from(table).unwrap()..GOOD.len();
        names.into_iter().map(part).chain([0..64, 64..1024, table]).collect()
    });

    #[test]
    fn good_library_passes_and_its_factory_is_selected() {
        let records = examine("m:f", "good", &GOOD).unwrap();
        let good = FactoryRef::new("m", "create_adapter");
        assert_eq!(select(&good, &PATH, &records).unwrap().factory, "create_adapter");
        let missing = FactoryRef::new("m", "create");
        let error = select(&missing, &PATH, &records).unwrap_err();
        assert_eq!(error.reason(), Reason::FactoryNotFound);
        assert_eq!(error.hint(), "the library exports create_adapter");
    }

    #[test]
    fn relocations_stay_inside_the_library() {
        let mut bytes = GOOD.clone();
        // The parts begin with those of the list above; the fourth are the relocations.
        let first = READ_PARTS[3].start;
        bytes[first + 5] = 0x7f;
        let error = examine("m:f", "damaged", &bytes).unwrap_err();
        assert_eq!(error.reason(), Reason::LibraryDamaged);
        assert!(error.to_string().contains("outside of every segment"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_damage_makes_it_panic(
            damages in prop::collection::vec((any::<Index>(), any::<Index>(), any::<u8>()), 1..8),
            cut in proptest::option::weighted(0.1, any::<Index>()),
        ) {
            let mut bytes = GOOD.clone();
            for (part, place, byte) in damages {
                let part = part.get(&READ_PARTS);
                bytes[part.start + place.index(part.len())] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(records) = examine("m:f", "damaged", &bytes) {
                prop_assert!(!records.is_empty());
                drop(select(&FactoryRef::new("m", "create_adapter"), &PATH, &records));
            }
        }

        #[test]
        fn no_bytes_behind_a_good_beginning_make_it_panic(
            kept in 0usize..200,
            rest in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let bytes = [&GOOD[..kept], &rest].concat();
            prop_assert!(examine("m:f", "noise", &bytes).is_err());
        }
    }
}

//! The static pre-flight: everything that the file itself tells, before any code of it runs.
//!
//! The system's loader trusts the tables of a file; a damaged one kills the process that opens it. What
//! can be known from the bytes is therefore checked here, and the child process catches the rest. The look
//! happens in the host, so it is bounded too: every table is read once, and nothing in it makes another
//! one be read again.

mod dynamic;

use std::collections::HashSet;
use std::ffi::CStr;

use object::elf;
use object::read::elf::{
    FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _,
};
use object::{Endianness, SectionIndex};

use super::error::{AdapterLoadError, Reason};
use super::metadata::{FactoryRecord, read_records};
use nexus_router_sdk::metadata::SECTION;

type Header = elf::FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;
type Sections<'d> = SectionTable<'d, Header>;
type Symbol = elf::Sym64<Endianness>;

/// A finding of the pre-flight: the reason and what was found.
type Finding = (Reason, String);

/// More program headers are refused; linkers make about a dozen.
const MAX_PROGRAM_HEADERS: usize = 256;

/// More sections are refused; linkers make about forty.
const MAX_SECTIONS: usize = 4096;

/// More dynamic symbols are refused; the largest libraries have some hundred thousand.
const MAX_SYMBOLS: usize = 1024 * 1024;

/// A longer metadata section is refused: JSON takes much more memory than its text.
const MAX_METADATA: usize = 4 * 1024 * 1024;

/// Longer names of factories are refused.
const MAX_NAME: usize = 255;

/// Examines a file and returns the records of all factories that it exports.
pub(super) fn examine(
    factory_ref: &str,
    shown: &str,
    bytes: &[u8],
) -> Result<Vec<FactoryRecord>, AdapterLoadError> {
    examine_bytes(bytes).map_err(|(reason, found)| {
        AdapterLoadError::new(factory_ref, reason, format!("{shown} {found}"))
    })
}

/// The other libraries that a library asks for, and where it wants them to be looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    pub(super) names: Vec<String>,
    pub(super) places: Vec<String>,
    /// The name by which others ask for it.
    pub(super) own_name: Option<String>,
}

/// Returns the dependencies of a library that was examined.
pub(super) fn dependencies(bytes: &[u8]) -> Option<Dependencies> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    dynamic::dependencies(segments, endian, bytes).ok()
}

/// Says whether a library that was examined exports a name, as whatever it may be.
pub(super) fn exports(bytes: &[u8], name: &str) -> bool {
    let read = || {
        let header = Header::parse(bytes)?;
        let endian = header.endian()?;
        Exports::read(&header.sections(endian, bytes)?, endian, bytes)
    };
    let exports: object::Result<Exports<'_>> = read();
    exports
        .is_ok_and(|exports| exports.named(name.len()).any(|(found, _)| found == name.as_bytes()))
}

fn examine_bytes(bytes: &[u8]) -> Result<Vec<FactoryRecord>, Finding> {
    check_identity(bytes)?;
    let header = Header::parse(bytes).map_err(|error| damaged(&error))?;
    let endian = header.endian().map_err(|error| damaged(&error))?;
    let (segments, sections) = check_extent(header, endian, bytes)?;
    dynamic::check(segments, endian, bytes)?;
    let data = metadata(header, &sections, endian, bytes)?.ok_or_else(|| {
        (Reason::NotAnAdapter, format!("is not a nexus-router adapter: no section {SECTION}"))
    })?;
    let invalid =
        |problem| (Reason::MetadataInvalid, format!("has unreadable metadata: {problem}"));
    if data.len() > MAX_METADATA {
        let size = data.len();
        return Err(invalid(format!("{SECTION} has {size} bytes; the limit is {MAX_METADATA}")));
    }
    let records = read_records(data).map_err(invalid)?;
    if records.is_empty() {
        return Err((Reason::NotAnAdapter, format!("exports no factory: {SECTION} is empty")));
    }
    if let Some(size) = records.iter().map(|record| record.factory.len()).find(|&n| n > MAX_NAME) {
        let problem = format!("a factory's name has {size} bytes; the limit is {MAX_NAME}");
        return Err(invalid(problem));
    }
    let exports = Exports::read(&sections, endian, bytes).map_err(|error| damaged(&error))?;
    limit(exports.symbols.len(), "dynamic symbols", MAX_SYMBOLS)?;
    check_factories(&exports, &records)?;
    Ok(records)
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

/// Checks that every table and segment lies inside the file, and that the tables are not larger than those
/// of any library.
fn check_extent<'d>(
    header: &'d Header,
    endian: Endianness,
    bytes: &'d [u8],
) -> Result<(&'d [Segment], Sections<'d>), Finding> {
    let inside = |what: &str, offset: u64, size: u64| {
        let end = offset.checked_add(size);
        if end.is_some_and(|end| end <= bytes.len() as u64) {
            return Ok(());
        }
        let end = end.map_or_else(|| "beyond any file".to_owned(), |end| format!("at byte {end}"));
        let size = bytes.len();
        let found = format!("is cut off: {what} ends {end}, the file at {size}");
        Err((Reason::LibraryTruncated, found))
    };
    let table = |count: u32, size: u16| u64::from(count) * u64::from(size);
    let count = header.phnum(endian, bytes).map_err(|error| damaged(&error))?;
    limit(count as usize, "program headers", MAX_PROGRAM_HEADERS)?;
    let size = table(count, header.e_phentsize.get(endian));
    inside("the program header table", header.e_phoff.get(endian), size)?;
    let count = header.shnum(endian, bytes).map_err(|error| damaged(&error))?;
    limit(count as usize, "sections", MAX_SECTIONS)?;
    let size = table(count, header.e_shentsize.get(endian));
    inside("the section table", header.e_shoff.get(endian), size)?;
    let segments = header.program_headers(endian, bytes).map_err(|error| damaged(&error))?;
    for segment in segments {
        inside("a segment", segment.p_offset(endian), segment.p_filesz(endian))?;
        if segment.p_type(endian) == elf::PT_LOAD
            && segment.p_filesz(endian) > segment.p_memsz(endian)
        {
            return Err(damaged_text("a segment is larger in the file than in memory"));
        }
    }
    let sections = header.sections(endian, bytes).map_err(|error| damaged(&error))?;
    for section in sections.iter() {
        if section.sh_type.get(endian) != elf::SHT_NOBITS {
            inside("a section", section.sh_offset.get(endian), section.sh_size.get(endian))?;
        }
    }
    Ok((segments, sections))
}

/// Returns the contents of the metadata section, if there is one.
fn metadata<'d>(
    header: &Header,
    sections: &Sections<'d>,
    endian: Endianness,
    bytes: &'d [u8],
) -> Result<Option<&'d [u8]>, Finding> {
    if sections.is_empty() {
        return Ok(None);
    }
    let names = header.section_strings_index(endian, bytes).map_err(|error| damaged(&error))?;
    let names = contents(sections, names, endian, bytes).map_err(|error| damaged(&error))?;
    let found = sections.iter().find(|section| {
        // Not searched for its end: names may overlap, and thousands of them may have none.
        let name = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
        name.strip_prefix(SECTION.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    });
    let data = found.map(|section| section.data(endian, bytes)).transpose();
    data.map_err(|error| damaged(&error))
}

fn contents<'d>(
    sections: &Sections<'d>,
    index: SectionIndex,
    endian: Endianness,
    bytes: &'d [u8],
) -> object::Result<&'d [u8]> {
    sections.section(index)?.data(endian, bytes)
}

/// The names that a library exports.
struct Exports<'d> {
    endian: Endianness,
    symbols: &'d [Symbol],
    names: &'d [u8],
}

impl<'d> Exports<'d> {
    fn read(sections: &Sections<'d>, endian: Endianness, bytes: &'d [u8]) -> object::Result<Self> {
        let table = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
        let names = match table.string_section() {
            SectionIndex(0) => &[],
            index => contents(sections, index, endian, bytes)?,
        };
        Ok(Self { endian, symbols: table.symbols(), names })
    }

    /// Returns the defined symbols with names of a length or shorter. Looking for the end of longer names
    /// would take the product of both tables: every symbol may name the same endless text.
    fn named(&self, longest: usize) -> impl Iterator<Item = (&'d [u8], &'d Symbol)> {
        let defined = self.symbols.iter().filter(|symbol| !symbol.is_undefined(self.endian));
        defined.filter_map(move |symbol| {
            let name = self.names.get(symbol.st_name(self.endian) as usize..)?;
            let name = CStr::from_bytes_until_nul(&name[..name.len().min(longest + 1)]).ok()?;
            Some((name.to_bytes(), symbol))
        })
    }
}

/// Checks that every factory's symbol is data large enough to be a header: what is read from it is bounded.
fn check_factories(exports: &Exports<'_>, records: &[FactoryRecord]) -> Result<(), Finding> {
    let names = || records.iter().map(|record| record.factory.as_str());
    let mut missing: HashSet<&[u8]> = names().map(str::as_bytes).collect();
    let longest = names().map(str::len).max().unwrap_or_default();
    let needed = size_of::<nexus_router_abi::LibHeader>() as u64;
    for (name, symbol) in exports.named(longest) {
        let is_header =
            symbol.st_type() == elf::STT_OBJECT && symbol.st_size(exports.endian) >= needed;
        if missing.remove(name) && !is_header {
            let name = String::from_utf8_lossy(name);
            let found = format!("exports '{name}', but not as an adapter header of {needed} bytes");
            return Err((Reason::NotAFactory, found));
        }
        if missing.is_empty() {
            break;
        }
    }
    match names().find(|name| missing.contains(name.as_bytes())) {
        None => Ok(()),
        Some(name) => {
            let found =
                format!("names the factory '{name}' in its metadata, but does not export it");
            Err((Reason::FactoryNotFound, found))
        }
    }
}

/// Checks that there are not more of something than any library has.
fn limit(count: usize, what: &str, limit: usize) -> Result<(), Finding> {
    if count <= limit {
        return Ok(());
    }
    Err((Reason::LibraryDamaged, format!("has {count} {what}; the limit is {limit}")))
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
    use object::read::elf::ElfFile64;
    use object::{Object as _, ObjectSection as _};
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::ops::Range;
    use std::sync::LazyLock;

    /// A good library: the echo adapter, which is built beside the tests.
    static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        std::fs::read(test.with_file_name("libnexus_router_adapter_echo.so")).unwrap()
    });

    /// The parts of the good library that the pre-flight reads.
    static READ_PARTS: LazyLock<Vec<Range<usize>>> = LazyLock::new(|| {
        let elf = ElfFile64::<Endianness>::parse(GOOD.as_slice()).unwrap();
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
    fn good_library_passes_and_its_factory_is_exported() {
        let records = examine("m:f", "good", &GOOD).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].factory, "create_adapter");
        assert!(exports(&GOOD, "create_adapter"));
        for other in ["create", "create_adapter_", "malloc"] {
            assert!(!exports(&GOOD, other), "{other}");
        }
        assert!(!exports(b"something else", "create_adapter"));
    }

    #[test]
    fn dependencies_are_listed() {
        let found = dependencies(&GOOD).unwrap();
        assert!(found.names.iter().any(|name| name.starts_with("libc.so")), "{found:?}");
        assert_eq!(found.places, [""; 0]);
        assert_eq!(dependencies(b"something else"), None);
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
                prop_assert!(exports(&bytes, &records[0].factory));
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

//! Making bad library files out of a good one, by changing bytes of it.

use std::ops::Range;

/// The bytes of a 64-bit ELF library of this machine.
#[derive(Clone)]
pub struct Library(pub Vec<u8>);

/// A section, by the place of its table entry and the place of its contents.
#[derive(Clone, Copy)]
pub struct Section {
    pub entry: usize,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: usize,
    pub size: usize,
}

impl Section {
    pub const FLAG_ALLOCATED: u64 = 2;
    const WITHOUT_CONTENTS: u32 = 8;

    pub fn contents(self) -> Range<usize> {
        self.offset..self.offset + if self.kind == Self::WITHOUT_CONTENTS { 0 } else { self.size }
    }
}

/// Where things stand in the file header.
pub mod header {
    pub const CLASS: usize = 4;
    pub const BYTE_ORDER: usize = 5;
    pub const TYPE: usize = 16;
    pub const MACHINE: usize = 18;
    pub const PROGRAM_TABLE: usize = 0x20;
    pub const SECTION_TABLE: usize = 0x28;
    pub const PROGRAM_COUNT: usize = 0x38;
    pub const SECTION_ENTRY_SIZE: usize = 0x3a;
    pub const SECTION_COUNT: usize = 0x3c;
    pub const SECTION_NAMES: usize = 0x3e;
}

const SECTION_ENTRY: usize = 64;
const PROGRAM_ENTRY: usize = 56;
const SYMBOL_ENTRY: usize = 24;
const RELOCATION_ENTRY: usize = 24;

impl Library {
    /// Returns a good library: the echo adapter without its debug information.
    pub fn good() -> Self {
        Self::built("nexus_router_adapter_echo")
    }

    /// Returns a built library without its debug information.
    pub fn built(module: &str) -> Self {
        Self(std::fs::read(crate::support::built_library(module)).unwrap()).stripped()
    }

    pub fn number<const N: usize>(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        let start = if cfg!(target_endian = "big") { 8 - N } else { 0 };
        bytes[start..start + N].copy_from_slice(&self.0[at..at + N]);
        u64::from_ne_bytes(bytes)
    }

    fn place<const N: usize>(&self, at: usize) -> usize {
        usize::try_from(self.number::<N>(at)).unwrap()
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns every section, in the order of the table.
    pub fn sections(&self) -> Vec<Section> {
        let table = self.place::<8>(header::SECTION_TABLE);
        let count = self.place::<2>(header::SECTION_COUNT);
        (0..count)
            .map(|index| {
                let entry = table + index * SECTION_ENTRY;
                Section {
                    entry,
                    kind: self.number::<4>(entry + 4).try_into().unwrap(),
                    flags: self.number::<8>(entry + 8),
                    address: self.number::<8>(entry + 16),
                    offset: self.place::<8>(entry + 24),
                    size: self.place::<8>(entry + 32),
                }
            })
            .collect()
    }

    /// Returns the section of a name.
    pub fn section(&self, name: &str) -> Section {
        let sections = self.sections();
        let names = sections[self.place::<2>(header::SECTION_NAMES)];
        let found = sections.into_iter().find(|section| {
            let at = names.offset + self.place::<4>(section.entry);
            self.text_at(at) == name.as_bytes()
        });
        found.unwrap_or_else(|| panic!("no section {name}"))
    }

    fn text_at(&self, at: usize) -> &[u8] {
        let length = self.0[at..].iter().position(|byte| *byte == 0).unwrap();
        &self.0[at..at + length]
    }

    /// Returns the place of the table entry of the first program segment of a kind.
    pub fn segment(&self, kind: u64) -> usize {
        self.segments(kind)[0]
    }

    fn segments(&self, kind: u64) -> Vec<usize> {
        let table = self.place::<8>(header::PROGRAM_TABLE);
        let count = self.place::<2>(header::PROGRAM_COUNT);
        let entries = (0..count).map(|index| table + index * PROGRAM_ENTRY);
        entries.filter(|entry| self.number::<4>(*entry) == kind).collect()
    }

    /// Makes two of the loaded segments change places in the table.
    pub fn swap_segments(&mut self, one: usize, other: usize) {
        let loaded = self.segments(1);
        let entry = |index: usize| loaded[index]..loaded[index] + PROGRAM_ENTRY;
        let first = self.0[entry(one)].to_vec();
        self.0.copy_within(entry(other), loaded[one]);
        self.put(loaded[other], &first);
    }

    /// Returns the place of the table entry of an exported symbol.
    pub fn symbol(&self, name: &str) -> usize {
        let (table, names) = (self.section(".dynsym"), self.section(".dynstr"));
        let mut entries = table.contents().step_by(SYMBOL_ENTRY);
        let found = entries
            .find(|entry| self.text_at(names.offset + self.place::<4>(*entry)) == name.as_bytes());
        found.unwrap_or_else(|| panic!("no symbol {name}"))
    }

    /// Returns the addresses of an exported symbol's object.
    pub fn object_addresses(&self, name: &str) -> Range<u64> {
        let entry = self.symbol(name);
        let address = self.number::<8>(entry + 8);
        address..address + self.number::<8>(entry + 16)
    }

    /// Returns where an exported symbol's object begins in the file.
    pub fn object(&self, name: &str) -> usize {
        let address = self.object_addresses(name).start;
        let sections = self.sections();
        let holder =
            sections.iter().filter(|section| !section.contents().is_empty()).find(|section| {
                section.address <= address && address < section.address + section.size as u64
            });
        let holder = holder.unwrap();
        holder.offset + usize::try_from(address - holder.address).unwrap()
    }

    /// Makes every pointer in an exported symbol's object point nowhere.
    pub fn derange_pointers(&mut self, name: &str) {
        let addresses = self.object_addresses(name);
        let relocations = self.section(".rela.dyn").contents().step_by(RELOCATION_ENTRY);
        let inside: Vec<usize> =
            relocations.filter(|entry| addresses.contains(&self.number::<8>(*entry))).collect();
        assert!(!inside.is_empty(), "{name} has no pointers");
        for entry in inside {
            self.put(entry + 16, &0x7654_0000_0000_u64.to_ne_bytes());
        }
    }

    /// Replaces every occurrence of a text by another of the same length.
    pub fn replace(&mut self, old: &str, new: &str) {
        assert_eq!(old.len(), new.len());
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let places: Vec<usize> = self
            .0
            .windows(old.len())
            .enumerate()
            .filter(|(_, window)| *window == old)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "{} is not there", String::from_utf8_lossy(old));
        for at in places {
            self.put(at, new);
        }
    }

    /// Puts bytes at the end of the file, and returns their place.
    pub fn append(&mut self, bytes: &[u8]) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let place = self.0.len() as u64;
        self.0.extend_from_slice(bytes);
        place
    }

    /// Puts other contents in place of those of a section, at the end of the file.
    pub fn set_section(&mut self, name: &str, contents: &[u8]) {
        let entry = self.section(name).entry;
        let offset = self.append(contents);
        self.put(entry + 24, &offset.to_ne_bytes());
        self.put(entry + 32, &(contents.len() as u64).to_ne_bytes());
    }

    /// Puts other contents in place of the metadata section.
    pub fn set_metadata(&mut self, contents: &[u8]) {
        self.set_section(nexus_router_sdk::metadata::SECTION, contents);
    }

    /// Returns the table of program segments.
    pub fn program_table(&self) -> Vec<u8> {
        let table = self.place::<8>(header::PROGRAM_TABLE);
        let size = self.place::<2>(header::PROGRAM_COUNT) * PROGRAM_ENTRY;
        self.0[table..table + size].to_vec()
    }

    /// Puts another table of program segments in place of the first one. Its count is cut to 16 bits.
    pub fn set_program_table(&mut self, table: &[u8]) {
        let count = table.len() / PROGRAM_ENTRY % (1 << 16);
        let place = self.append(table);
        self.put(header::PROGRAM_TABLE, &place.to_ne_bytes());
        self.put(header::PROGRAM_COUNT, &u16::try_from(count).unwrap().to_ne_bytes());
    }

    /// Makes bytes at the end of the file a loaded segment, in place of one of another kind, and returns
    /// their address.
    pub fn load_at_end(&mut self, instead_of: u64, bytes: &[u8]) -> u64 {
        const ADDRESS: u64 = 0x1000_0000;
        let entry = self.segment(instead_of);
        let size = bytes.len() as u64;
        let place = self.append(bytes);
        // A kind and flags, then offset, two addresses, two sizes and an alignment.
        self.put(entry, &1_u32.to_ne_bytes());
        let fields = [place, ADDRESS, ADDRESS, size, size, 8];
        self.put(entry + 8, &fields.map(u64::to_ne_bytes).concat());
        ADDRESS
    }

    /// Sets the value of a dynamic entry that is there.
    pub fn set_dynamic(&mut self, tag: u64, value: u64) {
        let mut entries = self.section(".dynamic").contents().step_by(16);
        let entry = entries.find(|entry| self.number::<8>(*entry) == tag).unwrap();
        self.put(entry + 8, &value.to_ne_bytes());
    }

    /// Returns the library without what only debuggers read, which is most of its bytes.
    fn stripped(mut self) -> Self {
        let sections = self.sections();
        let kept =
            sections.iter().rposition(|s| s.flags & Section::FLAG_ALLOCATED != 0).unwrap() + 1;
        let names = sections[self.place::<2>(header::SECTION_NAMES)];
        let end = sections[..kept].iter().map(|section| section.contents().end).max().unwrap();
        let mut entries =
            self.0[sections[0].entry..sections[kept - 1].entry + SECTION_ENTRY].to_vec();
        let mut names_entry = self.0[names.entry..names.entry + SECTION_ENTRY].to_vec();
        names_entry[24..32].copy_from_slice(&(end as u64).to_ne_bytes());
        entries.extend(names_entry);
        let name_bytes = self.0[names.contents()].to_vec();
        self.0.truncate(end);
        self.0.extend(name_bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let table = self.0.len() as u64;
        self.0.extend(entries);
        let kept = u16::try_from(kept).unwrap();
        self.put(header::SECTION_TABLE, &table.to_ne_bytes());
        self.put(header::SECTION_COUNT, &(kept + 1).to_ne_bytes());
        self.put(header::SECTION_NAMES, &kept.to_ne_bytes());
        self
    }
}

/// Returns a metadata record around a text, whatever the text is.
pub fn record(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [&nexus_router_sdk::metadata::MAGIC[..], &length, text.as_bytes()].concat()
}

/// Returns the text of a good record for a factory.
pub fn record_text(factory: &str) -> String {
    serde_json::json!({
        "abi": 1, "sdk": "1.2.0", "package": "forged", "version": "1", "factory": factory,
        "manifest": null,
    })
    .to_string()
}

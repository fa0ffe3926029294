//! The other libraries that a library asks for. They are opened with it, so it may not choose any file.
//!
//! Names are looked up by the system's loader in its own directories and in absolute ones that the library
//! lists. Anything else is refused: a path would name any file, and what is relative to the library or to
//! the working directory would be something else for the private copy that is opened.

use object::elf;

use super::{Dependencies, Finding, Loaded, Reason, damaged_text};

/// Longer names and lists are refused.
const MAX_TEXT: usize = 4096;

/// Checks the names of the libraries that are asked for, and where they are looked for.
pub(super) fn check(entries: &[(i64, u64)], loaded: &Loaded<'_>) -> Result<(), Finding> {
    let last = |tag: elf::DynamicTag| entries.iter().rfind(|entry| entry.0 == tag.0);
    let (Some((_, table)), Some((_, size))) = (last(elf::DT_STRTAB), last(elf::DT_STRSZ)) else {
        // Their absence is told elsewhere.
        return Ok(());
    };
    let strings = loaded.bytes_at(*table, *size);
    let strings = strings.ok_or_else(|| damaged_text("the string table is not in the file"))?;
    for (tag, value) in entries {
        let text = || text_at(strings, *value);
        match elf::DynamicTag(*tag) {
            elf::DT_NEEDED => {
                let name = text()?;
                if name.contains('/') {
                    return Err(unsafe_dependency(&format!("needs {name}, by its path")));
                }
            }
            elf::DT_RPATH | elf::DT_RUNPATH => {
                let list = text()?;
                if let Some(place) = list.split(':').find(|place| !place.starts_with('/')) {
                    let problem =
                        format!("looks for libraries in '{place}', which is not absolute");
                    return Err(unsafe_dependency(&problem));
                }
            }
            elf::DT_AUDIT | elf::DT_DEPAUDIT | elf::DT_FILTER | elf::DT_AUXILIARY => {
                return Err(unsafe_dependency("lets another library stand in for it"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Lists the libraries that are asked for, and where they are looked for.
pub(super) fn list(entries: &[(i64, u64)], loaded: &Loaded<'_>) -> Result<Dependencies, Finding> {
    let last = |tag: elf::DynamicTag| entries.iter().rfind(|entry| entry.0 == tag.0);
    let strings = last(elf::DT_STRTAB).zip(last(elf::DT_STRSZ));
    let strings = strings.and_then(|((_, table), (_, size))| loaded.bytes_at(*table, *size));
    let strings = strings.ok_or_else(|| damaged_text("the string table is not in the file"))?;
    let mut dependencies = Dependencies::default();
    for (tag, value) in entries {
        match elf::DynamicTag(*tag) {
            elf::DT_NEEDED => dependencies.names.push(text_at(strings, *value)?),
            elf::DT_SONAME => dependencies.own_name = Some(text_at(strings, *value)?),
            elf::DT_RPATH | elf::DT_RUNPATH => {
                let list = text_at(strings, *value)?;
                dependencies.places.extend(list.split(':').map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok(dependencies)
}

fn unsafe_dependency(problem: &str) -> Finding {
    (Reason::UnsafeDependency, problem.to_owned())
}

fn text_at(strings: &[u8], at: u64) -> Result<String, Finding> {
    let rest = usize::try_from(at).ok().and_then(|at| strings.get(at..));
    let rest = rest.ok_or_else(|| damaged_text("a name lies outside of the string table"))?;
    let end = rest.iter().take(MAX_TEXT).position(|byte| *byte == 0);
    let end = end.ok_or_else(|| damaged_text("a name in the dynamic section has no end"))?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

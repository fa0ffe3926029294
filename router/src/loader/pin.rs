//! The pin of a library covers all that is loaded with it: dependencies come from the system's library directories.
//!
//! The digest binds to the bytes of the library alone. What else the system's loader opens with it has to be the
//! system's, which only its administrator changes. A library that wants others to be looked for elsewhere is refused,
//! also if none of them is there yet.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::Loader;
use super::elf::{self, Dependencies};
use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;
use super::image::{self, Image};
use crate::grant::Isolation;

/// Directories of the system's libraries.
const SYSTEM: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
];

impl Loader {
    /// Checks that a pinned library brings nothing along but libraries of the system.
    pub(super) fn check_pinned_load(
        &self,
        factory_ref: &FactoryRef,
        path: &Path,
        image: &Image,
    ) -> Result<(), AdapterLoadError> {
        let bytes = image::read(factory_ref.as_str(), &image.copy)?;
        let found = match elf::dependencies(&bytes) {
            Some(dependencies) => self.find_foreign(&dependencies),
            None => Some("its dependencies cannot be read".to_owned()),
        };
        let Some(found) = found else { return Ok(()) };
        let message = format!("{} is pinned, and {found}", path.display());
        Err(AdapterLoadError::new(factory_ref.as_str(), Reason::UnsafeDependency, message)
            .with_hint(
                "the pin binds to one file: link the dependency statically, install it in a directory of the system's \
                 libraries, or leave the pin out",
            ))
    }

    /// Finds a dependency that is loaded, or could be, from outside of the system's directories.
    fn find_foreign(&self, Dependencies { names, places, .. }: &Dependencies) -> Option<String> {
        let first = names.first()?;
        if let Some(place) = places.iter().find(|place| !is_of_system(Path::new(place))) {
            return Some(format!("needs {first}, which it looks for in {place}"));
        }
        let searched: Vec<PathBuf> =
            self.library_path.iter().flat_map(|text| split_library_path(text)).collect();
        for name in names {
            let foreign = |place: &&PathBuf| {
                // The system's loader looks into the directory of the processor's features first. An empty name of a
                // directory stands for the working directory.
                let is_there =
                    [name.as_str(), "glibc-hwcaps"].iter().any(|file| place.join(file).exists());
                is_there && !is_of_system(place)
            };
            if let Some(place) = searched.iter().find(foreign) {
                let place = place.display();
                return Some(format!("needs {name}, which LD_LIBRARY_PATH finds in {place}"));
            }
        }
        if self.placement.isolation != Isolation::Inline {
            return None;
        }
        let preload = self.library_preload.as_deref().unwrap_or_default().to_string_lossy();
        let is_foreign = |text: &&str| match text.contains('/') {
            true => !is_of_system(Path::new(text)),
            // A plain name is looked for like a dependency. What is not in these places comes from the system's.
            false => {
                text.contains('$')
                    || searched.iter().any(|place| {
                        let is_there =
                            [*text, "glibc-hwcaps"].iter().any(|file| place.join(file).exists());
                        is_there && !(is_of_system(place) && is_of_system(&place.join(text)))
                    })
            }
        };
        let mut preloaded = preload.split([' ', ':']).filter(|text| !text.is_empty());
        if let Some(preloaded) = preloaded.find(is_foreign) {
            return Some(format!("this process has {preloaded} loaded by LD_PRELOAD"));
        }
        // A library that this process has already is taken again for its name, wherever it came from.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        find_loaded(&maps, names, own_name)
            .map(|(name, path)| format!("needs {name}, and this process has {path} loaded"))
    }
}

/// Returns the directories of an `LD_LIBRARY_PATH`. The system's loader takes semicolons for separators too.
fn split_library_path(text: &OsStr) -> Vec<PathBuf> {
    let parts = text.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

/// Finds a needed library that a process has loaded from outside of the system's directories: by the name that it has
/// for others, which `own_name` finds out, or by that of its file.
fn find_loaded<'a>(
    maps: &'a str,
    names: &'a [String],
    own_name: impl Fn(&Path) -> Option<String>,
) -> Option<(&'a str, &'a str)> {
    let is_code = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
    let code = maps.lines().filter(is_code);
    let paths: BTreeSet<&str> =
        code.filter_map(|line| line.find('/').map(|at| &line[at..])).collect();
    paths.into_iter().filter(|path| !is_of_system(Path::new(path))).find_map(|path| {
        let file = Path::new(path).file_name()?;
        let own_name = own_name(Path::new(path));
        let is_named = |name: &&String| file == name.as_str() || own_name.as_ref() == Some(*name);
        Some((names.iter().find(is_named)?.as_str(), path))
    })
}

/// Returns the name that a library has for others.
fn own_name(path: &Path) -> Option<String> {
    let bytes = image::read("", path).ok()?;
    elf::dependencies(&bytes)?.own_name
}

/// Returns whether a path lies in a directory of the system's libraries, wherever links in it lead.
fn is_of_system(path: &Path) -> bool {
    let plain = path.components().all(|part| {
        matches!(part, Component::RootDir)
            || matches!(part, Component::Normal(name) if !name.to_string_lossy().contains('$'))
    });
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    plain && SYSTEM.iter().any(|directory| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    fn dependencies(names: &[&str], places: &[&str]) -> Dependencies {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Dependencies { names: owned(names), places: owned(places), own_name: None }
    }

    #[test]
    fn places_of_the_system_are_told_from_others() {
        for place in ["/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/none/here", "/usr/local/lib"] {
            assert!(is_of_system(Path::new(place)), "{place}");
        }
        for place in ["", "lib", "/", "/opt", "/usr/lib/../../tmp", "/usr/library", "/lib/$LIB"] {
            assert!(!is_of_system(Path::new(place)), "{place}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_of_system(directory.path()));
    }

    #[test]
    fn foreign_dependencies_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let mut loader = Loader::from_environment(&Environment::default());
        let needs = dependencies(&["libmine.so.1", "libc.so.6"], &[]);
        assert_eq!(loader.find_foreign(&needs), None);
        let place = directory.path().to_str().unwrap();
        let found = loader.find_foreign(&dependencies(&["libc.so.6"], &["/usr/lib", place]));
        assert!(found.unwrap().contains(place));
        assert_eq!(loader.find_foreign(&dependencies(&[], &[place])), None);
        loader.library_path = Some(directory.path().into());
        assert_eq!(loader.find_foreign(&needs), None);
        std::fs::write(directory.path().join("libmine.so.1"), "").unwrap();
        let found = loader.find_foreign(&needs).unwrap();
        assert!(found.contains("libmine.so.1") && found.contains("LD_LIBRARY_PATH"), "{found}");
        loader.library_path = Some(format!("/nowhere;{place}").into());
        assert!(loader.find_foreign(&needs).is_some(), "a semicolon separates too");
        loader.library_path = Some(directory.path().into());
        std::fs::remove_file(directory.path().join("libmine.so.1")).unwrap();
        std::fs::create_dir(directory.path().join("glibc-hwcaps")).unwrap();
        assert!(loader.find_foreign(&needs).unwrap().contains("LD_LIBRARY_PATH"));
        loader.library_path = None;
        loader.library_preload = Some(directory.path().join("libmine.so.1").into());
        assert!(loader.find_foreign(&needs).unwrap().contains("LD_PRELOAD"));
        // A plain name is looked for in the same places.
        loader.library_preload = Some("libother.so libplain.so".into());
        std::fs::remove_dir(directory.path().join("glibc-hwcaps")).unwrap();
        loader.library_path = Some(directory.path().into());
        assert_eq!(loader.find_foreign(&needs), None);
        std::fs::write(directory.path().join("libplain.so"), "").unwrap();
        assert!(loader.find_foreign(&needs).unwrap().contains("libplain.so loaded by LD_PRELOAD"));
        // Workers get no such variable.
        loader.placement.isolation = Isolation::Worker;
        assert_eq!(loader.find_foreign(&needs), None);
    }

    #[test]
    fn loaded_library_is_found_by_its_name() {
        let maps = "7f00-7f01 r-xp 0 08:01 1    /usr/lib/libc.so.6\n7f01-7f02 r-xp 0 08:01 2    /opt/a b/libx.so.1.9\n\
                    7f02-7f03 r--p 0 08:01 3    /opt/libdata.so\n";
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let own = |_: &Path| Some("libx.so.1".to_owned());
        assert_eq!(find_loaded(maps, &names(&["libc.so.6", "libdata.so"]), own), None);
        for name in ["libx.so.1", "libx.so.1.9"] {
            let names = names(&[name]);
            let found = find_loaded(maps, &names, own);
            assert_eq!(found, Some((name, "/opt/a b/libx.so.1.9")));
            assert_eq!(find_loaded(maps, &names, |_| None).is_some(), name == "libx.so.1.9");
        }
    }

    #[test]
    fn own_names_are_read_from_files() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find(|line| line.contains("/libc.so.6")).unwrap();
        let libc = Path::new(&libc[libc.find('/').unwrap()..]);
        assert_eq!(own_name(libc).as_deref(), Some("libc.so.6"));
        assert_eq!(own_name(Path::new("/etc/passwd")), None);
    }
}

//! The pin of a library covers all that is loaded with it: dependencies come from the system's library directories.
//!
//! The digest binds to the bytes of the library alone. What else the system's loader opens with it has to be the
//! system's, which only its administrator changes. A library that wants others to be looked for elsewhere is refused,
//! also if none of them is there yet.

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
    fn find_foreign(&self, Dependencies { names, places }: &Dependencies) -> Option<String> {
        let first = names.first()?;
        if let Some(place) = places.iter().find(|place| !is_of_system(Path::new(place))) {
            return Some(format!("needs {first}, which it looks for in {place}"));
        }
        let searched: Vec<PathBuf> =
            self.library_path.iter().flat_map(std::env::split_paths).collect();
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
        let is_foreign = |text: &&str| text.contains('/') && !is_of_system(Path::new(text));
        let mut preloaded = preload.split([' ', ':']).filter(|text| !text.is_empty());
        if let Some(preloaded) = preloaded.find(is_foreign) {
            return Some(format!("this process has {preloaded} loaded by LD_PRELOAD"));
        }
        // A library that this process has already is taken again for its name, wherever it came from.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        find_loaded(&maps, names)
            .map(|(name, path)| format!("needs {name}, and this process has {path} loaded"))
    }
}

/// Finds a needed library that a process has loaded from outside of the system's directories.
fn find_loaded<'a>(maps: &'a str, names: &'a [String]) -> Option<(&'a str, &'a str)> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.filter(|path| !is_of_system(Path::new(path))).find_map(|path| {
        let file = Path::new(path).file_name()?;
        let name = names.iter().find(|name| file == name.as_str())?;
        Some((name.as_str(), path))
    })
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
        Dependencies { names: owned(names), places: owned(places) }
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
        std::fs::remove_file(directory.path().join("libmine.so.1")).unwrap();
        std::fs::create_dir(directory.path().join("glibc-hwcaps")).unwrap();
        assert!(loader.find_foreign(&needs).unwrap().contains("LD_LIBRARY_PATH"));
        loader.library_path = None;
        loader.library_preload = Some(directory.path().join("libmine.so.1").into());
        assert!(loader.find_foreign(&needs).unwrap().contains("LD_PRELOAD"));
        // Workers get no such variable.
        loader.placement.isolation = Isolation::Worker;
        assert_eq!(loader.find_foreign(&needs), None);
    }

    #[test]
    fn loaded_library_is_found_by_its_name() {
        let maps = "7f00-7f01 r--p 0 08:01 1    /usr/lib/libc.so.6\n7f01-7f02 r--p 0 08:01 2    /opt/a b/libx.so\n";
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(find_loaded(maps, &names(&["libc.so.6"])), None);
        let names = names(&["libx.so"]);
        assert_eq!(find_loaded(maps, &names), Some(("libx.so", "/opt/a b/libx.so")));
    }
}

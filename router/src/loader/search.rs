//! The adapter path: where a module name is looked up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;

/// The directories in which libraries are looked up, in order.
#[derive(Clone, Debug, Default)]
pub struct AdapterPath {
    directories: Vec<PathBuf>,
}

impl AdapterPath {
    /// Makes a path of directories, in order of precedence.
    #[must_use]
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut unique: Vec<PathBuf> = Vec::new();
        for directory in directories {
            if !unique.contains(&directory) {
                unique.push(directory);
            }
        }
        Self { directories: unique }
    }

    /// Returns the directories.
    #[must_use]
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Finds the library file of a ref.
    ///
    /// # Errors
    /// [`Reason::LibraryNotFound`], with the directories that were searched and near names.
    pub fn find(&self, factory_ref: &FactoryRef) -> Result<PathBuf, AdapterLoadError> {
        if let Some(file) = factory_ref.file() {
            // A relative name without a directory would be searched on the system's path by the loader.
            return std::path::absolute(file).map_err(|error| {
                self.not_found(factory_ref).caused_by("io::Error", error.to_string())
            });
        }
        let name = library_name(factory_ref.module());
        self.directories
            .iter()
            .map(|directory| directory.join(&name))
            // A dangling link is a library that cannot be read, not one that is not there.
            .find(|candidate| std::fs::symlink_metadata(candidate).is_ok())
            .ok_or_else(|| self.not_found(factory_ref))
    }

    /// Lists every module on the path with its file. The first directory that has a name wins.
    #[must_use]
    pub fn modules(&self) -> Vec<(String, PathBuf)> {
        let mut modules = BTreeMap::new();
        for directory in &self.directories {
            let Ok(entries) = std::fs::read_dir(directory) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if let Some(module) = module_name(&path) {
                    modules.entry(module).or_insert(path);
                }
            }
        }
        modules.into_iter().collect()
    }

    fn not_found(&self, factory_ref: &FactoryRef) -> AdapterLoadError {
        let module = factory_ref.module();
        let name = library_name(module);
        let searched: Vec<String> =
            self.directories.iter().map(|directory| directory.display().to_string()).collect();
        let place = if searched.is_empty() {
            "the adapter path is empty".to_owned()
        } else {
            format!("{name} is not in {}", searched.join(", "))
        };
        let error = AdapterLoadError::new(
            factory_ref.as_str(),
            Reason::LibraryNotFound,
            format!("Failed to import module '{module}': {place}"),
        );
        match self.near(module) {
            near if near.is_empty() => error,
            near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
        }
    }

    fn near(&self, module: &str) -> Vec<String> {
        let mut scored: Vec<(f64, String)> = self
            .modules()
            .into_iter()
            // The shared beginning of the names says nothing, and would make all of them near.
            .map(|(known, _)| (crate::near::likeness(kind(module), kind(&known)), known))
            .filter(|(score, _)| *score > 0.8)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

/// Returns what follows the conventional beginning of a module's name.
fn kind(module: &str) -> &str {
    module.strip_prefix("nexus_router_adapter_").unwrap_or(module)
}

/// Returns the file name of a module's library on this platform.
#[must_use]
pub fn library_name(module: &str) -> String {
    format!("{}{module}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Returns the module of a library file, or nothing when the name is not that of a library.
#[must_use]
pub fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let module = name
        .strip_prefix(std::env::consts::DLL_PREFIX)?
        .strip_suffix(std::env::consts::DLL_SUFFIX)?;
    (!module.is_empty()).then(|| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_directory_wins_and_near_names_are_told() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in [&one, &two] {
            std::fs::write(directory.path().join("libnexus_router_adapter_http.so"), "").unwrap();
        }
        std::fs::write(two.path().join("libother.so"), "").unwrap();
        let path = AdapterPath::new([one.path().to_owned(), two.path().to_owned()]);
        let find = |text: &str| path.find(&FactoryRef::parse(text).unwrap());
        let found = find("nexus_router_adapter_http:create_adapter").unwrap();
        assert_eq!(found.parent(), Some(one.path()));
        assert_eq!(find("other:f").unwrap().parent(), Some(two.path()));
        let error = find("nexus_router_adapter_htpt:create_adapter").unwrap_err();
        assert_eq!(error.reason(), Reason::LibraryNotFound);
        assert!(error.to_string().contains(&one.path().display().to_string()), "{error}");
        assert_eq!(error.hint(), "did you mean nexus_router_adapter_http?");
        assert_eq!(find("http:create_adapter").unwrap_err().hint(), error.hint());
        assert_eq!(path.modules().len(), 2);
    }
}

//! The router's own files, and whether a place that adapters may write holds one of them.
//!
//! A workspace must not contain the configuration, the store, keys, evidence or caches, equal one of them, or lie inside
//! one of the router's own directories: data, evidence, log, keys, cache and contracts. A directory beside a store
//! outside of the data directory is not the router's own. Links are resolved on both sides, directories are compared by
//! identity too, and so are the mounts below a workspace.

mod real_path;

use std::path::{Path, PathBuf};

use super::document::Origins;
use super::error::Problem;
use super::{AdapterEntry, ConfigFile, Environment};
use crate::json::Value;
use crate::seal;
use crate::secret::Source;
use crate::store::StoreKey;
use real_path::{RealPath, mount_points_below};

/// The file of tokens, in the data directory and beside the store.
pub(crate) const TOKEN_FILE: &str = "tokens.json";
/// The directory of evidence, beside the store.
pub(crate) const EVIDENCE_DIRECTORY: &str = "sealed";
/// The store of the data directory.
pub(crate) const DEFAULT_STORE: &str = "runs.db";
/// The directories of interface contracts and of registered tools, in the data directory.
const INTERFACE_DIRECTORY: &str = "interfaces";
const TOOL_DIRECTORY: &str = "tools";

/// The remedy of a misplaced workspace or write grant.
pub(crate) const MISPLACED_HINT: &str =
    "name a directory that neither contains the router's own files nor lies in its own directories";

/// The relation of a path to itself.
const EQUALS: &str = "equals";

/// The type of an own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnKind {
    /// A file, or a directory that may have other directories in it.
    File,
    /// A directory in which everything is the router's.
    Directory,
}

/// One of the router's own files or directories.
#[derive(Clone, Debug)]
struct OwnPath {
    /// A noun for messages.
    name: &'static str,
    kind: OwnKind,
    path: PathBuf,
}

/// All files and directories of a router.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnPaths(Vec<OwnPath>);

/// Own path that overlaps with a writable place, and their relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    name: &'static str,
    path: PathBuf,
    relation: &'static str,
}

impl std::fmt::Display for Overlap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} of the router ({})", self.relation, self.name, self.path.display())
    }
}

/// Places that the command line or the environment names; they take precedence over the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedPlaces<'a> {
    pub(crate) db: Option<&'a Path>,
    pub(crate) data_dir: Option<&'a Path>,
    pub(crate) log_root: Option<&'a Path>,
}

impl OwnPaths {
    /// Adds a path.
    pub(crate) fn add(&mut self, name: &'static str, kind: OwnKind, path: &Path) {
        if !path.as_os_str().is_empty() {
            self.0.push(OwnPath { name, kind, path: path.to_owned() });
        }
    }

    /// Lists the paths of a configuration.
    pub(crate) fn of(
        config: &ConfigFile,
        environment: &Environment,
        named: NamedPlaces<'_>,
    ) -> Self {
        use OwnKind::{Directory, File};
        let mut own = Self::default();
        let data_dir = data_dir(config, environment, named);
        let below = |name: &str| data_dir.map(|directory| directory.join(name));
        let contracts = &config.contracts;
        let signals = &config.signals;
        let or =
            |configured: &Option<PathBuf>, default: Option<PathBuf>| configured.clone().or(default);
        own.add_all([
            ("the configuration file", File, config.source.clone()),
            (
                "the interface contracts",
                Directory,
                or(&contracts.interfaces, below(INTERFACE_DIRECTORY)),
            ),
            ("the registered tools", Directory, or(&contracts.tools, below(TOOL_DIRECTORY))),
            (
                "the signal contracts",
                Directory,
                or(&signals.directory, environment.signals_dir.clone()),
            ),
            ("the acceptance policy", File, signals.policy.clone()),
            ("the signal manifest", File, signals.manifest.clone()),
            ("the publisher document", File, signals.publisher.clone()),
            ("the program", File, environment.executable.clone()),
            ("the program", File, environment.helper.clone()),
        ]);
        let libraries = environment.adapter_path.iter().chain(&config.adapter_path);
        libraries.for_each(|path| own.add("the adapter libraries", File, path));
        let policies = config.adapters.iter().filter_map(|entry| entry.acceptance.as_deref());
        policies.for_each(|path| own.add("the acceptance policy", File, path));
        let secrets = config.secrets.values().map(|entry| &entry.source);
        secrets.chain(config.telemetry.headers.values()).for_each(|source| own.add_secret(source));
        own.extend(&Self::until_restart(config, environment, named));
        own
    }

    /// Lists the paths that a process uses until it ends, even if it reads another configuration later.
    pub(crate) fn until_restart(
        config: &ConfigFile,
        environment: &Environment,
        named: NamedPlaces<'_>,
    ) -> Self {
        use OwnKind::{Directory, File};
        let mut own = Self::default();
        let data_dir = data_dir(config, environment, named);
        let db = named.db.or(config.db.as_deref()).map(Path::to_owned);
        let db = db.or_else(|| Some(data_dir?.join(DEFAULT_STORE)));
        let db = db.filter(|db| db != Path::new(":memory:"));
        let beside = |name: &str| Some(db.as_ref()?.parent()?.join(name));
        let evidence = config.evidence.directory.clone().or_else(|| beside(EVIDENCE_DIRECTORY));
        if let Some(db) = &db {
            own.add_store(db);
        }
        own.add_all([
            ("the tokens", File, data_dir.map(|directory| directory.join(TOKEN_FILE))),
            ("the tokens", File, beside(TOKEN_FILE)),
            ("the evidence", Directory, evidence),
            ("the log", File, named.log_root.map(Path::to_owned)),
            ("the cache", Directory, Some(environment.cache_dir.clone())),
        ]);
        if let Some(root) = named.log_root {
            own.add_log(root);
        }
        config.store.key.iter().for_each(|key| own.add_secret(&key.source));
        for files in config.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
            own.add("the TLS certificate", File, &files.cert);
            own.add("the TLS key", File, &files.key);
        }
        // It comes last: its parts have names of their own.
        own.add_all([("the data directory", Directory, data_dir.map(Path::to_owned))]);
        own
    }

    /// Adds the files of a store.
    pub(crate) fn add_store(&mut self, db: &Path) {
        self.add("the store", OwnKind::File, db);
        self.add("the store key", OwnKind::File, &StoreKey::path(db));
        self.add("the store owners", OwnKind::Directory, &owner_directory(db));
    }

    /// Adds the keys and the log below a directory.
    pub(crate) fn add_log(&mut self, root: &Path) {
        self.add("the log", OwnKind::Directory, &seal::log_directory(root));
        self.add("the keys", OwnKind::Directory, &root.join("keys"));
    }

    /// Adds the paths of another list.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn add_all<const N: usize>(&mut self, paths: [(&'static str, OwnKind, Option<PathBuf>); N]) {
        for (name, kind, path) in paths {
            if let Some(path) = path {
                self.add(name, kind, &path);
            }
        }
    }

    fn add_secret(&mut self, source: &Source) {
        if let Source::File(path) = source {
            self.add("a secret", OwnKind::File, path);
        }
    }

    /// Returns an own path that a writable directory contains, equals or lies inside.
    pub(crate) fn overlap(&self, writable: &Path) -> Option<Overlap> {
        let place = RealPath::of(writable);
        let mounts = mount_points_below(&place);
        self.overlap_with(&place, &mounts)
    }

    fn overlap_with(&self, place: &RealPath, mounts: &[RealPath]) -> Option<Overlap> {
        let overlap = |own: &OwnPath| {
            let relation = own.relation(place).or_else(|| own.relation_by_mount(mounts))?;
            Some(Overlap { name: own.name, path: own.path.clone(), relation })
        };
        // The path itself says more than one that it contains.
        self.0.iter().filter_map(overlap).min_by_key(|overlap| overlap.relation != EQUALS)
    }
}

/// Returns the data directory of a configuration.
fn data_dir<'a>(
    config: &'a ConfigFile,
    environment: &'a Environment,
    named: NamedPlaces<'a>,
) -> Option<&'a Path> {
    named.data_dir.or(config.data_dir.as_deref()).or(environment.state_dir.as_deref())
}

/// Returns the directory with the locks of the processes that use a store.
fn owner_directory(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push("-owners");
    name.into()
}

impl OwnPath {
    fn relation(&self, place: &RealPath) -> Option<&'static str> {
        for own in self.real_paths() {
            if own.is_same(place) {
                return Some(EQUALS);
            }
            if own.is_below(place) {
                return Some("contains");
            }
            if self.kind == OwnKind::Directory && place.is_below(&own) {
                return Some("lies inside");
            }
        }
        None
    }

    /// Returns the relation to a place with these mounts below it, if one of them leads here.
    fn relation_by_mount(&self, mounts: &[RealPath]) -> Option<&'static str> {
        let mut own = self.real_paths();
        let leads_here = |own: &RealPath, mount| own.is_same(mount) || own.is_below(mount);
        own.any(|own| mounts.iter().any(|mount| leads_here(&own, mount))).then_some("contains")
    }

    /// Returns the path without links. A link is an own file too, besides the file that it leads to.
    fn real_paths(&self) -> impl Iterator<Item = RealPath> {
        [Some(RealPath::of(&self.path)), RealPath::of_link(&self.path)].into_iter().flatten()
    }
}

impl ConfigFile {
    /// Lists workspaces that overlap with the router's own files.
    pub(super) fn misplaced(&self, environment: &Environment, origins: &Origins) -> Vec<Problem> {
        self.overlaps(environment, origins, |entry| {
            let workspace = entry.config.get("workspace").and_then(Value::as_str);
            let workspace = workspace.filter(|_| entry.factory_ref == AdapterEntry::ENVOY_REF);
            let place = |path: &str| ("config.workspace".to_owned(), PathBuf::from(path));
            workspace.map(place).into_iter().collect()
        })
    }

    /// Lists write grants that overlap with the router's own files.
    pub(crate) fn risky_grants(
        &self,
        environment: &Environment,
        origins: &Origins,
    ) -> Vec<Problem> {
        self.overlaps(environment, origins, |entry| {
            let paths = entry.grants.write.iter().enumerate();
            paths.map(|(index, path)| (format!("grants.write[{index}]"), path.clone())).collect()
        })
    }

    /// Lists the places of adapters, each with its key, that overlap with the router's own files.
    fn overlaps(
        &self,
        environment: &Environment,
        origins: &Origins,
        places: impl Fn(&AdapterEntry) -> Vec<(String, PathBuf)>,
    ) -> Vec<Problem> {
        let places = self.adapters.iter().enumerate().flat_map(|(index, entry)| {
            let places = places(entry).into_iter();
            places.map(move |(key, path)| (format!("adapters[{index}].{key}"), path))
        });
        let mut places = places.peekable();
        if places.peek().is_none() {
            return Vec::new();
        }
        let own = OwnPaths::of(self, environment, NamedPlaces::default());
        let problem = |(key, path): (String, PathBuf)| {
            let overlap = own.overlap(&path)?;
            let message = format!("{key} {overlap}: {}", path.display());
            Some(Problem { origin: origins.of(&key), message, hint: MISPLACED_HINT.to_owned() })
        };
        places.filter_map(problem).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_through_links_and_missing_parts() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["data/sealed/keys", "work/inner", "elsewhere"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("router.toml"), "").unwrap();
        std::os::unix::fs::symlink(at("data"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("router.toml"), at("work/linked.toml")).unwrap();
        let mut own = OwnPaths::default();
        own.add("the configuration file", OwnKind::File, &at("router.toml"));
        own.add("the store", OwnKind::File, &at("data/missing/runs.db"));
        own.add("the evidence", OwnKind::Directory, &at("data/sealed"));
        own.add("the store owners", OwnKind::Directory, &owner_directory(&at("elsewhere.db")));
        let relation = |name: &str| own.overlap(&at(name)).map(|overlap| overlap.relation);
        for (name, expected) in [
            ("work", None),
            ("elsewhere", None),
            ("data/other", None),
            ("data/sealed-not", None),
            ("", Some("contains")),
            ("router.toml", Some("equals")),
            ("data", Some("contains")),
            ("link", Some("contains")),
            ("link/missing", Some("contains")),
            ("link/missing/../missing", Some("contains")),
            ("link/sealed", Some("equals")),
            ("link/sealed/keys", Some("lies inside")),
            ("data/sealed/not-yet/there", Some("lies inside")),
            ("elsewhere.db-owners/x", Some("lies inside")),
        ] {
            assert_eq!(relation(name), expected, "{name}");
        }
        let mut linked = OwnPaths::default();
        linked.add("the configuration file", OwnKind::File, &at("work/linked.toml"));
        assert_eq!(linked.overlap(&at("work")).unwrap().relation, "contains");
        assert_eq!(linked.overlap(&at("work/inner")), None);
        assert!(linked.overlap(place.path()).is_some());
    }

    #[test]
    fn mounts_below_a_workspace_are_found() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["data/sealed", "work", "elsewhere"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let mut own = OwnPaths::default();
        own.add("the evidence", OwnKind::Directory, &at("data/sealed"));
        // A mount has the identity of the directory that is mounted.
        let overlap = |mount: &str| {
            let mounts = [RealPath::of(&at(mount))];
            let found = own.overlap_with(&RealPath::of(&at("work")), &mounts);
            found.map(|overlap| overlap.relation)
        };
        assert_eq!(overlap("data/sealed"), Some("contains"));
        assert_eq!(overlap("data"), Some("contains"));
        assert_eq!(overlap("elsewhere"), None);
    }

    #[test]
    fn the_directory_of_owners_is_that_of_the_store() {
        let place = tempfile::tempdir().unwrap();
        let db = place.path().join("runs.db");
        let _store = crate::store::Store::open(&db).unwrap();
        assert!(owner_directory(&db).is_dir());
    }
}

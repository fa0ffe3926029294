//! Writes the crate of a new adapter, from files that are part of the program.

mod kind;
mod place;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kind::{problem_with, title_case};
use place::place;

/// The files of the crate. Those of the adapter have placeholders such as `{{kind}}`.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/adapter/Cargo.toml.in")),
    ("src/lib.rs", include_str!("../../templates/adapter/src/lib.rs")),
    ("tests/library.rs", include_str!("../../templates/adapter/tests/library.rs")),
    ("README.md", include_str!("../../templates/adapter/README.md")),
    (".gitignore", include_str!("../../templates/adapter/.gitignore")),
    (".rustfmt.toml", include_str!("../../templates/adapter/.rustfmt.toml")),
    (".github/workflows/adapter-ci.yml", include_str!("../../templates/adapter-ci.yml")),
];

/// What stands in the workflow until an author sets it; the file is also copied by hand.
const UNSET_FACTORY_REF: &str = "nexus_router_adapter_KIND:create_adapter";

const SDK_PACKAGE: &str = "nexus-router-sdk";

/// Where the new crate takes the SDK from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdkSource {
    /// A published version, such as `1.2.0`.
    Version(String),
    /// The directory of the SDK in a checkout.
    Path(PathBuf),
}

/// The crate that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The directory of the crate.
    pub directory: PathBuf,
    /// The name of the package.
    pub package: String,
    /// The factory ref of the adapter.
    pub factory_ref: String,
    /// Commands to try next, for a shell in the directory where the user stands.
    pub next: Vec<String>,
}

/// Why no crate was written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kind does not fit the naming convention.
    #[error("{kind:?} cannot be the kind of an adapter: {problem}")]
    Kind {
        /// The kind that was asked for.
        kind: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something has the name of the crate's directory already.
    #[error("{} exists already", directory.display())]
    Exists {
        /// The crate's directory.
        directory: PathBuf,
    },
    /// Nothing can be created in the directory.
    #[error("cannot create anything in {}", directory.display())]
    Parent {
        /// The directory that should hold the crate's.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the crate cannot be written.
    #[error("cannot write {file} of the new crate in {}", directory.display())]
    File {
        /// The file, relative to the crate.
        file: &'static str,
        /// The directory that should hold the crate's.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory is not that of the SDK.
    #[error("{} is not the directory of {SDK_PACKAGE}: {problem}", directory.display())]
    Sdk {
        /// The directory that was named.
        directory: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Returns what the user can do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Kind { .. } => {
                "a kind has 1 to 40 lower-case letters, digits and single - or _ in between, and \
                 begins with a letter: weather, s3, key-value"
            }
            Self::Exists { .. } => "choose another kind or another directory, or move it away",
            Self::Parent { .. } => "name an existing directory that you may write to",
            Self::File { .. } => "check the free space and the rights of the directory",
            Self::Sdk { .. } => "name the directory adapter-sdk of a checkout of nexus-router",
        }
    }
}

/// Writes the crate `nexus-router-adapter-KIND` into a directory of that name in `target_parent`.
///
/// The crate appears whole or not at all.
///
/// # Errors
/// When the kind is not fit for a name, when something of that name exists, when the SDK is not where
/// `sdk` says, or when the crate cannot be written.
pub fn create(kind: &str, target_parent: &Path, sdk: &SdkSource) -> Result<Created, Error> {
    if let Some(problem) = problem_with(kind) {
        return Err(Error::Kind { kind: kind.to_owned(), problem });
    }
    let package = format!("nexus-router-adapter-{}", kind.replace('_', "-"));
    let module = package.replace('-', "_");
    let factory_ref = format!("{module}:create_adapter");
    let values = [
        ("kind", kind),
        ("package", &package),
        ("module", &module),
        ("Type", &title_case(kind)),
        ("factory_ref", &factory_ref),
        ("sdk_dependency", &dependency(sdk)?),
        ("rust_version", env!("CARGO_PKG_RUST_VERSION")),
        ("router_versions", &supported_versions()),
    ];
    let files = FILES
        .iter()
        .map(|(path, text)| (*path, fill(text, &values).replace(UNSET_FACTORY_REF, &factory_ref)));
    let directory = place(target_parent, &package, files)?;
    let next = vec![
        format!("cd {}", shell_word(&directory)),
        "cargo test  # needs nexus-router on the PATH, or its path in NEXUS_ROUTER_BIN".to_owned(),
        "cargo build --release".to_owned(),
        format!("nexus-router adapter validate {factory_ref} --adapter-path target/release"),
    ];
    Ok(Created { directory, package, factory_ref, next })
}

/// Returns the SDK of the checkout that a program was built in: `<checkout>/adapter-sdk` for a program
/// below `<checkout>/target/<profile>`.
#[must_use]
pub fn checkout_sdk(executable: &Path) -> Option<PathBuf> {
    // One level more for programs in deps, and for a target directory per platform.
    let mut levels = executable.ancestors().skip(2).take(2);
    let target = levels.find(|level| level.file_name().is_some_and(|name| name == "target"))?;
    let sdk = fs::canonicalize(target.parent()?.join("adapter-sdk")).ok()?;
    problem_with_sdk(&sdk).is_none().then_some(sdk)
}

/// The routers that a new adapter works with: this one up to the next major version.
fn supported_versions() -> String {
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let next = major.parse::<u32>().map_or(0, |major| major + 1);
    format!(">={major}.{minor},<{next}")
}

fn dependency(sdk: &SdkSource) -> Result<String, Error> {
    match sdk {
        SdkSource::Version(version) => Ok(format!("{SDK_PACKAGE} = {}", toml_string(version))),
        SdkSource::Path(directory) => {
            let wrong = |problem| Error::Sdk { directory: directory.clone(), problem };
            let absolute = fs::canonicalize(directory).map_err(|error| wrong(error.to_string()))?;
            if let Some(problem) = problem_with_sdk(&absolute) {
                return Err(wrong(problem));
            }
            let path = absolute
                .to_str()
                .ok_or_else(|| wrong("its path is not UTF-8, which Cargo.toml needs".to_owned()))?;
            Ok(format!(
                "# A checkout on this machine. For others to build the crate, name a version instead:\n\
                 # {SDK_PACKAGE} = \"{}\"\n\
                 {SDK_PACKAGE} = {{ path = {} }}",
                env!("CARGO_PKG_VERSION"),
                toml_string(path)
            ))
        }
    }
}

fn problem_with_sdk(directory: &Path) -> Option<String> {
    let text = match fs::read_to_string(directory.join("Cargo.toml")) {
        Ok(text) => text,
        Err(error) => return Some(format!("cannot read its Cargo.toml: {error}")),
    };
    let manifest: toml::Table = match toml::from_str(&text) {
        Ok(manifest) => manifest,
        Err(_) => return Some("its Cargo.toml is not TOML".to_owned()),
    };
    match manifest.get("package").and_then(|package| package.get("name")?.as_str()) {
        Some(SDK_PACKAGE) => None,
        Some(other) => Some(format!("its package is {other:?}")),
        None => Some("its Cargo.toml names no package".to_owned()),
    }
}

/// Quotes a text for TOML, whose escapes are those of JSON and one more.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

fn shell_word(path: &Path) -> String {
    let text = path.strip_prefix(".").unwrap_or(path).display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Replaces the known placeholders, once: what a value contains is left alone, and so is the `${{ }}` of
/// workflows.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let found = values
            .iter()
            .find_map(|(name, value)| Some((value, after.strip_prefix(name)?.strip_prefix("}}")?)));
        rest = match found {
            Some((value, behind)) => {
                filled.push_str(value);
                behind
            }
            None => {
                filled.push_str("{{");
                after
            }
        };
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn version() -> SdkSource {
        SdkSource::Version("1.2.0".to_owned())
    }

    fn sdk_of_this_checkout() -> PathBuf {
        fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../adapter-sdk")).unwrap()
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn crate_is_written_whole_with_every_placeholder_filled() {
        let parent = tempfile::tempdir().unwrap();
        let created = create("key_value-2", parent.path(), &version()).unwrap();
        assert_eq!(created.package, "nexus-router-adapter-key-value-2");
        assert_eq!(created.factory_ref, "nexus_router_adapter_key_value_2:create_adapter");
        assert_eq!(created.directory, parent.path().join(&created.package));
        assert_eq!(names_in(parent.path()), [created.package], "nothing else is left");
        for (file, _) in FILES {
            let text = fs::read_to_string(created.directory.join(file)).unwrap();
            let left = text.replace("${{", "").contains("{{") || text.contains(UNSET_FACTORY_REF);
            assert!(!left, "{file} has a placeholder left: {text}");
        }
        let source = fs::read_to_string(created.directory.join("src/lib.rs")).unwrap();
        assert!(
            source.contains("const KIND: &str = \"key_value-2\";"),
            "the kind is kept as given"
        );
        assert!(source.contains("struct KeyValue2Adapter {"));
        let rights = fs::metadata(&created.directory).unwrap().permissions().mode();
        fs::create_dir(parent.path().join("usual")).unwrap();
        let usual = fs::metadata(parent.path().join("usual")).unwrap().permissions().mode();
        assert_eq!(rights, usual);
    }

    #[test]
    fn every_file_of_the_template_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates/adapter");
        let mut directories = vec![root.clone()];
        let mut count = 0;
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.path().is_dir() {
                    directories.push(entry.path());
                    continue;
                }
                count += 1;
                let path = entry.path().strip_prefix(&root).unwrap().display().to_string();
                let written = path.trim_end_matches(".in");
                assert!(FILES.iter().any(|(file, _)| *file == written), "{path} is not written");
            }
        }
        assert_eq!(count + 1, FILES.len(), "all but the workflow are in templates/adapter");
    }

    #[test]
    fn versions_are_those_of_this_router() {
        let minor = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
        let (_, workflow) = FILES.last().unwrap();
        assert!(workflow.contains(&format!("NEXUS_ROUTER_VERSION: \"^{minor}\"\n")));
        assert_eq!(workflow.matches(UNSET_FACTORY_REF).count(), 1);
        let supported: pep440_rs::VersionSpecifiers = supported_versions().parse().unwrap();
        assert!(supported.contains(&env!("CARGO_PKG_VERSION").parse().unwrap()));
    }

    #[test]
    fn every_step_of_the_workflow_can_fail_the_job() {
        let (_, workflow) = FILES.last().unwrap();
        for mask in ["continue-on-error", "|| true", "|| echo", "set +e", "secrets.", "if:"] {
            assert!(!workflow.contains(mask), "{mask}");
        }
        for action in workflow.lines().filter_map(|line| line.trim().strip_prefix("uses: ")) {
            let commit = action.split(['@', ' ']).nth(1).unwrap();
            assert!(
                commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()),
                "{action}"
            );
        }
    }

    #[test]
    fn bad_kind_writes_nothing_and_is_shown_harmlessly() {
        let parent = tempfile::tempdir().unwrap();
        for bad in ["", "../up", "a\u{1b}[31m"] {
            let error = create(bad, parent.path(), &version()).unwrap_err();
            assert!(matches!(error, Error::Kind { .. }), "{error}");
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
        assert_eq!(names_in(parent.path()).len(), 0);
    }

    #[test]
    fn whatever_is_there_stays_there() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("nexus-router-adapter-a");
        let refused = || {
            let error = create("a", parent.path(), &version()).unwrap_err();
            assert!(matches!(error, Error::Exists { .. }), "{error}");
            assert_eq!(names_in(parent.path()), ["nexus-router-adapter-a"]);
        };
        fs::create_dir(&target).unwrap();
        refused();
        fs::remove_dir(&target).unwrap();
        fs::write(&target, "mine").unwrap();
        refused();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        fs::remove_file(&target).unwrap();
        symlink("nowhere", &target).unwrap();
        refused();
    }

    #[test]
    fn one_of_many_at_once_wins() {
        let parent = tempfile::tempdir().unwrap();
        let results: Vec<_> = std::thread::scope(|scope| {
            let make = || create("a", parent.path(), &version());
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let lost = results.iter().filter(|result| matches!(result, Err(Error::Exists { .. })));
        assert_eq!(lost.count(), 7);
        assert_eq!(names_in(parent.path()), ["nexus-router-adapter-a"]);
    }

    #[test]
    fn parent_that_cannot_hold_a_crate_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for bad in [file, parent.path().join("missing"), PathBuf::from("/proc")] {
            let error = create("a", &bad, &version()).unwrap_err();
            assert!(matches!(error, Error::Parent { .. }), "{error}");
            assert!(error.to_string().contains(&bad.display().to_string()), "{error}");
        }
    }

    #[test]
    fn dependency_is_toml_whatever_the_path() {
        let parent = tempfile::tempdir().unwrap();
        let sdk = parent.path().join("{{kind}} \"quoted\" \\ \t\u{7f} é");
        fs::create_dir(&sdk).unwrap();
        fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"nexus-router-sdk\"\n").unwrap();
        let created = create("a", parent.path(), &SdkSource::Path(sdk.clone())).unwrap();
        let text = fs::read_to_string(created.directory.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let path = manifest["dependencies"]["nexus-router-sdk"]["path"].as_str();
        assert_eq!(path.map(Path::new), Some(fs::canonicalize(sdk).unwrap().as_path()));
        assert!(manifest["workspace"].as_table().is_some_and(toml::Table::is_empty));
    }

    #[test]
    fn other_directories_are_not_the_sdk() {
        let parent = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            fs::write(parent.path().join("Cargo.toml"), text).unwrap();
            let sdk = SdkSource::Path(parent.path().to_owned());
            create("a", parent.path(), &sdk).unwrap_err().to_string()
        };
        assert!(with("[package]\nname = \"other\"").ends_with("its package is \"other\""));
        assert!(with("[workspace]").ends_with("its Cargo.toml names no package"));
        assert!(with("]").ends_with("its Cargo.toml is not TOML"));
        assert_eq!(names_in(parent.path()), ["Cargo.toml"]);
        let sdk = SdkSource::Path(parent.path().join("missing"));
        assert!(matches!(create("a", parent.path(), &sdk), Err(Error::Sdk { .. })));
    }

    #[test]
    fn checkout_is_known_by_its_sdk() {
        let sdk = sdk_of_this_checkout();
        let checkout = sdk.parent().unwrap();
        for program in ["target/debug/nexus-router", "target/x/release/n", "target/debug/deps/n"] {
            assert_eq!(checkout_sdk(&checkout.join(program)).as_ref(), Some(&sdk), "{program}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(checkout_sdk(&elsewhere.path().join("target/debug/nexus-router")), None);
        for program in ["nexus-router", "bin/nexus-router", "target/nexus-router"] {
            assert_eq!(checkout_sdk(&checkout.join(program)), None, "{program}");
        }
        assert_eq!(checkout_sdk(Path::new("")), None);
    }

    #[test]
    fn next_commands_fit_a_shell() {
        assert_eq!(shell_word(Path::new("./nexus-router-adapter-a")), "nexus-router-adapter-a");
        assert_eq!(shell_word(Path::new("/it's here/a")), r"'/it'\''s here/a'");
    }
}

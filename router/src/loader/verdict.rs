//! Remembering that a dry run went well, so that a known-good library needs no second one.
//!
//! A verdict is bound to the file's digest, the factory, the configuration, the build of the program that
//! tried it, and where it is to run. Only good verdicts are kept: a bad one may be the machine's fault.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nexus_router_sdk::canonical;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cache::{self, private_directory, remove_unused, write_whole};
use super::opened::Opened;
use crate::digest::Digest;

/// What was seen is a description and a confinement.
const MAX_BYTES: u64 = 1024 * 1024;

/// The place of one verdict.
pub(super) struct Verdict {
    directory: PathBuf,
    file: PathBuf,
}

impl Verdict {
    /// Names the verdict on a factory of a library with a configuration, in a place.
    pub(super) fn of(
        cache_dir: &Path,
        helper: &Path,
        opened: &Opened,
        place: &str,
    ) -> io::Result<Self> {
        let config = canonical::to_string(&Value::Object(opened.config.config.clone()));
        let adapter_id = opened.adapter_id.as_deref();
        let key = Digest::of_parts(&[
            opened.digest().to_string().as_bytes(),
            opened.factory_ref.function().as_bytes(),
            format!("{adapter_id:?}").as_bytes(),
            Digest::of(config.as_bytes()).to_string().as_bytes(),
            build_of(helper)?.as_bytes(),
            place.as_bytes(),
        ]);
        let directory = cache_dir.join("verdicts");
        Ok(Self { file: directory.join(key.to_string()), directory })
    }

    /// Returns what was seen when it went well, if it is known to.
    pub(super) fn recall<T: DeserializeOwned>(&self) -> Option<T> {
        private_directory(&self.directory).ok()?;
        let file = cache::open(&self.file, MAX_BYTES).ok()?;
        serde_json::from_reader(io::BufReader::new(file)).ok()
    }

    /// Remembers that it went well, and what was seen. Failing to is no harm: it is tried again.
    pub(super) fn remember(&self, seen: &impl Serialize) {
        let written = private_directory(&self.directory).and_then(|()| {
            remove_unused(&self.directory);
            write_whole(&self.file, &serde_json::to_vec(seen)?, 0o400)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "verdict not remembered");
        }
    }
}

/// Identifies the build of a program without reading it.
fn build_of(helper: &Path) -> io::Result<String> {
    let metadata = fs::metadata(helper)?;
    Ok(format!(
        "{} {} {} {} {}.{}",
        env!("CARGO_PKG_VERSION"),
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ))
}

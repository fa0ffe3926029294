//! Remembering that a dry run went well, so that a known-good library needs no second one.
//!
//! A verdict is bound to the file's digest, the factory, the configuration and the build of the program
//! that tried it. Only good verdicts are kept: a bad one may be the machine's fault.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nexus_router_sdk::{Object, canonical};
use serde_json::Value;

use super::cache::{private_directory, remove_unused, write_whole};
use crate::digest::Digest;

/// The place of one verdict.
pub(super) struct Verdict {
    directory: PathBuf,
    file: PathBuf,
}

impl Verdict {
    /// Names the verdict on a factory of a library with a configuration.
    pub(super) fn of(
        cache_dir: &Path,
        helper: &Path,
        library: Digest,
        function: &str,
        adapter_id: Option<&str>,
        config: &Object,
    ) -> io::Result<Self> {
        let config = canonical::to_string(&Value::Object(config.clone()));
        let key = Digest::of_parts(&[
            library.to_string().as_bytes(),
            function.as_bytes(),
            format!("{adapter_id:?}").as_bytes(),
            Digest::of(config.as_bytes()).to_string().as_bytes(),
            build_of(helper)?.as_bytes(),
        ]);
        let directory = cache_dir.join("verdicts");
        Ok(Self { file: directory.join(key.to_string()), directory })
    }

    /// Says whether the dry run is known to go well.
    pub(super) fn is_good(&self) -> bool {
        private_directory(&self.directory).is_ok()
            && fs::symlink_metadata(&self.file).is_ok_and(|metadata| metadata.is_file())
    }

    /// Remembers that the dry run went well. Failing to is no harm: it is run again.
    pub(super) fn remember(&self) {
        let written = private_directory(&self.directory).and_then(|()| {
            remove_unused(&self.directory);
            write_whole(&self.file, b"ok\n", 0o400)
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

//! What every integration test needs: a private cache, the built libraries, the program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nexus_router::Loader;
use nexus_router::config::Environment;
use serde_json::Value;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");

/// A test's own world: an empty cache, and the libraries that cargo built for the tests.
pub struct World {
    pub directory: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a loader that looks in this world's directory first, then among the built libraries.
    pub fn loader(&self) -> Loader {
        let environment = Environment {
            adapter_path: vec![self.directory.path().to_owned(), built_directory()],
            cache_dir: self.path("cache"),
            helper: Some(PROGRAM.into()),
            ..Environment::default()
        };
        Loader::from_environment(&environment)
    }

    /// Runs the program with a clean environment.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, |command| command)
    }

    /// Runs a line that the program printed, as a shell does.
    pub fn paste(&self, line: &str) -> Run {
        let mut command = shell(line);
        command
            .current_dir(self.directory.path())
            .env("NEXUS_ROUTER_CACHE_DIR", self.path("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory());
        Run(command.output().unwrap())
    }

    /// Runs the program with a clean environment that the caller adds to.
    pub fn run_with(
        &self,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Run {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .env("NEXUS_ROUTER_CACHE_DIR", self.path("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory());
        Run(prepare(&mut command).output().unwrap())
    }
}

/// What a run of the program gave.
#[must_use = "assert on the exit code or the output"]
pub struct Run(pub Output);

impl Run {
    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or_else(|| panic!("killed by a signal: {:?}", self.0))
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout())
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout(), self.stderr()))
    }
}

/// Makes a command of a line of shell that finds the program under test, in an environment without anything else.
pub fn shell(line: &str) -> Command {
    let directory = Path::new(PROGRAM).parent().unwrap();
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", directory.display()));
    command
}

/// Copies a directory as `cp -r` does.
pub fn copy_directory(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

/// Copies the program. Another process does it: a test that starts something at the same moment would have the file
/// open for writing in it, and what is open for writing cannot be started.
pub fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(PROGRAM).arg(to).status().unwrap().success());
}

/// The directory in which cargo puts the libraries that the tests depend on.
pub fn built_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The file of a built library.
pub fn built_library(module: &str) -> PathBuf {
    built_directory().join(nexus_router::loader::library_name(module))
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

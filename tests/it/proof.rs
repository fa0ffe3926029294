//! The weekly proof: made for real, verified from bytes, and refused whatever is changed in it.

mod making;
mod tampering;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{PROGRAM, Run, built_directory};

/// The directory of a run.
const FIRST: &str = "store/weekly_proof/role_contract/run-0001";
const SECOND: &str = "store/weekly_proof/role_contract/run-0002";
const ARTIFACT: &str = "store/weekly_proof/artifacts/role_contract_weekly_proof.json";

/// Proofs of two weeks, made once for all tests.
fn weeks() -> &'static Path {
    static WEEKS: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = WEEKS.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("proof");
        for week in ["first", "second"] {
            let run = proof(&root, &["run"]);
            assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
            copy(&root.join("log"), &place.path().join(week));
        }
        place
    });
    made.path()
}

/// A copy of those proofs, which may be changed.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        copy(&weeks().join("proof"), &place.path().join("proof"));
        Self(place)
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("proof")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Returns how the verifier exits, and its last line.
    fn verdict(&self, more: &[&str]) -> (i32, String) {
        let arguments: Vec<&str> = ["verify"].iter().chain(more).copied().collect();
        let run = proof(&self.root(), &arguments);
        (run.code(), run.stdout().lines().last().unwrap_or_default().to_owned())
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Runs a verb of the proof, as this very user and with no configuration.
fn proof(root: &Path, arguments: &[&str]) -> Run {
    Run(command(PROGRAM, root, arguments)
        .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
        .output()
        .unwrap())
}

fn command(program: impl AsRef<std::ffi::OsStr>, root: &Path, arguments: &[&str]) -> Command {
    let above = root.parent().unwrap();
    std::fs::create_dir_all(above).unwrap();
    let mut command = Command::new(program);
    command
        .args(["evidence", "proof"])
        .args(arguments)
        .arg("--root")
        .arg(root)
        .current_dir(above)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NEXUS_ROUTER_CACHE_DIR", above.join("cache"));
    command
}

/// Returns the artifact that a verb printed before its verdict.
fn artifact(run: &Run) -> Value {
    let stdout = run.stdout();
    let line = stdout.lines().next().unwrap_or_else(|| panic!("{}", run.stderr()));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

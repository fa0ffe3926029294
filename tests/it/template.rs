//! `adapter new`: the crate that it writes builds, passes its tests and validates at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");
const FACTORY_REF: &str = "nexus_router_adapter_weather:create_adapter";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn sdk() -> PathBuf {
    workspace().join("adapter-sdk")
}

fn nexus_router(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(directory).env("NEXUS_ROUTER_CACHE_DIR", directory);
    command.env_remove("NEXUS_ROUTER_CONFIG").env_remove("NEXUS_ROUTER_ADAPTER_PATH");
    command.output().unwrap()
}

fn new_adapter(directory: &Path, kind: &str) -> Output {
    nexus_router(directory, &["adapter", "new", "--sdk-path", sdk().to_str().unwrap(), "--", kind])
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// A place that stays the same from run to run, so that only what has changed is built again. It lies
/// in the target directory: the new crate has another workspace above it, and must not care.
struct Site {
    directory: PathBuf,
    target: PathBuf,
    _only_one_at_a_time: File,
}

impl Site {
    fn enter() -> Self {
        let root = Path::new(PROGRAM).ancestors().nth(2).unwrap().join("template-test");
        fs::create_dir_all(&root).unwrap();
        let lock = File::create(root.join("lock")).unwrap();
        lock.lock().unwrap();
        let directory = root.join("new");
        if directory.exists() {
            fs::remove_dir_all(&directory).unwrap();
        }
        fs::create_dir(&directory).unwrap();
        Self { directory, target: root.join("target"), _only_one_at_a_time: lock }
    }

    fn cargo(&self, package: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(package).env("CARGO_TARGET_DIR", &self.target);
        // Nobody debugs this build, and its crate is new each time.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
        command.env("NEXUS_ROUTER_BIN", PROGRAM).env("NEXUS_ROUTER_CACHE_DIR", &self.directory);
        command.output().unwrap()
    }
}

#[test]
fn new_adapter_builds_passes_its_tests_and_validates() {
    let site = Site::enter();
    let said = succeeded(&new_adapter(&site.directory, "weather"));
    assert!(said.contains("cd nexus-router-adapter-weather\n"), "{said}");
    let package = site.directory.join("nexus-router-adapter-weather");

    // The versions of this workspace, so that nothing is downloaded.
    fs::copy(workspace().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let tested = succeeded(&site.cargo(&package, &["test", "--offline"]));
    assert!(tested.contains("test result: ok. 5 passed; 0 failed; 0 ignored"), "{tested}");
    assert!(tested.contains("test result: ok. 4 passed; 0 failed; 0 ignored"), "{tested}");
    succeeded(&site.cargo(&package, &["fmt", "--check"]));

    // Where cargo puts the library for tests.
    let libraries = site.target.join("debug/deps");
    let judge = |verb| {
        let path = libraries.to_str().unwrap();
        let arguments = [verb, FACTORY_REF, "--adapter-path", path, "--format", "json"];
        let output = nexus_router(&site.directory, &[&["adapter"], &arguments[..]].concat());
        serde_json::from_str::<Value>(&succeeded(&output)).unwrap()
    };
    let validation = judge("validate");
    let checks = validation["checks"].as_array().unwrap();
    // How far a library can be confined is the machine's doing, not the adapter's.
    // It declares nothing of being passive.
    let others = ["TRIED_CONFINED", "PASSIVE_PURE"];
    let mut judged = checks.iter().filter(|check| !others.contains(&check["id"].as_str().unwrap()));
    assert!(judged.all(|check| check["status"] == "pass"), "{validation:#}");
    readme_tells_the_truth(&package, &libraries, &judge("inspect"));

    let again = new_adapter(&site.directory, "weather");
    assert_eq!(again.status.code(), Some(2));
    let complaint = String::from_utf8(again.stderr).unwrap();
    assert!(complaint.contains("nexus-router-adapter-weather exists already"), "{complaint}");
    assert!(complaint.contains("\nhint: "), "{complaint}");
}

/// The README's configuration table is that of the manifest, and its commands work as written.
fn readme_tells_the_truth(package: &Path, libraries: &Path, inspection: &Value) {
    let readme = fs::read_to_string(package.join("README.md")).unwrap();
    let params = inspection["config_params"].as_array().unwrap();
    let rows = readme.lines().skip_while(|line| *line != "## Configuration");
    let rows = rows.take_while(|line| *line != "## Calls").filter(|line| line.starts_with("| `"));
    assert_eq!(rows.clone().count(), params.len());
    for (row, param) in rows.zip(params) {
        let [name, of_type, description] =
            ["name", "type", "description"].map(|member| param[member].as_str().unwrap());
        let required = if param["required"] == true { "yes" } else { "no" };
        let default = &param["default"];
        assert_eq!(
            row,
            format!("| `{name}` | {of_type} | {required} | `{default}` | {description} |")
        );
    }

    // The library is built already; it stands where a release build would put it.
    fs::create_dir(package.join("target")).unwrap();
    std::os::unix::fs::symlink(libraries, package.join("target/release")).unwrap();
    let blocks = readme.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| !line.starts_with("cargo "));
    let script = lines.collect::<Vec<_>>().join("\n");
    let programs = [Path::new(PROGRAM).parent().unwrap(), Path::new("/usr/bin"), Path::new("/bin")];
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(package).env("HOME", package);
    shell.env("PATH", std::env::join_paths(programs).unwrap());
    let shown = succeeded(&shell.env("NEXUS_ROUTER_CACHE_DIR", package).output().unwrap());
    assert!(shown.contains("> hello"), "{script}\n{shown}");
    assert!(shown.contains("\nok: "), "{script}\n{shown}");
}

#[test]
fn new_crate_is_formatted_whatever_the_length_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let long = "abcd-".repeat(7) + "abcde";
    for kind in ["a", "config", &long] {
        succeeded(&new_adapter(directory.path(), kind));
        let package = directory.path().join(format!("nexus-router-adapter-{kind}"));
        let mut command = Command::new(env!("CARGO"));
        succeeded(&command.args(["fmt", "--check"]).current_dir(package).output().unwrap());
    }
}

#[test]
fn new_adapter_takes_the_sdk_of_the_checkout_it_was_built_in() {
    let directory = tempfile::tempdir().unwrap();
    succeeded(&nexus_router(directory.path(), &["adapter", "new", "weather"]));
    let manifest = directory.path().join("nexus-router-adapter-weather/Cargo.toml");
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
    let dependency = &manifest["dependencies"]["nexus-router-sdk"];
    // A target directory elsewhere says nothing about the checkout.
    if Path::new(PROGRAM).starts_with(workspace().join("target")) {
        let path = dependency["path"].as_str().unwrap();
        assert_eq!(Path::new(path), fs::canonicalize(sdk()).unwrap());
    } else {
        assert_eq!(dependency.as_str(), Some(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn bad_kinds_and_places_get_no_answer() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |output: Output, why: &str| {
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(why) && complaint.contains("\nhint: "), "{complaint}");
        assert!(output.stdout.is_empty());
    };
    for kind in ["", "Weather", "../weather", "-weather", "we--ather", "2d", "self", "sdk"] {
        refused(new_adapter(directory.path(), kind), "cannot be the kind of an adapter");
    }
    let place = |option, value| {
        nexus_router(directory.path(), &["adapter", "new", "weather", option, value])
    };
    refused(place("--output", "missing"), "cannot create anything in missing");
    refused(place("--sdk-path", "."), ". is not the directory of nexus-router-sdk");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was written");
}

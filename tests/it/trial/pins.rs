//! A pin covers the whole load: a pinned library brings nothing along but libraries of the system.

use std::path::Path;

use nexus_router::grant::Isolation;
use nexus_router::loader::{LoadRequest, Placement, Reason};
use nexus_router::{AdapterLoadError, Loader};
use serde_json::json;

use super::{MIMIC, TrialWorld};
use crate::corpus::compile::{c_adapter, compile_c};
use crate::mimic::Mimic;

fn load(loader: &Loader, library: &Path, pinned: bool) -> Result<(), AdapterLoadError> {
    let pin = nexus_router::digest::Digest::of(&std::fs::read(library).unwrap());
    let factory_ref = format!("{}:create_adapter", library.display());
    let config = json!({});
    let pin = pinned.then_some(pin);
    loader
        .load(&LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin })
        .map(drop)
}

/// Makes a dependency whose constructor leaves a file, and a library that needs it. Returns library, dependency and
/// the file.
fn with_dependency(trial: &TrialWorld, arguments: &[&str]) -> [std::path::PathBuf; 3] {
    let [library, marker] = ["libdependent.so", "marker"].map(|name| trial.world.path(name));
    let place = trial.world.path("elsewhere");
    std::fs::create_dir(&place).unwrap();
    let dependency = place.join("libdependency.so");
    let source = format!(
        "#include <fcntl.h>\n__attribute__((constructor)) static void c(void) {{ creat(\"{}\", 0600); }}\n\
         int dependency(void) {{ return 1; }}",
        marker.display()
    );
    compile_c(&source, &dependency, &["-shared", "-Wl,-soname,libdependency.so"]);
    let source = c_adapter("extern int dependency(void); int f(void) { return dependency(); }");
    let place = place.to_str().unwrap();
    let arguments = [&["-shared", "-L", place, "-ldependency"][..], arguments].concat();
    compile_c(&source, &library, &arguments);
    [library, dependency, marker]
}

#[test]
fn pinned_library_with_own_search_path_is_refused() {
    for kind in ["--enable-new-dtags", "--disable-new-dtags"] {
        for placement in [Placement::inline(), Placement::worker()] {
            let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
            let place = trial.world.path("elsewhere");
            let path = format!("-Wl,{kind},-rpath,{}", place.display());
            let [library, dependency, marker] = with_dependency(&trial, &[&path]);
            let loader = trial.loader(placement);
            let error = load(&loader, &library, true).unwrap_err();
            assert_eq!(error.reason(), Reason::UnsafeDependency, "{error}");
            let told = error.to_string();
            assert!(told.contains("is pinned") && told.contains(place.to_str().unwrap()), "{told}");
            // Also if there is none yet.
            std::fs::remove_file(dependency).unwrap();
            let error = load(&loader, &library, true).unwrap_err();
            assert_eq!(error.reason(), Reason::UnsafeDependency, "{error}");
            assert!(!marker.exists(), "the dependency was opened");
        }
    }
}

#[test]
fn pinned_library_with_dependency_on_library_path_is_refused() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let [library, _, marker] = with_dependency(&trial, &[]);
    for isolation in [Isolation::Inline, Isolation::Worker] {
        let placement = Placement { isolation, ..Placement::worker() };
        let mut loader = trial.loader(placement);
        loader.library_path = Some(trial.world.path("elsewhere").into());
        let error = load(&loader, &library, true).unwrap_err();
        assert_eq!(error.reason(), Reason::UnsafeDependency, "{error}");
        assert!(error.to_string().contains("libdependency.so"), "{error}");
        // Without the pin, it is refused for what it is.
        let error = load(&loader, &library, false).unwrap_err();
        assert_ne!(error.reason(), Reason::UnsafeDependency, "{error}");
    }
    assert!(!marker.exists(), "the dependency was opened here");
}

#[test]
fn pinned_library_of_the_system_alone_loads() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let library = trial.world.path("libmimic.so");
    for placement in [Placement::inline(), Placement::worker()] {
        load(&trial.loader(placement), &library, true).unwrap();
    }
    let digest = nexus_router::digest::Digest::of(&std::fs::read(&library).unwrap()).to_string();
    assert_eq!(trial.validate(&["--pin", &digest]).code(), 0, "{MIMIC}");
}

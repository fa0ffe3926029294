//! The corpus of bad libraries: one per way of being broken, each with the reason that must come of it.
//!
//! Damaged files are made from one good library, small ones are compiled when the test runs, and many bad
//! factories live in one library. After every case the same process loads and calls a good adapter.

mod attacks;
pub mod calls;
pub mod compile;
mod confinement;
mod crowds;
mod damage;
pub mod factories;
mod files;
mod forge;
mod images;
mod objects;

use std::path::PathBuf;
use std::time::Duration;

use nexus_router::loader::{LoadRequest, Reason};
use nexus_router::{AdapterLoadError, Call, Loader};
use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::support::World;
use forge::Library;

/// What stands in for a secret; it must appear in no error.
const SECRET: &str = "corpus-hunter2-secret";

/// A place for bad libraries, and the host that meets them.
struct Corpus {
    world: World,
    loader: Loader,
}

impl Corpus {
    fn new() -> Self {
        let world = World::new();
        let loader = world.loader();
        let corpus = Self { world, loader };
        corpus.write("good", &Library::good().0);
        corpus
    }

    /// Returns the file of a module in this corpus.
    fn file(&self, module: &str) -> PathBuf {
        self.world.path(&nexus_router::loader::library_name(module))
    }

    /// Writes a library.
    fn write(&self, module: &str, bytes: &[u8]) {
        std::fs::write(self.file(module), bytes).unwrap();
    }

    /// Returns the loader for cases that never end by themselves.
    fn impatient(&self) -> Loader {
        let mut loader = self.loader.clone();
        loader.limits.time = Duration::from_secs(3);
        loader
    }

    /// Asserts that a load is refused for a reason, with a text in it, and that the host goes on.
    fn assert_refused(
        &self,
        loader: &Loader,
        factory_ref: &str,
        config: &Value,
        reason: Reason,
        says: &str,
    ) {
        let request = LoadRequest { factory_ref, adapter_id: None, config, pin: None };
        match loader.load(&request) {
            Ok(_) => panic!("{factory_ref} was loaded; expected {reason:?}"),
            Err(error) => assert_error(&error, factory_ref, reason, says),
        }
        self.assert_host_goes_on(factory_ref);
    }

    /// Asserts that this process loads a good adapter, and that it answers.
    fn assert_host_goes_on(&self, after: &str) {
        self.assert_works("good:create_adapter", &format!("after {after}"));
    }

    /// Asserts that an echo adapter loads and answers.
    fn assert_works(&self, factory_ref: &str, context: &str) {
        let request =
            LoadRequest { factory_ref, adapter_id: Some("alive"), config: &json!({}), pin: None };
        let adapter =
            self.loader.load(&request).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(adapter.adapter_id(), "alive", "{context}");
        let args = Object::from_iter([("n".to_owned(), 1.into())]);
        let output = adapter.call(&Call::new("tool", "method", &args));
        assert_eq!(output.unwrap()["args"]["n"], 1, "{context}");
    }
}

/// Asserts what every failed load has in common, and what this one must say.
fn assert_error(error: &AdapterLoadError, factory_ref: &str, reason: Reason, says: &str) {
    let text = error.to_string();
    assert_eq!(error.reason(), reason, "{factory_ref}: {text}");
    assert_eq!(error.code(), "ADAPTER_LOAD_FAILED");
    let details = Value::Object(error.details());
    assert_eq!(details["factory_ref"], factory_ref);
    assert_eq!(details["reason"], reason.code());
    assert!(text.contains(says), "{factory_ref}: '{says}' is not in '{text}'");
    assert!(!error.hint().is_empty(), "{factory_ref} has no hint");
    let shown = format!("{text} {error:?} {details} {}", error.hint());
    assert!(!shown.contains(SECRET), "{factory_ref} tells a secret: {shown}");
    assert!(shown.len() < 10_000, "{factory_ref} has an error of {} bytes", shown.len());
}

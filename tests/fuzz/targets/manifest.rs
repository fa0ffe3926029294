//! Any JSON as a manifest: checking, reading and documenting it never panics.
#![no_main]

use nexus_router::check::docs::{DocEntry, markdown};
use nexus_router::loader::manifest::{self, ManifestView};
use nexus_router::loader::{config_schema, versions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    drop(manifest::schema_errors(&value));
    drop(manifest::unknown_fields(&value));
    drop(manifest::default_errors(&value));
    drop(manifest::malformed_error_codes(&value));
    let view = ManifestView::read(&value);
    if let Some(specifier) = &view.supported_router_versions {
        drop(versions::supports(specifier));
    }
    drop(config_schema::apply(Some(&view), &nexus_router_sdk::Object::new()));
    let entry = DocEntry {
        factory_ref: "m:f".to_owned(),
        package: String::new(),
        version: String::new(),
        sdk: String::new(),
        manifest: Some(view),
        problem: None,
    };
    drop(markdown(&[entry], "fuzz"));
});

//! Every adapter on the adapter path, as its file tells without running.

use std::path::{Path, PathBuf};

use nexus_router_sdk::Capability;

use super::docs::DocEntry;
use crate::envoy;
use crate::loader::manifest::ManifestView;
use crate::loader::{Adapter, AdapterLoadError, FactoryRef, Loader, Reason};

/// One factory, or one library that cannot be read.
#[derive(Debug)]
pub struct Listed {
    /// The ref by which it is loaded; of an unreadable library, its module.
    pub factory_ref: String,
    /// The library file; what is part of the router has none.
    pub path: Option<PathBuf>,
    /// The package that holds it.
    pub package: Option<String>,
    /// The version of that package.
    pub version: Option<String>,
    /// The version of the SDK that it was built with.
    pub sdk: Option<String>,
    /// The manifest, if it has one.
    pub manifest: Option<ManifestView>,
    /// Why the library cannot be read.
    pub problem: Option<AdapterLoadError>,
}

impl Listed {
    /// Tells in a word whether it can be used.
    #[must_use]
    pub fn state(&self) -> String {
        match (&self.problem, &self.path) {
            (Some(error), _) => format!("unusable: {}", error.reason().code()),
            (None, None) => "built in".to_owned(),
            (None, Some(_)) => "found".to_owned(),
        }
    }
}

/// Lists every adapter on the path. Libraries that are no adapters are left out; adapters that cannot be
/// read are listed with the reason.
#[must_use]
pub fn list(loader: &Loader) -> Vec<Listed> {
    let mut listed = built_ins();
    for (module, path) in loader.adapter_path.modules() {
        match factories_of(&module, &path) {
            Ok(factories) => listed.extend(factories),
            Err(error) if error.reason() == Reason::NotAnAdapter => {}
            Err(error) => listed.push(Listed {
                factory_ref: module,
                path: Some(path),
                package: None,
                version: None,
                sdk: None,
                manifest: None,
                problem: Some(error),
            }),
        }
    }
    listed
}

/// Lists the factories of one library. `module` stands before the colon of their refs.
pub(super) fn factories_of(module: &str, path: &Path) -> Result<Vec<Listed>, AdapterLoadError> {
    let records = Loader::factories(path)?;
    let listed = records.into_iter().map(|record| Listed {
        factory_ref: FactoryRef::new(module, &record.factory).to_string(),
        path: Some(path.to_owned()),
        package: Some(record.package),
        version: Some(record.version),
        sdk: Some(record.sdk),
        manifest: record.manifest.as_ref().filter(|m| m.is_object()).map(ManifestView::read),
        problem: None,
    });
    Ok(listed.collect())
}

/// Lists the adapters that are part of the router.
#[must_use]
pub fn built_ins() -> Vec<Listed> {
    let null = Adapter::null();
    vec![
        built_in(envoy::REF, Adapter::ENVOY_KIND, &Adapter::ENVOY_CAPABILITIES),
        built_in(null.factory_ref(), null.adapter_kind(), null.capabilities()),
    ]
}

fn built_in<'a>(
    factory_ref: &str,
    kind: &str,
    capabilities: impl IntoIterator<Item = &'a Capability>,
) -> Listed {
    let capabilities = capabilities.into_iter().map(|one| one.name().to_owned()).collect();
    Listed {
        factory_ref: factory_ref.to_owned(),
        path: None,
        package: None,
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        sdk: None,
        manifest: Some(ManifestView {
            kind: kind.to_owned(),
            capabilities,
            ..ManifestView::default()
        }),
        problem: None,
    }
}

/// Returns what the documentation needs of every adapter in a library on the path.
#[must_use]
pub fn doc_entries(loader: &Loader) -> Vec<DocEntry> {
    let documented = list(loader).into_iter().filter(|entry| entry.path.is_some());
    documented.map(DocEntry::from).collect()
}

impl From<Listed> for DocEntry {
    fn from(entry: Listed) -> Self {
        Self {
            factory_ref: entry.factory_ref,
            package: entry.package.unwrap_or_default(),
            version: entry.version.unwrap_or_default(),
            sdk: entry.sdk.unwrap_or_default(),
            manifest: entry.manifest,
            // The reason, not the message: a message names paths of this machine.
            problem: entry.problem.map(|error| error.reason().meaning().to_owned()),
        }
    }
}

//! The inspection: a validation, and everything that the library tells of itself.

use serde_json::{Value, json};

use super::render::{RenderInput, render};
use super::{ExaminedAdapter, Status, Strictness, Validation, examine};
use crate::loader::manifest::{ConfigParam, ManifestView};
use crate::loader::wire::Observations;
use crate::loader::{
    AdapterLoadError, LoadRequest, Loader, Opened, declared_lines, description, shown_manifest,
};

/// What is known of an adapter.
#[derive(Debug)]
pub struct Inspection {
    /// The validation.
    pub validation: Validation,
    /// What the file itself tells; nothing when it cannot be read as a library.
    pub library: Option<LibraryFacts>,
    manifest: Option<Value>,
    view: Option<ManifestView>,
    /// What a passive adapter declares.
    passive: Option<Value>,
}

/// What a library file tells of itself.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LibraryFacts {
    /// Where it is.
    pub path: String,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The size of the file.
    pub size: usize,
    /// The ABI that it was built for.
    pub abi: u32,
    /// The version of the SDK that it was built with.
    pub sdk: String,
    /// The package and its version.
    pub package: String,
    /// Every factory that it exports.
    pub factories: Vec<String>,
    /// The confinement under which it was tried; nothing when no instance was made.
    pub confinement: Option<String>,
}

/// Inspects an adapter.
///
/// # Errors
/// As [`validate`](super::validate).
pub fn inspect(
    loader: &Loader,
    request: &LoadRequest<'_>,
    strictness: Strictness,
) -> Result<Inspection, AdapterLoadError> {
    let ExaminedAdapter { validation, opened, observations } =
        examine(loader, request, strictness)?;
    let observations = observations.as_ref();
    let library = opened.as_ref().map(|opened| facts(opened, observations));
    let passive = opened.as_ref().zip(observations).and_then(|(opened, observations)| {
        let description = description::read_object(&observations.description).ok()?;
        Some(opened.scrub_value(description.get("passive")?.get("declares")?))
    });
    let (manifest, view) = match opened {
        Some(opened) => {
            let manifest = opened.record.manifest.filter(Value::is_object);
            (manifest.map(|manifest| shown_manifest(&manifest)), opened.view)
        }
        None => (None, None),
    };
    Ok(Inspection { validation, library, manifest, view, passive })
}

fn facts(opened: &Opened, observations: Option<&Observations>) -> LibraryFacts {
    let record = &opened.record;
    LibraryFacts {
        path: opened.path.display().to_string(),
        sha256: opened.digest().to_string(),
        size: opened.size(),
        abi: record.abi,
        sdk: record.sdk.clone(),
        package: format!("{} {}", record.package, record.version),
        factories: opened.records().iter().map(|record| record.factory.clone()).collect(),
        confinement: observations.map(|observations| observations.confinement.to_string()),
    }
}

impl Inspection {
    /// Says whether no check failed.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.validation.ok()
    }

    /// Returns the instance's id.
    #[must_use]
    pub fn adapter_id(&self) -> Option<&str> {
        self.metadata("adapter_id")?.as_str()
    }

    /// Returns the instance's kind.
    #[must_use]
    pub fn adapter_kind(&self) -> Option<&str> {
        self.metadata("adapter_kind")?.as_str()
    }

    /// Returns the instance's capabilities, as far as they are strings.
    #[must_use]
    pub fn capabilities(&self) -> Vec<String> {
        let items = self.metadata("capabilities").and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    /// Returns the parameters of the configuration, by name.
    #[must_use]
    pub fn config_params(&self) -> &[ConfigParam] {
        self.view.as_ref().map_or(&[], |view| &view.config)
    }

    /// Returns the error codes of the manifest.
    #[must_use]
    pub fn error_codes(&self) -> &[String] {
        self.view.as_ref().map_or(&[], |view| &view.error_codes)
    }

    /// Returns the router versions that the manifest supports.
    #[must_use]
    pub fn supported_router_versions(&self) -> Option<&str> {
        self.view.as_ref()?.supported_router_versions.as_deref()
    }

    /// Returns the report for people.
    #[must_use]
    pub fn render(&self) -> String {
        let checks: Vec<(&str, Status, &str)> = self
            .validation
            .checks
            .iter()
            .map(|check| (check.id, check.status, check.message.as_str()))
            .collect();
        let extra = self.library.as_ref().map(LibraryFacts::lines).unwrap_or_default();
        let declared: Vec<_> = self.passive.iter().flat_map(declared_lines).collect();
        render(&RenderInput {
            ok: self.ok(),
            adapter_id: self.adapter_id(),
            adapter_kind: self.adapter_kind(),
            capabilities: &self.capabilities(),
            checks: &checks,
            manifest_present_and_non_empty: self
                .manifest
                .as_ref()
                .and_then(Value::as_object)
                .is_some_and(|manifest| !manifest.is_empty()),
            supported_router_versions: self.supported_router_versions(),
            error_codes: self.error_codes(),
            config_params: self.config_params(),
            extra: &extra,
            declared: &declared,
        })
    }

    /// Returns the report for programs: the peer's members, `library`, and `passive` of one that is.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let params = self.config_params();
        let listed = self.metadata("capabilities").is_some_and(Value::is_array);
        let stated = |key: &str| self.manifest.as_ref().is_some_and(|m| m.get(key).is_some());
        let mut report = json!({
            "ok": self.ok(),
            "adapter_id": self.adapter_id(),
            "adapter_kind": self.adapter_kind(),
            "capabilities": listed.then(|| self.capabilities()),
            "supported_router_versions": self.supported_router_versions(),
            "config_params": (!params.is_empty()).then_some(params),
            "error_codes": stated("error_codes").then(|| self.error_codes()),
            "manifest": self.manifest,
            "validation": self.validation.to_json(),
            "library": self.library,
        });
        if let Some(declares) = &self.passive {
            report["passive"] = declares.clone();
        }
        report
    }

    fn metadata(&self, field: &str) -> Option<&Value> {
        self.validation.metadata.as_ref()?.get(field)
    }
}

impl LibraryFacts {
    fn lines(&self) -> Vec<(String, String)> {
        let line = |label: &str, value: String| (label.to_owned(), value);
        let mut lines = vec![
            line("File", self.path.clone()),
            line("SHA-256", self.sha256.clone()),
            line("Size", format!("{} bytes", self.size)),
            line("Package", self.package.clone()),
            line("ABI", format!("{} (SDK {})", self.abi, self.sdk)),
            line("Factories", self.factories.join(", ")),
        ];
        lines.extend(self.confinement.clone().map(|confinement| line("Tried under", confinement)));
        lines
    }
}

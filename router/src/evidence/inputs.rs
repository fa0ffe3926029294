//! What an execution may rely on: logical names and digests, as a manifest that its spec names by digest.

use std::collections::BTreeMap;

use super::finding::{Finding, Findings};
use super::manifest::{self, Manifest};
use super::name;
use crate::digest::Digest;

/// The inputs of an execution by logical name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs(BTreeMap<String, Digest>);

impl Inputs {
    /// The name of the plan's canonical text.
    pub const PLAN: &str = "plan/spec";
    /// The name of the table of roles.
    pub const ROLES: &str = "policy/roles";
    /// The name of the contract of the adapters' operations.
    pub const ADAPTER_CONTRACT: &str = "contract/adapters";
    /// The name of the contract of roles.
    pub const ROLE_CONTRACT: &str = "contract/role";
    /// The name of the text of the adapter's version.
    pub const ADAPTER_VERSION: &str = "adapter/version";
    /// The name of the table of normalization.
    pub const NORMALIZATION: &str = "normalize/table";
    /// The name of the redactor's definition.
    pub const REDACTOR: &str = "normalize/redactor";
    /// What stands before the names of input files.
    pub const FILES: &str = "input/";

    /// Returns a manifest without inputs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input.
    ///
    /// # Errors
    /// `bad_name` when the name is none, `duplicate_name` when it stands for something else already.
    pub fn add(&mut self, name: &str, digest: Digest) -> Result<(), Finding> {
        if !name::is_input(name) {
            let message =
                "the name of an input is printable ASCII, relative, without '..' or empty parts";
            return Err(Finding::new("bad_name", name, "/files", message));
        }
        if self.0.len() >= manifest::MOST_FILES && !self.0.contains_key(name) {
            let message = format!("an execution has at most {} inputs", manifest::MOST_FILES);
            return Err(Finding::new("too_many_files", "", "/files", message));
        }
        match self.0.insert(name.to_owned(), digest) {
            Some(other) if other != digest => {
                let message = format!("it stands for {other} already, and not for {digest}");
                self.0.insert(name.to_owned(), other);
                Err(Finding::new("duplicate_name", name, "/files", message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the digest of an input.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Digest> {
        self.0.get(name).copied()
    }

    /// Returns the inputs by name.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Digest> {
        &self.0
    }

    /// Returns the canonical text, which is kept as `outputs/inputs.manifest.json`.
    #[must_use]
    pub fn text(&self) -> String {
        manifest::text(&self.0)
    }

    /// Returns `inputs_manifest_sha256`.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        let read =
            manifest::read(bytes, &name::is_input, "printable ASCII, relative, without '..'")?;
        Ok(Self(read))
    }
}

impl From<Inputs> for Manifest {
    fn from(inputs: Inputs) -> Self {
        Self::unchecked(inputs.0)
    }
}

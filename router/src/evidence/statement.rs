//! What is attested of evidence: everything in it follows from the bundle, but for where it was carried out.

use std::collections::BTreeMap;

use super::inputs::Inputs;
use super::manifest;
use super::spec::ExecutionSpec;
use crate::attest::{Link, Statement, Subject};
use crate::digest::Digest;
use crate::json::Object;
use crate::role;

/// What a bundle says that is attested.
#[derive(Clone, Debug)]
pub enum About<'a> {
    /// Something was executed.
    Execution {
        /// What.
        spec: &'a ExecutionSpec,
        /// Its inputs.
        inputs: &'a Inputs,
        /// What the program returned, if there was one.
        return_value: Option<i64>,
        /// The files of the manifest.
        files: &'a BTreeMap<String, Digest>,
        /// The files in `volatile/`, with that before their names.
        volatile: &'a BTreeMap<String, Digest>,
    },
    /// Something was refused.
    Rejection {
        /// Why.
        reason: &'a str,
    },
    /// Something was decided about a spec.
    Verification {
        /// The spec.
        spec_sha256: Digest,
    },
}

/// Returns what is attested of a bundle. `sandbox` says where it was carried out.
#[must_use]
pub fn statement(
    about: &About<'_>,
    subjects: &[(&'static str, Digest)],
    sandbox: Object,
) -> Statement {
    let mut environment = environment();
    if matches!(about, About::Execution { .. }) {
        environment.insert("sandbox", sandbox);
    }
    let subjects = subjects.iter().map(|(name, digest)| Subject::new(*name, *digest)).collect();
    Link { environment, ..link(about) }.about(subjects)
}

/// Reads a digest that is pinned in this program.
pub(crate) fn pinned(hex: &str) -> Digest {
    // A test holds each of them to what it is of.
    hex.parse().unwrap_or(Digest::ZERO)
}

/// Returns the pins that every statement carries.
fn environment() -> Object {
    let mut environment = Object::with_capacity(3);
    environment.insert("role_contract_sha256", role::CONTRACT_SHA256);
    environment.insert("role_table_sha256", role::TABLE_SHA256);
    environment
}

/// Returns what follows from the bundle.
#[must_use]
pub fn link(about: &About<'_>) -> Link {
    let mut byproducts = Object::new();
    match about {
        About::Execution { spec, inputs, return_value, files, volatile } => {
            let fields = spec.fields();
            for name in [manifest::STDOUT, manifest::STDERR] {
                byproducts.insert(name, files.get(name).map(Digest::to_string));
            }
            if let Some(code) = return_value {
                byproducts.insert("return-value", *code);
            }
            let mut kept = Object::with_capacity(volatile.len());
            for (name, digest) in *volatile {
                kept.insert(name.as_str(), digest.to_string());
            }
            byproducts.insert("volatile", kept);
            let materials = inputs.files().iter();
            Link {
                name: format!("{}/{}", fields.role.name(), fields.action.name()),
                command: fields.cmd_argv.clone(),
                materials: materials.map(|(name, digest)| Subject::new(name, *digest)).collect(),
                byproducts,
                environment: Object::new(),
            }
        }
        About::Rejection { reason } => {
            byproducts.insert("reason", *reason);
            Link { name: "rejection".to_owned(), byproducts, ..Link::default() }
        }
        About::Verification { spec_sha256 } => Link {
            name: "verification".to_owned(),
            materials: vec![Subject::new(manifest::SPEC, *spec_sha256)],
            ..Link::default()
        },
    }
}

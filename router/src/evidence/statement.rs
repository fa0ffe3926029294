//! What the attestation of a bundle says. Whoever seals makes it here, and the verifier makes it again from the files.
//!
//! It is a link of in-toto. Of an execution: `name` is role and action, `command` what was executed, `materials` the
//! inputs, `byproducts` the exit code and the digests of the texts and of everything in `volatile/`, which no manifest
//! covers. `environment` is the sealer's, but always has the digest of the table of roles.

use std::collections::BTreeMap;

use super::manifest::{STDERR, STDOUT};
use super::{ExecutionSpec, Inputs, Rejection, Staged, Verification};
use crate::attest::{Link, Statement, Subject};
use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::role;

/// The name of the digest of the table of roles, in the environment.
pub const ROLE_TABLE: &str = "role_table_sha256";

/// What the files of an execution say, as far as its attestation repeats it.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionFacts<'a> {
    /// What was to be executed.
    pub spec: &'a ExecutionSpec,
    /// Its inputs.
    pub inputs: &'a Inputs,
    /// The files that the manifest lists.
    pub files: &'a BTreeMap<String, Digest>,
    /// The files in `volatile/`, by paths that begin with it.
    pub volatile: &'a BTreeMap<String, Digest>,
    /// The exit code that the output tells.
    pub exit_code: Option<i64>,
}

/// Returns the link of an execution.
#[must_use]
pub fn execution(facts: &ExecutionFacts<'_>, environment: Object) -> Link {
    let fields = facts.spec.fields();
    let digest = |name: &str| -> Value {
        let mut object = Object::with_capacity(1);
        object.insert("sha256", facts.files.get(name).map(Digest::to_string));
        object.into()
    };
    let text = |(name, digest): (&String, &Digest)| (name.clone(), digest.to_string().into());
    let mut byproducts = Object::with_capacity(4);
    byproducts.insert("return-value", facts.exit_code);
    byproducts.insert("stderr", digest(STDERR));
    byproducts.insert("stdout", digest(STDOUT));
    byproducts.insert("volatile", facts.volatile.iter().map(text).collect::<Object>());
    let materials = facts.inputs.files().iter();
    Link {
        name: format!("{}/{}", fields.role.name(), fields.action.name()),
        command: fields.cmd_argv.clone(),
        materials: materials.map(|(name, digest)| Subject::new(name, *digest)).collect(),
        byproducts,
        environment: completed(environment),
    }
}

/// Returns the link of a rejection.
#[must_use]
pub fn rejection(rejection: &Rejection, environment: Object) -> Link {
    let mut byproducts = Object::with_capacity(1);
    byproducts.insert("reason", rejection.reason.as_str());
    let (name, environment) = ("rejection".to_owned(), completed(environment));
    Link { name, byproducts, environment, ..Link::default() }
}

/// Returns the link of a verification.
#[must_use]
pub fn verification(verification: &Verification, environment: Object) -> Link {
    let mut byproducts = Object::with_capacity(1);
    byproducts.insert("reason", verification.reason.as_str());
    Link {
        name: "verification".to_owned(),
        command: Vec::new(),
        materials: vec![Subject::new(super::manifest::SPEC, verification.spec_sha256)],
        byproducts,
        environment: completed(environment),
    }
}

/// Returns the statement about something that is staged.
#[must_use]
pub fn about(staged: &Staged, link: Link) -> Statement {
    let subjects = staged.subjects().iter().map(|(name, digest)| Subject::new(*name, *digest));
    link.about(subjects.collect())
}

fn completed(mut environment: Object) -> Object {
    environment.insert(ROLE_TABLE, role::TABLE_SHA256);
    environment
}

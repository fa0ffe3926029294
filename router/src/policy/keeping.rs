//! The interface contract that an adapter keeps: which operations it has, what each takes and gives, and how long
//! it may take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use semver::Version;

use super::{Act, Contract, Denial, InputDefaults, Law};
use crate::conform::Schema;
use crate::digest::Digest;
use crate::interface::{Interface, Retry};
use crate::json::{Object, Value};

/// An interface contract as the gate uses it: everything is read and compiled.
#[derive(Debug)]
pub struct Keeping {
    /// The adapter of the contract.
    pub interface_id: String,
    /// Its version.
    pub version: Version,
    /// Its digest.
    pub digest: Digest,
    /// The operations by tool and method.
    operations: BTreeMap<String, BTreeMap<String, Arc<KeptOperation>>>,
    /// Whether one of the operations only reads.
    pub has_reads: bool,
}

/// An operation as the gate uses it.
#[derive(Debug)]
pub struct KeptOperation {
    /// Its name in the contract.
    pub name: String,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether two equal calls do what one does.
    pub idempotent: bool,
    /// Whether a call changes nothing.
    pub read_only: bool,
    /// How often, and how soon, a call may be made again.
    pub retry: Retry,
    /// The codes with which a call may fail.
    pub failure_codes: BTreeSet<String>,
    /// What is written for arguments that the caller leaves out.
    pub defaults: InputDefaults,
    /// What it takes and gives.
    pub contract: Contract,
}

impl KeptOperation {
    /// Says whether a call may be made again when nobody knows what became of it.
    #[must_use]
    pub const fn may_be_repeated(&self) -> bool {
        self.idempotent || self.read_only
    }
}

impl Keeping {
    /// Reads and compiles a contract.
    ///
    /// # Errors
    /// With what cannot be used.
    pub fn of(interface: &Interface) -> Result<Self, String> {
        let mut operations: BTreeMap<String, BTreeMap<String, Arc<KeptOperation>>> =
            BTreeMap::new();
        for (name, operation) in &interface.operations {
            let read = |what: &str, schema: &Value| {
                Schema::read(&schema.to_serde())
                    .map_err(|problem| format!("{what} of {name} cannot be used: {problem}"))
            };
            let contract = Contract {
                input: Some(read("input_schema", &operation.input_schema)?),
                output: Some(read("output_schema", &operation.output_schema)?),
                content: false,
            };
            let kept = KeptOperation {
                name: name.clone(),
                timeout: operation.timeout,
                idempotent: operation.idempotent,
                read_only: operation.read_only,
                retry: operation.retry,
                failure_codes: operation
                    .failure_modes
                    .iter()
                    .map(|mode| mode.code.clone())
                    .collect(),
                defaults: InputDefaults::of(&operation.input_schema),
                contract,
            };
            let methods = operations.entry(operation.tool.clone()).or_default();
            methods.insert(operation.method.clone(), Arc::new(kept));
        }
        Ok(Self {
            interface_id: interface.adapter_id.clone(),
            version: interface.version.clone(),
            digest: interface.digest,
            operations,
            has_reads: interface.operations.values().any(|operation| operation.read_only),
        })
    }

    /// Lists the operations, each as tool and method.
    pub fn operations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.operations.iter().flat_map(|(tool, methods)| {
            methods.keys().map(move |method| (tool.as_str(), method.as_str()))
        })
    }

    /// Finds an operation by the call that it is.
    #[must_use]
    pub fn operation(&self, tool: &str, method: &str) -> Option<&Arc<KeptOperation>> {
        self.operations.get(tool)?.get(method)
    }
}

impl Law {
    /// Finds the operation of a contract that a call is, if its adapter keeps one.
    #[must_use]
    pub fn operation(&self, act: Act<'_>) -> Option<&Arc<KeptOperation>> {
        self.interfaces.get(act.adapter_id)?.operation(act.tool, act.method)
    }

    /// An adapter with a contract is called for what stands in it, and for nothing else.
    pub(super) fn judge_by_contract(&self, act: Act<'_>) -> Result<(), Denial> {
        let Act { adapter_id, tool, method } = act;
        let denied = || {
            let mut details = Object::new();
            details.insert("denied_by", "contract");
            details
        };
        let Some(keeping) = self.interfaces.get(adapter_id) else {
            // What the built-in adapter can do is nothing.
            if !self.contract_required || adapter_id == crate::loader::Adapter::null().adapter_id()
            {
                return Ok(());
            }
            let message = format!(
                "adapter '{adapter_id}' has no interface contract, and the operator wants one of every adapter"
            );
            return Err(Denial { code: "CONTRACT_REQUIRED", message, details: denied() });
        };
        if keeping.operation(tool, method).is_some() {
            return Ok(());
        }
        let mut details = denied();
        details.insert("contract", keeping.interface_id.as_str());
        details.insert("contract_version", keeping.version.to_string());
        let message = format!(
            "{tool}.{method} of adapter '{adapter_id}' is no operation of its contract {} {}",
            keeping.interface_id, keeping.version
        );
        Err(Denial { code: "OPERATION_NOT_IN_CONTRACT", message, details })
    }
}

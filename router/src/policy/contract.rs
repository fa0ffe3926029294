//! What an operation takes and gives: the schemas that its arguments and its output are held to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Act, Key, Law};
use crate::conform::{Misfit, Schema};
use crate::json::Object;

/// The schemas of an operation.
#[derive(Debug, Default)]
pub struct Contract {
    /// Of the arguments.
    pub input: Option<Schema>,
    /// Of the output, or of its `structuredContent` if the output is a `CallToolResult`.
    pub output: Option<Schema>,
    /// Whether the output is a `CallToolResult`.
    pub content: bool,
}

/// The contracts of operations: by adapter, tool and method. All of an operation's hold.
pub type Contracts = BTreeMap<Key, Vec<Arc<Contract>>>;

impl Law {
    fn contracts_of(&self, act: Act<'_>) -> &[Arc<Contract>] {
        if self.contracts.is_empty() {
            return &[];
        }
        self.contracts.get(&act.key()).map_or(&[], Vec::as_slice)
    }

    /// Holds arguments to the contract of their operation.
    ///
    /// # Errors
    /// With what does not fit.
    pub fn check_args(&self, act: Act<'_>, args: &Object) -> Result<(), Misfit> {
        let kept = self.operation(act).map(|operation| &operation.contract);
        let told = self.contracts_of(act).iter().map(|contract| &**contract);
        let mut schemas =
            kept.into_iter().chain(told).filter_map(|contract| contract.input.as_ref()).peekable();
        if schemas.peek().is_none() {
            return Ok(());
        }
        let args = args.to_serde().into();
        schemas.try_for_each(|schema| schema.check(&args))
    }

    /// Returns whether a definition says that the outputs of an operation are `CallToolResult`s.
    #[must_use]
    pub fn gives_content(&self, act: Act<'_>) -> bool {
        self.contracts_of(act).iter().any(|contract| contract.content)
    }

    /// Holds an output to the contract of its operation. What says that it failed promises nothing.
    ///
    /// # Errors
    /// With what does not fit.
    pub fn check_output(&self, act: Act<'_>, output: &Object) -> Result<(), Misfit> {
        let kept = self.operation(act).map(|operation| &operation.contract);
        let told = self.contracts_of(act).iter().map(|contract| &**contract);
        kept.into_iter().chain(told).try_for_each(|contract| contract.check_output(output))
    }
}

impl Contract {
    /// Holds an output to the schema. What says that it failed promises nothing.
    ///
    /// # Errors
    /// With what does not fit.
    pub fn check_output(&self, output: &Object) -> Result<(), Misfit> {
        let Some(schema) = &self.output else { return Ok(()) };
        if !self.content {
            return schema.check(&output.to_serde().into());
        }
        if output.get("isError").and_then(crate::json::Value::as_bool) == Some(true) {
            return Ok(());
        }
        let value = output.get("structuredContent").map(crate::json::Value::to_serde);
        schema.check(&value.unwrap_or_default())
    }
}

//! Registered tools: what their specs and contracts say becomes what callers see.

use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::Capability;

use super::definition::repeats_in_headers;
use super::{Definition, ToolSpec, Tools, Withheld, is_name};
use crate::interface::{Interface, Operation};
use crate::json::Value;
use crate::loader::Adapter;
use crate::mapping::{ExecutionMode, ToolDocument};
use crate::policy::{Contract, Hint};
use crate::register::Standing;
use crate::role::ActionClass;

/// A tool that is an operation of the router itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// What it does, for callers.
    pub description: String,
    /// The operation.
    pub operation: String,
}

impl Tools {
    /// Adds a registered tool, or withholds it with the reason. `keeper` has the contract that it names, and the
    /// adapter that keeps it.
    pub fn register(&mut self, standing: &Standing, keeper: Option<(&Interface, &Adapter)>) {
        let name = standing.tool_id.as_str();
        let added = match (&standing.document, &standing.disabled) {
            (_, Some(why)) => Err(why.clone()),
            (None, None) => Err("its spec cannot be read".to_owned()),
            (Some(_), None) if !is_name(name) => Err("its id is no name for a tool".to_owned()),
            (Some(_), None) if self.tools.contains_key(name) => {
                Err("another tool has its name".to_owned())
            }
            (Some(document), None) if document.execution_mode == ExecutionMode::Local => {
                self.add_local(document)
            }
            (Some(document), None) => self.add_remote(document, keeper),
        };
        let Err(reason) = added else { return };
        tracing::warn!(tool = name, reason, "a registered tool is withheld from callers");
        let document = standing.document.as_ref();
        let operation = keeper.zip(document).and_then(|((interface, adapter), document)| {
            let operation = operation(interface, document)?;
            let adapter_id = adapter.adapter_id().to_owned();
            Some((adapter_id, operation.tool.clone(), operation.method.clone()))
        });
        let action_class = document.and_then(class);
        let is_remote = document.is_some_and(|it| it.execution_mode != ExecutionMode::Local);
        let lacks_adapter = standing.disabled.is_none() && is_remote && keeper.is_none();
        let name = name.to_owned();
        self.withheld.push(Withheld { name, operation, action_class, reason, lacks_adapter });
    }

    /// Returns the registered tool of a name that lacks an adapter.
    #[must_use]
    pub fn without_adapter(&self, name: &str) -> Option<&Withheld> {
        self.withheld.iter().find(|withheld| withheld.lacks_adapter && withheld.name == name)
    }

    /// Returns the operation of the router itself that a tool is, if it is one.
    #[must_use]
    pub fn local(&self, name: &str) -> Option<&Local> {
        self.local.get(name)
    }

    /// Lists the tools that are operations of the router itself.
    pub fn locals(&self) -> impl Iterator<Item = (&str, &Local)> {
        self.local.iter().map(|(name, local)| (name.as_str(), local))
    }

    fn add_local(&mut self, document: &ToolDocument) -> Result<(), String> {
        let target = document.execution_target.as_ref().and_then(|target| target.service.clone());
        let operation = target.ok_or("it names no operation of the router")?;
        let local = Local { description: document.description.clone(), operation };
        self.local.insert(document.tool_id.clone(), local);
        Ok(())
    }

    fn add_remote(
        &mut self,
        document: &ToolDocument,
        keeper: Option<(&Interface, &Adapter)>,
    ) -> Result<(), String> {
        let Some((interface, adapter)) = keeper else {
            let wanted = document.adapter_id.as_deref().unwrap_or_default();
            return Err(lacking_adapter(wanted));
        };
        let operation = operation(interface, document).ok_or("its operation is gone")?;
        let definition = Definition::registered(document, operation, adapter)?;
        let spec = ToolSpec {
            name: document.tool_id.clone(),
            description: document.description.clone(),
            adapter_id: adapter.adapter_id().to_owned(),
            tool: operation.tool.clone(),
            method: operation.method.clone(),
            action_class: class(document),
            timeout: Some(Duration::from_secs(document.timeout_seconds.into())),
            definition: Arc::new(definition),
        };
        self.tools.insert(document.tool_id.clone(), spec);
        Ok(())
    }
}

/// Returns why a tool cannot be called whose contract no adapter keeps.
#[must_use]
pub fn lacking_adapter(interface_id: &str) -> String {
    format!(
        "no adapter is loaded that keeps the contract {interface_id}; list one in router.toml, with the id \
         {interface_id} or with interface = {interface_id:?}"
    )
}

fn operation<'a>(interface: &'a Interface, document: &ToolDocument) -> Option<&'a Operation> {
    interface.operations.get(document.adapter_operation.as_deref()?)
}

/// Returns the operation behind a registered tool, with the class that the spec gives it.
pub(crate) fn registered_operation<'a>(
    interface: &'a Interface,
    document: &ToolDocument,
) -> Option<(&'a Operation, Option<ActionClass>)> {
    Some((operation(interface, document)?, class(document)))
}

/// Returns the class of actions that a spec says in its open part; the specification has no member for it.
fn class(document: &ToolDocument) -> Option<ActionClass> {
    let name = document.metadata.get("action_class").and_then(Value::as_str)?;
    ActionClass::ALL.into_iter().find(|class| class.name() == name)
}

impl Definition {
    /// Takes the definition of a registered tool: the schemas of its contract, and what its spec says that it does.
    fn registered(
        document: &ToolDocument,
        operation: &Operation,
        adapter: &Adapter,
    ) -> Result<Self, String> {
        let object = |schema: &Value| match schema.to_serde() {
            serde_json::Value::Object(schema) => Ok(Arc::new(schema)),
            _ => Err("a schema of its contract is no object".to_owned()),
        };
        let destroys = document.side_effects.iter().any(|effect| !effect.reversible);
        let external = adapter.capabilities().contains(&Capability::External);
        let hints = Hint {
            read_only: Some(operation.read_only),
            // Who declares no effect of what is not read only has said nothing.
            destructive: match (operation.read_only, document.side_effects.is_empty()) {
                (true, _) => Some(false),
                (false, true) => None,
                (false, false) => Some(destroys),
            },
            idempotent: Some(operation.idempotent),
            open_world: Some(external),
        };
        let title = document.metadata.get("title").and_then(Value::as_str).map(str::to_owned);
        let input_schema = object(&operation.input_schema)?;
        Ok(Self {
            title,
            repeats_in_headers: repeats_in_headers(&input_schema),
            input_schema,
            output_schema: Some(object(&operation.output_schema)?),
            hints,
            trusted_hints: hints,
            more: nexus_router_sdk::Object::new(),
            content: false,
            interactive: false,
            long: false,
            applies: adapter.capabilities().contains(&Capability::Apply),
            external,
            // The law holds every call of the adapter to its contract, by whatever name it is made.
            contract: Arc::new(Contract::default()),
        })
    }
}

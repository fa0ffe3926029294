//! Tools as callers see them: a name for one operation of one adapter.

mod boundary;
mod definition;
mod derived;
mod offer;
mod registered;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::{Catalog, Tool};

pub use boundary::OfferingAdapter;
pub use definition::{Definition, HintTrust};
pub use offer::{Offered, Offers};
pub(crate) use registered::registered_operation;
pub use registered::{Local, lacking_adapter};

use crate::config::{Offer, Pattern, ToolEntry};
use crate::json::{Object, Value};
use crate::loader::Adapter;
use crate::policy::{Act, Hint, Key};
use crate::registry::{self, Registry};
use crate::request::{self, Mode, Request};
use crate::role::ActionClass;

/// A tool.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name that callers use.
    pub name: String,
    /// What it does, for callers.
    pub description: String,
    /// The adapter that carries it out.
    pub adapter_id: String,
    /// The tool that the adapter is asked for.
    pub tool: String,
    /// The method of that tool.
    pub method: String,
    /// What kind of action it is, which roles go by.
    pub action_class: Option<ActionClass>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// What else callers are told.
    pub definition: Arc<Definition>,
}

/// A tool cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It names an adapter that is not there.
    #[error("tool {tool}: there is no adapter {}", unknown(.error))]
    Adapter {
        /// The tool.
        tool: String,
        /// What the registry says; its text is a part of ours.
        error: registry::Error,
    },
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Adapter { error, .. } => error.code(),
        }
    }
}

fn unknown(error: &registry::Error) -> &str {
    match error {
        registry::Error::Unknown { adapter_id, .. } => adapter_id,
        _ => "",
    }
}

fn fits(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches_name(name))
}

fn fits_uri(patterns: &[Pattern], uri: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(uri))
}

/// Says whether callers can call a tool by this name.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with(OWN)
}

/// Tools of the router itself begin so.
const OWN: &str = "nexus-router.";

/// What is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Tools.
    pub tools: bool,
    /// Prompts.
    pub prompts: bool,
    /// Resources and their templates.
    pub resources: bool,
}

impl Changed {
    /// Perhaps everything.
    pub const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// Says whether there is anything.
    #[must_use]
    pub const fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// The catalogues of adapters, by adapter id.
pub type Catalogs = BTreeMap<String, Arc<Catalog>>;

/// What callers may find: the tools of a router by name, and resources and prompts.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    tools: BTreeMap<String, ToolSpec>,
    local: BTreeMap<String, Local>,
    withheld: Vec<Withheld>,
    offers: Offers,
}

/// A tool that callers do not get. Rules that name it hold for its operation all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The name that callers would use.
    pub name: String,
    /// The operation behind it, if there is one.
    pub operation: Option<Key>,
    /// What kind of action it is.
    pub action_class: Option<ActionClass>,
    /// Why callers do not get it.
    pub reason: String,
    /// Whether it is registered, and only lacks an adapter that keeps its contract.
    pub lacks_adapter: bool,
}

impl Tools {
    /// Adds the tools of a configuration. One whose adapter describes it in a way that cannot be used is
    /// withheld: what is behind an adapter may change at any time, and must not keep a router from working. So is
    /// one that has the name of a registered tool.
    ///
    /// # Errors
    /// When one of them names an adapter that is not there.
    pub fn configure(
        &mut self,
        entries: &[ToolEntry],
        registry: &Registry,
        catalogs: &Catalogs,
        trust: impl Fn(&str) -> HintTrust,
    ) -> Result<(), Error> {
        for entry in entries {
            let found = registry.find_available(&entry.adapter);
            let found =
                found.map_err(|error| Error::Adapter { tool: entry.name.clone(), error })?;
            // The registry knows the tools of adapters that are not available.
            let Some(adapter) = found else {
                self.withhold(entry, "its adapter is not available".to_owned());
                continue;
            };
            let catalogued = catalogs.get(&entry.adapter).and_then(|catalog| {
                let fits =
                    |tool: &&Tool| (&tool.tool, &tool.method) == (&entry.tool, &entry.method);
                catalog.tools.iter().find(fits)
            });
            let taken =
                self.tools.contains_key(&entry.name) || self.local.contains_key(&entry.name);
            let definition = match taken {
                true => Err("a registered tool has its name".to_owned()),
                false => Definition::configured(entry, adapter, catalogued, trust(&entry.adapter)),
            };
            match definition {
                Ok(definition) => {
                    let spec = ToolSpec {
                        name: entry.name.clone(),
                        description: entry.description.clone(),
                        adapter_id: entry.adapter.clone(),
                        tool: entry.tool.clone(),
                        method: entry.method.clone(),
                        action_class: entry.action_class,
                        timeout: entry.timeout,
                        definition: Arc::new(definition),
                    };
                    self.tools.insert(entry.name.clone(), spec);
                }
                Err(reason) => {
                    tracing::warn!(tool = entry.name, reason, "a tool is withheld from callers");
                    self.withhold(entry, reason);
                }
            }
        }
        Ok(())
    }

    fn withhold(&mut self, entry: &ToolEntry, reason: String) {
        let ToolEntry { adapter, tool, method, .. } = entry;
        self.withheld.push(Withheld {
            name: entry.name.clone(),
            operation: Some((adapter.clone(), tool.clone(), method.clone())),
            action_class: entry.action_class,
            reason,
            lacks_adapter: false,
        });
    }

    /// Lists the tools that callers do not get.
    #[must_use]
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// Adds what an adapter offers of its catalogue. What cannot be offered is told in the log.
    pub fn offer(&mut self, adapter: &Adapter, offer: &Offer, catalog: &Catalog, trust: HintTrust) {
        let adapter_id = adapter.adapter_id();
        for tool in &catalog.tools {
            if !fits(&offer.tools, tool.name()) {
                continue;
            }
            let name = format!("{}{}", offer.prefix, tool.name());
            let refused = if !is_name(&name) {
                Some("its name is none for a tool".to_owned())
            } else if self.tools.contains_key(&name) || self.local.contains_key(&name) {
                Some("another tool has its name".to_owned())
            } else {
                let class = offer.action_class;
                self.add(name.clone(), (adapter, trust), class, tool).err()
            };
            if let Some(why) = refused {
                tracing::warn!(adapter_id, tool = name, why, "a tool is not offered");
            }
        }
        let offered = |original: &str, definition: &nexus_router_sdk::Object| Offered {
            adapter_id: adapter_id.to_owned(),
            original: original.to_owned(),
            definition: definition.clone(),
        };
        let passed_over = |what: &str, name: &str| {
            tracing::warn!(adapter_id, name, "a {what} is not offered: another has its name");
        };
        for (what, key, from, to) in [
            ("resource", "uri", &catalog.resources, &mut self.offers.resources),
            ("template", "uriTemplate", &catalog.resource_templates, &mut self.offers.templates),
        ] {
            for definition in from {
                let Some(uri) = offer::text(definition, key) else { continue };
                if fits_uri(&offer.resources, uri) && !offer::put(to, uri, offered(uri, definition))
                {
                    passed_over(what, uri);
                }
            }
        }
        for definition in &catalog.prompts {
            let Some(original) = offer::text(definition, "name") else { continue };
            if !fits(&offer.prompts, original) {
                continue;
            }
            let name = format!("{}{original}", offer.prefix);
            let mut renamed = offered(original, definition);
            renamed.definition.insert("name".to_owned(), name.as_str().into());
            if !offer::put(&mut self.offers.prompts, &name, renamed) {
                passed_over("prompt", &name);
            }
        }
        let anything = !offer.resources.is_empty() || !offer.prompts.is_empty();
        if catalog.completes && anything {
            self.offers.completing.push(adapter_id.to_owned());
        }
        if catalog.subscribes && !offer.resources.is_empty() {
            self.offers.following.push(adapter_id.to_owned());
        }
    }

    fn add(
        &mut self,
        name: String,
        (adapter, trust): (&Adapter, HintTrust),
        action_class: Option<ActionClass>,
        tool: &Tool,
    ) -> Result<(), String> {
        let definition = Definition::catalogued(tool, adapter, trust)?;
        let description = offer::text(&tool.definition, "description").unwrap_or_default();
        let spec = ToolSpec {
            name: name.clone(),
            description: description.to_owned(),
            adapter_id: adapter.adapter_id().to_owned(),
            tool: tool.tool.clone(),
            method: tool.method.clone(),
            action_class,
            timeout: None,
            definition: Arc::new(definition),
        };
        self.tools.insert(name, spec);
        Ok(())
    }

    /// Tells what callers would see that is different from before.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Changed {
        let told = |spec: &ToolSpec| {
            let Definition { title, input_schema, output_schema, hints, more, .. } =
                &*spec.definition;
            let schemas = (input_schema.clone(), output_schema.clone());
            (
                spec.name.clone(),
                spec.description.clone(),
                title.clone(),
                schemas,
                *hints,
                more.clone(),
            )
        };
        let all = |tools: &Self| tools.iter().map(told).collect::<Vec<_>>();
        let (ours, theirs) = (&self.offers, &before.offers);
        Changed {
            tools: all(self) != all(before),
            prompts: ours.prompts != theirs.prompts,
            resources: (&ours.resources, &ours.templates) != (&theirs.resources, &theirs.templates),
        }
    }

    /// Returns what is offered besides tools.
    #[must_use]
    pub const fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Finds a tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name)
    }

    /// Lists the tools by name.
    pub fn iter(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values()
    }
}

impl ToolSpec {
    /// Returns the operation behind it: adapter, tool and method.
    #[must_use]
    pub fn operation(&self) -> Key {
        (self.adapter_id.clone(), self.tool.clone(), self.method.clone())
    }

    /// Returns the call that it is, for the law.
    #[must_use]
    pub fn act(&self) -> Act<'_> {
        Act { adapter_id: &self.adapter_id, tool: &self.tool, method: &self.method }
    }

    /// Makes the run of one step that a call of the tool is.
    ///
    /// # Errors
    /// When the arguments cannot be those of a step.
    pub fn request(
        &self,
        mode: Mode,
        args: Object,
        idempotency_key: Option<&str>,
    ) -> Result<Request, request::Error> {
        let goal = format!("call {}", self.name);
        let call =
            OneCall { goal: &goal, act: self.act(), timeout: self.timeout, interaction: None };
        call.request(mode, args, idempotency_key)
    }

    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(12);
        object.insert("name", self.name.as_str());
        object.insert("description", self.description.as_str());
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("tool", self.tool.as_str());
        object.insert("method", self.method.as_str());
        object.insert("action_class", self.action_class.map(ActionClass::name));
        let definition = &self.definition;
        object.insert("input_schema", Object::from(&*definition.input_schema));
        if let Some(schema) = &definition.output_schema {
            object.insert("output_schema", Object::from(&**schema));
        }
        let Hint { read_only, destructive, idempotent, open_world } = definition.hints;
        object.insert("read_only", read_only);
        object.insert("destructive", destructive);
        object.insert("idempotent", idempotent);
        object.insert("open_world", open_world);
        object.into()
    }
}

/// The one call of a run that is nothing else.
#[derive(Clone, Debug)]
pub struct OneCall<'a> {
    /// What the run is for.
    pub goal: &'a str,
    /// What is called.
    pub act: Act<'a>,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// What the caller says besides the arguments.
    pub interaction: Option<Object>,
}

impl OneCall<'_> {
    /// Makes the run.
    ///
    /// # Errors
    /// When the arguments cannot be those of a step.
    pub fn request(
        self,
        mode: Mode,
        args: Object,
        idempotency_key: Option<&str>,
    ) -> Result<Request, request::Error> {
        let mut call = Object::with_capacity(4);
        call.insert("tool", self.act.tool);
        call.insert("method", self.act.method);
        call.insert("args", args);
        if let Some(interaction) = self.interaction {
            call.insert("interaction", interaction);
        }
        let mut dispatch = Object::with_capacity(1);
        dispatch.insert("adapter_id", self.act.adapter_id);
        let mut step = Object::with_capacity(5);
        step.insert("step_id", "call");
        step.insert("intent", self.goal);
        step.insert("call", call);
        step.insert("dispatch", dispatch);
        if let Some(timeout) = self.timeout {
            let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            step.insert("timeout_ms", timeout.max(1));
        }
        let mut policy = Object::with_capacity(1);
        policy.insert("allow_apply", mode == Mode::Apply);
        let mut request = Object::with_capacity(5);
        request.insert("goal", self.goal);
        request.insert("mode", mode.name());
        request.insert("policy", policy);
        request.insert("plan_override", vec![Value::Object(step)]);
        if let Some(key) = idempotency_key {
            request.insert("idempotency_key", key);
        }
        Request::read(request.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_whose_adapter_describes_it_badly_is_withheld_and_no_other() {
        let mut registry = Registry::new("null".to_owned());
        registry.register(Adapter::null()).unwrap();
        let entry = |name: &str| ToolEntry {
            name: name.to_owned(),
            title: None,
            description: "d".to_owned(),
            adapter: "null".to_owned(),
            tool: name.to_owned(),
            method: "call".to_owned(),
            action_class: Some(ActionClass::FileWrite),
            timeout: None,
            input_schema: None,
            output_schema: None,
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
        };
        let mut bad = Tool::new("bad", "d");
        bad.definition["inputSchema"] = serde_json::json!({ "pattern": "^(?!x)" });
        let catalog = Catalog { tools: vec![Tool::new("good", "d"), bad], ..Catalog::default() };
        let catalogs = Catalogs::from([("null".to_owned(), Arc::new(catalog))]);
        let mut tools = Tools::default();
        let entries = [entry("good"), entry("bad")];
        tools.configure(&entries, &registry, &catalogs, |_| HintTrust::RouterOnly).unwrap();
        assert_eq!(tools.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["good"]);
        let [withheld] = tools.withheld() else { panic!("{:?}", tools.withheld()) };
        assert!(withheld.name == "bad" && withheld.reason.contains("arguments"), "{withheld:?}");
        // Rules that name it hold for its operation.
        let operation = ("null".to_owned(), "bad".to_owned(), "call".to_owned());
        assert_eq!(tools.names()[&operation], ["bad"]);
        assert_eq!(tools.classes()[&operation], ActionClass::FileWrite);
    }
}

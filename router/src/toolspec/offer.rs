//! Resources and prompts of adapters, as far as the operator lets callers see them.

use std::collections::BTreeMap;

use nexus_router_sdk::Object;
use serde_json::Value;

use crate::policy::template_fits;

/// Something of an adapter's catalogue that callers see.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// The adapter.
    pub adapter_id: String,
    /// The name that the adapter knows it by: a URI, a template, or a prompt's name.
    pub original: String,
    /// The definition that callers are told.
    pub definition: Object,
}

/// Everything of catalogues that is no tool.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// Resources, by URI.
    pub resources: BTreeMap<String, Offered>,
    /// Templates of resources, by template.
    pub templates: BTreeMap<String, Offered>,
    /// Prompts, by the name that callers use.
    pub prompts: BTreeMap<String, Offered>,
    /// Adapters that complete arguments.
    pub completing: Vec<String>,
    /// Adapters whose resources can be followed.
    pub following: Vec<String>,
}

impl Offers {
    /// Finds the adapter that has a resource: one that is listed, or one that a template fits.
    #[must_use]
    pub fn reader(&self, uri: &str) -> Option<&Offered> {
        self.resources.get(uri).or_else(|| {
            self.templates.values().find(|offered| template_fits(&offered.original, uri))
        })
    }

    /// Returns whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.templates.is_empty() && self.prompts.is_empty()
    }
}

/// Puts something into a list unless its name is taken; says whether it did.
pub(super) fn put(list: &mut BTreeMap<String, Offered>, name: &str, offered: Offered) -> bool {
    let free = !list.contains_key(name);
    if free {
        list.insert(name.to_owned(), offered);
    }
    free
}

/// Returns a text member of a definition.
pub(super) fn text<'a>(definition: &'a Object, key: &str) -> Option<&'a str> {
    definition.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

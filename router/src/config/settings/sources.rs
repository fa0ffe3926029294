//! What an adapter may ask the router to fetch for it: the list `[[adapters.sources]]`.

use std::time::Duration;

use crate::json::Object;
use crate::role::ActionClass;
use crate::secret::Secrets;

/// An operation of another adapter that an adapter may ask for, by a name.
#[derive(Clone, PartialEq)]
pub struct SourceEntry {
    /// The name by which it is asked for.
    pub name: String,
    /// The id of the adapter that is called.
    pub adapter: String,
    /// The tool that is called.
    pub tool: String,
    /// Its method.
    pub method: String,
    /// What kind of thing that is; only calls of the same class may ask for it.
    pub action_class: ActionClass,
    /// Arguments that stand fast; who asks may add others, and change none of these.
    pub args: Object,
    /// What differs between equal answers, by JSON pointers; it is taken out.
    pub volatile: Vec<String>,
    /// How long the call may take, instead of as long as that of the one who asks.
    pub timeout: Option<Duration>,
}

impl SourceEntry {
    /// The classes in which anything is fetched.
    pub const CLASSES: [ActionClass; 3] =
        [ActionClass::WebSearch, ActionClass::DocRetrieval, ActionClass::DataLookup];

    /// Returns the arguments without what looks like a secret.
    #[must_use]
    pub fn shown_args(&self) -> Object {
        Secrets::empty().redact_object(&self.args).unwrap_or_else(|| self.args.clone())
    }
}

// By hand: the arguments may hold secrets as they are.
impl std::fmt::Debug for SourceEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, adapter, tool, method, action_class, args: _, volatile, timeout } = self;
        f.debug_struct("SourceEntry")
            .field("name", name)
            .field("adapter", adapter)
            .field("tool", tool)
            .field("method", method)
            .field("action_class", action_class)
            .field("args", &self.shown_args())
            .field("volatile", volatile)
            .field("timeout", timeout)
            .finish()
    }
}

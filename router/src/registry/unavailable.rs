//! Adapters that the operator wants, and that cannot be called: they are being loaded, or failed to load.

use super::{Error, Registry};
use crate::event::Failure;
use crate::json::Object;
use crate::loader::{Adapter, Reason};

/// Adapter that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableAdapter {
    /// The id, or the factory ref if the id is not known before it is loaded.
    pub adapter_id: String,
    /// Why its load failed; none while it is being loaded.
    pub reason: Option<Reason>,
    /// Names of configured tools that are operations of it.
    pub tools: Vec<String>,
    /// Prefix of the tools that it offers; tools without a prefix cannot be told from others.
    pub prefix: String,
    /// Whether it may offer tools.
    pub offers_tools: bool,
}

/// Reason why an adapter or a tool cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailability {
    /// What was asked for, as a part of a sentence.
    pub subject: String,
    /// The adapter, if it is known.
    pub adapter_id: Option<String>,
    /// Why its load failed; none while adapters are being loaded.
    pub reason: Option<Reason>,
}

impl Unavailability {
    /// The stable code.
    pub const CODE: &str = "ADAPTER_UNAVAILABLE";

    /// Returns whether a later request may find the adapter.
    #[must_use]
    pub const fn is_loading(&self) -> bool {
        self.reason.is_none()
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self.reason {
            None => {
                "send the request again later; /readyz is 200 when all adapters are loaded or failed"
            }
            Some(_) => {
                "`nexus-router adapter list --running` shows the reason; after the fix, \
                 `nexus-router adapter retry ID` loads it again"
            }
        }
    }

    /// Returns the failure of a run. It has no paths: callers of any scope see it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let mut details = Object::new();
        if let Some(adapter_id) = &self.adapter_id {
            details.insert("adapter_id", adapter_id.as_str());
        }
        details.insert("state", if self.is_loading() { "loading" } else { "failed" });
        if let Some(reason) = self.reason {
            details.insert("reason", reason.code());
        }
        Failure::Selection { code: Self::CODE, message: self.to_string(), details }
    }
}

impl std::fmt::Display for Unavailability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let subject = &self.subject;
        match self.reason {
            None => write!(f, "{subject} is not available yet: adapters are being loaded"),
            Some(reason) => {
                let meaning = reason.meaning().trim_end_matches('.');
                write!(f, "{subject} is not available: {}: {meaning}", reason.code())
            }
        }
    }
}

impl std::error::Error for Unavailability {}

impl Registry {
    /// Adds an adapter that cannot be called.
    pub fn add_unavailable(&mut self, adapter: UnavailableAdapter) {
        self.loading |= adapter.reason.is_none();
        self.unavailable.push(adapter);
    }

    /// States that more adapters may come, also such that are not known yet.
    pub const fn expect_more(&mut self) {
        self.loading = true;
    }

    /// Makes another adapter the default one.
    pub fn set_default(&mut self, adapter_id: impl Into<String>) {
        self.default_adapter_id = adapter_id.into();
    }

    /// Returns whether adapters are being loaded.
    #[must_use]
    pub const fn is_loading(&self) -> bool {
        self.loading
    }

    /// Lists the adapters that cannot be called.
    pub fn unavailable(&self) -> impl Iterator<Item = &UnavailableAdapter> {
        self.unavailable.iter()
    }

    /// Returns why an adapter cannot be called. None if it is registered, or nothing is known of it.
    #[must_use]
    pub fn unavailability(&self, adapter_id: &str) -> Option<Unavailability> {
        if self.adapters.contains_key(adapter_id) {
            return None;
        }
        let found = self.unavailable.iter().find(|one| one.adapter_id == adapter_id);
        let subject = format!("Adapter '{adapter_id}'");
        match found {
            Some(one) => {
                let adapter_id = Some(adapter_id.to_owned());
                Some(Unavailability { subject, adapter_id, reason: one.reason })
            }
            None if self.loading => {
                Some(Unavailability { subject, adapter_id: None, reason: None })
            }
            None => None,
        }
    }

    /// Returns why a tool that no loaded adapter offers cannot be called. None if no adapter is known that may offer it.
    #[must_use]
    pub fn tool_unavailability(&self, name: &str) -> Option<Unavailability> {
        let named = |one: &&UnavailableAdapter| one.tools.iter().any(|tool| tool == name);
        let prefixed = |one: &&UnavailableAdapter| {
            one.offers_tools && !one.prefix.is_empty() && name.starts_with(&one.prefix)
        };
        let any = || self.unavailable.iter();
        let found = any().find(named).or_else(|| any().find(prefixed));
        let subject = format!("Tool '{name}'");
        match found {
            Some(one) => {
                let adapter_id = Some(one.adapter_id.clone());
                Some(Unavailability { subject, adapter_id, reason: one.reason })
            }
            None if self.loading => {
                Some(Unavailability { subject, adapter_id: None, reason: None })
            }
            None => None,
        }
    }

    /// Returns why a step that names no adapter cannot be called: its tool is, or may be, that of an adapter that is
    /// not available.
    #[must_use]
    pub fn unaddressed_unavailability(&self, tool: &str) -> Option<Unavailability> {
        let found = self.tool_unavailability(tool)?;
        // Without a tool to come, the step is for the default adapter.
        let known = found.adapter_id.is_some();
        let to_come = self.unavailable.iter().any(|one| one.reason.is_none() && one.offers_tools);
        let unlisted = self.loading && self.unavailable.iter().all(|one| one.reason.is_some());
        (known || to_come || unlisted).then_some(found)
    }

    /// Checks that the default adapter is registered, or known to be unavailable.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn check_default(&self) -> Result<(), Error> {
        match self.unavailability(&self.default_adapter_id) {
            Some(_) => Ok(()),
            None => self.get_default().map(drop),
        }
    }

    /// Returns an adapter, none if it is known to be unavailable.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn find_available(&self, adapter_id: &str) -> Result<Option<&Adapter>, Error> {
        match self.unavailability(adapter_id) {
            Some(_) => Ok(None),
            None => self.get(adapter_id).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(adapter_id: &str, reason: Option<Reason>) -> UnavailableAdapter {
        UnavailableAdapter {
            adapter_id: adapter_id.to_owned(),
            reason,
            tools: vec![format!("{adapter_id}_tool")],
            prefix: format!("{adapter_id}."),
            offers_tools: true,
        }
    }

    fn registry(adapters: impl IntoIterator<Item = UnavailableAdapter>) -> Registry {
        let mut registry = Registry::new("null");
        registry.register(Adapter::null()).unwrap();
        adapters.into_iter().for_each(|one| registry.add_unavailable(one));
        registry
    }

    #[test]
    fn failed_adapter_and_its_tools_are_unavailable_with_reason() {
        let registry = registry([adapter("bad", Some(Reason::LibraryCrashed))]);
        assert!(!registry.is_loading() && registry.check_default().is_ok());
        let found = registry.unavailability("bad").unwrap();
        let text = "Adapter 'bad' is not available: LIBRARY_CRASHED: The library killed the process \
                    that tried it";
        assert_eq!((found.to_string().as_str(), found.is_loading()), (text, false));
        for tool in ["bad_tool", "bad.anything"] {
            let found = registry.unaddressed_unavailability(tool).unwrap();
            assert_eq!(found.adapter_id.as_deref(), Some("bad"), "{tool}");
        }
        assert_eq!(registry.unavailability("other"), None);
        assert_eq!(registry.tool_unavailability("other"), None);
        assert!(registry.find_available("bad").unwrap().is_none());
        let unknown = registry.find_available("other").unwrap_err();
        assert_eq!(unknown.code(), "UNKNOWN_ADAPTER");
        let hint =
            "registered are null; 1 failed to load, see `nexus-router adapter list --running`";
        assert_eq!(unknown.hint(), hint);
    }

    #[test]
    fn unknown_names_are_unavailable_while_adapters_load() {
        let loading = registry([adapter("slow", None)]);
        assert!(loading.unavailability("other").is_some_and(|found| found.is_loading()));
        assert!(loading.unaddressed_unavailability("other").is_some());
        assert_eq!(loading.unavailability("null"), None);
        // An adapter that offers nothing brings no tool.
        let silent =
            registry([UnavailableAdapter { offers_tools: false, ..adapter("slow", None) }]);
        assert_eq!(silent.unaddressed_unavailability("other"), None);
        assert!(silent.unaddressed_unavailability("slow_tool").is_some());
        let mut discovering = registry([]);
        assert_eq!(discovering.unaddressed_unavailability("other"), None);
        discovering.expect_more();
        assert!(discovering.unaddressed_unavailability("other").is_some());
        assert!(discovering.find_available("other").unwrap().is_none());
    }

    #[test]
    fn default_adapter_may_be_unavailable_and_not_unknown() {
        let mut registry = registry([adapter("bad", Some(Reason::LibraryCrashed))]);
        registry.set_default("bad");
        assert_eq!(registry.check_default(), Ok(()));
        registry.set_default("nobody");
        assert!(registry.check_default().is_err());
    }
}

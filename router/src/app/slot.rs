//! Adapters that the operator wants, and the state of each: loading, ready or failed.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::fleet::Member;
use crate::clock::{Clock, Timestamp};
use crate::config::AdapterEntry;
use crate::digest::Digest;
use crate::grant::Isolation;
use crate::json::Object;
use crate::loader::{
    Adapter, AdapterLoadError, FactoryRef, LoadRequest, Loader, Placement, Reason,
};
use crate::registry::UnavailableAdapter;

/// Place where an adapter is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdapterOrigin {
    /// On the command line.
    Named,
    /// In the configuration.
    Configured,
    /// Nowhere: its library is on the adapter path.
    Discovered,
}

/// Adapter that the operator wants.
#[derive(Clone, Debug)]
pub(crate) struct WantedAdapter {
    pub(super) entry: AdapterEntry,
    pub(super) placement: Placement,
    /// Its configuration with the secrets in it.
    pub(super) config: Value,
    pub(super) origin: AdapterOrigin,
}

/// Adapter that the operator wants, with its state.
#[derive(Clone, Debug)]
pub(super) struct AdapterSlot {
    pub(super) wanted: WantedAdapter,
    pub(super) state: SlotState,
    /// The adapter that was in force before, which serves until the wanted one is ready.
    pub(super) former: Option<Box<Member>>,
    /// The time of the last change of the state.
    pub(super) since: Timestamp,
}

/// State of an adapter that the operator wants.
#[derive(Clone, Debug)]
pub(super) enum SlotState {
    Loading,
    Ready(Box<Member>),
    Failed(Arc<LoadFailure>),
}

/// Adapter that was not loaded, and the reason.
#[derive(Clone, Debug)]
pub struct LoadFailure {
    /// The id, or the name of the library and the factory if the id is not known before it is loaded.
    pub adapter_id: String,
    /// Whether it was found on the adapter path, and only needs a configuration.
    pub needs_config: bool,
    /// The error, free of secrets.
    pub error: Arc<AdapterLoadError>,
    /// The library that was tried.
    pub(super) digest: Option<Digest>,
}

/// Adapter that is not ready, as callers see it.
#[derive(Clone, Debug)]
pub struct UnreadyAdapter {
    /// The id, or the name of the library and the factory.
    pub adapter_id: String,
    /// The factory.
    pub factory_ref: String,
    /// The failure; none while it is being loaded.
    pub failure: Option<Arc<LoadFailure>>,
    /// Whether the adapter that was in force before still serves.
    pub former_serves: bool,
    /// Since when.
    pub since: Timestamp,
}

/// Numbers of adapters by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterCounts {
    /// Adapters that are being loaded.
    pub loading: usize,
    /// Adapters that serve; the built-in one is not counted.
    pub ready: usize,
    /// Adapters that failed to load.
    pub failed: usize,
}

impl WantedAdapter {
    /// Returns what the loader is asked for.
    pub(super) fn request(&self) -> LoadRequest<'_> {
        LoadRequest {
            factory_ref: &self.entry.factory_ref,
            adapter_id: self.entry.id.as_deref(),
            config: &self.config,
            pin: self.entry.pin,
        }
    }

    /// Returns the id as far as it is known before the adapter is loaded.
    pub(super) fn known_id(&self) -> Option<&str> {
        let configured = || self.config.get("adapter_id")?.as_str();
        self.entry.id.as_deref().or_else(configured).filter(|id| !id.is_empty())
    }

    /// Returns the name under which callers see it before it is loaded. It has no directories.
    pub(super) fn shown_id(&self) -> String {
        self.known_id().map_or_else(|| short_ref(&self.entry.factory_ref), str::to_owned)
    }

    /// Returns whether another adapter would be made in the same way, in the same place, of the same bytes.
    pub(crate) fn is_same_load(&self, other: &Self) -> bool {
        let inline = |placement: &Placement| placement.isolation == Isolation::Inline;
        // What runs here has no process of its own that anything else could hold for.
        let same_place = self.placement == other.placement
            || inline(&self.placement) && inline(&other.placement);
        let key = |one: &Self| (one.entry.factory_ref.clone(), one.entry.id.clone(), one.entry.pin);
        key(self) == key(other) && self.config == other.config && same_place
    }

    /// Loads it.
    pub(super) fn load(&self, loader: &Loader) -> Result<Adapter, AdapterLoadError> {
        let loader = Loader { placement: self.placement.clone(), ..loader.clone() };
        loader.load(&self.request())
    }

    /// Forgets that the library was refused, so that it is tried again. Returns whether it was remembered.
    pub(super) fn forget_refusal(&self, loader: &Loader) -> Result<bool, AdapterLoadError> {
        let loader = Loader { placement: self.placement.clone(), ..loader.clone() };
        loader.forget_refusal(&self.request())
    }

    /// Makes a loaded adapter a member.
    pub(super) fn member(&self, adapter: Adapter) -> Box<Member> {
        let Self { entry, placement, config, .. } = self.clone();
        Box::new(Member { entry, placement, config, adapter })
    }

    /// Returns the digest of its library as it is now, if there is one that can be read.
    pub(super) fn digest(&self, loader: &Loader) -> Option<Digest> {
        loader.digest(&self.request()).ok().flatten()
    }

    /// Makes a failure of the load of a library.
    pub(super) fn failure(
        &self,
        error: AdapterLoadError,
        digest: Option<Digest>,
    ) -> Arc<LoadFailure> {
        let discovered = self.origin == AdapterOrigin::Discovered;
        Arc::new(LoadFailure {
            adapter_id: self.shown_id(),
            needs_config: discovered && error.wants_other_config(),
            digest,
            error: Arc::new(error),
        })
    }
}

impl AdapterSlot {
    pub(super) fn new(wanted: WantedAdapter, state: SlotState) -> Self {
        Self { wanted, state, former: None, since: Clock::System.now() }
    }

    /// Returns the adapter that serves, if one does.
    pub(super) fn member(&self) -> Option<&Member> {
        match &self.state {
            SlotState::Ready(member) => Some(member),
            SlotState::Loading | SlotState::Failed(_) => self.former.as_deref(),
        }
    }

    pub(super) const fn is_loading(&self) -> bool {
        matches!(self.state, SlotState::Loading)
    }

    pub(super) const fn failure(&self) -> Option<&Arc<LoadFailure>> {
        match &self.state {
            SlotState::Failed(failure) => Some(failure),
            SlotState::Loading | SlotState::Ready(_) => None,
        }
    }

    /// Changes the state.
    pub(super) fn set(&mut self, state: SlotState) {
        if matches!(state, SlotState::Ready(_)) {
            self.former = None;
        }
        (self.state, self.since) = (state, Clock::System.now());
    }

    /// Returns whether a name is that of this adapter, in any of the forms that callers see.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let serves = self.member().is_some_and(|member| member.adapter.adapter_id() == name);
        serves || self.wanted.shown_id() == name || self.wanted.entry.factory_ref == name
    }

    /// Returns what the registry knows of it while it cannot be called. `tools` are pairs of names and adapter ids.
    pub(super) fn unavailable<'a>(
        &self,
        tools: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<UnavailableAdapter> {
        let reason = match &self.state {
            SlotState::Ready(_) => return None,
            SlotState::Loading => None,
            SlotState::Failed(failure) if failure.needs_config => return None,
            SlotState::Failed(failure) => Some(failure.error.reason()),
        };
        if self.former.is_some() {
            return None;
        }
        let adapter_id = self.wanted.shown_id();
        let own = tools.filter(|(_, adapter)| *adapter == adapter_id);
        let tools = own.map(|(name, _)| name.to_owned()).collect();
        let offer = &self.wanted.entry.offer;
        let (prefix, offers_tools) = (offer.prefix.clone(), !offer.tools.is_empty());
        Some(UnavailableAdapter { adapter_id, reason, tools, prefix, offers_tools })
    }

    /// Returns what callers see of it while it is not ready.
    pub(super) fn unready(&self) -> Option<UnreadyAdapter> {
        if matches!(self.state, SlotState::Ready(_)) {
            return None;
        }
        Some(UnreadyAdapter {
            adapter_id: self.wanted.shown_id(),
            factory_ref: self.wanted.entry.factory_ref.clone(),
            failure: self.failure().cloned(),
            former_serves: self.former.is_some(),
            since: self.since,
        })
    }
}

impl LoadFailure {
    /// Returns whether the library itself is at fault, so that another trial of the same bytes is in vain.
    pub(super) fn is_of_library(&self) -> bool {
        let faults = [
            Reason::LibraryCrashed,
            Reason::LibraryExited,
            Reason::LibraryTimedOut,
            Reason::FactoryPanicked,
        ];
        self.digest.is_some() && !self.error.is_untried() && faults.contains(&self.error.reason())
    }

    /// Logs it with the remedy.
    pub(crate) fn warn(&self) {
        let Self { adapter_id, error, .. } = self;
        let (reason, hint) = (error.reason().code(), error.hint());
        tracing::warn!(adapter_id, reason, %error, hint, "adapter failed to load");
    }

    /// Adds it to an object: the reason, and for administrators what it says and the remedy.
    pub(crate) fn add_to(&self, object: &mut Object, detailed: bool) {
        object.insert("reason", self.error.reason().code());
        if detailed {
            object.insert("message", self.error.to_string());
            object.insert("hint", self.error.hint());
        }
    }
}

impl UnreadyAdapter {
    /// Returns the state in one word.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.failure.is_some() { "failed" } else { "loading" }
    }

    /// Returns whether it is only a library that needs a configuration.
    #[must_use]
    pub fn needs_config(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.needs_config)
    }

    /// Returns the form that callers see. Only administrators see messages, which may hold paths.
    #[must_use]
    pub fn to_json(&self, detailed: bool) -> Object {
        let mut object = Object::with_capacity(7);
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("state", self.state());
        object.insert("since", self.since.to_string());
        if self.former_serves {
            object.insert("former_serves", true);
        }
        if let Some(failure) = &self.failure {
            failure.add_to(&mut object, detailed);
        }
        object
    }
}

/// Returns a factory ref without directories.
fn short_ref(factory_ref: &str) -> String {
    match FactoryRef::parse(factory_ref) {
        Ok(parsed) if parsed.file().is_some() => {
            let name = factory_ref.rsplit_once(':').map_or(factory_ref, |(file, _)| file);
            let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
            format!("{name}:{}", parsed.function())
        }
        _ => factory_ref.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Workers;

    fn wanted(factory_ref: &str, id: Option<&str>, config: Value) -> WantedAdapter {
        let (factory_ref, id) = (factory_ref.to_owned(), id.map(str::to_owned));
        let entry = AdapterEntry { factory_ref, id, ..AdapterEntry::default() };
        let placement = Placement::of(&entry, &Workers::default());
        WantedAdapter { entry, placement, config, origin: AdapterOrigin::Configured }
    }

    #[test]
    fn unloaded_adapters_are_shown_without_directories() {
        let shown = |factory_ref: &str, id: Option<&str>, config: Value| {
            wanted(factory_ref, id, config).shown_id()
        };
        let nothing = || serde_json::json!({});
        assert_eq!(shown("m:f", Some("own"), nothing()), "own");
        assert_eq!(shown("m:f", None, serde_json::json!({ "adapter_id": "told" })), "told");
        assert_eq!(shown("m:f", None, nothing()), "m:f");
        assert_eq!(shown("/opt/secret/libm.so:f", None, nothing()), "libm.so:f");
    }

    #[test]
    fn unready_adapters_tell_messages_to_administrators_alone() {
        let wanted = wanted("m:f", Some("own"), serde_json::json!({}));
        let error = AdapterLoadError::new("m:f", Reason::LibraryCrashed, "at /opt/secret");
        let failure = LoadFailure {
            adapter_id: wanted.shown_id(),
            needs_config: false,
            error: Arc::new(error),
            digest: None,
        };
        let slot = AdapterSlot::new(wanted, SlotState::Failed(Arc::new(failure)));
        let unready = slot.unready().unwrap();
        let text = |detailed| crate::json::to_compact(&unready.to_json(detailed).into());
        assert!(text(true).contains("/opt/secret") && text(true).contains("hint"));
        assert!(!text(false).contains("/opt") && text(false).contains("LIBRARY_CRASHED"));
        let unavailable = slot.unavailable([("t", "own"), ("u", "other")].into_iter()).unwrap();
        assert_eq!(unavailable.tools, ["t"]);
        assert_eq!(unavailable.reason, Some(Reason::LibraryCrashed));
    }

    #[test]
    fn library_without_a_trial_is_not_at_fault() {
        let wanted = wanted("m:f", Some("own"), serde_json::json!({}));
        let timed_out = || AdapterLoadError::new("m:f", Reason::LibraryTimedOut, "late");
        let digest = Some(Digest::of(b"library"));
        assert!(wanted.failure(timed_out(), digest).is_of_library());
        assert!(!wanted.failure(timed_out(), None).is_of_library());
        assert!(!wanted.failure(timed_out().untried(), digest).is_of_library());
    }
}

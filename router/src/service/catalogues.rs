//! What adapters offer: asked for again when it changes, and told to whoever wants to know.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, watch};

use super::{Error, Service, Standing};
use crate::json::Object;
use crate::toolspec::Changed;

/// How long to wait before an adapter is asked again that did not tell its catalogue, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// News of resources that a slow listener may miss are not kept longer than this many.
const UPDATES: usize = 256;

/// Counts the changes of what is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of tools.
    pub tools: u64,
    /// Of prompts.
    pub prompts: u64,
    /// Of resources and their templates.
    pub resources: u64,
}

/// Tells of what is offered.
pub(super) struct Crier {
    changes: watch::Sender<Changes>,
    /// The URIs of resources that changed.
    updates: broadcast::Sender<Arc<str>>,
}

impl Default for Crier {
    fn default() -> Self {
        let changes = watch::Sender::new(Changes::default());
        Self { changes, updates: broadcast::Sender::new(UPDATES) }
    }
}

impl Crier {
    fn offers_changed(&self, changed: Changed) {
        let Changed { tools, prompts, resources } = changed;
        self.changes.send_modify(|changes| {
            changes.tools += u64::from(tools);
            changes.prompts += u64::from(prompts);
            changes.resources += u64::from(resources);
        });
    }

    pub(super) fn resource_updated(&self, uri: &str) {
        // Nobody may be listening.
        drop(self.updates.send(uri.into()));
    }
}

impl Service {
    /// Returns what tells that tools, resources or prompts are not what they were.
    #[must_use]
    pub fn offers_changed(&self) -> watch::Receiver<Changes> {
        self.inner.crier.changes.subscribe()
    }

    /// Returns what tells the URIs of resources that are not what they were.
    #[must_use]
    pub fn resources_updated(&self) -> broadcast::Receiver<Arc<str>> {
        self.inner.crier.updates.subscribe()
    }

    /// Asks all adapters what they offer, and puts it in force if it is not what it was.
    ///
    /// # Errors
    /// When it cannot be used. Then what was stays in force.
    pub fn refresh_catalogues(&self) -> Result<(), Error> {
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = self.inner.app.prepare_offers()?;
        if !prepared.has_other_catalogues() {
            return Ok(());
        }
        let (tools, law) = (prepared.tools().clone(), prepared.law().clone());
        let standing = Standing::of(prepared.config(), tools, law, prepared.discovery())?;
        let changed = standing.tools.changes_since(&self.standing().tools);
        let mut payload = Object::new();
        payload.insert("tools", standing.tools.iter().count());
        self.inner.app.put_in_force(prepared)?;
        self.record_offers("a catalogue changed", &standing);
        self.stand(standing, changed);
        self.inner.audit.replace_secrets(self.inner.app.secrets()?);
        drop(one);
        if changed.any() {
            tracing::info!("adapters offer something else than before");
            self.inner.audit.record("tools.changed", payload);
        }
        Ok(())
    }

    /// Takes up what is registered by the contracts that are in force.
    ///
    /// # Errors
    /// When it cannot be used. Then what was stays in force.
    pub fn refresh_tools(&self) -> Result<(), Error> {
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = self.inner.app.prepare_tools()?;
        let (tools, law) = (prepared.tools().clone(), prepared.law().clone());
        let standing = Standing::of(prepared.config(), tools, law, prepared.discovery())?;
        self.inner.app.put_in_force(prepared)?;
        self.record_offers("a registered tool changed", &standing);
        self.stand(standing, Changed::ALL);
        drop(one);
        Ok(())
    }

    /// Records the offers that are different, under the same configuration.
    pub(super) fn record_offers(&self, cause: &'static str, standing: &Standing) {
        let config = self.inner.app.config();
        self.record_permissions((cause, None), (&config, &self.standing()), (&config, standing));
    }

    /// Puts what is asked for at every request in force.
    pub(super) fn stand(&self, standing: Standing, changed: Changed) {
        let mut current = self.inner.standing.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(standing);
        // The configuration may give tokens other roles; the lock keeps both changes together.
        self.inner.app.caller_check().mark_changed();
        drop(current);
        self.inner.crier.offers_changed(changed);
    }
}

/// Sees when catalogues must be asked for again.
#[derive(Default)]
pub(super) struct Catalogues {
    /// When adapters are asked again that did not answer, and how long to wait after that.
    again: Option<(Instant, Duration)>,
}

impl Catalogues {
    /// Looks once.
    pub(super) fn look(&mut self, service: &Service) {
        let missing = service.app().lacks_catalogues().unwrap_or_default();
        let due = match self.again {
            Some((at, _)) => missing && Instant::now() >= at,
            None => false,
        };
        let changed = service.app().news().take_changed();
        if (changed || due)
            && let Err(error) = service.refresh_catalogues()
        {
            tracing::warn!(%error, "what adapters offer now cannot be used");
        }
        self.again = match (missing, self.again) {
            (false, _) => None,
            (true, Some((_, pause))) if due => {
                let pause = (pause * 2).min(LONGEST_PAUSE);
                Some((Instant::now() + pause, pause))
            }
            (true, Some(again)) => Some(again),
            (true, None) => Some((Instant::now() + FIRST_PAUSE, FIRST_PAUSE)),
        };
    }
}

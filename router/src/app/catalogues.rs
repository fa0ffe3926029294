//! The catalogues of loaded adapters: asked for when they are loaded, and again when they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nexus_router_sdk::Catalog;

use super::trials::CatalogAnswer;
use crate::loader::{Adapter, Notice, NoticeSink};
use crate::secret::Secrets;
use crate::toolspec::Catalogs;

/// How long an adapter may take to tell its catalogue. The router does not begin before all have.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was heard of catalogues.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) catalogs: Catalogs,
    /// Adapters whose catalogue could not be had; they are asked again later.
    pub(super) missing: Vec<String>,
    /// Those of them whose catalogue was never had, and why. What the law says of their operations is not known.
    pub(super) unknown: BTreeMap<String, String>,
}

/// Catalogues that adapters returned when they were loaded.
pub(super) type FreshCatalogs = Vec<(Adapter, CatalogAnswer)>;

/// Asks an adapter for its catalogue.
pub(super) fn ask(adapter: &Adapter) -> CatalogAnswer {
    adapter.catalog(PATIENCE)
}

/// Asks adapters at once: all that did not just tell their catalogue, or only those of which nothing is known. One that
/// does not answer keeps the catalogue that it had before.
pub(super) fn gather<'a>(
    adapters: impl Iterator<Item = &'a Adapter>,
    before: Option<&Gathered>,
    (fresh, asks_all): (FreshCatalogs, bool),
    secrets: &Secrets,
) -> Gathered {
    let mut gathered = Gathered::default();
    let (mut asked, mut answers) = (Vec::new(), Vec::new());
    let mut fresh = fresh;
    for adapter in adapters.filter(|adapter| adapter.has_catalog()) {
        let adapter_id = adapter.adapter_id();
        let told = fresh.iter().position(|(one, _)| one.is_same_instance(adapter));
        let known = before.filter(|_| !asks_all);
        if let Some(told) = told {
            answers.push((adapter_id, fresh.swap_remove(told).1));
        } else if let Some((before, known)) =
            known.and_then(|before| Some((before, before.catalogs.get(adapter_id)?)))
        {
            gathered.catalogs.insert(adapter_id.to_owned(), Arc::clone(known));
            gathered.missing.extend(before.missing.iter().filter(|id| *id == adapter_id).cloned());
            if let Some(why) = before.unknown.get(adapter_id) {
                gathered.unknown.insert(adapter_id.to_owned(), why.clone());
            }
        } else {
            asked.push(adapter);
        }
    }
    answers.extend(std::thread::scope(|scope| {
        let ask = |adapter: &&'a Adapter| {
            let adapter = *adapter;
            scope.spawn(move || (adapter.adapter_id(), ask(adapter)))
        };
        let asking: Vec<_> = asked.iter().map(ask).collect();
        asking.into_iter().filter_map(|asked| asked.join().ok()).collect::<Vec<_>>()
    }));
    for (adapter_id, answer) in answers {
        let catalog = match answer {
            Ok(catalog) => Arc::new(without(&catalog, secrets)),
            Err(error) => {
                let error = secrets.scrub(&error.to_string());
                tracing::warn!(adapter_id, error, "the adapter does not tell its catalogue");
                gathered.missing.push(adapter_id.to_owned());
                let before = before.filter(|before| !before.unknown.contains_key(adapter_id));
                let known = before.and_then(|before| before.catalogs.get(adapter_id));
                if known.is_none() {
                    gathered.unknown.insert(adapter_id.to_owned(), error);
                }
                known.cloned().unwrap_or_default()
            }
        };
        gathered.catalogs.insert(adapter_id.to_owned(), catalog);
    }
    gathered
}

/// Takes secrets out of a catalogue: every caller is told it.
fn without(catalog: &Catalog, secrets: &Secrets) -> Catalog {
    let value = serde_json::to_value(catalog).unwrap_or_default();
    let value = secrets.redact_texts(&crate::json::Value::from(&value));
    serde_json::from_value(value.to_serde()).unwrap_or_default()
}

type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Hears of catalogues and resources that change.
#[derive(Default)]
pub struct News {
    changed: AtomicBool,
    updated: std::sync::OnceLock<Tell>,
}

impl News {
    /// Names who is told of resources that change, by URI, and must not wait. Only the first one counts.
    pub fn tell_updates(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        drop(self.updated.set(Box::new(tell)));
    }

    /// Says whether a catalogue changed since this was asked last.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Returns a sink that takes news out of notices, and passes the others on.
    pub(super) fn sink(self: &Arc<Self>, next: NoticeSink) -> NoticeSink {
        let news = Arc::clone(self);
        Arc::new(move |adapter_id, notice| match &notice {
            Notice::CatalogChanged {} => news.changed.store(true, Ordering::Release),
            Notice::ResourceUpdated { uri } => {
                if let Some(tell) = news.updated.get() {
                    tell(uri);
                }
            }
            _ => next(adapter_id, notice),
        })
    }
}

/// Says whether two states of catalogues are the same.
pub(super) fn same(a: &Gathered, b: &Gathered) -> bool {
    (&a.catalogs, &a.missing) == (&b.catalogs, &b.missing)
}

//! Sees when the configuration, the tokens, a library, the contracts or the registered tools change on disk.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::Service;
use super::catalogues::Catalogues;
use crate::files::{Mark, mark};

/// How often the files are looked at. Looking works on every file system, also where a file is replaced
/// by way of a link.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks at the files of a service.
#[derive(Default)]
struct Watch {
    /// A change that was seen once; a file that is being written is left alone until it rests.
    pending: Option<Mark>,
}

impl Watch {
    /// Looks once: says whether the configuration is not the one that was read last, and rests since the
    /// last look.
    fn look(&mut self, service: &Service) -> bool {
        let Some(file) = service.config_file() else { return false };
        let now = mark(&file);
        // Who empties a file is about to write it; an empty one would take away every adapter.
        let emptied = now.is_some_and(|(_, _, size, _, _)| size == 0);
        if now == service.seen() || emptied {
            self.pending = None;
            return false;
        }
        if self.pending != Some(now) {
            self.pending = Some(now);
            return false;
        }
        self.pending = None;
        true
    }
}

/// Looks at the libraries of loaded adapters.
#[derive(Default)]
struct Libraries {
    /// By ref: the state of its file that was looked into last, and one that was seen once since.
    files: HashMap<String, (Option<Mark>, Mark)>,
}

impl Libraries {
    /// Looks once: says whether a library has other bytes than what was loaded, and rests since the last
    /// look. Each state of a file is looked into once, and a bad one is told once.
    fn look(&mut self, service: &Service) -> bool {
        let libraries = service.app().libraries();
        self.files.retain(|known, _| libraries.iter().any(|(factory_ref, _)| factory_ref == known));
        let mut changed = false;
        for (factory_ref, file) in libraries {
            let now = file.as_deref().and_then(mark);
            let before = self.files.get(&factory_ref).copied();
            let (known, pending) = before.unwrap_or((None, now));
            if known == Some(now) || now != pending || before.is_none() {
                self.files.insert(factory_ref, (known, now));
                continue;
            }
            changed |= now.is_some() && is_outdated(service, &factory_ref);
            if now.is_none() {
                tracing::warn!(factory_ref, "the library is gone; what was loaded stays in force");
            }
            self.files.insert(factory_ref, (Some(now), now));
        }
        changed
    }
}

/// Looks at the contracts and the register of tools.
#[derive(Default)]
struct Contracts {
    /// A change that was seen once, and the one that was taken up or refused last.
    pending: Option<Vec<(PathBuf, Mark)>>,
    tried: Option<Vec<(PathBuf, Mark)>>,
}

impl Contracts {
    /// Looks once: says whether they are not those that were read last, and rest since the last look.
    fn look(&mut self, service: &Service) -> bool {
        let now = service.app().changed_contracts().filter(|now| self.tried.as_ref() != Some(now));
        let rests = now.is_some() && now == self.pending;
        self.pending = now;
        if rests {
            self.tried = self.pending.take();
        }
        rests
    }
}

fn is_outdated(service: &Service, factory_ref: &str) -> bool {
    service.app().is_outdated(factory_ref).unwrap_or_else(|error| {
        let error = error.to_string();
        tracing::warn!(factory_ref, error, "the new library is refused; the old one stays");
        false
    })
}

/// Looks at the files until the drain begins, and reloads when they change. The tokens and the configuration
/// have a thread each: a reload may wait for files and adapters, and a revoked token must not.
pub async fn watch(service: Service) {
    let (mut watch, mut libraries) = (Watch::default(), Libraries::default());
    let (mut catalogues, mut contracts) = (Catalogues::default(), Contracts::default());
    let config = every_pause("watch-config", &service, move |service| {
        if watch.look(service) {
            // The error is logged and recorded.
            drop(service.reload("the file changed"));
        }
        if libraries.look(service) {
            drop(service.reload("a library changed"));
        }
        // Contracts that do not hold must not keep a tool from being disabled.
        if contracts.look(service)
            && service.reload("a contract or a tool changed").is_err()
            && let Err(error) = service.refresh_tools()
        {
            tracing::error!(%error, "the registered tools were not taken up");
        }
        catalogues.look(service);
    });
    let tokens = every_pause("watch-tokens", &service, Service::refresh_tokens);
    service.draining().await;
    drop((config, tokens));
}

/// Does something again and again on a thread of its own, until what is returned is dropped.
fn every_pause(
    name: &str,
    service: &Service,
    mut work: impl FnMut(&Service) + Send + 'static,
) -> Sender<()> {
    let (stop, stopped) = channel::<()>();
    let service = service.clone();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            work(&service);
        }
    });
    if let Err(error) = thread {
        tracing::error!(%error, "files are not watched: there is no thread");
    }
    stop
}

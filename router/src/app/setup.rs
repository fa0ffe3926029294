//! Puts together what a configuration says of loading.

use std::sync::{Arc, Mutex};

use super::{Ears, Named, Setup};
use crate::config::{AdapterEntry, ConfigFile, Environment};
use crate::loader::{Loader, Placement};

impl Setup {
    pub(super) fn new(
        environment: &Environment,
        config: ConfigFile,
        named: &Named,
        ears: &Ears,
    ) -> Self {
        let loader = Loader::with_path(environment, &named.adapter_path, &config.adapter_path);
        let (notices, incidents) = (Arc::clone(&ears.notices), Arc::clone(&ears.incidents));
        // What is validated is tried as it would be loaded.
        let placement = Placement::of(&AdapterEntry::default(), &config.workers);
        let asks = Arc::clone(&ears.asks);
        let cache_bytes = config.cache.max_bytes;
        let loader = Loader { cache_bytes, notices, asks, incidents, placement, ..loader };
        Self { config, loader, fleet: Mutex::default() }
    }
}

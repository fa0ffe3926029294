//! Puts together what a configuration says of loading.

use std::sync::{Arc, Mutex};

use super::{Ears, Named, Setup};
use crate::config::{ConfigFile, Environment};
use crate::loader::Loader;

impl Setup {
    pub(super) fn new(
        environment: &Environment,
        config: ConfigFile,
        named: &Named,
        ears: &Ears,
    ) -> Self {
        let loader = Loader::with_path(environment, &named.adapter_path, &config.adapter_path);
        let (notices, incidents) = (Arc::clone(&ears.notices), Arc::clone(&ears.incidents));
        let cache_bytes = config.cache.max_bytes;
        let loader =
            Loader { cache_bytes, notices, asks: Arc::clone(&ears.asks), incidents, ..loader };
        Self { config, loader, fleet: Mutex::default() }
    }
}

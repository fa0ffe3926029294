//! Settings of the cache with private copies of adapter libraries: the section `[cache]`.

/// Settings of the library cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Bytes of all copies. Beyond them, those that were not used for longest are removed.
    pub max_bytes: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024 * 1024 }
    }
}

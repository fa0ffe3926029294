//! Seals the runs of a store as they end.

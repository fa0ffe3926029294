//! Who seals: the keys, the log, and many seals in one append.

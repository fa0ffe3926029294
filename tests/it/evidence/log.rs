//! The transparency log, against programs of others.

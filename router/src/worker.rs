//! Adapters in processes of their own.

pub(crate) mod broker;

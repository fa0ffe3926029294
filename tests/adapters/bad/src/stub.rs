//! The adapter that most factories make: right in everything that its maker does not set.

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object};

use crate::harm::OnDrop;

pub(crate) const KIND: &str = "bad";

/// What a factory returns.
pub(crate) type Made = Result<Stub, AdapterError>;

/// What a call returns.
pub(crate) type Answer = Result<Object, AdapterError>;

/// An adapter whose parts are plain fields.
pub(crate) struct Stub {
    pub(crate) adapter_id: String,
    pub(crate) capabilities: &'static [Capability],
    pub(crate) describe: fn(),
    pub(crate) call: fn(&CallContext, Object) -> Answer,
    pub(crate) shutdown: fn(),
    #[expect(dead_code, reason = "its work is done when it is dropped")]
    pub(crate) drop: OnDrop,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            adapter_id: KIND.to_owned(),
            capabilities: &[Capability::Apply],
            describe: || (),
            call: |_, args| Ok(args),
            shutdown: || (),
            drop: OnDrop(|| ()),
        }
    }
}

impl Stub {
    /// Returns the usual one under the name that it was asked for.
    pub(crate) fn named(id: Option<&str>) -> Self {
        Self { adapter_id: id.unwrap_or(KIND).to_owned(), ..Self::default() }
    }
}

impl Adapter for Stub {
    fn adapter_id(&self) -> &str {
        (self.describe)();
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        self.capabilities
    }

    fn call(&self, context: &CallContext, _: &str, _: &str, args: Object) -> Answer {
        (self.call)(context, args)
    }

    fn shutdown(&self) {
        (self.shutdown)();
    }
}

/// Exports a factory that makes a stub with some parts replaced.
macro_rules! stub {
    ($name:ident { $($part:ident: $value:expr),* $(,)? }) => {
        fn $name(id: Option<&str>, _: ::nexus_router_sdk::Object) -> $crate::stub::Made {
            Ok($crate::stub::Stub { $($part: $value,)* ..$crate::stub::Stub::named(id) })
        }
        ::nexus_router_sdk::export_adapter!($name);
    };
}

/// Exports a factory that does something before it makes a stub, if it ever does.
macro_rules! acting {
    ($name:ident, $action:expr) => {
        fn $name(_: Option<&str>, _: ::nexus_router_sdk::Object) -> $crate::stub::Made {
            ($action)();
            Ok($crate::stub::Stub::default())
        }
        ::nexus_router_sdk::export_adapter!($name);
    };
}

pub(crate) use {acting, stub};

//! The adapter that carries out actions of role `envoy` itself, and what it answers besides its output.

use std::collections::BTreeSet;

use nexus_router_sdk::{Capability, Object};

use super::{Adapter, Backing, Call};
use crate::envoy::{self, Envoy};
use crate::evidence::Report;
use crate::loader::{Confined, Description};

/// What an adapter answers, as it crossed the ABI.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) text: String,
    /// What the router knows of an execution of its own besides.
    pub(crate) report: Option<Box<Report>>,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        Self { text, report: None }
    }
}

impl From<envoy::Answered> for Answered {
    fn from(answered: envoy::Answered) -> Self {
        Self { text: answered.text, report: Some(Box::new(answered.report)) }
    }
}

impl Adapter {
    /// The kind of the adapter that carries out actions of role `envoy`.
    pub(crate) const ENVOY_KIND: &str = "envoy";

    /// What that adapter can do.
    pub(crate) const ENVOY_CAPABILITIES: [Capability; 3] =
        [Capability::Apply, Capability::External, Capability::Timeout];

    /// Makes the adapter that carries out actions of role `envoy`, each in a sandbox of its own.
    pub(in crate::loader) fn of_envoy(adapter_id: &str, envoy: Envoy) -> Self {
        let description = Description {
            adapter_id: adapter_id.to_owned(),
            adapter_kind: Self::ENVOY_KIND.to_owned(),
            capabilities: BTreeSet::from(Self::ENVOY_CAPABILITIES),
            starts_at_once: false,
            catalog: false,
        };
        let confined = Confined::sandbox(envoy.confinement(), envoy.grants());
        Self::new(envoy::REF, description, Backing::Envoy(Box::new(envoy)), confined, None)
    }

    /// Says whether a ref is part of the router, and so has no library.
    #[must_use]
    pub fn is_built_in(factory_ref: &str) -> bool {
        [Self::NULL_REF, envoy::REF].contains(&factory_ref)
    }

    /// Returns the envoy that it is, if it is one.
    #[must_use]
    pub fn envoy(&self) -> Option<&Envoy> {
        match &self.inner.backing {
            Backing::Envoy(envoy) => Some(envoy),
            _ => None,
        }
    }
}

/// Returns what the built-in adapter answers to any call.
pub(super) fn null_output(call: &Call<'_>) -> Object {
    let mut output = Object::new();
    output.insert("simulated".to_owned(), true.into());
    output.insert("tool".to_owned(), call.tool.into());
    output.insert("method".to_owned(), call.method.into());
    output
}

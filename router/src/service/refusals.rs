//! Refusals: counted, and recorded with who, what and why.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use super::Service;
use crate::access::Denial;
use crate::access::rate::Rate;
use crate::app::App;
use crate::audit::Audit;
use crate::json::Object;

/// So many addresses that send no good token are told apart.
pub(super) const ADDRESSES: usize = 4096;
/// How many requests without a good token an address may send before it hears nothing about them.
const STRANGER: Rate = Rate { per_second: 20, burst: 100 };

impl Service {
    /// Counts a request whose token is not good against its address, and returns what it hears. Requests
    /// with a good token are not counted, so that nobody is locked out by a neighbour.
    #[must_use]
    pub fn stranger(&self, denial: Denial, from: IpAddr) -> Denial {
        let counted =
            self.inner.strangers.allow(&network(from).to_string(), STRANGER, Instant::now());
        match counted {
            Ok(()) => denial,
            Err(retry_after) => Denial::RateLimited { retry_after },
        }
    }

    /// Records that somebody asked for what is not there.
    pub fn astray(&self, code: &'static str, what: &str, name: &str) {
        self.metrics().refused(code);
        let mut payload = Object::new();
        payload.insert("reason", code);
        payload.insert("what", what);
        payload.insert("from", "mcp");
        payload.insert("name", name);
        self.inner.audit.record("access.refused", payload);
    }

    /// Records that somebody was refused.
    pub fn refused(&self, denial: &Denial, what: &str, from: &str, name: Option<&str>) {
        self.metrics().refused(denial.code());
        let mut payload = Object::new();
        payload.insert("reason", denial.code());
        if let Denial::TokenInvalid(refusal) = denial {
            payload.insert("why", refusal.reason());
        }
        payload.insert("what", what);
        payload.insert("from", from);
        if let Some(name) = name {
            payload.insert("name", name);
        }
        self.inner.audit.record("access.refused", payload);
    }
}

/// Returns the network that an address counts as: an owner of one IPv6 address has all others of its network.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// Records the calls that are denied inside of runs, also of those that nobody waits for.
pub(super) fn witness(app: &App, audit: &Audit) {
    let (metrics, audit) = (app.metrics().clone(), audit.clone());
    app.witness().tell(move |denied| {
        metrics.refused(denied.code);
        let mut payload = Object::new();
        payload.insert("reason", denied.code);
        payload.insert("run_id", denied.run_id);
        payload.insert("adapter", denied.act.adapter_id);
        payload.insert("tool", denied.act.tool);
        payload.insert("method", denied.act.method);
        if let Some(caller) = denied.caller {
            payload.insert("name", caller.name.as_str());
        }
        audit.record("access.refused", payload);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}

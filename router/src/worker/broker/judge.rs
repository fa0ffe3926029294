//! Whether a place in the network is granted.

use std::net::{IpAddr, SocketAddr};

use crate::grant::{Endpoint, Host, is_internal, is_local};

/// The port at which names are asked for.
pub(super) const NAMES: u16 = 53;

/// What the grants say of a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    Granted,
    /// It is granted if it is an address of one of these names.
    IfNamed(Vec<&'a str>),
    /// It is an internal address, which only an address or a range grants.
    Internal,
    Refused,
}

/// Judges a place by itself, without asking for any name.
pub(super) fn judge(granted: &[Endpoint], place: SocketAddr) -> Verdict<'_> {
    // An IPv4 address in the dress of IPv6 leads to the same host.
    let address = place.ip().to_canonical();
    let is_internal = is_internal(address);
    let mut names = Vec::new();
    let mut otherwise = Verdict::Refused;
    for endpoint in granted.iter().filter(|endpoint| has_port(endpoint, place.port())) {
        match &endpoint.host {
            Host::Address(granted) if granted.to_canonical() == address => return Verdict::Granted,
            Host::Range(granted) if granted.contains(address) => return Verdict::Granted,
            Host::Address(_) | Host::Range(_) => {}
            Host::Name(name) if is_local(name) && address.is_loopback() => {
                names.push(name.as_str());
            }
            Host::Any | Host::Name(_) if is_internal => otherwise = Verdict::Internal,
            Host::Any => return Verdict::Granted,
            Host::Name(name) => names.push(name.as_str()),
        }
    }
    if names.is_empty() { otherwise } else { Verdict::IfNamed(names) }
}

/// A grant of every port is not one of asking for names: who may ask a server of names for anything can tell
/// it anything, and it tells others.
fn has_port(endpoint: &Endpoint, port: u16) -> bool {
    endpoint.port.map_or(port != NAMES, |granted| granted == port)
}

/// How a name is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// By itself: its addresses are granted with it.
    Itself,
    /// Because every host is.
    AnyHost,
}

/// Says whether the addresses of a name may be asked for.
pub(super) fn naming(granted: &[Endpoint], name: &str) -> Option<Naming> {
    let is = |host: &Host| matches!(host, Host::Name(granted) if granted == name);
    if granted.iter().any(|endpoint| is(&endpoint.host)) {
        return Some(Naming::Itself);
    }
    granted.iter().any(|endpoint| endpoint.host == Host::Any).then_some(Naming::AnyHost)
}

/// Says whether a name is a granted one with more behind it, as resolvers ask for that search in domains.
pub(super) fn is_searched(granted: &[Endpoint], name: &str) -> bool {
    granted.iter().any(|endpoint| match &endpoint.host {
        Host::Name(granted) => {
            name.strip_prefix(granted.as_str()).is_some_and(|rest| rest.starts_with('.'))
        }
        Host::Any | Host::Address(_) | Host::Range(_) => false,
    })
}

/// Says whether two addresses lead to the same host.
pub(super) fn same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(texts: &[&str]) -> Vec<Endpoint> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn verdict(granted: &[Endpoint], place: &str) -> String {
        format!("{:?}", judge(granted, place.parse().unwrap()))
    }

    #[test]
    fn a_place_is_granted_by_address_and_port() {
        let granted = endpoints(&["127.0.0.1:8080", "[2001:db8::1]:*", "[::ffff:10.0.0.1]:1"]);
        for (place, expected) in [
            ("127.0.0.1:8080", "Granted"),
            ("[::ffff:127.0.0.1]:8080", "Granted"),
            ("10.0.0.1:1", "Granted"),
            ("[2001:db8::1]:1", "Granted"),
            ("[2001:db8::1]:65535", "Granted"),
            ("127.0.0.1:8081", "Refused"),
            ("127.0.0.2:8080", "Refused"),
            ("[::ffff:127.0.0.2]:8080", "Refused"),
            // The kernel takes these for this machine; what was granted is another address.
            ("0.0.0.0:8080", "Refused"),
            ("[::]:8080", "Refused"),
            ("[::1]:8080", "Refused"),
            ("[::127.0.0.1]:8080", "Refused"),
        ] {
            assert_eq!(verdict(&granted, place), expected, "{place}");
        }
    }

    #[test]
    fn any_host_is_any_host_at_its_port() {
        let granted = endpoints(&["*:5432"]);
        assert_eq!(verdict(&granted, "192.0.2.1:5432"), "Granted");
        assert_eq!(verdict(&granted, "[2001:db8::9]:5432"), "Granted");
        assert_eq!(verdict(&granted, "192.0.2.1:5433"), "Refused");
        assert_eq!(verdict(&[], "192.0.2.1:5432"), "Refused");
    }

    #[test]
    fn a_name_is_judged_by_its_addresses_at_its_port() {
        let granted = endpoints(&["a.example:443", "b.example:*", "c.example:80"]);
        let judged = |place: &str| verdict(&granted, place);
        assert_eq!(judged("192.0.2.1:443"), r#"IfNamed(["a.example", "b.example"])"#);
        assert_eq!(judged("192.0.2.1:80"), r#"IfNamed(["b.example", "c.example"])"#);
        assert_eq!(judged("192.0.2.1:53"), "Refused");
    }

    #[test]
    fn internal_addresses_need_an_address_or_a_range() {
        let wide = endpoints(&["a.example:443", "*:443", "*:80"]);
        let internal = [
            "127.0.0.1:443",
            "10.0.0.5:443",
            "169.254.169.254:80",
            "[::1]:443",
            "[fe80::1]:443",
            "[::ffff:192.168.0.1]:443",
            "0.0.0.0:80",
            "[::]:80",
            "224.0.0.1:80",
        ];
        for place in internal {
            assert_eq!(verdict(&wide, place), "Internal", "{place}");
        }
        assert_eq!(verdict(&wide, "10.0.0.5:81"), "Refused");
        let named =
            endpoints(&["a.example:443", "10.0.0.0/8:443", "[fe80::/10]:*", "127.0.0.1:443"]);
        for place in ["10.0.0.5:443", "[::ffff:10.0.0.5]:443", "[fe80::1]:443", "127.0.0.1:443"] {
            assert_eq!(verdict(&named, place), "Granted", "{place}");
        }
        for place in ["127.0.0.2:443", "192.168.0.1:443", "10.0.0.5:80", "[::1]:443"] {
            assert_ne!(verdict(&named, place), "Granted", "{place}");
        }
    }

    #[test]
    fn localhost_names_loopback_alone() {
        let granted = endpoints(&["localhost:80", "app.localhost:80", "notlocalhost:80"]);
        let both = r#"IfNamed(["localhost", "app.localhost"])"#;
        assert_eq!(verdict(&granted, "127.0.0.1:80"), both);
        assert_eq!(verdict(&granted, "[::1]:80"), both);
        assert_eq!(verdict(&granted, "10.0.0.1:80"), "Internal");
        assert_eq!(verdict(&granted, "0.0.0.0:80"), "Internal");
    }

    #[test]
    fn only_a_grant_of_port_53_is_one_of_servers_of_names() {
        assert_eq!(verdict(&endpoints(&["*:*", "192.0.2.1:*"]), "192.0.2.1:53"), "Refused");
        assert_eq!(verdict(&endpoints(&["192.0.2.1:53"]), "192.0.2.1:53"), "Granted");
        assert_eq!(verdict(&endpoints(&["*:53"]), "192.0.2.1:53"), "Granted");
    }

    #[test]
    fn names_are_asked_for_if_they_or_all_hosts_are_granted() {
        let granted = endpoints(&["A.example:443", "127.0.0.1:1"]);
        assert_eq!(naming(&granted, "a.example"), Some(Naming::Itself));
        assert_eq!(naming(&granted, "x.a.example"), None);
        assert_eq!(naming(&granted, "example"), None);
        assert_eq!(naming(&granted, "127.0.0.1"), None);
        assert!(is_searched(&granted, "a.example.local"));
        assert!(!is_searched(&granted, "a.example"));
        assert!(!is_searched(&granted, "a.examples"));
        let granted = endpoints(&["a.example:443", "*:1"]);
        assert_eq!(naming(&granted, "b.example"), Some(Naming::AnyHost));
        assert_eq!(naming(&granted, "a.example"), Some(Naming::Itself));
    }
}

//! Hosts and origins, read strictly: what is doubtful is not understood.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name that DNS has, and the longest part of one.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A host: an address, or a name in lower case without the dot at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    Name(String),
}

/// What a `Host` header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: Host,
    port: Option<u16>,
}

/// Where a page comes from. The port is absent if it is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    address: Address,
}

impl Host {
    /// Reads a host as it stands in a URL: IPv6 in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Ip(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Some(Self::Ip(address.into()));
        }
        let good = name.len() <= MAX_NAME && name.split('.').all(is_label);
        good.then(|| Self::Name(name.to_ascii_lowercase()))
    }

    /// Says whether no DNS server is asked where this is.
    pub(super) fn needs_no_dns(&self) -> bool {
        match self {
            Self::Ip(_) => true,
            Self::Name(name) => name == "localhost",
        }
    }
}

/// Says whether a text is a part of a name. Some real names have underscores.
fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl Address {
    /// Reads a host and an optional port.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The colons of IPv6 stand before the bracket.
        let after = text.rfind(']').unwrap_or(0);
        let (host, port) = match text[after..].split_once(':') {
            None => (text, None),
            Some((rest, port)) => (&text[..after + rest.len()], Some(parse_port(port)?)),
        };
        Some(Self { host: Host::parse(host)?, port })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // `u16` would read a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

impl Origin {
    /// Reads a scheme, a host and an optional port, and nothing else. `null` is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, address) = text.split_once("://")?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(letter) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let mut address = Address::parse(address)?;
        address.port = address.port.filter(|port| own_port(&scheme) != Some(*port));
        Some(Self { scheme, address })
    }

    /// Says whether a page of this origin was given by the host to which the request goes.
    pub(super) fn is_of(&self, address: &Address, tls: bool) -> bool {
        let Some(own) = own_port(&self.scheme) else { return false };
        // A page that came in the clear may be anybody's. The other way round, a proxy may have taken
        // TLS off, and a `Host` without a port means that of the page's scheme.
        let secure = self.scheme == "https" || !tls;
        let port = |port: Option<u16>| port.unwrap_or(own);
        secure && self.address.host == address.host && port(self.address.port) == port(address.port)
    }
}

fn own_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_address() -> impl Strategy<Value = String> {
        let host = prop_oneof![
            "[a-zA-Z0-9._-]{0,20}",
            "[0-9]{1,3}(\\.[0-9]{1,3}){3}",
            "\\[[0-9a-f:]{0,20}\\]?",
            Just("localhost".to_owned()),
            any::<String>(),
        ];
        let port = prop_oneof![Just(String::new()), ":[0-9+]{0,6}", any::<String>()];
        (host, port).prop_map(|(host, port)| host + &port)
    }

    proptest! {
        #[test]
        fn what_is_understood_reads_back_as_itself(text in any_address()) {
            if let Some(address) = Address::parse(&text) {
                let again = address.to_string();
                prop_assert_eq!(Address::parse(&again), Some(address));
                prop_assert!(again.is_ascii() && !again.contains(['@', '/', '\\', ' ', ',', '?', '#']));
            }
        }

        #[test]
        fn an_origin_is_a_scheme_and_an_address(
            scheme in prop_oneof!["https?", "[A-Za-z0-9+.-]{0,6}", any::<String>()],
            text in any_address(),
        ) {
            let origin = Origin::parse(&format!("{scheme}://{text}"));
            if let Some(origin) = &origin {
                prop_assert_eq!(Origin::parse(&origin.to_string()), Some(origin.clone()));
                prop_assert!(!scheme.contains("://"));
                let address = Address::parse(&text);
                prop_assert_eq!(address.map(|address| address.host), Some(origin.address.host.clone()));
            }
            // Whatever else stands around it is not overlooked.
            prop_assert_eq!(Origin::parse(&format!("{scheme}://{text}/")), None);
            prop_assert_eq!(Origin::parse(&format!("{scheme}://user@{text}")), None);
        }
    }
}

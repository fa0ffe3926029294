//! Ranges of addresses, and the addresses that a grant has to name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Range of addresses in CIDR notation, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// Returns whether an address is in the range. IPv4 addresses that are written as IPv6 count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, address) = (bits(self.first), bits(address.to_canonical()));
        first.1 == address.1 && masked(address.0, self.free_bits()) == first.0
    }

    /// Returns whether every address of another range is in this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.first)
    }

    /// Returns whether the range holds no [internal](is_internal) address.
    #[must_use]
    pub fn is_public(&self) -> bool {
        let overlaps = |it: &Self| it.covers(self) || self.covers(it);
        !INTERNAL.iter().chain(EMBEDDED).any(overlaps)
    }

    /// Returns whether the addresses are those of IPv4.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Returns the number of bits that differ within the range.
    const fn free_bits(&self) -> u32 {
        match self.first {
            IpAddr::V4(_) => 32 - self.prefix as u32,
            IpAddr::V6(_) => 128 - self.prefix as u32,
        }
    }
}

/// Returns the bits of an address, and whether it is one of IPv4.
fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), true),
        IpAddr::V6(address) => (address.into(), false),
    }
}

/// Clears the last bits.
fn masked(bits: u128, count: u32) -> u128 {
    bits.checked_shr(count).and_then(|bits| bits.checked_shl(count)).unwrap_or(0)
}

impl FromStr for AddressRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, prefix) = text.split_once('/').ok_or("the range has no prefix length")?;
        let first: IpAddr =
            first.parse().map_err(|_| "the range does not begin with an address")?;
        let longest = if first.is_ipv4() { 32 } else { 128 };
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|prefix| digits && *prefix <= longest).ok_or(
            "the prefix length of the range is not a number from 0 to 32, or 128 for IPv6",
        )?;
        // An IPv4 range that is written as IPv6 is an IPv4 range.
        let range = match (first.to_canonical(), prefix.checked_sub(96)) {
            (first @ IpAddr::V4(_), Some(shorter)) if longest == 128 => {
                Self { first, prefix: shorter }
            }
            _ => Self { first, prefix },
        };
        let is_first = masked(bits(range.first).0, range.free_bits()) == bits(range.first).0;
        is_first.then_some(range).ok_or("the address of the range has bits set after its prefix")
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

const fn v4(octets: [u8; 4], prefix: u8) -> AddressRange {
    let [a, b, c, d] = octets;
    AddressRange { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> AddressRange {
    let first = Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0);
    AddressRange { first: IpAddr::V6(first), prefix }
}

/// Ranges of this machine, of local networks, and of unroutable addresses.
const INTERNAL: &[AddressRange] = &[
    // Unspecified addresses: the kernel takes 0.0.0.0 for this machine.
    v4([0, 0, 0, 0], 8),
    // Private networks.
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    // Shared addresses of providers.
    v4([100, 64, 0, 0], 10),
    // Loopback.
    v4([127, 0, 0, 0], 8),
    // Link-local addresses, which include metadata services of clouds.
    v4([169, 254, 0, 0], 16),
    // Protocol assignments and benchmarks.
    v4([192, 0, 0, 0], 24),
    v4([198, 18, 0, 0], 15),
    // Multicast, reserved addresses and broadcast.
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    // Unspecified, loopback and IPv4-compatible addresses.
    v6(0, 0, 0, 96),
    // NAT64 of a local network.
    v6(0x64, 0xff9b, 1, 48),
    // Unique local, link-local and site-local addresses, and multicast.
    v6(0xfc00, 0, 0, 7),
    v6(0xfe80, 0, 0, 10),
    v6(0xfec0, 0, 0, 10),
    v6(0xff00, 0, 0, 8),
];

/// Ranges of IPv6 that lead to IPv4 addresses: NAT64, and 6to4.
const EMBEDDED: &[AddressRange] = &[v6(0x64, 0xff9b, 0, 96), v6(0x2002, 0, 0, 16)];

/// Returns whether an address belongs to this machine or a local network, or is unroutable.
///
/// Names and `*` never grant such an address. A grant has to name the address or its range.
#[must_use]
pub fn is_internal(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if INTERNAL.iter().any(|range| range.contains(address)) {
        return true;
    }
    let IpAddr::V6(v6) = address else { return false };
    let segments = v6.segments();
    let [nat64, six_to_four] = [&segments[6..], &segments[1..3]].map(|part| {
        let [a, b] = part[0].to_be_bytes();
        let [c, d] = part[1].to_be_bytes();
        IpAddr::from([a, b, c, d])
    });
    (EMBEDDED[0].contains(address) && is_internal(nat64))
        || (EMBEDDED[1].contains(address) && is_internal(six_to_four))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_hold_their_addresses() {
        for (text, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "a00::", false),
            ("192.0.2.7/32", "192.0.2.7", true),
            ("192.0.2.7/32", "192.0.2.6", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "127.0.0.1", false),
            ("::1/128", "::1", true),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
        ] {
            assert_eq!(
                range(text).contains(address.parse().unwrap()),
                expected,
                "{text} {address}"
            );
        }
        assert_eq!(range("::ffff:10.0.0.0/104").to_string(), "10.0.0.0/8");
    }

    #[test]
    fn rejects_malformed_ranges() {
        for text in [
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/+8",
            "::/129",
            "a/8",
            "/8",
            "10.0.0.0/8/8",
            "::1/127",
            "10.0.0.0/ 8",
            "10.0.0.0/256",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_internal_addresses_in_every_form() {
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fc00::1",
            "fdff::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
        ] {
            assert!(is_internal(address.parse().unwrap()), "{address}");
        }
        for address in [
            "192.0.2.1",
            "8.8.8.8",
            "172.32.0.1",
            "172.15.0.1",
            "100.128.0.1",
            "169.253.0.1",
            "2001:db8::1",
            "2606:4700::1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "1.0.0.1",
        ] {
            assert!(!is_internal(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn public_ranges_hold_no_internal_address() {
        for text in ["8.8.8.0/24", "2606::/16", "1.0.0.0/8"] {
            assert!(range(text).is_public(), "{text}");
        }
        for text in ["0.0.0.0/0", "::/0", "10.1.0.0/16", "172.0.0.0/8", "fe80::1/128", "2000::/3"] {
            assert!(!range(text).is_public(), "{text}");
        }
        assert!(range("10.0.0.0/8").covers(&range("10.9.0.0/16")));
        assert!(!range("10.9.0.0/16").covers(&range("10.0.0.0/8")));
    }
}

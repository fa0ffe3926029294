//! Where an adapter runs, and what the operator grants it there: hosts, files, programs, variables.
//!
//! An adapter only declares that it reaches outside; what it can reach is said here, by name, and the
//! kernel holds it to that. Nothing is granted unless it is written.

mod address;
mod written;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use address::{AddressRange, is_internal};
pub use written::{Kind, Refused};

use crate::json::{Object, Value};

/// Where an adapter runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In confined processes of its own.
    #[default]
    Worker,
    /// In the process of the router. The operator trusts it like the router itself.
    Inline,
    /// In a sandbox of its own for every call. Only what is part of the router runs so, and nothing else can.
    Sandbox,
}

impl Isolation {
    /// Every choice that an operator has, with its name.
    pub const ALL: &[(&'static str, Self)] = &[("worker", Self::Worker), ("inline", Self::Inline)];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Inline => "inline",
            Self::Sandbox => "sandbox",
        }
    }
}

/// What an adapter may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// TCP endpoints that it may connect to. Internal addresses must be named; see [`Endpoint`].
    pub connect: Vec<Endpoint>,
    /// Files, and directories with all that is in them, that it may read.
    pub read: Vec<PathBuf>,
    /// Files, and directories with all that is in them, that it may read, write, make and remove.
    pub write: Vec<PathBuf>,
    /// Programs that it may start. They can do what it can do, and no more.
    pub run: Vec<PathBuf>,
    /// Variables of the router's environment that it sees.
    pub env: Vec<String>,
}

impl Grants {
    /// Says whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what is granted, by kind; kinds of which nothing is granted are left out.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let paths = |paths: &[PathBuf]| -> Vec<Value> {
            paths.iter().map(|path| path.to_string_lossy().into_owned().into()).collect()
        };
        let lists: [(&str, Vec<Value>); 5] = [
            ("connect", self.connect.iter().map(|endpoint| endpoint.to_string().into()).collect()),
            ("env", self.env.iter().map(|name| name.as_str().into()).collect()),
            ("read", paths(&self.read)),
            ("run", paths(&self.run)),
            ("write", paths(&self.write)),
        ];
        let mut object = Object::new();
        for (kind, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            object.insert(kind, list);
        }
        object
    }
}

/// A place in the network: `HOST:PORT`. The host is a name, an address, a range of addresses such as `10.0.0.0/8`, or
/// `*` for any; the port is a number, or `*` for any.
///
/// Names and `*` do not include [internal](is_internal) addresses: those of this machine, of private networks and
/// link-local ones. An address or a range has to name them. The name `localhost` includes loopback.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// The host.
    pub host: Host,
    /// The port; none means any.
    pub port: Option<u16>,
}

impl Endpoint {
    /// Says whether a grant of this one would be a grant of the other. A name and its addresses are not the same
    /// here: what a name means is found out when it is asked for.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let host = match (&self.host, &other.host) {
            (Host::Any, Host::Address(address)) => !is_internal(*address),
            (Host::Any, Host::Range(range)) => range.is_public(),
            (Host::Any, Host::Name(name)) => !is_local(name),
            (Host::Any, Host::Any) => true,
            (Host::Range(range), Host::Address(address)) => range.contains(*address),
            (Host::Range(range), Host::Range(other)) => range.covers(other),
            (host, other) => host == other,
        };
        host && (self.port.is_none() || self.port == other.port)
    }
}

/// Returns whether a name means this machine, so that a grant of it names loopback.
pub(crate) fn is_local(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// A host of an [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Any host.
    Any,
    /// One address.
    Address(IpAddr),
    /// Every address of a range.
    Range(AddressRange),
    /// A name in lower case: its addresses at lookup time, without internal ones.
    Name(String),
}

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or("there is no port")?;
        let port = match port {
            "*" => None,
            number => match number.parse() {
                Ok(0) | Err(_) => return Err("the port is neither a number from 1 to 65535 nor *"),
                Ok(number) => Some(number),
            },
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match (host, bracketed) {
            ("*", _) => Host::Any,
            (_, Some(range)) if range.contains('/') => match range.parse::<AddressRange>() {
                Ok(range) => Host::Range(range),
                Err(why) => return Err(why),
            },
            (_, Some(address)) => {
                Host::Address(IpAddr::V6(address.parse().map_err(|_| "the address is none")?))
            }
            (range, None) if range.contains('/') => match range.parse::<AddressRange>() {
                Ok(_) if range.contains(':') => return Err("an IPv6 range must be in brackets"),
                Ok(range) => Host::Range(range),
                Err(why) => return Err(why),
            },
            (host, None) => match host.parse() {
                Ok(IpAddr::V4(address)) => Host::Address(address.into()),
                Ok(IpAddr::V6(_)) => return Err("an IPv6 address stands in brackets"),
                Err(_) if is_name(host) => Host::Name(host.to_ascii_lowercase()),
                Err(_) => return Err("the host is neither a name nor an address nor *"),
            },
        };
        Ok(Self { host, port })
    }
}

/// Says whether a text is the name of a host.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    // What ends in a number would be taken for an address by some, and for a name by others.
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = text.rsplit('.').next().unwrap_or(text);
    text.len() <= 253 && text.split('.').all(is_label) && !number(last)
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::Range(range) if range.is_ipv4() => write!(f, "{range}")?,
            Host::Range(range) => write!(f, "[{range}]")?,
            Host::Name(name) => f.write_str(name)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

/// A part of the kernel that confinement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Files: Landlock, version 3 or later (Linux 6.2).
    Landlock,
    /// Signals of started programs stay among them: Landlock, version 6 or later (Linux 6.12).
    LandlockScope,
    /// Sockets, programs and side doors: seccomp.
    Seccomp,
    /// Connections to granted hosts alone: notices of seccomp (Linux 5.9), and the right to answer them.
    SeccompNotify,
}

impl Feature {
    /// Every feature, with its name.
    pub const ALL: &[(&'static str, Self)] = &[
        ("landlock", Self::Landlock),
        ("landlock-scope", Self::LandlockScope),
        ("seccomp", Self::Seccomp),
        ("seccomp-notify", Self::SeccompNotify),
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::LandlockScope => "landlock-scope",
            Self::Seccomp => "seccomp",
            Self::SeccompNotify => "seccomp-notify",
        }
    }
}

/// Says why a path cannot be granted.
///
/// # Errors
/// When it is not absolute, or leads somewhere else than it seems to.
pub fn check_path(path: &Path) -> Result<(), &'static str> {
    if !path.is_absolute() {
        return Err("the path is not absolute");
    }
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err("the path goes up with ..");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for (text, shown) in [
            ("api.Example.com:443", "api.example.com:443"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:*", "[::1]:*"),
            ("*:5432", "*:5432"),
            ("*:*", "*:*"),
            ("localhost:1", "localhost:1"),
            ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
            ("[fd00::/8]:*", "[fd00::/8]:*"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), shown);
        }
        let long = format!("{}:1", "a.".repeat(127) + "toolong");
        for bad in [
            "",
            ":",
            "a",
            "a:",
            ":1",
            "a:0",
            "a:65536",
            "::1:80",
            "1.2.3:80",
            "a b:1",
            "a..b:1",
            "[a]:1",
            "10.0.0.1/8:1",
            "10.0.0.0/33:1",
            "fd00::/8:1",
            "[10.0.0.0]:1",
            "a/8:1",
            &long,
        ] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_covers_what_it_would_grant() {
        let covers = |gate: &str, asked: &str| {
            gate.parse::<Endpoint>().unwrap().covers(&asked.parse().unwrap())
        };
        assert!(covers("a.example:443", "A.example:443") && covers("*:443", "a.example:443"));
        assert!(covers("a.example:*", "a.example:1") && covers("*:*", "*:*"));
        assert!(covers("*:443", "192.0.2.1:443") && covers("*:443", "8.8.8.0/24:443"));
        assert!(covers("10.0.0.0/8:1", "10.1.2.3:1") && covers("10.0.0.0/8:*", "10.9.0.0/16:1"));
        for (gate, asked) in [
            ("a.example:443", "a.example:444"),
            ("a.example:443", "a.example:*"),
            ("a.example:443", "*:443"),
            ("a.example:443", "b.a.example:443"),
            ("localhost:1", "127.0.0.1:1"),
            ("*:*", "127.0.0.1:1"),
            ("*:*", "localhost:1"),
            ("*:*", "a.localhost:1"),
            ("*:*", "[::ffff:10.0.0.1]:1"),
            ("*:*", "10.0.0.0/8:1"),
            ("*:*", "0.0.0.0/0:1"),
            ("10.9.0.0/16:1", "10.0.0.0/8:1"),
            ("10.0.0.0/8:1", "*:1"),
        ] {
            assert!(!covers(gate, asked), "{gate} {asked}");
        }
    }

    #[test]
    fn what_is_told_of_grants_is_what_is_granted() {
        assert!(Grants::default().to_json().is_empty());
        let mut grants = Grants::default();
        for (name, kind) in Kind::ALL {
            let text = if *name == "connect" { "a.example:443" } else { "x" };
            grants.add(*kind, text, Path::new("/srv")).unwrap();
        }
        let told = grants.to_json();
        assert_eq!(
            serde_json::Value::Object(told.to_serde()),
            serde_json::to_value(&grants).unwrap()
        );
    }

    #[test]
    fn names_are_those_of_the_files() {
        for (name, feature) in Feature::ALL {
            assert_eq!(feature.name(), *name);
            assert_eq!(serde_json::to_value(feature).unwrap(), *name);
        }
        for (name, isolation) in Isolation::ALL {
            assert_eq!(isolation.name(), *name);
            assert_eq!(serde_json::to_value(isolation).unwrap(), *name);
        }
    }

    #[test]
    fn a_path_is_absolute_and_straight() {
        assert!(check_path(Path::new("/srv/data")).is_ok());
        assert!(check_path(Path::new("data")).is_err());
        assert!(check_path(Path::new("/srv/../etc")).is_err());
    }
}

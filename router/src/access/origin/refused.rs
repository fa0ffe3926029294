//! Why a host or an origin is refused.

use crate::python_text::visible;

/// Why a request is refused for its `Host` or its `Origin`. What is shown of them is well-formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no `Host`.
    #[error("the request has no Host header")]
    HostMissing,
    /// There is more than one `Host`.
    #[error("the request has more than one Host header")]
    HostRepeated,
    /// The `Host` is no host.
    #[error("the Host header is not a host with an optional port")]
    HostMalformed,
    /// The `Host` is a name that is not known.
    #[error("this router is not known as {host}")]
    HostUnknown {
        /// The host.
        host: String,
    },
    /// There is more than one `Origin`.
    #[error("the request has more than one Origin header")]
    OriginRepeated,
    /// The `Origin` is none, or `null`.
    #[error("the Origin header is null, or not an origin")]
    OriginMalformed,
    /// The origin is not allowed.
    #[error("pages of {origin} may not call this router")]
    OriginUnknown {
        /// The origin.
        origin: String,
    },
}

impl Refused {
    /// Says whether it is the host that is refused.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        match self {
            Self::HostMissing
            | Self::HostRepeated
            | Self::HostMalformed
            | Self::HostUnknown { .. } => true,
            Self::OriginRepeated | Self::OriginMalformed | Self::OriginUnknown { .. } => false,
        }
    }
}

/// An entry of the configuration that would never fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// It is no host name.
    #[error("server.allowed_hosts has '{}', which is no host name", visible(.entry))]
    Host {
        /// The entry.
        entry: String,
    },
    /// It is no origin.
    #[error("server.allowed_origins has '{}', which is no origin", visible(.entry))]
    Origin {
        /// The entry.
        entry: String,
    },
}

impl BadEntry {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Host { .. } => {
                "write a name such as router.example.com, without scheme, port and wildcards, and in \
                 the xn-- form if it is not ASCII"
            }
            Self::Origin { .. } => {
                "write scheme, host and, if need be, port, such as https://console.example.com, with no \
                 slash at the end"
            }
        }
    }
}

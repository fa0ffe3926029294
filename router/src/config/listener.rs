//! Where the daemon listens, and what may not be offered to strangers.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::error::Error;

/// An address on which the daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address and the port.
    pub address: SocketAddr,
    /// Whether callers must show a token.
    pub tokens: bool,
    /// The certificate and the key, if the connection is encrypted.
    pub tls: Option<TlsFiles>,
    /// Other machines may connect without encryption.
    pub allow_remote_plaintext: bool,
    /// Callers on other machines need no token.
    pub allow_remote_without_tokens: bool,
}

/// The files of a TLS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to its root, as PEM.
    pub cert: PathBuf,
    /// The private key, as PEM.
    pub key: PathBuf,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], Self::DEFAULT_PORT)),
            tokens: true,
            tls: None,
            allow_remote_plaintext: false,
            allow_remote_without_tokens: false,
        }
    }
}

impl Listener {
    /// The port of the listener that is there when none is given.
    pub const DEFAULT_PORT: u16 = 7433;

    /// Tells whether only this machine can connect.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Refuses a listener that other machines reach without tokens or without TLS, unless it is said by name
    /// that they may.
    ///
    /// # Errors
    /// With everything that is missing, and what to do about each.
    pub fn refuse_unsafe(&self) -> Result<(), Error> {
        if self.is_loopback() {
            return Ok(());
        }
        let rules = [
            (
                self.tokens || self.allow_remote_without_tokens,
                "tokens",
                "set tokens = true, or allow_remote_without_tokens = true if callers are kept out \
                 by other means",
            ),
            (
                self.tls.is_some() || self.allow_remote_plaintext,
                "TLS",
                "give tls_cert and tls_key, or set allow_remote_plaintext = true if something \
                 before it encrypts",
            ),
        ];
        let missing = rules.iter().filter(|(kept, ..)| !kept);
        let (names, remedies): (Vec<&str>, Vec<&str>) =
            missing.map(|(_, name, remedy)| (*name, *remedy)).unzip();
        if names.is_empty() {
            return Ok(());
        }
        let elsewhere = "or listen on 127.0.0.1 alone";
        Err(Error::Unsafe {
            address: self.address,
            missing: names.join(" and "),
            hint: format!("{}; {elsewhere}", remedies.join("; ")),
        })
    }
}

/// Reads `HOST:PORT`, where the host is an IP address or `localhost`. Names are not looked up: what a name
/// means may change between the check and the use.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => {
            Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)))
        }
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Listener {
        Listener { address: address(text).unwrap(), ..Listener::default() }
    }

    #[test]
    fn strangers_need_tokens_and_tls_or_a_word_of_the_operator() {
        let tls = Some(TlsFiles { cert: "c".into(), key: "k".into() });
        for address in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            let listener = Listener { tokens: false, ..at(address) };
            assert!(listener.refuse_unsafe().is_ok(), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            let open = Listener { tokens: false, ..at(address) };
            let error = open.refuse_unsafe().unwrap_err();
            assert_eq!(error.code(), "LISTENER_UNSAFE");
            let (told, hint) = (error.to_string(), error.hint());
            assert!(told.contains(&open.address.to_string()), "{told}");
            assert!(told.contains("tokens and TLS"), "{told}");
            for remedy in ["tls_cert", "allow_remote_plaintext", "allow_remote_without_tokens"] {
                assert!(hint.contains(remedy), "{hint}");
            }
            let plain = at(address).refuse_unsafe().unwrap_err();
            assert!(plain.to_string().contains("without TLS"), "{plain}");
            assert!(!plain.hint().contains("tokens"), "{}", plain.hint());
            let tokenless = Listener { tls: tls.clone(), ..open.clone() };
            assert!(!tokenless.refuse_unsafe().unwrap_err().hint().contains("tls_cert"));
            let safe = Listener { tokens: true, ..tokenless.clone() };
            let allowed = Listener {
                allow_remote_plaintext: true,
                allow_remote_without_tokens: true,
                ..open
            };
            let half = Listener { allow_remote_without_tokens: true, ..tokenless };
            for listener in [safe, allowed, half] {
                assert!(listener.refuse_unsafe().is_ok(), "{listener:?}");
            }
        }
    }

    #[test]
    fn addresses_name_a_host_and_a_port() {
        assert_eq!(at("localhost:80").address.to_string(), "127.0.0.1:80");
        for text in ["", "80", "127.0.0.1", "example.com:80", "localhost:x", "127.0.0.1:99999"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}

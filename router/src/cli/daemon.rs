//! How a running daemon is found and asked: its address, the certificates to trust, the token to show.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{Error, authorities};
use crate::config::{ConfigFile, Environment, Listener};
use crate::json::{self, Limits, Value};

/// How long an answer is waited for, unless somebody says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// A daemon that can be asked.
pub(super) struct Daemon {
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    pub(super) ca: Option<PathBuf>,
    /// Take any certificate. Never together with a token.
    pub(super) insecure: bool,
    /// How long to wait for an answer.
    pub(super) timeout: Duration,
    /// The token that is shown.
    pub(super) token: Option<String>,
    /// Its address, without a path.
    pub(super) base: String,
}

impl Daemon {
    /// Finds the daemon that is named, or that of the configuration, on this machine.
    pub(super) fn find(
        url: Option<&str>,
        config_file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let base = match url {
            Some(text) => named(text)?,
            None => configured(&ConfigFile::find(config_file, environment)?)?,
        };
        Ok(Self { ca: None, insecure: false, timeout: PATIENCE, token: None, base })
    }

    /// Asks for a path, and returns the status and what was answered, if it is JSON of at most `limit` bytes.
    pub(super) fn get(&self, path: &str, limit: u64) -> Result<(u16, Value), Error> {
        self.send("GET", path, "", limit)
    }

    /// As [`get`](Self::get), with something that is to be done, and without a body.
    pub(super) fn post(&self, path: &str, limit: u64) -> Result<(u16, Value), Error> {
        self.send("POST", path, "", limit)
    }

    /// As [`post`](Self::post), with a body.
    pub(super) fn post_json(
        &self,
        path: &str,
        body: &Value,
        limit: u64,
    ) -> Result<(u16, Value), Error> {
        self.send("POST", path, &json::to_compact(body), limit)
    }

    /// Says whether anybody listens at the address. Only that nobody does is a no: a daemon that does not
    /// answer as it should is still one.
    pub(super) fn listens(&self) -> bool {
        let Ok(uri) = self.base.parse::<Uri>() else { return true };
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let Ok(addresses) = (host, port).to_socket_addrs() else { return true };
        let refused = |address: &SocketAddr| {
            let tried = TcpStream::connect_timeout(address, self.timeout);
            tried.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        !addresses.collect::<Vec<_>>().iter().all(refused)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
        limit: u64,
    ) -> Result<(u16, Value), Error> {
        let url = format!("{}{path}", self.base);
        let mut tls = TlsConfig::builder().disable_verification(self.insecure);
        if let Some(certificates) = self.certificates()? {
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        // The daemon is asked itself: not a proxy of the environment, and nobody that it points to.
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("nexus-router/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build()
            .new_agent();
        let silent = |error: ureq::Error| {
            Error::usage(
                format!("{url} does not answer: {error}"),
                "is the daemon up? `nexus-router serve` starts it and prints its address",
            )
        };
        let mut request = http::Request::builder().method(method).uri(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answered = match body {
            "" => request.body(()).map_err(ureq::Error::from).and_then(|it| agent.run(it)),
            body => {
                let request = request.header("Content-Type", "application/json").body(body);
                request.map_err(ureq::Error::from).and_then(|it| agent.run(it))
            }
        };
        let response = answered.map_err(silent)?;
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config().limit(limit).read_to_vec();
        let body = json::parse(&body.map_err(silent)?, Limits::REQUEST).unwrap_or(Value::Null);
        Ok((status, body))
    }

    /// Returns the error about an answer that no daemon of this program gives.
    pub(super) fn stranger(&self, path: &str, status: u16) -> Error {
        Error::usage(
            format!("{}{path} answers {status}, and not as a nexus-router does", self.base),
            "name the address that `nexus-router serve` printed",
        )
    }

    fn certificates(&self) -> Result<Option<Vec<Certificate<'static>>>, Error> {
        let Some(file) = &self.ca else { return Ok(None) };
        let unusable = |why: String| {
            Error::usage(
                format!("cannot use {}: {why}", file.display()),
                "name a PEM file with the certificates that the daemon's leads to",
            )
        };
        authorities::read(file).map(Some).map_err(unusable)
    }
}

/// Reads an address, without a path.
fn named(text: &str) -> Result<String, Error> {
    // It is not shown: it might hold a password.
    let wrong = |why: &str| {
        Error::usage(format!("--url is no address of a daemon: {why}"), "write http://HOST:PORT")
    };
    let uri: Uri = text.parse().map_err(|_| wrong("it is no URL"))?;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        return Err(wrong("it holds credentials, which are not sent"));
    }
    match uri.scheme_str() {
        Some(scheme @ ("http" | "https")) if !authority.is_empty() => match uri.path() {
            "" | "/" if uri.query().is_none() => Ok(format!("{scheme}://{authority}")),
            _ => Err(wrong("it has a path or a query")),
        },
        _ => Err(wrong("it does not begin with http:// or https://")),
    }
}

/// Returns the address under which this machine reaches the first listener.
fn configured(config: &ConfigFile) -> Result<String, Error> {
    let listener = config.listeners.first().cloned().unwrap_or_default();
    if listener.address.port() == 0 {
        return Err(Error::usage(
            "the port of the first listener is 0, so it is another one at every start",
            "name the address that `nexus-router serve` printed with --url",
        ));
    }
    Ok(address(&listener))
}

fn address(listener: &Listener) -> String {
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    let ip = match listener.address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        named => named,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, listener.address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsFiles;

    #[test]
    fn an_address_is_a_scheme_and_an_authority() {
        for (text, base) in [
            ("http://127.0.0.1:7433", "http://127.0.0.1:7433"),
            ("https://[::1]:1/", "https://[::1]:1"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(named(text).unwrap(), base);
        }
        for bad in
            ["", "127.0.0.1:7433", "ftp://a", "http://a/b", "http://a?b", "http://u:hidden@a", "/"]
        {
            let error = named(bad).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn a_listener_for_everybody_is_reached_on_loopback() {
        let at =
            |address: &str| Listener { address: address.parse().unwrap(), ..Default::default() };
        assert_eq!(address(&at("0.0.0.0:80")), "http://127.0.0.1:80");
        assert_eq!(address(&at("[::]:80")), "http://[::1]:80");
        let files = TlsFiles { cert: "c".into(), key: "k".into() };
        let listener = Listener { tls: Some(files), ..at("192.0.2.1:443") };
        assert_eq!(address(&listener), "https://192.0.2.1:443");
        let config = ConfigFile { listeners: vec![at("127.0.0.1:0")], ..ConfigFile::default() };
        assert!(configured(&config).is_err());
    }
}

//! `nexus-router health`: asks a daemon whether runs should be sent to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::output::{Output, tell};
use super::{Answer, Error};
use crate::config::{ConfigFile, Environment, Listener};
use crate::json::{self, Limits, Value};
use crate::python_text::visible;

/// The largest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;

const EXAMPLES: &str = "\
Examples:
  nexus-router health                                   the first listener of router.toml
  nexus-router health --url http://127.0.0.1:7433
  nexus-router health --url https://router.example.com:7433 --ca ca.pem

It sends no token, and exits 0 if the daemon is ready, 1 if it says that it is not, 2 if nothing answers.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE", conflicts_with = "url")]
    config_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Take any certificate. Nothing secret is sent, but anybody may have answered.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// How long to wait for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let base = match &arguments.url {
        Some(text) => named(text)?,
        None => configured(&ConfigFile::find(arguments.config_file.as_deref(), environment)?)?,
    };
    let url = format!("{base}/readyz");
    let (status, body) = arguments.ask(&url)?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(visible);
    match (status, text("status"), text("code")) {
        (200, Some(word), _) if word == "ready" => {
            Output::new(environment).line(&format!("ready: {base}"))?;
            Ok(Answer::Yes)
        }
        (503, _, Some(code)) => {
            Output::new(environment).line(&format!("not ready: {base}"))?;
            tell(&format!("{code}: {}", text("detail").unwrap_or_default()));
            Ok(Answer::No)
        }
        _ => Err(Error::usage(
            format!("{url} answers {status}, and not as a nexus-router does"),
            "name the address that `nexus-router serve` printed",
        )),
    }
}

impl Arguments {
    /// Returns the status and what was answered, if it is JSON.
    fn ask(&self, url: &str) -> Result<(u16, Value), Error> {
        let mut tls = TlsConfig::builder().disable_verification(self.insecure);
        if let Some(certificates) = self.certificates()? {
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        // The daemon is asked itself: not a proxy of the environment, and nobody that it points to.
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(self.timeout)))
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
        let response = agent.get(url).call().map_err(silent)?;
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config().limit(MAX_ANSWER).read_to_vec();
        let body = json::parse(&body.map_err(silent)?, Limits::REQUEST).unwrap_or(Value::Null);
        Ok((status, body))
    }

    fn certificates(&self) -> Result<Option<Vec<Certificate<'static>>>, Error> {
        let Some(file) = &self.ca else { return Ok(None) };
        let unusable = |why: String| {
            Error::usage(
                format!("cannot use {}: {why}", file.display()),
                "name a PEM file with the certificates that the daemon's leads to",
            )
        };
        let text = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
        let mut certificates = Vec::new();
        for item in parse_pem(&text) {
            match item.map_err(|error| unusable(error.to_string()))? {
                PemItem::Certificate(certificate) => certificates.push(certificate),
                _ => return Err(unusable("it holds something that is no certificate".to_owned())),
            }
        }
        if certificates.is_empty() {
            return Err(unusable("it holds no certificate".to_owned()));
        }
        Ok(Some(certificates))
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
        return Err(wrong("it holds credentials, and none are needed"));
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

//! Documents that a name leads to: files, and with `--fetch` what an HTTPS server answers, bounded in size and time.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use http::Uri;
use http::header::ACCEPT;
use ureq::tls::{RootCerts, TlsConfig};

use super::super::authorities;
use super::manifest::{Unread, read};
use crate::json::Object;
use crate::signal::manifest::read_object;

/// The largest document that is fetched. A larger one can be downloaded and named as a file.
const MAX_BYTES: u64 = 16 << 20;
/// The largest head of an answer.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// The most redirects that are followed.
const MAX_REDIRECTS: u32 = 5;

/// Options of verbs that read documents from the network.
#[derive(clap::Args)]
pub(in crate::cli) struct FetchOptions {
    /// Read documents whose name is an https:// URL from the network; nothing else is fetched.
    #[arg(long)]
    fetch: bool,
    /// The certificates to trust when fetching, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE", requires = "fetch")]
    ca: Option<PathBuf>,
    /// The seconds that fetching a document may take, redirects included.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "fetch",
        value_parser = clap::value_parser!(u64).range(1..=600))]
    fetch_timeout: u64,
}

impl FetchOptions {
    /// Reads a JSON object from a file, or from the server that a URL names.
    pub(super) fn read(&self, name: &str) -> Result<Object, Unread> {
        if !is_url(name) {
            return read(name);
        }
        let url = shown_url(name);
        if !self.fetch {
            return Err(Unread::FetchNotAllowed(url));
        }
        let bytes = self.fetch(name).map_err(|error| Unread::Fetch(url.clone(), error))?;
        read_object(&bytes).map_err(|error| Unread::Malformed(url, error))
    }

    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let uri = parse(url)?;
        let mut tls = TlsConfig::builder();
        if let Some(file) = &self.ca {
            let certificates = authorities::read(file).map_err(|problem| {
                FetchError::Authorities { file: file.display().to_string(), problem }
            })?;
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        let limit = Duration::from_secs(self.fetch_timeout);
        // The server is asked itself, not a proxy of the environment.
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(limit))
            .http_status_as_error(false)
            .https_only(true)
            .max_redirects(MAX_REDIRECTS)
            .max_redirects_will_error(true)
            .max_response_header_size(MAX_HEAD_BYTES)
            .proxy(None)
            .user_agent(concat!("nexus-router/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build()
            .new_agent();
        // A server that sends a byte at a time keeps each read of the TLS layer within its limit, so this thread watches
        // the whole. The other one ends with the process.
        let begun = Instant::now();
        let (sender, receiver) = sync_channel(1);
        let work = move || drop(sender.send(get(&agent, uri)));
        let started = std::thread::Builder::new().name("fetch".to_owned()).spawn(work);
        started.map_err(|error| FetchError::Failed(error.to_string()))?;
        match receiver.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => Err(FetchError::Timeout(self.fetch_timeout)),
            // Below TLS, the end of the time may look like a broken connection.
            Ok(Err(error)) if error == FetchError::Timeout(0) || begun.elapsed() >= limit => {
                Err(FetchError::Timeout(self.fetch_timeout))
            }
            Ok(fetched) => fetched,
            Err(RecvTimeoutError::Disconnected) => {
                Err(FetchError::Failed("the client panicked".to_owned()))
            }
        }
    }
}

/// Sends the request, and returns the body of the answer.
fn get(agent: &ureq::Agent, uri: Uri) -> Result<Vec<u8>, FetchError> {
    let request = http::Request::get(uri).header(ACCEPT, "application/json").body(());
    let request = request.map_err(|error| FetchError::Failed(error.to_string()))?;
    let response = agent.run(request).map_err(|error| FetchError::of(&error))?;
    let status = response.status();
    if status != http::StatusCode::OK {
        let reason = status.canonical_reason().unwrap_or("an unknown status");
        return Err(FetchError::Status { status: status.as_u16(), reason });
    }
    let body = response.into_body();
    if body.content_length().is_some_and(|length| length > MAX_BYTES) {
        return Err(FetchError::TooLarge);
    }
    let read = body.into_with_config().limit(MAX_BYTES).read_to_vec();
    read.map_err(|error| FetchError::of(&error))
}

/// A document that cannot be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// The text is not a URL.
    #[error("it is not a URL with a host")]
    Url,
    /// The URL has another scheme.
    #[error("its scheme is not https")]
    Scheme,
    /// The URL has a user name or a password.
    #[error("it holds credentials, which are not sent")]
    Credentials,
    /// The certificates to trust cannot be read.
    #[error("cannot use the certificates in {file}: {problem}")]
    Authorities { file: String, problem: String },
    /// The server answered something else than the document.
    #[error("the server answered {status} {reason}")]
    Status { status: u16, reason: &'static str },
    /// The answer is too large.
    #[error("the answer has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// The answer took too long.
    #[error("the answer took longer than {0} s")]
    Timeout(u64),
    /// The server redirected too often.
    #[error("the server redirected more than {MAX_REDIRECTS} times")]
    Redirects,
    /// The server redirected to another scheme than https.
    #[error("the server redirected to a URL that is not https")]
    InsecureRedirect,
    /// The server's certificate does not lead to a trusted one, or is for another name.
    #[error("the certificate of the server is refused: {0}")]
    Certificate(String),
    /// The request failed otherwise.
    #[error("the request failed: {0}")]
    Failed(String),
}

impl FetchError {
    fn of(error: &ureq::Error) -> Self {
        use ureq::Error as E;
        match error {
            E::Timeout(_) => Self::Timeout(0),
            E::BodyExceedsLimit(_) => Self::TooLarge,
            E::TooManyRedirects => Self::Redirects,
            // The first URL is checked before, so this is a later one.
            E::RequireHttpsOnly(_) => Self::InsecureRedirect,
            E::Rustls(error) => Self::of_tls(error),
            E::Io(error) => match error.get_ref().and_then(|it| it.downcast_ref()) {
                Some(error) => Self::of_tls(error),
                None => Self::Failed(error.to_string()),
            },
            other => Self::Failed(other.to_string()),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(problem) => Self::Certificate(problem.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }

    /// Returns what to do about it.
    pub(super) const fn hint(&self) -> &'static str {
        match self {
            Self::Url | Self::Scheme | Self::Credentials => {
                "write https://HOST/PATH, or download the document and name the file"
            }
            Self::Authorities { .. } => {
                "name a PEM file with --ca that has the certificates of authorities and nothing else"
            }
            Self::Status { .. } => "check the URL in a browser",
            Self::TooLarge => "download the document, check it, and name the file",
            Self::Timeout(_) => "try again, or allow more time with --fetch-timeout",
            Self::Redirects | Self::InsecureRedirect => "name the URL that the redirects lead to",
            Self::Certificate(_) => {
                "check the host name; name the certificates of a private authority with --ca"
            }
            Self::Failed(_) => "check the host name and the connection, or name a downloaded file",
        }
    }

    /// Returns the exception that the AiGentsy tools name in such a case.
    pub(super) const fn exception(&self) -> &'static str {
        match self {
            Self::Status { .. } => "HTTPError",
            Self::Timeout(_) => "TimeoutError",
            _ => "URLError",
        }
    }
}

/// Reads a URL that may be fetched.
fn parse(url: &str) -> Result<Uri, FetchError> {
    let uri: Uri = url.parse().map_err(|_| FetchError::Url)?;
    let authority = uri.authority().ok_or(FetchError::Url)?;
    if authority.as_str().contains('@') {
        return Err(FetchError::Credentials);
    }
    if uri.scheme_str() != Some("https") {
        return Err(FetchError::Scheme);
    }
    // A port that is no number would be passed over.
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if authority.host().is_empty() || !port.is_empty() && authority.port_u16().is_none() {
        return Err(FetchError::Url);
    }
    Ok(uri)
}

/// Says whether a name is a URL, and not a file.
pub(super) fn is_url(name: &str) -> bool {
    name.contains("://")
}

/// Returns a URL without what may be secret: credentials, the query, the fragment.
pub(super) fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (_, port) = authority.rsplit_once(':').unwrap_or_default();
    let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) || authority.ends_with(']');
    if authority.contains('@') || !is_plain {
        return format!("{scheme}://[REDACTED]");
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_without_credentials_are_fetched() {
        for (url, expected) in [
            ("https://example.com/a.json", None),
            ("HTTPS://example.com:8443", None),
            ("https://[::1]:1/a?b=c", None),
            ("http://example.com/", Some(FetchError::Scheme)),
            ("http://127.0.0.1/", Some(FetchError::Scheme)),
            ("file:///etc/passwd", Some(FetchError::Url)),
            ("ftp://example.com/", Some(FetchError::Scheme)),
            ("https://ada:secret@example.com/", Some(FetchError::Credentials)),
            ("https://@example.com/", Some(FetchError::Credentials)),
            ("https:///a", Some(FetchError::Url)),
            ("https://", Some(FetchError::Url)),
            ("://", Some(FetchError::Url)),
            ("https://exa mple.com/", Some(FetchError::Url)),
            ("https://example.com:port/", Some(FetchError::Url)),
        ] {
            assert_eq!(parse(url).err(), expected, "{url}");
        }
    }

    #[test]
    fn shown_urls_have_no_secrets() {
        for (url, expected) in [
            ("https://example.com/a.json", "https://example.com/a.json"),
            ("https://example.com:8443/a@1.json", "https://example.com:8443/a@1.json"),
            ("https://[::1]/a", "https://[::1]/a"),
            ("https://example.com/a?token=secret#secret", "https://example.com/a"),
            ("https://example.com?token=secret", "https://example.com"),
            ("https://ada:secret@example.com/", "https://[REDACTED]"),
            ("https://ada:sec/ret@example.com/", "https://[REDACTED]"),
            ("https://ada:sec?ret@example.com/", "https://[REDACTED]"),
        ] {
            assert_eq!(shown_url(url), expected);
        }
    }
}

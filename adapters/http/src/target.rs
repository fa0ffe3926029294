//! Where requests go: the base URL, the endpoints below it, and the hosts that may be reached.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nexus_router_sdk::{AdapterError, code, redact};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ureq::http::{HeaderValue, Uri};
use url::{Host, Origin, SyntaxViolation, Url};

/// How long one encoded segment may be; servers commonly refuse a request line of more than 8 KiB.
const MAX_SEGMENT: usize = 3072;

/// Everything but the unreserved characters. Also `;`, which some servers cut a segment at.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The base URL, without its userinfo.
#[derive(Debug)]
pub(crate) struct Base {
    /// Without trailing slashes.
    prefix: String,
    host: Host,
    origin: Origin,
    authorization: Option<HeaderValue>,
}

impl Base {
    /// Reads a base URL. The error says what is wrong and never repeats the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut url = parse_strictly(text)?;
        let host = url.host().ok_or("has no host")?.to_owned();
        let authorization = basic_authorization(&url)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must have neither query nor fragment".to_owned());
        }
        without_userinfo(&mut url).ok_or("has userinfo that cannot be taken off")?;
        let prefix = url.as_str().trim_end_matches('/').to_owned();
        if format!("{prefix}/t/m").parse::<Uri>().is_err() {
            return Err("has a path that cannot be requested".to_owned());
        }
        Ok(Self { prefix, host, origin: url.origin(), authorization })
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Says whether a URL has the scheme, host and port of the base.
    pub(crate) fn is_origin_of(&self, url: &Url) -> bool {
        url.origin() == self.origin
    }

    /// Returns the `Authorization` that the userinfo asks for.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Returns the URL of a tool's method: two segments below the base.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a name that cannot stand as one segment.
    pub(crate) fn endpoint(&self, tool: &str, method: &str) -> Result<Url, AdapterError> {
        let (tool, method) = (segment("tool", tool)?, segment("method", method)?);
        self.below(&format!("{tool}/{method}")).map_err(|error| {
            AdapterError::bug(format!("two encoded segments do not make a URL: {error}"))
        })
    }

    /// Returns the URL of a path that the configuration names: segments with a slash between them.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn place(&self, path: &str) -> Result<Url, String> {
        let parts = path.strip_prefix('/').unwrap_or(path).split('/');
        let encoded =
            parts.map(|part| segment("a part of it", part)).collect::<Result<Vec<_>, _>>();
        let encoded = encoded.map_err(|error| error.message)?;
        self.below(&encoded.join("/")).map_err(|error| error.to_string())
    }

    fn below(&self, path: &str) -> Result<Url, url::ParseError> {
        Url::parse(&format!("{}/{path}", self.prefix))
    }
}

fn parse_strictly(text: &str) -> Result<Url, String> {
    // The parser repairs what it can; what it repairs here would hide a mistake.
    let violation = std::cell::Cell::new(None);
    let note = |found: SyntaxViolation| {
        use SyntaxViolation::{
            Backslash, C0SpaceIgnored, ExpectedDoubleSlash, TabOrNewlineIgnored, UnencodedAtSign,
        };
        if matches!(
            found,
            Backslash
                | C0SpaceIgnored
                | ExpectedDoubleSlash
                | TabOrNewlineIgnored
                | UnencodedAtSign
        ) {
            violation.set(Some(found));
        }
    };
    let parsed = Url::options().syntax_violation_callback(Some(&note)).parse(text);
    let url = parsed.map_err(|error| format!("is not a URL: {error}"))?;
    if !is_http(&url) {
        return Err("must begin with http:// or https://".to_owned());
    }
    violation.take().map_or(Ok(url), |found| Err(format!("is not a URL: {found}")))
}

fn basic_authorization(url: &Url) -> Result<Option<HeaderValue>, String> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    if pair.contains(&b':') {
        return Err("has a user name with a colon, which basic authorization cannot carry".into());
    }
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .map_err(|_| "has userinfo that cannot be sent")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Encodes a name as one path segment.
fn segment(what: &str, name: &str) -> Result<String, AdapterError> {
    let refuse = |problem: &str| {
        AdapterError::operational(
            code::INVALID_ARGUMENT,
            format!("{what} cannot stand in a URL path: {problem}"),
        )
        .details(serde_json::json!({ "argument": what, "length": name.len() }))
    };
    match name {
        "" => return Err(refuse("it is empty")),
        "." | ".." => return Err(refuse("it is a step through the path")),
        _ => {}
    }
    let encoded = utf8_percent_encode(name, ENCODED).to_string();
    if encoded.len() > MAX_SEGMENT {
        return Err(refuse(&format!("it is {} bytes long, of {MAX_SEGMENT}", encoded.len())));
    }
    Ok(encoded)
}

/// Reads a host name or address as it stands in `allowed_hosts`: without scheme and port.
pub(crate) fn parse_host(text: &str) -> Option<Host> {
    text.parse().map(Host::Ipv6).ok().or_else(|| Host::parse(text).ok())
}

/// Returns a host as people read it: international names in Unicode, addresses without brackets.
pub(crate) fn shown_host<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(domain) => idna::domain_to_unicode(domain.as_ref()).0,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

/// Returns a URL as it may be shown: without userinfo and without the query of a redirect.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    redact::url(url.as_str())
}

/// Returns where a `Location` leads, or nothing if it is not an http or https URL.
pub(crate) fn redirected(from: &Url, location: &HeaderValue) -> Option<Url> {
    let location = std::str::from_utf8(location.as_bytes()).ok()?;
    let mut url = from.join(location).ok().filter(is_http)?;
    without_userinfo(&mut url)?;
    url.set_fragment(None);
    Some(url)
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn without_userinfo(url: &mut Url) -> Option<()> {
    url.set_username("").ok()?;
    url.set_password(None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_slashes_and_userinfo_are_taken_off() {
        let base = Base::parse("http://user:p%40ss@H.Example:80/api//").unwrap();
        assert_eq!(base.endpoint("t", "m").unwrap().as_str(), "http://h.example/api/t/m");
        // "user:p@ss"
        assert_eq!(base.authorization().unwrap(), "Basic dXNlcjpwQHNz");
        assert!(base.authorization().unwrap().is_sensitive());
    }

    #[test]
    fn names_are_one_segment_each() {
        let base = Base::parse("http://h").unwrap();
        let path = |tool, method| base.endpoint(tool, method).map(|url| url.path().to_owned());
        assert_eq!(path("a/b", "c?d#e").unwrap(), "/a%2Fb/c%3Fd%23e");
        assert_eq!(path("%2e%2e", "..;").unwrap(), "/%252e%252e/..%3B");
        assert_eq!(path("a\\b\0", "é ").unwrap(), "/a%5Cb%00/%C3%A9%20");
        assert_eq!(path("...", "-._~Az9").unwrap(), "/.../-._~Az9");
        for name in ["", ".", "..", &"x".repeat(MAX_SEGMENT + 1)] {
            assert_eq!(path(name, "m").unwrap_err().code, code::INVALID_ARGUMENT);
            assert_eq!(path("t", name).unwrap_err().code, code::INVALID_ARGUMENT);
        }
    }

    #[test]
    fn a_place_is_below_the_base_and_leads_nowhere_else() {
        let base = Base::parse("http://h/api").unwrap();
        let path = |path| base.place(path).map(|url| url.path().to_owned());
        assert_eq!(path("search").unwrap(), "/api/search");
        assert_eq!(path("/v1/search?q#f").unwrap(), "/api/v1/search%3Fq%23f");
        for wrong in ["", "/", "a//b", "a/", "..", "a/../b", "./a", "//h2/a"] {
            assert!(path(wrong).unwrap_err().contains("cannot stand in a URL path"), "{wrong}");
        }
    }

    #[test]
    fn mistakes_in_the_base_are_refused_without_repeating_it() {
        for text in [
            "",
            "h.example",
            "//h.example",
            "ftp://u:secret@h",
            "file:///etc/passwd",
            "http://",
            "http:h",
            "http:/h",
            "http://u:secret@",
            "http://u:secret@h:99999/",
            "http://u:se@cret@h/",
            "http://u%3Av:secret@h/",
            " http://u:secret@h",
            "http://u:secret@h\n/",
            "http://u:secret@h\\x",
            "http://u:secret@h/?token=secret",
            "http://u:secret@h/#secret",
            "http://a b/",
            "http://[::1/",
        ] {
            let error = Base::parse(text).unwrap_err();
            assert!(!error.contains("secret") && !error.contains("cret"), "{text}: {error}");
        }
    }

    #[test]
    fn hosts_are_compared_in_one_form() {
        let host = |url| Base::parse(url).unwrap().host().clone();
        assert_eq!(host("http://BÜCHER.example"), parse_host("bücher.example").unwrap());
        assert_eq!(host("http://bücher.example"), parse_host("xn--bcher-kva.example").unwrap());
        assert_eq!(host("http://0x7f.1/"), parse_host("127.0.0.1").unwrap());
        assert_eq!(host("http://[0:0::1]:8/"), parse_host("::1").unwrap());
        assert_eq!(host("http://[::1]"), parse_host("[::1]").unwrap());
        for wrong in ["", "h:80", "http://h", "u@h", "a/b", "*", "a b"] {
            // A star is a legal character in a name, but no name that anybody has.
            assert!(wrong == "*" || parse_host(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn international_hosts_are_shown_in_unicode() {
        let shown = |url| shown_host(Base::parse(url).unwrap().host());
        assert_eq!(shown("http://xn--bcher-kva.example:8080/"), "bücher.example");
        assert_eq!(shown("http://BÜCHER.example"), "bücher.example");
        assert_eq!(shown("http://[::1]:80/"), "::1");
    }

    #[test]
    fn redirects_lose_userinfo_and_keep_to_http() {
        let from = Url::parse("https://h.example/a/b").unwrap();
        let to = |location: &'static str| {
            redirected(&from, &HeaderValue::from_static(location)).map(|url| url.to_string())
        };
        assert_eq!(to("c?x#f").as_deref(), Some("https://h.example/a/c?x"));
        assert_eq!(to("//u:p@other/").as_deref(), Some("https://other/"));
        assert_eq!(to("javascript:alert(1)"), None);
        assert_eq!(to("file:///etc/passwd"), None);
        assert_eq!(to("http://"), None);
    }
}

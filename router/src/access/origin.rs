//! Which names and pages may lead to this router: keeps out sites that a browser was tricked into.
//!
//! A page of another site can make a browser send requests here, and by DNS rebinding even as if they were
//! to its own name. Such a request carries that name in `Host`, or the page's origin in `Origin`.

mod address;
mod refused;

pub use refused::{BadEntry, Refused};

use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN};

use address::{Address, Host, Origin};

/// Knows the names by which callers may reach this router, and the origins whose pages may call.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    hosts: Vec<Host>,
    origins: Vec<Origin>,
}

impl Guard {
    /// Makes a guard. IP addresses and `localhost` are always good hosts, and pages that this router itself
    /// could have given are good origins; what is said here comes on top.
    ///
    /// # Errors
    /// When an entry is no host name or no origin, and so would never fit.
    pub fn new(allowed_hosts: &[String], allowed_origins: &[String]) -> Result<Self, BadEntry> {
        let host = |entry: &String| {
            Host::parse(entry).ok_or_else(|| BadEntry::Host { entry: entry.clone() })
        };
        let origin = |entry: &String| {
            Origin::parse(entry).ok_or_else(|| BadEntry::Origin { entry: entry.clone() })
        };
        Ok(Self {
            hosts: allowed_hosts.iter().map(host).collect::<Result<_, _>>()?,
            origins: allowed_origins.iter().map(origin).collect::<Result<_, _>>()?,
        })
    }

    /// Lets pass a request with these headers; `tls` says whether it came over TLS.
    ///
    /// # Errors
    /// As [`check`](Self::check), and when one of the two headers is there twice.
    pub fn check_headers(&self, headers: &HeaderMap, tls: bool) -> Result<(), Refused> {
        let host = only(headers, &HOST, Refused::HostRepeated, Refused::HostMalformed)?;
        let origin = only(headers, &ORIGIN, Refused::OriginRepeated, Refused::OriginMalformed)?;
        self.check(host, origin, tls)
    }

    /// Lets pass a request with this `Host` and this `Origin`; `tls` says whether it came over TLS.
    ///
    /// # Errors
    /// When the host is missing, malformed, or a name that is not known; or when there is an origin, and
    /// it is neither the request's own host nor one that is allowed.
    pub fn check(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
        tls: bool,
    ) -> Result<(), Refused> {
        let host = host.ok_or(Refused::HostMissing)?;
        let address = Address::parse(host).ok_or(Refused::HostMalformed)?;
        // Rebinding needs a name that somebody else's DNS server answers for.
        if !address.host.needs_no_dns() && !self.hosts.contains(&address.host) {
            return Err(Refused::HostUnknown { host: address.to_string() });
        }
        let Some(origin) = origin else { return Ok(()) };
        let origin = Origin::parse(origin).ok_or(Refused::OriginMalformed)?;
        if origin.is_of(&address, tls) || self.origins.contains(&origin) {
            Ok(())
        } else {
            Err(Refused::OriginUnknown { origin: origin.to_string() })
        }
    }
}

/// Returns the value of a header that may be there once.
fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    repeated: Refused,
    malformed: Refused,
) -> Result<Option<&'a str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(repeated);
    }
    value.to_str().map(Some).map_err(|_| malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let hosts = ["Router.Example.com".to_owned(), "xn--bcher-kva.example".to_owned()];
        let origins = ["https://console.example.com".to_owned(), "app://desk".to_owned()];
        Guard::new(&hosts, &origins).unwrap()
    }

    fn host(text: &str) -> Result<(), Refused> {
        guard().check(Some(text), None, false)
    }

    fn origin(host: &str, origin: &str, tls: bool) -> Result<(), Refused> {
        guard().check(Some(host), Some(origin), tls)
    }

    #[test]
    fn known_hosts_pass() {
        for good in [
            "localhost",
            "LocalHost:7433",
            "localhost.",
            "localhost.:80",
            "127.0.0.1",
            "127.0.0.1:7433",
            "192.0.2.7:65535",
            "[::1]",
            "[::1]:7433",
            "[2001:DB8::1]:1",
            "router.example.com",
            "ROUTER.example.COM.:443",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(host(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        for unknown in [
            "evil.com",
            "localhost.evil.com",
            "evil.localhost",
            "notlocalhost",
            "127.0.0.1.evil.com",
            "127.0.0.1.nip.io:7433",
            "router.example.com.evil.com",
            "sub.router.example.com",
            "0x7f000001",
            "2130706433",
            "127.1",
        ] {
            let refused = host(unknown).unwrap_err();
            assert!(matches!(refused, Refused::HostUnknown { .. }), "{unknown}: {refused}");
        }
    }

    #[test]
    fn malformed_hosts_are_refused() {
        assert_eq!(guard().check(None, None, false), Err(Refused::HostMissing));
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "",
            ".",
            " localhost",
            "localhost ",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "localhost:8 0",
            "localhost..",
            ".localhost",
            "localhost,evil.com",
            "localhost/",
            "localhost@evil.com",
            "user@localhost",
            "http://localhost",
            "::1",
            "[::1",
            "::1]",
            "[::1]x",
            "[::1]:",
            "[::1%25eth0]",
            "[127.0.0.1]",
            "[]",
            "locаlhost",
            "bücher.example",
            "ｌｏｃａｌｈｏｓｔ",
            "local\0host",
            "-",
            &long,
        ] {
            assert_eq!(host(bad), Err(Refused::HostMalformed), "{bad}");
        }
    }

    #[test]
    fn pages_of_this_router_and_allowed_ones_pass() {
        assert_eq!(guard().check(Some("localhost"), None, false), Ok(()));
        for (at, page, tls) in [
            ("localhost:7433", "http://localhost:7433", false),
            ("LOCALHOST:7433", "HTTP://localhost:7433", false),
            ("localhost", "http://localhost", false),
            ("localhost:80", "http://localhost", false),
            ("localhost", "http://localhost:80", false),
            ("router.example.com", "https://router.example.com", true),
            ("router.example.com:443", "https://router.example.com", true),
            // A proxy may have taken TLS off.
            ("router.example.com", "https://router.example.com", false),
            ("[::1]:7433", "http://[0:0::1]:7433", false),
            ("127.0.0.1:7433", "https://console.example.com", false),
            ("127.0.0.1:7433", "https://CONSOLE.example.com:443", false),
            ("127.0.0.1:7433", "app://desk", false),
        ] {
            assert_eq!(origin(at, page, tls), Ok(()), "{page} at {at}");
        }
    }

    #[test]
    fn other_pages_are_refused() {
        for (page, tls) in [
            ("http://evil.com", false),
            ("http://localhost.evil.com:7433", false),
            ("http://localhost", false),
            ("http://localhost:7434", false),
            ("https://localhost", false),
            ("http://127.0.0.1:7433", false),
            ("ftp://localhost:7433", false),
            // Whoever can change what comes in the clear must not speak for a page that came over TLS.
            ("http://localhost:7433", true),
            ("http://console.example.com", false),
            ("https://console.example.com:8443", false),
            ("https://sub.console.example.com", false),
            ("app://other", false),
        ] {
            let refused = origin("localhost:7433", page, tls).unwrap_err();
            assert!(matches!(refused, Refused::OriginUnknown { .. }), "{page}: {refused}");
        }
        assert!(origin("localhost:80", "https://localhost", false).is_err());
        for bad in [
            "null",
            "",
            "*",
            "localhost:7433",
            "//localhost:7433",
            "http:localhost:7433",
            "http:/localhost:7433",
            "http://",
            "http://localhost@evil.com",
            "http://localhost:7433@evil.com",
            "http://user@localhost:7433",
            "http://localhost:7433/",
            "http://localhost:7433/path",
            "http://localhost:7433?x",
            "http://localhost:7433#x",
            "http://localhost:7433 http://evil.com",
            "http://localhost:7433, http://evil.com",
            "http://evil.com\\@localhost:7433",
            "http://locаlhost:7433",
            "://localhost",
            "1http://localhost",
            "ht tp://localhost",
        ] {
            assert_eq!(
                origin("localhost:7433", bad, false),
                Err(Refused::OriginMalformed),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        let headers = |lines: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.append(name, value);
            }
            guard().check_headers(&headers, false)
        };
        let (host, page) = ((HOST, "localhost"), (ORIGIN, "http://localhost"));
        assert_eq!(headers(&[host.clone(), page.clone()]), Ok(()));
        assert_eq!(headers(&[]), Err(Refused::HostMissing));
        assert_eq!(headers(&[host.clone(), host.clone()]), Err(Refused::HostRepeated));
        let twice = [host.clone(), page.clone(), page];
        assert_eq!(headers(&twice), Err(Refused::OriginRepeated));
        assert_eq!(headers(&[(HOST, "bücher.example")]), Err(Refused::HostMalformed));
        assert_eq!(headers(&[host, (ORIGIN, "é")]), Err(Refused::OriginMalformed));
    }

    #[test]
    fn entries_that_would_never_fit_are_told() {
        for bad in ["https://a.example", "a.example:443", "*.example", "a b", "", "bücher.example"]
        {
            let refused = Guard::new(&[bad.to_owned()], &[]).unwrap_err();
            assert!(refused.to_string().contains("allowed_hosts"), "{refused}");
        }
        for bad in ["a.example", "https://a.example/", "null", "*", "https://*.example", ""] {
            let refused = Guard::new(&[], &[bad.to_owned()]).unwrap_err();
            assert!(refused.to_string().contains("allowed_origins"), "{refused}");
        }
    }
}

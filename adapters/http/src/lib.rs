//! An adapter that posts each call to an HTTP service.
//!
//! A call becomes `POST {base_url}/{tool}/{method}` with the arguments as a JSON body, or a GET with them as
//! the query; the service answers with a JSON object. Tool and method are one path segment each, whatever they
//! contain; `paths` says where calls live that do not live there.
//!
//! # What a call may do
//! * It ends after `timeout_s` in total, or at the deadline of the call, whichever comes first.
//! * It reaches only the hosts in `allowed_hosts`, and by default only that of `base_url`. Redirects are
//!   not followed unless `follow_redirects` allows some. The host of each is checked; a redirect from
//!   https to http is refused; 307 and 308 repeat the request, the others become a GET.
//! * It reads at most `max_response_bytes`, and decompresses nothing.
//! * It is sent once. A request that failed half-way is not repeated, because the service may have acted
//!   on it. That includes the rare case of a kept connection that the server closes at the same moment.
//! * Proxy settings in the environment are not obeyed.
//! * Certificates are checked against the roots of Mozilla that are built in.
//!
//! # Cancellation
//! Cancelling a call closes its connection, so the wait ends at once and the service can notice. A lookup
//! or connect under way cannot be interrupted and is left behind on a thread of its own, which ends with
//! the time limit. No thread is made by loading the adapter, nor by calls on a kept connection.
//!
//! # Secrets
//! The userinfo of `base_url` is sent as basic authorization and shown nowhere. No error repeats a header
//! value or a query; what is shown of a response that is not JSON is redacted.
//!
//! # Determinism
//! The output is whatever the service answers: the same call may have another result every time.
#![forbid(unsafe_code)]

mod adapter;
mod config;
mod dial;
mod failure;
mod grip;
mod query;
mod reply;
mod target;
#[cfg(test)]
mod tls_test;
mod wire;

use nexus_router_sdk::{AdapterError, Manifest, export_adapter};
use ureq::tls::TlsConfig;

pub use adapter::HttpAdapter;
pub use config::Config;

const MANIFEST: Manifest = Manifest::new("http", adapter::CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(config::KEYS)
    .error_codes(failure::CODES);

/// Makes an adapter. Without an id, or with an empty one, it is called `http:` and the host.
///
/// # Errors
/// `CONFIG_REJECTED` when a value does not fit.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Config,
) -> Result<HttpAdapter, AdapterError> {
    Ok(HttpAdapter::new(adapter_id, config.check()?, TlsConfig::default()))
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::manifest;
    use nexus_router_sdk::{Adapter, code};
    use serde_json::json;

    fn made(adapter_id: Option<&str>, base_url: &str) -> HttpAdapter {
        let config = serde_json::from_value(json!({ "base_url": base_url })).unwrap();
        create_adapter(adapter_id, config).unwrap()
    }

    #[test]
    fn manifest_is_that_of_the_instance() {
        let (manifest, adapter) = (manifest(&MANIFEST), made(None, "https://example.com"));
        assert_eq!(manifest["kind"], adapter.adapter_kind());
        assert_eq!(manifest["capabilities"], json!(adapter.capabilities()));
        for listed in manifest["error_codes"].as_array().unwrap() {
            assert!(code::is_well_formed(listed.as_str().unwrap()));
        }
    }

    #[test]
    fn an_empty_id_counts_as_none() {
        let id = |given| made(given, "http://ex.com:8080/x").adapter_id().to_owned();
        assert_eq!(id(None), "http:ex.com");
        assert_eq!(id(Some("")), "http:ex.com");
        assert_eq!(id(Some("mine")), "mine");
    }

    #[test]
    fn unknown_keys_are_refused() {
        let config = json!({ "base_url": "http://h", "capabilities": ["apply"] });
        assert!(serde_json::from_value::<Config>(config).is_err());
    }
}

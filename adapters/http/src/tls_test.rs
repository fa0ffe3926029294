//! Checks https against a server whose certificate comes from an authority made for the tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use nexus_router_sdk::{Adapter, code, testing};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::{Config, HttpAdapter};

const AUTHORITY: &[u8] = include_bytes!("../tests/tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../tests/tls/server.pem");
const KEY: &[u8] = include_bytes!("../tests/tls/server.key.pem");

const FINE: &str = "HTTP/1.1 200 Fine\r\nContent-Length: 11\r\n\r\n{\"ok\":true}";

/// Accepts one connection and answers every request on it; returns the bytes of all requests.
fn serve(reply: &'static str) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()],
            PrivateKeyDer::from_pem_slice(KEY).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), socket);
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..read]);
            if seen.ends_with(b"{}") {
                stream.write_all(reply.as_bytes()).unwrap();
            }
        }
        seen
    });
    (address, server)
}

fn adapter(base_url: &str, tls: TlsConfig) -> HttpAdapter {
    let config = json!({ "base_url": base_url, "follow_redirects": 1 });
    let config: Config = serde_json::from_value(config).unwrap();
    HttpAdapter::new(None, config.check().unwrap(), tls)
}

fn trusting() -> TlsConfig {
    let authority = Certificate::from_pem(AUTHORITY).unwrap();
    TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[authority])).build()
}

#[test]
fn calls_share_an_encrypted_connection() {
    let (address, server) = serve(FINE);
    let adapter = adapter(&format!("https://user:pw@localhost:{}", address.port()), trusting());
    for _ in 0..3 {
        let output = testing::call(&adapter, "t", "m", json!({})).unwrap();
        assert_eq!(output["ok"], true);
    }
    adapter.shutdown();
    let seen = String::from_utf8(server.join().unwrap()).unwrap();
    assert_eq!(seen.matches("POST /t/m HTTP/1.1\r\n").count(), 3);
    assert_eq!(seen.to_lowercase().matches("authorization: basic dxnlcjpwdw==\r\n").count(), 3);
}

fn assert_nothing_is_sent(host: &str, tls: TlsConfig) {
    let (address, server) = serve(FINE);
    let host = format!("{host}:{}", address.port());
    let adapter = adapter(&format!("https://user:pw@{host}"), tls);
    let error = testing::call(&adapter, "t", "m", json!({})).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert!(error.details["error"].as_str().unwrap().contains("certificate"), "{error:?}");
    assert_eq!(error.message, format!("Failed to connect to https://{host}/t/m"));
    assert_eq!(server.join().unwrap(), b"");
}

#[test]
fn certificate_of_an_unknown_authority_is_refused() {
    assert_nothing_is_sent("localhost", TlsConfig::default());
}

#[test]
fn certificate_of_another_host_is_refused() {
    assert_nothing_is_sent("127.0.0.1", trusting());
}

#[test]
fn a_redirect_out_of_tls_is_refused() {
    let found = "HTTP/1.1 307 Away\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n";
    let (address, server) = serve(found);
    let adapter = adapter(&format!("https://localhost:{}", address.port()), trusting());
    let error = testing::call(&adapter, "t", "m", json!({})).unwrap_err();
    assert_eq!(error.code, code::HTTP_ERROR);
    assert_eq!(error.message, "HTTP 307: Away (from https to http)");
    adapter.shutdown();
    drop(server.join().unwrap());
}

#[test]
fn server_without_tls_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let mut seen = Vec::new();
        drop(socket.read_to_end(&mut seen));
        seen
    });
    let adapter = adapter(&format!("https://{address}"), trusting());
    let error = testing::call(&adapter, "t", "m", json!({ "secret": "hush" })).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert!(!String::from_utf8_lossy(&server.join().unwrap()).contains("hush"));
}

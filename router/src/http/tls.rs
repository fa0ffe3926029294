//! Certificates and keys from files.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::Error;
use crate::config::TlsFiles;

/// Makes an acceptor of a certificate chain and its key.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, Error> {
    let wrong = |file: &Path, message: String| Error::Tls { file: file.to_owned(), message };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&files.cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, "it holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.cert, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.cert, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

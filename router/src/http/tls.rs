//! Certificates and keys from files, read again when they were renewed.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::Error;
use crate::config::TlsFiles;
use crate::files;

/// How often the files are looked at, at most.
const PAUSE: Duration = Duration::from_secs(1);

/// Largest key file, in bytes.
const MAX_KEY: u64 = 1024 * 1024;

/// What tells one state of the files from another.
type Mark = [Option<(u64, u64, u32, i64, i64)>; 2];

/// A certificate with its key, as the files have it.
pub(super) struct Certificate {
    files: TlsFiles,
    acceptor: TlsAcceptor,
    mark: Mark,
    looked: Instant,
}

impl Certificate {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, Error> {
        let mark = mark(files);
        let acceptor = acceptor(files)?;
        Ok(Self { files: files.clone(), acceptor, mark, looked: Instant::now() })
    }

    /// Returns what shakes hands with the present certificate. One that was renewed is taken up by new
    /// connections; one that cannot be used is told of once, and the old one stays.
    pub(super) fn acceptor(&mut self) -> TlsAcceptor {
        if self.looked.elapsed() >= PAUSE {
            self.looked = Instant::now();
            let now = mark(&self.files);
            if now != self.mark {
                self.mark = now;
                match acceptor(&self.files) {
                    Ok(renewed) => {
                        tracing::info!(file = %self.files.cert.display(), "the certificate was renewed");
                        self.acceptor = renewed;
                    }
                    Err(error) => {
                        tracing::error!(%error, "the renewed certificate is refused; the old one stays");
                    }
                }
            }
        }
        self.acceptor.clone()
    }
}

fn mark(files: &TlsFiles) -> Mark {
    [&files.cert, &files.key].map(|file| {
        let file = std::fs::metadata(file).ok()?;
        Some((file.ino(), file.size(), file.mode(), file.mtime(), file.mtime_nsec()))
    })
}

/// Makes an acceptor of a certificate chain and its key.
fn acceptor(names: &TlsFiles) -> Result<TlsAcceptor, Error> {
    let wrong = |file: &Path, message: String| Error::Tls { file: file.to_owned(), message };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&names.cert)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&names.cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&names.cert, "it holds no certificate".to_owned()));
    }
    let mut pem = Vec::new();
    files::open_private(&names.key)
        .and_then(|file| file.take(MAX_KEY).read_to_end(&mut pem))
        .map_err(|error| wrong(&names.key, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| wrong(&names.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&names.cert, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&names.cert, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

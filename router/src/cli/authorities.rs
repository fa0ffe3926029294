//! Certificates of authorities that a client of this program trusts, read from a PEM file.

use std::path::Path;

use ureq::tls::{Certificate, PemItem, parse_pem};

use crate::files;

/// The largest file; those of operating systems have a quarter of it.
const MAX_BYTES: usize = 1 << 20;

/// Reads the certificates of a PEM file.
///
/// # Errors
/// Why the file cannot be used.
pub(super) fn read(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = files::read_bounded(file, MAX_BYTES).map_err(|error| error.to_string())?;
    if text.len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        match item.map_err(|error| error.to_string())? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            _ => return Err("it has an entry that is not a certificate".to_owned()),
        }
    }
    if certificates.is_empty() {
        return Err("it does not have a certificate".to_owned());
    }
    Ok(certificates)
}

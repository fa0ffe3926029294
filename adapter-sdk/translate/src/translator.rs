//! One target with its binding: from the bytes of a document to a payload and its digest, or a refusal.

use alloc::format;
use alloc::string::String;

use sha2::{Digest as _, Sha256};

use crate::binding::{Binding, Setting, pointer};
use crate::document::Document;
use crate::express;
use crate::refusal::{Refusal, rule};
use crate::scan::scan;
use crate::table::Table;
use crate::target::{Endpoint, Target};
use crate::text::shown;
use crate::writer::Writer;

/// A pure function from canonical documents to payloads.
#[derive(Clone, Debug)]
pub struct Translator {
    target: &'static Target,
    table: &'static Table,
    binding: Binding,
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The body of the request, in the form of RFC 8785.
    pub payload: String,
    /// The SHA-256 of the payload, in hexadecimal digits.
    pub sha256: String,
    /// The SHA-256 of the document that it was made of.
    pub canonical_sha256: String,
}

impl Translator {
    /// Binds a target.
    ///
    /// # Errors
    /// When a setting is missing, unknown or wrong, or names a version of the API without a table.
    pub fn new(
        target: &'static Target,
        settings: impl IntoIterator<Item = (impl Into<String>, Setting)>,
    ) -> Result<Self, Refusal> {
        let binding = Binding::new(target.binding, target.relations, settings)?;
        let version = binding.text("api_version").unwrap_or_default();
        let Some(table) = target.tables.iter().find(|table| table.api_version == version) else {
            let known: alloc::vec::Vec<&str> =
                target.tables.iter().map(|table| table.api_version).collect();
            let why = format!("it must be {}, and is {}", known.join(" or "), shown(version));
            let pointer = "/api_version".into();
            return Err(Refusal::new(rule::API_VERSION_UNSUPPORTED, pointer, why));
        };
        if let Some(setting) = table.refused_settings.iter().find(|it| binding.has_any(&[it])) {
            let why = format!("version {version} of the API refuses it");
            return Err(Refusal::new(rule::BINDING_INVALID, pointer(setting), why));
        }
        Ok(Self { target, table, binding })
    }

    /// Renders the exact bytes of a document.
    ///
    /// # Errors
    /// The first rule that the document breaks. Then there is no part of a payload either.
    pub fn render(&self, bytes: &[u8]) -> Result<Rendered, Refusal> {
        let tape = scan(bytes)?;
        let document = Document::decode(&tape, self.target.canonical_versions, self.target.id)?;
        express::hold(&document, self.table, &self.binding)?;
        let mut out = Writer::with_room(bytes.len() + 256);
        (self.target.write)(&document, self.table, &self.binding, &mut out);
        let payload = out.finish();
        let sha256 = sha256(payload.as_bytes());
        Ok(Rendered { payload, sha256, canonical_sha256: self::sha256(bytes) })
    }

    /// Returns the target.
    #[must_use]
    pub const fn target(&self) -> &'static Target {
        self.target
    }

    /// Returns the table that documents are held to.
    #[must_use]
    pub const fn table(&self) -> &'static Table {
        self.table
    }

    /// Returns the binding.
    #[must_use]
    pub const fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Returns the digest of the binding: the SHA-256 of its canonical text.
    #[must_use]
    pub fn binding_sha256(&self) -> String {
        sha256(self.binding.to_canonical().as_bytes())
    }

    /// Returns where payloads go.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        (self.target.endpoint)(&self.binding)
    }
}

/// Returns the SHA-256 of bytes, in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

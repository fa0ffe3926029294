//! The metadata of a library: one record per factory in an ELF section, readable without running code.
//!
//! A record is [`MAGIC`], the length of the JSON text as a little-endian `u32`, and the text. Records
//! follow each other; zero bytes between them are padding. The text has the members `abi`, `sdk`,
//! `package`, `version`, `factory` and `manifest` (an object, or null).

use crate::Manifest;

/// The section that holds the records.
pub const SECTION: &str = ".nexus_adapter";

/// The first bytes of a record.
pub const MAGIC: [u8; 8] = *b"NXADPT01";

/// What a record says of where it was built.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The package that holds the factory.
    pub package: &'static str,
    /// The version of that package.
    pub version: &'static str,
    /// The name under which the factory is exported.
    pub factory: &'static str,
}

/// Returns the length of a record.
#[must_use]
pub const fn record_len(origin: &Origin, manifest: Option<&Manifest>) -> usize {
    let mut writer = Writer { out: None, len: 0 };
    writer.record(origin, manifest, 0);
    writer.len
}

/// Writes a record. `N` is its [`record_len`].
#[must_use]
pub const fn record<const N: usize>(origin: &Origin, manifest: Option<&Manifest>) -> [u8; N] {
    let mut bytes = [0; N];
    let mut writer = Writer { out: Some(&mut bytes), len: 0 };
    writer.record(origin, manifest, N - MAGIC.len() - 4);
    bytes
}

/// Returns a manifest as a record holds it.
pub(crate) fn manifest_json(manifest: &Manifest) -> Vec<u8> {
    let mut counter = Writer { out: None, len: 0 };
    counter.manifest(manifest);
    let mut bytes = vec![0; counter.len];
    Writer { out: Some(&mut bytes), len: 0 }.manifest(manifest);
    bytes
}

/// A writer that also works at compile time, and only counts when it has no buffer.
struct Writer<'a> {
    out: Option<&'a mut [u8]>,
    len: usize,
}

impl Writer<'_> {
    const fn record(&mut self, origin: &Origin, manifest: Option<&Manifest>, text_len: usize) {
        self.bytes(&MAGIC);
        assert!(text_len <= u32::MAX as usize);
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        self.bytes(&(text_len as u32).to_le_bytes());
        self.raw("{\"abi\":");
        self.number(nexus_router_abi::ABI_VERSION);
        self.raw(",\"sdk\":");
        self.string(env!("CARGO_PKG_VERSION"));
        self.raw(",\"package\":");
        self.string(origin.package);
        self.raw(",\"version\":");
        self.string(origin.version);
        self.raw(",\"factory\":");
        self.string(origin.factory);
        self.raw(",\"manifest\":");
        match manifest {
            Some(manifest) => self.manifest(manifest),
            None => self.raw("null"),
        }
        self.raw("}");
    }

    const fn manifest(&mut self, manifest: &Manifest) {
        self.raw("{\"schema_version\":1,\"kind\":");
        self.string(manifest.kind);
        self.raw(",\"capabilities\":[");
        let mut i = 0;
        while i < manifest.capabilities.len() {
            self.comma(i);
            self.string(manifest.capabilities[i].name());
            i += 1;
        }
        self.raw("]");
        if let Some(specifier) = manifest.router_versions {
            self.raw(",\"supported_router_versions\":");
            self.string(specifier);
        }
        if let Some(keys) = manifest.config {
            self.raw(",\"config_schema\":{");
            let mut i = 0;
            while i < keys.len() {
                self.comma(i);
                self.config_key(&keys[i]);
                i += 1;
            }
            self.raw("}");
        }
        if let Some(codes) = manifest.error_codes {
            self.raw(",\"error_codes\":[");
            let mut i = 0;
            while i < codes.len() {
                self.comma(i);
                self.string(codes[i]);
                i += 1;
            }
            self.raw("]");
        }
        self.raw("}");
    }

    const fn config_key(&mut self, key: &crate::ConfigKey) {
        self.string(key.name);
        self.raw(":{\"type\":");
        self.string(key.value_type.name());
        self.raw(",\"required\":");
        self.raw(if key.required { "true" } else { "false" });
        if let Some(json) = key.default_json {
            self.raw(",\"default\":");
            self.raw(json);
        }
        self.raw(",\"description\":");
        self.string(key.description);
        self.raw("}");
    }

    const fn comma(&mut self, index: usize) {
        if index > 0 {
            self.raw(",");
        }
    }

    const fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }

    const fn string(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.byte(b'"');
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                special @ (b'"' | b'\\') => self.bytes(&[b'\\', special]),
                control @ 0..=0x1f => self.bytes(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[(control >> 4) as usize],
                    HEX[(control & 15) as usize],
                ]),
                plain => self.byte(plain),
            }
            i += 1;
        }
        self.byte(b'"');
    }

    const fn raw(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    const fn bytes(&mut self, bytes: &[u8]) {
        let mut i = 0;
        while i < bytes.len() {
            self.byte(bytes[i]);
            i += 1;
        }
    }

    const fn byte(&mut self, byte: u8) {
        if let Some(out) = &mut self.out {
            out[self.len] = byte;
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capability, ConfigKey, ValueType};

    const MANIFEST: Manifest = Manifest::new("say \"hi\"\n", &[Capability::Apply])
        .router_versions(">=1.2,<2")
        .config(&[
            ConfigKey::required("url", ValueType::String, "Where \\ to"),
            ConfigKey::optional("n", ValueType::Number, "").default_json("1.5"),
        ])
        .error_codes(&["TIMEOUT", "X"]);
    const ORIGIN: Origin = Origin { package: "p", version: "0.1.0", factory: "create_adapter" };

    #[test]
    fn record_is_made_at_compile_time_and_reads_back() {
        const LEN: usize = record_len(&ORIGIN, Some(&MANIFEST));
        const RECORD: [u8; LEN] = record(&ORIGIN, Some(&MANIFEST));
        assert_eq!(RECORD[..8], MAGIC);
        let len = u32::from_le_bytes(RECORD[8..12].try_into().unwrap()) as usize;
        assert_eq!(len, LEN - 12);
        let text: serde_json::Value = serde_json::from_slice(&RECORD[12..]).unwrap();
        assert_eq!(
            text,
            serde_json::json!({
                "abi": 1, "sdk": env!("CARGO_PKG_VERSION"), "package": "p", "version": "0.1.0",
                "factory": "create_adapter",
                "manifest": {
                    "schema_version": 1, "kind": "say \"hi\"\n", "capabilities": ["apply"],
                    "supported_router_versions": ">=1.2,<2",
                    "config_schema": {
                        "url": {"type": "string", "required": true, "description": "Where \\ to"},
                        "n": {"type": "number", "required": false, "default": 1.5, "description": ""},
                    },
                    "error_codes": ["TIMEOUT", "X"],
                },
            })
        );
        assert_eq!(text["manifest"], crate::testing::manifest(&MANIFEST));
    }
}

//! Any bytes as JSON: they are read or refused, and every text of what was read reads back as the same.
#![no_main]

use nexus_router::json::{self, Limits};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let value = match json::parse(bytes, Limits::default()) {
        Ok(value) => value,
        Err(error) => return drop((error.to_string(), error.hint())),
    };
    for text in [json::to_canonical(&value), json::to_compact(&value), json::to_pretty(&value)] {
        let read = json::parse(text.as_bytes(), Limits::BUNDLE);
        assert_eq!(read.as_ref(), Ok(&value), "{text}");
    }
    drop(value.to_serde());
});

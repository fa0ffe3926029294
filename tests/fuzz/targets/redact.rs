//! Any text: redacting it never panics, and redacting twice changes nothing more.
#![no_main]

use nexus_router_sdk::redact;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let once = redact::text(text);
    assert_eq!(redact::text(&once), once);
    drop(redact::url(text));
    if let Ok(value) = serde_json::from_str(text) {
        let once = redact::value(&value);
        assert_eq!(redact::value(&once), once);
    }
});

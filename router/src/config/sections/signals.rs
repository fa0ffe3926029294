//! Reads `[signals]`, and what `[[adapters]]` says of signal contracts.

use std::path::Path;

use crate::config::reader::Section;
use crate::config::settings::{AdapterEntry, SignalSettings};
use crate::signal::{is_id, is_pointer};

pub(super) fn signals(section: &Section<'_>, base: &Path) -> SignalSettings {
    let path = |key| section.text(key).map(|text| base.join(text));
    SignalSettings {
        directory: path("directory"),
        policy: path("policy"),
        manifest: path("manifest"),
        publisher: path("publisher"),
    }
}

/// Reads what an adapter's entry says of its signals.
pub(super) fn of_adapter(section: &Section<'_>, base: &Path, entry: AdapterEntry) -> AdapterEntry {
    let signal = section.text("signal").filter(|text| {
        let fits = is_id(text) || is_pointer(text);
        if !fits {
            let hint = "such as acme.eval_suite.v0, or acme.eval_suite.v0@1.0.0 for one version";
            section.wrong("signal", "is neither ID nor ID@VERSION", hint);
        }
        fits
    });
    let signal_fields = section.text("signal_fields").filter(|text| {
        let fits = text.starts_with('/');
        if !fits {
            let hint = "such as /args; without it, the whole output is taken";
            section.wrong("signal_fields", "is no JSON pointer", hint);
        }
        fits
    });
    let acceptance = section.text("acceptance").map(|text| base.join(text));
    for (key, given) in
        [("signal_fields", signal_fields.is_some()), ("acceptance", acceptance.is_some())]
    {
        if given && section.get("signal").is_none() {
            let hint = "name the contract with signal = \"ID\", or leave this out";
            section.wrong(key, "stands without signal", hint);
        }
    }
    AdapterEntry { signal, signal_fields, acceptance, ..entry }
}

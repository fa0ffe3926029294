//! The exact payload of every document that a target takes, as recorded.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nexus_router_translate::is_canonical;

use crate::support::{canonical, golden, retargeted, translators};

/// Every payload by its file: each document for each target; of those compiled for one, that one alone.
fn payloads() -> Vec<(PathBuf, String, String)> {
    let mut payloads = Vec::new();
    for (target, translator) in translators() {
        for (id, text) in canonical() {
            let own = format!("\"target_provider_id\":\"{}\"", target.id);
            if id.starts_with("t_") && !text.contains(&own) {
                continue;
            }
            let text = retargeted(&text, target.id);
            if let Ok(rendered) = translator.render(text.as_bytes()) {
                let file = PathBuf::from(target.id).join(format!("{id}.json"));
                payloads.push((file, rendered.payload, rendered.sha256));
            }
        }
    }
    payloads
}

#[test]
fn payloads_are_those_that_were_recorded() {
    let payloads = payloads();
    assert!(payloads.len() > 60, "{}", payloads.len());
    let place = golden().join("payloads");
    let sums: String = payloads
        .iter()
        .map(|(file, _, sha256)| format!("{sha256}  {}\n", file.display()))
        .collect();
    if std::env::var_os("NEXUS_ROUTER_BLESS").is_some() {
        for (file, payload, _) in &payloads {
            std::fs::create_dir_all(place.join(file).parent().unwrap()).unwrap();
            std::fs::write(place.join(file), payload).unwrap();
        }
        std::fs::write(place.join("SHA256SUMS"), &sums).unwrap();
    }
    for (file, payload, _) in &payloads {
        let recorded = std::fs::read_to_string(place.join(file));
        let recorded = recorded.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(*payload, recorded, "{}", file.display());
        is_canonical(payload.as_bytes()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(place.join("SHA256SUMS")).unwrap(), sums);
    // Nothing is recorded that is not made any more.
    let made: BTreeSet<PathBuf> = payloads.iter().map(|(file, ..)| place.join(file)).collect();
    for directory in std::fs::read_dir(&place).unwrap().flatten() {
        for file in std::fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            assert!(made.contains(&file.path()), "{}", file.path().display());
        }
    }
}

//! Every bundle that the Python router wrote, or that was made from one by tampering.

use nexus_router::digest::Digest;
use nexus_router::json::{self, Value};
use nexus_router::store::Store;

use super::{
    Exception, export_digest, golden, import, import_parsed, member, read, replayed, settle, ways,
};

const REFUSED: &[&str] =
    &["import_default", "import_no_verify", "import_no_replay", "replay", "reexport_digest"];

const TWICE: &str = "it names members twice, of which nobody knows which one is meant";

const EXCEPTIONS: &[Exception] = &[
    ("21-nan", REFUSED, "NaN and Infinity are not JSON; they are refused at the edge"),
    ("22-surrogates", REFUSED, "a lone surrogate is no character; it is refused at the edge"),
    ("26-respelled-floats", REFUSED, TWICE),
    ("27-respelled-unicode", REFUSED, TWICE),
    ("28-respelled-bigints", REFUSED, TWICE),
    (
        "42-tampered-uncovered",
        REFUSED,
        "its bundle_version is of an unknown form, which the peer does not look at (flaw E4)",
    ),
];

#[test]
fn bundles_of_the_peer_are_imported_as_it_does() {
    let mut found = Vec::new();
    let mut cases = 0;
    for case in cases_of("") {
        cases += 1;
        let directory = golden("bundles").join(&case);
        let bundle = std::fs::read(directory.join("bundle.json")).unwrap();
        let expected = expected(&case);
        let mut differ = |aspect, ours: &Value, theirs: &Value| {
            if ours != theirs {
                let (ours, theirs) = (json::to_canonical(ours), json::to_canonical(theirs));
                found.push((case.clone(), aspect, format!("{ours}\nnot {theirs}")));
            }
        };
        for (way, options) in ways() {
            let store = Store::in_memory().unwrap();
            let answer = import(&store, &bundle, &options);
            differ(way, &answer, member(&expected, way));
            if let Ok(value) = json::parse(&bundle, json::Limits::BUNDLE) {
                let parsed = import_parsed(&Store::in_memory().unwrap(), &value, &options);
                assert_eq!(parsed, answer, "{case}: text and value are imported differently");
            }
            if way != "import_no_verify" || expected.get("replay").is_none() {
                continue;
            }
            let (mut replay, mut digest) = (Value::Null, Value::Null);
            if let Some(run_id) = answer.get("imported_run_id").and_then(Value::as_str) {
                replay = replayed(&store, run_id);
                digest = export_digest(&store, run_id);
                let record = store.find(run_id).unwrap().unwrap();
                let origin = json::parse(record.origin.unwrap().as_bytes(), json::Limits::REQUEST);
                let computed = member(&expected, "recomputed_digest");
                assert_eq!(member(&origin.unwrap(), "bundle_digest"), computed, "{case}");
            }
            differ("replay", &replay, member(&expected, "replay"));
            differ("reexport_digest", &digest, member(&expected, "reexport_digest"));
        }
    }
    assert_eq!(cases, 42);
    settle(EXCEPTIONS, &found);
}

#[test]
fn the_digest_of_a_bundle_is_that_of_its_canonical_text() {
    for case in cases_of("") {
        let text = std::fs::read(golden("bundles").join(&case).join("digest_input.txt")).unwrap();
        let expected = expected(&case);
        assert_eq!(
            Digest::of(&text).to_string(),
            super::text(&expected, "recomputed_digest"),
            "{case}"
        );
    }
}

#[test]
fn what_a_run_says_beside_its_events_is_what_the_peer_lists() {
    for case in cases_of("") {
        let expected = expected(&case);
        let Some(listed) = expected.get("inspect_run").filter(|run| !run.is_null()) else {
            continue;
        };
        if EXCEPTIONS.iter().any(|(other, ..)| *other == case) {
            continue;
        }
        let bundle = std::fs::read(golden("bundles").join(&case).join("bundle.json")).unwrap();
        for (_, options) in ways() {
            let store = Store::in_memory().unwrap();
            import(&store, &bundle, &options);
            let filter = nexus_router::store::Filter::default();
            let inspection = nexus_router::inspect::inspect(&store, &filter).unwrap().to_json();
            assert_eq!(inspection.pointer("/runs/0").unwrap(), listed, "{case}");
        }
    }
}

/// Returns the names of the cases, sorted.
pub(super) fn cases_of(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(golden("bundles")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

/// Reads what the peer said. Its files have what is no JSON where the case is about that.
fn expected(case: &str) -> Value {
    let path = golden("bundles").join(case).join("expected.json");
    if !["21-nan", "22-surrogates"].contains(&case) {
        return read(&path);
    }
    let mut text = std::fs::read_to_string(path).unwrap();
    for word in ["-Infinity", "Infinity", "NaN"] {
        text = text.replace(word, "null");
    }
    for (surrogate, stand_in) in
        [("\\ud800", "(d800)"), ("\\udfff", "(dfff)"), ("\\udc00", "(dc00)")]
    {
        text = text.replace(surrogate, stand_in);
    }
    json::parse(text.as_bytes(), json::Limits::BUNDLE).unwrap()
}

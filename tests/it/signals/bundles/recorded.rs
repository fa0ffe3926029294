//! What was recorded of the AiGentsy verifier: its command line, its text, and its functions.

use nexus_router::digest::Digest;
use nexus_router::json::{Limits, Value, parse, to_canonical};
use nexus_router::key::PublicKey;
use nexus_router::merkle;
use nexus_router::signal::bundle;
use serde_json::json;

use super::{Exception, golden, play};
use crate::support::World;

/// Where the command line differs on purpose, by the number of the weak point.
const EXCEPTIONS: &[Exception] = &[
    ("bundle-anchor-suffix-appended", "2: the last event is later than the tree head"),
    ("bundle-other-id-rehash", "3: the evaluation is of another adapter than the declaration"),
    ("bundle-strip-decl-rehash", "4: an evaluation without its declaration shows nothing"),
    ("bundle-event-ae-bad-only", "4: evaluations of events are checked too"),
    ("bundle-strict-json-nokey", "11: --strict counts with --json too"),
    ("bundle-event-foreign-deal", "11: events are of the deal of the bundle"),
    ("bundle-anchor-sth-size-differs-nokey", "11: head and proof are of the same tree"),
];

/// Where the report says more: the verdict and every member of the peer are the same, and `anchoring` stands beside
/// them.
const ANCHORING: &[(&str, &str, i64)] = &[
    ("bundle-anchored-first-event", "anchored_in_part", 1),
    ("bundle-anchored-middle", "anchored_in_part", 2),
    ("bundle-swarm-dec-anchor-before", "anchored_in_part", 2),
    ("bundle-anchor-no-sth", "not_anchored", 0),
    ("bundle-anchor-empty-sth", "not_anchored", 0),
    ("bundle-anchor-no-inclusion", "not_anchored", 0),
    ("bundle-anchor-inclusion-empty-object", "not_anchored", 0),
];

#[test]
fn the_command_line_agrees() {
    let is_more = |id: &str| ANCHORING.iter().any(|(known, ..)| *known == id);
    play("cli_verify_bundle.json", |id| !is_more(id), EXCEPTIONS);
}

/// Bundles of others that are anchored in part, or not at all, verify as they do for the peer, and the report says so.
#[test]
fn clean_bundles_of_others_verify_with_their_anchoring() {
    let file = golden("cli_verify_bundle.json");
    for (id, status, covered) in ANCHORING {
        let case = cases(&file, "cases").iter().find(|case| case["id"] == *id).unwrap();
        let step = &case["steps"][0];
        let recorded = &step["stdout_json"];
        assert_eq!((&recorded["verified"], &step["exit"]), (&json!(true), &json!(0)), "{id}");
        let world = World::new();
        for (name, content) in case["files"].as_object().unwrap() {
            std::fs::write(world.path(name), content.as_str().unwrap()).unwrap();
        }
        let words = step["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words: Vec<&str> =
            ["contract", "bundle", "verify"].into_iter().chain(words.skip(1)).collect();
        let run = world.run(&words);
        assert_eq!(run.code(), 0, "{id}: {}", run.stdout());
        assert!(run.stderr().contains("--strict refuses"), "{id}: {}", run.stderr());
        // What is recorded, and one more member.
        let mut got = run.json();
        let anchoring = got.as_object_mut().unwrap().remove("anchoring").unwrap();
        assert_eq!(got, *recorded, "{id}");
        let uncovered = recorded["event_count"].as_i64().unwrap() - covered;
        let counts = [&anchoring["covered_events"], &anchoring["uncovered_events"]];
        assert_eq!(
            (&anchoring["status"], counts),
            (&json!(status), [&json!(covered), &json!(uncovered)]),
            "{id}"
        );
        // For people too.
        let text: Vec<&str> = words.iter().copied().filter(|word| *word != "--json").collect();
        let text = world.run(&text).stdout();
        let expected = if *covered == 0 { "NOT ANCHORED" } else { "IN PART (" };
        let message = anchoring["message"].as_str().unwrap();
        assert!(text.contains(expected) && text.contains(message), "{id}: {text}");
        // Whoever needs more asks for it.
        let strict = world.run(&[&words[..], &["--strict"]].concat());
        assert_eq!(strict.code(), 1, "{id}: {}", strict.stdout());
        let reason = strict.json()["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("--strict requires full coverage"), "{id}: {reason}");
    }
}

/// Turns a value of golden data into one of ours. Numbers keep their text.
fn ours(value: &serde_json::Value) -> Value {
    parse(value.to_string().as_bytes(), Limits::BUNDLE).unwrap()
}

/// Compares a result with what was recorded, with the order of members.
fn same(id: &str, got: &Value, recorded: &serde_json::Value) {
    let expected = nexus_router::json::to_compact(&ours(recorded));
    assert_eq!(nexus_router::json::to_compact(got), expected, "{id}");
}

fn key(text: &serde_json::Value) -> Option<PublicKey> {
    format!("ed25519:{}", text.as_str().unwrap()).parse().ok()
}

fn cases<'a>(file: &'a serde_json::Value, group: &str) -> &'a Vec<serde_json::Value> {
    let cases = file[group].as_array().unwrap();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn the_functions_agree() {
    for name in ["verify_adapter.json", "verify_fuzz.json"] {
        let file = golden(name);
        if name == "verify_adapter.json" {
            for case in cases(&file, "schema_validation") {
                let errors = bundle::schema(&ours(&case["declaration"]));
                // Weak point 13: a version that ends with a newline is none.
                let differs = case["id"] == "newline-quirk";
                match case.get("crash") {
                    None => assert_eq!(
                        serde_json::json!(errors) == case["errors"],
                        !differs,
                        "{}: {errors:?}",
                        case["id"]
                    ),
                    Some(_) => assert!(!errors.is_empty(), "{}", case["id"]),
                }
            }
        }
        for (group, given, function) in [
            ("evaluations", "evaluation", bundle::replay_evaluation as fn(&Value) -> _),
            ("policy_replays", "policy_snapshot", bundle::replay_policy),
            ("bundle_replays", "bundle", bundle::replay),
        ] {
            for case in cases(&file, group) {
                let id = format!("{name} {group} {}", case["id"]);
                let got = Value::from(function(&ours(&case[given])));
                match case.get("crash") {
                    None => same(&id, &got, &case["result"]),
                    // What the peer cannot compare does not hold.
                    Some(_) => {
                        let got = to_canonical(&got);
                        let refused = ["does_not_fire", "shape_invalid"];
                        let passed = got.contains("\"legacy_no_adapter\"");
                        assert!(passed || refused.iter().any(|it| got.contains(it)), "{id}: {got}");
                    }
                }
            }
        }
    }
}

#[test]
fn whole_bundles_agree() {
    let file = golden("verify_fuzz.json");
    for case in cases(&file, "bundles") {
        let got = bundle::core(&ours(&case["bundle"]), key(&case["public_key_base64"]).as_ref());
        if case.get("crash").is_some() {
            assert_eq!(got.get("verified"), Some(&Value::Bool(false)), "{}", case["id"]);
        } else {
            same(case["id"].as_str().unwrap(), &got.into(), &case["result"]);
        }
    }
}

#[test]
fn trees_and_their_proofs_agree() {
    let file = golden("merkle.json");
    let hash = |value: &serde_json::Value| -> Digest { value.as_str().unwrap().parse().unwrap() };
    let hashes = |value: &serde_json::Value| -> Vec<Digest> {
        value.as_array().unwrap().iter().map(hash).collect()
    };
    let data = cases(&file, "leaf_data_utf8");
    let leaves = hashes(&file["leaf_hashes"]);
    for (data, leaf) in data.iter().zip(&leaves) {
        assert_eq!(merkle::leaf(data.as_str().unwrap().as_bytes()), *leaf);
    }
    let tree: merkle::Memory = leaves.iter().copied().collect();
    for case in cases(&file, "roots") {
        let size = case["tree_size"].as_u64().unwrap();
        assert_eq!(merkle::root_at(&tree, size).unwrap(), hash(&case["root"]), "{size}");
    }
    for case in cases(&file, "node_hashes") {
        let node = merkle::node(&hash(&case["left"]), &hash(&case["right"]));
        assert_eq!(node, hash(&case["node"]));
    }
    for case in cases(&file, "inclusion") {
        let number = |key: &str| case[key].as_u64().unwrap();
        let root = case["root"].as_str().unwrap();
        // A root is compared as text: no other text names it.
        let valid = root.to_lowercase() == root
            && merkle::verify_inclusion(
                &hash(&case["leaf_hash"]),
                number("leaf_index"),
                number("tree_size"),
                &hashes(&case["proof"]),
                &hash(&case["root"]),
            );
        assert_eq!(valid, case["valid"], "{case}");
        // A proof may hold for a size that is not the one of its root: the path is the same.
        if valid && merkle::root_at(&tree, number("tree_size")).unwrap() == hash(&case["root"]) {
            let made = merkle::inclusion(&tree, number("leaf_index"), number("tree_size"));
            assert_eq!(made.unwrap().unwrap(), hashes(&case["proof"]));
        }
    }
    let mut refused_by_the_peer = 0;
    for case in cases(&file, "consistency") {
        let [old, new] = ["old_size", "new_size"].map(|key| case[key].as_u64().unwrap());
        let proof = hashes(&case["proof"]);
        let [of, to] = ["old_root", "new_root"].map(|key| hash(&case[key]));
        let valid = merkle::verify_consistency(old, new, &of, &to, &proof);
        assert_eq!(valid, case["rfc6962_valid"], "{old} of {new}");
        assert_eq!(merkle::consistency(&tree, old, new).unwrap().unwrap(), proof);
        refused_by_the_peer += usize::from(case["tool_result"] == false);
    }
    assert!(refused_by_the_peer > 100, "weak point 8: {refused_by_the_peer}");
    for case in cases(&file, "event_leaves") {
        let event = ours(&case["event"]);
        assert_eq!(serde_json::json!(bundle::leaf_text(&event)), case["preimage"]);
        let leaf = bundle::leaf(&event).map(|leaf| leaf.to_string());
        assert_eq!(serde_json::json!(leaf), case["leaf_hash"]);
    }
}

#[test]
fn signatures_and_receipts_agree() {
    let file = golden("signatures.json");
    for case in cases(&file, "sth") {
        let head = ours(&case["sth"]);
        assert_eq!(bundle::head_text(&head), case["signed_text"], "{}", case["id"]);
        let key = key(&case["public_key_base64"]);
        let valid = key.is_some_and(|key| bundle::head_holds(&head, &key));
        assert_eq!(valid, case["valid"], "{}", case["id"]);
    }
    for case in cases(&file, "attestations") {
        let text = |name: &str| case[name].as_str().unwrap();
        let attestation = ours(&case["attestation"]);
        assert_eq!(to_canonical(&attestation), text("canonical"));
        let key = key(&case["public_key_base64"]).unwrap();
        let (signature, algorithm) = (text("signature_base64"), text("algorithm"));
        let valid = bundle::attestation_holds(&attestation, signature, algorithm, &key);
        assert_eq!(valid, case["valid"], "{}", case["id"]);
    }
    for case in cases(&file, "anchor_receipts") {
        let (passed, details) = bundle::anchor_receipt(&ours(&case["receipt"]));
        assert_eq!(passed, case["passed"], "{}", case["id"]);
        same(case["id"].as_str().unwrap(), &details.into(), &case["details"]);
    }
}

/// Returns the paragraphs of a text, but for those that are ours.
fn paragraphs(text: &str) -> Vec<String> {
    text.split("\n\n").filter(|it| !it.contains("Signing model:")).map(str::to_owned).collect()
}

/// Texts of the peer that are not true of what they tell, and ours.
const TEXTS: [(&str, &str); 3] = [
    ("AiGentsy ProofPack", "nexus-router ProofPack"),
    // Bundles are verified offline.
    ("use --fetch-key or --public-key", "use --public-key"),
    // Weak point 12: they are outside of the bundle hash.
    ("(recorded; tamper-evident via the bundle hash)", "(recorded; no hash covers it)"),
];

#[test]
fn the_text_agrees_where_it_is_true() {
    let file = golden("cli_verify_bundle.json");
    let mut seen = 0;
    for case in cases(&file, "cases") {
        let step = &case["steps"][0];
        let expected = step["stdout"].as_str().unwrap();
        if !expected.contains("ProofPack verification") {
            continue;
        }
        seen += 1;
        let world = World::new();
        for (name, text) in case["files"].as_object().unwrap() {
            std::fs::write(world.path(name), text.as_str().unwrap()).unwrap();
        }
        let words = step["argv"].as_array().unwrap().iter().skip(1).map(|it| it.as_str().unwrap());
        let arguments: Vec<&str> =
            ["contract", "bundle", "verify"].into_iter().chain(words).collect();
        let got = world.run(&arguments).stdout();
        let mut expected = expected.to_owned();
        for (theirs, ours) in TEXTS {
            expected = expected.replace(theirs, ours);
        }
        assert_eq!(paragraphs(&got), paragraphs(&expected), "{}", case["id"]);
        assert!(!got.contains("tamper"), "{got}");
    }
    assert!(seen >= 9, "{seen}");
}

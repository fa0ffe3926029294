//! Publishing contracts: entries, keys, manifests and pins, and how they are those of the AiGentsy tools.

mod building;
mod fetched;
mod fresh;
mod gate;
mod hostile;
mod https;
mod pinning;
mod shop;

use serde_json::Value;

use super::transcript::{Exception, case_differs, golden, play};
use crate::support::World;

const UNTIDY: &str =
    "pointers are checked: the documentation calls them adapter_id@semver (weak point 7)";
const UNCHECKED: &str = "names, versions and hashes are checked (weak point 7)";
const NOTHING: &str = "yes must not mean that nothing was checked (weak point 7)";
const OTHER_HASH: &str = "--hash is compared with the entry, and differs (weak point 6)";
const NOT_SIGNED: &str =
    "a key is given, and the signature does not hold or is not there (weak point 6)";
const CHANGED: &str = "the entry or the manifest was changed after it was hashed (weak point 6)";

#[test]
fn attesting_is_that_of_the_peer() {
    play("cli_attest.json", |_| true, &[("attest-pointers-not-validated", UNTIDY)]);
}

#[test]
fn pinning_is_that_of_the_peer() {
    let exceptions: [Exception; 8] = [
        ("pin-hash-differs-from-manifest", OTHER_HASH),
        ("pin-first-match", OTHER_HASH),
        ("pin-active-wrongkey", NOT_SIGNED),
        ("pin-sig-absent", NOT_SIGNED),
        ("pin-entry-hash-absent", NOT_SIGNED),
        ("pin-entry-mismatch", CHANGED),
        ("pin-odd-status", "a status that nobody knows is refused (weak point 6)"),
        ("pin-existing-corrupt", "a corrupt pin file is never overwritten (weak point 6)"),
    ];
    play("cli_pin.json", |_| true, &exceptions);
}

#[test]
fn manifests_are_verified_as_by_the_peer() {
    let exceptions: [Exception; 4] = [
        ("mverify-empty-object", NOTHING),
        ("mverify-contracts-null", NOTHING),
        ("mverify-contract-hash-not-checked", UNCHECKED),
        ("mverify-id-not-checked", UNCHECKED),
    ];
    play("cli_manifest_verify.json", |_| true, &exceptions);
}

#[test]
fn listing_is_that_of_the_peer() {
    play("cli_list.json", |_| true, &[]);
}

/// The cases of random manifests whose pin is made with a hash that no entry has.
const RANDOM: [&str; 12] =
    ["000", "001", "002", "004", "005", "006", "007", "009", "010", "011", "012", "014"];

#[test]
fn random_manifests_are_treated_as_by_the_peer() {
    let names: Vec<String> = RANDOM.iter().map(|it| format!("fuzz-manifest-{it}")).collect();
    let exceptions: Vec<(&'static str, &'static str)> =
        names.into_iter().map(|name| (&*name.leak(), OTHER_HASH)).collect();
    play("cli_fuzz.json", |id| id.starts_with("fuzz-manifest"), &exceptions);
}

/// The same, with the hash that the entry has: then only what was changed is refused.
#[test]
fn random_manifests_are_pinned_as_by_the_peer() {
    let changed = ["004", "005", "006", "009", "010", "011"];
    let mut played = 0;
    for case in golden("cli_fuzz.json")["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let Some(number) = id.strip_prefix("fuzz-manifest-").filter(|it| RANDOM.contains(it))
        else {
            continue;
        };
        let words = case["steps"][2]["argv"].as_array().unwrap();
        let after = |option: &str| {
            let place = words.iter().position(|word| word == option).unwrap();
            &words[place + 1]
        };
        let manifest: Value =
            serde_json::from_str(case["files"]["m.json"].as_str().unwrap()).unwrap();
        let is_it = |entry: &&Value| {
            entry["adapter_id"] == *after("--id") && entry["adapter_version"] == *after("--version")
        };
        let entry = manifest["contracts"].as_array().unwrap().iter().find(is_it).unwrap();
        let text = serde_json::to_string(case).unwrap();
        let text = text.replace(&"c".repeat(64), entry["contract_hash"].as_str().unwrap());
        let difference = case_differs(&serde_json::from_str(&text).unwrap());
        match changed.contains(&number) {
            true => {
                let difference = difference.unwrap_or_else(|| panic!("{id}: {CHANGED}"));
                assert!(difference.starts_with("step 2 "), "{id}: {difference}");
                assert!(difference.contains("does not hold"), "{id}: {difference}");
            }
            false => assert_eq!(difference, None, "{id}"),
        }
        played += 1;
    }
    assert_eq!(played, RANDOM.len());
}

/// The list is for people, so its text is compared, but for the last line, in which each program names its own commands.
#[test]
fn lists_read_as_those_of_the_peer() {
    let mut compared = 0;
    for name in ["cli_list.json", "cli_fuzz.json"] {
        for case in golden(name)["cases"].as_array().unwrap() {
            for step in case["steps"].as_array().unwrap() {
                if step["argv"][1] != "list" || step["exit"] != 0 {
                    continue;
                }
                let world = World::new();
                let file = world.path("m.json");
                std::fs::write(&file, case["files"]["m.json"].as_str().unwrap()).unwrap();
                let listed = world.run(&["contract", "list", "--manifest", file.to_str().unwrap()]);
                let lines = |text: &str| -> Vec<String> {
                    let lines = text.lines().filter(|line| !line.starts_with("NOTE: "));
                    lines.map(str::to_owned).collect()
                };
                let expected = lines(step["stdout"].as_str().unwrap());
                assert_eq!(lines(&listed.stdout()), expected, "{}", case["id"]);
                assert!(listed.stdout().contains("NOTHING here was verified"));
                compared += 1;
            }
        }
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn hashes_and_signatures_are_those_of_the_peer() {
    let recorded = golden("hash_entries.json");
    let world = World::new();
    let key =
        shop::key_of_seed(&world, recorded["keys"]["publisher_1"]["seed_hex"].as_str().unwrap());
    let public = recorded["keys"]["publisher_1"]["public_key_base64"].as_str().unwrap();
    assert_eq!(key.public().to_base64(), public);
    for case in recorded["entries"].as_array().unwrap() {
        let mut entry = shop::object(&case["entry"]);
        assert_eq!(nexus_router::signal::entry_hash(&entry), case["entry_hash"], "{case}");
        nexus_router::signal::sign_entry(&mut entry, &key);
        assert_eq!(shop::member(&entry, "entry_hash"), case["entry_hash"], "{case}");
        assert_eq!(shop::member(&entry, "entry_signature"), case["signature_key1"], "{case}");
    }
    for case in recorded["manifests"].as_array().unwrap() {
        let mut manifest = shop::object(&case["manifest"]);
        nexus_router::signal::manifest::seal(&mut manifest, &key, None);
        assert_eq!(shop::member(&manifest, "manifest_hash"), case["manifest_hash"], "{case}");
        assert_eq!(shop::member(&manifest, "manifest_signature"), case["signature_key1"], "{case}");
        assert_eq!(shop::member(&manifest, "public_key_base64"), public);
    }
    assert_eq!(recorded["entries"].as_array().unwrap().len(), 24);
    assert_eq!(recorded["manifests"].as_array().unwrap().len(), 15);
}

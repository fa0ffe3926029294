//! The registry: what is read, what is passed over, and which version an id stands for.

use std::fs;

use super::*;
use crate::json::{Object, Value, to_pretty};
use crate::signal::{Lifecycle, contract_hash, input_schema_hash};

/// Returns the text of a sound contract.
pub(crate) fn contract(id: &str, version: &str, fields: &[&str], more: &[(&str, &str)]) -> String {
    let fields: Vec<Value> = fields.iter().map(|field| Value::from(*field)).collect();
    let mut declaration = Object::new();
    declaration.insert("_comment", "of a test");
    for (key, value) in [
        ("adapter_contract_version", "1.0.0"),
        ("adapter_id", id),
        ("adapter_version", version),
        ("input_schema_version", "1.0.0"),
        ("validator_name", "starter_boolean_validator"),
        ("validator_version", "1.0.0"),
    ] {
        declaration.insert(key, value);
    }
    declaration.insert("output_fields", fields.clone());
    declaration.insert("allowed_policy_fields", fields);
    for (key, value) in more {
        declaration.insert(*key, *value);
    }
    let hashes = (input_schema_hash(&declaration).unwrap(), contract_hash(&declaration).unwrap());
    declaration.insert("input_schema_hash", hashes.0);
    declaration.insert("contract_hash", hashes.1);
    to_pretty(&declaration.into())
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, text: &str) -> Self {
        let path = self.0.path().join(format!("{name}{EXTENSION}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn open(&self) -> Registry {
        Registry::open(Some(self.0.path()))
    }
}

fn own(registry: &Registry) -> Vec<String> {
    let read = registry.contracts().filter(|it| it.source != Source::Builtin);
    read.map(|it| it.pointer()).collect()
}

fn told(registry: &Registry) -> Vec<(String, String)> {
    let one = |report: &Report| {
        let name = report.file.file_name().unwrap().to_string_lossy();
        (name.trim_end_matches(EXTENSION).to_owned(), report.findings[0].message.clone())
    };
    registry.reports().iter().map(one).collect()
}

#[test]
fn versions_live_side_by_side_and_the_highest_active_one_is_the_head() {
    let place = Place::new()
        .with("a", &contract("a.b", "0.9.0", &["x"], &[]))
        .with("b", &contract("a.b", "0.10.0", &["x", "y"], &[("replaced_by", "a.b@1.0.0")]))
        .with("examples/c", &contract("a.b", "1.0.0", &["x"], &[("status", "deprecated")]))
        .with("d", &contract("a.b", "2.0.0", &["x"], &[("status", "revoked")]))
        .with("e", &contract("c.d", "1.0.0", &["x"], &[("status", "revoked")]));
    let registry = place.open();
    assert_eq!(registry.reports(), []);
    assert_eq!(own(&registry), ["a.b@0.9.0", "a.b@0.10.0", "a.b@1.0.0", "a.b@2.0.0", "c.d@1.0.0"]);
    let head = registry.get("a.b", None).unwrap();
    assert_eq!((head.pointer().as_str(), head.lifecycle), ("a.b@0.10.0", Lifecycle::Superseded));
    for (version, lifecycle) in [
        ("0.9.0", Lifecycle::Active),
        ("1.0.0", Lifecycle::Deprecated),
        ("2.0.0", Lifecycle::Revoked),
    ] {
        assert_eq!(registry.get("a.b", Some(version)).unwrap().lifecycle, lifecycle);
    }
    assert!(registry.get("c.d", None).is_none() && registry.get("c.d", Some("1.0.0")).is_some());
    assert!(registry.get("a.b", Some("3.0.0")).is_none() && registry.get("a.c", None).is_none());
    assert_eq!(registry.nearest("a.b", Some("3.0.0")).as_deref(), Some("a.b@2.0.0"));
    let meant = registry.nearest("nexus_router.examples.cigate", None);
    assert_eq!(meant.as_deref(), Some("nexus_router.examples.ci_gate"));
    assert_eq!(registry.nearest("zzz", None), None);
    assert!(!registry.get("a.b", None).unwrap().declaration.contains_key("_comment"));
}

#[test]
fn id_without_active_version_resolves_to_the_highest_deprecated_one() {
    let deprecated = [("status", "deprecated")];
    let revoked = [("status", "revoked")];
    let place = Place::new()
        .with("a", &contract("a.b", "0.9.0", &["x"], &deprecated))
        .with("b", &contract("a.b", "0.10.0", &["x"], &deprecated))
        .with("c", &contract("a.b", "2.0.0", &["x"], &revoked))
        .with("d", &contract("c.d", "1.0.0", &["x"], &[]))
        .with("e", &contract("c.d", "2.0.0", &["x"], &deprecated))
        .with("f", &contract("e.f", "1.0.0", &["x"], &revoked));
    let registry = place.open();
    let resolved = |id: &str, version: Option<&str>| {
        registry.resolve(id, version).map(|it| it.adapter_version.as_str())
    };
    assert_eq!(resolved("a.b", None), Some("0.10.0"));
    assert_eq!(resolved("a.b", Some("2.0.0")), Some("2.0.0"));
    assert_eq!(resolved("a.b", Some("3.0.0")), None);
    assert_eq!(resolved("c.d", None), Some("1.0.0"));
    assert_eq!((resolved("e.f", None), resolved("g.h", None)), (None, None));
    // A deprecated version is not an active head.
    assert!(registry.get("a.b", None).is_none());
}

#[test]
fn a_bad_file_is_told_and_passed_over() {
    let sound = contract("a.b", "1.0.0", &["x"], &[]);
    let place = Place::new()
        .with("a", &sound)
        .with("b", "{")
        .with("c", &sound.replace("1.0.0\",\n  \"input", "1.0.1\",\n  \"input"))
        .with("d", "[]")
        .with("e", &contract("a.b", "2.0.0", &["x"], &[("status", "gone")]))
        .with("f", &contract("a.b", "3.0.0", &["x"], &[("field_types", "x")]))
        .with("deep/er/g", "{")
        .with(".hidden/h", "{")
        .with("big", &" ".repeat(LIMITS.bytes + 1));
    fs::write(place.0.path().join("other.json"), "{").unwrap();
    fs::create_dir(place.0.path().join(format!("i{EXTENSION}"))).unwrap();
    let registry = place.open();
    assert_eq!(own(&registry), ["a.b@1.0.0"]);
    let told = told(&registry);
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "big", "c", "d", "e", "f", "i"]);
    assert!(told[2].1.starts_with("contract_hash mismatch"), "{told:?}");
    assert!(told[6].1.starts_with("cannot be read"), "{told:?}");
    assert!(registry.reports()[6].unreadable && !registry.reports()[0].unreadable);
    let nowhere = Registry::open(Some(&place.0.path().join("nowhere")));
    assert!(nowhere.reports()[0].unreadable);
    assert_eq!(nowhere.contracts().count(), builtins().len());
    assert_eq!(Registry::open(None).reports(), []);
}

#[test]
fn contracts_of_this_program_win() {
    let id = "aigentsy.settlement_native_mcp.starter";
    let place = Place::new()
        .with("a", &contract(id, "2.0.0", &["x"], &[]))
        .with("b", include_str!("../builtin/starter.adapter_contract.json"));
    let registry = place.open();
    assert_eq!(own(&registry), Vec::<String>::new());
    assert_eq!(registry.get(id, None).unwrap().adapter_version, "1.0.0");
    let severities: Vec<_> =
        registry.reports().iter().map(|report| report.findings[0].severity).collect();
    assert_eq!(severities, [crate::signal::Severity::Error, crate::signal::Severity::Warning]);
}

#[test]
fn a_collision_is_loud_and_neither_file_is_used() {
    let place = Place::new()
        .with("a", &contract("a.b", "1.0.0", &["x"], &[]))
        .with("b", &contract("a.b", "1.0.0", &["y"], &[]))
        .with("c", &contract("a.b", "1.1.0", &["x"], &[]))
        .with("d", &contract("a.b", "1.1.0", &["x"], &[("status", "revoked")]));
    let registry = place.open();
    assert_eq!(own(&registry), ["a.b@1.1.0"]);
    let told = told(&registry);
    assert_eq!(told.len(), 2);
    assert!(told[0].0 == "a" && told[0].1.contains("b.adapter_contract.json"), "{told:?}");
    assert!(told[1].0 == "b" && told[1].1.contains("a.adapter_contract.json"), "{told:?}");
    // The same contract twice is harmless, but what became of it is not forgotten.
    assert_eq!(registry.get("a.b", Some("1.1.0")).unwrap().lifecycle, Lifecycle::Revoked);
}

#[test]
fn many_files_are_all_read() {
    let mut place = Place::new();
    for number in 0..300 {
        let id = format!("a.b{number}");
        place = place.with(&format!("{number}"), &contract(&id, "1.0.0", &["x"], &[]));
    }
    assert_eq!(own(&place.open()).len(), 300);
}

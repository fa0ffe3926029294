//! What is told to anybody, held against the registry that it is told of.

use std::path::Path;

use super::*;
use crate::json::{Limits, Object, parse};
use crate::signal::scaffold;

fn write(directory: &Path, id: &str, version: &str, more: &[(&str, &str)]) {
    let mut contract = scaffold(id, version, "b,a").unwrap();
    for (key, value) in more {
        contract.insert(*key, *value);
    }
    let file = directory.join(format!("{id}@{version}.adapter_contract.json"));
    std::fs::write(file, crate::json::to_pretty(&contract.into())).unwrap();
}

fn discovery(directory: &Path) -> Discovery {
    Discovery::new(Arc::new(Registry::open(Some(directory))), None, None)
}

fn read(page: &Page) -> Object {
    parse(&page.body, Limits::BUNDLE).unwrap().into_object().unwrap()
}

#[test]
fn every_contract_is_listed_with_what_became_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    write(place, "acme.x", "1.0.0", &[("status", "deprecated"), ("replaced_by", "acme.x@1.10.0")]);
    write(place, "acme.x", "1.10.0", &[]);
    write(place, "acme.x", "1.9.0", &[("status", "revoked"), ("_comment", "hidden")]);
    write(place, "acme.y", "1.0.0", &[("status", "revoked"), ("note", "grün\u{1}")]);
    std::fs::write(place.join("bad.adapter_contract.json"), "{}").unwrap();
    let discovery = discovery(place);
    let listing = read(discovery.listing());
    assert_eq!(listing.keys().collect::<Vec<_>>(), ["active_heads", "contracts", "count"]);
    let entries = listing.get("contracts").and_then(Value::as_array).unwrap();
    assert_eq!(listing.get("count"), Some(&Value::Int(10)));
    assert_eq!(entries.len(), 10);
    let own: Vec<String> = entries
        .iter()
        .filter(|it| it.get("adapter_id").unwrap().as_str().unwrap().starts_with("acme."))
        .map(|it| {
            let text = |key| it.get(key).and_then(Value::as_str).unwrap_or("-");
            let head = it.get("is_active_head").and_then(Value::as_bool).unwrap();
            assert_eq!(it.as_object().unwrap().keys().collect::<Vec<_>>(), MEMBERS);
            let members = [text("adapter_id"), text("adapter_version"), text("status")];
            format!("{} {} {head}", members.join(" "), text("replaced_by"))
        })
        .collect();
    assert_eq!(
        own,
        [
            "acme.x 1.0.0 deprecated acme.x@1.10.0 false",
            "acme.x 1.9.0 revoked - false",
            "acme.x 1.10.0 active - true",
            "acme.y 1.0.0 revoked - false",
        ]
    );
    let heads = listing.get("active_heads").unwrap();
    assert_eq!(heads.get("acme.x").and_then(Value::as_str), Some("1.10.0"));
    assert_eq!((heads.get("acme.y"), heads.as_object().unwrap().len()), (None, 7));
    let text = std::str::from_utf8(&discovery.listing().body).unwrap();
    assert!(text.is_ascii() && !text.contains("hidden") && !text.contains("_comment"));
    assert!(!text.contains(place.to_str().unwrap()) && !text.contains(".json"));
}

#[test]
fn one_contract_is_told_as_in_the_listing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    write(place, "acme.x", "1.0.0", &[]);
    write(place, "acme.x", "2.0.0", &[]);
    write(place, "acme.y", "1.0.0", &[("status", "revoked")]);
    let discovery = discovery(place);
    let listing = read(discovery.listing());
    let entries = listing.get("contracts").and_then(Value::as_array).unwrap();
    let registry = Registry::open(Some(place));
    for (contract, entry) in registry.contracts().zip(entries) {
        let (id, version) = (&contract.adapter_id, &contract.adapter_version);
        let page = discovery.contract(id, Some(version)).unwrap();
        assert_eq!(Value::Object(read(&page)), *entry);
        assert_eq!(entry.get("declaration"), Some(&Value::Object(contract.declaration.clone())));
        assert_eq!(page, Page::new(page.body.clone()));
    }
    let whole = read(&discovery.contract("acme.x", None).unwrap());
    assert_eq!(
        whole.keys().collect::<Vec<_>>(),
        ["active_head", "adapter_id", "count", "versions"]
    );
    let versions = whole.get("versions").and_then(Value::as_array).unwrap();
    assert_eq!(
        (versions.len(), whole.get("active_head"), whole.get("count")),
        (2, versions.last(), Some(&Value::Int(2)))
    );
    let revoked = read(&discovery.contract("acme.y", None).unwrap());
    assert_eq!(revoked.get("active_head"), Some(&Value::Null));
    assert_eq!(discovery.contract("acme.x", None), discovery.contract("acme.x", None));
    for (id, version) in [
        ("acme.z", None),
        ("", None),
        ("../acme.x", None),
        ("acme.x", Some("3.0.0")),
        ("acme.x", Some("")),
        ("acme.x", Some("01.0.0")),
    ] {
        assert_eq!(discovery.contract(id, version), None, "{id} {version:?}");
    }
    assert_eq!(discovery.nearest("acme.x", Some("3.0.0")).as_deref(), Some("acme.x@2.0.0"));
    assert_eq!(
        discovery.nearest("nexus_router.examples.cigate", None).as_deref(),
        Some("nexus_router.examples.ci_gate")
    );
    assert_eq!(discovery.nearest("../../acme.x", None), None);
}

#[test]
fn the_same_contracts_are_the_same_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let all = [("acme.x", "1.0.0"), ("acme.x", "2.0.0"), ("acme.a", "1.0.0")];
    all.iter().for_each(|(id, version)| write(one.path(), id, version, &[]));
    all.iter().rev().for_each(|(id, version)| write(two.path(), id, version, &[]));
    let (first, second) = (discovery(one.path()), discovery(two.path()));
    assert_eq!(first.listing(), second.listing());
    write(two.path(), "acme.x", "3.0.0", &[]);
    assert_ne!(first.listing().etag, discovery(two.path()).listing().etag);
}

//! Rejections, verifications and plans: the same again is no error, something else is never replaced.

use std::collections::BTreeMap;

use nexus_router::Digest;
use nexus_router::evidence::{
    Error, Grant, Manifest, Permission, Plan, PlanStep, Published, Rejection,
};
use nexus_router::role::{ActionClass, Role};

use super::{SEAL, open, staging_is_empty, tree, verification};

#[test]
fn the_same_rejection_twice_is_no_error_and_another_gets_a_number() {
    let (_place, root, cabinet) = open();
    let publish = |rejection: &Rejection| {
        let staged = cabinet.stage_rejection(rejection).unwrap();
        let already = staged.already().is_some();
        let published = staged.publish(Some(SEAL)).unwrap();
        assert_eq!(already, !published.fresh);
        let name = published.path.strip_prefix(root.join("evidence")).unwrap();
        (name.to_str().unwrap().to_owned(), published.fresh)
    };
    let mut rejection = Rejection::new("t1", "duplicate_execution");
    let first = "t1/rejections/ef8554e1d18103d2";
    assert_eq!(publish(&rejection), (first.to_owned(), true));
    assert_eq!(publish(&rejection), (first.to_owned(), false));
    rejection.context.insert("step", 2);
    assert_eq!(publish(&rejection), (format!("{first}-2"), true));
    rejection.context.insert("step", 3);
    assert_eq!(publish(&rejection), (format!("{first}-3"), true));
    rejection.context.insert("step", 2);
    assert_eq!(publish(&rejection), (format!("{first}-2"), false));
    // Two that race for one name: the later one finds the same, or takes the next.
    rejection.context.insert("step", 4);
    let (one, same) = (cabinet.stage_rejection(&rejection), cabinet.stage_rejection(&rejection));
    rejection.context.insert("step", 5);
    let other = cabinet.stage_rejection(&rejection).unwrap();
    assert!(one.unwrap().publish(None).unwrap().fresh);
    let same = same.unwrap().publish(None).unwrap();
    assert!(!same.fresh && same.path.ends_with("ef8554e1d18103d2-4"));
    assert!(other.publish(None).unwrap().path.ends_with("ef8554e1d18103d2-5"));
    assert!(staging_is_empty(&root));

    let files = tree(&root.join("evidence").join(first));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "attestation.intoto.jsonl",
        "inclusion.tlog-proof",
        "manifest.sha256.json",
        "rejection.json",
    ];
    assert_eq!(names, expected);
    let manifest = Manifest::parse(&files["manifest.sha256.json"]).unwrap();
    let listed = [("rejection.json".to_owned(), Digest::of(&files["rejection.json"]))];
    assert_eq!(manifest.files(), &BTreeMap::from(listed));
}

#[test]
fn one_spec_has_one_verification() {
    let (_place, root, cabinet) = open();
    let staged = cabinet.stage_verification(&verification()).unwrap();
    assert_eq!(staged.spec_sha256(), Some(Digest::of(b"spec")));
    let mut other = verification();
    other.reason = "other".to_owned();
    let racing = cabinet.stage_verification(&other).unwrap();
    let published = staged.publish(Some(SEAL)).unwrap();
    let expected = root.join("evidence/verify").join(Digest::of(b"spec").to_string());
    assert_eq!(published, Published { path: expected.clone(), fresh: true });
    let again = cabinet.stage_verification(&verification()).unwrap();
    assert_eq!(again.already(), Some(expected.as_path()));
    assert!(!again.publish(None).unwrap().fresh);
    assert!(
        matches!(cabinet.stage_verification(&other), Err(Error::Collision(path)) if path == expected)
    );
    assert!(matches!(racing.publish(None), Err(Error::Collision(_))));
    let text = std::fs::read_to_string(expected.join("manifest.sha256.json")).unwrap();
    assert_eq!(text, verification().text().unwrap());
    assert!(staging_is_empty(&root));
}

#[test]
fn a_plan_lies_under_its_digest() {
    let (_place, root, cabinet) = open();
    let step = PlanStep {
        step_id: "s1".to_owned(),
        role: Role::Envoy,
        action: ActionClass::ShellExec,
        task_id: "t1".to_owned(),
    };
    let grant =
        Grant { exec_id: "e1".to_owned(), grant: Permission::ShellExec, targets: Vec::new() };
    let plan = Plan::new("p1", &[step], &[grant]).unwrap();
    let path = cabinet.stage_plan(&plan).unwrap().publish(None).unwrap().path;
    assert_eq!(path, root.join("plan").join(plan.digest().to_string()));
    let text = std::fs::read(path.join("plan_manifest.sha256.json")).unwrap();
    assert_eq!(Plan::parse_canonical(&text).unwrap(), plan);
    assert!(!cabinet.stage_plan(&plan).unwrap().publish(None).unwrap().fresh);
    std::fs::write(path.join("plan_manifest.sha256.json"), "{}").unwrap();
    assert!(matches!(cabinet.stage_plan(&plan), Err(Error::Collision(_))));
}

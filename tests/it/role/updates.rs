//! The contract update process, on the tree as it is and on trees that were changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nexus_router::evidence::{normalize, output, spec};
use nexus_router::json::{Limits, Object, Value, parse, to_jcs};
use nexus_router::role::{self, Role, contract};

use super::frozen::{frozen, validates};
use super::process::{Line, Tree, frozen_text, judge, read_lock};
use crate::support::workspace;

fn lock() -> Vec<Line> {
    let path = workspace().join("tests/golden/roles/contract.lock");
    read_lock(&std::fs::read_to_string(path).unwrap())
}

/// Returns the tree as it is.
fn tree() -> Tree {
    let mut goldens = BTreeMap::new();
    for entry in std::fs::read_dir(workspace().join("tests/golden/roles")).unwrap().flatten() {
        if entry.path().is_dir() {
            let files = std::fs::read_dir(entry.path()).unwrap().flatten();
            let files = files.map(|file| {
                (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())
            });
            goldens.insert(entry.file_name().into_string().unwrap(), files.collect());
        }
    }
    let mut tests = BTreeSet::new();
    for place in ["tests/it/role", "tests/it/evidence"] {
        named_revisions(&workspace().join(place), &mut tests);
    }
    Tree { contract: contract().clone(), frozen: frozen(), validates: validates(), tests, goldens }
}

/// Finds the revisions that tests name.
fn named_revisions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            named_revisions(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(str::trim);
            let names = lines.filter_map(|line| line.strip_prefix("fn revision_"));
            found.extend(
                names.map(|name| name.splitn(4, '_').take(3).collect::<Vec<_>>().join(".")),
            );
        }
    }
}

#[test]
fn nothing_frozen_changed_without_a_revision() {
    let problems = judge(&lock(), &tree());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn revision_1_0_0_is_what_the_contract_says() {
    let contract = contract();
    for role in Role::ALL {
        let keys: Object = output::keys(role)
            .iter()
            .map(|(key, kind)| ((*key).to_owned(), Value::from(kind.name())))
            .collect();
        let told = contract.pointer(&format!("/roles/{}/output", role.name()));
        assert_eq!(told, Some(&Value::Object(keys)), "{role:?}");
    }
    let optional: Vec<Value> = Role::Envoy
        .actions()
        .into_iter()
        .filter(|class| !output::needs_exit_code(*class, true))
        .map(|class| class.name().into())
        .collect();
    let told = contract.pointer("/roles/envoy/exit_code_optional_in_process");
    assert_eq!(told, Some(&Value::Array(optional)));
    assert_eq!(contract.pointer("/normalization/id"), Some(&normalize::TABLE_ID.into()));
    assert_eq!(contract.pointer("/normalization/sha256"), Some(&normalize::TABLE_SHA256.into()));
    let keys: Vec<Value> = spec::KEYS.map(Value::from).into_iter().collect();
    assert_eq!(contract.get("execution_spec"), Some(&Value::Array(keys)));
    // Every file that a cabinet gets is one that the contract names, in a directory that it names.
    let layout = parse(frozen()["layout"].as_bytes(), Limits::REQUEST).unwrap();
    let places = ["execution", "rejection", "verification", "plan"]
        .map(|kind| contract.pointer(&format!("/layout/{kind}")).unwrap().as_str().unwrap());
    let files = contract.pointer("/layout/files").unwrap().as_array().unwrap();
    for name in layout.get("files").unwrap().as_array().unwrap() {
        let name = name.as_str().unwrap();
        let inside = places.iter().find_map(|place| name.strip_prefix(place));
        let inside = inside.unwrap_or_else(|| panic!("{name} is in no place of the contract"));
        assert!(files.contains(&inside.into()), "{name} is no file of the contract");
    }
}

#[test]
fn revision_1_1_0_names_the_versions_of_adapters() {
    for role in Role::ALL {
        let told = contract().pointer(&format!("/roles/{}/adapter_version", role.name()));
        assert_eq!(told, Some(&role.adapter_version().into()), "{role:?}");
    }
    // Nothing that a role may do is another than it was.
    let tree = tree();
    let [then, now] = ["1.0.0", "1.1.0"]
        .map(|version| parse(&tree.goldens[version]["frozen.json"], Limits::REQUEST).unwrap());
    let names = then.as_object().unwrap().keys();
    for name in names {
        assert_eq!(then.get(name), now.get(name), "{name}");
    }
}

/// Returns the value of a frozen thing.
fn thing(tree: &Tree, name: &str) -> Value {
    parse(tree.frozen[name].as_bytes(), Limits::REQUEST).unwrap()
}

fn put(tree: &mut Tree, name: &str, value: &Value) {
    tree.frozen.insert(name.to_owned(), to_jcs(value).unwrap());
}

/// Gives a role another class of actions, or takes one.
fn change_table(tree: &mut Tree, change: impl FnOnce(&mut Vec<Value>)) {
    let Value::Object(mut table) = thing(tree, "role_table") else { panic!() };
    let Some(Value::Array(classes)) = table.get_mut("scout") else { panic!() };
    change(classes);
    put(tree, "role_table", &table.into());
}

/// Does what the process asks for, for a version.
fn revise(tree: &mut Tree, version: &str) {
    note(tree, version);
    validate(tree, version);
    tree.tests.insert(version.to_owned());
    record(tree, version);
}

fn note(tree: &mut Tree, version: &str) {
    let Value::Object(contract) = &mut tree.contract else { panic!() };
    contract.insert("contract_version", version);
    let Some(Value::Array(noted)) = contract.get_mut("contract_revisions") else { panic!() };
    let mut revision = Object::new();
    revision.insert("id", "R3");
    revision.insert("version", version);
    revision.insert("date", "2026-11-17");
    revision.insert("note", "why");
    noted.push(revision.into());
}

fn validate(tree: &mut Tree, version: &str) {
    tree.validates.values_mut().for_each(|it| *it = version.to_owned());
}

fn record(tree: &mut Tree, version: &str) {
    let mut files = tree.goldens[role::VALIDATES].clone();
    files.insert("frozen.json".to_owned(), frozen_text(&tree.frozen).into_bytes());
    tree.goldens.insert(version.to_owned(), files);
}

/// Returns which of the four a list of problems tells of.
fn told(problems: &[String]) -> Vec<&str> {
    let all = ["revision note", "validation code", "tests", "golden data", "lock"];
    all.into_iter().filter(|kind| problems.iter().any(|it| it.starts_with(kind))).collect()
}

/// Changes each thing that is frozen, so that nothing else changes.
fn changed_trees() -> Vec<(&'static str, Tree)> {
    let present = tree();
    let names: Vec<&'static str> = vec![
        "adapter_versions",
        "conditions",
        "execution_spec",
        "layout",
        "normalization",
        "outputs",
        "role_table",
    ];
    assert_eq!(names, present.frozen.keys().map(String::as_str).collect::<Vec<_>>());
    names
        .into_iter()
        .map(|name| {
            let mut tree = present.clone();
            let value = match thing(&tree, name) {
                Value::Array(mut items) => {
                    items.push("more".into());
                    Value::Array(items)
                }
                Value::Object(mut object) => {
                    object.insert("more", Value::Array(vec!["more".into()]));
                    Value::Object(object)
                }
                other => other,
            };
            put(&mut tree, name, &value);
            (name, tree)
        })
        .collect()
}

#[test]
fn a_change_alone_lacks_all_four() {
    for (name, tree) in changed_trees() {
        let problems = judge(&lock(), &tree);
        let four = ["revision note", "validation code", "tests", "golden data"];
        assert_eq!(told(&problems), four, "{name}: {problems:?}");
        assert_eq!(problems[0], format!("changed since {}: {name}", role::VALIDATES));
    }
}

#[test]
fn each_of_the_four_is_told_when_it_alone_is_missing() {
    for (name, changed) in changed_trees() {
        for missing in ["revision note", "validation code", "tests", "golden data"] {
            let mut tree = changed.clone();
            let version = "2.0.0";
            if missing == "revision note" {
                // The version is raised, and nobody says why.
                let Value::Object(contract) = &mut tree.contract else { panic!() };
                contract.insert("contract_version", version);
            } else {
                note(&mut tree, version);
            }
            if missing != "validation code" {
                validate(&mut tree, version);
            }
            if missing != "tests" {
                tree.tests.insert(version.to_owned());
            }
            if missing != "golden data" {
                record(&mut tree, version);
            }
            let problems = judge(&lock(), &tree);
            assert_eq!(told(&problems), [missing], "{name}: {problems:?}");
        }
    }
}

#[test]
fn one_module_that_was_forgotten_is_told_by_name() {
    for module in tree().validates.into_keys() {
        let (_, mut tree) = changed_trees().remove(0);
        revise(&mut tree, "2.0.0");
        tree.validates.insert(module.clone(), "1.0.0".to_owned());
        let problems = judge(&lock(), &tree);
        assert_eq!(told(&problems), ["validation code"], "{problems:?}");
        assert!(problems.iter().any(|it| it.contains(&format!("{module} holds to 1.0.0"))));
    }
}

#[test]
fn a_whole_revision_asks_for_its_line_and_then_holds() {
    for (name, mut tree) in changed_trees() {
        revise(&mut tree, "2.0.0");
        let problems = judge(&lock(), &tree);
        assert_eq!(told(&problems), ["lock"], "{name}: {problems:?}");
        let line = tree.line().unwrap();
        assert!(problems[1].ends_with(&line.to_string()), "{problems:?}");
        let mut lock = lock();
        lock.extend(read_lock(&line.to_string()));
        assert_eq!(judge(&lock, &tree), Vec::<String>::new(), "{name}");
        // The first revision is history now, and history does not change.
        tree.goldens.get_mut("1.0.0").unwrap().insert("roles.json".to_owned(), Vec::new());
        assert_eq!(told(&judge(&lock, &tree)), ["golden data"], "{name}");
    }
}

#[test]
fn more_power_needs_a_major_version_and_less_does_not() {
    let judged = |version: &str, change: &dyn Fn(&mut Tree)| {
        let mut tree = tree();
        change(&mut tree);
        revise(&mut tree, version);
        judge(&lock(), &tree)
    };
    let grows = |tree: &mut Tree| change_table(tree, |classes| classes.push("file_write".into()));
    let shrinks = |tree: &mut Tree| change_table(tree, |classes| drop(classes.pop()));
    let replaces = |tree: &mut Tree| {
        change_table(tree, |classes| {
            classes.pop();
            classes.push("file_write".into());
        });
    };
    let loosens = |tree: &mut Tree| {
        let Value::Array(mut conditions) = thing(tree, "conditions") else { panic!() };
        conditions.remove(0);
        put(tree, "conditions", &conditions.into());
    };
    let expanding: [&dyn Fn(&mut Tree); 3] = [&grows, &replaces, &loosens];
    for change in expanding {
        let problems = judged("1.2.0", change);
        assert_eq!(told(&problems), ["revision note"], "{problems:?}");
        assert!(problems[1].contains("must at least have 2.0.0"), "{problems:?}");
        assert_eq!(told(&judged("2.0.0", change)), ["lock"]);
    }
    assert_eq!(told(&judged("1.2.0", &shrinks)), ["lock"]);
    assert!(judged("1.1.1", &shrinks)[1].contains("must at least have 1.2.0"));
    // Another version of an adapter gives nobody anything, and is a revision all the same.
    let newer = |tree: &mut Tree| {
        let Value::Object(mut versions) = thing(tree, "adapter_versions") else { panic!() };
        versions.insert("scout", "1.0.1");
        put(tree, "adapter_versions", &versions.into());
    };
    assert!(judged("1.1.1", &newer)[1].contains("must at least have 1.2.0"));
    assert_eq!(told(&judged("1.2.0", &newer)), ["lock"]);
    // Other words in the contract, and nothing else.
    let words = |tree: &mut Tree| {
        let Value::Object(contract) = &mut tree.contract else { panic!() };
        contract.insert("purpose", "the same in other words");
    };
    assert_eq!(told(&judged("1.1.1", &words)), ["lock"]);
}

#[test]
fn golden_data_and_notes_do_not_change_under_a_locked_revision() {
    let mut edited = tree();
    edited.goldens.get_mut("1.0.0").unwrap().insert("decisions.txt".to_owned(), b"other".to_vec());
    assert_eq!(told(&judge(&lock(), &edited)), ["golden data"]);
    let mut removed = tree();
    removed.goldens.get_mut("1.0.0").unwrap().remove("policy.rego");
    assert_eq!(told(&judge(&lock(), &removed)), ["golden data"]);
    let mut forgotten = tree();
    forgotten.tests.clear();
    assert_eq!(told(&judge(&lock(), &forgotten)), ["tests"]);
    let mut rewritten = tree();
    let Value::Object(contract) = &mut rewritten.contract else { panic!() };
    contract.insert("contract_revisions", Value::Array(Vec::new()));
    assert!(told(&judge(&lock(), &rewritten)).contains(&"revision note"));
}

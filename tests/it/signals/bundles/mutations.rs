//! Changes anywhere in a bundle of ours: each is found by whoever has the public key of the log.

use nexus_router::json::{Object, Value};

use super::{bundles, make_key, rehashed, verify};

/// Members that can be changed without that being found. There are none.
const OUTSIDE: [&str; 0] = [];

/// Returns every way in which a value can be changed a little: leaves, members, items; with the pointer of each.
fn mutations(value: &Value) -> Vec<(String, Value)> {
    let mut mutated = Vec::new();
    match value {
        Value::Object(object) => {
            for (name, member) in object {
                let pointer = format!("/{name}");
                let mut without = object.clone();
                without.remove(name);
                mutated.push((format!("{pointer} removed"), without.into()));
                for (deeper, changed) in mutations(member) {
                    let mut with = object.clone();
                    with.insert(name, changed);
                    mutated.push((format!("{pointer}{deeper}"), with.into()));
                }
            }
            let mut more = object.clone();
            more.insert("more", true);
            mutated.push((" with more".to_owned(), more.into()));
        }
        Value::Array(items) => {
            for index in 0..items.len() {
                let pointer = format!("/{index}");
                let changed = |change: &dyn Fn(&mut Vec<Value>)| {
                    let mut items = items.clone();
                    change(&mut items);
                    Value::Array(items)
                };
                mutated.push((
                    format!("{pointer} removed"),
                    changed(&|items| {
                        items.remove(index);
                    }),
                ));
                mutated.push((
                    format!("{pointer} twice"),
                    changed(&|items| items.insert(index, items[index].clone())),
                ));
                if index > 0 {
                    let swapped = changed(&|items| items.swap(index - 1, index));
                    mutated.push((format!("{pointer} swapped"), swapped));
                }
                for (deeper, item) in mutations(&items[index]) {
                    let with = changed(&|items| items[index] = item.clone());
                    mutated.push((format!("{pointer}{deeper}"), with));
                }
            }
            let mut more = items.clone();
            more.push(Value::Null);
            mutated.push((" with more".to_owned(), more.into()));
        }
        leaf => {
            let others: Vec<Value> = match leaf {
                Value::Null => vec![false.into()],
                Value::Bool(truth) => vec![(!truth).into(), i32::from(*truth).into()],
                Value::Int(integer) => vec![
                    (integer + 1).into(),
                    (integer - 1).into(),
                    Value::Float(*integer as f64),
                    integer.to_string().into(),
                    i64::MAX.into(),
                    (u64::MAX).into(),
                ],
                Value::String(text) => vec![
                    format!("{text}x").into(),
                    format!("{text}\n").into(),
                    text.to_uppercase().into(),
                    "".into(),
                    Value::Array(vec![leaf.clone()]),
                    5.into(),
                ],
                _ => Vec::new(),
            };
            let others = others.into_iter().chain([Value::Null, Object::new().into()]);
            mutated.extend(others.map(|other| (" changed".to_owned(), other)));
        }
    }
    mutated.retain(|(_, mutated)| mutated != value);
    mutated
}

#[test]
fn every_change_of_a_bundle_of_ours_is_found() {
    let key = make_key();
    let public = key.public();
    let mut tried = 0;
    for whole in bundles(&key, &[1, 2]) {
        let report = verify(&whole, Some(&public));
        assert!(report.verified, "{:?}", report.value);
        assert_eq!(report.value.get("verification_level"), Some(&"full".into()));
        for (pointer, mutated) in mutations(&whole) {
            if OUTSIDE.iter().any(|outside| pointer.starts_with(outside)) {
                continue;
            }
            for mutated in [mutated.clone(), rehashed(mutated)] {
                // With its hash computed anew, a bundle whose hash was changed is the bundle.
                if mutated == whole {
                    continue;
                }
                tried += 1;
                assert!(!verify(&mutated, Some(&public)).verified, "{pointer} is not found");
            }
        }
    }
    assert!(tried > 3000, "{tried}");
}

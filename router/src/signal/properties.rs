//! What holds for any contract and for any text.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::json::{Object, Value, parse, to_compact};

/// Any value of a few levels.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| Value::float(float).into()),
        any::<String>().prop_map(Value::from),
        "[a-z_]{1,3}|[0-9]\\.[0-9]\\.[0-9]|[a-z]\\.[a-z](@1\\.0\\.0)?|active|revoked"
            .prop_map(Value::from),
        "[0-9a-f]{64}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// An object that has many of the keys of contracts, with anything in them.
fn any_declaration() -> impl Strategy<Value = Object> {
    let keys: Vec<String> = REQUIRED
        .into_iter()
        .chain(LIFECYCLE)
        .chain(["_x", "field_types"])
        .map(str::to_owned)
        .collect();
    (vec(any_value(), keys.len()), any::<u32>()).prop_map(move |(values, left_out)| {
        // In half of the cases nothing is left out, so that every rule is reached.
        let left_out = if left_out % 2 == 0 { 0 } else { left_out >> 1 };
        let kept = keys.iter().cloned().zip(values).enumerate();
        kept.filter(|(bit, _)| left_out >> bit & 1 == 0).map(|(_, member)| member).collect()
    })
}

fn names() -> impl Strategy<Value = Vec<String>> {
    btree_set("[a-z][a-z0-9_]{0,8}", 1..12).prop_map(|names| names.into_iter().collect())
}

/// A contract that is right but for its hashes.
fn unhashed() -> impl Strategy<Value = Object> {
    let version = "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}";
    (names(), "[a-z][a-z0-9_]{0,5}(\\.[a-z0-9_]{1,5}){1,3}", version, version, any::<u16>())
        .prop_map(|(names, id, version, schema, allowed)| {
            let mut contract = scaffold(&id, &version, &names.join(",")).unwrap();
            let allowed = names.iter().enumerate().filter(|(bit, _)| allowed >> bit & 1 == 1);
            let allowed: Vec<Value> = allowed.map(|(_, name)| name.as_str().into()).collect();
            contract.insert("allowed_policy_fields", allowed);
            contract.insert("input_schema_version", schema);
            contract.insert("contract_hash", "0".repeat(64));
            contract
        })
}

/// Returns an object with its members, and the entries of their lists, in another order.
fn shuffled(contract: &Object, turn: usize) -> Object {
    let mut members: Vec<(String, Value)> = contract.clone().into_iter().collect();
    let count = members.len();
    members.rotate_left(turn % count);
    for (_, value) in &mut members {
        if let Value::Array(entries) = value {
            entries.reverse();
            let count = entries.len().max(1);
            entries.rotate_left(turn % count);
        }
    }
    members.into_iter().collect()
}

proptest! {
    #[test]
    fn nothing_panics_on_any_declaration(one in any_declaration(), two in any_declaration()) {
        let findings = lint(&one);
        prop_assert!(findings.iter().all(|it| !it.remedy().is_empty()));
        prop_assert!(findings.is_sorted_by_key(|it| std::cmp::Reverse(it.severity)));
        drop(Compatibility::of(&one, &two));
        drop(rehash_text(&to_compact(&one.clone().into()), &one));
        drop(bump(&mut one.clone(), "9.9.9", true));
        let members: Vec<Member> =
            [&one, &two, &one].iter().filter_map(|it| Member::new("x", it, true)).collect();
        drop(Kinship::of(&members));
    }

    #[test]
    fn a_declaration_does_not_differ_from_itself(one in any_declaration()) {
        prop_assert_eq!(differences(&one, &one), []);
        prop_assert_eq!(Compatibility::of(&one, &one).changes, []);
    }

    #[test]
    fn no_order_changes_a_hash(contract in unhashed(), turn in 0usize..20) {
        let other = shuffled(&contract, turn);
        prop_assert_eq!(contract_hash(&contract), contract_hash(&other));
        prop_assert_eq!(input_schema_hash(&contract), input_schema_hash(&other));
        prop_assert_eq!(Compatibility::of(&contract, &other).required(), None);
    }

    #[test]
    fn rehash_makes_clean_what_is_right_but_for_its_hashes(contract in unhashed(), turn in 0usize..20) {
        let wrong = shuffled(&contract, turn);
        let findings = lint(&wrong);
        prop_assert!(!findings.is_empty());
        prop_assert!(findings.iter().all(|it| it.pointer.ends_with("_hash")), "{:?}", findings);
        let text = to_compact(&wrong.clone().into());
        let (text, mended) = rehash_text(&text, &wrong).unwrap().unwrap();
        prop_assert_eq!(lint(&mended), []);
        prop_assert_eq!(parse(text.as_bytes(), LIMITS), Ok(mended.into()));
    }

    #[test]
    fn a_hashed_change_needs_a_version_and_another_does_not(
        one in unhashed(), two in unhashed(), value in any_value()
    ) {
        let mut two = two;
        two.insert("adapter_version", one.get("adapter_version").cloned());
        let same = contract_hash(&one) == contract_hash(&two);
        prop_assert_eq!(Compatibility::of(&one, &two).ok(), same);
        let mut three = one.clone();
        three.insert("supersedes", value);
        prop_assert!(Compatibility::of(&one, &three).ok());
    }
}

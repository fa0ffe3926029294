//! What may stand in `trust.json`.

use super::*;
use crate::attest::test::{key, other_key};
use crate::json::{self, Limits, Object, Value};
use crate::tlog::Verifier;

fn sample() -> Trust {
    let log = other_key().public();
    let trust = Trust::of(key().public(), Verifier::new("example.com/log", log).unwrap());
    let third = PublicKeys::new().next();
    trust.with_attestation(third, 7)
}

/// Keys that nobody has.
struct PublicKeys(tempfile::TempDir, u32);

impl PublicKeys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), 0)
    }

    fn next(&mut self) -> crate::key::PublicKey {
        self.1 += 1;
        let path = self.0.path().join(self.1.to_string());
        crate::key::SigningKey::create(&path).unwrap().public()
    }
}

/// Changes a value to which a pointer leads; none removes it.
fn change(value: &Value, pointer: &str, to: Option<&Value>) -> Value {
    let (name, rest) = match pointer[1..].split_once('/') {
        Some((name, rest)) => (name, format!("/{rest}")),
        None => (&pointer[1..], String::new()),
    };
    let inside = |value: &Value| {
        if rest.is_empty() { to.cloned() } else { Some(change(value, &rest, to)) }
    };
    match value {
        Value::Object(object) => {
            let mut object: Object = object.clone();
            let changed = inside(object.get(name).unwrap_or(&Value::Null));
            object.remove(name);
            if let Some(changed) = changed {
                object.insert(name, changed);
            }
            object.into()
        }
        Value::Array(items) => {
            let mut items = items.clone();
            let at: usize = name.parse().unwrap();
            match inside(&items[at]) {
                Some(changed) => items[at] = changed,
                None => drop(items.remove(at)),
            }
            items.into()
        }
        _ => panic!("{pointer}"),
    }
}

#[test]
fn what_was_written_reads_back_in_any_form() {
    let trust = sample();
    let text = trust.to_json();
    assert_eq!(Trust::parse(text.as_bytes()).unwrap(), trust);
    let value = json::parse(text.as_bytes(), Limits::REQUEST).unwrap();
    assert_eq!(json::to_jcs(&value).unwrap(), text);
    assert_eq!(Trust::parse(json::to_pretty(&value).as_bytes()).unwrap(), trust);
    assert_eq!(trust.digest(), Digest::of(text.as_bytes()));
}

#[test]
fn what_cannot_be_true_is_refused_with_a_reason() {
    let text = sample().to_json();
    let value = json::parse(text.as_bytes(), Limits::REQUEST).unwrap();
    let attestation = value.pointer("/attestation_keys/0/pem").unwrap().clone();
    let stranger = PublicKeys::new().next();
    let other_log = Verifier::new("example.com/other", stranger).unwrap().to_string();
    for (pointer, to, reason) in [
        ("/version", Some(2.into()), "version is not 1"),
        ("/version", None, "version is not 1"),
        ("/other", Some(1.into()), "not known"),
        ("/origin", Some("example.com/x".into()), "do not agree"),
        ("/log_keys", None, "log_keys is no list"),
        ("/log_keys", Some(Value::Array(Vec::new())), "there is no key"),
        ("/attestation_keys/0", None, "begins with 8, and must with 0"),
        ("/attestation_keys/1", None, "last key is not open"),
        ("/attestation_keys/0/last_leaf", Some(Value::Null), "whose range is open"),
        ("/attestation_keys/0/last_leaf", Some(6.into()), "begins with 8, and must with 7"),
        ("/attestation_keys/0/last_leaf", Some((-1).into()), "last_leaf is no number"),
        ("/attestation_keys/0/last_leaf", Some("7".into()), "last_leaf is no number"),
        ("/attestation_keys/0/last_leaf", None, "last_leaf is no number"),
        ("/attestation_keys/0/first_leaf", Some(1.into()), "begins with 1, and must with 0"),
        ("/attestation_keys/1/last_leaf", Some(7.into()), "ends before it"),
        ("/attestation_keys/1/last_leaf", Some(9.into()), "last key is not open"),
        ("/attestation_keys/1/first_leaf", Some((1_i64 << 53).into()), "first_leaf is no number"),
        ("/attestation_keys/0/keyid", Some("00".into()), "do not agree"),
        ("/attestation_keys/0/note", Some("".into()), "not known"),
        ("/attestation_keys/0/pem", Some("".into()), "attestation_keys[0].pem"),
        ("/attestation_keys/1/pem", Some(attestation.clone()), "is there twice"),
        ("/log_keys/0/pem", Some(attestation), "do not agree"),
        ("/log_keys/0/vkey", Some("x".into()), "log_keys[0].vkey"),
        ("/log_keys/0/vkey", Some(other_log.into()), "do not agree"),
    ] {
        let changed = json::to_jcs(&change(&value, pointer, to.as_ref())).unwrap();
        let said = Trust::parse(changed.as_bytes()).unwrap_err();
        assert!(said.contains(reason), "{pointer}: {said}");
    }
    for text in ["", "[]", "nothing", &"[".repeat(1_000_000)] {
        assert!(Trust::parse(text.as_bytes()).is_err());
    }
}

#[test]
fn keys_of_two_logs_and_two_replacements_at_once_are_refused() {
    let mut keys = PublicKeys::new();
    let verifier = |name: &str, key| Verifier::new(name, key).unwrap();
    let two = sample().with_log(verifier("example.com/other", keys.next()), 3);
    assert!(Trust::parse(two.to_json().as_bytes()).unwrap_err().contains("keys of two logs"));
    let key = keys.next();
    let at_once = sample().with_log(verifier("example.com/log", key), 7);
    let said = Trust::parse(at_once.to_json().as_bytes()).unwrap_err();
    assert!(said.contains("replaced by entry 7"), "{said}");
    let apart = sample().with_log(verifier("example.com/log", key), 8);
    assert_eq!(Trust::parse(apart.to_json().as_bytes()), Ok(apart));
    let same = sample().with_log(verifier("example.com/log", sample().public_keys()[0]), 8);
    assert!(Trust::parse(same.to_json().as_bytes()).unwrap_err().contains("is there twice"));
}

//! Tests of the audit log: order, floods, loss, secrets.

use super::*;
use crate::json::{Limits, parse};
use proptest::prelude::*;
use queue::{INDIVIDUAL, MAX_WAITING};

const NOW: Clock = Clock::Fixed(crate::clock::Timestamp::from_millis(1_800_000_000_000));

fn payload<const N: usize>(members: [(&str, &str); N]) -> Object {
    members.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

fn lines(store: &Store) -> Vec<Value> {
    let lines = store.audit_page(0, usize::MAX).unwrap();
    lines.iter().map(|line| parse(line.as_bytes(), Limits::BUNDLE).unwrap()).collect()
}

fn kind(line: &Value) -> &str {
    line.get("kind").and_then(Value::as_str).unwrap()
}

fn count(line: &Value) -> u64 {
    let count = line.pointer("/payload/count").and_then(Value::as_i64);
    count.map_or(1, i64::cast_unsigned)
}

#[test]
fn what_is_recorded_stands_in_the_store_in_its_order() {
    let store = Store::in_memory().unwrap();
    let audit = Audit::start(store.clone(), NOW, Secrets::empty()).unwrap();
    audit.record("config.refused", payload([("why", "line 3")]));
    audit.record_now("config.reloaded", Object::new()).unwrap();
    let kinds: Vec<String> = lines(&store).iter().map(|line| kind(line).to_owned()).collect();
    assert_eq!(kinds, ["config.refused", "config.reloaded"]);
    audit.record("daemon.draining", Object::new());
    audit.close();
    assert_eq!(kind(&lines(&store)[2]), "daemon.draining");
    assert!(matches!(audit.record_now("daemon.stopped", Object::new()), Err(Error::Closed)));
    audit.record("daemon.stopped", Object::new());
    audit.close();
    assert_eq!(lines(&store).len(), 3);
}

#[test]
fn the_last_clone_that_goes_writes_what_is_left() {
    let store = Store::in_memory().unwrap();
    let audit = Audit::start(store.clone(), NOW, Secrets::empty()).unwrap();
    let other = audit.clone();
    drop(audit);
    other.record("daemon.stopped", Object::new());
    drop(other);
    assert_eq!(lines(&store).len(), 1);
}

#[test]
fn a_flood_becomes_one_event_that_says_how_many() {
    let store = Store::in_memory().unwrap();
    let audit = Audit::start(store.clone(), NOW, Secrets::empty()).unwrap();
    let refused = |from: &str| payload([("reason", "TOKEN_INVALID"), ("from", from)]);
    for _ in 0..3000 {
        audit.record("access.refused", refused("192.0.2.1"));
    }
    audit.record("access.refused", refused("192.0.2.2"));
    audit.close();
    let lines = lines(&store);
    assert_eq!(lines.iter().map(count).sum::<u64>(), 3001);
    let folded: Vec<&Value> =
        lines.iter().filter(|line| line.pointer("/payload/count").is_some()).collect();
    assert!(!folded.is_empty());
    for line in folded {
        assert_eq!(line.pointer("/payload/from").and_then(Value::as_str), Some("192.0.2.1"));
        assert_eq!(
            line.pointer("/payload/first").and_then(Value::as_str),
            Some("2027-01-15T08:00:00.000Z")
        );
        assert!(line.pointer("/payload/last").is_some());
    }
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
}

#[test]
fn a_loud_one_does_not_hide_a_quiet_one() {
    let loud = [
        ("from", "192.0.2.1"),
        ("reason", "TOKEN_INVALID"),
        ("why", "wrong"),
        ("name", "ci"),
        ("what", "GET /v1/runs"),
        ("adapter", "shop"),
        ("tool", "orders"),
        ("method", "delete"),
    ];
    for (index, name) in queue::TELLING.iter().enumerate() {
        let (mut queue, now, ts) = (Queue::default(), Instant::now(), NOW.now());
        let mut take = |payload| {
            queue.take(AuditEntry { ts, kind: "access.refused".to_owned(), payload }, now);
        };
        for _ in 0..INDIVIDUAL * 2 {
            take(payload(loud));
        }
        let mut quiet = loud;
        assert_eq!(quiet[index].0, *name);
        quiet[index].1 = "another";
        take(payload(quiet));
        let said = queue.batch();
        let told = said.iter().filter(|item| item.entry.payload == payload(quiet));
        assert_eq!(told.count(), 1, "{name}");
    }
}

#[test]
fn what_is_folded_is_told_when_its_second_is_over() {
    let (mut queue, begin, ts) = (Queue::default(), Instant::now(), NOW.now());
    let entry = || AuditEntry { ts, kind: "access.refused".to_owned(), payload: Object::new() };
    for _ in 0..INDIVIDUAL + 5 {
        queue.take(entry(), begin);
    }
    queue.settle(begin + Duration::from_millis(999), ts);
    assert_eq!(queue.batch().len() as u64, INDIVIDUAL);
    assert_eq!(queue.next_window(), Some(begin + Duration::from_secs(1)));
    queue.settle(begin + Duration::from_secs(1), ts);
    let batch = queue.batch();
    assert_eq!(batch.len(), 1);
    assert_eq!(batch[0].entry.payload.get("count").and_then(Value::as_i64), Some(5));
    assert_eq!(queue.next_window(), None);
    // The next second begins anew.
    queue.take(entry(), begin + Duration::from_secs(1));
    assert_eq!(queue.batch()[0].entry.payload.get("count"), None);
}

#[test]
fn what_finds_no_room_is_counted_and_told() {
    let (mut queue, now, ts) = (Queue::default(), Instant::now(), NOW.now());
    let sources = MAX_WAITING as u64 / INDIVIDUAL + 1;
    for source in 0..sources {
        for _ in 0..INDIVIDUAL {
            let payload = payload([("from", &format!("192.0.2.{source}"))]);
            queue.take(AuditEntry { ts, kind: "access.refused".to_owned(), payload }, now);
        }
    }
    let lost = sources * INDIVIDUAL - MAX_WAITING as u64;
    assert!(lost > 0);
    queue.settle(now, ts);
    let mut said = Vec::new();
    while !queue.is_empty() {
        said.extend(queue.batch());
        queue.settle(now, ts);
    }
    assert_eq!(said.len(), MAX_WAITING + 1);
    let told = &said[MAX_WAITING].entry;
    assert_eq!(told.kind, "audit.dropped");
    assert_eq!(told.payload.get("count").and_then(Value::as_i64), Some(lost.cast_signed()));
}

#[test]
fn a_store_that_cannot_be_written_is_told_to_whoever_waits_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let options = crate::store::Options {
        busy: Duration::from_millis(1),
        ..crate::store::Options::default()
    };
    let store = Store::open_with(&path, options).unwrap();
    let audit = Audit::start(store.clone(), NOW, Secrets::empty()).unwrap();
    let blocker = rusqlite::Connection::open(&path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    audit.record("config.refused", Object::new());
    assert!(matches!(audit.record_now("config.reloaded", Object::new()), Err(Error::Busy)));
    blocker.execute_batch("ROLLBACK").unwrap();
    audit.record_now("daemon.stopped", Object::new()).unwrap();
    let kinds: Vec<String> = lines(&store).iter().map(|line| kind(line).to_owned()).collect();
    assert_eq!(kinds, ["config.refused", "daemon.stopped"]);
}

#[test]
fn secrets_and_masses_of_text_are_not_recorded() {
    let store = Store::in_memory().unwrap();
    let audit = Audit::start(store.clone(), NOW, Secrets::empty()).unwrap();
    audit.replace_secrets(Secrets::empty().with_hidden_values(["hunter2hunter2".to_owned()]));
    audit.record("config.refused", payload([("why", "cannot use hunter2hunter2 here")]));
    audit.record("access.refused", payload([("path", &"x".repeat(MAX_PAYLOAD + 1))]));
    audit.record("access.refused", payload([("token_id", "ops"), ("token_name", "ci")]));
    audit.close();
    let text = store.audit_page(0, 10).unwrap().concat();
    assert!(!text.contains("hunter2") && text.contains("[REDACTED] here"), "{text}");
    assert!(!text.contains("xxxx") && text.contains("omitted_bytes"), "{text}");
    assert!(text.contains(r#""token_id":"[REDACTED]","token_name":"ci""#), "{text}");
}

#[test]
fn kinds_are_unique_and_explained() {
    let kinds: std::collections::BTreeSet<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), KINDS.len());
    assert!(KINDS.iter().all(|(_, doc)| doc.ends_with('.')));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes, nothing is lost without being counted, and the queue stays bounded.
    #[test]
    fn every_event_is_recorded_counted_or_told_as_lost(
        steps in prop::collection::vec((0u8..4, 0u8..40, 0u16..400), 1..200),
    ) {
        let (mut queue, begin, ts) = (Queue::default(), Instant::now(), NOW.now());
        let (mut taken, mut told, mut millis) = (0, 0, 0);
        for (action, source, amount) in steps {
            let now = begin + Duration::from_millis(millis);
            match action {
                0 | 1 => for _ in 0..amount {
                    let payload = payload([("from", &format!("{source}"))]);
                    queue.take(AuditEntry { ts, kind: "access.refused".to_owned(), payload }, now);
                    taken += 1;
                },
                2 => told += queue.batch().iter().map(said).sum::<u64>(),
                _ => {
                    millis += u64::from(amount);
                    queue.settle(begin + Duration::from_millis(millis), ts);
                }
            }
        }
        queue.closing = true;
        loop {
            queue.settle(begin, ts);
            let batch = queue.batch();
            if batch.is_empty() {
                break;
            }
            told += batch.iter().map(said).sum::<u64>();
        }
        prop_assert_eq!(told, taken);
    }
}

fn said(item: &Item) -> u64 {
    let count = item.entry.payload.get("count").and_then(Value::as_i64);
    count.map_or(1, i64::cast_unsigned)
}

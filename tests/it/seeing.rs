//! What operators see through the program: the audit log, completions and manual pages.

use nexus_router::clock::Timestamp;
use nexus_router::json::Object;
use nexus_router::store::{AuditEntry, Store};

use crate::support::World;

fn entry(number: u64) -> AuditEntry {
    let mut payload = Object::new();
    payload.insert("number", number);
    payload.insert("text", "a\u{1b}[31m line\nand another");
    AuditEntry { ts: Timestamp::from_millis(0), kind: "config.reloaded".to_owned(), payload }
}

#[test]
fn audit_export_prints_a_line_per_event_beyond_one_page() {
    let world = World::new();
    let store = Store::open(&world.path("runs.db")).unwrap();
    store.append_audit((1..=1203).map(entry).collect()).unwrap();
    let lines = store.audit_page(0, usize::MAX).unwrap();
    drop(store);
    let all = world.run(&["audit", "export", "--db", "runs.db"]);
    assert_eq!(all.code(), 0, "{}", all.stderr());
    assert_eq!(all.stdout(), lines.join("\n") + "\n");
    assert!(all.stdout().chars().all(|c| c == '\n' || matches!(c, ' '..='~')));
    let rest = world.run(&["audit", "export", "--db", "runs.db", "--after", "1201"]);
    assert_eq!(rest.stdout(), lines[1201..].join("\n") + "\n");
    let none = world.run(&["audit", "export", "--db", "runs.db", "--after", "1203"]);
    assert_eq!((none.code(), none.stdout()), (0, String::new()));
    let checked = world.run(&["store", "check", "--db", "runs.db"]);
    assert_eq!(checked.stdout(), "ok: 0 runs, 0 events, 1203 audit events, 0 findings\n");
    let missing = world.run(&["audit", "export", "--db", "none.db"]);
    assert_eq!(missing.code(), 2);
    assert!(missing.stderr().contains("STORE_NOT_FOUND"), "{}", missing.stderr());
}

//! Time to compare two policies over recorded calls, beside a bare scan of the same store.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use nexus_router::config::{ConfigFile, Environment};
use nexus_router::policy::history::{PolicyComparison, PolicyContext, PolicyFile};
use nexus_router::store::Store;
use rusqlite::Connection;

const GOAL: Duration = Duration::from_secs(5);

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let calls = if smoke { 200 } else { 100_000 };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    fill(&path, calls);
    let bare = middle(|| scan(&path));
    println!("scan: {calls} calls, {} MB: {bare:?}", file_size(&path) / 1_000_000);
    let conditions = "[[policy.rules]]\neffect = 'approve'\nwhen = \"args.amount > 100\"\n";
    let many: String = (0..998)
        .map(|number| format!("[[policy.rules]]\neffect = 'deny'\ntool = 'other-{number}'\n"))
        .collect();
    for (name, old, new) in [
        ("without rules", "", ""),
        ("two conditions", conditions, &*conditions.replace("100", "200")),
        ("998 rules and a condition", &*many, &*format!("{many}{conditions}")),
    ] {
        let time = middle(|| compare(&path, directory.path(), (old, new), calls));
        println!(
            "{name}: {time:?} (goal: {GOAL:?}), {:.1} us per call, {:.1} times the scan",
            time.as_secs_f64() * 1e6 / calls as f64,
            time.as_secs_f64() / bare.as_secs_f64().max(1e-9)
        );
    }
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Returns the median of five runs.
fn middle(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[2]
}

/// Writes runs of one step each, with the events that a daemon records.
fn fill(path: &Path, calls: i64) {
    drop(Store::open(path).unwrap());
    let mut connection = Connection::open(path).unwrap();
    let transaction = connection.transaction().unwrap();
    for number in 1..=calls {
        let amount = number % 300;
        let call = format!(
            r#"{{"args":{{"amount":{amount},"item":"a book about the sea","note":"{}"}},"method":"buy","tool":"orders"}}"#,
            "x".repeat(100)
        );
        let events = [
            ("RUN_STARTED", r#"{"caller":{"name":"ci","scope":"admin","token_id":"0123456789abcdef"},"goal":"buy a book","mode":"apply","request":{"policy":{"allow_apply":true}},"router_version":"1.2.0"}"#.to_owned()),
            ("PLAN_CREATED", format!(r#"{{"plan":[{{"call":{call},"intent":"","step_id":"s1"}}]}}"#)),
            ("DISPATCH_SELECTED", r#"{"adapter_id":"shop","adapter_kind":"shop","capabilities":["apply","external"],"confinement":"full","isolation":"worker","landlock":6,"selection_source":"default"}"#.to_owned()),
            ("STEP_STARTED", r#"{"step_id":"s1"}"#.to_owned()),
            ("TOOL_CALL_REQUESTED", format!(r#"{{"adapter_capabilities":["apply","external"],"adapter_id":"shop","call":{call},"step_id":"s1"}}"#)),
            ("TOOL_CALL_SUCCEEDED", format!(r#"{{"adapter_id":"shop","duration_ms":3,"output":{{"text":"{}"}},"simulated":false,"step_id":"s1"}}"#, "y".repeat(400))),
            ("STEP_COMPLETED", r#"{"status":"ok","step_id":"s1"}"#.to_owned()),
            ("RUN_COMPLETED", r#"{"outcome":"ok"}"#.to_owned()),
        ];
        let mut body = String::new();
        for (seq, (kind, payload)) in events.iter().enumerate() {
            body.push_str(&format!(
                r#"{{"event_id":"00000000-0000-4000-8000-{number:012}","payload":{payload},"run_id":"00000000-0000-4000-9000-{number:012}","seq":{seq},"ts":"2026-11-16T08:00:00.000Z","type":"{kind}"}}"#
            ));
            body.push('\n');
        }
        let mut insert =
            transaction.prepare_cached("INSERT INTO segments VALUES (?1, ?2, ?3)").unwrap();
        insert.execute((number << 24, i64::try_from(events.len()).unwrap(), body)).unwrap();
    }
    transaction.commit().unwrap();
}

/// Reads every segment, and nothing more.
fn scan(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let mut query = connection.prepare("SELECT body FROM segments ORDER BY segment_no").unwrap();
    let mut rows = query.query([]).unwrap();
    let mut bytes = 0;
    while let Some(row) = rows.next().unwrap() {
        bytes += row.get_ref(0).unwrap().as_bytes().unwrap().len();
    }
    assert!(bytes > 0);
}

fn compare(path: &Path, directory: &Path, (old, new): (&str, &str), calls: i64) {
    let policy = |text: &str| {
        let file = directory.join("router.toml");
        std::fs::write(&file, format!("[[adapters]]\nref = 'm:f'\nid = 'shop'\n{text}")).unwrap();
        let config = ConfigFile::find(Some(&file), &Environment::default()).unwrap();
        PolicyFile::new(&config, PolicyContext::default())
    };
    let comparison = PolicyComparison::new(policy(old), policy(new), None, 20);
    let store = Store::open_read_only(path).unwrap();
    let (comparison, _) = store.scan_events(comparison).unwrap();
    assert_eq!(comparison.report.total, calls.cast_unsigned());
}

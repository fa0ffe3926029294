//! Bad input: a clear error with a code and a pointer, nothing written.

use serde_json::json;

use super::{ECHO, completed, request, run, traces, write};
use crate::support::World;

/// Runs a text as a request, and returns what is told on standard error.
fn refused(world: &World, text: &[u8]) -> String {
    let file = world.path("request.json");
    std::fs::write(&file, text).unwrap();
    let run = world.run(&["run", file.to_str().unwrap(), "--db", "new.db", "--adapter", ECHO]);
    assert_eq!(run.code(), 2, "{}", run.stderr());
    assert_eq!(run.stdout(), "");
    assert_eq!(traces(world), [] as [std::path::PathBuf; 0]);
    run.stderr()
}

#[test]
fn refused_requests_say_where_and_leave_no_store() {
    let world = World::new();
    let twice = {
        let mut request = request();
        request["plan_override"][1]["step_id"] = "s1".into();
        request.to_string()
    };
    let deep = format!(r#"{{"goal":"g","context":{}1{}}}"#, "[".repeat(600), "]".repeat(600));
    let cases: [(&[u8], &str, &str, &str); 9] = [
        (b"{\"goal\": \"g\",}", "JSON_SYNTAX", "", "hint: write strict JSON"),
        (b"", "JSON_SYNTAX", "", "hint: "),
        (b"\xff", "JSON_NOT_UTF8", "", "hint: encode"),
        (b"{\"goal\": \"g\", \"goal\": \"h\"}", "JSON_DUPLICATE_KEY", "", "hint: "),
        (b"{\"goal\": \"g\", \"x\": NaN}", "JSON_NOT_FINITE", "/x", "hint: "),
        (deep.as_bytes(), "JSON_TOO_DEEP", "/context/0/0", "hint: nest"),
        (b"{\"gaol\": \"g\"}", "REQUEST_INVALID", "/gaol", "hint: did you mean \"goal\"?"),
        (b"{\"goal\": \"\"}", "REQUEST_INVALID", "/goal", "hint: nexus-router schema"),
        (twice.as_bytes(), "REQUEST_INVALID", "/plan_override/1/step_id", "hint: "),
    ];
    for (text, code, pointer, hint) in cases {
        let told = refused(&world, text);
        assert!(told.starts_with(&format!("error[{code}]: ")), "{told}");
        assert!(told.contains(&format!("(at \"{pointer}")), "{told}");
        assert!(told.contains(hint), "{told}");
    }
}

#[test]
fn hundred_megabytes_of_arguments_are_refused() {
    let world = World::new();
    let mut text = br#"{"goal":"g","plan_override":[{"step_id":"s","intent":"","call":{"tool":"t","method":"m","args":{"x":""#.to_vec();
    text.resize(100 << 20, b'x');
    text.extend(br#""}}}]}"#);
    assert!(refused(&world, &text).starts_with("error[JSON_TOO_LARGE]: "));
}

#[test]
fn adapters_that_do_not_load_leave_no_store() {
    let world = World::new();
    let file = write(&world, "request.json", &request());
    let no_answer = |adapter: &[&str], code: &str| {
        let run = world.run(&[&["run", &file, "--db", "new.db"], adapter].concat());
        assert_eq!(run.code(), 2, "{}", run.stderr());
        assert!(run.stderr().starts_with(&format!("error[{code}]: ")), "{}", run.stderr());
        assert_eq!(traces(&world), [] as [std::path::PathBuf; 0]);
    };
    no_answer(&["--adapter", "nexus_router_adapter_ecko:create_adapter"], "LIBRARY_NOT_FOUND");
    no_answer(&["--adapter", ECHO, "--adapter-config", r#"{"adapter_id":1}"#], "CONFIG_INVALID");
    no_answer(&["--adapter", ECHO, "--adapter", ECHO], "ADAPTER_ALREADY_REGISTERED");
    no_answer(
        &["--adapter", ECHO, "--adapter-config", r#"{"x":{"$secret":"NOPE"}}"#],
        "SECRET_UNKNOWN",
    );
    std::fs::write(world.path("router.toml"), "default_adapter = 'nobody'\n").unwrap();
    no_answer(&[], "UNKNOWN_ADAPTER");
    std::fs::write(world.path("router.toml"), "dfault_adapter = 'nobody'\n").unwrap();
    no_answer(&[], "CONFIG_FILE_INVALID");
    let told = world.run(&["run", &file]).stderr();
    assert!(told.contains("line 1, column 1"), "{told}");
    assert!(told.contains("hint: did you mean default_adapter?"), "{told}");
}

#[test]
fn whoever_reads_creates_nothing() {
    let world = World::new();
    for verb in [
        &["runs", "list"][..],
        &["runs", "show", "x"],
        &["runs", "show", "x", "--follow"],
        &["runs", "replay", "x"],
        &["runs", "replay", "--all"],
        &["runs", "export", "x"],
        &["runs", "recover"],
        &["runs", "recover", "--dry-run"],
        &["store", "check"],
        &["store", "backup", "copy.db"],
        &["store", "restore", "copy.db"],
    ] {
        let run = world.run(&[verb, &["--db", "new.db"]].concat());
        assert_eq!(run.code(), 2, "{verb:?}: {}", run.stderr());
        assert!(run.stderr().starts_with("error[STORE_NOT_FOUND]: "), "{}", run.stderr());
        assert_eq!(traces(&world), [] as [std::path::PathBuf; 0], "{verb:?}");
    }
}

#[test]
fn files_of_other_programs_are_left_alone() {
    let world = World::new();
    let request = write(&world, "request.json", &request());
    let text = world.path("text.db");
    std::fs::write(&text, "not a database, but long enough to be looked at as one").unwrap();
    let foreign = world.path("foreign.db");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(connection);
    for file in [&text, &foreign] {
        let before = std::fs::read(file).unwrap();
        let name = file.to_str().unwrap();
        for verb in [&["run", &request][..], &["runs", "list"], &["store", "check"]] {
            let run = world.run(&[verb, &["--db", name]].concat());
            assert_eq!(run.code(), 2, "{}", run.stderr());
            assert!(run.stderr().starts_with("error[STORE_FOREIGN]: "), "{}", run.stderr());
            assert!(run.stderr().contains("hint: "), "{}", run.stderr());
        }
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

#[test]
fn unusable_places_are_told() {
    let world = World::new();
    let request = write(&world, "request.json", &request());
    for db in ["missing/runs.db", ":memory:", "."] {
        let run = world.run(&["run", &request, "--db", db]);
        assert_eq!(run.code(), 2, "{db:?}: {}", run.stderr());
        assert!(run.stderr().contains("error[STORE_UNOPENABLE]: "), "{db:?}: {}", run.stderr());
    }
    assert_eq!(traces(&world), [] as [std::path::PathBuf; 0]);
}

#[test]
fn unknown_runs_are_no() {
    let world = World::new();
    completed(&world);
    for verb in ["show", "replay", "export"] {
        let run = world.run(&["runs", verb, "nobody", "--db", "runs.db"]);
        assert_eq!((run.code(), run.stdout().as_str()), (1, ""), "{verb}");
        assert!(run.stderr().starts_with("error[RUN_NOT_FOUND]: "), "{}", run.stderr());
    }
    for (verb, pointer) in [("replay", "/violations/0/code"), ("export", "/error/code")] {
        let run = world.run(&["runs", verb, "nobody", "--db", "runs.db", "--format", "json"]);
        assert_eq!(run.code(), 1);
        assert_eq!(run.json().pointer(pointer), Some(&json!("RUN_NOT_FOUND")), "{verb}");
    }
}

#[test]
fn texts_of_runs_cannot_steer_the_terminal() {
    let world = World::new();
    let mut evil = request();
    evil["goal"] = "\x1b[2Jgone\nFAILED run x".into();
    evil["plan_override"][0]["step_id"] = "\x1b[31ms1\u{202e}".into();
    let id = super::run_id(&run(&world, &evil, &["--adapter", ECHO]).json());
    let file = write(&world, "request.json", &evil);
    for verb in [
        &["runs", "list"][..],
        &["runs", "show", &id],
        &["runs", "show", &id, "--format", "json"],
        &["runs", "show", &id, "--follow"],
        &["runs", "export", &id],
        &["run", &file],
    ] {
        let shown = world.run(&[verb, &["--db", "runs.db"]].concat()).stdout();
        assert!(!shown.contains(['\x1b', '\u{202e}']), "{verb:?}: {shown}");
        assert!(!shown.contains("\nFAILED run x"), "{verb:?}: {shown}");
    }
}

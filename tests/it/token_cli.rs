//! `nexus-router token`, as operators and their scripts use it.

use std::os::unix::fs::PermissionsExt as _;

use nexus_router::access::{Scope, TokenBook};
use nexus_router::clock::Clock;
use nexus_router::role::Role;

use crate::support::World;

#[test]
fn token_is_printed_once_and_is_good() {
    let world = World::new();
    let new = ["token", "new", "ci", "--scope", "apply", "--role", "scout", "--expires", "90d"];
    let run = world.run(&[&new[..], &["--data-dir", "data"]].concat());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let text = run.stdout();
    let text = text.strip_suffix('\n').unwrap();
    assert_eq!(text.len(), 60, "{text}");
    let secret = &text[17..];
    assert!(run.stderr().contains("made token ci") && !run.stderr().contains(secret));
    let file = world.path("data/tokens.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let book = TokenBook::open(&file).unwrap();
    let token = book.check(text, Clock::System.now()).unwrap();
    assert_eq!((token.scope, token.role), (Scope::Apply, Some(Role::Scout)));

    let listed = world.run(&["token", "list", "--data-dir", "data"]);
    assert!(listed.stdout().starts_with("NAME  ID "), "{}", listed.stdout());
    let json = world.run(&["token", "list", "--data-dir", "data", "--format", "json"]).json();
    let entry = &json["tokens"][0];
    assert_eq!((&entry["name"], &entry["id"]), (&"ci".into(), &token.id.as_str().into()));
    assert_eq!((&entry["expired"], &entry["role"]), (&false.into(), &"scout".into()));
    assert!(!json.to_string().contains(secret) && entry.get("sha256").is_none());

    let revoked = world.run(&["token", "revoke", "ci", "--data-dir", "data"]);
    assert_eq!(revoked.stdout(), format!("revoked ci ({})\n", token.id));
    assert!(book.refresh().unwrap());
    assert!(book.check(text, Clock::System.now()).is_err());
    let empty = world.run(&["token", "list", "--data-dir", "data"]);
    assert_eq!((empty.code(), empty.stdout().as_str()), (0, ""));
}

#[test]
fn a_token_sees_its_own_runs_unless_made_otherwise() {
    let world = World::new();
    let run = |arguments: &[&str]| {
        let run = world.run(&[&["token"], arguments, &["--data-dir", "data"]].concat());
        (run.code(), run.stdout(), run.stderr())
    };
    for (name, more) in [("own", &[][..]), ("all", &["--sees", "all"])] {
        let (code, text, stderr) = run(&[&["new", name, "--scope", "read"], more].concat());
        assert_eq!(code, 0, "{stderr}");
        let book = TokenBook::open(&world.path("data/tokens.json")).unwrap();
        let token = book.check(text.trim_end(), Clock::System.now()).unwrap();
        assert_eq!(token.sees.name(), name);
    }
    assert_eq!(run(&["new", "boss", "--scope", "admin"]).0, 0);
    let json = world.run(&["token", "list", "--data-dir", "data", "--format", "json"]).json();
    let seen: Vec<_> = json["tokens"].as_array().unwrap().iter().map(|one| &one["sees"]).collect();
    assert_eq!(seen, ["own", "all", "all"], "an administrator sees all");
    let (code, _, stderr) = run(&["new", "x", "--scope", "read", "--sees", "some"]);
    assert!(code == 2 && stderr.contains("[possible values: own, all]"), "{stderr}");
}

#[test]
fn mistakes_have_codes_and_remedies() {
    let world = World::new();
    let run = |arguments: &[&str]| {
        let run = world.run(&[&["token"], arguments, &["--data-dir", "data"]].concat());
        (run.code(), run.stderr())
    };
    assert_eq!(run(&["new", "ci", "--scope", "run"]).0, 0);
    for (arguments, said) in [
        (&["new", "ci", "--scope", "run"][..], "error[TOKEN_EXISTS]: "),
        (&["new", "a b", "--scope", "run"], "error[TOKEN_NAME_INVALID]: "),
        (&["new", "x", "--scope", "run", "--expires", "soon"], "error: --expires 'soon'"),
        (&["new", "x", "--scope", "root"], "[possible values: read, run, apply, admin]"),
        (&["new", "x"], "--scope"),
        (
            &["new", "x", "--scope", "admin", "--role", "scout"],
            "hint: leave out --role, or use --scope apply --role scout",
        ),
        (&["revoke", "nobody"], "error[TOKEN_NOT_FOUND]: "),
    ] {
        let (code, stderr) = run(arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    let file = world.path("data/tokens.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, stderr) = run(&["list"]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error[TOKEN_FILE_UNSAFE]: "), "{stderr}");
    assert!(stderr.contains("mode 0644") && stderr.contains("hint: chmod 600 "), "{stderr}");
    let nowhere = world.run(&["token", "list"]);
    assert!(nowhere.stderr().contains("hint: name a directory with --data-dir"));
}

#[test]
fn tokens_are_where_the_environment_says() {
    let world = World::new();
    let new = ["token", "new", "ci", "--scope", "read"];
    let (home, data) = (world.path("home"), world.path("data"));
    let run = world.run_with(&new, |command| command.env("HOME", &home));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(home.join(".local/state/nexus-router/tokens.json").is_file());
    let run = world
        .run_with(&new, |command| command.env("HOME", &home).env("NEXUS_ROUTER_DATA_DIR", &data));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(data.join("tokens.json").is_file());
    assert!(run.stderr().contains(data.join("tokens.json").to_str().unwrap()), "{}", run.stderr());
}

#[test]
fn tokens_are_where_the_configuration_says() {
    let world = World::new();
    let new = |name: &'static str| ["token", "new", name, "--scope", "read"];
    std::fs::write(world.path("router.toml"), "data_dir = 'of-file'\n").unwrap();
    std::fs::write(world.path("other.toml"), "data_dir = 'of-other'\n").unwrap();
    let home = world.path("home");
    let run = world.run_with(&new("a"), |command| command.env("HOME", &home));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(world.path("of-file/tokens.json").is_file());
    let run = world.run(&[&new("b")[..], &["--config", "other.toml"]].concat());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(world.path("of-other/tokens.json").is_file());
    let variable = world.path("of-variable");
    let run = world.run_with(&new("c"), |command| command.env("NEXUS_ROUTER__DATA_DIR", &variable));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(variable.join("tokens.json").is_file());
    let run = world.run(&[&new("d")[..], &["--data-dir", "named"]].concat());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(world.path("named/tokens.json").is_file());
    let listed = world.run(&["token", "list", "--config-file", "other.toml"]);
    assert!(listed.stdout().contains("\nb ") && !home.exists(), "{}", listed.stdout());
}

#[test]
fn a_token_that_could_not_be_printed_is_not_kept() {
    let world = World::new();
    let new = ["token", "new", "ci", "--scope", "read", "--data-dir", "data"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(crate::support::PROGRAM);
    let run = command.args(new).current_dir(world.directory.path()).env_clear().stdout(full);
    assert_eq!(run.output().unwrap().status.code(), Some(2));
    assert!(TokenBook::open(&world.path("data/tokens.json")).unwrap().is_empty());
}

#[test]
fn processes_lose_no_token() {
    let world = World::new();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let make = |name: String| {
            let new = ["token", "new", &name, "--scope", "read", "--data-dir", "data"];
            let run = world.run(&new);
            assert_eq!(run.code(), 0, "{}", run.stderr());
            run.stdout().trim_end().to_owned()
        };
        let makers: Vec<_> =
            (0..12).map(|number| scope.spawn(move || make(format!("t{number}")))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    let book = TokenBook::open(&world.path("data/tokens.json")).unwrap();
    assert_eq!(book.len(), 12);
    assert!(texts.iter().all(|text| book.check(text, Clock::System.now()).is_ok()));
}

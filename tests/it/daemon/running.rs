//! `adapter list --running`: what the program learns from a daemon, and what it tells one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use super::support::{ADAPTERS, Daemon, Stage};
use crate::support::Run;

/// Runs `adapter list --running` beside a daemon.
fn list(
    stage: &Stage,
    arguments: &[&str],
    prepare: impl FnOnce(&mut Command) -> &mut Command,
) -> Run {
    let mut command = stage.program();
    command.args(["adapter", "list", "--running"]).args(arguments);
    Run(prepare(&mut command).output().unwrap())
}

#[test]
fn adapters_of_a_running_daemon_are_listed() {
    let daemon = Daemon::usual();
    let url = format!("http://{}", daemon.address);
    std::fs::write(daemon.stage.path("read.token"), format!("{}\n", daemon.token("read"))).unwrap();
    let listed =
        list(&daemon.stage, &["--url", &url, "--token-file", "read.token"], |command| command);
    assert_eq!(listed.code(), 0, "{}", listed.stderr());
    let table = listed.stdout();
    let mut lines = table.lines();
    let heading = lines.next().unwrap().split("  ").map(str::trim);
    let heading: Vec<&str> = heading.filter(|cell| !cell.is_empty()).collect();
    let headings = [
        "ADAPTER",
        "KIND",
        "CAPABILITIES",
        "ISOLATION",
        "STATE",
        "WORKERS",
        "RESTARTS",
        "LAST END",
        "CIRCUIT",
        "UNDECLARED ERRORS",
    ];
    assert_eq!(heading, headings);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    for id in ["echo", "many", "fake", "null"] {
        let row = rows.iter().find(|row| row[0] == id).unwrap_or_else(|| panic!("{id}: {table}"));
        assert!(row.len() >= 9, "{table}");
        let isolation = if id == "null" { "inline" } else { "worker" };
        assert!(row.contains(&isolation), "{table}");
    }
    assert!(rows.iter().any(|row| row[..2] == ["echo", "echo"]), "{table}");

    // As a program reads it: what the daemon says.
    let token = daemon.token("read").to_owned();
    let listed = list(&daemon.stage, &["--url", &url, "--format", "json"], |command| {
        command.env("NEXUS_ROUTER_TOKEN", token)
    });
    assert_eq!(listed.json(), daemon.get("/v1/adapters").ok());
}

#[test]
fn daemon_of_the_configuration_is_shown_the_first_token() {
    let daemon = Stage::bare(ADAPTERS).start(&[]);
    let address = daemon.address.to_string();
    let ask = |data: &str| {
        list(&daemon.stage, &[], |command| {
            command
                .env("NEXUS_ROUTER_DATA_DIR", data)
                .env("NEXUS_ROUTER__LISTENERS__0__ADDRESS", &address)
        })
    };
    let listed = ask("data");
    assert_eq!(listed.code(), 0, "{}", listed.stderr());
    assert!(listed.stdout().contains("\necho "), "{}", listed.stdout());
    let lost = ask("elsewhere");
    assert_eq!((lost.code(), lost.stdout().as_str()), (2, ""));
    assert!(lost.stderr().contains("TOKEN_MISSING"), "{}", lost.stderr());
    assert!(lost.stderr().contains("hint: name a file with a token"), "{}", lost.stderr());
}

#[test]
fn token_of_the_data_directory_is_shown_to_nobody_who_is_named() {
    let stage = Stage::bare("");
    std::fs::create_dir(stage.path("data")).unwrap();
    std::fs::write(stage.path("data/admin.token"), "nxr_hunter22\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut told = Vec::new();
        for location in ["http://127.0.0.1:1/v1/adapters", "/elsewhere"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            told.push(String::from_utf8_lossy(&request[..count]).into_owned());
            let answer = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n";
            write!(stream, "{answer}Location: {location}\r\n\r\n").unwrap();
        }
        told
    });
    let named = |token: &str| {
        list(&stage, &["--url", &url], |command| {
            command.env("NEXUS_ROUTER_DATA_DIR", "data").env("NEXUS_ROUTER_TOKEN", token)
        })
    };
    // An empty variable counts as not set. Nobody is followed to where the answer points.
    for token in ["", "nxr_meant"] {
        let strange = named(token);
        assert_eq!(strange.code(), 2, "{}", strange.stdout());
        let told = strange.stderr();
        assert!(told.contains("302, and not as a nexus-router does"), "{told}");
        assert!(!told.contains("nxr_"), "{told}");
    }
    let asked = asked.join().unwrap();
    let shown: Vec<bool> = asked
        .iter()
        .map(|asked| asked.to_lowercase().contains("authorization: bearer nxr_meant"))
        .collect();
    assert_eq!(shown, [false, true], "{asked:?}");
    assert!(asked.iter().all(|asked| !asked.contains("hunter22")), "{asked:?}");
}

#[test]
fn what_cannot_be_asked_is_told_with_a_remedy() {
    let stage = Stage::bare("");
    let url = "http://127.0.0.1:1";
    for (arguments, told) in [
        (&["--url", url, "--token-file", "gone"][..], "cannot read the token in gone"),
        (&["--url", url, "--token-file", "router.toml"], "router.toml holds no token"),
        (&["--url", url, "--token-file", "."], "it is no regular file"),
        (&["--url", url], "does not answer"),
        (&["--url", "http://u:hunter22@127.0.0.1:1"], "it holds credentials"),
        (&["--url", url, "--adapter-path", "x"], "cannot be used with"),
    ] {
        let refused = list(&stage, arguments, |command| command);
        assert_eq!(refused.code(), 2, "{arguments:?}");
        assert!(refused.stderr().contains(told), "{arguments:?}: {}", refused.stderr());
        assert!(!refused.stderr().contains("hunter22"), "{}", refused.stderr());
    }
    let mut command = stage.program();
    let alone = Run(command.args(["adapter", "list", "--url", url]).output().unwrap());
    assert_eq!(alone.code(), 2);
    assert!(alone.stderr().contains("--running"), "{}", alone.stderr());
}

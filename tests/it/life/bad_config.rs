//! Bad new configurations leave everything in force and say why; files that come and go while they are written.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::json;

use super::daemon::until;
use super::support::{Home, audited, quick, reload, request};

#[test]
fn bad_configuration_changes_nothing_and_says_why() {
    let home = Home::new("");
    let base = home.fake("held", "");
    home.configure(&base);
    let daemon = home.start();
    let mut client = daemon.client();
    let held = home.hold(&daemon, "held");
    let bad = [
        ("[log\n".to_owned(), "CONFIG_FILE_INVALID"),
        (format!("zzz = 1\n{base}"), "CONFIG_FILE_INVALID"),
        (
            format!("require_all = true\n{base}[[adapters]]\nref = \"nobody:nothing\"\n"),
            "LIBRARY_NOT_FOUND",
        ),
        (format!("{base}{}", home.fake("held", "note = 1")), "ADAPTER_ALREADY_REGISTERED"),
        (format!("{base}[secrets]\nA = \"env:NOBODY_SET_THIS\"\n"), "SECRET_UNUSABLE"),
        (format!("{base}[secrets]\nA = \"file:nothing\"\n"), "SECRET_UNUSABLE"),
        (format!("default_adapter = \"nobody\"\n{base}"), "UNKNOWN_ADAPTER"),
        (
            format!(
                "{base}[[tools]]\nname = \"x\"\ndescription = \"X.\"\nadapter = \"nobody\"\n\
                 method = \"x\"\n"
            ),
            "UNKNOWN_ADAPTER",
        ),
        // Found out last, when everything else is made already.
        (
            format!(
                "{base}{}[server]\nallowed_hosts = [\"router.example.com:7433\"]\n",
                home.fake("extra", "")
            ),
            "CONFIG_FILE_INVALID",
        ),
    ];
    for (index, (config, code)) in bad.iter().enumerate() {
        home.configure(config);
        let answer = client.post("/v1/reload", &json!({})).unwrap();
        assert!(answer.status >= 400, "{config}");
        assert_eq!(answer.json()["code"], *code, "{}", answer.text());
        let audit = client.get("/v1/audit").unwrap().text();
        let last = audit.lines().rfind(|line| line.contains("config.refused")).unwrap();
        assert!(last.contains(code), "{last}");
        let counted = format!("result=\"refused\"}} {}", index + 1);
        assert!(client.get("/metrics").unwrap().text().contains(&counted));
        assert_eq!(quick(&mut client, "held"), "COMPLETED");
        assert!(!client.get("/v1/adapters").unwrap().text().contains("extra"));
    }
    // One more was made of the configuration that has two of the same id.
    assert_eq!(home.lives(&daemon, "made", "held"), 2);
    until("the twin to be shut down", || {
        (home.lives(&daemon, "shut down", "held") == 1).then_some(())
    });
    until("the log to say it", || {
        (daemon.log().matches("the new configuration is refused").count() >= bad.len())
            .then_some(())
    });
    home.configure(&format!("{base}{}", home.fake("new", "")));
    assert_eq!(reload(&mut client)["added"], json!(["new"]));
    assert_eq!(quick(&mut client, "new"), "COMPLETED");
    assert_eq!(held.release().json()["status"], "COMPLETED");
}

#[test]
fn changed_file_is_read_when_it_rests() {
    let home = Home::new("");
    let base = home.fake("held", "");
    home.configure(&base);
    let daemon = home.start();
    let mut client = daemon.client();
    let tools = |client: &mut super::client::Client, name: &str| {
        client.get("/v1/tools").unwrap().text().contains(name)
    };
    let tool = |name: &str| {
        format!(
            "[[tools]]\nname = \"{name}\"\ndescription = \"A.\"\nadapter = \"held\"\nmethod = \"a\"\n"
        )
    };
    // By another file of the same name.
    home.configure(&format!("{base}{}", tool("renamed")));
    until("the new tool", || tools(&mut client, "renamed").then_some(()));
    // In place: emptied, and written in parts, of which the first cannot be read.
    let whole = std::fs::read_to_string(home.path("router.toml")).unwrap();
    let whole = whole.replace("renamed", "written");
    let cut = whole.find("written").unwrap();
    let mut file = File::create(home.path("router.toml")).unwrap();
    for part in [&whole[..cut], &whole[cut..]] {
        file.write_all(part.as_bytes()).unwrap();
        file.sync_all().unwrap();
    }
    until("the written tool", || tools(&mut client, "written").then_some(()));
    // Taken away, and a directory in its place.
    std::fs::remove_file(home.path("router.toml")).unwrap();
    let refused = client.get("/v1/audit").unwrap().text().matches("config.refused").count();
    audited(&mut client, "config.refused", refused + 1);
    std::fs::create_dir(home.path("router.toml")).unwrap();
    daemon.signal(Signal::HUP);
    audited(&mut client, "config.refused", refused + 2);
    assert!(tools(&mut client, "written"));
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    std::fs::remove_dir(home.path("router.toml")).unwrap();
    home.configure(&format!("{base}{}", tool("restored")));
    until("the restored tool", || tools(&mut client, "restored").then_some(()));
    let audit = client.get("/v1/audit").unwrap().text();
    assert!(!audit.contains("\"removed\":[\"held\"]"), "it was never away: {audit}");
    assert_eq!(home.lives(&daemon, "made", "held"), 1);
}

#[test]
fn emptied_file_is_left_alone_until_it_is_asked_for() {
    let home = Home::new("");
    let listener = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";
    home.configure(&format!("{}{listener}", home.fake("held", "")));
    let daemon = home.start();
    let mut client = daemon.administrator();
    File::create(home.path("router.toml")).unwrap();
    // Tokens are looked at before the configuration, so it was looked at at least twice.
    for count in 1..=3 {
        home.make_token(&format!("token-{count}"));
        audited(&mut client, "tokens.changed", count);
    }
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    assert!(!home.audit().contains("\"config."), "{}", home.audit());
    // Who asks for it gets it.
    assert_eq!(reload(&mut client)["removed"], json!(["held"]));
}

#[test]
fn file_that_changes_during_the_start_is_read_again() {
    let home = Home::new("");
    mknodat(CWD, home.path("life"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let base = home.fake("held", "");
    home.configure(&base);
    let (daemon, _reader) = std::thread::scope(|scope| {
        let changed = scope.spawn(|| {
            // The adapter is being made when it opens the pipe; the configuration was read before.
            let reader = File::open(home.path("life")).unwrap();
            let tool = "[[tools]]\nname = \"late\"\ndescription = \"A.\"\nadapter = \"held\"\n\
                        method = \"a\"\n";
            home.configure(&format!("{base}{tool}"));
            reader
        });
        (home.start(), changed.join().unwrap())
    });
    let mut client = daemon.client();
    until("the late tool", || {
        client.get("/v1/tools").unwrap().text().contains("late").then_some(())
    });
}

#[test]
fn secrets_are_told_by_nobody_over_a_reload() {
    let home = Home::new("");
    let [former, new] = ["former-Ua7xQ2-value", "newer-Pp31kZ-value"];
    for (name, value) in [("former", former), ("new", new)] {
        std::fs::write(home.path(name), value).unwrap();
    }
    let go = home.path("go-held");
    let config = |file: &str, more: &str| {
        format!(
            "require_all = true\n[secrets]\nA = \"file:{file}\"\n[[adapters]]\nid = \"held\"\n\
             ref = \"probe_adapters:fake\"\nisolation = \"inline\"\n[adapters.config]\ntraces = \"{}\"\n\
             password = {{ \"$secret\" = \"A\" }}\nresponses = [{{ tool = \"t\", method = \"hold\", \
             behaviour.wait_for = {{ file = \"{}\", tell = {{ \"$secret\" = \"A\" }} }} }}]\n{more}\n",
            home.path("traces-held").display(),
            go.display(),
        )
    };
    home.configure(&config("former", ""));
    let daemon = home.start();
    let mut client = daemon.client();
    let held = home.hold(&daemon, "held");
    home.configure(&config("new", ""));
    assert_eq!(reload(&mut client)["replaced"], json!(["held"]));
    // The old adapter tells the old secret, which is no longer in force.
    assert_eq!(held.release().json()["status"], "COMPLETED");
    // Refused by the adapter, and by what follows when all are loaded.
    for more in [
        "capabilities = [{ \"$secret\" = \"A\" }]",
        "[[tools]]\nname = \"x\"\n\
        description = \"X.\"\nadapter = \"nobody\"\nmethod = \"x\"",
    ] {
        home.configure(&config("former", more));
        assert!(client.post("/v1/reload", &json!({})).unwrap().status >= 400);
    }
    // The new one tells the new one.
    let answer = client.post("/v1/runs", &request("held", "hold")).unwrap().json();
    assert_eq!(answer["status"], "COMPLETED", "{answer}");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    let log = std::fs::read_to_string(home.path("log")).unwrap();
    for told in [&log, &home.audit()] {
        assert!(!told.contains(former) && !told.contains(new), "{told}");
    }
    assert_eq!(log.matches("adapter: [REDACTED]").count(), 2, "{log}");
}

//! What operators see through the program: the audit log, completions and manual pages.

use std::process::Command;

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

#[test]
fn completions_are_scripts_of_their_shells() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = world.run(&["completions", shell]);
        assert_eq!(run.code(), 0, "{}", run.stderr());
        for word in ["audit", "export", "adapter-path", "take-over"] {
            assert!(run.stdout().contains(word), "{shell} does not know {word}");
        }
    }
    let script = world.path("nexus-router.bash");
    std::fs::write(&script, world.run(&["completions", "bash"]).stdout()).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(world.run(&["completions", "abacus"]).code(), 2);
}

/// Returns the words of every verb, as the help of the program lists them.
fn verbs(world: &World, words: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("-h");
    let help = world.run(&arguments).stdout();
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = below.take_while(|line| line.starts_with("  ")).filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        (!line.starts_with(' ')).then(|| line.split(' ').next().unwrap().to_owned())
    });
    let mut found = vec![words.to_vec()];
    // The help is no verb of its own: it has the text of the others once more.
    for name in names.filter(|name| name != "help").collect::<Vec<_>>() {
        found.extend(verbs(world, &[words, &[name]].concat()));
    }
    found
}

#[test]
fn every_verb_has_a_manual_page() {
    let world = World::new();
    let run = world.run(&["man", "--out", "made/pages"]);
    assert_eq!((run.code(), run.stdout()), (0, String::new()), "{}", run.stderr());
    let verbs = verbs(&world, &[]);
    assert!(verbs.len() > 20, "{verbs:?}");
    for words in &verbs {
        let name = [&["nexus-router".to_owned()], &words[..]].concat().join("-");
        let page = std::fs::read_to_string(world.path(&format!("made/pages/{name}.1")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(&format!(".TH {name} 1 ")), "{name}: {page}");
        assert!(page.contains(".SH DESCRIPTION"), "{name}");
    }
    assert_eq!(std::fs::read_dir(world.path("made/pages")).unwrap().count(), verbs.len());
    assert_eq!(run.stderr(), format!("wrote {} pages to made/pages\n", verbs.len()));
    let main = world.run(&["man"]);
    assert_eq!(
        main.stdout(),
        std::fs::read_to_string(world.path("made/pages/nexus-router.1")).unwrap()
    );
    std::fs::write(world.path("file"), "").unwrap();
    let refused = world.run(&["man", "--out", "file"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr().contains("hint: name a directory"), "{}", refused.stderr());
}

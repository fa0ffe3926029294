//! Two policies over the calls of a store: verdicts, lists, exit codes, bad input.

use serde_json::{Value, json};

use super::{config, diff, record, verdict, write};
use crate::support::World;

const NO_BYE: &str =
    "[[policy.rules]]\nid = 'no-bye'\neffect = 'deny'\nmethod = 'bye'\nreason = 'stay'\n";
const NO_HELLO: &str = "[[policy.rules]]\nid = 'no-hello'\neffect = 'deny'\nmethod = 'hello'\n";

/// Returns a world with one allowed call and one denied call.
fn world() -> World {
    let world = World::new();
    write(&world, "old.toml", &config(NO_BYE));
    record(&world, "apply", &[("hello", json!({"name": "Ada"})), ("bye", json!({"name": "Eve"}))]);
    world
}

fn rule(effect: &str, key: &str) -> String {
    format!("[[policy.rules]]\neffect = '{effect}'\n{key}\n")
}

#[test]
fn verdict_orders_effects_of_recorded_calls() {
    let world = world();
    for (new, expected, code) in [
        (NO_BYE.to_owned(), "equal", 0),
        (rule("deny", "tool = 'other'") + NO_BYE, "equal", 0),
        (NO_BYE.to_owned() + NO_HELLO, "narrows", 0),
        (String::new(), "widens", 1),
        (rule("approve", "method = 'bye'"), "widens", 1),
        (rule("approve", "method = 'hello'") + NO_BYE, "narrows", 0),
        (NO_HELLO.to_owned(), "mixed", 1),
        ("[policy]\napply = false\n".to_owned(), "narrows", 0),
        ("[policy]\ndefault = 'deny'\n".to_owned(), "narrows", 0),
    ] {
        let found = verdict(&world, &config(&new));
        assert_eq!(found, (expected.to_owned(), code), "{new}");
    }
    let gone =
        config("").replace("id = 'echo'", "id = 'other'").replace("default_adapter = 'echo'", "");
    assert_eq!(verdict(&world, &gone).0, "narrows", "the adapter is gone");
}

#[test]
fn conditions_are_evaluated_with_recorded_arguments() {
    let world = world();
    let when = |text: &str| rule("deny", &format!("when = \"{text}\"")) + NO_BYE;
    for (condition, expected) in [
        ("args.name == 'Ada'", "narrows"),
        ("args.name == 'Eve'", "equal"),
        ("run.goal == 'greet' && run.mode == 'apply'", "narrows"),
        ("now < timestamp('2020-01-01T00:00:00Z')", "equal"),
        ("args.missing == 1", "narrows"),
    ] {
        assert_eq!(verdict(&world, &config(&when(condition))).0, expected, "{condition}");
    }
    let failing = diff(&world, &config(&when("args.missing == 1")), &["--format", "json"]).json();
    assert_eq!(failing["changes"][0]["new"]["by"], "condition", "{failing}");
}

#[test]
fn answer_lists_changed_calls_with_both_decisions() {
    let world = world();
    let run = diff(&world, &config(NO_HELLO), &["--format", "json"]);
    let mut answer = run.json();
    for index in 0..2 {
        let change = answer["changes"][index].as_object_mut().unwrap();
        assert_eq!(change.remove("run_id").unwrap().as_str().unwrap().len(), 36);
        assert!(change.remove("at").unwrap().as_str().unwrap().ends_with('Z'));
    }
    let call = |step: &str, method: &str, change: &str, old: Value, new: Value| {
        json!({ "step_id": step, "caller": null, "mode": "apply", "adapter": "echo",
            "tool": "greeter", "method": method, "change": change, "old": old, "new": new })
    };
    let default = json!({ "effect": "allow", "by": "default" });
    let no_bye =
        json!({ "effect": "deny", "by": "rule", "rule": "no-bye", "line": 5, "reason": "stay" });
    let no_hello = json!({ "effect": "deny", "by": "rule", "rule": "no-hello", "line": 5 });
    let expected = json!({
        "verdict": "mixed",
        "complete": true,
        "since": null,
        "calls": { "total": 2, "equal": 0, "narrowed": 1, "widened": 1, "unjudged": 0 },
        "changes": [
            call("s2", "bye", "widens", no_bye, default.clone()),
            call("s1", "hello", "narrows", default, no_hello),
        ],
        "unjudged": { "missing": {}, "may_widen": 0, "calls": [] },
        "unreadable_events": 0,
        "not_judged":
            ["catalogue", "capabilities", "argument_schemas", "plan_grants", "secret_bindings"],
    });
    assert_eq!(answer, expected);
    let shown = diff(&world, &config(NO_HELLO), &[]).stdout();
    assert!(shown.contains("deny (no-bye) -> allow (default)"), "{shown}");
    let last = "mixed: 2 recorded calls: 0 equal, 1 narrowed, 1 widened, 0 cannot be judged";
    assert_eq!(shown.lines().last(), Some(last), "{shown}");
}

#[test]
fn limit_bounds_the_lists_and_not_the_counts() {
    let world = world();
    record(&world, "dry_run", &[("hello", json!({})), ("hello", json!({}))]);
    let new = config(&(NO_BYE.to_owned() + NO_HELLO));
    let answer = diff(&world, &new, &["--format", "json", "--limit", "1"]).json();
    assert_eq!(answer["calls"]["narrowed"], 3, "{answer}");
    assert_eq!(answer["changes"].as_array().unwrap().len(), 1);
    let shown = diff(&world, &new, &["--limit", "0"]).stdout();
    assert!(shown.contains("3 more calls are not listed"), "{shown}");
}

#[test]
fn exit_code_follows_the_wanted_change() {
    let world = world();
    let narrower = config(&(NO_BYE.to_owned() + NO_HELLO));
    for (new, options, expected) in [
        (&narrower, &[][..], 0),
        (&narrower, &["--fail-on", "change"], 1),
        (&config(""), &["--fail-on", "never"], 0),
        (&config(NO_BYE), &["--fail-on", "change", "--strict"], 0),
    ] {
        assert_eq!(diff(&world, new, options).code(), expected, "{options:?} {new}");
    }
}

#[test]
fn since_leaves_out_earlier_calls() {
    let world = world();
    for (since, total) in [("2020-01-01", 2), ("2999-01-01T00:00:00+01:00", 0)] {
        let run = diff(&world, &config(""), &["--since", since, "--format", "json"]);
        assert_eq!(run.json()["calls"]["total"], total, "{since}");
    }
    let run = diff(&world, &config(""), &["--since", "yesterday"]);
    assert!(run.code() == 2 && run.stderr().contains("not a date"), "{}", run.stderr());
}

#[test]
fn redacted_arguments_are_not_judged_where_they_decide() {
    let world = World::new();
    write(&world, "old.toml", &config(""));
    record(&world, "dry_run", &[("hello", json!({"name": "Ada", "password": "hunter22"}))]);
    let when = |text: &str| config(&rule("deny", &format!("when = \"{text}\"")));
    let hidden = when("args.password == 'hunter22'");
    let run = diff(&world, &hidden, &["--format", "json"]);
    let answer = run.json();
    assert_eq!((answer["verdict"].as_str(), run.code()), (Some("equal"), 0), "{answer}");
    assert_eq!(answer["unjudged"]["missing"], json!({ "redacted_arguments": 1 }));
    assert_eq!(answer["unjudged"]["calls"][0]["possible"], json!(["equal", "narrows"]));
    assert_eq!(diff(&world, &hidden, &["--fail-on", "change", "--strict"]).code(), 1);
    assert_eq!(diff(&world, &hidden, &["--strict"]).code(), 0, "nothing may widen");
    for (condition, expected) in
        [("args.name == 'Ada'", "narrows"), ("tool == 'x' && args.password == 'x'", "equal")]
    {
        let answer = diff(&world, &when(condition), &["--format", "json"]).json();
        assert_eq!(answer["calls"]["unjudged"], 0, "{condition}: {answer}");
        assert_eq!(answer["verdict"], expected, "{condition}");
    }
}

#[test]
fn exit_code_tells_when_nothing_can_be_judged() {
    let world = World::new();
    write(&world, "old.toml", &config(&rule("deny", "when = \"args.password == 'x'\"")));
    record(&world, "dry_run", &[("hello", json!({"password": "hunter22"}))]);
    let run = diff(&world, &config(""), &["--format", "json"]);
    let answer = run.json();
    assert_eq!((answer["verdict"].as_str(), run.code()), (Some("equal"), 2), "{answer}");
    assert_eq!((&answer["complete"], &answer["unjudged"]["may_widen"]), (&json!(false), &json!(1)));
    let shown = diff(&world, &config(""), &[]).stdout();
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("equal as far as it can be judged: 1 recorded calls"), "{shown}");
    for (options, expected) in [
        (&["--strict"][..], 1),
        (&["--fail-on", "change"], 2),
        (&["--fail-on", "change", "--strict"], 1),
        (&["--fail-on", "never"], 0),
    ] {
        assert_eq!(diff(&world, &config(""), options).code(), expected, "{options:?}");
    }
}

#[test]
fn change_of_a_stated_hint_widens() {
    let world = World::new();
    let hinted = |destructive: bool| {
        let tool = format!(
            "[[tools]]\nname = 'hello'\ndescription = 'd'\nadapter = 'echo'\ntool = 'greeter'\n\
             method = 'hello'\ndestructive = {destructive}\n"
        );
        config(&(tool + &rule("deny", "when = \"hints.destructive\"")))
    };
    write(&world, "old.toml", &hinted(true));
    record(&world, "apply", &[("hello", json!({}))]);
    assert_eq!(verdict(&world, &hinted(true)), ("equal".to_owned(), 0));
    assert_eq!(verdict(&world, &hinted(false)), ("widens".to_owned(), 1));
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let world = world();
    for (new, expected) in [
        ("[policy]\nnope = 1\n", "line 2"),
        ("[[policy.rules]]\neffect = 'deny'\nwhen = 'args.x >'\n", "line 3"),
        ("[[policy.rules]]\neffect = 'deny'\nwhen = \"adapter > 3\"\n", "line 3"),
    ] {
        let run = diff(&world, new, &[]);
        assert!(run.code() == 2 && run.stderr().contains(expected), "{new}: {}", run.stderr());
        assert_eq!(run.stdout(), "");
    }
    let run = world.run(&["policy", "diff", "absent.toml", "--config", "old.toml"]);
    assert!(run.code() == 2 && run.stderr().contains("absent.toml"), "{}", run.stderr());
    let fixed = ["policy", "diff", "old.toml", "--config", "old.toml", "--db"];
    let run = world.run(&[&fixed[..], &["absent.db"]].concat());
    assert!(run.code() == 2 && run.stderr().contains("hint: "), "{}", run.stderr());
    assert!(!world.path("absent.db").exists(), "nothing is created");
    write(&world, "junk.db", "junk");
    assert_eq!(world.run(&[&fixed[..], &["junk.db"]].concat()).code(), 2);
}

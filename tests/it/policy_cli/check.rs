//! One call against the policy: decisions, explanations, bad input.

use serde_json::{Value, json};

use super::{config, write};
use crate::support::{Run, World};

const RULES: &str = "
[[policy.rules]]
effect = 'deny'
tool = 'other'
[[policy.rules]]
id = 'expensive'
effect = 'approve'
when = \"args.amount > 100\"
reason = 'ask Ada'
[[policy.rules]]
id = 'night'
effect = 'deny'
method = 'buy'
when = \"now.getHours() < 6\"
";

fn check(world: &World, call: &Value, options: &[&str]) -> Run {
    write(world, "call.json", &call.to_string());
    world.run(&[&["policy", "check", "call.json", "--config", "router.toml"][..], options].concat())
}

fn world(rules: &str) -> World {
    let world = World::new();
    write(&world, "router.toml", &config(rules));
    world
}

fn call(args: &Value) -> Value {
    json!({ "adapter": "echo", "tool": "orders", "method": "buy", "args": args,
        "now": "2026-11-16T08:00:00Z" })
}

#[test]
fn answer_names_the_deciding_rule_and_the_earlier_ones() {
    let world = world(RULES);
    let run = check(&world, &call(&json!({ "amount": 120 })), &["--format", "json"]);
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let expected = json!({
        "effect": "approve", "by": "rule", "rule": "expensive", "line": 9, "reason": "ask Ada",
        "explanation": "expensive (line 9) decides: ask Ada",
        "missing": [],
        "skipped_rules": [
            { "rule": "rule-1", "line": 6, "key": "tool",
              "explanation": "tool \"other\" does not fit" },
        ],
        "not_judged":
            ["catalogue", "capabilities", "argument_schemas", "plan_grants", "secret_bindings"],
    });
    assert_eq!(run.json(), expected);
    let shown = check(&world, &call(&json!({ "amount": 1 })), &[]);
    assert_eq!(shown.code(), 0);
    let lines = "  rule-1 (line 6): tool \"other\" does not fit\n  \
                 expensive (line 9): its condition is false\n  \
                 night (line 14): its condition is false\n\
                 allow: echo/orders.buy: no rule fits, and policy.default is allow\n";
    assert_eq!(shown.stdout(), lines);
}

#[test]
fn exit_code_follows_the_effect() {
    let world = world(RULES);
    let mut night = call(&json!({ "amount": 1 }));
    night["now"] = "2026-11-16T05:00:00Z".into();
    let run = check(&world, &night, &[]);
    assert!(
        run.code() == 1 && run.stdout().contains("deny: echo/orders.buy: night"),
        "{}",
        run.stdout()
    );
    let run = check(&world, &call(&json!({})), &[]);
    assert_eq!(run.code(), 1, "a condition without a result denies");
    assert!(
        run.stdout().contains("the condition of expensive (line 9) fails: "),
        "{}",
        run.stdout()
    );
    let mut unknown = call(&json!({ "amount": 1 }));
    unknown["adapter"] = "nobody".into();
    let run = check(&world, &unknown, &[]);
    assert!(run.code() == 1 && run.stdout().contains("'nobody'"), "{}", run.stdout());
    let hinted = self::world("[[policy.rules]]\neffect = 'deny'\nannotation = 'destructive'\n");
    let run = check(&hinted, &call(&json!({})), &["--format", "json"]);
    assert_eq!(run.code(), 2, "the hints are known only after the adapter is loaded");
    let answer = run.json();
    assert_eq!((&answer["effect"], &answer["missing"]), (&Value::Null, &json!(["unloaded_hints"])));
}

#[test]
fn assumptions_are_not_presented_as_facts() {
    let hinted = "[[policy.rules]]\nid = 'a'\neffect = 'deny'\nannotation = 'destructive'\n";
    let both = world(&format!("{hinted}[[policy.rules]]\nid = 'b'\neffect = 'deny'\n"));
    let run = check(&both, &call(&json!({})), &["--format", "json"]);
    let answer = run.json();
    assert_eq!((run.code(), &answer["effect"]), (1, &json!("deny")), "{answer}");
    assert_eq!(answer["possible"][0]["rule"], "a", "{answer}");
    assert_eq!(answer["possible"][1]["rule"], "b", "{answer}");
    assert!(answer.get("rule").is_none(), "{answer}");
    assert_eq!(
        (&answer["missing"], &answer["skipped_rules"]),
        (&json!(["unloaded_hints"]), &json!([]))
    );
    let shown = check(&both, &call(&json!({})), &[]).stdout();
    let expected = "deny: echo/orders.buy: a (line 5) decides, or b (line 9) decides: \
                    the hints are known only after the adapter is loaded\n";
    assert_eq!(shown, expected);
    let three = "[[policy.rules]]\neffect = 'deny'\nannotation = 'idempotent'\n";
    let unclear = world(&format!("{hinted}{three}"));
    let shown = check(&unclear, &call(&json!({})), &[]).stdout();
    let expected = "unclear: echo/orders.buy: deny or allow: \
                    the hints are known only after the adapter is loaded\n";
    assert_eq!(shown, expected);
}

#[test]
fn callers_are_bounded_by_offers_and_roles() {
    let world = world("");
    let by = |caller: Value| {
        let mut call = call(&json!({}));
        call["caller"] = caller;
        let run = check(&world, &call, &["--format", "json"]);
        let answer = run.json();
        (run.code(), answer["by"].as_str().unwrap().to_owned())
    };
    assert_eq!(by(json!({ "name": "ci", "scope": "admin" })), (0, "default".to_owned()));
    assert_eq!(by(json!({ "name": "ci", "scope": "apply" })), (1, "offer".to_owned()));
    let scout = json!({ "name": "ci", "scope": "admin", "role": "scout", "claims": {} });
    assert_eq!(by(scout), (1, "role".to_owned()));
}

#[test]
fn malformed_calls_are_refused_with_a_remedy() {
    let world = world("");
    let with = |key: &str, value: Value| {
        let mut call = call(&json!({}));
        call[key] = value;
        call
    };
    for (call, expected) in [
        (json!([]), "the call is of type"),
        (json!({ "tool": "x" }), "adapter is missing"),
        (json!({ "adapter": "echo" }), "tool is missing"),
        (with("methd", json!("x")), "did you mean method?"),
        (with("zzz", json!(1)), "the members are adapter, tool"),
        (with("args", json!([])), "args is of type"),
        (with("mode", json!("wet")), "write dry_run or apply"),
        (with("now", json!("soon")), "now is \"soon\""),
        (with("caller", json!("ci")), "caller is of type"),
        (with("caller", json!({ "name": "ci" })), "caller.scope is missing"),
        (with("caller", json!({ "scope": "run" })), "caller.name is missing"),
        (with("caller", json!({ "name": "c", "scope": "king" })), "read, run, apply, admin"),
        (with("caller", json!({ "name": "c", "scope": "run", "role": "king" })), "scout, envoy"),
        (with("caller", json!({ "name": "c", "scope": "run", "rol": "x" })), "caller.role?"),
        (with("caller", json!({ "name": "c", "scope": "run", "claims": { "a": 1 } })), "claims"),
    ] {
        let run = check(&world, &call, &[]);
        assert_eq!((run.code(), run.stdout().as_str()), (2, ""), "{call}");
        assert!(
            run.stderr().contains(expected) && run.stderr().contains("hint: "),
            "{}",
            run.stderr()
        );
    }
    write(&world, "call.json", "{\"adapter\": ");
    let run = world.run(&["policy", "check", "call.json"]);
    assert!(run.code() == 2 && run.stderr().contains("is not JSON"), "{}", run.stderr());
    assert_eq!(world.run(&["policy", "check", "absent.json"]).code(), 2);
}

#[test]
fn huge_calls_are_refused_or_denied() {
    let world = world("[[policy.rules]]\neffect = 'allow'\nwhen = \"args.text != ''\"\n");
    let run = check(&world, &call(&json!({ "text": "x".repeat(300 * 1024) })), &[]);
    assert!(run.code() == 1 && run.stdout().contains("exceed"), "{}", run.stdout());
    let run = check(&world, &call(&json!({ "text": "x".repeat(17 << 20) })), &[]);
    assert!(run.code() == 2 && run.stderr().contains("longer than"), "{}", run.stderr());
    let deep = format!("{{\"adapter\":\"echo\",\"tool\":\"t\",\"args\":{}", "{\"a\":".repeat(5000));
    write(&world, "call.json", &deep);
    let run = world.run(&["policy", "check", "call.json", "--config", "router.toml"]);
    assert!(run.code() == 2 && run.stderr().contains("is not JSON"), "{}", run.stderr());
}

//! Cost of policy rules with and without a condition, per decision of the gate.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::time::Instant;

use nexus_router::Registry;
use nexus_router::caller::Caller;
use nexus_router::clock::{Clock, Timestamp};
use nexus_router::condition::{CallEvaluation, CallFacts, Condition};
use nexus_router::config::{Effect, Pattern, Rule};
use nexus_router::gate::{self, Grounds, Verdict};
use nexus_router::json::{Limits, Object, parse};
use nexus_router::loader::Adapter;
use nexus_router::policy::Law;
use nexus_router::request::Request;
use nexus_router::secret::Secrets;
use nexus_router::store::Store;

/// Conditions as operators write them.
const CONDITIONS: &[&str] = &[
    "args.amount > 1000",
    "args.amount > 1000 && caller.name != 'ci'",
    "args.path.startsWith('/srv/') && !args.path.contains('..')",
    "args.path.matches('^/srv/[a-z]+/[0-9]{4}$')",
    "args.to.all(x, x.endsWith('@example.com'))",
    "has(args.limit) ? args.limit < 100 : adapter == 'shop' && now.getHours() < 18",
];

const ARGS: &str = r#"{"amount":500,"path":"/srv/data/2026","limit":10,"note":"a short text of a caller",
    "to":["ada@example.com","bob@example.com","eve@example.com"],"more":{"a":[1,2,3],"b":null}}"#;

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 100 } else { 200_000 };
    for text in CONDITIONS {
        println!("{:>6.0} ns  {text}", evaluation(text, rounds));
    }
    let plain = decision(1, None, rounds);
    let with = decision(1, Some(CONDITIONS[1]), rounds);
    println!(
        "one rule: {plain:.0} ns a decision, {with:.0} ns with a condition: {:.0} ns more (goal: 3000 ns)",
        with - plain
    );
    let (plain, with) =
        (decision(100, None, rounds / 20), decision(100, Some(CONDITIONS[1]), rounds / 20));
    println!("100 rules: {:.0} ns a rule, {:.0} ns with a condition", plain / 100.0, with / 100.0);
}

/// Returns the nanoseconds of one run of a closure: the least of five series.
fn time(rounds: u32, mut work: impl FnMut()) -> f64 {
    let series = (0..5).map(|_| {
        let begun = Instant::now();
        (0..rounds).for_each(|_| work());
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(rounds.max(1))
    });
    series.fold(f64::INFINITY, f64::min)
}

fn args() -> Object {
    parse(ARGS.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
}

/// Evaluates one condition, with the facts of its call.
fn evaluation(text: &str, rounds: u32) -> f64 {
    let (condition, args) = (Condition::compile(text).unwrap(), args());
    time(rounds, || {
        let facts = CallFacts {
            args: &args,
            adapter: "shop",
            tool: "orders",
            method: "buy",
            class: "",
            caller_name: "ada",
            caller_scope: "apply",
            caller_role: "",
            hints: [None; 4],
            run_id: "r",
            run_mode: "apply",
            run_goal: "",
            now: Timestamp::from_millis(0),
        };
        black_box(CallEvaluation::new(facts).evaluate(black_box(&condition)).unwrap());
    })
}

/// Decides about a call by the last of so many rules.
fn decision(rules: usize, when: Option<&str>, rounds: u32) -> f64 {
    let rule = |effect, when: Option<&str>| Rule {
        adapter: Pattern::new("n*"),
        when: when.map(|text| Condition::compile(text).unwrap()),
        ..Rule::any(effect)
    };
    // Without a condition, a pattern keeps all rules but the last from fitting.
    let other = match when {
        Some(_) => rule(Effect::Deny, when),
        None => Rule { tool: Pattern::new("nothing*"), ..rule(Effect::Deny, None) },
    };
    let mut rules: Vec<Rule> = (1..rules).map(|_| other.clone()).collect();
    let negated = when.map(|text| format!("!({text})"));
    rules.push(rule(Effect::Allow, negated.as_deref()));
    let law = Law { rules, ..Law::default() };
    let mut registry = Registry::new("null");
    registry.register(Adapter::null()).unwrap();
    let request = format!(
        r#"{{"goal":"g","mode":"dry_run","plan_override":[{{"step_id":"s","intent":"",
            "call":{{"tool":"orders","method":"buy","args":{ARGS}}}}}]}}"#
    );
    let request = Request::parse(request.as_bytes()).unwrap();
    let caller = Caller::local();
    let selection =
        gate::select(&registry, "null", request.dispatch(), request.plan(), law.reach(None))
            .unwrap();
    let (store, secrets) = (Store::in_memory().unwrap(), Secrets::empty());
    time(rounds, || {
        let grounds = Grounds {
            mode: request.mode(),
            policy: request.policy(),
            law: &law,
            caller: Some(&caller),
            secrets: &secrets,
            approval: None,
            recorded: None,
            key: &store,
            now: Clock::System.now(),
            run_id: "r",
            goal: "g",
        };
        let admission = gate::admit(grounds, &selection.adapters[0], &request.plan()[0]);
        assert!(matches!(black_box(admission).verdict, Verdict::Simulate { .. }));
    })
}

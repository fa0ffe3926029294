//! Tests of facts that records lack, and that each policy adds.

use super::*;
use crate::event::Line;
use crate::policy::RuleKey;
use crate::store::EventVisitor;

#[test]
fn stated_hints_decide_one_by_one() {
    let deny = when("deny", "hints.destructive");
    let stated = |value: bool| format!("{}{deny}", tool(&format!("destructive = {value}")));
    assert_eq!(decided(&stated(true), &call()), (Effect::Deny, DecidedBy::Rule(0)));
    assert_eq!(decided(&stated(false), &call()), (Effect::Allow, DecidedBy::Default));
    assert_eq!(compared(&stated(true), &stated(false), &call()), "widens");
    assert_eq!(compared(&stated(false), &stated(true), &call()), "narrows");
    let unstated = format!("{}{deny}", tool("read_only = false"));
    assert_eq!(compared(&unstated, &stated(false), &call()), "unjudged equal widens");
    assert_eq!(compared(&unstated, &unstated, &call()), "equal");
    let either = when("deny", "hints.destructive || tool == 'orders'");
    assert_eq!(compared(&tool(""), &format!("{}{either}", tool("")), &call()), "narrows");
}

#[test]
fn hints_are_the_same_only_under_the_same_trust() {
    let trusted = SHOP.replace("id = ", "trust_hints = true\nid = ");
    let other = SHOP.replace("'m:f'", "'n:f'");
    for rule in [when("deny", "hints.destructive"), rule("deny", "annotation = 'destructive'")] {
        let [one, trusted, other] =
            [SHOP, &trusted, &other].map(|adapter| format!("{adapter}{rule}"));
        assert_eq!(compared(&one, &one, &call()), "equal");
        assert_eq!(compared(&one, &trusted, &call()), "unjudged equal narrows widens");
        assert_eq!(compared(&one, &other, &call()), "unjudged equal narrows widens");
    }
    // A rule and a condition about one hint read one fact.
    let both = format!(
        "{SHOP}{}{}",
        when("allow", "has(hints.destructive) && hints.destructive"),
        rule("deny", "annotation = 'destructive'")
    );
    let effects = |text: &str| {
        let possible = policy(text).explain(&call()).possible;
        possible.iter().map(|one| (one.effect, one.by)).collect::<Vec<_>>()
    };
    // Absent (read only or not), false and true.
    assert_eq!(
        effects(&both),
        [
            (Effect::Deny, DecidedBy::Rule(1)),
            (Effect::Allow, DecidedBy::Default),
            (Effect::Allow, DecidedBy::Rule(0))
        ]
    );
}

#[test]
fn assumed_results_depend_on_the_facts_of_each_policy() {
    let unknown = PolicyCall { caller: RecordedCaller::Unknown, ..call() };
    let classed = tool("action_class = 'file_write'");
    for (condition, call) in [
        ("class == 'file_write' && caller.name != 'ops'", &unknown),
        ("class == 'file_write' ? args.card == 'a' : args.card == 'b'", &redacted()),
    ] {
        let deny = when("deny", condition);
        let (old, new) = (format!("{classed}{deny}"), format!("{}{deny}", tool("")));
        let found = compared(&old, &new, call);
        assert!(found.starts_with("unjudged") && found.contains("widens"), "{condition}: {found}");
        assert_eq!(compared(&old, &old, call), "equal", "{condition}");
    }
    let card = "caller.role == 'envoy' ? args.card == 'a' : args.card == 'b'";
    let without = format!("{classed}{}", when("deny", card));
    let envoy = format!("{without}[[tokens]]\nname = 'ci'\nrole = 'envoy'\n");
    assert_eq!(compared(&without, &envoy, &redacted()), "unjudged equal narrows widens");
    assert_eq!(compared(&envoy, &envoy, &redacted()), "equal");
    let elsewhere = format!("{classed}{}", when("deny", "tool == 'x' && caller.name == 'ops'"));
    assert_eq!(compared(&classed, &elsewhere, &unknown), "equal", "the tool decides");
}

#[test]
fn leading_dots_hide_no_facts() {
    let unknown = PolicyCall { caller: RecordedCaller::Unknown, ..call() };
    for (condition, call) in
        [(".caller.name == 'ci'", &unknown), (".args.card == 'x'", &redacted())]
    {
        let text = format!("{}{}", tool(""), when("deny", condition));
        assert_eq!(policy(&text).explain(call).outcome, None, "{condition}");
        assert_eq!(compared(&tool(""), &text, call), "unjudged equal narrows", "{condition}");
    }
}

#[test]
fn class_of_an_offer_counts_in_conditions() {
    let offer = format!("{SHOP}offer.tools = ['*']\noffer.action_class = 'file_write'\n");
    for rule in [when("deny", "class == 'file_write'"), rule("deny", "action_class = 'file_write'")]
    {
        let text = format!("{offer}{rule}");
        assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Rule(0)));
    }
}

#[test]
fn names_in_conditions_ignore_case() {
    let text = format!("{SHOP}{}", when("deny", "tool == 'orders' && method == 'buy'"));
    let other = PolicyCall { tool: "Orders".to_owned(), method: "BUY".to_owned(), ..call() };
    assert_eq!(decided(&text, &other), (Effect::Deny, DecidedBy::Rule(0)));
}

#[test]
fn explanation_presents_no_assumption_as_a_fact() {
    let hinted = rule("deny", "annotation = 'destructive'");
    let same = policy(&format!("{SHOP}{hinted}{}", rule("deny", ""))).explain(&call());
    assert_eq!((same.effect, same.outcome), (Some(Effect::Deny), None));
    let by: Vec<_> = same.possible.iter().map(|one| one.by).collect();
    assert_eq!(by, [DecidedBy::Rule(0), DecidedBy::Rule(1)]);
    assert_eq!(same.gaps.into_iter().collect::<Vec<_>>(), [Gap::UnloadedHints]);
    assert_eq!(same.misses, []);
    let elsewhere = rule("deny", "tool = 'x'");
    let unclear = policy(&format!("{SHOP}{elsewhere}{hinted}")).explain(&call());
    assert_eq!((unclear.effect, unclear.outcome), (None, None));
    assert_eq!(unclear.misses, [(0, RuleMiss::Key(RuleKey::Tool))]);
}

#[test]
fn since_applies_to_events_that_cannot_be_read() {
    let since = Timestamp::parse("2026-11-16T00:00:00Z").unwrap();
    let mut comparison = PolicyComparison::new(policy(SHOP), policy(SHOP), Some(since), 1);
    for ts in ["2026-11-15T23:59:59Z", "2026-11-16T00:00:00Z", "?"] {
        let line = Line {
            event_id: "e".into(),
            payload: "{}",
            run_id: "r".into(),
            seq: 0,
            ts: ts.into(),
            kind: "TOOL_CALL_REQUESTED".into(),
        };
        comparison.visit(&line);
    }
    assert_eq!(comparison.report.unreadable, 2);
}

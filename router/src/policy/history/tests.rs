//! Tests of decisions about recorded calls.

mod facts;
mod gate;

use super::*;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::config::{ConfigFile, Effect, Environment};
use crate::json::{Limits, Object, parse};
use crate::request::Mode;
use crate::role::Role;
use crate::scope::Scope;

fn config(text: &str) -> ConfigFile {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("router.toml");
    std::fs::write(&file, text).unwrap();
    ConfigFile::find(Some(&file), &Environment::default()).unwrap()
}

fn policy(text: &str) -> PolicyFile {
    PolicyFile::new(&config(text), PolicyContext::default())
}

fn object(text: &str) -> Object {
    parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
}

fn caller(scope: Scope) -> RecordedCaller {
    RecordedCaller::Known(Caller { name: "ci".to_owned(), scope, ..Caller::local() })
}

/// Returns a call of `orders.buy` of the adapter `shop` by an administrator.
fn call() -> PolicyCall {
    PolicyCall {
        run_id: "r".to_owned(),
        step_id: "s".to_owned(),
        goal: "g".to_owned(),
        mode: Mode::Apply,
        at: Timestamp::parse("2026-11-16T08:00:00Z").unwrap(),
        caller: caller(Scope::Admin),
        adapter_id: "shop".to_owned(),
        tool: "orders".to_owned(),
        method: "buy".to_owned(),
        args: object(r#"{"amount":120,"card":"[REDACTED]"}"#),
        redacted: false,
    }
}

fn redacted() -> PolicyCall {
    PolicyCall { redacted: true, ..call() }
}

const SHOP: &str = "[[adapters]]\nref = 'm:f'\nid = 'shop'\n";

fn rule(effect: &str, rest: &str) -> String {
    format!("[[policy.rules]]\neffect = '{effect}'\n{rest}\n")
}

/// Decides about a call: the effect and the part of the policy that decides.
fn decided(text: &str, call: &PolicyCall) -> (Effect, DecidedBy) {
    let explanation = policy(text).explain(call);
    let outcome = explanation.outcome.unwrap_or_else(|| panic!("{explanation:?}"));
    (outcome.effect, outcome.by)
}

/// Compares two policies about a call: the direction, or `unjudged` with the directions that are possible.
fn compared(old: &str, new: &str, call: &PolicyCall) -> String {
    match PolicyComparison::new(policy(old), policy(new), None, 1).compare(call) {
        CallComparison::Judged { change, .. } => change.name().to_owned(),
        CallComparison::Unjudged { possible, .. } => {
            let possible: Vec<&str> = possible.iter().map(|change| change.name()).collect();
            format!("unjudged {}", possible.join(" "))
        }
    }
}

#[test]
fn policy_parts_decide_in_gate_order() {
    let deny = rule("deny", "tool = 'orders'");
    let asks = rule("approve", "method = 'b*'");
    assert_eq!(decided(SHOP, &call()), (Effect::Allow, DecidedBy::Default));
    let text = format!("{SHOP}{deny}{asks}");
    assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Rule(0)));
    let text = format!("{SHOP}{asks}{deny}");
    assert_eq!(decided(&text, &call()), (Effect::Approve, DecidedBy::Rule(0)));
    assert_eq!(decided("", &call()), (Effect::Deny, DecidedBy::Adapter));
    let text = format!("[policy]\napply = false\n{SHOP}");
    assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Apply));
    let dry = PolicyCall { mode: Mode::DryRun, ..call() };
    assert_eq!(decided(&text, &dry), (Effect::Allow, DecidedBy::Default));
    let text = format!("[policy]\ndefault = 'deny'\n{SHOP}");
    assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Default));
    let text = format!("[contracts]\nrequired = true\n{SHOP}");
    assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Contract));
}

#[test]
fn offers_bound_callers_below_admin() {
    let below = PolicyCall { caller: caller(Scope::Apply), ..call() };
    let host = PolicyCall { caller: RecordedCaller::Host, ..call() };
    let denied = (Effect::Deny, DecidedBy::Offer);
    assert_eq!(decided(SHOP, &below), denied);
    assert_eq!(decided(SHOP, &host).0, Effect::Allow);
    let offer = format!("{SHOP}offer.tools = ['ord*']\n");
    assert_eq!(decided(&offer, &below).0, Effect::Allow);
    let tool = "[[tools]]\nname = 'buy'\ndescription = 'd'\nadapter = 'shop'\ntool = 'orders'\n";
    assert_eq!(decided(&format!("{SHOP}{tool}method = 'buy'\n"), &below).0, Effect::Allow);
    assert_eq!(decided(&format!("{SHOP}{tool}method = 'sell'\n"), &below), denied);
    let older = RecordedCaller::WithoutScope(Caller { name: "ci".to_owned(), ..Caller::local() });
    let older = PolicyCall { caller: older, ..call() };
    assert_eq!(compared(SHOP, &offer, &older), "unjudged equal widens");
    assert_eq!(compared(&offer, &offer, &older), "equal");
    assert_eq!(compared(SHOP, SHOP, &older), "equal", "the scope is the same in both");
    let deny = rule("deny", "");
    assert_eq!(compared(&format!("{SHOP}{deny}"), &format!("{offer}{deny}"), &older), "equal");
}

#[test]
fn resources_of_unloaded_adapters_are_not_judged() {
    let (tool, method) = nexus_router_sdk::Catalog::READ;
    let read = PolicyCall {
        caller: caller(Scope::Apply),
        tool: tool.to_owned(),
        method: method.to_owned(),
        ..call()
    };
    let one = format!("{SHOP}offer.resources = ['file:*']\n");
    let other = format!("{SHOP}offer.resources = ['note:*']\n");
    assert_eq!(compared(&one, &one, &read), "equal");
    assert_eq!(compared(&one, &other, &read), "unjudged equal narrows widens");
    assert_eq!(compared(SHOP, SHOP, &read), "equal");
    assert_eq!(decided(SHOP, &read), (Effect::Deny, DecidedBy::Offer));
}

#[test]
fn roles_come_from_configuration_tokens_and_records() {
    let classed = "[[tools]]\nname = 'buy'\ndescription = 'd'\nadapter = 'shop'\ntool = 'orders'\n\
                   method = 'buy'\naction_class = 'shell_exec'\n";
    let text = format!("{SHOP}{classed}");
    let token = |role: &str| format!("{text}[[tokens]]\nname = 'ci'\nrole = '{role}'\n");
    assert_eq!(decided(&text, &call()).0, Effect::Allow);
    assert_eq!(decided(&token("envoy"), &call()).0, Effect::Allow);
    assert_eq!(decided(&token("scout"), &call()), (Effect::Deny, DecidedBy::Role));
    assert_eq!(compared(&text, &token("scout"), &call()), "narrows");
    let scout = Caller { name: "ci".to_owned(), role: Some(Role::Scout), ..Caller::local() };
    let scout = PolicyCall { caller: RecordedCaller::Known(scout), ..call() };
    assert_eq!(decided(&text, &scout), (Effect::Deny, DecidedBy::Role));
    let token_roles = [("ci".to_owned(), None)].into();
    let context = PolicyContext { token_roles, ..PolicyContext::default() };
    let mut own = PolicyFile::new(&config(&text), context);
    assert_eq!(own.explain(&scout).outcome.unwrap().effect, Effect::Allow, "the token has none");
}

#[test]
fn effects_are_ordered_deny_approve_allow() {
    let one = |effect: &str| format!("{SHOP}{}", rule(effect, "tool = 'orders'"));
    for (old, new, expected) in [
        ("deny", "approve", "widens"),
        ("approve", "allow", "widens"),
        ("allow", "approve", "narrows"),
        ("approve", "deny", "narrows"),
        ("allow", "allow", "equal"),
    ] {
        assert_eq!(compared(&one(old), &one(new), &call()), expected, "{old} to {new}");
    }
}

#[test]
fn adapters_of_one_configuration_alone_change_calls() {
    assert_eq!(compared(SHOP, "", &call()), "narrows");
    assert_eq!(compared("", SHOP, &call()), "widens");
    let deny = rule("deny", "");
    assert_eq!(compared("", &deny, &call()), "narrows", "the command line brings the adapter");
    assert_eq!(compared("", "", &call()), "equal");
}

#[test]
fn adapters_without_an_id_are_tried_one_by_one() {
    let two = "[[adapters]]\nref = 'a:f'\noffer.prefix = 'a.'\n[[adapters]]\nref = 'b:f'\n";
    let named = rule("deny", "tool = 'a.orders'");
    let plain = rule("deny", "tool = 'orders'");
    assert_eq!(compared(two, &format!("{two}{plain}"), &call()), "narrows");
    assert_eq!(compared(two, &format!("{two}{named}"), &call()), "unjudged equal narrows");
    let both = format!("{two}{named}");
    assert_eq!(compared(&both, &both, &call()), "equal");
    let one = "[[adapters]]\nref = 'a:f'\noffer.prefix = 'a.'\n";
    assert_eq!(compared(one, &format!("{one}{named}"), &call()), "narrows", "only one can be it");
}

#[test]
fn unknown_callers_matter_only_where_rules_read_them() {
    let unknown = PolicyCall { caller: RecordedCaller::Unknown, ..call() };
    let offer = format!("{SHOP}offer.tools = ['*']\n");
    let by_token = format!("{offer}{}", rule("deny", "token = 'ci'"));
    let plain = format!("{offer}{}", rule("deny", "tool = 'orders'"));
    assert_eq!(compared(&offer, &by_token, &unknown), "unjudged equal narrows");
    assert_eq!(compared(&by_token, &by_token, &unknown), "equal");
    assert_eq!(compared(&offer, &plain, &unknown), "narrows");
    assert_eq!(compared(&by_token, &plain, &unknown), "unjudged equal narrows");
}

#[test]
fn hints_are_known_if_the_configuration_states_them() {
    let tool = |hint: &str| {
        format!(
            "{SHOP}[[tools]]\nname = 'buy'\ndescription = 'd'\nadapter = 'shop'\ntool = 'orders'\n\
             method = 'buy'\n{hint}\n"
        )
    };
    let asks = rule("approve", "annotation = 'destructive'");
    let stated = tool("destructive = true");
    assert_eq!(decided(&format!("{stated}{asks}"), &call()).0, Effect::Approve);
    let stated = tool("destructive = false");
    assert_eq!(decided(&format!("{stated}{asks}"), &call()).0, Effect::Allow);
    let unknown = format!("{}{asks}", tool(""));
    let explanation = policy(&unknown).explain(&call());
    assert_eq!(explanation.outcome, None);
    assert_eq!(explanation.gaps.into_iter().collect::<Vec<_>>(), [Gap::UnloadedHints]);
    assert_eq!(compared(&unknown, &unknown, &call()), "equal");
    assert_eq!(compared(&tool(""), &unknown, &call()), "unjudged equal narrows");
}

fn when(effect: &str, condition: &str) -> String {
    rule(effect, &format!("when = \"{condition}\""))
}

#[test]
fn conditions_decide_at_the_recorded_time() {
    let text = format!("{SHOP}{}", when("deny", "args.amount > 100 && now.getHours() < 9"));
    assert_eq!(decided(&text, &call()), (Effect::Deny, DecidedBy::Rule(0)));
    let later = PolicyCall { at: Timestamp::parse("2026-11-16T10:00:00Z").unwrap(), ..call() };
    assert_eq!(decided(&text, &later).0, Effect::Allow);
    let explanation = policy(&text).explain(&later);
    assert_eq!(explanation.misses, [(0, RuleMiss::Condition)]);
    let failing = format!("{SHOP}{}", when("allow", "args.missing > 1"));
    assert_eq!(decided(&failing, &call()), (Effect::Deny, DecidedBy::Condition(0)));
    assert_eq!(policy(&failing).explain(&call()).failure.as_deref(), Some("a member is missing"));
    for (condition, expected) in [
        ("caller.name == 'ci' && caller.scope == 'admin' && caller.role == ''", Effect::Deny),
        ("caller.name == 'other'", Effect::Allow),
        ("run.mode == 'apply' && run.goal == 'g' && run.id == 'r'", Effect::Deny),
        ("adapter == 'shop' && tool == 'orders' && method == 'buy' && class == ''", Effect::Deny),
    ] {
        let text = format!("{SHOP}{}", when("deny", condition));
        assert_eq!(decided(&text, &call()).0, expected, "{condition}");
    }
}

#[test]
fn redacted_arguments_matter_only_where_they_decide() {
    let denies = |condition: &str| format!("{SHOP}{}", when("deny", condition));
    let card = denies("args.card == 'x'");
    assert_eq!(compared(SHOP, &card, &call()), "equal", "nothing is redacted");
    assert_eq!(compared(SHOP, &card, &redacted()), "unjudged equal narrows");
    assert_eq!(compared(SHOP, &denies("args.amount > 100"), &redacted()), "narrows");
    assert_eq!(compared(SHOP, &denies("has(args.card)"), &redacted()), "narrows");
    let short = denies("tool == 'other' && args.card == 'x'");
    assert_eq!(compared(SHOP, &short, &redacted()), "equal", "the tool decides");
    let short = denies("args.card == 'x' || tool == 'orders'");
    assert_eq!(compared(SHOP, &short, &redacted()), "narrows", "the tool decides");
    assert_eq!(compared(&card, &card, &redacted()), "equal", "the condition is the same");
    let behind = format!("{SHOP}{}{}", rule("deny", ""), when("allow", "args.card == 'x'"));
    assert_eq!(compared(&denies("true"), &behind, &redacted()), "equal", "it is not reached");
    let further = format!("{card}{}", rule("deny", "tool = 'orders'"));
    assert_eq!(compared(&card, &further, &redacted()), "unjudged equal narrows");
    let asks = format!("{SHOP}{}{}", when("approve", "args.card == 'x'"), rule("approve", ""));
    assert_eq!(
        compared(&asks, &format!("{SHOP}{}", rule("deny", "")), &redacted()),
        "unjudged equal narrows"
    );
    assert_eq!(compared(SHOP, &asks, &redacted()), "narrows", "every result permits less");
}

#[test]
fn conditions_about_missing_callers_and_hints_are_assumed() {
    let unknown = PolicyCall { caller: RecordedCaller::Unknown, ..call() };
    let offer = format!("{SHOP}offer.tools = ['*']\n");
    let by_name = format!("{offer}{}", when("deny", "caller.name == 'ci'"));
    assert_eq!(compared(&offer, &by_name, &unknown), "unjudged equal narrows");
    assert_eq!(compared(&by_name, &by_name, &unknown), "equal");
    let older = RecordedCaller::WithoutScope(Caller { name: "ci".to_owned(), ..Caller::local() });
    let older = PolicyCall { caller: older, ..call() };
    assert_eq!(compared(&offer, &by_name, &older), "narrows", "the name is known");
    let by_scope = format!("{offer}{}", when("deny", "caller.scope == 'admin'"));
    assert_eq!(compared(&offer, &by_scope, &older), "unjudged equal narrows");
    let by_hint = format!("{SHOP}{}", when("deny", "has(hints.read_only)"));
    assert_eq!(compared(SHOP, &by_hint, &call()), "unjudged equal narrows");
    assert_eq!(compared(&by_hint, &by_hint, &call()), "equal");
}

/// Returns the tool of the call with keys of its own.
fn tool(keys: &str) -> String {
    format!(
        "{SHOP}offer.tools = ['*']\n[[tools]]\nname = 'buy'\ndescription = 'd'\nadapter = 'shop'\n\
         tool = 'orders'\nmethod = 'buy'\n{keys}\n"
    )
}

#[test]
fn too_many_unknown_conditions_are_not_judged() {
    let rules: Vec<_> =
        (0..12).map(|number| when("allow", &format!("args.card == '{number}'"))).collect();
    let text = format!("[policy]\ndefault = 'deny'\n{SHOP}{}", rules.concat());
    let mut comparison = PolicyComparison::new(policy(SHOP), policy(&text), None, 1);
    comparison.add(redacted());
    assert_eq!((comparison.report.unjudged, comparison.report.gaps[&Gap::TooMany]), (1, 1));
}

#[test]
fn explanation_names_the_key_of_each_earlier_rule() {
    let rules = [
        rule("deny", "adapter = 'mail'"),
        rule("deny", "tool = 'x'"),
        rule("deny", "method = 'x'"),
        rule("deny", "token = 'x'"),
        rule("deny", "action_class = 'shell_exec'"),
        rule("allow", ""),
        rule("deny", ""),
    ];
    let explanation = policy(&format!("{SHOP}{}", rules.concat())).explain(&call());
    let keys: Vec<_> = explanation.misses.iter().map(|(_, miss)| miss.clone()).collect();
    use crate::policy::RuleKey::{ActionClass, Adapter, Method, Token, Tool};
    let expected = [Adapter, Tool, Method, Token, ActionClass].map(RuleMiss::Key);
    assert_eq!(keys, expected);
    assert_eq!(explanation.outcome.unwrap().by, DecidedBy::Rule(5));
}

#[test]
fn report_counts_and_lists_within_its_limit() {
    let new = format!("{SHOP}{}", rule("deny", "tool = 'orders'"));
    let mut comparison = PolicyComparison::new(policy(SHOP), policy(&new), None, 2);
    for _ in 0..5 {
        comparison.add(call());
        comparison.add(PolicyCall { tool: "other".to_owned(), ..call() });
    }
    let report = &comparison.report;
    assert_eq!((report.total, report.equal, report.narrowed, report.widened), (10, 5, 5, 0));
    assert_eq!((report.narrowing.len(), report.verdict()), (2, PolicyVerdict::Narrows));
    assert!(report.narrowing[0].call.args.is_empty(), "arguments are not shown");
}

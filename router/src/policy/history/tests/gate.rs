//! Decisions about recorded calls equal those of the gate.

use proptest::prelude::*;

use super::*;
use crate::policy::{CallInput, Judgement, Law};

prop_compose! {
    fn any_rule()(
        effect in prop::sample::select(vec!["allow", "deny", "approve"]),
        key in prop::sample::select(vec!["", "adapter = 'shop'", "adapter = 'm*'", "token = 'ci'", "token = 'x'",
            "method = 'buy'", "action_class = 'shell_exec'"]),
        tool in prop::sample::select(vec!["", "tool = 'ORDERS'", "tool = 'buy'", "tool = 's.*'", "tool = '?rders'"]),
    ) -> String {
        rule(effect, &format!("{key}\n{tool}"))
    }
}

prop_compose! {
    fn any_condition()(
        effect in prop::sample::select(vec!["allow", "deny", "approve"]),
        key in prop::sample::select(vec!["", "", "annotation = 'destructive'", "annotation = 'not_read_only'",
            "action_class = 'file_write'", "token = 'ci'"]),
        one in atom(),
        other in atom(),
        operator in prop::sample::select(vec!["&&", "||", "=="]),
    ) -> String {
        rule(effect, &format!("{key}\nwhen = \"({one}) {operator} ({other})\""))
    }
}

/// Returns a condition about one fact.
fn atom() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "args.amount > 100",
        "args.missing == 1",
        "has(args.card)",
        "tool == 'orders'",
        "method != 'buy' || adapter == 'mail'",
        "class == 'file_write'",
        "class == 'shell_exec'",
        "class == ''",
        "caller.name == 'ci'",
        ".caller.name != 'ops'",
        "caller.scope in ['admin', 'run']",
        "caller.role == 'envoy'",
        "hints.destructive",
        "has(hints.read_only) && hints.read_only",
        "!has(hints.open_world) || hints.idempotent",
        "run.mode == 'apply' && now.getHours() == 8",
    ])
}

/// Decides about a call as the gate does, without catalogues.
fn gate_effect(file: &mut PolicyFile, call: &PolicyCall) -> Effect {
    let law: Law = Law::clone(&file.law("shop", None));
    let PolicyCall { args, run_id, goal, mode, at, .. } = call;
    let input = CallInput { args, run_id, goal, mode: *mode, now: *at };
    let (caller, act) = (call.caller.caller(), call.act());
    if law.judge_by_offer(caller, act, args).is_err() {
        return Effect::Deny;
    }
    match law.judge_in(caller, (act, law.class_of(act)), &input) {
        Ok(decision) if decision.judgement == Judgement::Allow => Effect::Allow,
        Ok(_) => Effect::Approve,
        Err(_) => Effect::Deny,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn rules_decide_as_in_the_gate(
        rules in prop::collection::vec(any_rule(), 0..6),
        default in prop::sample::select(vec!["allow", "deny"]),
        classed in any::<bool>(),
    ) {
        let class = if classed { "action_class = 'shell_exec'\n" } else { "" };
        let text = format!(
            "[policy]\ndefault = '{default}'\n{SHOP}offer.prefix = 's.'\n[[tools]]\nname = 'buy'\n\
             description = 'd'\nadapter = 'shop'\ntool = 'orders'\nmethod = 'buy'\n{class}{}",
            rules.concat()
        );
        let config = config(&text);
        let mut file = PolicyFile::new(&config, PolicyContext::default());
        let found = file.explain(&call()).outcome.unwrap().effect;
        prop_assert_eq!(found, gate_effect(&mut file, &call()), "{}", text);
    }

    #[test]
    fn conditions_decide_as_in_the_gate(
        rules in prop::collection::vec(any_condition(), 1..5),
        (default, class, of_offer) in (
            prop::sample::select(vec!["allow", "deny"]),
            prop::sample::select(vec!["", "action_class = 'shell_exec'\n"]),
            prop::sample::select(vec!["", "offer.action_class = 'file_write'\n"]),
        ),
        hints in prop::collection::vec(prop::sample::select(vec!["", "true", "false"]), 4),
        (name, scope, role) in (
            prop::sample::select(vec!["ci", "ops", ""]),
            prop::sample::select(Scope::ALL.to_vec()),
            prop::sample::select(vec![None, Some(Role::Envoy), Some(Role::Scout)]),
        ),
        tool in prop::sample::select(vec!["orders", "Orders", "other"]),
    ) {
        let names = ["read_only", "destructive", "idempotent", "open_world"];
        let stated = names.iter().zip(&hints).filter(|(_, value)| !value.is_empty());
        let stated: String = stated.map(|(name, value)| format!("{name} = {value}\n")).collect();
        let text = format!(
            "[policy]\ndefault = '{default}'\n{SHOP}offer.tools = ['*']\n{of_offer}[[tools]]\nname = 'buy'\n\
             description = 'd'\nadapter = 'shop'\ntool = 'orders'\nmethod = 'buy'\n{class}{stated}{}",
            rules.concat()
        );
        let caller = match name {
            "" => RecordedCaller::Host,
            name => RecordedCaller::Known(Caller { name: name.to_owned(), token_id: None, role, scope }),
        };
        let call = PolicyCall { caller, tool: tool.to_owned(), ..call() };
        let mut file = PolicyFile::new(&config(&text), PolicyContext::default());
        let explanation = file.explain(&call);
        let expected = gate_effect(&mut file, &call);
        let is_possible = explanation.possible.iter().any(|one| one.effect == expected);
        prop_assert!(is_possible, "{expected:?}: {explanation:?}\n{text}");
        if let Some(effect) = explanation.effect {
            prop_assert_eq!(effect, expected, "{}", text);
        }
        let has_all = tool == "orders" && hints.iter().all(|value| !value.is_empty());
        if has_all && role.is_none() {
            prop_assert!(explanation.outcome.is_some(), "{explanation:?}\n{text}");
        }
    }
}

//! Whether a person has to be asked about a call, and whether what they said is about exactly this call.

use std::borrow::Cow;

use super::Grounds;
use crate::approval::{Approval, Decision, args_digest, original_digest, original_step_digest};
use crate::json::Value;
use crate::policy::{Act, Judgement};
use crate::request::Step;

/// What a person is to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The id of the rule that wants it.
    pub rule: String,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// What the plan grants to the call beyond the role of its caller.
    pub grants: Vec<Value>,
    /// The digest of the recorded arguments, of the grants, and of the keyed digest of the original arguments.
    pub args_digest: String,
    /// The version of the law that asks.
    pub policy_version: String,
}

/// How far people have settled a call.
pub(super) enum Settled {
    /// It may be made.
    Granted,
    /// They have to be asked, for the first time or again.
    Ask(Question),
    /// It must not be made.
    Refused { code: &'static str, message: String, details: serde_json::Value },
}

/// Says how far people have settled a call that nothing else forbids.
pub(super) fn settle(
    grounds: Grounds<'_>,
    judgement: Judgement,
    act: Act<'_>,
    step: &Step,
) -> Settled {
    // A no holds, also where the law would not ask any more.
    if let Some(refused) = grounds.approval.and_then(refused) {
        return refused;
    }
    let Judgement::Ask { rule, reason } = judgement else { return Settled::Granted };
    let redacted = grounds.recorded.filter(|recorded| *recorded != step.raw());
    let original = match redacted {
        None => original_digest(grounds.key, step.args(), step.interaction()),
        Some(_) => original_step_digest(grounds.key, step.raw()),
    };
    let original = match original {
        Ok(original) => original,
        Err(message) => {
            let message = format!("cannot compute the digest of the approval: {message}");
            let details = serde_json::json!({ "denied_by": "approval", "rule": rule });
            return Settled::Refused { code: "STORE_KEY_UNUSABLE", message, details };
        }
    };
    // A person sees the recorded form, and the approval covers both forms.
    let recorded =
        redacted.map_or(Cow::Borrowed(step), |it| Cow::Owned(Step::of_record(it.clone())));
    let (args, interaction) = (recorded.args(), recorded.interaction());
    let grants = recorded.grants().and_then(Value::as_array).unwrap_or_default();
    let question = Question {
        rule,
        reason,
        args_digest: args_digest(args, interaction, grants, original).to_string(),
        grants: grants.to_vec(),
        policy_version: grounds.law.digest().to_owned(),
    };
    match grounds.approval {
        Some(approval) if covers(approval, grounds, act, &recorded, &question) => Settled::Granted,
        _ => Settled::Ask(question),
    }
}

/// Says whether an approval was granted, and for exactly this call.
fn covers(
    approval: &Approval,
    grounds: Grounds<'_>,
    act: Act<'_>,
    recorded: &Step,
    question: &Question,
) -> bool {
    let granted =
        approval.ruling.as_ref().is_some_and(|ruling| ruling.decision == Decision::Approved);
    granted
        && approval.step_id == recorded.step_id()
        && approval.caller.as_ref() == grounds.caller
        && approval.adapter_id == act.adapter_id
        && approval.tool() == recorded.tool()
        && approval.method() == recorded.method()
        && approval.args_digest == question.args_digest
        && approval.policy_version == question.policy_version
        // Under one policy, the moment may decide which rule asks.
        && approval.rule == question.rule
        && !approval.is_expired(grounds.now)
}

fn refused(approval: &Approval) -> Option<Settled> {
    let ruling = approval.ruling.as_ref()?;
    let (code, message) = match ruling.decision {
        Decision::Approved | Decision::Void => return None,
        Decision::Denied => {
            let by = ruling.by.as_deref().unwrap_or("somebody");
            let why = ruling.reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            ("APPROVAL_DENIED", format!("{by} did not approve the call{why}"))
        }
        Decision::Expired => {
            let end = &approval.expires_at;
            ("APPROVAL_EXPIRED", format!("nobody approved the call until {end}"))
        }
    };
    let details = serde_json::json!({
        "approval_id": approval.approval_id,
        "by": ruling.by,
        "reason": ruling.reason,
        "denied_by": "approval",
    });
    Some(Settled::Refused { code, message, details })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::{ArgumentKey, Ruling};
    use crate::caller::Caller;
    use crate::clock::Timestamp;
    use crate::digest::Digest;
    use crate::json::{Limits, parse};
    use crate::policy::Law;
    use crate::request::{Mode, Policy};
    use crate::secret::Secrets;

    const ACT: Act<'_> = Act { adapter_id: "shop", tool: "orders", method: "buy" };
    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn step(args: &str) -> Step {
        granted_step(args, "[]")
    }

    fn granted_step(args: &str, grants: &str) -> Step {
        let call = format!(r#"{{"tool":"orders","method":"buy","args":{args}}}"#);
        let plan = format!(r#"[{{"step_id":"s","intent":"i","call":{call},"grants":{grants}}}]"#);
        Step::read_plan(parse(plan.as_bytes(), Limits::REQUEST).unwrap()).unwrap().remove(0)
    }

    fn ask() -> Judgement {
        Judgement::Ask { rule: "rule-4".to_owned(), reason: Some("why".to_owned()) }
    }

    fn caller() -> Caller {
        Caller { name: "ci".to_owned(), token_id: Some("t".to_owned()), ..Caller::local() }
    }

    /// An approval of this call that was granted, and ends in a moment.
    fn granted() -> Approval {
        Approval {
            approval_id: "a".to_owned(),
            run_id: "r".to_owned(),
            step_id: "s".to_owned(),
            adapter_id: "shop".to_owned(),
            call: step("{}").call().clone(),
            grants: Vec::new(),
            args_digest: digest_of(&step("{}"), &[]),
            policy_version: Law::default().version(),
            rule: "rule-4".to_owned(),
            asked_because: None,
            caller: Some(caller()),
            requested_at: Timestamp::from_millis(0).to_string(),
            expires_at: Timestamp::from_millis(1_001).to_string(),
            under_way_ms: 0,
            ruling: Some(ruling(Decision::Approved)),
        }
    }

    /// Computes the digest that the gate computes, with a key that tests know.
    fn digest_of(step: &Step, grants: &[Value]) -> String {
        let original = original_digest(&TestKey, step.args(), None).unwrap();
        args_digest(step.args(), None, grants, original).to_string()
    }

    /// Computes the digest of a step that may have another recorded form.
    fn recorded_digest(step: &Step, recorded: Option<&Step>) -> String {
        let shown = recorded.unwrap_or(step);
        let grants = shown.grants().unwrap().as_array().unwrap();
        let original = match recorded.filter(|recorded| *recorded != step) {
            None => return digest_of(step, grants),
            Some(_) => original_step_digest(&TestKey, step.raw()).unwrap(),
        };
        args_digest(shown.args(), shown.interaction(), grants, original).to_string()
    }

    /// Key of the tests.
    #[derive(Debug)]
    struct TestKey;

    impl ArgumentKey for TestKey {
        fn keyed_digest(&self, parts: &[&[u8]]) -> Result<Digest, String> {
            Ok(Digest::of_parts(parts))
        }
    }

    fn ruling(decision: Decision) -> Ruling {
        Ruling { decision, by: Some("ada".to_owned()), reason: None, at: String::new() }
    }

    fn settled(approval: Option<&Approval>, judgement: Judgement) -> String {
        settled_for(&step("{}"), approval, judgement, None)
    }

    fn settled_for(
        step: &Step,
        approval: Option<&Approval>,
        judgement: Judgement,
        recorded: Option<&Step>,
    ) -> String {
        let (law, secrets, caller) = (Law::default(), Secrets::empty(), caller());
        let grounds = Grounds {
            mode: Mode::Apply,
            policy: Policy::default(),
            law: &law,
            caller: Some(&caller),
            secrets: &secrets,
            approval,
            recorded: recorded.map(Step::raw),
            key: &TestKey,
            now: NOW,
            run_id: "r",
            goal: "",
        };
        match settle(grounds, judgement, ACT, step) {
            Settled::Granted => "granted".to_owned(),
            Settled::Ask(Question {
                rule,
                reason,
                grants,
                args_digest: digest,
                policy_version,
            }) => {
                assert_eq!((rule.as_str(), reason.as_deref()), ("rule-4", Some("why")));
                assert_eq!(
                    Some(&grants[..]),
                    recorded.unwrap_or(step).grants().unwrap().as_array()
                );
                assert_eq!(digest, recorded_digest(step, recorded));
                assert_eq!(policy_version, law.version());
                "ask".to_owned()
            }
            Settled::Refused { code, .. } => code.to_owned(),
        }
    }

    #[test]
    fn only_an_approval_of_exactly_this_call_lets_it_through() {
        assert_eq!(settled(None, Judgement::Allow), "granted");
        assert_eq!(settled(None, ask()), "ask");
        assert_eq!(settled(Some(&granted()), ask()), "granted");
        let text = str::to_owned;
        let call = |key: &str| {
            let mut call = granted().call;
            call.insert(key, "other");
            call
        };
        let others = [
            Approval { step_id: text("t"), ..granted() },
            Approval { adapter_id: text("other"), ..granted() },
            Approval { call: call("tool"), ..granted() },
            Approval { call: call("method"), ..granted() },
            Approval { args_digest: digest_of(&step(r#"{"a":1}"#), &[]), ..granted() },
            Approval { policy_version: text("other"), ..granted() },
            Approval { rule: text("other"), ..granted() },
            Approval { caller: None, ..granted() },
            Approval { caller: Some(Caller { token_id: None, ..caller() }), ..granted() },
            Approval { expires_at: NOW.to_string(), ..granted() },
            Approval { ruling: None, ..granted() },
            Approval { ruling: Some(ruling(Decision::Void)), ..granted() },
        ];
        for other in others {
            assert_eq!(settled(Some(&other), ask()), "ask", "{other:?}");
        }
    }

    #[test]
    fn an_approval_covers_the_call_with_the_grants_that_were_shown_and_no_others() {
        let shell = granted_step("{}", r#"[{"grant":"shell_exec"}]"#);
        let network = granted_step("{}", r#"[{"grant":"network","targets":["a:1"]}]"#);
        let (plain, bare) = (step("{}"), granted());
        assert_eq!(settled_for(&plain, Some(&bare), ask(), None), "granted");
        for other in [&shell, &network] {
            assert_eq!(settled_for(other, Some(&bare), ask(), None), "ask", "{other:?}");
        }
        let grants = shell.grants().unwrap().as_array().unwrap().to_vec();
        let digest = digest_of(&shell, &grants);
        let approval = Approval { grants, args_digest: digest, ..granted() };
        assert_eq!(settled_for(&shell, Some(&approval), ask(), None), "granted");
        for other in [&plain, &network] {
            assert_eq!(settled_for(other, Some(&approval), ask(), None), "ask", "{other:?}");
        }
    }

    #[test]
    fn approval_covers_recorded_and_original_form() {
        let recorded = step(r#"{"password":"[REDACTED]"}"#);
        let [one, other] =
            ["hunter2", "hunter3"].map(|password| step(&format!(r#"{{"password":"{password}"}}"#)));
        assert_eq!(settled_for(&one, None, ask(), Some(&recorded)), "ask");
        let args_digest = recorded_digest(&one, Some(&recorded));
        let approval = Approval { args_digest, call: recorded.call().clone(), ..granted() };
        assert_eq!(settled_for(&one, Some(&approval), ask(), Some(&recorded)), "granted");
        assert_eq!(settled_for(&other, Some(&approval), ask(), Some(&recorded)), "ask");
        // Redaction that changes nothing of a step leaves its digest as it is.
        assert_eq!(settled_for(&step("{}"), Some(&granted()), ask(), Some(&step("{}"))), "granted");
    }

    #[test]
    fn refuses_to_ask_without_the_key_of_the_store() {
        #[derive(Debug)]
        struct NoKey;
        impl ArgumentKey for NoKey {
            fn keyed_digest(&self, _: &[&[u8]]) -> Result<Digest, String> {
                Err("no key".to_owned())
            }
        }
        let (law, secrets) = (Law::default(), Secrets::empty());
        let grounds = Grounds {
            mode: Mode::Apply,
            policy: Policy::default(),
            law: &law,
            caller: None,
            secrets: &secrets,
            approval: None,
            recorded: None,
            key: &NoKey,
            now: NOW,
            run_id: "r",
            goal: "",
        };
        let settled = settle(grounds, ask(), ACT, &step("{}"));
        assert!(matches!(settled, Settled::Refused { code: "STORE_KEY_UNUSABLE", .. }));
    }

    #[test]
    fn a_no_holds_also_where_nobody_would_be_asked_any_more() {
        let cases =
            [(Decision::Denied, "APPROVAL_DENIED"), (Decision::Expired, "APPROVAL_EXPIRED")];
        for (decision, code) in cases {
            let approval = Approval { ruling: Some(ruling(decision)), ..granted() };
            for judgement in [ask(), Judgement::Allow] {
                assert_eq!(settled(Some(&approval), judgement), code);
            }
        }
    }
}

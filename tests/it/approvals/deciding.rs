//! Decisions: by whom, once, in time, and about exactly what was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nexus_router::clock::{Clock, Timestamp};
use nexus_router::config::{ApprovalSettings, Effect};
use nexus_router::policy::Law;
use nexus_router::router::{Answer, Decider, Options};
use nexus_router::store::Status;
use serde_json::json;

use super::{
    Office, ada, asks, decide, ended, open, plan, refused, risky, rule, run, set, step_error, waits,
};

#[test]
fn an_approval_works_once() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, approval_id) = waits(&router, &risky());
    assert_eq!(decide(&router, &approval_id, Answer::Approve).status, Status::Completed);
    let before = office.log(&run_id);
    for answer in [Answer::Approve, Answer::Deny] {
        let error = router.decide_blocking(&approval_id, answer, &ada(), None).unwrap_err();
        assert_eq!(error.code(), "APPROVAL_ALREADY_DECIDED");
        let told = error.to_string();
        assert!(told.contains("approved by ada at 20"), "{told}");
        assert!(!error.hint().is_empty());
    }
    assert_eq!(office.calls(), 1, "nothing was carried out again");
    assert_eq!(office.log(&run_id), before);
    assert_eq!(refused(&router, "nope", Answer::Approve, &ada()), "APPROVAL_UNKNOWN");
    let long = "x".repeat(2001);
    let (_, approval_id) = waits(&router, &risky());
    let error = router.decide_blocking(&approval_id, Answer::Deny, &ada(), Some(&long));
    assert_eq!(error.unwrap_err().code(), "APPROVAL_REASON_TOO_LONG");
}

#[test]
fn of_many_who_decide_at_once_one_does() {
    let office = Office::new();
    // Two routers on one store are as two processes.
    let routers = [office.router(asks("risky")), office.router(asks("risky"))];
    for round in 1..=8 {
        let (run_id, approval_id) = waits(&routers[0], &risky());
        let won = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for router in routers.iter().cycle().take(6) {
                scope.spawn(|| {
                    match router.decide_blocking(&approval_id, Answer::Approve, &ada(), None) {
                        Ok(decided) => {
                            won.fetch_add(1, Ordering::Relaxed);
                            let outcome = router.outcome_blocking(decided.run).unwrap();
                            assert_eq!(outcome.status, Status::Completed);
                        }
                        Err(error) => assert_eq!(error.code(), "APPROVAL_ALREADY_DECIDED"),
                    }
                });
            }
        });
        assert_eq!((won.into_inner(), office.calls()), (1, round));
        assert_eq!(office.course(&run_id), "S ask approved Q + C provenance completed");
    }
}

#[test]
fn whoever_asked_does_not_decide_unless_the_operator_says_so() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (_, approval_id) = waits(&router, &risky());
    let other = |name: &str| Decider {
        name: name.to_owned(),
        token_id: Some(name.to_owned()),
        admin: false,
    };
    for answer in [Answer::Approve, Answer::Deny] {
        assert_eq!(refused(&router, &approval_id, answer, &other("agent")), "APPROVAL_OWN_CALL");
        assert_eq!(refused(&router, &approval_id, answer, &other("else")), "APPROVAL_NOT_YOURS");
    }
    assert_eq!(open(router.store()), [approval_id.as_str()]);
    let approvals = ApprovalSettings { by_caller: true, ..ApprovalSettings::default() };
    let lenient = office.router(Law { approvals, ..asks("risky") });
    assert_eq!(refused(&lenient, &approval_id, Answer::Deny, &other("else")), "APPROVAL_NOT_YOURS");
    let nobody = Decider { name: "agent".to_owned(), token_id: None, admin: false };
    assert_eq!(refused(&lenient, &approval_id, Answer::Deny, &nobody), "APPROVAL_NOT_YOURS");
    let decided =
        lenient.decide_blocking(&approval_id, Answer::Approve, &other("agent"), None).unwrap();
    assert_eq!(lenient.outcome_blocking(decided.run).unwrap().status, Status::Completed);
    // An administrator may decide about what it asked for itself.
    let (_, approval_id) = waits(&router, &risky());
    let admin = Decider { admin: true, ..other("agent") };
    router.decide_blocking(&approval_id, Answer::Deny, &admin, None).unwrap();
}

fn brief(expire: Duration) -> Law {
    let approvals = ApprovalSettings { expire, ..ApprovalSettings::default() };
    Law { approvals, ..asks("risky") }
}

#[test]
fn what_nobody_answers_is_refused_when_its_time_is_over() {
    let office = Office::new();
    let router = office.router(brief(Duration::from_millis(50)));
    let (run_id, approval_id) = waits(&router, &risky());
    let outcome = ended(&router, &run_id);
    let error = step_error(&outcome);
    assert_eq!((outcome.status, error.code.as_str()), (Status::Failed, "APPROVAL_EXPIRED"));
    assert_eq!(office.course(&run_id), "S ask expired Q - C provenance failed");
    assert_eq!(refused(&router, &approval_id, Answer::Approve, &ada()), "APPROVAL_EXPIRED");
    assert_eq!(office.calls(), 0);
    let ruling = router.store().approval(&approval_id).unwrap().unwrap().ruling.unwrap();
    assert_eq!((ruling.by, ruling.reason), (None, None));
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    let office = Office::new();
    let moment = Timestamp::parse("2026-11-16T00:00:00.000Z").unwrap();
    let hour = brief(Duration::from_secs(3600));
    let early = office.router_at(hour.clone(), Clock::Fixed(moment));
    let (run_id, approval_id) = waits(&early, &risky());
    let later = Timestamp::from_millis(moment.as_millis() + 3_600_000);
    let late = office.router_at(hour, Clock::Fixed(later));
    assert_eq!(refused(&late, &approval_id, Answer::Approve, &ada()), "APPROVAL_EXPIRED");
    assert_eq!(step_error(&ended(&late, &run_id)).code, "APPROVAL_EXPIRED");
    assert_eq!(office.calls(), 0);
}

#[test]
fn changed_policy_does_not_use_up_an_approval() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let replace = |law: Law| {
        let options = Options { law, ..Options::default() };
        router.replace(office.registry.clone(), options).unwrap();
    };
    let (run_id, first) = waits(&router, &risky());
    let mut other = asks("risky");
    other.rules[0].reason = Some("it is very risky".to_owned());
    let forbids = Law { rules: vec![rule(Effect::Deny, "risky")], ..Law::default() };
    let closed = Law { apply: false, ..asks("risky") };
    let short = Law { max_steps: Some(0), ..asks("risky") };
    for (law, why) in [
        (other.clone(), "the policy is not the one that requested the approval"),
        (forbids.clone(), "PERMISSION_DENIED"),
        (closed, "PERMISSION_DENIED"),
        (short, "the plan has 1 steps; the limit is 0"),
    ] {
        replace(law);
        let error = router.decide_blocking(&first, Answer::Approve, &ada(), None).unwrap_err();
        assert_eq!(error.code(), "APPROVAL_NOT_EXECUTABLE", "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.hint().contains("`--config`"), "{}", error.hint());
        assert_eq!((open(router.store()), office.calls()), (vec![first.clone()], 0));
    }
    replace(asks("risky"));
    let outcome = decide(&router, &first, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Completed, 1));
    assert_eq!(office.course(&run_id), "S ask approved Q + C provenance completed");

    // A law that does not ask any more lets an approved call through, and a denied one not.
    for (answer, code) in [(Answer::Approve, None), (Answer::Deny, Some("APPROVAL_DENIED"))] {
        replace(other.clone());
        let (_, approval_id) = waits(&router, &risky());
        replace(Law::default());
        let outcome = decide(&router, &approval_id, answer);
        let error = outcome.results[0].error.as_ref().map(|error| error.code.as_str());
        assert_eq!(error, code);
    }
    // Denying is possible under every policy.
    for law in [asks("risky"), forbids] {
        replace(other.clone());
        let (_, approval_id) = waits(&router, &risky());
        replace(law);
        let outcome = decide(&router, &approval_id, Answer::Deny);
        assert_eq!(outcome.status, Status::Failed);
    }
    assert_eq!(office.calls(), 2);
}

#[test]
fn digest_is_keyed_and_made_only_for_approvals() {
    let [office, other] = [(); 2].map(|()| Office::new());
    let router = office.router(asks("risky"));
    let safe = super::run(&router, &super::plan(&["safe"]));
    assert_eq!(safe.status, Status::Completed);
    let key = nexus_router::store::StoreKey::path(&office.db());
    assert!(!key.exists(), "no rule asked");
    let digest = |router: &nexus_router::router::Router, request: &serde_json::Value| {
        super::run(router, request).waiting.unwrap().args_digest
    };
    let first = digest(&router, &risky());
    assert!(key.exists());
    assert_eq!(first, digest(&router, &risky()));
    let changed = serde_json::json!({ "name": "Eve" });
    let changed = super::set(risky(), "/plan_override/0/call/args", changed);
    assert_ne!(first, digest(&router, &changed));
    assert_ne!(first, digest(&other.router(asks("risky")), &risky()));
}

#[test]
fn decisions_are_counted_and_told() {
    use nexus_router::gate::Witness;
    use nexus_router::metrics::{Gauges, Metrics};
    let office = Office::new();
    let (metrics, witness) = (Metrics::default(), Witness::default());
    let (told, heard) = std::sync::mpsc::channel();
    witness.hear(move |approval| told.send(approval.state()).unwrap());
    let options =
        Options { law: asks("risky"), metrics: metrics.clone(), witness, ..Options::default() };
    let store = nexus_router::store::Store::in_memory().unwrap();
    let router = nexus_router::router::Router::new(store, office.registry, options).unwrap();
    let request = set(plan(&["risky", "risky"]), "/dispatch", json!({ "adapter_id": "quiet" }));
    let outcome = run(&router, &request);
    let outcome = decide(&router, &outcome.waiting.unwrap().approval_id, Answer::Approve);
    decide(&router, &outcome.waiting.unwrap().approval_id, Answer::Deny);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["approved", "denied"]);
    let text = metrics.render(&Gauges::default());
    for (decision, count) in [("approved", 1), ("denied", 1), ("expired", 0), ("void", 0)] {
        let line =
            format!("nexus_router_approvals_decided_total{{decision=\"{decision}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
    assert!(
        text.contains(
            "nexus_router_run_duration_seconds_count{mode=\"apply\",status=\"FAILED\"} 1\n"
        )
    );
    assert!(!text.contains("RUNNING"), "a run that waits has not ended");
}

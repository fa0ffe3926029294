//! Runs that wait, and copies, bundles, checks and the rules of the store.

use nexus_router::bundle::{self, ImportOptions, Provenance, Source};
use nexus_router::clock::Timestamp;
use nexus_router::outcome::Outcome;
use nexus_router::request::ImportMode;
use nexus_router::router::{Answer, How, Options, Resumable, Router};
use nexus_router::store::{self, Status, Store};
use rusqlite::Connection;

use super::{Office, ada, asks, decide, open, refused, risky, waits};

#[test]
fn a_copy_of_a_store_does_not_wait() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, approval_id) = waits(&router, &risky());
    let copy = office.world.path("copy.db");
    store::backup(&office.db(), &copy, |_, _| ()).unwrap();
    assert_eq!(Store::open(&copy).unwrap_err().code(), "STORE_MOVED");
    store::adopt(&copy).unwrap();
    let store = Store::open(&copy).unwrap();
    let options = Options { law: asks("risky"), ..Options::default() };
    let other = Router::new(store.clone(), office.registry.clone(), options).unwrap();
    assert_eq!(open(&store), [""; 0]);
    assert_eq!(refused(&other, &approval_id, Answer::Approve, &ada()), "APPROVAL_UNKNOWN");
    let recovered = other.recover_blocking(Resumable::Resume).unwrap();
    assert!(matches!(&recovered[0].how, How::Ended { in_doubt: true, .. }), "{recovered:?}");
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
    let ruling = store.approval(&approval_id).unwrap().unwrap().ruling.unwrap();
    assert_eq!(ruling.decision.name(), "void");
    // The store itself still waits.
    assert_eq!(decide(&router, &approval_id, Answer::Approve).status, Status::Completed);
    assert_eq!((office.calls(), office.course(&run_id).contains("approved")), (1, true));
}

#[test]
fn a_run_that_is_imported_does_not_wait_and_one_that_waits_is_not_overwritten() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, approval_id) = waits(&router, &risky());
    let waiting = office.log(&run_id);
    let now = Timestamp::from_millis(0);
    let source = Source::of(router.store());
    let text = bundle::export(&waiting, &source, Provenance::Include, now).unwrap().text;
    let import = |store: &Store, mode: ImportMode| {
        let options = ImportOptions { mode, ..ImportOptions::new(now) };
        bundle::import(store, text.as_bytes(), &options)
    };
    let other = Store::open(&office.world.path("other.db")).unwrap();
    import(&other, ImportMode::RejectOnConflict).unwrap();
    let record = other.find(&run_id).unwrap().unwrap();
    assert_eq!(
        (record.progress.status, record.waits, record.owned),
        (Status::Running, false, false)
    );
    assert_eq!(Outcome::of_log(&other.log(&run_id).unwrap().unwrap()).waiting, None);
    assert_eq!((open(&other), other.approval(&approval_id).unwrap()), (vec![], None));
    assert_eq!(other.check(|_, _| ()).unwrap().findings, []);
    let options = Options { law: asks("risky"), ..Options::default() };
    let elsewhere = Router::new(other, office.registry.clone(), options).unwrap();
    assert!(elsewhere.recover_blocking(Resumable::Resume).unwrap().is_empty());
    assert_eq!(refused(&elsewhere, &approval_id, Answer::Approve, &ada()), "APPROVAL_UNKNOWN");

    let error = import(router.store(), ImportMode::Overwrite).unwrap_err();
    assert!(error.to_string().contains("waits for an approval"), "{error}");
    assert_eq!(decide(&router, &approval_id, Answer::Approve).status, Status::Completed);
    // One that is over goes to the attic, with its approvals.
    import(router.store(), ImportMode::Overwrite).unwrap();
    assert_eq!(router.store().approval(&approval_id).unwrap(), None);
    assert_eq!(router.store().check(|_, _| ()).unwrap().findings, []);
    assert_eq!(office.calls(), 1);
}

#[test]
fn rules_of_the_store_hold_for_approvals() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (_, decided) = waits(&router, &risky());
    decide(&router, &decided, Answer::Deny);
    let (_, waiting) = waits(&router, &risky());
    drop(router);
    let connection = Connection::open(office.db()).unwrap();
    for change in [
        format!("UPDATE approvals SET state = 'approved' WHERE approval_id = '{decided}'"),
        format!("UPDATE approvals SET state = 'open' WHERE approval_id = '{decided}'"),
        format!("UPDATE approvals SET request = '{{}}' WHERE approval_id = '{waiting}'"),
        format!("UPDATE approvals SET expires_at = '9' WHERE approval_id = '{waiting}'"),
        "DELETE FROM approvals".to_owned(),
        "INSERT OR REPLACE INTO approvals SELECT * FROM approvals WHERE state = 'open'".to_owned(),
        "INSERT INTO approvals SELECT 'x', run_no, step_id, requested_at, expires_at, request, \
         'approved', 'now', 'me', '' FROM approvals"
            .to_owned(),
    ] {
        assert!(connection.execute_batch(&change).is_err(), "{change}");
    }
    // What the rules cannot refuse, a check finds.
    let forged = format!("UPDATE approvals SET state = 'approved' WHERE approval_id = '{waiting}'");
    connection.execute_batch(&forged).unwrap();
    drop(connection);
    let findings = Store::open(&office.db()).unwrap().check(|_, _| ()).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].problem.contains("the approvals beside its events"), "{findings:?}");
}

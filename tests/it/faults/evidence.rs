//! Disks that are full when a call in a role has been made: that it was made, and what of it is lost, is kept all the same.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nexus_router::evidence::verify::{Options, Standing, Verifier};
use nexus_router::evidence::{Acting, Given, Keeper, Planned};
use nexus_router::json::Object;
use nexus_router::metrics::Metrics;
use nexus_router::role::ActionClass;
use nexus_router::seal::{Sealer, Trust, trust_path};
use serde_json::Value;

use super::{Place, namespaces};

fn keeper(root: &Path) -> Keeper {
    Keeper::open(root, Arc::new(Sealer::open(root).unwrap()), Metrics::default()).unwrap()
}

fn acting(planned: &Arc<Planned>, step: usize) -> Acting {
    Acting {
        run_id: "run".to_owned(),
        step,
        attempt: 1,
        class: ActionClass::DataLookup,
        command: ["a", "t", "m"].map(str::to_owned),
        call: Object::new(),
        native: false,
        library: None,
        interface: None,
        timeout: Duration::from_secs(1),
        plan: Arc::clone(planned),
        ordered: None,
        isolation: "inline",
        grants: Object::new(),
        caller: None,
    }
}

fn planned() -> Arc<Planned> {
    Arc::new(Planned::new(
        (1..=4).map(|step| (step, ActionClass::DataLookup)).collect(),
        Vec::new(),
    ))
}

/// An output that needs so much room.
fn output(bytes: usize) -> Given {
    let mut output = Object::new();
    output.insert("text", "x".repeat(bytes));
    Given::Output(output)
}

fn assert_kept(root: &Path, step: usize, reason: &str) {
    let path = root.join(format!("evidence/run/step-{step}/run_summary.json"));
    let summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let outcome = if reason == "ok" { "SUCCEEDED" } else { "FAILED" };
    assert_eq!((&summary["outcome"], &summary["reason"]), (&outcome.into(), &reason.into()));
}

fn assert_genuine(root: &Path, executions: usize) {
    let trust = Arc::new(Trust::read(&trust_path(root)).unwrap());
    let mut verifier = Verifier::new(Some(trust), Options::default());
    let mut seen = 0;
    let report = verifier.cabinet(root, None, &mut |verdict| {
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
        seen += usize::from(verdict.exec_id.is_some());
    });
    for verdict in [Some(report.cabinet), report.log].into_iter().flatten() {
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
    }
    assert_eq!(seen, executions);
    assert_eq!(fs::read_dir(root.join("staging")).unwrap().count(), 0);
}

#[test]
fn an_output_for_which_there_is_no_room_leaves_evidence_at_once() {
    const NAME: &str =
        "faults::evidence::an_output_for_which_there_is_no_room_leaves_evidence_at_once";
    if let Some(place) = Place::inside() {
        let root = place.path("sealed");
        let (keeper, planned) = (keeper(&root), planned());
        let case = keeper.open_case(acting(&planned, 1)).unwrap();
        let error = keeper.close_case(&case, &output(1 << 20)).unwrap_err();
        assert!(error.to_string().contains("File too large"), "{error}");
        drop(case);
        assert_kept(&root, 1, "error:outcome_not_kept");
        let case = keeper.open_case(acting(&planned, 2)).unwrap();
        assert_eq!(keeper.close_case(&case, &output(100)).unwrap(), Vec::<String>::new());
        drop(case);
        assert_kept(&root, 2, "ok");
        assert_genuine(&root, 2);
        return place.done();
    }
    Place::new().run_again(NAME, "trap '' XFSZ; ulimit -f 600; exec \"$@\"");
}

#[test]
fn what_a_full_disk_keeps_from_being_evidence_is_evidence_when_there_is_room() {
    const NAME: &str = "faults::evidence::what_a_full_disk_keeps_from_being_evidence_is_evidence_when_there_is_room";
    if let Some(place) = Place::inside() {
        on_a_small_disk(&place);
        return place.done();
    }
    if !namespaces("-rm") {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    let script = format!(
        "exec unshare -rm sh -c 'mount -t tmpfs -o size=4m none \"{}\" && exec \"$@\"' sh \"$@\"",
        place.path("disk").display()
    );
    place.run_again(NAME, &script);
}

fn on_a_small_disk(place: &Place) {
    let (root, fill) = (place.path("disk/sealed"), place.path("disk/fill"));
    let full = || {
        let mut file = fs::File::create(&fill).unwrap();
        for size in [65_536, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    };
    let planned = planned();
    let first = keeper(&root);
    let case = first.open_case(acting(&planned, 1)).unwrap();
    full();
    first.close_case(&case, &output(10)).unwrap_err();
    drop(case);
    // Nothing else is done while nothing can be shown.
    first.open_case(acting(&planned, 2)).unwrap_err();
    assert!(!root.join("evidence/run/step-1").exists());
    fs::remove_file(&fill).unwrap();
    let case = first.open_case(acting(&planned, 2)).unwrap();
    assert_kept(&root, 1, "error:outcome_not_kept");
    first.close_case(&case, &output(10)).unwrap();
    drop(case);
    // A process that is gone by then leaves it to the next one.
    let case = first.open_case(acting(&planned, 3)).unwrap();
    full();
    first.close_case(&case, &output(10)).unwrap_err();
    drop((case, first));
    fs::remove_file(&fill).unwrap();
    let next = keeper(&root);
    assert_kept(&root, 3, "error:outcome_not_kept");
    drop(next);
    assert_genuine(&root, 3);
}

#[test]
fn a_call_during_which_the_process_is_gone_leaves_evidence() {
    let place = Place::new();
    let root = place.path("sealed");
    let (first, planned) = (keeper(&root), planned());
    let case = first.open_case(acting(&planned, 1)).unwrap();
    // Another process leaves alone what is under way.
    drop(keeper(&root));
    assert!(!root.join("evidence/run").exists());
    // The process is killed here.
    drop((case, first));
    let next = keeper(&root);
    assert_kept(&root, 1, "error:outcome_not_kept");
    // The plan may have been on its way to its place as well.
    let case = next.open_case(acting(&self::planned(), 1)).unwrap();
    next.close_case(&case, &output(10)).unwrap();
    drop((case, next));
    assert!(root.join("evidence/run/step-1-2").is_dir());
    assert_genuine(&root, 2);
}

#[test]
fn the_plan_of_a_run_is_written_once_and_not_for_each_step() {
    let place = Place::new();
    let root = place.path("sealed");
    let (keeper, planned) = (keeper(&root), planned());
    let plans = || fs::read_dir(root.join("plan")).unwrap().count();
    let case = keeper.open_case(acting(&planned, 1)).unwrap();
    keeper.close_case(&case, &output(10)).unwrap();
    drop(case);
    assert_eq!(plans(), 1);
    let moved = fs::read_dir(root.join("plan")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&moved, root.join("moved")).unwrap();
    for step in 2..=4 {
        let case = keeper.open_case(acting(&planned, step)).unwrap();
        keeper.close_case(&case, &output(10)).unwrap();
    }
    assert_eq!(plans(), 0, "nobody looked for it, or wrote it again");
    fs::rename(root.join("moved"), &moved).unwrap();
    assert_genuine(&root, 4);
}

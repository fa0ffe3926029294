//! Processes that are killed while they seal: the next one finishes, and nothing is missing.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nexus_router::attest::Statement;
use nexus_router::evidence::verify::{Options, Reason, Report, Standing, Verifier};
use nexus_router::evidence::{Cabinet, Keeper, Plan, Rejection, statement};
use nexus_router::json::Object;
use nexus_router::metrics::Metrics;
use nexus_router::seal::{Kind, Leaf, Sealer, Trust, trust_path};
use serde_json::json;

use crate::daemon::support::Stage;

/// Judges a cabinet: itself, its log, and every bundle.
fn assert_genuine(root: &Path, bundles: usize) {
    let trust = Arc::new(Trust::read(&trust_path(root)).unwrap());
    let mut verifier = Verifier::new(Some(trust), Options::default());
    let mut seen = 0;
    let Report { cabinet, log, .. } = verifier.cabinet(root, None, &mut |verdict| {
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
        seen += 1;
    });
    for verdict in [Some(cabinet), log].into_iter().flatten() {
        assert_eq!(verdict.standing(), Standing::Genuine, "{:?}", verdict.to_lines());
    }
    assert_eq!(seen, bundles);
}

#[test]
fn what_was_promised_is_finished_by_whoever_opens_the_cabinet_next() {
    for appended in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let sealer = Arc::new(Sealer::open(root).unwrap());
        let rejection = Rejection::new("task", "role_refused:scout:file_write");
        let cabinet = Cabinet::open(root).unwrap();
        let mut staged = cabinet.stage_rejection(&rejection).unwrap();
        let said: Statement =
            statement::about(&staged, statement::rejection(&rejection, Object::new()));
        staged.promise(&said.to_bytes().unwrap()).unwrap();
        if appended {
            let manifest_sha256 = staged.manifest_sha256();
            let leaf = Leaf { kind: Kind::Rejection, manifest_sha256, spec_sha256: None };
            sealer.seal(leaf, &said).unwrap();
        }
        // The process is killed here.
        drop((staged, cabinet));
        let bundle = root.join("evidence/task/rejections").join(rejection.id());
        assert!(!bundle.exists() && std::fs::read_dir(root.join("staging")).unwrap().count() == 1);
        let keeper = Keeper::open(root, Arc::clone(&sealer), Metrics::default()).unwrap();
        assert!(bundle.is_dir());
        assert_eq!(std::fs::read_dir(root.join("staging")).unwrap().count(), 0);
        drop(keeper);
        assert_genuine(root, 1);
    }
}

#[test]
fn nothing_is_missing_after_programs_were_killed_at_any_moment() {
    let stage = Stage::bare(
        "default_adapter = \"echo\"\n[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
         [[tools]]\nname = \"greet\"\ndescription = \"Greets.\"\nadapter = \"echo\"\ntool = \"greeter\"\n\
         method = \"hello\"\naction_class = \"data_lookup\"\n",
    );
    let step = |id: usize| {
        json!({ "step_id": format!("s{id}"), "intent": "",
            "call": { "tool": "greeter", "method": "hello", "args": {} } })
    };
    let plan = json!({ "goal": "g", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": (0..4).map(step).collect::<Vec<_>>() });
    std::fs::write(stage.path("plan.json"), plan.to_string()).unwrap();
    let start = || {
        let mut command = stage.program();
        command.args(["run", "plan.json", "--db", "runs.db"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    assert!(start().wait().unwrap().success());
    let usual = std::time::Instant::now();
    assert!(start().wait().unwrap().success());
    let usual = usual.elapsed();
    for moment in 1..=24_u32 {
        let mut run = start();
        std::thread::sleep(Duration::from_micros(200) + usual * moment / 25);
        run.kill().unwrap();
        run.wait().unwrap();
    }
    assert!(start().wait().unwrap().success());
    let root = stage.path("sealed");
    let verify = |what: &Path| {
        let mut command = stage.program();
        command.args(["evidence", "verify", "--trust"]).arg(trust_path(&root)).arg(what);
        let verified = command.output().unwrap();
        (verified.status.code(), String::from_utf8_lossy(&verified.stdout).into_owned())
    };
    let (code, text) = verify(&root);
    assert_eq!(code, Some(0), "{text}");
    // Nobody vouches for a plan alone; one that an execution names is a part of it.
    let plan = std::fs::read_dir(root.join("plan")).unwrap().next().unwrap().unwrap();
    let (code, text) = verify(&plan.path());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no_seal:plan:"), "{text}");
    std::fs::remove_dir_all(root.join("plan")).unwrap();
    let (code, text) = verify(&root);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("missing:cabinet:"), "{text}");
}

#[test]
fn nobody_vouches_for_a_plan_that_nothing_names() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let keeper =
        Keeper::open(root, Arc::new(Sealer::open(root).unwrap()), Metrics::default()).unwrap();
    keeper.reject(&Rejection::new("task", "role_refused:scout:file_write")).unwrap();
    assert_genuine(root, 1);
    let plan = Plan::new("anybody", &[], &[]).unwrap();
    Cabinet::open(root).unwrap().stage_plan(&plan).unwrap().publish(None).unwrap();
    let trust = Arc::new(Trust::read(&trust_path(root)).unwrap());
    let mut told = Vec::new();
    for hashes_only in [false, true] {
        let options = Options { hashes_only, ..Options::default() };
        let mut verifier = Verifier::new(Some(Arc::clone(&trust)), options);
        drop(verifier.cabinet(root, None, &mut |verdict| {
            if verdict.place == format!("plan/{}", plan.digest()) {
                told.push((verdict.standing(), verdict.findings.list().to_vec()));
            }
        }));
    }
    assert_eq!(told.len(), 2, "it is told, whatever it is");
    assert_eq!(told[0].0, Standing::Unclear);
    assert_eq!(told[0].1[0].reason, Reason::NoSeal);
    assert!(told[0].1[0].message.contains("nobody vouches for it"), "{told:?}");
    assert_eq!(told[1].0, Standing::Genuine, "its bytes are those of its name");
}

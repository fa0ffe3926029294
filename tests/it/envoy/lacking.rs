//! Kernels that lack what confinement needs: the execution is rejected, and that is sealed.

use super::{Stage, statement, test};
use crate::confinement::lacking::{
    without_errata, without_landlock, without_notices, without_seccomp,
};
use serde_json::json;

#[test]
fn a_kernel_that_does_not_tell_its_errata_confines_all_the_same() {
    let stage = Stage::usual();
    let run = without_errata(|| stage.run(&[test(&["sh", "-c", "true"])]));
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let bundle = stage.evidence(&run).join("step-1");
    let sandbox = &statement(&bundle)["predicate"]["environment"]["sandbox"];
    assert_eq!(sandbox.get("landlock_errata"), Some(&json!(null)), "{sandbox}");
    assert!(sandbox["landlock_abi"].as_u64().unwrap() >= 6, "{sandbox}");
    stage.assert_verified();
}

#[test]
fn what_cannot_be_confined_is_rejected_with_the_feature() {
    const ENOSYS: u32 = 38;
    let stage = Stage::new("", "run = [\"/bin/sh\"]\nconnect = [\"127.0.0.1:9\"]");
    let step = || test(&["sh", "-c", "touch made"]);
    let run = without_landlock(ENOSYS, || stage.run(&[step()]));
    assert_eq!(run["results"][0]["error"]["code"], "SANDBOX_UNAVAILABLE", "{run}");
    assert_eq!(stage.rejection(&run), "sandbox_unavailable:landlock");
    assert!(!stage.evidence(&run).join("step-1").exists(), "nothing was executed");
    let run = without_seccomp(|| stage.run(&[step()]));
    assert_eq!(stage.rejection(&run), "sandbox_unavailable:seccomp");
    let mut networked = step();
    networked["grants"] = json!([{ "grant": "network", "targets": ["127.0.0.1:9"] }]);
    let run = without_notices(|| stage.run(&[networked]));
    assert_eq!(stage.rejection(&run), "sandbox_unavailable:seccomp-notify");
    let write = json!({ "tool": "file_write", "args": { "path": "made", "text": "x" } });
    let run = without_landlock(ENOSYS, || stage.run(&[write]));
    assert_eq!(stage.rejection(&run), "sandbox_unavailable:landlock");
    assert!(!stage.workspace("made").exists());
    // What may be missing for workers may not be missing here.
    let config = std::fs::read_to_string(stage.world.path("router.toml")).unwrap();
    let accept = "[workers]\naccept_missing = [\"landlock\", \"landlock-scope\", \"seccomp\"]\n";
    std::fs::write(stage.world.path("router.toml"), format!("{accept}{config}")).unwrap();
    let run = without_landlock(ENOSYS, || stage.run(&[step()]));
    assert_eq!(stage.rejection(&run), "sandbox_unavailable:landlock");
    assert!(!stage.workspace("made").exists());
    stage.assert_verified();
}

//! The examinations of what was not executed: rejections, verifications, plans.

use super::exam::{Claim, Exam};
use super::verdict::Reason;
use crate::attest::Subject;
use crate::evidence::manifest::{ATTESTATION, MANIFEST, PLAN, PROOF, REJECTION};
use crate::evidence::verification::DECIDED_PLAN;
use crate::evidence::{Manifest, Plan, Rejection, Verification, statement};
use crate::json::Value;
use crate::seal::{Kind, Leaf};

/// Examines a rejection.
pub(super) fn rejection(exam: &mut Exam) -> Option<Claim> {
    let listed = exam.document(MANIFEST, Manifest::parse);
    let rejection = exam.document(REJECTION, Rejection::parse);
    if let Some(listed) = &listed {
        exam.closed(listed, &[MANIFEST, ATTESTATION, PROOF], false, |file| file == REJECTION);
        if !listed.files().contains_key(REJECTION) {
            exam.tell(Reason::Unlisted, REJECTION, "the manifest does not list it");
        }
    }
    exam.directories(&[]);
    exam.verdict.manifest_sha256 = exam.digest(MANIFEST);
    let rejection = rejection?;
    exam.verdict.task_id = Some(rejection.task_id.clone());
    exam.named(vec![rejection.task_id.clone(), rejection.id()]);
    exam.checked("documents");
    let manifest_sha256 = exam.digest(MANIFEST)?;
    let subjects = vec![
        Subject::new(MANIFEST, manifest_sha256),
        Subject::new(REJECTION, exam.digest(REJECTION)?),
    ];
    let leaf = Leaf { kind: Kind::Rejection, manifest_sha256, spec_sha256: None };
    let link = Box::new(move |environment| statement::rejection(&rejection, environment));
    Some(Claim { leaf, subjects, link })
}

/// Examines what was decided about a spec.
pub(super) fn verification(exam: &mut Exam) -> Option<Claim> {
    let verification = exam.document(MANIFEST, Verification::parse);
    exam.closed(&Manifest::default(), &[MANIFEST, ATTESTATION, PROOF], false, |_| false);
    exam.directories(&[]);
    exam.verdict.manifest_sha256 = exam.digest(MANIFEST);
    let verification = verification?;
    exam.verdict.spec_sha256 = Some(verification.spec_sha256);
    let plan = verification.decisions.get(DECIDED_PLAN).and_then(Value::as_str);
    exam.verdict.plan_sha256 = plan.and_then(|plan| plan.parse().ok());
    exam.named(vec![verification.spec_sha256.to_string()]);
    exam.checked("documents");
    let (manifest_sha256, spec) = (exam.digest(MANIFEST)?, verification.spec_sha256);
    let subjects = vec![Subject::new(MANIFEST, manifest_sha256)];
    let leaf = Leaf { kind: Kind::Verification, manifest_sha256, spec_sha256: Some(spec) };
    let link = Box::new(move |environment| statement::verification(&verification, environment));
    Some(Claim { leaf, subjects, link })
}

/// Examines a plan. It has no seal: executions and decisions name it by its digest, which is the name of its directory.
pub(super) fn plan(exam: &mut Exam) -> Option<Claim> {
    let plan = exam.document(PLAN, Plan::parse_canonical);
    exam.closed(&Manifest::default(), &[PLAN], false, |_| false);
    exam.directories(&[]);
    let digest = plan?.digest();
    exam.verdict.plan_sha256 = Some(digest);
    exam.named(vec![digest.to_string()]);
    exam.checked("documents");
    None
}

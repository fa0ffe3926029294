//! The examination of an execution: what was asked, what came of it, and whether the two fit.

use super::exam::{Claim, Exam};
use super::verdict::Reason;
use crate::attest::Subject;
use crate::evidence::canonical::{self, Domain};
use crate::evidence::manifest::{self, MANIFEST, SPEC, STDERR, STDOUT, SUMMARY};
use crate::evidence::normalize::{self, normalize};
use crate::evidence::spec::Kind as SpecKind;
use crate::evidence::statement::{self, ExecutionFacts};
use crate::evidence::{ExecutionSpec, Inputs, Manifest, Outcome, Output, Redactor, RunSummary};
use crate::json::{Limits, Value, parse, to_canonical};
use crate::role;
use crate::seal::{Kind, Leaf};

const INPUTS: &str = "outputs/inputs.manifest.json";
const PARSED: &str = "outputs/parsed.json";
const REMOVED: &str = "volatile/removed.json";
/// The limits of what an adapter gave.
const PAYLOAD: Limits = Limits { bytes: 64 << 20, depth: 512, values: 1_000_000 };

/// Examines an execution, and returns what its seal has to be about.
pub(super) fn examine(exam: &mut Exam) -> Option<Claim> {
    let listed = exam.document(MANIFEST, Manifest::parse);
    let spec = exam.document(SPEC, ExecutionSpec::parse_canonical);
    let summary = exam.document(SUMMARY, RunSummary::parse);
    let inputs = exam.document(INPUTS, Inputs::parse);
    for file in [STDOUT, STDERR] {
        if exam.digest(file).is_none() {
            exam.missing(file);
        }
    }
    if let Some(listed) = &listed {
        exam.closed(listed, &manifest::OUTER, true, |file| {
            [SPEC, STDOUT, STDERR].contains(&file) || file.starts_with("outputs/")
        });
    }
    exam.directories(&[manifest::OUTPUTS, manifest::VOLATILE]);
    exam.verdict.spec_sha256 = exam.digest(SPEC);
    exam.verdict.manifest_sha256 = exam.digest(MANIFEST);
    let (spec, summary, inputs) = (spec?, summary?, inputs?);
    let fields = spec.fields();
    exam.verdict.task_id = Some(fields.task_id.clone());
    exam.verdict.exec_id = Some(fields.exec_id.clone());
    exam.named(vec![fields.task_id.clone(), fields.exec_id.clone()]);
    invariants(exam, &spec, &summary, &inputs);
    exam.verdict.plan_sha256 = inputs.get(Inputs::PLAN);
    exam.checked("documents");
    role_of(exam, &inputs);
    let redactor = redactor(exam, &inputs);
    let exit_code = output(exam, &spec, &summary, redactor);
    texts(exam, redactor);
    let (manifest_sha256, spec_sha256) = (exam.digest(MANIFEST)?, exam.digest(SPEC)?);
    let subjects = vec![
        Subject::new(MANIFEST, manifest_sha256),
        Subject::new(SPEC, spec_sha256),
        Subject::new(SUMMARY, exam.digest(SUMMARY)?),
    ];
    let (files, volatile) = (listed?.files().clone(), exam.volatile());
    let link = Box::new(move |environment| {
        let (spec, inputs, files, volatile) = (&spec, &inputs, &files, &volatile);
        let facts = ExecutionFacts { spec, inputs, files, volatile, exit_code };
        statement::execution(&facts, environment)
    });
    let leaf = Leaf { kind: Kind::Execution, manifest_sha256, spec_sha256: Some(spec_sha256) };
    Some(Claim { leaf, subjects, link })
}

/// Holds the documents to each other by their digests.
fn invariants(exam: &mut Exam, spec: &ExecutionSpec, summary: &RunSummary, inputs: &Inputs) {
    let fields = spec.fields();
    let mismatch = |exam: &mut Exam,
                    file: &str,
                    what: &str,
                    found: &dyn std::fmt::Display,
                    expected: &dyn std::fmt::Display| {
        let message = format!("{what} is {found}, and the bytes have {expected}");
        exam.tell(Reason::HashMismatch, file, message);
    };
    if summary.spec_sha256 != spec.digest() {
        mismatch(exam, SUMMARY, "spec_sha256", &summary.spec_sha256, &spec.digest());
    }
    if let Some(found) = exam.digest(MANIFEST).filter(|found| summary.manifest_sha256 != *found) {
        mismatch(exam, SUMMARY, "manifest_sha256", &summary.manifest_sha256, &found);
    }
    if fields.inputs_manifest_sha256 != inputs.digest() {
        let found = &fields.inputs_manifest_sha256;
        mismatch(exam, SPEC, "inputs_manifest_sha256", found, &inputs.digest());
    }
    let expected = &fields.inputs_manifest_sha256;
    exam.same(SUMMARY, "inputs_manifest_sha256", &summary.inputs_manifest_sha256, expected);
    exam.same(SUMMARY, "task_id", &summary.task_id, &fields.task_id);
    exam.same(SUMMARY, "exec_id", &summary.exec_id, &fields.exec_id);
    let key = summary.idempotency_key.clone().unwrap_or_else(|| "null".to_owned());
    exam.same(SUMMARY, "idempotency_key", &key, &spec.digest().to_string());
    if summary.outcome == Outcome::Rejected {
        let message = "what was rejected was not executed, and has no bundle of an execution";
        exam.tell(Reason::Mismatch, SUMMARY, message);
    }
}

/// Holds the pins among the inputs to what this program knows. Whether the role may carry out the action was seen when
/// the spec was read.
fn role_of(exam: &mut Exam, inputs: &Inputs) {
    for (name, expected) in
        [(Inputs::ROLES, role::TABLE_SHA256), (Inputs::NORMALIZATION, normalize::TABLE_SHA256)]
    {
        if let Some(found) = inputs.get(name) {
            exam.same(INPUTS, name, &found.to_string(), &expected.to_owned());
        }
    }
    exam.checked("role");
}

fn redactor(exam: &mut Exam, inputs: &Inputs) -> Option<Redactor> {
    let Some(digest) = inputs.get(Inputs::REDACTOR) else { return Some(Redactor::Nothing) };
    let known = Redactor::from_digest(digest);
    if known.is_none() {
        let message = format!("no redactor has the digest {digest}");
        exam.tell(Reason::Malformed, INPUTS, message);
    }
    known
}

/// Holds the output to the schema of its role and to normalization, and returns its exit code.
fn output(
    exam: &mut Exam,
    spec: &ExecutionSpec,
    summary: &RunSummary,
    redactor: Option<Redactor>,
) -> Option<i64> {
    exam.digest(PARSED)?;
    let value = exam.document(PARSED, |bytes| {
        canonical::read(bytes, PAYLOAD, Domain::Payload).map_err(Into::into)
    })?;
    exam.checked("output");
    normalized(exam, spec, redactor, &value);
    let output = match Output::check_for(spec, &value) {
        Ok(output) => output,
        Err(wrong) => {
            for finding in wrong.list() {
                let message = format!("{}: {}", finding.reason, finding.message);
                exam.tell(Reason::OutputRefused, PARSED, message);
            }
            return None;
        }
    };
    if summary.outcome == Outcome::Succeeded && !output.ok {
        let message = "it is not ok, and the execution is said to have succeeded";
        exam.tell(Reason::OutputRefused, PARSED, message);
    }
    output.exit_code
}

fn normalized(exam: &mut Exam, spec: &ExecutionSpec, redactor: Option<Redactor>, value: &Value) {
    let (role, redactor) = (spec.fields().role, redactor.unwrap_or_default());
    // What came from one of the frozen services may have been trimmed by pointers instead of names.
    let ways = [Some(None), operation(spec).map(Some)];
    let same = ways.into_iter().flatten().any(|operation| {
        let again = normalize(role, operation.as_deref(), redactor, value.clone());
        again.is_ok_and(|again| Some(again.text().as_bytes()) == exam.bytes(PARSED))
    });
    if !same {
        let message = "it has what normalization takes out or puts in another order";
        exam.tell(Reason::NotNormalized, PARSED, message);
    }
    exam.checked("normalization");
}

/// Returns the operation whose output is trimmed by pointers: what is executed by a request names it, as one word or as
/// adapter and operation.
fn operation(spec: &ExecutionSpec) -> Option<String> {
    let fields = spec.fields();
    if fields.kind == SpecKind::Shell {
        return None;
    }
    let first = fields.cmd_argv.first()?;
    let both = fields.cmd_argv.get(1).map(|second| format!("{first}.{second}"));
    [Some(first.clone()), both]
        .into_iter()
        .flatten()
        .find(|name| normalize::pointers(name).is_some())
}

/// Holds the texts to what the redactor makes of what came.
fn texts(exam: &mut Exam, redactor: Option<Redactor>) {
    let Some(redactor) = redactor else { return };
    for file in [STDOUT, STDERR] {
        let raw = format!("{}/{file}", manifest::VOLATILE);
        let is_raw = exam.digest(&raw).is_some();
        if redactor == Redactor::Nothing {
            if is_raw {
                let message = "nothing was taken out of the text, and yet the whole is kept here";
                exam.tell(Reason::Unlisted, &raw, message);
            }
            continue;
        }
        if exam.digest(file).is_none() {
            continue;
        }
        let (kept, given) = (exam.bytes(file), exam.bytes(&raw));
        let Some(kept) = kept.filter(|_| given.is_some() == is_raw) else {
            let message = "it is too large to see whether its redactor made it";
            exam.tell(Reason::FileTooLarge, file, message);
            continue;
        };
        let again = redactor.redact(given.unwrap_or(kept));
        if again.as_ref() != kept || given == Some(kept) {
            let message = format!("it is not what {} makes of what came", redactor.id());
            exam.tell(Reason::NotNormalized, file, message);
        }
    }
    if exam.digest(REMOVED).is_some() {
        let whole = exam.bytes(REMOVED).is_some_and(|bytes| {
            parse(bytes, PAYLOAD).is_ok_and(|value| {
                value.as_object().is_some_and(|object| !object.is_empty())
                    && to_canonical(&value).as_bytes() == bytes
            })
        });
        if !whole {
            let message = "it is no object with what was taken out, in canonical form";
            exam.tell(Reason::Malformed, REMOVED, message);
        }
    }
}

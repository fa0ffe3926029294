//! A step with the defaults of its interface contract, in the form that is called and in the form that is recorded.

use super::{Grounds, Verdict, deny};
use crate::json::Object;
use crate::policy::{Act, DefaultsTooLarge};
use crate::request::Step;

/// A step with the defaults of its contract: as it is called, and as it is recorded.
pub(super) struct FilledStep {
    pub(super) step: Step,
    pub(super) recorded: Object,
}

impl FilledStep {
    /// Fills the arguments of a step. Both forms get the same defaults, and the recorded one is redacted.
    pub(super) fn of(
        grounds: Grounds<'_>,
        act: Act<'_>,
        step: &Step,
    ) -> Result<Option<Self>, DefaultsTooLarge> {
        let Some(args) = grounds.law.fill_args(act, step.args())? else { return Ok(None) };
        let filled = step.with_args(args);
        let recorded = match grounds.recorded {
            None => filled.raw().clone(),
            Some(recorded) => {
                let recorded = Step::of_record(recorded.clone());
                match grounds.law.fill_args(act, recorded.args())? {
                    Some(args) => recorded.with_args(args).into_raw(),
                    None => recorded.into_raw(),
                }
            }
        };
        let recorded = grounds.secrets.redact_object(&recorded).unwrap_or(recorded);
        Ok(Some(Self { step: filled, recorded }))
    }
}

pub(super) fn too_many_defaults(act: Act<'_>, error: DefaultsTooLarge) -> Verdict<'static> {
    let Act { adapter_id, tool, method } = act;
    let message =
        format!("the arguments of {tool}.{method} of adapter '{adapter_id}' do not fit: {error}");
    deny("ARGUMENTS_INVALID", message, serde_json::json!({ "denied_by": "schema", "pointer": "" }))
}

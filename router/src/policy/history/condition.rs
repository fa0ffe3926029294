//! Condition of a rule about one call, under assumptions about the facts that the record lacks.

use super::call::RecordedCaller;
use super::evaluate::Case;
use super::redacted::VisibleArgs;
use super::world::{Gap, Unknown};
use crate::caller::Caller;
use crate::condition::{CallEvaluation, CallFacts, Condition, EvaluationError, UnknownFacts};
use crate::json::Object;
use crate::policy::CallInput;

/// Result of a condition.
pub(super) enum ConditionResult {
    Met,
    NotMet,
    Failed(String),
}

impl From<Result<bool, EvaluationError>> for ConditionResult {
    fn from(result: Result<bool, EvaluationError>) -> Self {
        match result {
            Ok(true) => Self::Met,
            Ok(false) => Self::NotMet,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl Case<'_> {
    /// Evaluates a condition. A result that does not need the missing facts is certain; otherwise each fact with few
    /// values is assumed, and at last the result itself.
    pub(super) fn evaluate<'a>(
        &'a self,
        condition: &Condition,
        caller: Option<&'a Caller>,
        evaluation: &mut Option<CallEvaluation<'a>>,
    ) -> Result<ConditionResult, Unknown> {
        let (call, reads) = (self.call, condition.reads());
        let hints = match condition.reads_hints() {
            true => self.law.hint(call.act()).members(),
            false => [None; 4],
        };
        let is_unknown = call.caller == RecordedCaller::Unknown;
        let lacks_scope = matches!(call.caller, RecordedCaller::WithoutScope(_));
        let unknown = UnknownFacts {
            caller_name: reads.caller_name && is_unknown,
            caller_scope: reads.caller_scope && (is_unknown || lacks_scope),
            hints: [0, 1, 2, 3].map(|index| reads.hints[index] && hints[index].is_none()),
        };
        let visible = match call.redacted {
            true => VisibleArgs::of(reads, &call.args),
            false => VisibleArgs::Complete,
        };
        if unknown == UnknownFacts::default() && visible == VisibleArgs::Complete {
            // Conditions of one call share a budget of steps.
            let evaluation = evaluation.get_or_insert_with(|| {
                CallEvaluation::without_hints(self.facts(caller, &call.args))
            });
            if condition.reads_hints() {
                evaluation.set_hints(|| hints);
            }
            return Ok(evaluation.evaluate(condition).into());
        }
        let args = match &visible {
            VisibleArgs::Complete => Some(&call.args),
            VisibleArgs::Without(args) => Some(args),
            VisibleArgs::Hidden => None,
        };
        let facts = CallFacts { hints, ..self.facts(caller, args.unwrap_or(&call.args)) };
        let try_with = |facts, unknown| {
            args.map(|_| CallEvaluation::with_unknown(facts, unknown).evaluate(condition))
        };
        if let Some(Ok(holds)) = try_with(facts, unknown) {
            return Ok(Ok(holds).into());
        }
        let (facts, unknown) = self.assume_facts(facts, unknown)?;
        let has_all = unknown == UnknownFacts::default() && visible == VisibleArgs::Complete;
        match try_with(facts, unknown) {
            Some(result) if has_all || result.is_ok() => Ok(result.into()),
            _ => self.assume_result(condition, &facts, unknown),
        }
    }

    /// Assumes the facts that have few values: hints, and the scope of a caller that is known otherwise.
    fn assume_facts<'f>(
        &self,
        mut facts: CallFacts<'f>,
        mut unknown: UnknownFacts,
    ) -> Result<(CallFacts<'f>, UnknownFacts), Unknown> {
        for index in 0..unknown.hints.len() {
            if std::mem::take(&mut unknown.hints[index]) {
                facts.hints[index] = self.assume_hint(index)?;
            }
        }
        if unknown.caller_scope && self.call.caller != RecordedCaller::Unknown {
            facts.caller_scope = self.scope()?.name();
            unknown.caller_scope = false;
        }
        Ok((facts, unknown))
    }

    /// Assumes the result of a condition. Another policy has the same result only with the same facts.
    fn assume_result(
        &self,
        condition: &Condition,
        facts: &CallFacts<'_>,
        unknown: UnknownFacts,
    ) -> Result<ConditionResult, Unknown> {
        let gap = match unknown == UnknownFacts::default() {
            true => Gap::RedactedArguments,
            false => Gap::UnknownCaller,
        };
        let reads = condition.reads();
        let text = |is_read: bool, text| if is_read { text } else { "" };
        let key = format!(
            "{}\0{}\0{}\0{}\0{:?}",
            condition.as_str(),
            text(reads.class, facts.class),
            text(reads.caller_role, facts.caller_role),
            text(reads.caller_scope, facts.caller_scope),
            facts.hints,
        );
        Ok(match self.world.choose(gap, key, 3)? {
            0 => ConditionResult::NotMet,
            1 => ConditionResult::Met,
            _ => ConditionResult::Failed(gap.text().to_owned()),
        })
    }

    /// Returns the facts that conditions read, without hints.
    fn facts<'f>(&'f self, caller: Option<&'f Caller>, args: &'f Object) -> CallFacts<'f> {
        let call = self.call;
        let input = CallInput {
            args,
            run_id: &call.run_id,
            goal: &call.goal,
            mode: call.mode,
            now: call.at,
        };
        let act = call.act();
        self.law.call_facts(caller, (act, self.law.class_of(act)), &input)
    }
}

//! Tasks: runs that somebody follows. They are in the store before their caller hears of them.
//!
//! A call that asks its caller something is over, and goes on as another run when there is an answer. The
//! runs of a task are found one by the other: each has an idempotency key that names the task and its turn.

use std::sync::Arc;

use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, InputResponses,
    JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};

use super::answer::{self, Gave, Questions};
use super::approving;
use super::asking::add_answers;
use super::reading::CountedLog;
use super::{Asker, Handler, refused};
use crate::access::Scope;
use crate::caller::Caller;
use crate::event::{Failure, Line};
use crate::outcome::{Outcome, Recorded, StepResult, StepStatus, Waiting};
use crate::policy::Act;
use crate::request::{Mode, Step};
use crate::router::{Accepted, HeldRetention, Submission};
use crate::store::{Log, Status};
use crate::toolspec::OneCall;

/// How often callers had better look.
const POLL_MS: u64 = 500;
/// How long an answer waits for what comes of it, so that whoever looks at once sees it.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(200);

/// The keys of tasks begin so.
pub(super) const KEYS: &str = "mcp-task/";
/// How often it is seen whether a run was taken up that is to be cancelled.
const LOOKS: usize = 25;

/// A task as the store has it.
struct Found {
    task_id: String,
    /// When it was made.
    created_at: String,
    /// The last of its runs.
    log: CountedLog,
    /// How many runs came before that.
    turn: usize,
    /// Who asked for it.
    owner: Option<Caller>,
}

/// Where a task stands.
enum Stands {
    Working(Option<String>),
    /// For a person.
    Waits(Box<Waiting>),
    Asks(Questions),
    Completed(JsonObject),
    Failed(ErrorData),
    Cancelled,
}

/// Next run of a task that asks its caller.
#[derive(Clone, Copy)]
enum NextTurn<'a> {
    /// Makes the call again, with answers.
    Answered { answers: &'a JsonObject, state: Option<&'a str> },
    /// Ends the task.
    Cancelled,
}

impl Handler {
    /// Makes the handle of a run that is in the store.
    pub(super) async fn new_task(
        &self,
        asker: &Asker,
        run_id: &str,
    ) -> Result<CreateTaskResult, ErrorData> {
        let log = self.log(asker, run_id).await?.ok_or_else(|| no_task(run_id))?;
        let created_at = log.record.header.created_at.clone();
        let found = Found { task_id: run_id.to_owned(), created_at, log, turn: 0, owner: None };
        // Whoever gets the handle asks for the rest with it.
        Ok(CreateTaskResult::new(found.task(TaskStatus::Working, None)))
    }

    /// Tells how a task does.
    pub(super) async fn task(
        &self,
        asker: &Asker,
        task_id: &str,
    ) -> Result<GetTaskResult, ErrorData> {
        let found = self.find_task(asker, task_id).await?;
        let (router, caller) = (self.service().router(), &*asker.bearer.caller);
        let outcome =
            router.restored(Outcome::of_log(&found.log), Some(caller), HeldRetention::Remove);
        let outcome = outcome.await.map_err(|error| self.failed(&error))?;
        let (payload, message) = match self.stands(asker, &found, outcome) {
            Stands::Working(message) => (TaskPayload::Working, message),
            Stands::Waits(waiting) => {
                let message = Some(approving::told(&waiting));
                let input_requests = approving::question(&waiting);
                (TaskPayload::InputRequired { input_requests }, message)
            }
            Stands::Asks(questions) => {
                (TaskPayload::InputRequired { input_requests: questions.requests }, None)
            }
            Stands::Completed(result) => (TaskPayload::Completed { result }, None),
            Stands::Failed(error) => {
                let error = serde_json::to_value(error).unwrap_or_default();
                let error = error.as_object().cloned().unwrap_or_default();
                (TaskPayload::Failed { error }, None)
            }
            Stands::Cancelled => (TaskPayload::Cancelled, None),
        };
        let task = found.task(payload.status(), message);
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// Answers what a task asks. What it does not ask, or no longer, is passed over.
    pub(super) async fn answer_task(
        &self,
        asker: &Asker,
        task_id: &str,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        let found = self.find_task(asker, task_id).await?;
        let questions = match self.stands(asker, &found, Outcome::of_log(&found.log)) {
            Stands::Asks(questions) => questions,
            Stands::Waits(waiting) => {
                let response = responses.get(&approving::name(&waiting.approval_id));
                let Some(response) = response else { return Ok(()) };
                return self.decide(asker, &waiting.approval_id, response).await;
            }
            _ => return Ok(()),
        };
        let asked = |name: &String| questions.requests.contains_key(name);
        let answers: JsonObject = responses
            .into_iter()
            .filter(|(name, answer)| asked(name) && answer.is_object())
            .collect();
        if answers.is_empty() {
            return Ok(());
        }
        // The call is made in the name of whoever asked for it, who alone can answer for it.
        if !found.is_of(asker) {
            return Err(no_task(task_id));
        }
        self.require(asker, Scope::Apply, "tasks/update")?;
        let next = NextTurn::Answered { answers: &answers, state: questions.state.as_deref() };
        self.go_on(asker, &found, next).await
    }

    /// Asks a task to end.
    pub(super) async fn cancel_task_of(
        &self,
        asker: &Asker,
        task_id: &str,
    ) -> Result<(), ErrorData> {
        // Whose task it is not learns nothing of it, whatever they may do.
        let found = self.find_task(asker, task_id).await?;
        let needed = if found.is_of(asker) { Scope::Run } else { Scope::Admin };
        self.require(asker, needed, "tasks/cancel")?;
        let run_id = &found.log.record.header.run_id;
        match self.stands(asker, &found, Outcome::of_log(&found.log)) {
            Stands::Working(_) | Stands::Waits(_) if found.waits() => {
                self.stop_waiting(asker, run_id).await
            }
            Stands::Working(_) => self.cancel_run(asker, run_id).await,
            // There is no run to cancel, so one is made that is cancelled at once.
            Stands::Asks(_) => self.go_on(asker, &found, NextTurn::Cancelled).await,
            _ => Ok(()),
        }
    }

    /// Cancels a run that is under way. One that its process left behind is perhaps not taken up yet.
    pub(super) async fn cancel_run(&self, asker: &Asker, run_id: &str) -> Result<(), ErrorData> {
        for _ in 0..LOOKS {
            if self.service().router().cancel(run_id) {
                self.record_cancelled(asker, run_id);
                return Ok(());
            }
            let log = self.log(asker, run_id).await?;
            if log.is_none_or(|log| log.record.progress.status != Status::Running) {
                return Ok(());
            }
            tokio::time::sleep(MOMENT).await;
        }
        let message = format!("run {run_id} is not carried out by this router");
        Err(refused(super::REFUSED, "RUN_NOT_CANCELLABLE", message))
    }

    /// Makes the call of a task again with answers, or records that it is cancelled.
    async fn go_on(
        &self,
        asker: &Asker,
        found: &Found,
        next: NextTurn<'_>,
    ) -> Result<(), ErrorData> {
        if self.service().is_draining() {
            return Err(refused(super::REFUSED, "DRAINING", "the router is about to stop"));
        }
        let recorded = Recorded::read(&found.log);
        let lost = || {
            let message = "the call cannot be made again: its arguments are not held any more";
            refused(super::REFUSED, "TASK_UNRESUMABLE", message)
        };
        let (router, run_id) = (self.service().router(), &found.log.record.header.run_id);
        // A cancelled run calls nothing, so the recorded form is enough.
        let needs_original = matches!(next, NextTurn::Answered { .. }) && recorded.redacted;
        let plan = if needs_original {
            let held = router.held_steps(run_id).await.map_err(|error| self.failed(&error))?;
            held.ok_or_else(lost)?
        } else {
            recorded.plan.into_iter().map(crate::json::Value::Object).collect()
        };
        let plan = Step::read_plan(plan.into()).map_err(|_| lost())?;
        let [step] = &plan[..] else { return Err(lost()) };
        let adapter_id = step.dispatch().adapter_id().unwrap_or_default();
        let mut interaction = step.interaction().cloned().unwrap_or_default();
        if let NextTurn::Answered { answers, state } = next {
            add_answers(&mut interaction, answers, state);
        }
        let call = OneCall {
            goal: &found.log.record.header.goal,
            act: Act { adapter_id, tool: step.tool(), method: step.method() },
            timeout: step.timeout(),
            interaction: Some(interaction),
        };
        let key = key(&found.task_id, found.turn + 1);
        let request = call.request(Mode::Apply, step.args().clone(), Some(&key));
        let request = request.map_err(|_| lost())?;
        let mut submission = Submission::from(request).as_task();
        if let Some(owner) = &found.owner {
            submission = submission.by(Arc::new(owner.clone()));
        }
        if let Some(held) = &asker.held {
            submission = submission.holding(Arc::clone(held));
        }
        if matches!(next, NextTurn::Cancelled) {
            submission.canceller().cancel();
        }
        let accepted = router.accept(submission).await;
        if recorded.redacted && accepted.is_ok() {
            router.remove_held_steps(run_id).await;
        }
        match accepted {
            Ok(Accepted::UnderWay(mut run)) => {
                drop(tokio::time::timeout(MOMENT, run.outcome()).await);
                Ok(())
            }
            // Somebody else was quicker with an answer, or it is over: whoever looks will see.
            Ok(Accepted::Over(_)) | Err(crate::router::Error::KeyTaken { .. }) => Ok(()),
            Err(crate::router::Error::Bug { .. }) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Finds a task that the caller sees. Any other is answered like one that does not exist.
    async fn find_task(&self, asker: &Asker, task_id: &str) -> Result<Found, ErrorData> {
        let mut log = self.log_of(asker, task_id).await?.ok_or_else(|| no_task(task_id))?;
        let owner = Recorded::read(&log).caller.as_ref().and_then(Caller::read);
        let created_at = log.record.header.created_at.clone();
        let mut turn = 0;
        while asks(&log) {
            let next = self.run_of_key(owner.as_ref(), &key(task_id, turn + 1)).await?;
            let Some(next) = next else { break };
            // Its memory is returned first: two large records may exceed the share of the token.
            drop(log);
            log = self.log(asker, &next).await?.ok_or_else(|| no_task(task_id))?;
            turn += 1;
        }
        Ok(Found { task_id: task_id.to_owned(), created_at, log, turn, owner })
    }

    fn stands(&self, asker: &Asker, found: &Found, outcome: Outcome) -> Stands {
        if outcome.status == Status::Running {
            return match outcome.waiting {
                Some(waiting) if self.may_decide(asker, found.owner.as_ref()) => {
                    Stands::Waits(Box::new(waiting))
                }
                Some(waiting) => Stands::Working(Some(approving::told(&waiting))),
                None => Stands::Working(None),
            };
        }
        if outcome.reason.as_deref() == Some("cancelled") {
            return Stands::Cancelled;
        }
        if outcome.reason.as_deref() == Some(Failure::BUG) {
            let failed = outcome.results.iter().rfind(|step| step.status == StepStatus::Error);
            let error = failed.and_then(|step| step.error.as_ref());
            let (code, message) = error.map_or(("BUG_ERROR", "the adapter is broken"), |error| {
                (&*error.code, &*error.message)
            });
            let data = json!({ "code": code, "run_id": outcome.run_id });
            return Stands::Failed(ErrorData::internal_error(message.to_owned(), Some(data)));
        }
        let name = found.log.record.header.goal.strip_prefix("call ");
        let Some(name) = name.filter(|_| outcome.plan.len() == 1) else {
            return Stands::completed(answer::whole(&outcome));
        };
        // The tool may be gone since, or not be there yet; its output still says what it is.
        let known = self.service().standing().tools.get(name).map(|spec| spec.definition.content);
        let output = outcome.results.first().map(StepResult::for_caller);
        let content = known.unwrap_or_else(|| output.is_some_and(answer::is_content));
        let result = match answer::read(&outcome) {
            Ok(Gave::Output(output)) => answer::result(&outcome, content, Ok(output)),
            Ok(Gave::Failure(failure)) => answer::result(&outcome, content, Err(failure)),
            Ok(Gave::Questions(questions)) => return Stands::Asks(questions),
            Err(error) => Err(error),
        };
        result.map_or_else(Stands::Failed, Stands::completed)
    }
}

impl Stands {
    fn completed(result: rmcp::model::CallToolResult) -> Self {
        match serde_json::to_value(result) {
            Ok(Value::Object(result)) => Self::Completed(result),
            _ => Self::Failed(ErrorData::internal_error("the result cannot be written", None)),
        }
    }
}

impl Found {
    /// Returns true for a task of this caller.
    fn is_of(&self, asker: &Asker) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_same(&asker.bearer.caller))
    }

    /// Says whether it waits for a person.
    fn waits(&self) -> bool {
        self.log.record.waits
    }

    fn task(&self, status: TaskStatus, message: Option<String>) -> Task {
        let last = self.log.lines().last().and_then(|line| Line::read(line).ok());
        let updated = last.map_or_else(|| self.created_at.clone(), |last| last.ts.to_string());
        let mut task = Task::new(&*self.task_id, status, &*self.created_at, updated);
        task.status_message = message;
        task.with_poll_interval_ms(POLL_MS)
    }
}

/// Says whether a run ended with a question to its caller.
fn asks(log: &Log) -> bool {
    log.record.progress.status == Status::Failed
        && matches!(answer::read(&Outcome::of_log(log)), Ok(Gave::Questions(_)))
}

/// Returns the idempotency key of a turn of a task.
fn key(task_id: &str, turn: usize) -> String {
    format!("{KEYS}{task_id}/{turn}")
}

fn no_task(task_id: &str) -> ErrorData {
    let shown: String = task_id.chars().take(128).collect();
    let message = format!("there is no task {shown}");
    refused(ErrorCode::INVALID_PARAMS, "UNKNOWN_TASK", message)
}

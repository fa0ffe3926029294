//! Calls that wait for a person: followed as a task, or waited for as long as the caller does.

use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData, InputRequest, InputRequests};
use serde_json::{Value, json};

use super::approval_notice::{NoticeSchedule, WaitingCall};
use super::call::Wait;
use super::{Asker, Handler, refused, refused_with};
use crate::access::Scope;
use crate::caller::Caller;
use crate::outcome::{Outcome, Waiting};
use crate::router::{Answer, Error, HeldRetention};
use crate::store::Status;

/// So much of the arguments is shown to the person who decides.
const SHOWN: usize = 1000;
/// The time that a notice to the client may take.
const NOTICE: Duration = Duration::from_secs(1);
/// How often it is seen whether a person has decided.
const PAUSE: Duration = Duration::from_millis(250);

impl Handler {
    /// Waits until a run that waits for a person is over, and notifies the caller meanwhile. A caller that is gone, or gives
    /// up, leaves the run as it is: the same call with the same idempotency key finds it again.
    pub(super) async fn wait_out(
        &self,
        wait: &Wait<'_>,
        asker: &Asker,
        mut outcome: Box<Outcome>,
        has_key: bool,
    ) -> Result<Box<Outcome>, ErrorData> {
        let run_id = outcome.run_id.clone();
        let call = WaitingCall { run_id: &run_id, has_key };
        let (channel, mut schedule) = (wait.notice_channel(), NoticeSchedule::default());
        while outcome.status == Status::Running {
            if let Some(waiting) = &outcome.waiting {
                let notify = self.notify_waiting(channel, &mut schedule, &call, waiting);
                // A client that does not read misses the notice, and gets its answer all the same.
                drop(tokio::time::timeout(NOTICE, notify).await);
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = wait.gone.cancelled() => {
                    let message = format!("the call was cancelled; run {run_id} keeps waiting");
                    return Err(ErrorData::internal_error(message, None));
                }
                () = self.service().draining() => {
                    let hint = "the run keeps waiting; ask for it by its id";
                    let message = format!("run {run_id} waits for a person, and the router stops");
                    return Err(refused_with(super::REFUSED, "DRAINING", message, hint));
                }
            }
            let Some(log) = self.log(asker, &run_id).await? else {
                return Err(ErrorData::internal_error("the run is gone", None));
            };
            *outcome = Outcome::of_log(&log);
        }
        let (router, caller) = (self.service().router(), &*asker.bearer.caller);
        let restored = router.restored(*outcome, Some(caller), HeldRetention::Keep).await;
        restored.map(Box::new).map_err(|error| self.failed(&error))
    }

    /// Ends a run that waits for a person.
    pub(super) async fn stop_waiting(&self, asker: &Asker, run_id: &str) -> Result<(), ErrorData> {
        let router = self.service().router();
        let name = Some(asker.bearer.caller.name.as_str());
        let ended = router.cancel_waiting(run_id, name, |_| true).await;
        if ended.map_err(|error| self.failed(&error))? == Some(true) {
            self.record_cancelled(asker, run_id);
            return Ok(());
        }
        // Somebody decided meanwhile, and it goes on.
        self.cancel_run(asker, run_id).await
    }

    /// Says whether the caller is asked itself about a call that waits. Whoever asked for the call is, if the
    /// operator trusts clients to ask a person: an agent must not answer for one, whatever its token may.
    pub(super) fn may_decide(&self, asker: &Asker, owner: Option<&Caller>) -> bool {
        let own = owner.is_some_and(|owner| owner.is_same(&asker.bearer.caller));
        match own {
            true => self.service().standing().law.approvals.by_caller,
            false => asker.bearer.may(Scope::Admin),
        }
    }

    /// Decides as the person at the client says.
    pub(super) async fn decide(
        &self,
        asker: &Asker,
        approval_id: &str,
        response: &Value,
    ) -> Result<(), ErrorData> {
        self.require(asker, Scope::Run, "tasks/update")?;
        let approve = response["content"]["approve"].as_bool();
        let answer = match (response["action"].as_str(), approve) {
            (Some("accept"), Some(true)) => Answer::Approve,
            (Some("accept"), Some(false)) | (Some("decline"), _) => Answer::Deny,
            // Nobody said yes or no.
            _ => return Ok(()),
        };
        // Its run would go on.
        if self.service().is_draining() {
            return Err(refused(super::REFUSED, "DRAINING", "the router is about to stop"));
        }
        let reason = response["content"]["reason"].as_str().filter(|reason| !reason.is_empty());
        let decided = self.service().decide(&asker.bearer, approval_id, answer, reason).await;
        decided.map(drop).map_err(|error| {
            let mut told = self.failed(&error);
            // The same answer may be taken later.
            if !matches!(error, Error::Unavailable(_)) {
                told.code = ErrorCode::INVALID_PARAMS;
            }
            told
        })
    }
}

/// Returns the name of the question about an approval. Each has its own, so that no answer serves two.
pub(super) fn name(approval_id: &str) -> String {
    format!("approval-{approval_id}")
}

/// Puts the question to the person at the client.
pub(super) fn question(waiting: &Waiting) -> InputRequests {
    let Waiting { tool, method, adapter_id, reason, expires_at, .. } = waiting;
    let why = reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let args = crate::json::to_canonical(&waiting.args.clone().into());
    let args = shown(args, &waiting.args_digest);
    let granted = match waiting.grants.as_slice() {
        [] => String::new(),
        // Before the arguments, and never cut.
        grants => {
            let grants = crate::json::to_canonical(&grants.to_vec().into());
            format!(", to which the plan grants {grants},")
        }
    };
    let message = format!(
        "May {tool}.{method} of adapter '{adapter_id}'{granted} be called with {args}{why}? It can be answered \
         until {expires_at}."
    );
    let request = json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "approve": { "type": "boolean", "title": "Approve the call" },
                    "reason": { "type": "string", "title": "Why" },
                },
                "required": ["approve"],
            },
        },
    });
    let request: Option<InputRequest> = serde_json::from_value(request).ok();
    request.into_iter().map(|request| (name(&waiting.approval_id), request)).collect()
}

/// Cuts arguments that are long, and says so: nobody is to say yes to what looks like all there is.
fn shown(args: String, digest: &str) -> String {
    let Some((end, _)) = args.char_indices().nth(SHOWN) else { return args };
    let (whole, args) = (args.chars().count(), &args[..end]);
    format!("{args}… [cut: the first {SHOWN} of {whole} characters; args_digest {digest}]")
}

/// Says what a task waits for, for those who cannot decide it.
pub(super) fn told(waiting: &Waiting) -> String {
    let Waiting { approval_id, expires_at, reason, .. } = waiting;
    let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("waits for a person's approval {approval_id} until {expires_at}{why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Object;

    #[test]
    fn the_question_is_one_of_the_protocol() {
        let waiting = Waiting {
            approval_id: "a1".to_owned(),
            step_id: "call".to_owned(),
            adapter_id: "shop".to_owned(),
            tool: "order".to_owned(),
            method: "delete".to_owned(),
            reason: Some("it is final".to_owned()),
            expires_at: "2026-11-16T00:00:00.000Z".to_owned(),
            args: [("id".to_owned(), 7.into())].into_iter().collect(),
            grants: Vec::new(),
            args_digest: "d1".to_owned(),
        };
        let asked = serde_json::to_value(question(&waiting)).unwrap();
        let asked = &asked["approval-a1"];
        assert_eq!(asked["method"], "elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap();
        for part in ["order.delete", "it is final", r#"{"id":7}"#] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("grants"), "{message}");
        assert!(told(&waiting).contains("a1"));
        let grant: Object = [("grant".to_owned(), "shell_exec".into())].into_iter().collect();
        let waiting = Waiting { grants: vec![grant.into()], ..waiting };
        let asked = serde_json::to_value(question(&waiting)).unwrap();
        let message = asked["approval-a1"]["params"]["message"].as_str().unwrap();
        assert!(message.contains(r#"the plan grants [{"grant":"shell_exec"}]"#), "{message}");
    }

    #[test]
    fn a_cut_is_told() {
        let whole = "ä".repeat(SHOWN);
        assert_eq!(shown(whole.clone(), "d1"), whole);
        let cut = shown(format!("{whole}b"), "d1");
        for part in [whole.as_str(), "the first 1000 of 1001 characters", "d1"] {
            assert!(cut.contains(part) && !cut.contains('b'), "{cut}");
        }
    }
}

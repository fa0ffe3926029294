//! Decisions about approvals: who may make them, and what is recorded of them besides the run's own events.

use super::Service;
use crate::access::{Bearer, Scope};
use crate::app::App;
use crate::approval::Approval;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::json::Object;
use crate::registry::Unavailability;
use crate::router::{Answer, Decided, Decider, Error, Refusal};
use crate::store::VisibleRuns;

impl Service {
    /// Decides about an approval in the name of a bearer. Returns when the decision is on disk. What is refused
    /// is recorded too.
    ///
    /// # Errors
    /// When the decision is not taken, or the store fails.
    pub async fn decide(
        &self,
        bearer: &Bearer,
        approval_id: &str,
        answer: Answer,
        reason: Option<&str>,
    ) -> Result<Decided, Error> {
        let decider = Decider {
            name: bearer.caller.name.clone(),
            token_id: bearer.caller.token_id.clone(),
            admin: bearer.scope().includes(Scope::Admin),
        };
        let refusal = match self.refuse_invisible(bearer, approval_id).await? {
            Some(refusal) => Some(refusal),
            None => self.caller_gone(approval_id, answer).await?,
        };
        let decided = match refusal {
            Some(refusal) => Err(refusal.into()),
            None => self.router().decide(approval_id, answer, &decider, reason).await,
        };
        let reason = match &decided {
            Err(Error::Refused(refusal)) => Some(refusal.code()),
            Err(Error::Unavailable(_)) => Some(Unavailability::CODE),
            _ => None,
        };
        if let Some(reason) = reason {
            self.metrics().refused(reason);
            let mut payload = Object::new();
            payload.insert("reason", reason);
            payload.insert("approval_id", approval_id);
            payload.insert("decision", answer.name());
            payload.insert("name", decider.name);
            self.inner.audit.record("approval.refused", payload);
        }
        decided
    }

    /// Refuses an approval whose run the bearer does not see.
    async fn refuse_invisible(
        &self,
        bearer: &Bearer,
        approval_id: &str,
    ) -> Result<Option<Refusal>, Error> {
        let visible = bearer.visible_runs();
        if visible == VisibleRuns::All {
            return Ok(None);
        }
        let (store, wanted) = (self.store().clone(), approval_id.to_owned());
        let found =
            tokio::task::spawn_blocking(move || store.approval_visible(&wanted, &visible)).await;
        match found {
            Ok(Ok(Some(_))) => Ok(None),
            Ok(Ok(None)) => Ok(Some(Refusal::Unknown { approval_id: approval_id.to_owned() })),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(Error::Threads(error.to_string())),
        }
    }

    /// Says whether the call must not be approved because its caller could not ask for it any more.
    async fn caller_gone(
        &self,
        approval_id: &str,
        answer: Answer,
    ) -> Result<Option<Refusal>, Error> {
        let (Some(book), Answer::Approve) = (&self.inner.tokens, answer) else { return Ok(None) };
        let (store, wanted) = (self.store().clone(), approval_id.to_owned());
        let found = tokio::task::spawn_blocking(move || store.approval(&wanted)).await;
        let approval = match found {
            Ok(found) => found?,
            Err(error) => return Err(Error::Threads(error.to_string())),
        };
        let caller = approval.and_then(|approval| approval.caller);
        let Some((name, token_id)) = caller.and_then(|it| Some((it.name, it.token_id?))) else {
            return Ok(None);
        };
        let is_valid = book.find_valid(&token_id, Clock::System.now()).is_some();
        let approval_id = approval_id.to_owned();
        Ok((!is_valid).then_some(Refusal::CallerGone { approval_id, name }))
    }
}

/// Records every approval that is decided, by whoever and through whatever door.
pub(super) fn witness(app: &App, audit: &Audit) {
    let audit = audit.clone();
    app.witness().hear(move |approval: &Approval| {
        let Some(ruling) = &approval.ruling else { return };
        let mut payload = Object::new();
        payload.insert("approval_id", approval.approval_id.as_str());
        payload.insert("run_id", approval.run_id.as_str());
        payload.insert("step_id", approval.step_id.as_str());
        payload.insert("decision", ruling.decision.name());
        if let Some(name) = &ruling.by {
            payload.insert("name", name.as_str());
        }
        if let Some(why) = &ruling.reason {
            payload.insert("why", why.as_str());
        }
        audit.record("approval.decided", payload);
    });
}

//! Decisions about approvals, and how runs go on after them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use super::live::Live;
use super::{Error, Inner, Refusal, Router, UnderWay, admission, closed};
use crate::approval::{Approval, Decision};
use crate::caller::Caller;
use crate::dispatch::{Broken, Cancel, Execution, Surroundings};
use crate::offload::{Load, OffloadedRun};
use crate::outcome::Outcome;
use crate::recorder::Recorder;
use crate::recover::{self, How, Resumable};
use crate::share::token_id;
use crate::store::{ApprovalFilter, Ballot, Orphan, Ruled, Settled, Status};
use crate::telemetry::{self, work_span};

/// What somebody says about an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call may be made.
    Approve,
    /// The call must not be made.
    Deny,
}

impl Answer {
    /// Returns the decision that it makes, unless it comes too late.
    #[must_use]
    pub const fn decision(self) -> Decision {
        match self {
            Self::Approve => Decision::Approved,
            Self::Deny => Decision::Denied,
        }
    }

    /// Returns the name of that decision.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.decision().name()
    }
}

/// Who decides about an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// The name that is recorded.
    pub name: String,
    /// The token that was shown, if one was.
    pub token_id: Option<String>,
    /// Whether they may decide about any call.
    pub admin: bool,
}

/// A decision that is on disk.
#[derive(Debug)]
pub struct Decided {
    /// The approval with its ruling.
    pub approval: Approval,
    /// The run, which goes on whether anybody waits for it or not.
    pub run: UnderWay,
}

impl Router {
    /// Lists approvals, the newest first, and says how many there are.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approvals(&self, filter: &ApprovalFilter) -> Result<(Vec<Approval>, u64), Error> {
        Ok(self.inner.store.approvals(filter)?)
    }

    /// Decides about an approval. Returns when the decision is on disk; the run goes on by itself.
    ///
    /// # Errors
    /// [`Error::Refused`] when the decision is not taken; others when the store fails.
    pub async fn decide(
        &self,
        approval_id: &str,
        answer: Answer,
        decider: &Decider,
        reason: Option<&str>,
    ) -> Result<Decided, Error> {
        let inner = Arc::clone(&self.inner);
        let (approval_id, decider) = (approval_id.to_owned(), decider.clone());
        let reason = reason.map(str::to_owned);
        let decide = async move { inner.decide(approval_id, answer, decider, reason).await };
        super::Carried::new(&self.inner, decide).await
    }

    /// Decides about an approval, on the calling thread's time.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub fn decide_blocking(
        &self,
        approval_id: &str,
        answer: Answer,
        decider: &Decider,
        reason: Option<&str>,
    ) -> Result<Decided, Error> {
        self.wait(self.decide(approval_id, answer, decider, reason))
    }

    /// Waits for a run that goes on after a decision, on the calling thread's time.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn outcome_blocking(&self, mut run: UnderWay) -> Result<Outcome, Error> {
        self.wait(async move { run.outcome().await })
    }

    /// Ends a run that waits for an approval, or for its adapter, if `may` says so of who asked for it. Returns whether it
    /// did, or none if no run of this id waits here.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn cancel_waiting(
        &self,
        run_id: &str,
        by: Option<&str>,
        may: impl FnOnce(Option<&Caller>) -> bool,
    ) -> Result<Option<bool>, Error> {
        let (inner, wanted) = (Arc::clone(&self.inner), run_id.to_owned());
        let open = super::Carried::new(&self.inner, async move { inner.open_of(wanted).await });
        let Some(approval) = open.await? else { return self.cancel_deferred(run_id, may).await };
        if !may(approval.caller.as_ref()) {
            return Ok(Some(false));
        }
        let (inner, by) = (Arc::clone(&self.inner), by.map(str::to_owned));
        let void = async move { inner.void(approval.approval_id, by).await };
        let ended = super::Carried::new(&self.inner, void).await?;
        // Somebody was quicker, and it goes on.
        Ok(if ended || self.cancel(run_id) { Some(true) } else { None })
    }

    async fn cancel_deferred(
        &self,
        run_id: &str,
        may: impl FnOnce(Option<&Caller>) -> bool,
    ) -> Result<Option<bool>, Error> {
        let (inner, wanted) = (Arc::clone(&self.inner), run_id.to_owned());
        let find = async move { inner.find_deferred(&wanted).await };
        let Some(orphan) = super::Carried::new(&self.inner, find).await? else { return Ok(None) };
        if !may(admission::caller_of(&orphan).as_ref()) {
            return Ok(Some(false));
        }
        let inner = Arc::clone(&self.inner);
        let end = async move { inner.end_deferred(&orphan).await };
        let ended = super::Carried::new(&self.inner, end).await?;
        // Its adapter was quicker, and it goes on.
        Ok(if ended || self.cancel(run_id) { Some(true) } else { None })
    }

    /// Sees to it from now on that approvals expire when their time is over.
    pub fn watch_approvals(&self) {
        self.inner.expire.start(&self.inner);
    }
}

impl Inner {
    async fn decide(
        self: &Arc<Self>,
        approval_id: String,
        answer: Answer,
        decider: Decider,
        reason: Option<String>,
    ) -> Result<Decided, Error> {
        let around = self.around();
        if let Some(chars) = reason.as_ref().map(|reason| reason.chars().count())
            && chars > Refusal::MAX_REASON
        {
            return Err(Refusal::ReasonTooLong { chars }.into());
        }
        let reason = reason.map(|reason| around.secrets.redact_text(&reason).unwrap_or(reason));
        let wanted = approval_id.clone();
        let Some(approval) = self.ask(move |store| store.approval(&wanted)).await? else {
            return Err(Refusal::Unknown { approval_id }.into());
        };
        may(&approval, &decider, around.law.approvals.by_caller)?;
        let (decision, at) = (answer.decision(), self.clock.now());
        let open = approval.ruling.is_none() && !approval.is_expired(at);
        if open && answer == Answer::Approve {
            self.check_executable(&around, &approval).await?;
        }
        let by = Some(decider.name);
        let ballot = Ballot { approval_id: approval_id.clone(), decision, by, reason, at };
        let settled = match self.ask(move |store| store.decide(ballot)).await? {
            Ruled::Unknown | Ruled::Elsewhere => {
                return Err(Refusal::Unknown { approval_id }.into());
            }
            Ruled::Already(approval) => return Err(too_late(*approval).into()),
            Ruled::Settled(settled) => *settled,
        };
        let (approval, run) = self.settled(settled)?;
        if approval.ruling.as_ref().is_some_and(|ruling| ruling.decision == decision) {
            return Ok(Decided { approval, run });
        }
        Err(too_late(approval).into())
    }

    /// Refuses an approval whose call this process could not execute, so that the decision is not used up.
    async fn check_executable(
        &self,
        around: &Surroundings,
        approval: &Approval,
    ) -> Result<(), Error> {
        let run_id = approval.run_id.clone();
        let waiting = self.ask(move |store| store.take_up(&run_id)).await?;
        let Some(waiting) = waiting.filter(|waiting| waiting.log.record.waits) else {
            return Ok(());
        };
        // A damaged log is reported where the decision is recorded.
        let Ok(recorder) = Recorder::resume(self.store.clone(), self.clock, &waiting) else {
            return Ok(());
        };
        let execution = Execution::take_up(recorder, &waiting, Arc::default());
        if let Some(unavailable) = execution.obstacle(around).and_then(|it| it.unavailable) {
            return Err(Error::Unavailable(unavailable));
        }
        match execution.approval_obstacle(around) {
            None => Ok(()),
            Some(why) => {
                let approval_id = approval.approval_id.clone();
                Err(Refusal::NotExecutable { approval_id, why }.into())
            }
        }
    }

    /// Tells of a decision, and goes on with its run.
    fn settled(self: &Arc<Self>, settled: Settled) -> Result<(Approval, UnderWay), Error> {
        let Settled { approval, orphan } = settled;
        self.tell(&approval);
        let run = self.go_on(orphan, approval.caller.clone())?;
        Ok((approval, run))
    }

    fn tell(&self, approval: &Approval) {
        let around = self.around();
        around.metrics.approval_decided(approval.state());
        around.witness.decided(approval);
    }

    /// Goes on with a run after a decision, in its turn among all others.
    fn go_on(self: &Arc<Self>, orphan: Orphan, caller: Option<Caller>) -> Result<UnderWay, Error> {
        let Some(runtime) = &self.runtime else { return Err(closed()) };
        let header = &orphan.log.record.header;
        let (run_id, mode) = (header.run_id.clone(), header.mode.clone());
        let cancel = Arc::new(Cancel::default());
        // Before it has a place: it can be cancelled from now on.
        let header = Arc::new(header.clone());
        let caller = caller.map(Arc::new);
        let live = Live::enter(self, &header, &cancel, caller.as_ref());
        let (inner, id) = (Arc::clone(self), run_id.clone());
        let span = work_span!("run", run_id = id, mode, trace_id = None::<String>);
        let run = async move {
            let place = inner.places.wait(token_id(caller.as_deref())).await;
            let begun = Instant::now();
            let around = inner.around();
            let (store, clock) = (&inner.store, inner.clock);
            let resumable = Resumable::Resume;
            let recovered =
                recover::recover(store, clock, &around, &orphan, resumable, Arc::clone(&cancel))
                    .await;
            drop((live, place));
            match &recovered.how {
                How::Waits => inner.parked(&id, &cancel).await,
                How::Left { why } => tracing::error!(why, "a run does not go on after a decision"),
                How::Resumed | How::Ended { .. } => {
                    if recovered.status == Status::Failed {
                        telemetry::mark_run_failed(recovered.status.name());
                    }
                    around.metrics.run_ended(&mode, recovered.status.name(), begun.elapsed());
                }
            }
            inner.read_back(&id).await
        };
        // The size of its record is not known.
        let run = OffloadedRun::new(run, Load::Heavy).instrument(span);
        Ok(UnderWay { run_id, task: runtime.spawn(run) })
    }

    /// Looks after a run that has come to wait: that it expires, and that it is ended if it was cancelled
    /// in the meantime.
    pub(super) async fn parked(self: &Arc<Self>, run_id: &str, cancel: &Cancel) {
        self.expire.start(self);
        if !cancel.is_asked() {
            return;
        }
        let ended = match self.open_of(run_id.to_owned()).await {
            Ok(Some(approval)) => self.void(approval.approval_id, None).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(run_id, %error, "a run that waits could not be cancelled");
        }
    }

    async fn open_of(&self, run_id: String) -> Result<Option<Approval>, Error> {
        let filter = ApprovalFilter { run_id: Some(run_id), limit: 1, ..ApprovalFilter::default() };
        let (open, _) = self.ask(move |store| store.approvals(&filter)).await?;
        Ok(open.into_iter().next())
    }

    /// Ends a run that waits. Says whether it still did.
    async fn void(
        self: &Arc<Self>,
        approval_id: String,
        by: Option<String>,
    ) -> Result<bool, Error> {
        let (decision, at) = (Decision::Void, self.clock.now());
        let ballot = Ballot { approval_id, decision, by, reason: None, at };
        let Ruled::Settled(settled) = self.ask(move |store| store.decide(ballot)).await? else {
            return Ok(false);
        };
        let Settled { approval, orphan } = *settled;
        self.tell(&approval);
        let header = &orphan.log.record.header;
        match recover::cancel(&self.store, self.clock, &orphan).await {
            Ok(()) => {
                let status = Status::Failed.name();
                self.around().metrics.run_ended(&header.mode, status, Duration::ZERO);
                Ok(true)
            }
            Err(Broken::Store(error)) => Err(error.into()),
            Err(Broken::Illegal(illegal)) => {
                let run_id = header.run_id.clone();
                Err(Error::Internal { run_id, message: illegal.to_string() })
            }
        }
    }

    /// Refuses what was not decided in time.
    ///
    /// # Errors
    /// When something of it could not be; that does not keep the rest from being refused.
    pub(super) async fn expire_due(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            let now = self.clock.now();
            let due = self.ask(move |store| store.due_approvals(now)).await?;
            let (mut done, mut failed) = (0, Ok(()));
            for approval_id in due {
                let decision = Decision::Expired;
                let ballot = Ballot { approval_id, decision, by: None, reason: None, at: now };
                match self.ask(move |store| store.decide(ballot)).await {
                    Ok(Ruled::Settled(settled)) => {
                        drop(self.settled(*settled)?);
                        done += 1;
                    }
                    Ok(_) => done += 1,
                    Err(error) => failed = Err(error),
                }
            }
            if done == 0 {
                return failed;
            }
        }
    }
}

/// Says whether somebody may decide about an approval.
fn may(approval: &Approval, decider: &Decider, by_caller: bool) -> Result<(), Refusal> {
    if decider.admin {
        return Ok(());
    }
    let (approval_id, by) = (approval.approval_id.clone(), decider.name.clone());
    // Whoever shows no token is somebody who may use this machine's store, by this program or another.
    let own = approval.caller.as_ref().is_some_and(|caller| {
        (&caller.name, &caller.token_id) == (&decider.name, &decider.token_id)
    });
    match (own, by_caller) {
        (true, true) => Ok(()),
        (true, false) => Err(Refusal::OwnCall { approval_id, by }),
        (false, _) => Err(Refusal::NotYours { approval_id, by }),
    }
}

fn too_late(approval: Approval) -> Refusal {
    let approval = Box::new(approval);
    match approval.ruling.as_ref().map(|ruling| ruling.decision) {
        Some(Decision::Expired) => Refusal::Expired { approval },
        _ => Refusal::AlreadyDecided { approval },
    }
}

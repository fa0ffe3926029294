//! Records a run: every event passes [`Run::apply`], gets its line and its link in the chain, and is
//! handed to the store.

use std::sync::Arc;

use crate::approval::Ruling;
use crate::caller::Caller;
use crate::clock::{Clock, Timestamp};
use crate::digest::Digest;
use crate::event::{Fact, Kind, Line, Payload};
use crate::id::EventIds;
use crate::json::Object;
use crate::request::Step;
use crate::run::{Illegal, Phase, Run};
use crate::share::StorageMeter;
use crate::store;
use crate::store::{
    Append, ApprovalChange, Claim, Header, HeldAnswer, HeldArguments, HeldArgumentsChange, Orphan,
    Progress, Receipt, Status, Store, Ticket,
};

/// The pen that writes one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    store: Store,
    clock: Clock,
    run: Run,
    header: Arc<Header>,
    ids: EventIds,
    ticket: Ticket,
    head: Digest,
    claim: Option<Claim>,
    /// The caller, until it was handed over.
    caller: Option<Arc<Caller>>,
    /// Bytes of all lines.
    bytes: usize,
    /// Lines that were not handed over yet.
    body: String,
    count: u64,
    /// What these lines say of approvals.
    approvals: Vec<ApprovalChange>,
    /// Answers of these lines that are held for the caller.
    held: Vec<HeldAnswer>,
    arguments: HeldOriginal,
    commits: Commits,
    /// What was handed over and is not known to be durable.
    receipts: Vec<Receipt>,
    /// The text of the last time, which most events share with the one before.
    now: (Timestamp, String),
    /// Charges the caller's token with the bytes that are handed to the store.
    pub(crate) meter: Option<StorageMeter>,
    /// Bytes of the body that the meter has counted: the store returned them unwritten.
    metered: usize,
}

/// Original plan of a run, if redaction changed it.
#[derive(Debug, Default)]
struct HeldOriginal {
    plan: Option<Arc<Vec<Step>>>,
    /// A further run may answer a question of this one.
    is_task: bool,
    /// The run ends with a question.
    is_asked: bool,
    /// True if the store holds it.
    is_stored: bool,
}

/// Who makes events durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// The store's thread, for many runs at once.
    Together,
    /// The thread of the run, which saves waking up another: it has nothing else to do, or the store is in memory and
    /// there is nothing to wait for.
    Here,
}

/// Capacity that a recorder keeps after a line that was too large.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Result of recording an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordFit {
    /// The event was recorded.
    Recorded,
    /// Its line is longer than its room; nothing was changed.
    TooLarge,
}

/// A stored log is not one that can be gone on with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("event {seq} is damaged")]
    Damaged { seq: u64 },
    #[error("event {seq} is illegal: {source}")]
    Illegal { seq: u64, source: Illegal },
    #[error("its log is not what was recorded; see `nexus-router store check`")]
    Changed,
}

impl Recorder {
    /// Begins a run that is created now.
    pub(crate) fn begin(
        store: Store,
        (clock, now): (Clock, Timestamp),
        commits: Commits,
        header: Arc<Header>,
        (claim, caller): (Option<Claim>, Option<Arc<Caller>>),
    ) -> Self {
        Self {
            store,
            clock,
            run: Run::new(),
            ids: EventIds::of(&header.run_id),
            now: (now, header.created_at.clone()),
            header,
            ticket: Ticket::default(),
            head: Digest::ZERO,
            claim,
            caller,
            bytes: 0,
            body: String::with_capacity(4096),
            count: 0,
            approvals: Vec::new(),
            held: Vec::new(),
            arguments: HeldOriginal::default(),
            commits,
            receipts: Vec::new(),
            meter: None,
            metered: 0,
        }
    }

    /// Counts what it records for the caller.
    pub(crate) fn with_meter(mut self, meter: Option<StorageMeter>) -> Self {
        self.meter = meter;
        self
    }

    /// Goes on with a run whose process is gone, from what is recorded of it.
    pub(crate) fn resume(store: Store, clock: Clock, orphan: &Orphan) -> Result<Self, Unfit> {
        let header = Arc::new(orphan.log.record.header.clone());
        let now = clock.now();
        let mut recorder =
            Self::begin(store, (clock, now), Commits::Together, header, (None, None));
        recorder.now.1 = now.to_string();
        recorder.ticket = orphan.ticket.clone();
        recorder.arguments.is_stored = orphan.held.is_some();
        for line in orphan.log.lines() {
            let seq = recorder.run.events();
            let damaged = || Unfit::Damaged { seq };
            let event = Line::read(line).map_err(|_| damaged())?;
            let kind = Kind::from_name(&event.kind).ok_or_else(damaged)?;
            let fact = Fact::read(kind, event.payload).map_err(|_| damaged())?;
            let applied = recorder.run.apply(event.seq, &fact);
            applied.map_err(|source| Unfit::Illegal { seq, source })?;
            recorder.head = recorder.head.chain(line);
            recorder.bytes += line.len() + 1;
        }
        let kept = &orphan.log.record.progress;
        if (recorder.head, recorder.run.events()) != (kept.head, kept.events) {
            return Err(Unfit::Changed);
        }
        Ok(recorder)
    }

    pub(crate) const fn status(&self) -> Status {
        match self.run.phase() {
            Phase::Completed => Status::Completed,
            Phase::Failed => Status::Failed,
            _ => Status::Running,
        }
    }

    pub(crate) const fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) const fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// Returns the id that the next event will have.
    pub(crate) fn next_event_id(&self) -> uuid::fmt::Hyphenated {
        self.ids.at(self.run.events())
    }

    /// Says whether anything of the run may be in the store.
    pub(crate) fn is_begun(&self) -> bool {
        self.ticket.is_placed()
    }

    /// Returns the bytes of all lines of the run.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes an event, if it can follow what was before.
    pub(crate) fn record(&mut self, payload: &Payload<'_>) -> Result<(), Illegal> {
        self.record_within(payload, usize::MAX).map(drop)
    }

    /// Writes an event if its line has at most `room` bytes.
    pub(crate) fn record_within(
        &mut self,
        payload: &Payload<'_>,
        room: usize,
    ) -> Result<RecordFit, Illegal> {
        let seq = self.run.events();
        let now = self.clock.now();
        if now != self.now.0 {
            self.now = (now, now.to_string());
        }
        let start = self.body.len();
        let (event_id, run_id) = (self.ids.at(seq), &self.header.run_id);
        Line::write(&mut self.body, &event_id, run_id, seq, &self.now.1, payload);
        if self.body.len() - start > room {
            self.body.truncate(start);
            self.body.shrink_to(KEPT_CAPACITY);
            return Ok(RecordFit::TooLarge);
        }
        if let Err(illegal) = self.run.apply(seq.cast_signed(), &payload.fact()) {
            self.body.truncate(start);
            return Err(illegal);
        }
        let line = &self.body[start..];
        debug_assert!(reads_back(line, payload), "{line}");
        self.bytes += line.len() + 1;
        self.head = self.head.chain(line);
        self.body.push('\n');
        self.count += 1;
        self.approvals.extend(approval_change(payload, &self.now.1));
        Ok(RecordFit::Recorded)
    }

    /// Holds the answer of a step for the caller of the run, encrypted, together with the events that were written
    /// last. If that is impossible, the caller finds the recorded form later.
    pub(crate) fn hold(&mut self, step: usize, caller: Option<&Caller>, answer: &Object) {
        let (run_id, now) = (self.header.run_id.as_str(), self.clock.now());
        let held = self
            .store
            .key()
            .and_then(|key| HeldAnswer::encrypt(key, (run_id, step), caller, answer, now));
        match held {
            Ok(held) => self.held.extend(held),
            Err(error) => tracing::warn!(run_id, %error, "cannot hold the answer of a step"),
        }
    }

    /// Holds the original plan of a run until it ends, encrypted, from the first events on.
    pub(crate) fn hold_plan(&mut self, plan: Arc<Vec<Step>>, is_task: bool) {
        self.arguments.plan = Some(plan);
        self.arguments.is_task = is_task;
    }

    /// Keeps the held plan of a run that ends with a question: a further run answers it.
    pub(crate) const fn keep_plan_for_answer(&mut self) {
        self.arguments.is_asked = true;
    }

    /// Returns the change of the held plan that belongs to the events that are handed over. A run that begins and ends
    /// with them needs none.
    fn arguments_change(&mut self) -> Option<Box<HeldArgumentsChange>> {
        let terminal = self.run.phase().is_terminal();
        let HeldOriginal { plan, is_task, is_asked, is_stored } = &mut self.arguments;
        if plan.is_none() && !*is_stored {
            return None;
        }
        let expires_at = (terminal && *is_asked).then(|| store::answer_expiry(self.clock.now()));
        let change = match (&*plan, *is_stored) {
            (_, true) if !terminal => return None,
            (_, true) => {
                expires_at.map_or(HeldArgumentsChange::Remove, HeldArgumentsChange::Expire)
            }
            (Some(plan), false) if !terminal || *is_asked => {
                let run_id = self.header.run_id.as_str();
                let held = self.store.key().and_then(|key| {
                    HeldArguments::encrypt(key, run_id, plan, *is_task, expires_at)
                });
                match held {
                    Ok(held) => HeldArgumentsChange::Write(held),
                    Err(error) => {
                        tracing::error!(run_id, %error, "cannot hold the arguments of a run");
                        return None;
                    }
                }
            }
            _ => return None,
        };
        *is_stored = true;
        Some(Box::new(change))
    }

    /// Returns the present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn progress(&self) -> Progress {
        let run = &self.run;
        let status = self.status();
        let outcome = match status {
            Status::Completed => Some("ok"),
            Status::Failed => Some("error"),
            Status::Running => None,
        };
        Progress {
            status,
            steps_planned: run.plan().len() as u64,
            steps_executed: run.steps_started() as u64,
            tools_used: run.tools_used().to_vec(),
            outcome: outcome.map(str::to_owned),
            last_failure_reason: run.last_failure_reason().map(str::to_owned),
            events: run.events(),
            head: self.head,
        }
    }

    fn take(&mut self) -> Option<Append> {
        if self.count == 0 {
            return None;
        }
        let arguments = self.arguments_change();
        let append = Append {
            ticket: self.ticket.clone(),
            header: Arc::clone(&self.header),
            progress: self.progress(),
            body: std::mem::take(&mut self.body),
            count: std::mem::take(&mut self.count),
            claim: self.claim.take(),
            caller: self.caller.take(),
            approvals: std::mem::take(&mut self.approvals),
            held: std::mem::take(&mut self.held),
            arguments,
            waits: self.run.phase() == Phase::Waiting,
        };
        let metered = std::mem::take(&mut self.metered);
        if let Some(meter) = &self.meter {
            meter.charge(append.stored_bytes().saturating_sub(metered));
        }
        Some(append)
    }

    /// Hands over what is written, without waiting: others can see it soon.
    pub(crate) fn flush(&mut self) {
        if let Some(append) = self.take()
            && let Ok(receipt) = self.store.append(append)
        {
            self.receipts.push(receipt);
        }
    }

    /// Looks after what was handed over, so that a run does not go on without a record.
    ///
    /// # Errors
    /// When something could not be written.
    pub(crate) async fn look_after(&mut self) -> Result<(), store::Error> {
        if self.receipts.iter().any(Receipt::is_settled) { self.commit().await } else { Ok(()) }
    }

    /// Makes everything that is written durable.
    ///
    /// # Errors
    /// When it is not. It can be tried again, or owed.
    pub(crate) async fn commit(&mut self) -> Result<(), store::Error> {
        let mut failed = Ok(());
        if let Some(append) = self.take() {
            // What was handed over before must be written before.
            let here = self.commits == Commits::Here && self.receipts.is_empty();
            let receipt =
                if here { self.store.append_here(append)? } else { self.store.append(append)? };
            if !receipt.is_given() {
                self.receipts.push(receipt);
            }
        }
        for receipt in std::mem::take(&mut self.receipts) {
            if let Err(unwritten) = receipt.durable().await {
                let error = self.take_back(unwritten);
                failed = failed.and(Err(error));
            }
        }
        failed
    }

    /// Keeps events that could not be written, so that they are not lost.
    fn take_back(&mut self, unwritten: store::Unwritten) -> store::Error {
        if let Some(append) = unwritten.append {
            self.body.push_str(&append.body);
            self.metered += append.stored_bytes();
            self.count += append.count;
            self.approvals.extend(append.approvals);
            self.held.extend(append.held);
            if let Some(HeldArgumentsChange::Write(_)) = append.arguments.as_deref() {
                self.arguments.is_stored = false;
            }
            self.claim = self.claim.take().or(append.claim);
            self.caller = self.caller.take().or(append.caller);
        }
        unwritten.error
    }

    /// Leaves what is written to the store, to be made durable as soon as that is possible.
    pub(crate) fn owe(&mut self) {
        if let Some(append) = self.take() {
            self.store.owe(append);
        }
    }
}

/// Returns what an event says of an approval, for the row beside the events.
fn approval_change(payload: &Payload<'_>, now: &str) -> Option<ApprovalChange> {
    match payload {
        Payload::ApprovalRequested { step_id, approval_id, expires_at, .. } => {
            let mut request = String::new();
            payload.write(&mut request);
            Some(ApprovalChange::Asked {
                approval_id: (*approval_id).to_owned(),
                step_id: (*step_id).to_owned(),
                requested_at: now.to_owned(),
                expires_at: (*expires_at).to_owned(),
                request,
            })
        }
        Payload::ApprovalDecided { approval_id, decision, by, reason, .. } => {
            let (by, reason) = (by.map(str::to_owned), reason.map(str::to_owned));
            let ruling = Ruling { decision: *decision, by, reason, at: now.to_owned() };
            Some(ApprovalChange::Decided { approval_id: (*approval_id).to_owned(), ruling })
        }
        _ => None,
    }
}

/// Says whether reading a line gives what its payload means; live runs and replay must not differ.
fn reads_back(line: &str, payload: &Payload<'_>) -> bool {
    Line::read(line).is_ok_and(|line| {
        Fact::read(payload.kind(), line.payload).is_ok_and(|fact| fact == payload.fact())
    })
}

//! Approvals in the store: rows beside the events that say the same, and the one transaction that decides.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::check::Health;
use super::owner::WAITING;
use super::record::{ApprovalChange, Log};
use super::rows::{Inserts, update_run};
use super::schema::{self, Layout, MAX_EVENTS};
use super::{Error, Orphan, Store, VisibleRuns, owner, reader};
use crate::approval::{Approval, Decision, Ruling};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::event::{Fact, Kind, Line, Payload};
use crate::id::EventIds;
use crate::json::{self, Limits, Value};
use crate::run::Run;

/// The first version of the tables that has approvals.
const SINCE: i64 = 3;
/// At most so many are looked at together when their time is over.
const DUE: i64 = 64;

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT approvals.run_no, run_id, requested_at, request, state, decided_at, decided_by, ",
            "reason, owner, approval_id FROM approvals JOIN runs USING (run_no) WHERE ",
            $condition
        )
    };
}

/// The approval of an id, of a run of a token.
const BY_ID_AND_TOKEN: &str = select!("approval_id = ?1 AND token_id = ?2");

/// Which approvals to list.
#[derive(Clone, Debug)]
pub struct ApprovalFilter {
    /// Only those that are open, or only those that are not.
    pub open: Option<bool>,
    /// Only those of this run.
    pub run_id: Option<String>,
    /// Only those of runs that the caller sees.
    pub visible: VisibleRuns,
    /// At most so many.
    pub limit: usize,
    /// Without the first so many.
    pub offset: usize,
}

impl Default for ApprovalFilter {
    fn default() -> Self {
        let visible = VisibleRuns::All;
        Self { open: Some(true), run_id: None, visible, limit: 50, offset: 0 }
    }
}

/// What somebody says about an approval.
#[derive(Clone, Debug)]
pub struct Ballot {
    /// The approval.
    pub approval_id: String,
    /// What is said.
    pub decision: Decision,
    /// Who says it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What became of a ballot.
#[derive(Clone, Debug)]
pub enum Ruled {
    /// It decided; or it came too late, and the approval is expired now.
    Settled(Box<Settled>),
    /// It was decided before.
    Already(Box<Approval>),
    /// Nobody waits for it here: the store is a copy that was made while the run waited.
    Elsewhere,
    /// There is no such approval.
    Unknown,
}

/// A decision that is on disk, and the run that can go on, which belongs to this process now.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The approval with its ruling.
    pub approval: Approval,
    /// The run.
    pub orphan: Orphan,
}

impl Store {
    /// Lists approvals, the newest first, and counts them.
    ///
    /// A store that was made before there were approvals has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approvals(&self, filter: &ApprovalFilter) -> Result<(Vec<Approval>, u64), Error> {
        let filter = filter.clone();
        self.read_approvals(move |connection| list(connection, &filter))
    }

    /// Returns the bytes of a page of approvals.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn approvals_size(&self, filter: &ApprovalFilter) -> Result<usize, Error> {
        let filter = filter.clone();
        self.read_approvals(move |connection| size(connection, &filter))
    }

    /// Finds an approval.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approval(&self, approval_id: &str) -> Result<Option<Approval>, Error> {
        let approval_id = approval_id.to_owned();
        self.read_approvals(move |connection| {
            Ok(find(connection, &approval_id)?.map(|found| found.approval))
        })
    }

    /// Finds an approval, if a caller sees its run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approval_visible(
        &self,
        approval_id: &str,
        visible: &VisibleRuns,
    ) -> Result<Option<Approval>, Error> {
        let VisibleRuns::OfToken(token_id) = visible else { return self.approval(approval_id) };
        let ids = [approval_id.to_owned(), token_id.clone()];
        self.read_approvals(move |connection| {
            let mut query = connection.prepare_cached(BY_ID_AND_TOKEN)?;
            let found = query.query_row(ids, |row| Ok(read(row))).optional()?.transpose()?;
            Ok(found.map(|found| found.approval))
        })
    }

    /// Returns how many approvals are open.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approvals_open(&self) -> Result<u64, Error> {
        self.read_approvals(|connection| {
            let sql = "SELECT count(*) FROM approvals JOIN runs USING (run_no) \
                       WHERE state = 'open' AND owner = ?1";
            let open: i64 =
                connection.prepare_cached(sql)?.query_row([WAITING], |row| row.get(0))?;
            Ok(open.cast_unsigned())
        })
    }

    /// Returns when the next open approval expires.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn next_expiry(&self) -> Result<Option<Timestamp>, Error> {
        self.read_approvals(|connection| {
            let sql = "SELECT expires_at FROM approvals JOIN runs USING (run_no) \
                       WHERE state = 'open' AND owner = ?1 ORDER BY expires_at LIMIT 1";
            let next: Option<String> = connection
                .prepare_cached(sql)?
                .query_row([WAITING], |row| row.get(0))
                .optional()?;
            // One that cannot be read is due.
            Ok(next.map(|text| Timestamp::parse(&text).unwrap_or(Timestamp::from_millis(0))))
        })
    }

    /// Lists some open approvals whose time is over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn due_approvals(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        self.read_approvals(move |connection| {
            let sql = "SELECT approval_id FROM approvals JOIN runs USING (run_no) WHERE \
                       state = 'open' AND owner = ?1 AND expires_at <= ?2 ORDER BY expires_at LIMIT ?3";
            let mut query = connection.prepare_cached(sql)?;
            let due = query.query_map(params![WAITING, now.to_string(), DUE], |row| row.get(0))?;
            Ok(due.collect::<Result<_, _>>()?)
        })
    }

    /// Decides about an approval if it is open: one transaction, which appends the event and gives the run
    /// to this process. Of two who do so at once, one is told that it was decided.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub(crate) fn decide(&self, ballot: Ballot) -> Result<Ruled, Error> {
        let heir = match &self.shared.owner {
            Some(owner) => owner.identity.owner_id.clone(),
            None => return Err(Error::ReadOnly),
        };
        self.writer()?.change(move |connection| decide(connection, &heir, ballot))
    }

    fn read_approvals<T: Default + Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.read(
            move |connection| {
                if is_kept(connection)? { question(connection) } else { Ok(T::default()) }
            },
        )
    }
}

/// Says whether the file has approvals. Looked at each time: another process may add them.
fn is_kept(connection: &Connection) -> Result<bool, Error> {
    Ok(matches!(schema::layout(connection)?, Layout::Ours(version) if version >= SINCE))
}

/// An approval as it is stored.
struct Found {
    run_no: i64,
    approval: Approval,
    owner: Option<i64>,
}

fn find(connection: &Connection, approval_id: &str) -> Result<Option<Found>, Error> {
    let mut query = connection.prepare_cached(select!("approval_id = ?1"))?;
    query.query_row([approval_id], |row| Ok(read(row))).optional()?.transpose()
}

/// Returns the condition of a filter, over the parameters 1 to 3.
fn condition(filter: &ApprovalFilter) -> String {
    // Each wish by words of its own, so that the indexes are used.
    let state = match filter.open {
        Some(true) => "state = 'open' AND owner = ?1",
        Some(false) => "state != 'open' AND ?1",
        None => "?1",
    };
    let run = if filter.run_id.is_some() { "run_id = ?2" } else { "?2 IS NULL" };
    // A file of an older version has no tokens of runs.
    let token = if filter.visible.token_id().is_some() { "token_id = ?3" } else { "?3 IS NULL" };
    format!("{state} AND {run} AND {token}")
}

/// Returns the limit and the offset of a filter.
fn page(filter: &ApprovalFilter) -> [i64; 2] {
    [filter.limit, filter.offset].map(|number| i64::try_from(number).unwrap_or(i64::MAX))
}

fn list(connection: &Connection, filter: &ApprovalFilter) -> Result<(Vec<Approval>, u64), Error> {
    let (wanted, token_id) = (condition(filter), filter.visible.token_id());
    let whole = select!("");
    let sql = format!("{whole}{wanted} ORDER BY approval_id DESC LIMIT ?4 OFFSET ?5");
    let mut query = connection.prepare_cached(&sql)?;
    let [limit, offset] = page(filter);
    let found = query
        .query_map(params![WAITING, filter.run_id, token_id, limit, offset], |row| Ok(read(row)))?;
    let mut approvals = Vec::new();
    for one in found {
        approvals.push(one??.approval);
    }
    let sql = format!("SELECT count(*) FROM approvals JOIN runs USING (run_no) WHERE {wanted}");
    let total: i64 = connection
        .prepare_cached(&sql)?
        .query_row(params![WAITING, filter.run_id, token_id], |row| row.get(0))?;
    Ok((approvals, total.cast_unsigned()))
}

/// Returns the bytes of a page of approvals.
fn size(connection: &Connection, filter: &ApprovalFilter) -> Result<usize, Error> {
    let wanted = condition(filter);
    let sql = format!(
        "SELECT sum(bytes) FROM (SELECT octet_length(request) AS bytes FROM approvals \
         JOIN runs USING (run_no) WHERE {wanted} ORDER BY approval_id DESC LIMIT ?4 OFFSET ?5)"
    );
    let [limit, offset] = page(filter);
    let given = params![WAITING, filter.run_id, filter.visible.token_id(), limit, offset];
    let bytes: Option<i64> = connection.prepare_cached(&sql)?.query_row(given, |row| row.get(0))?;
    Ok(usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX))
}

fn read(row: &Row<'_>) -> Result<Found, Error> {
    let approval_id: String = row.get(9)?;
    let damaged = |what: &str| Error::Damaged(format!("the {what} of approval {approval_id}"));
    let (run_id, requested_at): (String, String) = (row.get(1)?, row.get(2)?);
    let (request, state): (String, String) = (row.get(3)?, row.get(4)?);
    let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
    let payload = json::parse(request.as_bytes(), limits).ok().and_then(Value::into_object);
    let approval = payload.and_then(|payload| Approval::read(&run_id, &requested_at, &payload));
    let mut approval = approval.ok_or_else(|| damaged("request"))?;
    if state != "open" {
        approval.ruling = Some(Ruling {
            decision: Decision::from_name(&state).ok_or_else(|| damaged("state"))?,
            by: row.get(6)?,
            reason: row.get(7)?,
            at: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
        });
    }
    Ok(Found { run_no: row.get(0)?, approval, owner: row.get(8)? })
}

/// Writes what events say of approvals into the rows beside them.
pub(super) fn write(
    transaction: &Transaction<'_>,
    run_no: i64,
    changes: &[ApprovalChange],
) -> Result<(), Error> {
    for change in changes {
        match change {
            ApprovalChange::Asked { approval_id, step_id, requested_at, expires_at, request } => {
                transaction
                    .prepare_cached(
                        "INSERT INTO approvals (approval_id, run_no, step_id, requested_at, \
                         expires_at, request, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open')",
                    )?
                    .execute(params![
                        approval_id,
                        run_no,
                        step_id,
                        requested_at,
                        expires_at,
                        request
                    ])?;
            }
            ApprovalChange::Decided { approval_id, ruling } => {
                let Ruling { decision, by, reason, at } = ruling;
                let changed = transaction
                    .prepare_cached(
                        "UPDATE approvals SET state = ?3, decided_at = ?4, decided_by = ?5, \
                         reason = ?6 WHERE approval_id = ?1 AND run_no = ?2 AND state = 'open'",
                    )?
                    .execute(params![approval_id, run_no, decision.name(), at, by, reason])?;
                if changed != 1 {
                    let message = format!("the approval {approval_id} is not open");
                    return Err(Error::Refused(message));
                }
            }
        }
    }
    Ok(())
}

fn decide(connection: &mut Connection, heir: &str, ballot: Ballot) -> Result<Ruled, Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(Found { run_no, mut approval, owner }) = find(&transaction, &ballot.approval_id)?
    else {
        return Ok(Ruled::Unknown);
    };
    if approval.ruling.is_some() {
        return Ok(Ruled::Already(Box::new(approval)));
    }
    if owner != Some(WAITING) {
        return Ok(Ruled::Elsewhere);
    }
    let Ballot { approval_id, decision, by, reason, at } = ballot;
    let late = decision != Decision::Void && approval.is_expired(at);
    let ruling = if late {
        Ruling { decision: Decision::Expired, by: None, reason: None, at: at.to_string() }
    } else {
        Ruling { decision, by, reason, at: at.to_string() }
    };
    let Some(log) = reader::log(&transaction, &approval.run_id)? else {
        return Err(Error::Damaged(format!("approval {approval_id} belongs to no run")));
    };
    append(&transaction, run_no, log, &approval, &ruling, heir)?;
    let change = ApprovalChange::Decided { approval_id, ruling: ruling.clone() };
    write(&transaction, run_no, &[change])?;
    approval.ruling = Some(ruling);
    let orphan = owner::take_up(&transaction, &approval.run_id)?;
    transaction.commit()?;
    match orphan {
        Some(orphan) => Ok(Ruled::Settled(Box::new(Settled { approval, orphan }))),
        None => Err(Error::Damaged(format!("run {} is over, and waits", approval.run_id))),
    }
}

/// Appends the decision to the run, by the same rules as any other event.
fn append(
    transaction: &Transaction<'_>,
    run_no: i64,
    log: Log,
    approval: &Approval,
    ruling: &Ruling,
    heir: &str,
) -> Result<(), Error> {
    let run_id = &approval.run_id;
    let damaged = || {
        let remedy = "see `nexus-router store check`";
        Error::Damaged(format!("the log of run {run_id} is not what was recorded; {remedy}"))
    };
    let (mut run, mut head) = (Run::new(), Digest::ZERO);
    for line in log.lines() {
        let event = Line::read(line).map_err(|_| damaged())?;
        let kind = Kind::from_name(&event.kind).ok_or_else(damaged)?;
        let fact = Fact::read(kind, event.payload).map_err(|_| damaged())?;
        run.apply(event.seq, &fact).map_err(|_| damaged())?;
        head = head.chain(line);
    }
    let mut progress = log.record.progress;
    if (head, run.events()) != (progress.head, progress.events) {
        return Err(damaged());
    }
    let seq = run.events();
    if seq >= MAX_EVENTS {
        return Err(Error::TooManyEvents);
    }
    let payload = Payload::ApprovalDecided {
        step_id: &approval.step_id,
        approval_id: &approval.approval_id,
        decision: ruling.decision,
        by: ruling.by.as_deref(),
        reason: ruling.reason.as_deref(),
    };
    run.apply(seq.cast_signed(), &payload.fact()).map_err(|_| damaged())?;
    let mut body = String::new();
    Line::write(&mut body, &EventIds::of(run_id).at(seq), run_id, seq, &ruling.at, &payload);
    progress.head = head.chain(&body);
    progress.events = run.events();
    body.push('\n');
    let owner_no = "SELECT owner_no FROM owners WHERE owner_id = ?1";
    let owner_no: i64 = transaction.query_row(owner_no, [heir], |row| row.get(0))?;
    if !update_run(transaction, run_no, seq, &progress, Some(owner_no))? {
        return Err(damaged());
    }
    Inserts::new(transaction)?.segment(run_no, seq, 1, &body)
}

/// Looks whether the rows say what the events say. Runs from elsewhere have no rows.
pub(super) fn check(connection: &Connection, health: &mut Health) -> Result<(), Error> {
    if !is_kept(connection)? {
        return Ok(());
    }
    let sql = "SELECT run_no, run_id FROM runs WHERE origin IS NULL AND (owner = ?1 \
               OR run_no IN (SELECT run_no FROM approvals)) ORDER BY run_no";
    let mut runs = connection.prepare(sql)?;
    let runs = runs.query_map([WAITING], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for run in runs.collect::<Result<Vec<(i64, String)>, _>>()? {
        check_run(connection, run.0, &run.1, health)?;
    }
    let stray = "SELECT count(*) FROM approvals WHERE run_no NOT IN \
                 (SELECT run_no FROM runs WHERE origin IS NULL)";
    let stray: i64 = connection.query_row(stray, [], |row| row.get(0))?;
    if stray > 0 {
        health.find(None, format!("{stray} approvals belong to no run of this store"));
    }
    Ok(())
}

fn check_run(
    connection: &Connection,
    run_no: i64,
    run_id: &str,
    health: &mut Health,
) -> Result<(), Error> {
    let mut said: BTreeMap<String, (String, Option<String>)> = BTreeMap::new();
    for body in reader::bodies(connection, run_no)? {
        for event in body.lines().filter_map(|line| Line::read(line).ok()) {
            let Some(kind) = Kind::from_name(&event.kind) else { continue };
            match Fact::read(kind, event.payload) {
                Ok(Fact::ApprovalRequested { approval_id: Some(id), .. }) => {
                    said.insert(
                        id.into_owned(),
                        ("open".to_owned(), Some(event.payload.to_owned())),
                    );
                }
                Ok(Fact::ApprovalDecided { approval_id: Some(id), decision, .. }) => {
                    let state = decision.unwrap_or_default().into_owned();
                    said.entry(id.into_owned()).or_default().0 = state;
                }
                _ => {}
            }
        }
    }
    let sql = "SELECT approval_id, state, request FROM approvals WHERE run_no = ?1";
    let mut query = connection.prepare_cached(sql)?;
    let kept = query
        .query_map([run_no], |row| Ok((row.get(0)?, (row.get(1)?, Some(row.get(2)?)))))?
        .collect::<Result<BTreeMap<String, (String, Option<String>)>, _>>()?;
    if said != kept {
        let problem =
            "the approvals beside its events are not those that the events tell".to_owned();
        health.find(Some(run_id), problem);
    }
    let open = said.values().any(|(state, _)| state == "open");
    let sql = "SELECT status = 'RUNNING' AND owner = ?2 FROM runs WHERE run_no = ?1";
    let waits = connection
        .query_row(sql, params![run_no, WAITING], |row| row.get::<_, Option<bool>>(0))?
        .unwrap_or_default();
    if waits && !open {
        health.find(Some(run_id), "it is to wait, and its events say for nothing".to_owned());
    }
    Ok(())
}

//! How events of one run become rows, within a transaction.

use std::sync::atomic::Ordering;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::owner::WAITING;
use super::record::{Append, Claim, Status, Ticket};
use super::rows::{Counts, Inserts, Row, update_run};
use super::schema::MAX_EVENTS;
use super::{Error, approvals, held_answer, held_arguments};

/// Writes what was handed over of one run. A run that is begun by it is put into `begun`.
pub(super) fn append_one(
    transaction: &Transaction<'_>,
    inserts: &mut Inserts<'_>,
    append: &Append,
    owner_no: i64,
    counts: &mut Counts,
    begun: &mut Vec<Ticket>,
) -> Result<(), Error> {
    let Append { ticket, header, progress, body, count, claim, caller, .. } = append;
    let Append { approvals, held, arguments, waits, .. } = append;
    let first = progress.events - count;
    if progress.events > MAX_EVENTS {
        return Err(Error::TooManyEvents);
    }
    let holder = if *waits { WAITING } else { owner_no };
    let owner = (progress.status == Status::Running).then_some(holder);
    let mut run_no = ticket.0.load(Ordering::Acquire);
    if run_no == 0 {
        if first != 0 {
            let message = format!("the first events of run {} are not stored", header.run_id);
            return Err(Error::Refused(message));
        }
        if let Some(claim) = claim {
            refuse_taken_key(transaction, &claim.key, claim.request_digest.as_bytes())?;
        }
        // One more than the largest, which the attic does not have: what replaced it is larger.
        let token_id = caller.as_ref().and_then(|caller| caller.token_id.as_deref());
        let row = Row { run_no: None, header, progress, origin: None, owner, token_id };
        run_no = inserts.run(&row)?;
        ticket.0.store(run_no, Ordering::Release);
        begun.push(ticket.clone());
        counts.add(progress.status);
        if let Some(Claim { key, request_digest }) = claim {
            transaction
                .prepare_cached("INSERT INTO idempotency VALUES (?1, ?2, ?3)")?
                .execute(params![key, &request_digest.as_bytes()[..], run_no])?;
        }
    } else {
        let changed = update_run(transaction, run_no, first, progress, owner)?;
        if !changed {
            let message = format!("run {} is no longer at seq {first}, or is over", header.run_id);
            return Err(Error::Refused(message));
        }
        if progress.status != Status::Running {
            counts.remove(Status::Running);
            counts.add(progress.status);
        }
    }
    approvals::write(transaction, run_no, approvals)?;
    held_answer::write(transaction, &header.run_id, held)?;
    if let Some(change) = arguments {
        held_arguments::apply(transaction, run_no, change)?;
    }
    inserts.segment(run_no, first, *count, body)
}

fn refuse_taken_key(
    transaction: &Transaction<'_>,
    key: &str,
    request_digest: &[u8],
) -> Result<(), Error> {
    let taken = transaction
        .prepare_cached(
            "SELECT runs.run_id, idempotency.request_digest FROM idempotency \
             JOIN runs USING (run_no) WHERE key = ?1",
        )?
        .query_row([key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    match taken {
        Some((run_id, digest)) => {
            Err(Error::KeyTaken { run_id, same_request: digest == request_digest })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::digest::Digest;
    use crate::store::{Header, Progress, Receipt, Store};

    /// Makes an append of one event, after `before` others.
    fn append(ticket: &Ticket, run_id: &str, before: u64) -> Append {
        let header = Header {
            run_id: run_id.to_owned(),
            mode: "apply".to_owned(),
            goal: "g".to_owned(),
            created_at: "2026-11-16T00:02:44.060Z".to_owned(),
        };
        let progress = Progress {
            status: Status::Running,
            steps_planned: 0,
            steps_executed: 0,
            tools_used: Vec::new(),
            outcome: None,
            last_failure_reason: None,
            events: before + 1,
            head: Digest::ZERO,
        };
        let (ticket, header) = (ticket.clone(), Arc::new(header));
        let (claim, caller, arguments) = (None, None, None);
        let (approvals, held, body) = (Vec::new(), Vec::new(), "{}\n".to_owned());
        let (count, waits) = (1, false);
        Append {
            ticket,
            header,
            progress,
            body,
            count,
            claim,
            caller,
            approvals,
            held,
            arguments,
            waits,
        }
    }

    #[test]
    fn a_store_in_memory_refuses_gaps_and_runs_that_are_there() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = Store::in_memory().unwrap();
        let written = |append| {
            let receipt: Receipt = store.append(append).unwrap();
            runtime.block_on(receipt.durable()).map_err(|unwritten| unwritten.error.to_string())
        };
        let ticket = Ticket::default();
        let late = written(append(&ticket, "a", 1)).unwrap_err();
        assert!(late.contains("the first events of run a are not stored"), "{late}");
        written(append(&ticket, "a", 0)).unwrap();
        for before in [0, 2] {
            let gap = written(append(&ticket, "a", before)).unwrap_err();
            assert!(gap.contains("run a is no longer at seq"), "{gap}");
        }
        let twice = written(append(&Ticket::default(), "a", 0)).unwrap_err();
        assert!(twice.contains("run_id"), "{twice}");
        written(append(&ticket, "a", 1)).unwrap();
        assert_eq!(store.log("a").unwrap().unwrap().lines().count(), 2);
    }
    #[test]
    fn whatever_is_gathered_is_there_for_who_reads() {
        let store = Store::in_memory().unwrap();
        let body = format!("{{\"text\":\"{}\"}}\n", "x".repeat(8192));
        // More than may be gathered, by number and by size.
        let names: Vec<String> = (0..6000).map(|number| format!("r{number}")).collect();
        for name in &names {
            let append = Append { body: body.clone(), ..append(&Ticket::default(), name, 0) };
            drop(store.append_here(append).unwrap());
        }
        for name in &names {
            assert_eq!(store.log(name).unwrap().unwrap().bodies, [body.as_str()], "{name}");
        }
        assert!(store.work().commits < 6000, "nothing was gathered");
    }
}

//! Large appends, which give way to small ones: a run with megabytes of events does not delay the commits of others.

use std::collections::VecDeque;
use std::sync::Arc;

use super::record::Append;
use super::writer::PendingAppend;

/// Appends with at least this many bytes give way.
const LARGE: usize = 1024 * 1024;

/// Queue of large appends. The appends of one run keep their order.
#[derive(Default)]
pub(super) struct LargeAppends(VecDeque<PendingAppend>);

impl LargeAppends {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Queues an append that is large or follows a queued append of its run. Returns any other append.
    pub(super) fn queue(&mut self, pending: PendingAppend) -> Option<PendingAppend> {
        let follows =
            |append: &Append| self.0.iter().any(|(queued, _)| is_same_run(queued, append));
        if pending.0.stored_bytes() >= LARGE || follows(&pending.0) {
            self.0.push_back(pending);
            return None;
        }
        Some(pending)
    }

    /// Removes the oldest append.
    pub(super) fn pop(&mut self) -> Option<PendingAppend> {
        self.0.pop_front()
    }
}

fn is_same_run(one: &Append, other: &Append) -> bool {
    Arc::ptr_eq(&one.ticket.0, &other.ticket.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::{Status, Ticket};

    fn pending(ticket: &Ticket, bytes: usize) -> PendingAppend {
        let append =
            crate::store::memory_limit::sized_append(ticket.clone(), "r", Status::Running, bytes);
        (Box::new(append), None)
    }

    #[test]
    fn small_appends_pass_large_ones_of_other_runs() {
        let (one, other) = (Ticket::default(), Ticket::default());
        let mut large = LargeAppends::default();
        assert!(large.queue(pending(&one, 10)).is_some());
        assert!(large.queue(pending(&one, LARGE)).is_none());
        assert!(large.queue(pending(&other, 10)).is_some(), "another run passes");
        assert!(large.queue(pending(&one, 10)).is_none(), "the same run keeps its order");
        let sizes: Vec<usize> =
            std::iter::from_fn(|| large.pop()).map(|(append, _)| append.body.len()).collect();
        assert_eq!(sizes, [LARGE, 10]);
        assert!(large.queue(pending(&one, 10)).is_some());
    }
}

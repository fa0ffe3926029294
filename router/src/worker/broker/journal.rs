//! What became of the connects of one execution, for its evidence.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

/// More contacts are only counted.
const MOST: usize = 1000;

/// One connect, or one question for a name that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    /// The address and port, or the name.
    pub(crate) target: String,
    /// Whether it was granted.
    pub(crate) granted: bool,
    /// `connected`, `connecting`, `refused`, or the error of the system by its number.
    pub(crate) result: String,
}

/// The contacts of one execution, in the order in which they were decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<(Vec<Contact>, u64)>>);

impl Journal {
    pub(super) fn note(&self, target: &str, granted: bool, result: Result<(), Errno>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.0.len() >= MOST {
            noted.1 += 1;
            return;
        }
        let result = match result {
            Ok(()) => "connected".to_owned(),
            Err(_) if !granted => "refused".to_owned(),
            Err(Errno::INPROGRESS) => "connecting".to_owned(),
            Err(error) => format!("errno:{}", error.raw_os_error()),
        };
        noted.0.push(Contact { target: target.to_owned(), granted, result });
    }

    /// Takes what was noted, and how many more there were.
    pub(crate) fn take(&self) -> (Vec<Contact>, u64) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_contacts_is_counted_and_not_kept() {
        let journal = Journal::default();
        journal.note("127.0.0.1:1", true, Ok(()));
        journal.note("127.0.0.1:1", true, Err(Errno::CONNREFUSED));
        for _ in 0..MOST {
            journal.note("10.0.0.1:1", false, Err(Errno::ACCESS));
        }
        let (contacts, more) = journal.take();
        assert_eq!((contacts.len(), more), (MOST, 2));
        let results: Vec<&str> = contacts.iter().take(3).map(|one| one.result.as_str()).collect();
        assert_eq!(results, ["connected", "errno:111", "refused"]);
        assert_eq!(journal.take().0, []);
    }
}

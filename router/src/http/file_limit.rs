//! The limit of open files: raised at the start, and compared with the connections that the configuration allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::listen::Error;

/// Files that the daemon needs besides its connections: the store, listeners, workers, logs, and connections of adapters.
const RESERVE: u64 = 256;

/// Raises the soft limit of open files to the hard one. Workers and programs that an envoy runs set lower limits of their own.
///
/// # Errors
/// When the hard limit is too low for `connections`.
pub fn raise_file_limit(connections: usize) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    check(limit.maximum, connections)?;
    if limit.current == limit.maximum {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Ok(()),
        // The limit stays as it was if fs.nr_open is below the hard limit.
        Err(_) => check(limit.current, connections),
    }
}

/// Compares a limit with the files that are needed; none means no limit.
fn check(limit: Option<u64>, connections: usize) -> Result<(), Error> {
    let needed = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(RESERVE);
    match limit {
        Some(limit) if limit < needed => Err(Error::FileLimit { limit, connections, needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_connections_and_the_reserve_is_refused() {
        assert!(check(None, usize::MAX).is_ok());
        assert!(check(Some(1024 + RESERVE), 1024).is_ok());
        let error = check(Some(1024), 1024).unwrap_err();
        assert_eq!(error.code(), "FILE_LIMIT_TOO_LOW");
        let text = error.to_string();
        assert!(text.contains("1024 open files") && text.contains("need 1280"), "{text}");
    }
}

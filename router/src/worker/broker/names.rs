//! The addresses of granted names: what the router's own resolver says, and what it said a while ago.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::judge::same;

/// Finds the addresses of a name. It may take long.
pub(super) type Resolve = fn(&str) -> io::Result<Vec<IpAddr>>;

/// Asks the system.
pub(super) fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|place| place.ip()).collect();
    addresses.dedup();
    Ok(addresses)
}

/// How long an answer is given again without asking: who asks in a loop shall not bother others.
const FRESH: Duration = Duration::from_secs(5);
/// How long an address that was told is good for a connect. It is longer than anybody is told to keep it,
/// because pools of connections come back to it.
const GOOD: Duration = Duration::from_secs(300);
/// How many addresses of a name are remembered. Some names have another one in every answer.
const MOST: usize = 256;

/// What is known of the granted names.
#[derive(Debug)]
pub(super) struct Names {
    resolve: Resolve,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    asked: Instant,
    answer: Vec<IpAddr>,
    /// Every address of the last answers, and until when it is good.
    good: HashMap<IpAddr, Instant>,
}

impl Names {
    pub(super) fn new(resolve: Resolve) -> Self {
        Self { resolve, known: Mutex::default() }
    }

    /// Returns the addresses of a name that is granted, and remembers them.
    pub(super) fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.addresses_at(name, Instant::now())
    }

    /// Returns the addresses of a name of which nothing is remembered.
    pub(super) fn passing(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (self.resolve)(name)
    }

    /// Says whether an address is one of the name, by an answer of the last minutes or by one of now.
    pub(super) fn has(&self, name: &str, address: IpAddr) -> bool {
        self.has_at(name, address, Instant::now())
    }

    fn addresses_at(&self, name: &str, now: Instant) -> io::Result<Vec<IpAddr>> {
        let fresh = |known: &&Known| now.saturating_duration_since(known.asked) < FRESH;
        if let Some(known) = self.lock().get(name).filter(fresh) {
            return Ok(known.answer.clone());
        }
        let answer = (self.resolve)(name)?;
        let mut names = self.lock();
        let known = names.entry(name.to_owned()).or_insert_with(|| Known {
            asked: now,
            answer: Vec::new(),
            good: HashMap::new(),
        });
        known.asked = now;
        known.answer.clone_from(&answer);
        known.good.retain(|_, until| now < *until);
        known.good.extend(answer.iter().take(MOST).map(|address| (*address, now + GOOD)));
        while known.good.len() > MOST
            && let Some(oldest) = known.good.iter().min_by_key(|(_, until)| **until)
        {
            let oldest = *oldest.0;
            known.good.remove(&oldest);
        }
        Ok(answer)
    }

    fn has_at(&self, name: &str, address: IpAddr, now: Instant) -> bool {
        let good = |known: &Known| {
            known.good.iter().any(|(good, until)| same(*good, address) && now < *until)
        };
        if self.lock().get(name).is_some_and(good) {
            return true;
        }
        let is = |answer: Vec<IpAddr>| answer.into_iter().any(|found| same(found, address));
        self.addresses_at(name, now).is_ok_and(is)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_address_stays_good_for_a_while_after_the_name_has_moved_on() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        fn moving(_: &str) -> io::Result<Vec<IpAddr>> {
            Ok(vec![IpAddr::V4((0x0a00_0000 + ASKED.fetch_add(1, Ordering::Relaxed)).into())])
        }
        let names = Names::new(moving);
        let start = Instant::now();
        let first: IpAddr = [10, 0, 0, 0].into();
        let second: IpAddr = [10, 0, 0, 1].into();
        assert_eq!(names.addresses_at("a", start).unwrap(), [first]);
        assert_eq!(names.addresses_at("a", start + FRESH / 2).unwrap(), [first], "asked again");
        assert!(!names.has_at("a", second, start + FRESH / 2));
        assert!(names.has_at("a", second, start + FRESH), "the name has moved on");
        assert!(names.has_at("a", first, start + GOOD / 2));
        assert!(!names.has_at("b", first, start), "of another name");
        assert!(!names.has_at("a", first, start + GOOD), "it is forgotten");
    }

    #[test]
    fn a_name_of_many_addresses_is_bounded() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        fn many(_: &str) -> io::Result<Vec<IpAddr>> {
            let from = ASKED.fetch_add(200, Ordering::Relaxed);
            Ok((from..from + 200).map(|number| IpAddr::V4(number.into())).collect())
        }
        let names = Names::new(many);
        let start = Instant::now();
        for round in 0..4 {
            names.addresses_at("a", start + FRESH * round).unwrap();
        }
        assert_eq!(names.lock()["a"].good.len(), MOST);
        let last = IpAddr::V4(799.into());
        assert!(names.lock()["a"].good.contains_key(&last));
    }

    #[test]
    fn a_name_without_addresses_has_none() {
        let names = Names::new(|_| Err(io::Error::other("unknown")));
        assert!(!names.has("a", [127, 0, 0, 1].into()));
    }
}

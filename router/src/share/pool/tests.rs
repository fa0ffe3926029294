//! Fairness, cancellation and counts of the fair pool.

use std::collections::HashMap;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

const NO_LIMIT: usize = usize::MAX;

fn join(pool: &FairPool, token: &str) -> FairWaiter {
    pool.enqueue(token, QueueEntry::Limited).unwrap()
}

/// Returns the permit of a waiter that has one.
fn granted(waiter: &mut FairWaiter) -> Option<FairPermit> {
    waiter.now_or_never()
}

fn assert_empty(pool: &FairPool) {
    let state = lock(&pool.state);
    assert!(state.queues.is_empty() && state.turns.is_empty(), "{state:?}");
    assert_eq!(state.in_use, 0);
}

#[test]
fn a_token_with_many_waiters_delays_another_by_one_permit() {
    let pool = FairPool::new(1, NO_LIMIT);
    let mut permit = pool.try_acquire();
    let mut crowd: Vec<FairWaiter> = (0..3000).map(|_| join(&pool, "crowd")).collect();
    let mut good = join(&pool, "good");
    let mut served = Vec::new();
    for _ in 0..2 {
        permit = None;
        if let Some(next) = granted(&mut good) {
            (permit, _) = (Some(next), served.push("good"));
        } else if let Some(next) = crowd.iter_mut().find_map(granted) {
            (permit, _) = (Some(next), served.push("crowd"));
        }
    }
    assert_eq!(served, ["crowd", "good"]);
    drop((permit, crowd, good));
    assert_empty(&pool);
}

#[test]
fn waiters_of_one_token_are_served_in_order() {
    let pool = FairPool::new(1, NO_LIMIT);
    let mut permit = pool.try_acquire();
    let mut waiters: Vec<FairWaiter> = (0..10).map(|_| join(&pool, "a")).collect();
    while !waiters.is_empty() {
        drop(permit.take());
        assert!(waiters[1..].iter_mut().all(|waiter| granted(waiter).is_none()));
        permit = granted(&mut waiters[0]);
        assert!(permit.is_some());
        drop(waiters.remove(0));
    }
}

#[test]
fn a_token_has_no_more_waiters_than_its_share() {
    let pool = FairPool::new(1, 2);
    let permit = pool.try_acquire();
    let (first, second) = (join(&pool, "a"), join(&pool, "a"));
    assert_eq!((pool.full_queue("a"), pool.full_queue("b")), (Some(2), None));
    let refused = pool.enqueue("a", QueueEntry::Limited).unwrap_err();
    assert_eq!(refused, QueueShareFull { limit: 2 });
    let exempt = pool.enqueue("a", QueueEntry::Exempt).unwrap();
    let other = join(&pool, "b");
    drop((first, exempt));
    assert_eq!(pool.full_queue("a"), None, "a waiter that leaves makes room");
    pool.resize(1, 1);
    assert_eq!(pool.full_queue("a"), Some(1));
    drop((permit, second, other));
    assert_empty(&pool);
}

#[test]
fn a_waiter_that_leaves_passes_its_permit_on() {
    let pool = FairPool::new(1, NO_LIMIT);
    let permit = pool.try_acquire();
    let (leaves, mut stays) = (join(&pool, "a"), join(&pool, "b"));
    drop(permit);
    assert!(granted(&mut stays).is_none(), "the first one has the permit");
    drop(leaves);
    assert!(granted(&mut stays).is_some());
}

#[test]
fn capacity_can_change_while_permits_are_out() {
    let pool = FairPool::new(3, NO_LIMIT);
    let mut permits: Vec<FairPermit> = (0..3).filter_map(|_| pool.try_acquire()).collect();
    pool.resize(1, NO_LIMIT);
    let mut waiter = join(&pool, "a");
    permits.truncate(1);
    assert!(granted(&mut waiter).is_none() && pool.in_use() == 1);
    permits.clear();
    let permit = granted(&mut waiter).unwrap();
    let mut second = join(&pool, "a");
    pool.resize(2, NO_LIMIT);
    assert!(granted(&mut second).is_some(), "new permits go to waiters");
    drop((permit, waiter, second));
    assert_empty(&pool);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_waiter_is_forgotten_under_load() {
    let pool = FairPool::new(3, NO_LIMIT);
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks = (0..600_u32).map(|index| {
        let (pool, most) = (pool.clone(), Arc::clone(&most));
        tokio::spawn(async move {
            let token = (index % 5).to_string();
            for turn in 0..20 {
                let waiter = pool.enqueue(&token, QueueEntry::Limited).unwrap();
                if (index + turn) % 7 == 0 {
                    // Some leave before or after they are granted.
                    tokio::task::yield_now().await;
                    drop(waiter);
                    continue;
                }
                let permit = waiter.await;
                most.fetch_max(pool.in_use(), std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
                drop(permit);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(most.load(std::sync::atomic::Ordering::Relaxed) <= 3);
    assert_empty(&pool);
}

#[derive(Clone, Debug)]
enum Act {
    Join(u8),
    Leave(usize),
    Return(usize),
    Resize(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0_u8..4).prop_map(Act::Join),
        1 => any::<usize>().prop_map(Act::Leave),
        3 => any::<usize>().prop_map(Act::Return),
        1 => (1_usize..5).prop_map(Act::Resize),
    ];
    prop::collection::vec(act, 1..200)
}

proptest! {
    #[test]
    fn permits_are_never_lost_and_no_token_is_passed_twice(acts in acts()) {
        let pool = FairPool::new(2, NO_LIMIT);
        let mut capacity = 2;
        let mut waiting: Vec<(u8, FairWaiter)> = Vec::new();
        let mut held: Vec<FairPermit> = Vec::new();
        // Grants to others since a token waits.
        let mut passed: HashMap<u8, HashMap<u8, usize>> = HashMap::new();
        for act in acts {
            match act {
                Act::Join(token) => waiting.push((token, join(&pool, &token.to_string()))),
                Act::Leave(index) if !waiting.is_empty() => {
                    drop(waiting.remove(index % waiting.len()));
                }
                Act::Return(index) if !held.is_empty() => {
                    drop(held.swap_remove(index % held.len()));
                }
                Act::Resize(to) => {
                    pool.resize(to, NO_LIMIT);
                    capacity = to;
                }
                Act::Leave(_) | Act::Return(_) => {}
            }
            let mut grants = Vec::new();
            waiting.retain_mut(|(token, waiter)| {
                let Some(permit) = granted(waiter) else { return true };
                held.push(permit);
                grants.push(*token);
                false
            });
            let still: std::collections::BTreeSet<u8> = waiting.iter().map(|(token, _)| *token).collect();
            passed.retain(|token, _| still.contains(token) && !grants.contains(token));
            for token in still.into_iter().filter(|token| !grants.contains(token)) {
                let by = passed.entry(token).or_default();
                for other in &grants {
                    *by.entry(*other).or_default() += 1;
                }
                prop_assert!(by.values().all(|times| *times <= 1), "{by:?}");
            }
            prop_assert_eq!(pool.in_use(), held.len());
            prop_assert!(waiting.is_empty() || held.len() >= capacity, "a free permit and a waiter");
        }
        drop((held, waiting));
        assert_empty(&pool);
    }
}

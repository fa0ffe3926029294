//! Properties of the memory budget: exact, within its limit, fair, and never stuck.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MIB: usize = 1024 * 1024;
const LONG: Duration = Duration::from_secs(60);

fn is_idle(budget: &MemoryBudget) -> bool {
    let taken = budget.state.taken.load(Ordering::SeqCst);
    (budget.used(), taken) == (0, 0) && budget.lock().is_empty()
}

#[test]
fn one_holder_gets_its_share_and_others_the_rest() {
    let budget = MemoryBudget::new(4 * MIB, MIB);
    let first = budget.try_reserve("a", MIB / 2).unwrap();
    let second = budget.try_reserve("a", MIB / 2).unwrap();
    assert_eq!(budget.try_reserve("a", SMALL + 1).unwrap_err(), Shortage::Share);
    let others = ["b", "c", "d"].map(|holder| budget.try_reserve(holder, MIB).unwrap());
    assert_eq!(budget.try_reserve("e", 2 * SMALL).unwrap_err(), Shortage::Total);
    // An eighth more is for small ones only.
    let small = [0; 8].map(|_| budget.try_reserve("e", SMALL).unwrap());
    assert_eq!(budget.try_reserve("e", 1).unwrap_err(), Shortage::Total);
    drop((first, second, others, small));
    assert!(is_idle(&budget));
}

#[test]
fn single_reservation_may_take_the_whole_budget() {
    let budget = MemoryBudget::new(4 * MIB, MIB);
    let mut large = budget.try_reserve("a", 2 * MIB).unwrap();
    large.try_grow("a", 9 * MIB).unwrap();
    assert_eq!((large.bytes(), budget.used()), (4 * MIB, 4 * MIB));
    large.shrink_to(MIB);
    assert_eq!(budget.try_reserve("a", MIB).unwrap_err(), Shortage::Share);
    assert!(budget.try_reserve("b", MIB).is_ok());
    drop(large);
    assert!(is_idle(&budget));
}

#[test]
fn taken_memory_counts_beyond_the_limit() {
    let budget = MemoryBudget::new(MIB, MIB);
    let mut taken = budget.reserve_taken("a", 10);
    taken.grow_taken("a", 2 * MIB);
    assert_eq!(budget.used(), 2 * MIB + 10);
    assert_eq!(budget.try_reserve("b", 1).unwrap_err(), Shortage::Total);
    taken.shrink_to(10);
    assert_eq!(budget.lock().taken("a"), 10);
    drop(taken);
    assert!(is_idle(&budget));
}

#[test]
fn bodies_of_one_holder_are_limited() {
    let budget = MemoryBudget::new(MIB, MIB);
    let bodies = [0; 2].map(|_| budget.begin_body("a", 2).unwrap());
    assert!(budget.begin_body("a", 2).is_none());
    assert!(budget.begin_body("b", 2).is_some());
    let unnamed = [0; 3].map(|_| budget.begin_body("", 2).unwrap());
    drop((bodies, unnamed));
    assert!(is_idle(&budget));
}

#[tokio::test]
async fn waiters_are_served_round_robin_over_holders() {
    let budget = MemoryBudget::new(MIB, MIB);
    let all = budget.try_reserve("x", MIB).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (holder, number) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)] {
        let (budget, order) = (budget.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let granted = budget.reserve(holder, MIB, LONG).await.unwrap();
            order.lock().unwrap().push(format!("{holder}{number}"));
            drop(granted);
        }));
        tokio::task::yield_now().await;
    }
    drop(all);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["a1", "b1", "c1", "a2", "a3"]);
    assert!(is_idle(&budget));
}

#[tokio::test]
async fn waiting_ends_and_leaves_nothing() {
    let budget = MemoryBudget::new(MIB, MIB / 4);
    let share = budget.try_reserve("a", MIB / 4).unwrap();
    let rest = budget.try_reserve("b", MIB / 2).unwrap();
    let short = Duration::from_millis(1);
    assert_eq!(budget.reserve("a", MIB / 8, short).await.unwrap_err(), Shortage::Share);
    assert_eq!(budget.reserve("c", MIB / 2, short).await.unwrap_err(), Shortage::Total);
    // A holder that waits for its own share does not keep others waiting.
    let blocked = tokio::spawn({
        let budget = budget.clone();
        async move { budget.reserve("a", MIB / 8, LONG).await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(budget.reserve("c", MIB / 8, LONG).await.unwrap());
    drop((share, rest));
    blocked.await.unwrap().unwrap();
    // Nobody takes what a waiter that went away was granted.
    let all = budget.try_reserve("b", MIB).unwrap();
    let gone = tokio::spawn({
        let budget = budget.clone();
        async move { budget.reserve("a", MIB, LONG).await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(all);
    gone.abort();
    drop(gone.await);
    assert!(is_idle(&budget));
}

#[tokio::test]
async fn smaller_waiters_do_not_overtake_half_of_the_budget() {
    let budget = MemoryBudget::new(MIB, MIB);
    let most = budget.try_reserve("x", MIB * 3 / 4).unwrap();
    let wait = |bytes: usize| {
        let budget = budget.clone();
        tokio::spawn(async move { budget.reserve("a", bytes, LONG).await.map(drop) })
    };
    let half = wait(MIB / 2);
    tokio::task::yield_now().await;
    let short = Duration::from_millis(1);
    assert_eq!(budget.reserve("b", MIB / 8, short).await.unwrap_err(), Shortage::Total);
    // An empty request needs no room.
    assert!(budget.reserve("b", 0, short).await.is_ok());
    drop(most);
    half.await.unwrap().unwrap();
    // A waiter that needs still more does not hold up others.
    let most = budget.try_reserve("x", MIB * 3 / 4).unwrap();
    let whole = wait(MIB);
    tokio::task::yield_now().await;
    drop(budget.reserve("b", MIB / 8, LONG).await.unwrap());
    drop(most);
    whole.await.unwrap().unwrap();
    assert!(is_idle(&budget));
}

#[tokio::test]
async fn dropped_waiter_lets_the_next_one_through() {
    let budget = MemoryBudget::new(MIB, MIB);
    let half = budget.try_reserve("x", MIB * 5 / 8).unwrap();
    let wait = |holder: &'static str, bytes: usize| {
        let budget = budget.clone();
        tokio::spawn(async move { budget.reserve(holder, bytes, LONG).await.map(drop) })
    };
    let large = wait("a", MIB / 2);
    tokio::task::yield_now().await;
    let next = wait("b", MIB / 4);
    tokio::task::yield_now().await;
    large.abort();
    drop(large.await);
    tokio::time::timeout(LONG / 6, next).await.unwrap().unwrap().unwrap();
    drop(half);
    assert!(is_idle(&budget));
}

/// Begins to wait until the budget is not crowded, and returns the task that waits.
async fn begin_to_wait(
    budget: &MemoryBudget,
    (holder, own): (&'static str, usize),
) -> tokio::task::JoinHandle<Result<(), Shortage>> {
    let budget = budget.clone();
    let waiting = tokio::spawn(async move { budget.wait_until_uncrowded(holder, own, LONG).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    waiting
}

#[tokio::test]
async fn calls_wait_while_answers_take_the_total() {
    let budget = MemoryBudget::new(MIB, MIB);
    let short = Duration::from_millis(1);
    // Bodies that were admitted do not keep accepted runs from their calls.
    let body = budget.try_reserve("a", MIB).unwrap();
    budget.wait_until_uncrowded("c", 0, short).await.unwrap();
    drop(body);
    let large = budget.reserve_taken("a", MIB - 8);
    let small = budget.try_reserve("b", 8).unwrap();
    let waiting = begin_to_wait(&budget, ("c", 0)).await;
    let refused = budget.wait_until_uncrowded("c", 0, short).await;
    assert_eq!(refused.unwrap_err(), Shortage::Total);
    // The run with the most memory goes on.
    budget.wait_until_uncrowded("a", MIB - 8, short).await.unwrap();
    drop(small);
    waiting.await.unwrap().unwrap();
    drop(large);
    assert!(is_idle(&budget));
}

#[tokio::test]
async fn calls_wait_while_their_holder_exceeds_its_share() {
    let budget = MemoryBudget::new(4 * MIB, MIB);
    let short = Duration::from_millis(1);
    let answers = [0; 3].map(|_| budget.reserve_taken("a", MIB / 2));
    // There is enough memory for all.
    budget.wait_until_uncrowded("a", 0, short).await.unwrap();
    let others = budget.try_reserve("b", MIB).unwrap();
    let refused = budget.wait_until_uncrowded("a", MIB / 2, short).await;
    assert_eq!(refused.unwrap_err(), Shortage::Share);
    for free in ["b", ""] {
        budget.wait_until_uncrowded(free, 0, short).await.unwrap();
    }
    let waiting = begin_to_wait(&budget, ("a", 0)).await;
    let [one, other, third] = answers;
    drop(one);
    waiting.await.unwrap().unwrap();
    drop((other, third, others));
    assert!(is_idle(&budget));
}

#[test]
fn many_threads_neither_exceed_leak_nor_deadlock() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let budget = MemoryBudget::new(4 * MIB, MIB);
    let (over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..64_usize)
        .map(|number| {
            let (budget, over, served) = (budget.clone(), Arc::clone(&over), Arc::clone(&served));
            runtime.spawn(async move {
                let holder = format!("h{}", number % 5);
                for round in 0..200 {
                    let bytes = 1 + (number * 7919 + round * 104_729) % (2 * MIB);
                    let taken = match round % 3 {
                        0 => budget.try_reserve(&holder, bytes % SMALL),
                        1 => budget.try_reserve(&holder, bytes),
                        _ => budget.reserve(&holder, bytes, LONG).await,
                    };
                    over.fetch_or(budget.used() > budget.state.small_limit(), Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    served.fetch_add(usize::from(taken.is_ok()), Ordering::Relaxed);
                    assert!(round % 3 < 2 || taken.is_ok(), "a waiter was not served");
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert!(!over.load(Ordering::Relaxed), "more than the limit was given out");
    assert!(served.load(Ordering::Relaxed) > 64 * 66);
    assert!(is_idle(&budget));
}

proptest! {
    #[test]
    fn the_sum_is_exact_and_within_the_limit(
        steps in prop::collection::vec((0..4_usize, 0..5_u8, 0..3 * MIB), 1..60)
    ) {
        let budget = MemoryBudget::new(4 * MIB, MIB);
        let mut held: Vec<(usize, Reservation)> = Vec::new();
        for (holder, kind, bytes) in steps {
            let name = format!("h{holder}");
            match (kind, held.pop()) {
                (0, Some((_, dropped))) => drop(dropped),
                (1, Some((owner, mut kept))) => {
                    let before = kept.bytes();
                    if kept.try_grow(&format!("h{owner}"), bytes).is_err() {
                        prop_assert_eq!(kept.bytes(), before);
                    }
                    held.push((owner, kept));
                }
                (2, Some((owner, mut kept))) => {
                    kept.shrink_to(bytes);
                    held.push((owner, kept));
                }
                (_, last) => {
                    held.extend(last);
                    held.extend(budget.try_reserve(&name, bytes).ok().map(|one| (holder, one)));
                }
            }
            let sum: usize = held.iter().map(|(_, one)| one.bytes()).sum();
            prop_assert_eq!(budget.used(), sum);
            prop_assert!(sum <= budget.state.small_limit());
            for owner in 0..4 {
                let large = held.iter().filter(|(other, one)| *other == owner && one.bytes() > SMALL);
                let (count, bytes) = large.fold((0, 0), |(n, b), (_, one)| (n + 1, b + one.bytes()));
                prop_assert!(count <= 1 || bytes <= MIB);
            }
        }
        drop(held);
        prop_assert!(is_idle(&budget));
    }
}

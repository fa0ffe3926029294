//! Kills processes at random moments, and holds the store against everything they had answered.
//!
//! `NEXUS_ROUTER_KILLS` says how many rounds; `NEXUS_ROUTER_SEED` repeats the ones of an earlier time.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "a test binary has no public surface")]

mod child;
mod dice;
mod ledger;
mod stage;
mod victim;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dice::Dice;
use ledger::{Ledger, Tally};
use stage::Stage;
use victim::Victim;

const NAME: &str = "nothing_acknowledged_is_lost";
const ROUNDS: u64 = 15;
/// A process is killed at most so long after it began to work.
const LONGEST: u64 = 200_000;
/// So many answers show that a process goes on.
const GOES_ON: usize = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["carry-out", directory, store, seed] => {
            child::carry_out(&at(directory), Path::new(store), seed.parse().unwrap());
        }
        ["recover", directory, store, _] => child::recover(&at(directory), Path::new(store)),
        ["--list", ..] => println!("{NAME}: test"),
        // A name that is not ours means that other tests are wanted.
        _ if arguments.iter().any(|word| !word.starts_with('-') && !NAME.contains(word)) => {}
        _ => hammer(),
    }
}

fn at(directory: &str) -> Stage {
    Stage { directory: directory.into() }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn hammer() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("NEXUS_ROUTER_SEED").unwrap_or(now.as_secs());
    let rounds = number("NEXUS_ROUTER_KILLS").unwrap_or(ROUNDS);
    println!("test {NAME}: {rounds} rounds with NEXUS_ROUTER_SEED={seed}");
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage { directory: directory.path().to_owned() };
    let registry = stage.registry();
    let mut dice = Dice::new(seed);
    let mut ledger = Ledger::new(&stage, directory.path().join("runs.db"), registry.clone());
    let mut births = Tally::default();
    for round in 0..rounds {
        ledger.begin();
        match round % 5 {
            0 | 3 => alone(&mut ledger, &mut dice, &stage),
            1 => recovery_dies(&mut ledger, &mut dice, &stage),
            2 => {
                let store = directory.path().join(format!("birth-{round}.db"));
                let mut ledger = Ledger::new(&stage, store, registry.clone());
                ledger.begin();
                birth(&mut ledger, &mut dice, &stage);
                births.acknowledged += ledger.tally.acknowledged;
            }
            _ => pair(&mut ledger, &mut dice, &stage),
        }
        if round % 20 == 19 {
            ledger.check();
        }
    }
    ledger.check();
    let Tally { acknowledged, runs, calls, resumed, in_doubt, ended } = ledger.tally;
    println!(
        "{rounds} rounds: {runs} runs, {acknowledged} acknowledged, {calls} calls with effects; \
         of those interrupted {resumed} went on, {in_doubt} were in doubt, {ended} were ended; \
         {} acknowledged by new stores",
        births.acknowledged
    );
    assert!(acknowledged > 0 && in_doubt > 0 && resumed > 0, "nothing was interrupted");
}

fn random_moment(dice: &mut Dice, longest: u64) {
    std::thread::sleep(Duration::from_micros(dice.below(longest)));
}

/// One process is killed while it works.
fn alone(ledger: &mut Ledger, dice: &mut Dice, stage: &Stage) {
    let mut victim = Victim::start("carry-out", &stage.directory, &ledger.store, dice.next());
    assert!(victim.hear("open"), "{:?}", victim.words());
    random_moment(dice, LONGEST);
    victim.kill();
    assert_eq!(victim.words(), ["loaded", "open"]);
    let recovery = ledger.recover();
    ledger.settle(&recovery, &victim.answers());
}

/// The processes that recover are killed as well.
fn recovery_dies(ledger: &mut Ledger, dice: &mut Dice, stage: &Stage) {
    let mut victim = Victim::start("carry-out", &stage.directory, &ledger.store, dice.next());
    assert!(victim.hear("open"), "{:?}", victim.words());
    random_moment(dice, LONGEST);
    victim.kill();
    for _ in 0..=dice.below(3) {
        let mut healer = Victim::start("recover", &stage.directory, &ledger.store, 0);
        assert!(healer.hear("open"), "{:?}", healer.words());
        random_moment(dice, LONGEST / 4);
        healer.kill();
    }
    let recovery = ledger.recover();
    ledger.settle(&recovery, &victim.answers());
}

/// Two processes make a new store at once, and one is killed over it.
fn birth(ledger: &mut Ledger, dice: &mut Dice, stage: &Stage) {
    let mut start = || Victim::start("carry-out", &stage.directory, &ledger.store, dice.next());
    let (mut one, mut other) = (start(), start());
    assert!(one.hear("loaded"), "{:?}", one.words());
    random_moment(dice, LONGEST / 4);
    one.kill();
    assert!(other.hear("open") && other.hear_answers(GOES_ON), "{:?}", other.words());
    other.kill();
    let recovery = ledger.recover();
    let answers = [one.answers(), other.answers()].concat();
    ledger.settle(&recovery, &answers);
    ledger.check();
}

/// One process is killed while another goes on: its runs are left alone.
fn pair(ledger: &mut Ledger, dice: &mut Dice, stage: &Stage) {
    let mut start = || Victim::start("carry-out", &stage.directory, &ledger.store, dice.next());
    let (mut one, mut other) = (start(), start());
    assert!(one.hear("open") && other.hear("open"), "{:?} {:?}", one.words(), other.words());
    random_moment(dice, LONGEST);
    one.kill();
    let recovery = ledger.recover();
    assert!(other.hear_answers(GOES_ON), "{:?}", other.words());
    assert!(other.stop(), "{:?}", other.words());
    assert_eq!(other.words(), ["loaded", "open", "done"]);
    let alive = other.answers();
    for answer in &alive {
        assert!(
            !recovery.recovered.contains(&answer.run_id),
            "{answer:?} was taken from its owner"
        );
    }
    ledger.settle(&recovery, &[one.answers(), alive].concat());
}

//! Besieges a daemon with many adapters: clients of every kind, kills, a drain; then holds the store against
//! what was acknowledged, and the process against what it held before.
//!
//! `NEXUS_ROUTER_SIEGE_SECONDS` says how long, `NEXUS_ROUTER_SIEGE_KILLS` how many kills,
//! `NEXUS_ROUTER_SEED` repeats the requests of an earlier time, and `NEXUS_ROUTER_BIN_RELEASE` names another
//! build of the program.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "a test binary has no public surface")]

mod books;
#[allow(dead_code, reason = "the integration tests use the rest")]
mod client;
mod crowd;
#[allow(dead_code, reason = "the integration tests use the rest")]
mod daemon;
#[path = "../hammer/dice.rs"]
mod dice;
mod gate;
mod scene;

use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crowd::Notes;
use daemon::{Daemon, Holding};
use dice::Dice;
use gate::Gate;

const NAME: &str = "daemon_survives_a_siege";
const SECONDS: u64 = 4;
const KILLS: u64 = 1;
const CLIENTS: u64 = 64;
/// From here on a siege is long enough to wait for threads that are kept for ten idle seconds.
const LONG: u64 = 10;
const MEGABYTE: usize = 1024 * 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--list") {
        println!("{NAME}: test");
    // A name that is not ours means that other tests are wanted.
    } else if arguments.iter().all(|word| word.starts_with('-') || NAME.contains(word)) {
        siege();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What was seen, for the table at the end.
struct Figures {
    first_ready: Duration,
    later_ready: Vec<Duration>,
    load: Duration,
    idle: Holding,
    peak: usize,
    after: Holding,
}

fn siege() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("NEXUS_ROUTER_SEED").unwrap_or(now.as_secs());
    let seconds = number("NEXUS_ROUTER_SIEGE_SECONDS").unwrap_or(SECONDS);
    let kills = number("NEXUS_ROUTER_SIEGE_KILLS").unwrap_or(KILLS);
    println!("test {NAME}: {seconds} s, {kills} kills, with NEXUS_ROUTER_SEED={seed}");
    let directory = tempfile::tempdir().unwrap();
    scene::write(directory.path());
    let gate = Gate::default();
    let first = start(directory.path());
    let token = std::fs::read_to_string(directory.path().join("data/admin.token")).unwrap();
    let token = token.trim();
    gate.put(first.address);
    let (figures, notes, daemon) = std::thread::scope(|scope| {
        let visit = |name| {
            let gate = &gate;
            scope.spawn(move || crowd::visit(gate, token, name, seed))
        };
        let visitors: Vec<_> = (0..CLIENTS).map(visit).collect();
        let stage = Stage { directory: directory.path(), gate: &gate, seconds, kills };
        stage.play(first, visitors, &mut Dice::new(seed))
    });
    let books = books::Books::of(notes);
    books.check(directory.path(), daemon);
    tell(&figures, &books);
    assert!(books.acknowledged() > 0 && books.runs_with_key() > 0, "nothing was asked for");
}

fn start(directory: &Path) -> Daemon {
    Daemon::start(&scene::program(), directory, &[]).unwrap()
}

struct Stage<'a> {
    directory: &'a Path,
    gate: &'a Gate,
    seconds: u64,
    kills: u64,
}

impl Stage<'_> {
    /// Kills the daemon under load, drains it under load, and looks at what the last one holds.
    fn play(
        &self,
        first: Daemon,
        visitors: Vec<ScopedJoinHandle<'_, Notes>>,
        dice: &mut Dice,
    ) -> (Figures, Vec<Notes>, Daemon) {
        let slice = Duration::from_secs(self.seconds) / u32::try_from(self.kills + 2).unwrap();
        let mut load = Duration::ZERO;
        let mut later_ready = Vec::new();
        let (first_ready, mut daemon) = (first.ready, first);
        for _ in 0..self.kills {
            // At some moment about the end of the slice.
            let time = slice.mul_f64(0.75) + Duration::from_micros(dice.below(1 + half(slice)));
            load += watch(&daemon, time, &visitors, &mut 0);
            self.gate.take_away();
            daemon.kill();
            daemon = start(self.directory);
            later_ready.push(daemon.ready);
            self.gate.put(daemon.address);
        }
        load += watch(&daemon, slice, &visitors, &mut 0);
        // In order, under load: whatever it took is over when it ends.
        self.gate.take_away();
        daemon.signal(Signal::TERM);
        let ended = daemon.ended();
        assert!(ended.success(), "{ended}");
        let daemon = start(self.directory);
        later_ready.push(daemon.ready);
        let idle = daemon.holding_alone();
        self.gate.put(daemon.address);
        let mut peak = 0;
        load += watch(&daemon, slice, &visitors, &mut peak);
        self.gate.close();
        let notes = visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect();
        let after = settled(&daemon, idle, self.seconds >= LONG);
        (Figures { first_ready, later_ready, load, idle, peak, after }, notes, daemon)
    }
}

fn half(slice: Duration) -> u64 {
    u64::try_from(slice.as_micros() / 2).unwrap()
}

/// Lets the clients work for some time, and notes the most memory that the daemon had.
fn watch(
    daemon: &Daemon,
    time: Duration,
    visitors: &[ScopedJoinHandle<'_, Notes>],
    peak: &mut usize,
) -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert!(!visitors.iter().any(ScopedJoinHandle::is_finished), "a client gave up");
        *peak = daemon.holding().resident.max(*peak);
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
    begun.elapsed()
}

impl Holding {
    /// Says whether it holds what it held before, besides what its workers need: a socket, a process and a pipe
    /// each, and two for the thread that waits for them.
    fn is_back_at(&self, before: Self) -> bool {
        let more = |now: usize, before: usize| now.saturating_sub(before);
        let workers = more(self.workers, before.workers);
        let first = if before.workers == 0 && workers > 0 { 2 } else { 0 };
        self.descriptors == before.descriptors + 3 * workers + first
    }
}

/// Waits until the daemon holds no more than before.
fn settled(daemon: &Daemon, before: Holding, threads_too: bool) -> Holding {
    let end = Instant::now() + daemon::PATIENCE;
    let mut now = daemon.holding();
    let threads = if threads_too { before.threads + scene::THREADS } else { usize::MAX };
    while !now.is_back_at(before) || now.threads > threads {
        assert!(Instant::now() < end, "it holds {now:?}, and before it held {before:?}");
        std::thread::sleep(Duration::from_millis(20));
        now = daemon.holding();
    }
    // Eight connections for reading are kept, of two descriptors each. Of those that were closed SQLite keeps
    // the descriptor for the next one, because closing it would let go of the locks of all others: so there
    // are as many as ever read at once, and no more.
    let readers = 8 + usize::try_from(CLIENTS).unwrap();
    assert!(now.of_store <= before.of_store + 8 + readers, "{before:?} {now:?}");
    let grown = now.resident.saturating_sub(before.resident);
    assert!(grown <= 64 * MEGABYTE || now.resident <= 2 * before.resident, "{before:?} {now:?}");
    now
}

fn tell(figures: &Figures, books: &books::Books) {
    let Figures { first_ready, later_ready, load, idle, peak, after } = figures;
    let later: Duration = later_ready.iter().sum();
    let later = later / u32::try_from(later_ready.len().max(1)).unwrap();
    let [median, slow] = [0.5, 0.99].map(|share| books.time(share));
    let mib = |bytes: usize| format!("{:.1} MB", bytes as f64 / MEGABYTE as f64);
    let rate = books.acknowledged() as f64 / load.as_secs_f64();
    for (name, value) in [
        ("ready, nothing known", format!("{first_ready:.1?}")),
        ("ready, again", format!("{later:.1?}")),
        ("under load", format!("{load:.1?}")),
        ("requests", books.requests().to_string()),
        ("acknowledged runs", format!("{} ({rate:.0}/s)", books.acknowledged())),
        ("p50 / p99", format!("{median:.1?} / {slow:.1?}")),
        ("broken off by a kill or the drain", books.broken().to_string()),
        ("keys / sent again to another process", books.keys_told()),
        ("memory idle / peak / after", [idle.resident, *peak, after.resident].map(mib).join(" / ")),
        ("descriptors before / after", format!("{} / {}", idle.descriptors, after.descriptors)),
        ("of the store before / after", format!("{} / {}", idle.of_store, after.of_store)),
        ("threads before / after", format!("{} / {}", idle.threads, after.threads)),
        ("  of which adapters may keep", scene::THREADS.to_string()),
    ] {
        println!("  {name:<38} {value}");
    }
}

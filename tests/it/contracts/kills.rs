//! Processes that are killed while they freeze contracts and register tools.
//!
//! `NEXUS_ROUTER_KILLS` says how often; `NEXUS_ROUTER_SEED` repeats an earlier time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Desk, contract, greet};
use crate::support::{PROGRAM, built_directory};

/// So many kills of each kind, if nobody says how many.
const KILLS: u64 = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Random moments that can be repeated.
struct Moments(u64);

impl Moments {
    #[expect(clippy::print_stdout, reason = "a failed test shows how it can be repeated")]
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = number("NEXUS_ROUTER_SEED").unwrap_or(now.as_secs());
        println!("NEXUS_ROUTER_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Starts a verb; the process is returned while it works.
fn command(desk: &Desk, line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(line.split(' '))
        .current_dir(desk.world.directory.path())
        .env_clear()
        .env("NEXUS_ROUTER_CACHE_DIR", desk.world.path("cache"))
        .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
        .env("NEXUS_ROUTER_DATA_DIR", desk.world.path("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Returns how long a verb takes.
fn duration(desk: &Desk, line: &str) -> Duration {
    let started = Instant::now();
    assert!(command(desk, line).status().unwrap().success(), "{line}");
    started.elapsed()
}

/// Runs a verb, and kills it at a random moment within twice the time that it takes. Returns whether it had ended.
fn kill(desk: &Desk, line: &str, (moments, longest): (&mut Moments, Duration)) -> bool {
    let mut process = command(desk, line).spawn().unwrap();
    let longest = u64::try_from(longest.as_micros()).unwrap();
    std::thread::sleep(Duration::from_micros(moments.below(longest * 2)));
    process.kill().unwrap();
    process.wait().unwrap().success()
}

/// Returns the names of the files in a directory.
fn names(desk: &Desk, directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(desk.world.path(directory)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn described(id: &str, round: u64) -> Value {
    let mut described = contract(&format!("1.0.{round}"));
    described["adapter_id"] = json!(id);
    described["description"] = json!(format!("Words of round {round}."));
    described
}

#[test]
fn freeze_leaves_all_of_a_revision_or_nothing() {
    let (desk, mut moments) = (Desk::new(), Moments::new());
    let line = "interface freeze echo.json shop.json";
    let write = |round| {
        for id in ["echo", "shop"] {
            desk.write(&format!("{id}.json"), &described(id, round));
        }
    };
    write(0);
    let longest = duration(&desk, line);
    let (mut ended, mut before) = (0, 0);
    for round in 1..=number("NEXUS_ROUTER_KILLS").unwrap_or(KILLS) {
        write(round);
        ended += u64::from(kill(&desk, line, (&mut moments, longest)));
        // Readers see all of it or nothing, before anybody repairs anything.
        assert!(desk.yes("interface verify").contains("ok: 10 contracts hold"));
        let list: Value = serde_json::from_str(&desk.yes("interface list --format json")).unwrap();
        let version = |id: &str| {
            let row = list.as_array().unwrap().iter().find(|row| row["adapter_id"] == id).unwrap();
            assert_eq!(row["state"], "locked", "{row}");
            row["version"].as_str().unwrap().to_owned()
        };
        let [old, new] = [before, round].map(|round| format!("1.0.{round}"));
        assert_eq!(version("echo"), version("shop"));
        assert!([&old, &new].contains(&&version("echo")), "{list}");
        // The next one finishes or repeats it.
        desk.yes(line);
        assert_eq!(
            names(&desk, "data/interfaces"),
            [".interfaces.seized", "echo.interface.json", "interfaces.lock", "shop.interface.json"]
        );
        let file: Value = serde_json::from_slice(
            &std::fs::read(desk.world.path("data/interfaces/echo.interface.json")).unwrap(),
        )
        .unwrap();
        assert_eq!(file["version"], new.as_str());
        before = round;
    }
    println!("{ended} of {before} had ended before they were killed");
}

#[test]
fn registration_leaves_all_of_it_or_nothing() {
    let (desk, mut moments) = (Desk::new(), Moments::new());
    desk.frozen(&contract("1.0.0"));
    let line = "tool register greet.json again.json";
    let write = |round: u64| {
        for id in ["greet", "again"] {
            let mut spec = greet();
            spec["tool_id"] = json!(id);
            spec["version"] = json!(format!("1.0.{round}"));
            desk.write(&format!("{id}.json"), &spec);
        }
    };
    write(0);
    let longest = duration(&desk, line);
    let (mut ended, mut before) = (0, 0);
    for round in 1..=number("NEXUS_ROUTER_KILLS").unwrap_or(KILLS) {
        write(round);
        ended += u64::from(kill(&desk, line, (&mut moments, longest)));
        let list: Value = serde_json::from_str(&desk.yes("tool list --format json")).unwrap();
        let list = list.as_array().unwrap();
        assert!(list.iter().all(|tool| tool["enabled"] == true), "{list:?}");
        assert_eq!(list[0]["version"], list[1]["version"]);
        assert!(list.iter().all(|tool| tool["spec"]["version"] == tool["version"]), "{list:?}");
        let [old, new] = [before, round].map(|round| format!("1.0.{round}"));
        let version = list[0]["version"].as_str().unwrap();
        assert!(old == version || new == version, "{list:?}");
        desk.yes(line);
        assert_eq!(
            names(&desk, "data/tools"),
            [".register.seized", "again.tool.json", "greet.tool.json", "register.json"]
        );
        before = round;
    }
    println!("{ended} of {before} had ended before they were killed");
}

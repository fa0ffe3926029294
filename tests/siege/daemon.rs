//! A daemon as whoever started it sees it: where it listens, what it says, what it holds, how it ends.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;

/// Longer than anything takes; only against a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Daemon {
    process: Child,
    directory: PathBuf,
    pub address: SocketAddr,
    /// From its start until it was ready.
    pub ready: Duration,
    /// Kept, so that it can go on saying things.
    _said: Receiver<String>,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Descriptors, without those of the store.
    pub descriptors: usize,
    pub of_store: usize,
    /// Processes that it has started and that are there.
    pub workers: usize,
    pub threads: usize,
    pub resident: usize,
}

/// A daemon that ended before it was ready.
#[derive(Debug)]
pub struct Stillborn {
    pub status: ExitStatus,
    pub said: String,
}

impl Daemon {
    /// Starts a daemon in a directory, with its `router.toml`, and waits until it is ready. What it logs is
    /// appended to the file `log`.
    pub fn start(program: &Path, directory: &Path, arguments: &[&str]) -> Result<Self, Stillborn> {
        let begun = Instant::now();
        let mut process = Self::command(program, directory, arguments).spawn().unwrap();
        let said = listen(&mut process);
        let Some(address) = said.iter().find_map(|line| address(&line)) else {
            let status = process.wait().unwrap();
            return Err(Stillborn { status, said: log(directory) });
        };
        let mut daemon = Self {
            process,
            directory: directory.to_owned(),
            address,
            ready: Duration::ZERO,
            _said: said,
        };
        assert_eq!(daemon.client().get("/readyz").unwrap().status, 200, "{}", daemon.log());
        daemon.ready = begun.elapsed();
        Ok(daemon)
    }

    /// Starts a daemon that loads adapters for long, and returns as soon as it answers.
    pub fn start_loading(program: &Path, directory: &Path) -> Self {
        let begun = Instant::now();
        let mut command = Self::command(program, directory, &[]);
        // Daemons before it wrote the same log.
        let before = log(directory).len();
        let mut process = command.spawn().unwrap();
        let said = listen(&mut process);
        let directory = directory.to_owned();
        let address = until("the address in the log", || {
            let log = log(&directory);
            log[before..].split_once("answers at http://")?.1.split_once(';')?.0.parse().ok()
        });
        Self { process, directory, address, ready: begun.elapsed(), _said: said }
    }

    /// Returns the command that starts a daemon with a clean environment.
    pub fn command(program: &Path, directory: &Path, arguments: &[&str]) -> Command {
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let path = std::env::join_paths([directory.join("plugins"), built]).unwrap();
        let log = File::options().append(true).create(true).open(directory.join("log")).unwrap();
        let mut command = Command::new(program);
        command
            .args(["serve", "--config", "router.toml", "--data-dir", "data"])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("NEXUS_ROUTER_CACHE_DIR", directory.join("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        command
    }

    /// Returns a client that shows no token.
    pub const fn client(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Returns a client that shows the first token.
    pub fn administrator(&self) -> Client {
        let token = std::fs::read_to_string(self.directory.join("data/admin.token")).unwrap();
        Client::new(self.address, Some(token.trim().to_owned()))
    }

    pub fn log(&self) -> String {
        log(&self.directory)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(pid(&self.process), signal).unwrap();
    }

    /// Waits for its end.
    pub fn ended(mut self) -> ExitStatus {
        let process = &mut self.process;
        until("the end of the daemon", || process.try_wait().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills it without a warning.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn holding(&self) -> Holding {
        holding(self.process.id())
    }

    /// Returns what it holds when it has no connection any more.
    pub fn holding_alone(&self) -> Holding {
        let port = self.address.port();
        until("the end of every connection", || (connections(port) == 0).then_some(()));
        self.holding()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn pid(process: &Child) -> Pid {
    Pid::from_raw(process.id().cast_signed()).unwrap()
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap()
}

/// Returns what a process says, line by line, until it ends.
pub fn listen(process: &mut Child) -> Receiver<String> {
    let said = BufReader::new(process.stdout.take().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            // Nobody may listen any more; it must be able to go on all the same.
            drop(sender.send(line));
        }
    });
    receiver
}

/// Returns the address out of the line that tells it.
pub fn address(line: &str) -> Option<SocketAddr> {
    let rest = line.trim().strip_prefix("listens")?.trim();
    let rest = rest.strip_prefix("http://")?;
    rest.split(' ').next()?.parse().ok()
}

/// Looks again and again until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Counts the connections of a server's port that a process holds.
fn connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    let is_held = |line: &&str| {
        let mut columns = line.split_whitespace().skip(1);
        let (address, _, state) = (columns.next(), columns.next(), columns.next());
        // Those that listen, and those that nobody holds any more, are none.
        let ours = address.is_some_and(|address| address.ends_with(&port));
        ours && state != Some("0A") && columns.nth(5) != Some("0")
    };
    table.lines().skip(1).filter(is_held).count()
}

fn holding(pid: u32) -> Holding {
    let (mut descriptors, mut of_store) = (0, 0);
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        // One that was closed meanwhile leads nowhere.
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.to_string_lossy().contains("runs.db") {
            of_store += 1;
        } else {
            descriptors += 1;
        }
    }
    let tasks: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().collect();
    let children = |task: &std::fs::DirEntry| {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().count()
    };
    let (workers, threads) = (tasks.iter().map(children).sum(), tasks.len());
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    let resident = pages * rustix::param::page_size();
    Holding { descriptors, of_store, workers, threads, resident }
}

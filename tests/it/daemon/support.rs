//! A daemon under test, and a client that can also send what no client should.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nexus_router::access::{self, NewToken, Scope, Visibility};
use nexus_router::clock::Clock;
use serde_json::{Value, json};

use super::client::{Ask, Wire};
use crate::support::{PROGRAM, Run, built_directory, built_library, copy_program, shell};

/// Longer than anything takes, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Adapters that answer, that hold calls until they are released, and that fail on request. All are offered.
pub const ADAPTERS: &str = r#"
default_adapter = "echo"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
offer = { tools = ["*"] }
[[adapters]]
ref = "probe_adapters:many_calls"
id = "many"
offer = { tools = ["*"] }
[[adapters]]
ref = "probe_adapters:fake"
offer = { tools = ["*"] }
[adapters.config]
responses = [
    { tool = "t", method = "refuse", behaviour = { operational_error = { error_code = "TIMEOUT", message = "no" } } },
    { tool = "t", method = "break", behaviour = { bug_error = { error_code = "BUG_ERROR", message = "all wrong" } } },
]
"#;

/// Looks again and again until there is an answer.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A place for a daemon: its configuration, its data, a token for every scope.
#[derive(Clone)]
pub struct Stage {
    directory: Arc<tempfile::TempDir>,
    tokens: Vec<(String, String)>,
}

impl Stage {
    /// Writes the configuration, and makes tokens that are named like their scopes.
    pub fn new(config: &str) -> Self {
        let mut stage = Self::bare(config);
        for scope in Scope::ALL {
            // Tests look at the runs of all callers with it.
            let sees = if scope == Scope::Read { Visibility::All } else { Visibility::Own };
            stage.token_seeing(scope.name(), scope, sees);
        }
        stage
    }

    /// Writes the configuration, and nothing else.
    pub fn bare(config: &str) -> Self {
        let stage = Self { directory: Arc::new(tempfile::tempdir().unwrap()), tokens: Vec::new() };
        stage.configure(config);
        stage
    }

    pub fn configure(&self, config: &str) {
        std::fs::write(self.path("router.toml"), config).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn token(&mut self, name: &str, scope: Scope) {
        self.token_seeing(name, scope, Visibility::Own);
    }

    /// Makes a token that sees the given runs.
    pub fn token_seeing(&mut self, name: &str, scope: Scope, sees: Visibility) {
        let name = name.to_owned();
        self.token_as(NewToken { name, scope, role: None, sees, expires_at: None });
    }

    pub fn token_as(&mut self, new: NewToken) {
        let file = self.path("data/tokens.json");
        let (_, text) = access::create(&file, &new, Clock::System.now()).unwrap();
        self.tokens.push((new.name, text.as_str().to_owned()));
    }

    /// Returns the program with a clean environment.
    pub fn program(&self) -> Command {
        self.clean(Command::new(PROGRAM))
    }

    /// Runs a line that the program printed, as a shell does.
    pub fn paste(&self, line: &str) -> Run {
        let path = shell(line).get_envs().next().unwrap().1.unwrap().to_owned();
        let mut command = self.clean(shell(line));
        Run(command.env("PATH", path).output().unwrap())
    }

    /// Gives a command a clean environment.
    fn clean(&self, mut command: Command) -> Command {
        // One for all tests, so that each library is tried once; or one of its own, if it is there.
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("daemon");
        let cache = Some(self.path("cache")).filter(|own| own.exists()).unwrap_or(shared);
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("NEXUS_ROUTER_CACHE_DIR", cache)
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory());
        command
    }

    /// Runs a daemon that must not start.
    pub fn refused(&self, arguments: &[&str]) -> Run {
        let mut command = self.program();
        command.args(["serve", "--config", "router.toml"]).args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while process.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                process.kill().unwrap();
                panic!("it started: {:?}", process.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Run(process.wait_with_output().unwrap())
    }

    /// Starts the daemon.
    pub fn start(self, arguments: &[&str]) -> Daemon {
        let command = self.program();
        self.start_by(command, arguments)
    }

    /// Starts the daemon, and returns as soon as it answers, while it loads its adapters.
    pub fn start_loading(self) -> Daemon {
        Self::answering(self.spawn(&[]))
    }

    /// As [`start_loading`](Self::start_loading), for a copy of the program that finds no libraries but those of the
    /// configuration.
    pub fn start_loading_beside(self) -> Daemon {
        let command = self.program_beside(&[]);
        Self::answering(self.spawn_by(command, &[]).0)
    }

    /// Waits until a daemon answers requests.
    fn answering(mut daemon: Daemon) -> Daemon {
        daemon.address = until("the address in the log", || {
            let log = daemon.stderr();
            let (url, _) = log.split_once("answers at http://")?.1.split_once(';')?;
            Some(url.parse().unwrap())
        });
        daemon
    }

    fn spawn(self, arguments: &[&str]) -> Daemon {
        let command = self.program();
        self.spawn_by(command, arguments).0
    }

    /// Starts the daemon with a signal ignored, as a careless parent may.
    pub fn start_ignoring(self, signal: &str) -> Daemon {
        let mut command = Command::new("env");
        command.arg(format!("--ignore-signal={signal}")).arg(PROGRAM);
        let mut command = self.clean(command);
        command.env("PATH", "/usr/bin:/bin");
        self.start_by(command, &[])
    }

    /// Starts the daemon from a shell that sets limits first.
    pub fn start_limited(self, limits: &str) -> Daemon {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), PROGRAM]);
        let command = self.clean(command);
        self.start_by(command, &[])
    }

    /// Starts a copy of the program that has only these libraries beside it. A configuration may be missing.
    pub fn start_beside(self, modules: &[&str]) -> Daemon {
        let command = self.program_beside(modules);
        self.start_by(command, &[])
    }

    /// Makes a copy of the program that has only these libraries beside it.
    fn program_beside(&self, modules: &[&str]) -> Command {
        let bin = self.path("bin");
        std::fs::create_dir(&bin).unwrap();
        copy_program(&bin.join("nexus-router"));
        for module in modules {
            let library = built_library(module);
            std::fs::copy(&library, bin.join(library.file_name().unwrap())).unwrap();
        }
        let mut command = self.clean(Command::new(bin.join("nexus-router")));
        command.env_remove("NEXUS_ROUTER_ADAPTER_PATH");
        command
    }

    fn spawn_by(
        self,
        mut command: Command,
        arguments: &[&str],
    ) -> (Daemon, mpsc::Receiver<String>) {
        let stderr = std::fs::File::create(self.path("stderr")).unwrap();
        command.args(["serve", "--data-dir", "data"]).args(arguments);
        if self.path("router.toml").exists() {
            command.args(["--config", "router.toml"]);
        }
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut process = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let said = self.path("stdout");
        let (tell, told) = mpsc::channel();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            let mut said = std::fs::File::create(said).unwrap();
            while let Some(Ok(line)) = lines.next() {
                writeln!(said, "{line}").unwrap();
                drop(tell.send(line));
            }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        (Daemon { address, process, stage: self }, told)
    }

    fn start_by(self, command: Command, arguments: &[&str]) -> Daemon {
        let (mut daemon, told) = self.spawn_by(command, arguments);
        let url = loop {
            let Ok(line) = told.recv_timeout(PATIENCE) else {
                panic!("the daemon did not start: {}", daemon.stderr());
            };
            if let Some(rest) = line.trim().strip_prefix("listens") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
        };
        let (_, address) = url.split_once("://").unwrap();
        let mut address: SocketAddr = address.parse().unwrap();
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        daemon.address = address;
        daemon
    }
}

/// A daemon that is killed at the end of its test.
pub struct Daemon {
    pub address: SocketAddr,
    pub stage: Stage,
    process: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Daemon {
    /// Starts a daemon with a token for every scope.
    pub fn start(config: &str, arguments: &[&str]) -> Self {
        Stage::new(config).start(arguments)
    }

    /// Starts a daemon with [`ADAPTERS`].
    pub fn usual() -> Self {
        Self::start(ADAPTERS, &[])
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub fn stdout(&self) -> String {
        std::fs::read_to_string(self.stage.path("stdout")).unwrap()
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.stage.path("stderr")).unwrap()
    }

    /// Returns the text of a token.
    pub fn token(&self, name: &str) -> &str {
        let found = self.stage.tokens.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no token {name}")).1
    }

    /// Kills the daemon.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Ends the daemon as an operator would, and waits for it.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }

    /// Starts another daemon in the place of this one, which is gone.
    pub fn again(&self) -> Self {
        self.stage.clone().start(&[])
    }

    /// Opens a connection.
    pub fn connect(&self) -> Wire {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire::new(stream)
    }

    /// Begins a request. Unless it says otherwise, it is the administrator's.
    pub fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        Ask::new(self, method, path)
    }

    pub fn get(&self, path: &str) -> Ask<'_> {
        self.ask("GET", path)
    }

    pub fn post(&self, path: &str, body: &Value) -> Ask<'_> {
        self.ask("POST", path).json(body)
    }

    /// Sends bytes on a connection of their own, and returns all that comes until it is closed.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut wire = self.connect();
        // The daemon may hang up before it has all of it.
        drop(wire.stream().write_all(bytes));
        let mut answer = Vec::new();
        drop(wire.stream().read_to_end(&mut answer));
        answer
    }

    /// Submits a run that is held in a call until it is released or cancelled, and returns its id.
    pub fn hold(&self) -> String {
        let before = self.calls_in_flight("many");
        let answer = self.post("/v1/runs?wait=false", &plan("many", "t", "hold")).send();
        assert_eq!(answer.status, 202, "{answer:?}");
        until("the call", || (self.calls_in_flight("many") > before).then_some(()));
        answer.run_id()
    }

    /// Releases every held call.
    pub fn release(&self) {
        let answer = self.post("/v1/runs", &plan("many", "t", "release")).send();
        assert_eq!(answer.json()["status"], "COMPLETED", "{answer:?}");
    }

    pub fn calls_in_flight(&self, adapter_id: &str) -> u64 {
        let health = self.get(&format!("/v1/adapters/{adapter_id}/health")).ok();
        health["calls_in_flight"].as_u64().unwrap()
    }

    /// Waits for the end of a run, and returns it.
    pub fn ended(&self, run_id: &str) -> Value {
        until("the end of the run", || {
            let run = self.get(&format!("/v1/runs/{run_id}")).ok();
            (run["status"] != "RUNNING").then_some(run)
        })
    }

    /// Returns the audit log.
    pub fn audit(&self) -> Vec<Value> {
        let answer = self.get("/v1/audit?limit=10000").send();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for an event of the audit log: whoever records does not wait for the disk.
    pub fn audited(&self, fits: impl Fn(&Value) -> bool) -> Value {
        until("the event in the audit log", || self.audit().into_iter().find(&fits))
    }

    /// Returns the value of a metric with its labels, as it stands in the text.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").send().text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// Says that the daemon still answers.
    pub fn assert_alive(&self) {
        assert_eq!(self.get("/healthz").ok()["status"], "ok");
        let run = self.post("/v1/runs", &plan("echo", "t", "m")).ok();
        assert_eq!(run["status"], "COMPLETED", "{run}");
    }
}

/// A request for a run of one step that applies.
pub fn plan(adapter_id: &str, tool: &str, method: &str) -> Value {
    json!({ "goal": "try it", "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": adapter_id },
        "plan_override": [{ "step_id": "s1", "intent": "",
            "call": { "tool": tool, "method": method, "args": { "name": "Ada" } } }] })
}

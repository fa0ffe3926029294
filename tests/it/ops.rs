//! The daemon under a supervisor: what it tells systemd, what `health` tells containers, and that the
//! templates for both name what exists.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nexus_router::config::ConfigFile;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, World, workspace};

/// How long to wait for what must come, before the test is given up.
const PATIENCE: Duration = Duration::from_secs(60);

fn template(name: &str) -> String {
    std::fs::read_to_string(workspace().join("templates").join(name)).unwrap()
}

/// Returns the values of a key of the unit.
fn unit_values(key: &str) -> Vec<String> {
    let unit = template("nexus-router.service");
    let values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

/// A daemon that ends with the test.
struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Daemon {
    fn start(world: &World, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        // Away from the libraries that are there to be refused.
        let program = world.path("nexus-router");
        std::fs::copy(PROGRAM, &program).unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(world.directory.path())
            .env_clear()
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Returns the address of which the greeting tells.
    fn url(&mut self) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some(url) = line.trim().strip_prefix("listens") {
                return url.split_whitespace().next().unwrap().to_owned();
            }
            line.clear();
        }
        panic!("the daemon ended without a greeting");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The supervisor's end of the socket.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn told(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).unwrap();
        str::from_utf8(&buffer[..length]).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns what is told next, besides signs of life.
    fn told_besides_life(&self) -> Vec<String> {
        std::iter::repeat_with(|| self.told()).find(|told| told != &["WATCHDOG=1"]).unwrap()
    }
}

#[test]
fn a_supervisor_is_told_of_every_change() {
    let world = World::new();
    let socket = world.path("notify");
    let supervisor = Supervisor(UnixDatagram::bind(&socket).unwrap());
    supervisor.0.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(world.run(&["config", "init", "router.toml"]).code(), 0);
    // As the unit starts it, in directories of the test.
    let [start] = &unit_values("ExecStart")[..] else { panic!("one command") };
    let arguments: Vec<&str> = start.split(' ').skip(1).collect();
    let ["serve", "--config", "/etc/nexus-router/router.toml"] = arguments[..] else {
        panic!("{arguments:?}")
    };
    let place = world.directory.path().display().to_string();
    let mut environment = vec![
        ("NOTIFY_SOCKET", socket.to_str().unwrap().to_owned()),
        ("WATCHDOG_USEC", "300000".to_owned()),
        ("NEXUS_ROUTER__LISTENERS__0__ADDRESS", "127.0.0.1:0".to_owned()),
    ];
    let unit = unit_values("Environment");
    for variable in &unit {
        let (name, value) = variable.split_once('=').unwrap();
        environment.push((name, value.replace("/var", &place)));
    }
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut daemon = Daemon::start(&world, &["serve", "--config", "router.toml"], &environment);

    assert_eq!(supervisor.told(), ["READY=1"]);
    // It is ready when it says so.
    let url = daemon.url();
    assert_eq!(world.run(&["health", "--url", &url]).code(), 0);
    assert!(world.path("lib/nexus-router/runs.db").exists(), "the unit's state directory is used");
    assert_eq!(supervisor.told(), ["WATCHDOG=1"]);
    assert_eq!(supervisor.told(), ["WATCHDOG=1"]);

    let mut last = 0;
    for _ in 0..2 {
        daemon.signal(Signal::HUP);
        let told = supervisor.told_besides_life();
        let [state, since] = &told[..] else { panic!("{told:?}") };
        assert_eq!(state, "RELOADING=1");
        let since: u64 = since.strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(since > last, "{since}");
        last = since;
        assert_eq!(supervisor.told_besides_life(), ["READY=1"]);
    }

    daemon.signal(Signal::TERM);
    assert_eq!(supervisor.told_besides_life(), ["STOPPING=1"]);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let silent = world.run(&["health", "--url", &url]);
    assert_eq!(silent.code(), 2);
    assert!(silent.stderr().contains("does not answer"), "{}", silent.stderr());
}

/// Answers one request with a text, and returns the address.
fn canned(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    url
}

#[test]
fn health_tells_not_ready_from_no_daemon() {
    let world = World::new();
    let url = canned(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
         Connection: close\r\n\r\n{\"code\":\"DRAINING\",\"detail\":\"it stops\\u001b[2J\"}",
    );
    let draining = world.run(&["health", "--url", &url]);
    assert_eq!((draining.code(), draining.stdout()), (1, format!("not ready: {url}\n")));
    assert!(draining.stderr().contains("DRAINING: it stops"), "{}", draining.stderr());
    assert!(!draining.stderr().contains('\x1b'), "no terminal obeys the answer");

    for other in [
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    ] {
        let other = world.run(&["health", "--url", &canned(other)]);
        assert_eq!(other.code(), 2, "{}", other.stderr());
        assert!(other.stderr().contains("not as a nexus-router does"), "{}", other.stderr());
    }
}

#[test]
fn health_looks_at_the_certificate() {
    let world = World::new();
    let files = workspace().join("adapters/http/tests/tls");
    let file = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let (certificate, ca) = (file("server.pem"), file("ca.pem"));
    let key = world.path("server.key.pem");
    std::fs::copy(file("server.key.pem"), &key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let key = key.to_str().unwrap().to_owned();
    let environment = [
        ("NEXUS_ROUTER__LISTENERS__0__TLS_CERT", certificate.as_str()),
        ("NEXUS_ROUTER__LISTENERS__0__TLS_KEY", key.as_str()),
        ("NEXUS_ROUTER__LISTENERS__0__ADDRESS", "127.0.0.1:0"),
    ];
    let arguments = ["serve", "--data-dir", "state"];
    let mut daemon = Daemon::start(&world, &arguments, &environment);
    let url = daemon.url().replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    assert_eq!(world.run(&["health", "--url", &url, "--ca", &ca]).code(), 0);
    assert_eq!(world.run(&["health", "--url", &url, "--insecure"]).code(), 0);
    let unknown = world.run(&["health", "--url", &url]);
    assert_eq!(unknown.code(), 2);
    assert!(unknown.stderr().contains("certificate"), "{}", unknown.stderr());
    for wrong in [&key, "/dev/null", "nowhere.pem"] {
        let wrong = world.run(&["health", "--url", &url, "--ca", wrong]);
        assert_eq!(wrong.code(), 2);
        assert!(wrong.stderr().contains("hint: name a PEM file"), "{}", wrong.stderr());
    }
}

#[test]
fn the_unit_waits_longer_than_the_daemon_drains() {
    let seconds = |key: &str| -> u64 {
        let [value] = &unit_values(key)[..] else { panic!("{key} stands once") };
        value.parse().unwrap()
    };
    let drain = ConfigFile::default().server.drain;
    assert!(Duration::from_secs(seconds("TimeoutStopSec")) > drain);
    assert!(seconds("WatchdogSec") > 0);
    assert_eq!(unit_values("Type"), ["notify"]);
    assert_eq!(unit_values("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
}

#[test]
fn the_unit_allows_what_confinement_needs() {
    // Without these the child of a dry run would run unconfined, and say so only in a warning.
    let allowed = unit_values("SystemCallFilter").join(" ");
    let rules = ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"];
    for call in rules.into_iter().chain(["@system-service", "seccomp"]) {
        assert!(allowed.split(' ').any(|one| one == call), "{call}");
    }
    // The store names its owner by the boot id, which is not in the part of /proc about processes.
    assert!(unit_values("ProcSubset").is_empty());
}

#[test]
fn the_container_is_built_of_what_exists() {
    let file = template("Containerfile").replace("\\\n", " ");
    let cargo = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let version = cargo.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(file.contains(&format!("/rust:{}-slim", version.trim_matches('"'))));
    let lines = |word: &str| -> Vec<Vec<String>> {
        let lines = file.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let mut copied = Vec::new();
    for words in lines("COPY") {
        if !words[0].starts_with("--from") {
            copied.extend_from_slice(&words[..words.len() - 1]);
        }
    }
    for name in &copied {
        assert!(workspace().join(name).exists(), "{name}");
    }
    let members = cargo.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    for member in members.trim_matches(['[', ']']).split(',') {
        let top = member.trim().trim_matches('"').split('/').next().unwrap();
        assert!(copied.iter().any(|name| name == top), "{top} is a part of the workspace");
    }
    // The settings are ones that there are, and the listener is one that is allowed.
    let settings = lines("ENV").concat();
    assert!(settings.len() >= 4, "{settings:?}");
    let pairs = settings.iter().map(|one| one.split_once('=').unwrap());
    let world = World::new();
    let checked = world.run_with(&["config", "check"], |command| command.envs(pairs));
    assert_eq!(checked.code(), 0, "{}{}", checked.stdout(), checked.stderr());
    for (word, shown) in [("HEALTHCHECK", "nexus-router health"), ("ENTRYPOINT", "nexus-router")] {
        assert!(lines(word).concat().join(" ").contains(shown), "{word}");
    }
    assert_eq!(lines("USER"), [["nexus-router"]]);
}

//! A daemon under load, for the benchmarks: started as a user would, asked over keep-alive connections.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A daemon, started as a user would.
pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
    /// How long it took to be there.
    pub ready: Duration,
}

impl Daemon {
    /// Starts it with adapters and tools as the text says.
    pub fn start(place: &Path, db: &str, adapters: &str) -> Self {
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let config = place.join("router.toml");
        let text =
            format!("adapter_path = [{built:?}]\n[server]\nrequests_per_second = 0\n{adapters}");
        std::fs::write(&config, text).unwrap();
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nexus-router"))
            .args(["serve", "--listen", "127.0.0.1:0", "--no-tokens", "--db", db, "--config"])
            .arg(config)
            .arg("--data-dir")
            .arg(place.join("data"))
            .env("NEXUS_ROUTER_CACHE_DIR", place.join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            let at = line.find("http://")?;
            Some(line[at + 7..].split_whitespace().next()?.to_owned())
        });
        let ready = started.elapsed();
        Self { child, address: url.unwrap().parse().unwrap(), ready }
    }

    /// Returns the time that the daemon's threads have worked; other work on the machine is not in it.
    fn worked(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Puts load on the daemon, and counts its work.
    pub fn load(&self, of_client: &[Vec<u8>], requests: usize) -> Load {
        let before = self.worked();
        let load = load(self.address, of_client, requests);
        let work = (self.worked() - before) / u32::try_from(requests).unwrap();
        Load { work, ..load }
    }

    /// Returns the memory that it takes.
    pub fn resident_mb(&self) -> f64 {
        self.status_mb("VmRSS:")
    }

    /// Returns the most memory that it took.
    pub fn peak_mb(&self) -> f64 {
        self.status_mb("VmHWM:")
    }

    fn status_mb(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What came of a load.
pub struct Load {
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// What the daemon worked per request.
    pub work: Duration,
}

/// Sends requests again and again over keep-alive connections, one client for each text, from one thread.
pub fn load(address: SocketAddr, of_client: &[Vec<u8>], requests: usize) -> Load {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = AtomicUsize::new(requests);
    let begun = Instant::now();
    let mut times: Vec<Duration> = runtime.block_on(async {
        let clients = of_client.iter().map(|request| client(address, request, &left));
        futures_util::future::join_all(clients).await.into_iter().flatten().collect()
    });
    let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    Load { per_second, p50, p99, work: Duration::ZERO }
}

async fn client(address: SocketAddr, request: &[u8], left: &AtomicUsize) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let sent = Instant::now();
        stream.write_all(request).await.unwrap();
        let filled = answer(&mut stream, &mut buffer).await;
        assert!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer[..filled])
        );
        times.push(sent.elapsed());
    }
    times
}

/// Reads an answer to its end, and returns its length.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await.unwrap();
        assert!(read > 0, "the connection was closed");
        filled += read;
        if is_whole(&buffer[..filled]) {
            return filled;
        }
    }
}

/// Asks once, and returns the answer with its head.
pub fn ask(address: SocketAddr, request: &[u8]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut buffer = vec![0; 64 * 1024];
        let filled = answer(&mut stream, &mut buffer).await;
        String::from_utf8_lossy(&buffer[..filled]).into_owned()
    })
}

/// Says whether an answer is there to its end.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    match text.lines().find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => answer.len() >= head + 4 + length.trim().parse::<usize>().unwrap(),
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Prints a load.
pub fn told(what: &str, load: &Load, note: &str) {
    println!(
        "{what:<44} {:>8.0} /s   p50 {:>6.0} us   p99 {:>6.0} us   work {:>4.0} us   {note}",
        load.per_second,
        load.p50.as_secs_f64() * 1e6,
        load.p99.as_secs_f64() * 1e6,
        load.work.as_secs_f64() * 1e6,
    );
}

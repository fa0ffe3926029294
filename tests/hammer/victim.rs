//! A process as its parent sees it: what it said, when it dies.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use nexus_router::store::Status;

/// An answer that a process gave.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    pub run_id: String,
    pub status: Status,
    pub events: u64,
}

pub struct Victim {
    process: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Victim {
    /// Starts this program again, in another role.
    pub fn start(role: &str, directory: &Path, store: &Path, seed: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg(role)
            .args([directory, store])
            .arg(seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let (heard, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // Without its end a line was cut off by the kill, and says nothing.
            while said.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
                if heard.send(line.trim_end().to_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { process, lines, heard: Vec::new() }
    }

    /// Waits until it says `word`. Says whether it did before it was gone.
    pub fn hear(&mut self, word: &str) -> bool {
        while let Ok(line) = self.lines.recv() {
            self.heard.push(line);
            if self.heard.last().is_some_and(|line| line == word) {
                return true;
            }
        }
        false
    }

    /// Waits for so many more answers. Says whether they came before it was gone.
    pub fn hear_answers(&mut self, count: usize) -> bool {
        let more: Vec<String> = self.lines.iter().take(count).collect();
        let all = more.len() == count;
        self.heard.extend(more);
        all
    }

    /// Kills it without a warning.
    pub fn kill(&mut self) {
        // It may have ended by itself, as one that recovers does.
        drop(self.process.kill());
        let ended = self.process.wait().unwrap();
        assert!(ended.success() || ended.signal() == Some(9), "it failed before: {ended}");
        self.heard.extend(self.lines.iter());
    }

    /// Asks it to end, and says whether it did so in order.
    pub fn stop(&mut self) -> bool {
        drop(self.process.stdin.take());
        self.heard.extend(self.lines.iter());
        self.process.wait().unwrap().success()
    }

    /// What it said that is no answer.
    pub fn words(&self) -> Vec<&str> {
        let answer = |line: &&str| !line.starts_with("run ");
        self.heard.iter().map(String::as_str).filter(answer).collect()
    }

    /// The answers that it gave.
    pub fn answers(&self) -> Vec<Acknowledged> {
        let answer = |line: &String| {
            let mut words = line.strip_prefix("run ")?.split(' ');
            Some(Acknowledged {
                run_id: words.next()?.to_owned(),
                status: Status::from_name(words.next()?)?,
                events: words.next()?.parse().ok()?,
            })
        };
        self.heard.iter().filter_map(answer).collect()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

//! The clients: each on its own connection, asking for anything, well or badly, until it is over.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::dice::Dice;
use crate::gate::{Gate, There};
use crate::scene::{self, TOOLS};

/// What one client knows at the end.
#[derive(Default)]
pub struct Notes {
    /// Every run that was acknowledged, and how it ended if that was told.
    pub acknowledged: Vec<(String, Option<String>)>,
    /// Keys with the run that each of them got.
    pub keys: Vec<(String, String)>,
    /// How long answered runs took.
    pub times: Vec<Duration>,
    pub requests: u64,
    /// Requests that broke because the daemon was taken away.
    pub broken: u64,
    /// Requests with a key that were sent again to another process.
    pub retried: u64,
}

struct Visitor<'a> {
    gate: &'a Gate,
    token: &'a str,
    name: u64,
    dice: Dice,
    notes: Notes,
    there: There,
    client: Client,
}

/// Visits the daemon until it is over.
pub fn visit(gate: &Gate, token: &str, name: u64, seed: u64) -> Notes {
    let there = gate.there();
    let client = Client::new(there.address, Some(token.to_owned()));
    let (dice, notes) = (Dice::new(seed ^ (name << 32)), Notes::default());
    let mut visitor = Visitor { gate, token, name, dice, notes, there, client };
    while !gate.is_over() {
        if let Err(error) = visitor.one() {
            visitor.come_back(&error);
        }
    }
    visitor.notes
}

impl Visitor<'_> {
    /// Waits for another daemon, after the one that was there is gone.
    fn come_back(&mut self, error: &io::Error) {
        assert!(!self.gate.is_still(self.there), "a request failed with no reason: {error:?}");
        self.notes.broken += 1;
        self.go_there();
    }

    /// Goes to where the daemon is now, when it is there.
    fn go_there(&mut self) {
        self.there = self.gate.there();
        self.client = Client::new(self.there.address, Some(self.token.to_owned()));
    }

    fn goal(&self, what: &str) -> String {
        format!("{what} {}-{}", self.name, self.notes.requests)
    }

    /// Does one thing.
    fn one(&mut self) -> io::Result<()> {
        self.notes.requests += 1;
        match self.dice.below(20) {
            0..=7 => self.wait_for_run("/v1/runs"),
            8 => self.wait_for_run("/v1/runs?wait=0.01"),
            9 | 10 => self.wait_for_run("/v1/runs?wait=false"),
            11 | 12 => self.call_tool(),
            13 | 14 => self.with_key(),
            15 => self.break_off(),
            16 => self.ask_badly(),
            17 => self.follow(),
            18 => self.cancel(),
            _ => self.look(),
        }
    }

    /// Sends a run and notes what was acknowledged.
    fn wait_for_run(&mut self, path: &str) -> io::Result<()> {
        let request = scene::request(&self.goal("run"), &mut self.dice);
        let begun = Instant::now();
        let answer = self.client.post(path, &request)?;
        if answer.status == 200 {
            self.notes.times.push(begun.elapsed());
        }
        self.acknowledge(&answer);
        Ok(())
    }

    fn acknowledge(&mut self, answer: &Answer) -> Option<String> {
        if self.is_leaving(answer) {
            return None;
        }
        let body = answer.json();
        assert!(matches!(answer.status, 200 | 202), "{} {body}", answer.status);
        let run_id = body["run_id"].as_str().or(body["run"]["run_id"].as_str()).unwrap().to_owned();
        let status = body["status"].as_str().unwrap();
        assert_eq!(answer.status == 202, status == "RUNNING", "{body}");
        let status = (status != "RUNNING").then(|| status.to_owned());
        self.notes.acknowledged.push((run_id.clone(), status));
        Some(run_id)
    }

    /// Says whether a daemon does not take anything because it is about to go.
    fn is_leaving(&self, answer: &Answer) -> bool {
        let leaving = answer.status == 503 && answer.json()["code"] == "DRAINING";
        assert!(!leaving || !self.gate.is_still(self.there), "it drains, and nobody asked it to");
        leaving
    }

    fn call_tool(&mut self) -> io::Result<()> {
        let path = format!("/v1/tools/tool-{}", self.dice.below(TOOLS));
        let answer = self.client.post(&path, &json!({ "args": { "number": self.dice.next() } }))?;
        self.acknowledge(&answer);
        Ok(())
    }

    /// Asks with a key until there is an answer, from whatever process, and then once more.
    fn with_key(&mut self) -> io::Result<()> {
        let key = self.goal("key");
        let mut request = scene::request(&key, &mut self.dice);
        request["idempotency_key"] = json!(key);
        let first = self.insist(&request);
        let second = self.insist(&request);
        assert_eq!(first, second, "{key}");
        self.notes.keys.push((key, first));
        Ok(())
    }

    fn insist(&mut self, request: &Value) -> String {
        loop {
            match self.client.post("/v1/runs", request) {
                Ok(answer) => match self.acknowledge(&answer) {
                    Some(run_id) => return run_id,
                    None => self.go_there(),
                },
                Err(error) => {
                    self.come_back(&error);
                    self.notes.retried += 1;
                }
            }
        }
    }

    /// Goes away while the daemon works, and sometimes before it has the whole request.
    fn break_off(&mut self) -> io::Result<()> {
        let request = scene::request(&self.goal("gone"), &mut self.dice).to_string();
        let path =
            ["/v1/runs", "/v1/runs?on_disconnect=cancel"][usize::from(self.dice.below(2) == 0)];
        if self.dice.below(4) == 0 {
            let part = &request.as_bytes()[..8];
            self.client.send_part(("POST", path), &[], part, request.len())?;
        } else {
            self.client.send("POST", path, &[], request.as_bytes())?;
        }
        self.client.break_off();
        Ok(())
    }

    fn ask_badly(&mut self) -> io::Result<()> {
        let unknown = scene::request("bad", &mut self.dice);
        let mut unknown = unknown.as_object().cloned().unwrap();
        unknown.insert("zzz".to_owned(), json!(1));
        let (path, body, expected) = match self.dice.below(5) {
            0 => ("/v1/runs", "{".to_owned(), 400..=422),
            1 => ("/v1/runs", Value::Object(unknown).to_string(), 422..=422),
            2 => ("/v1/nothing", "{}".to_owned(), 404..=404),
            3 => ("/v1/tools/nobody", "{}".to_owned(), 404..=404),
            _ => ("/v1/runs?wait=often", "{\"goal\": \"x\"}".to_owned(), 400..=400),
        };
        self.client.send("POST", path, &[], body.as_bytes())?;
        let answer = self.client.receive()?;
        assert!(expected.contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        Ok(())
    }

    /// Follows a run to its end, or goes away before.
    fn follow(&mut self) -> io::Result<()> {
        let request = scene::request(&self.goal("followed"), &mut self.dice);
        let accepted = self.client.post("/v1/runs?wait=false", &request)?;
        let Some(run_id) = self.acknowledge(&accepted) else { return Ok(()) };
        self.client.send("GET", &format!("/v1/runs/{run_id}/events"), &[], b"")?;
        let head = self.client.head()?;
        assert_eq!(head.status, 200, "{run_id}");
        let chunks = if self.dice.below(3) == 0 { self.dice.below(4) } else { u64::MAX };
        let mut text = String::new();
        for _ in 0..chunks {
            match self.client.chunk()? {
                Some(chunk) => text.push_str(&String::from_utf8_lossy(&chunk)),
                None => {
                    let cut = !self.gate.is_still(self.there);
                    assert!(cut || text.contains("event: end"), "{run_id}: {text}");
                    return Ok(());
                }
            }
        }
        self.client.break_off();
        Ok(())
    }

    fn cancel(&mut self) -> io::Result<()> {
        let request = scene::request(&self.goal("cancelled"), &mut self.dice);
        let accepted = self.client.post("/v1/runs?wait=false", &request)?;
        let Some(run_id) = self.acknowledge(&accepted) else { return Ok(()) };
        let answer = self.client.post(&format!("/v1/runs/{run_id}/cancel"), &json!({}))?;
        // It may be over already.
        assert!(matches!(answer.status, 202 | 409), "{} {}", answer.status, answer.text());
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        let paths =
            ["/v1/runs?limit=5", "/v1/status", "/metrics", "/v1/tools", "/v1/adapters", "/healthz"];
        let path = paths[self.dice.index(paths.len())];
        let answer = self.client.get(path)?;
        // Whoever asks in the last moment of a daemon may be told that it is the last.
        let ending = answer.status == 503 && !self.gate.is_still(self.there);
        assert!(answer.status == 200 || ending, "{path}: {} {}", answer.status, answer.text());
        Ok(())
    }
}

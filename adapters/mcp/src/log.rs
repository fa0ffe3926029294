//! What the server says for people: bounded, freed of secrets, and no more of it than anybody can read.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nexus_router_sdk::{CallContext, Host, Level, redact};

use crate::failure::short;

/// How long a line may be, in characters.
const MAX_LINE: usize = 2000;

/// Lines that may come at once, and then per second.
const BURST: f64 = 100.0;
const PER_SECOND: f64 = 20.0;

/// The way to the host's log.
pub(crate) struct Log {
    host: Host,
    secrets: Vec<String>,
    pace: Mutex<Pace>,
}

impl Log {
    pub(crate) fn new(host: Host, secrets: Vec<String>) -> Self {
        Self { host, secrets, pace: Mutex::new(Pace::new(BURST, PER_SECOND)) }
    }

    /// Tells what the adapter itself has to say.
    pub(crate) fn tell(&self, level: Level, text: &str) {
        self.host.log(level, &self.clean(text));
    }

    /// Passes on a line of the server, in the name of a call if one is given.
    pub(crate) fn pass(&self, level: Level, text: &str, context: Option<&CallContext>) {
        let (granted, lost) = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            (pace.take(), pace.told())
        };
        if lost > 0 {
            self.host.log(
                Level::Warn,
                &format!("the MCP server said too much: {lost} lines are left out"),
            );
        }
        if !granted {
            return;
        }
        let text = self.clean(text);
        match context {
            Some(context) => context.log(level, &text),
            None => self.host.log(level, &text),
        }
    }

    fn clean(&self, text: &str) -> String {
        let mut text = short(text.trim_end(), MAX_LINE);
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), redact::REDACTED);
            }
        }
        let text = redact::text(&text);
        text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
    }
}

/// Grants so many at once, and then so many per second.
pub(crate) struct Pace {
    left: f64,
    burst: f64,
    per_second: f64,
    last: Instant,
    lost: u64,
}

impl Pace {
    pub(crate) fn new(burst: f64, per_second: f64) -> Self {
        Self { left: burst, burst, per_second, last: Instant::now(), lost: 0 }
    }

    /// Says whether one more is granted now.
    pub(crate) fn take(&mut self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.last).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.burst);
        self.last = now;
        if self.left < 1.0 {
            self.lost += 1;
            return false;
        }
        self.left -= 1.0;
        true
    }

    /// Returns how many were not granted, once there is room to say so.
    fn told(&mut self) -> u64 {
        if self.left < 1.0 { 0 } else { std::mem::take(&mut self.lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::Recorder;
    use std::time::Duration;

    #[test]
    fn secrets_and_control_characters_do_not_get_through() {
        let recorder = Recorder::default();
        let log = Log::new(recorder.host(), vec!["s3cretvalue".to_owned()]);
        log.pass(Level::Info, "a \u{1b}[1m s3cretvalue b\n", None);
        let notices = recorder.notices();
        let line = notices[0]["message"].as_str().unwrap();
        assert!(
            !line.contains("s3cret") && !line.contains('\u{1b}') && line.ends_with(" b"),
            "{line}"
        );
    }

    #[test]
    fn a_flood_is_cut_and_told() {
        let recorder = Recorder::default();
        let log = Log::new(recorder.host(), Vec::new());
        for _ in 0..10_000 {
            log.pass(Level::Info, "x", None);
        }
        assert!(recorder.notices().len() < 1000);
        let start = Instant::now();
        let mut pace = Pace::new(2.0, 1.0);
        assert_eq!([(); 4].map(|()| pace.take_at(start)), [true, true, false, false]);
        assert_eq!(pace.told(), 0);
        assert!(pace.take_at(start + Duration::from_millis(2500)));
        assert_eq!(pace.told(), 2);
    }
}

//! The way of log lines to their sink: bounded, and never waited for.
//!
//! A full pipe must not stop the daemon. What finds no room is dropped and counted, and one line tells of it
//! when there is room again.

use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Error;

/// So many lines may wait.
pub(super) const MAX_LINES: usize = 8192;
/// So many bytes may wait.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// How long to wait before it is tried again to end a pipe that is full.
const PAUSE: Duration = Duration::from_millis(5);

enum Message {
    Line(String),
    Stop,
}

#[derive(Debug, Default)]
struct Counters {
    lost: AtomicU64,
    bytes: AtomicUsize,
}

/// Where lines go in.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    lines: SyncSender<Message>,
    counters: Arc<Counters>,
}

impl Pipe {
    /// Hands over a line with its end. Never waits.
    pub(super) fn send(&self, line: String) {
        let bytes = line.len();
        let before = self.counters.bytes.fetch_add(bytes, Ordering::AcqRel);
        let sent = before < MAX_BYTES && self.lines.try_send(Message::Line(line)).is_ok();
        if !sent {
            self.counters.bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.counters.lost.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The thread that writes. When it goes, what waits is written, as far as the sink takes it in time.
#[derive(Debug)]
pub(super) struct Writer {
    lines: SyncSender<Message>,
    /// Only asked at the end; the lock is there so that threads can share the writer.
    ended: Mutex<Receiver<()>>,
    patience: Duration,
}

/// Starts a thread that writes to `sink`. `told` makes the line that says how many were dropped.
pub(super) fn start(
    mut sink: Box<dyn Write + Send>,
    told: impl Fn(u64) -> String + Send + 'static,
    patience: Duration,
) -> Result<(Pipe, Writer), Error> {
    let (lines, inbox) = sync_channel(MAX_LINES);
    // Nothing is sent: it ends with the thread.
    let (end, ended) = sync_channel(1);
    let counters = Arc::new(Counters::default());
    let pipe = Pipe { lines: lines.clone(), counters: Arc::clone(&counters) };
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || {
            while let Ok(message) = inbox.recv() {
                if let Message::Line(line) = &message {
                    // Nobody can be told that the log cannot be written.
                    drop(sink.write_all(line.as_bytes()));
                    counters.bytes.fetch_sub(line.len(), Ordering::AcqRel);
                }
                let lost = counters.lost.swap(0, Ordering::AcqRel);
                if lost > 0 {
                    drop(sink.write_all(told(lost).as_bytes()));
                }
                if let Message::Stop = message {
                    break;
                }
            }
            drop(sink.flush());
            drop(end);
        })
        .map_err(|error| Error::Start(format!("no thread for the log: {error}")))?;
    Ok((pipe, Writer { lines, ended: Mutex::new(ended), patience }))
}

impl Drop for Writer {
    fn drop(&mut self) {
        let end = Instant::now() + self.patience;
        loop {
            match self.lines.try_send(Message::Stop) {
                Err(TrySendError::Full(_)) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(TrySendError::Full(_)) => return,
                Ok(()) | Err(TrySendError::Disconnected(_)) => break,
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        // A sink that takes nothing keeps its thread, and not us.
        let _: Result<(), RecvTimeoutError> =
            self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(left);
    }
}

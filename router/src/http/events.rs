//! The events of a run as a stream, which can be taken up where it broke off.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use tokio::sync::watch;

use super::body::CallerMemory;
use super::guard::{Context, mistake};
use super::problem::Problem;
use crate::access::Bearer;
use crate::budget::Reservation;
use crate::event::Line;
use crate::json::{self, Object};
use crate::service::{OpenStream, Service};
use crate::store::{self, Status, Tail};

/// The shortest time between two looks, however often there is a commit.
const SHORTEST: Duration = Duration::from_millis(25);
/// The longest time between two looks: another process may carry out the run.
const LONGEST: Duration = Duration::from_secs(1);
/// How often a stream without events shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// The largest number that every reader of JSON keeps.
const MAX_NUMBER: i64 = i64::MAX >> 10;

/// Copies of a page in memory while it is read: in SQLite, its text, its lines, and the events that are sent.
const COPIES: usize = 4;
/// Copies of events until the client took them.
const HELD_COPIES: usize = 2;
/// A stream reads pages up to so many bytes, with their copies, without waiting for room.
const SMALL: usize = 256 * 1024;

/// Streams the events of a run.
pub(super) async fn stream(context: Context) -> Result<Response, Problem> {
    let from = first(&context)?;
    let run_id = context.param("run_id").to_owned();
    let service = context.service.clone();
    let open = service.stream(&context.bearer.caller)?;
    let committed = service.store().committed()?;
    let (memory, bearer) = (context.memory.clone(), context.bearer.clone());
    let source = TailSource { service, run_id, memory, bearer };
    let (begun, reservation) = source.read(from).await?;
    if from > 0 && is_over(&begun, from) {
        // To a browser this says that it need not come again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut follower = Follower {
        source,
        committed,
        next: from,
        ready: VecDeque::new(),
        over: false,
        last_look: false,
        reservation: Some(reservation),
        _open: open,
    };
    follower.take(begun);
    let events = stream::unfold(follower, |mut follower| async {
        let event = follower.event().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE));
    let mut response = sse.into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Reads the number of the first event that is wanted.
fn first(context: &Context) -> Result<u64, Problem> {
    let Some(last) = context.header("last-event-id").or(context.query("after")) else {
        return Ok(0);
    };
    let wrong = || Problem::query("Last-Event-ID, or after, must be the number of an event");
    let last: i64 = last.trim().parse().map_err(|_| wrong())?;
    if last > MAX_NUMBER {
        return Err(wrong());
    }
    u64::try_from(last + 1).map_err(|_| wrong())
}

fn is_over(tail: &Tail, next: u64) -> bool {
    let progress = &tail.record.progress;
    progress.status != Status::Running && next >= progress.events
}

/// Reads the events of a run within the memory budget.
struct TailSource {
    service: Service,
    run_id: String,
    memory: CallerMemory,
    bearer: Bearer,
}

impl TailSource {
    /// Reads the next events, in turn with other readers. Large events wait for room before they are read.
    async fn read(&self, from: u64) -> Result<(Tail, Reservation), Problem> {
        let mut room: Option<Reservation> = None;
        loop {
            let (store, run_id) = (self.service.store().clone(), self.run_id.clone());
            let visible = self.bearer.visible_runs();
            let reserved = room.as_ref().map_or(SMALL, Reservation::bytes);
            let turn = self.service.turn(Some(&self.bearer.caller)).await;
            let asked = move || {
                let needed = COPIES * store.largest_page_from(&run_id, from)?;
                let tail =
                    (needed <= reserved).then(|| store.tail_visible(&run_id, from, &visible));
                drop(turn);
                Ok::<_, store::Error>((needed, tail.transpose()?))
            };
            let asked = tokio::task::spawn_blocking(asked).await;
            let (needed, tail) = asked.map_err(|error| mistake(&error))??;
            let Some(tail) = tail else {
                drop(room.take());
                room = Some(self.memory.wait(needed).await?);
                continue;
            };
            let tail = tail.ok_or_else(|| Problem::no_run(&self.run_id))?;
            let bytes = HELD_COPIES * tail.lines.iter().map(|(_, line)| line.len()).sum::<usize>();
            let mut reservation = room.unwrap_or_else(|| self.memory.reserve_taken(bytes));
            reservation.shrink_to(bytes);
            return Ok((tail, reservation));
        }
    }
}

/// Follows a run. It holds the events of one read, which are counted; a client that does not read gets no more.
struct Follower {
    source: TailSource,
    committed: watch::Receiver<()>,
    next: u64,
    ready: VecDeque<Event>,
    over: bool,
    /// The daemon stops: what is there now is told, and then the stream ends.
    last_look: bool,
    /// Memory of the ready events.
    reservation: Option<Reservation>,
    _open: OpenStream,
}

impl Follower {
    fn take(&mut self, mut tail: Tail) {
        for (seq, line) in std::mem::take(&mut tail.lines) {
            let kind =
                Line::read(&line).map_or_else(|_| "event".to_owned(), |line| line.kind.into());
            let event = Event::default().id(seq.to_string()).event(kind).data(line);
            self.ready.push_back(event);
            self.next = seq + 1;
        }
        if is_over(&tail, self.next) {
            let mut end = Object::new();
            end.insert("run_id", self.source.run_id.as_str());
            end.insert("status", tail.record.progress.status.name());
            let data = json::to_compact(&end.into());
            self.ready.push_back(Event::default().event("end").data(data));
            self.over = true;
        }
    }

    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            self.reservation = None;
            if self.last_look {
                return None;
            }
            // A stream is not better than the token that it was asked for with.
            let TailSource { service, bearer, .. } = &mut self.source;
            *bearer = service.current_bearer(bearer)?;
            self.last_look = service.is_draining() && service.router().runs_in_flight() == 0;
            self.committed.mark_unchanged();
            // Without room or record the stream ends, and the client reconnects.
            let (tail, reservation) = self.source.read(self.next).await.ok()?;
            self.reservation = Some(reservation);
            self.take(tail);
            if self.ready.is_empty() && !self.over && !self.last_look {
                self.wait().await;
            }
        }
    }

    /// Waits for a commit, for the time, or for the end of the daemon.
    async fn wait(&mut self) {
        tokio::time::sleep(SHORTEST).await;
        tokio::select! {
            _ = self.committed.changed() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    }
}

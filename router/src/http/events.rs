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

use super::body::{Memory, Right};
use super::guard::Context;
use super::problem::Problem;
use crate::access::Bearer;
use crate::event::Line;
use crate::json::{self, Object};
use crate::service::{Counted, Service};
use crate::store::{Status, Tail};

/// The shortest time between two looks, however often there is a commit.
const SHORTEST: Duration = Duration::from_millis(25);
/// The longest time between two looks: another process may carry out the run.
const LONGEST: Duration = Duration::from_secs(1);
/// How often a stream without events shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// The largest number that every reader of JSON keeps.
const MAX_NUMBER: i64 = i64::MAX >> 10;

/// Streams the events of a run.
pub(super) async fn stream(context: Context) -> Result<Response, Problem> {
    let from = first(&context)?;
    let run_id = context.param("run_id").to_owned();
    let service = context.service.clone();
    let counted = service
        .stream()
        .ok_or_else(|| Problem::overloaded("there are as many event streams as there may be"))?;
    let committed = service.store().committed()?;
    let (memory, bearer) = (context.memory.clone(), context.bearer.clone());
    let begun = {
        let run_id = run_id.clone();
        context
            .ask(move |context| {
                let visible = context.bearer.visible_runs();
                let tail = context.service.store().tail_visible(&run_id, from, &visible)?;
                tail.ok_or_else(|| Problem::no_run(&run_id))
            })
            .await?
    };
    if from > 0 && is_over(&begun, from) {
        // To a browser this says that it need not come again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut follower = Follower {
        service,
        run_id,
        committed,
        next: from,
        ready: VecDeque::new(),
        over: false,
        last_look: false,
        memory,
        bearer,
        right: None,
        _counted: counted,
    };
    follower.take(&begun);
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

/// Follows a run. It holds as much as one look gives, which is counted; a client that does not read gets no
/// more.
struct Follower {
    service: Service,
    run_id: String,
    committed: watch::Receiver<()>,
    next: u64,
    ready: VecDeque<Event>,
    over: bool,
    /// The daemon stops: what is there now is told, and then the stream ends.
    last_look: bool,
    memory: Memory,
    bearer: Bearer,
    /// The right to the memory of what is ready.
    right: Option<Right>,
    _counted: Counted,
}

impl Follower {
    fn take(&mut self, tail: &Tail) {
        for (seq, line) in &tail.lines {
            let kind =
                Line::read(line).map_or_else(|_| "event".to_owned(), |line| line.kind.into());
            let event = Event::default().id(seq.to_string()).event(kind).data(line);
            self.ready.push_back(event);
            self.next = seq + 1;
        }
        if is_over(tail, self.next) {
            let mut end = Object::new();
            end.insert("run_id", self.run_id.as_str());
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
            self.right = None;
            if self.last_look {
                return None;
            }
            // A stream is not better than the token that it was asked for with.
            self.bearer = self.service.current_bearer(&self.bearer)?;
            self.last_look =
                self.service.is_draining() && self.service.router().runs_in_flight() == 0;
            self.look().await?;
            if self.ready.is_empty() && !self.over && !self.last_look {
                self.wait().await;
            }
        }
    }

    /// Reads what is new, in turn with others who read.
    async fn look(&mut self) -> Option<()> {
        let (store, run_id, next) = (self.service.store().clone(), self.run_id.clone(), self.next);
        self.committed.mark_unchanged();
        let turn = self.service.turn().await;
        let visible = self.bearer.visible_runs();
        let asked = move || (store.tail_visible(&run_id, next, &visible), turn);
        match tokio::task::spawn_blocking(asked).await {
            Ok((Ok(Some(tail)), turn)) => {
                let bytes = tail.lines.iter().map(|(_, line)| line.len()).sum();
                self.right = self.memory.answer(bytes).await;
                self.take(&tail);
                drop(turn);
                Some(())
            }
            // The client comes again and is told what is wrong.
            Ok((Ok(None) | Err(_), _)) | Err(_) => None,
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

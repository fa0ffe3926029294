//! Notices to a client whose call waits for a person: which approval, until when, and how to approve it.
//!
//! A client that follows tasks reads them from its task. Any other gets progress notifications if it gave a progress token,
//! and log messages if its log level or its era allows them.
#![expect(deprecated, reason = "callers of the older era still ask for log lines")]

use std::time::{Duration, Instant};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam};
use serde_json::{Value, json};

use super::Handler;
use super::call::{Ear, SILENT, weight};
use super::sessions::Asked;
use crate::app::StoreOption;
use crate::outcome::Waiting;

/// The pause between two notices about the same approval. Clients commonly give up after 60 seconds without progress.
const REPEAT: Duration = Duration::from_secs(15);
/// The level of the log messages.
const LEVEL: LoggingLevel = LoggingLevel::Warning;

/// Way to reach a client whose call waits.
#[derive(Clone, Copy)]
pub(super) enum NoticeChannel<'a> {
    /// The client gets nothing but the answer.
    None,
    /// The client is reached through the library.
    Library(&'a Ear<'a>),
    /// The client of a session is reached on the stream of its answer.
    Stream(&'a Asked),
}

/// Decides when a notice is due: at once, for every approval, and again after a pause.
#[derive(Default)]
pub(super) struct NoticeSchedule {
    sent: Option<(String, Instant)>,
}

impl NoticeSchedule {
    fn is_due(&self, approval_id: &str, now: Instant) -> bool {
        self.sent.as_ref().is_none_or(|(sent, at)| sent != approval_id || now - *at >= REPEAT)
    }
}

/// A call that waits.
pub(super) struct WaitingCall<'a> {
    pub(super) run_id: &'a str,
    /// Whether the call has an idempotency key, so that its caller can find it again.
    pub(super) has_key: bool,
}

impl Handler {
    /// Notifies the client of an approval, if a notice is due.
    pub(super) async fn notify_waiting(
        &self,
        channel: NoticeChannel<'_>,
        schedule: &mut NoticeSchedule,
        call: &WaitingCall<'_>,
        waiting: &Waiting,
    ) {
        let now = Instant::now();
        if !schedule.is_due(&waiting.approval_id, now) {
            return;
        }
        // Before it is sent: a client that reads slowly must not be sent the notice again and again.
        let former = schedule.sent.replace((waiting.approval_id.clone(), now));
        let message = || self.waiting_text(call, waiting);
        match channel {
            NoticeChannel::None => {}
            NoticeChannel::Library(ear) => {
                ear.notify_waiting(&message(), &fields(call, waiting)).await;
            }
            NoticeChannel::Stream(asked) => {
                if !asked.notify(|| log_message(&message(), &fields(call, waiting))) {
                    schedule.sent = former;
                }
            }
        }
    }

    fn waiting_text(&self, call: &WaitingCall<'_>, waiting: &Waiting) -> String {
        let Waiting { approval_id, tool, method, adapter_id, reason, expires_at, .. } = waiting;
        let WaitingCall { run_id, has_key } = call;
        let why = reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let again = if *has_key {
            "send the same call with the same nexus-router/idempotencyKey to get its result"
        } else {
            "a call with a nexus-router/idempotencyKey in its _meta can be sent again to get its result"
        };
        let text = format!(
            "{tool}.{method} of adapter '{adapter_id}' waits for a person's approval {approval_id} until \
             {expires_at}{why}. Approve it with `{}` or POST /v1/approvals/{approval_id}/approve. If this call times \
             out, run {run_id} keeps waiting; {again}.",
            self.approve_command(approval_id),
        );
        self.scrubbed(&text)
    }

    /// Returns the command that approves a call, as an operator can paste it on the router's machine.
    fn approve_command(&self, approval_id: &str) -> String {
        // A router on standard input and output has no address, so its store is named.
        let store = if self.local.is_some() { StoreOption::Always } else { StoreOption::IfNamed };
        let options = self.service().app().command_options(store);
        format!("nexus-router approvals approve {approval_id}{options}")
    }
}

fn fields(call: &WaitingCall<'_>, waiting: &Waiting) -> Value {
    json!({
        "approval_id": waiting.approval_id,
        "run_id": call.run_id,
        "expires_at": waiting.expires_at,
    })
}

/// Returns the notification of a log message.
fn log_message(message: &str, fields: &Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": { "level": LEVEL, "data": { "message": message, "fields": fields } },
    })
}

impl Ear<'_> {
    /// Sends progress and a log message, as far as the client wants them. The answer comes even if neither arrives.
    async fn notify_waiting(&self, message: &str, fields: &Value) {
        let peer = &self.context.peer;
        if let Some(token) = &self.token {
            let mut progress = ProgressNotificationParam::new(token.clone(), self.next_progress());
            progress.message = Some(message.to_owned());
            drop(peer.notify_progress(progress).await);
        }
        // In the older era a server may log to a client that set no level.
        let wanted = match self.level {
            SILENT => !super::asking::is_stateless(self.context),
            level => weight(LEVEL) >= level,
        };
        if wanted {
            let data = json!({ "message": message, "fields": fields });
            let notice = LoggingMessageNotificationParam::new(LEVEL, data);
            drop(peer.notify_logging_message(notice).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_is_due_at_once_and_after_a_pause() {
        let mut schedule = NoticeSchedule::default();
        let now = Instant::now();
        assert!(schedule.is_due("a", now));
        schedule.sent = Some(("a".to_owned(), now));
        assert!(!schedule.is_due("a", now + REPEAT - Duration::from_millis(1)));
        assert!(schedule.is_due("a", now + REPEAT));
        assert!(schedule.is_due("b", now));
    }
}

//! What a child said so far, put together. It is believed only as far as a child of ours can say it.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use super::adapter::MAX_ANSWER;
use super::library::Stage;
use super::notice::{self, Notice};
use super::wire::{Message, Observations};
use crate::grant::Feature;
use crate::sandbox::Confinement;
use crate::worker::{Ending, Frame, Gathering, Kind};

/// The longest message. An answer is JSON inside JSON, so quotes and backslashes, which may be all of it,
/// stand twice.
const MAX_MESSAGE: usize = 2 * MAX_ANSWER + 1024 * 1024;
/// Any other message is shorter.
const MAX_OTHER: usize = 2 * 1024 * 1024;
/// More notices are dropped.
const MAX_NOTICES: usize = 1000;
/// Notices beyond this many bytes in all are dropped.
const MAX_NOTICE_BYTES: usize = 4 * 1024 * 1024;

/// What a child said.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// What it saw, or why it does not go on.
    pub(super) result: Option<Result<Observations, Halt>>,
    /// The step that it has reached; nothing when it never spoke, and so is no child of ours.
    pub(super) stage: Option<Stage>,
    pub(super) confinement: Option<Confinement>,
    pub(super) notices: Vec<Notice>,
    /// The answer to the call.
    pub(super) answer: Option<Result<String, String>>,
    /// The description of an instance that carries out calls.
    pub(super) serving: Option<String>,
    /// How the child ended, as its guard says.
    pub(super) epitaph: Option<Ending>,
    /// The session that the child is in.
    pub(super) session: Option<u32>,
    /// Hears of connects.
    pub(super) connects: Option<OwnedFd>,
    /// Listener for the attempts of an observed child.
    pub(super) listener: Option<OwnedFd>,
    notice_bytes: usize,
    gathering: Gathering,
}

/// Why a child did not do what it was to do.
#[derive(Clone, Debug)]
pub(super) enum Halt {
    /// The library could not be opened; the reason's code, and the text behind it.
    Refused { reason: String, text: String },
    /// The factory returned this error text.
    FactoryFailed { error: String },
    /// The kernel cannot confine it.
    Unconfined { missing: Vec<Feature> },
    /// Confining it failed.
    Unfit { why: String },
    /// The process ended.
    Ended(Ending),
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { text, .. } => write!(f, "could not be opened: {text}"),
            Self::FactoryFailed { .. } => f.write_str("has a factory that failed"),
            Self::Unconfined { missing } => {
                let missing: Vec<&str> = missing.iter().map(|feature| feature.name()).collect();
                write!(f, "cannot be confined: the kernel lacks {}", missing.join(", "))
            }
            Self::Unfit { why } => write!(f, "cannot be confined: {why}"),
            Self::Ended(ending) => ending.fmt(f),
        }
    }
}

impl Hearing {
    /// Takes a frame. Breaks off when the child serves, or breaks the rules.
    pub(super) fn take(
        &mut self,
        frame: Frame<'_>,
        descriptor: Option<OwnedFd>,
    ) -> ControlFlow<()> {
        let kind = frame.kind;
        let text = match self.gathering.add(frame, MAX_MESSAGE) {
            Ok(Some(text)) => text,
            Ok(None) => return ControlFlow::Continue(()),
            Err(how) => {
                self.result = Some(Err(Halt::Ended(Ending::Garbled { how })));
                return ControlFlow::Break(());
            }
        };
        match kind {
            Kind::Notice => self.notice(&text),
            Kind::Ended => self.epitaph = Ending::read(&text),
            // What is no message comes from the library's own writing, and so does one that is longer than
            // ours are.
            Kind::Said if text.len() <= MAX_OTHER || text.starts_with(br#"{"answer":"#) => {
                if let Ok(message) = serde_json::from_slice(&text) {
                    self.said(message, descriptor);
                }
            }
            _ => {}
        }
        if self.serving.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn said(&mut self, message: Message, descriptor: Option<OwnedFd>) {
        match message {
            // The first was sent before the library ran; another could be the library's.
            Message::Confined { confinement, session } => {
                if self.confinement.is_none() {
                    self.connects = descriptor;
                    self.confinement = Some(confinement);
                    self.session = Some(session);
                }
                self.stage.get_or_insert(Stage::Start);
            }
            // As above.
            Message::Listener {} if self.confinement.is_none() => self.listener = descriptor,
            Message::Listener {} => {}
            Message::Unconfined { missing } => {
                self.stage.get_or_insert(Stage::Start);
                self.result = Some(Err(Halt::Unconfined { missing }));
            }
            Message::Unfit { why } => {
                self.stage.get_or_insert(Stage::Start);
                self.result = Some(Err(Halt::Unfit { why }));
            }
            Message::Stage(stage) => self.stage = Some(stage),
            Message::Refused { reason, text } => {
                self.result = Some(Err(Halt::Refused { reason, text }));
            }
            Message::FactoryFailed { error } => {
                self.result = Some(Err(Halt::FactoryFailed { error }));
            }
            Message::Answer(answer) => self.answer = Some(answer),
            Message::Done(observations) => self.result = Some(Ok(observations)),
            Message::Serving { description } => self.serving = Some(description),
        }
    }

    fn notice(&mut self, text: &[u8]) {
        self.notice_bytes = self.notice_bytes.saturating_add(text.len());
        if self.notices.len() < MAX_NOTICES && self.notice_bytes <= MAX_NOTICE_BYTES {
            // The caller that started the child knows the adapter.
            self.notices.extend(notice::read(None, text));
        }
    }
}

//! Frames: what the router and a worker say to each other, one message of their socket each.
//!
//! The socket keeps messages apart, so nobody can lie about a length and no byte of one is taken for another.
//! A text that is too long for one message goes in pieces.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// The longest message. It fits the smallest buffer that sockets have.
pub(crate) const MAX_FRAME: usize = 64 * 1024;
/// A kind and an id.
const HEAD: usize = 9;
/// The kind of the whole text, its length, and where in it the piece stands.
const PIECE_HEAD: usize = HEAD + 9;

/// Only the first and the last piece of a text may be smaller.
const LEAST_PIECE: usize = 1024;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To a worker: what it is to do, before anything else.
    Job = 1,
    /// To a worker: a request. The id is the answer's.
    Call = 2,
    /// To a worker: give up the call with this name.
    Cancel = 3,
    /// To a worker: end.
    End = 4,
    /// From a worker: how it comes along, until it serves.
    Said = 5,
    /// From a worker: the output of a call.
    Answer = 6,
    /// From a worker: the error of a call.
    Error = 7,
    /// From a worker: something for the log.
    Notice = 8,
    /// From a guard: how its worker ended, after everything that it had started.
    Ended = 10,
    /// From a worker: something that a call asks for. The id is the answer's, and the worker's choice.
    Ask = 11,
    /// To a worker: what was asked for.
    Told = 12,
    /// To a worker: the error in place of it.
    Untold = 13,
}

/// Stands for the kind of a frame that is only a piece.
const PIECE: u8 = 9;

impl Kind {
    const ALL: [Self; 12] = [
        Self::Job,
        Self::Call,
        Self::Cancel,
        Self::End,
        Self::Said,
        Self::Answer,
        Self::Error,
        Self::Notice,
        Self::Ended,
        Self::Ask,
        Self::Told,
        Self::Untold,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A frame as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) text: &'a [u8],
    /// The length of the whole text, and where this piece of it stands, if it is one.
    pub(crate) piece: Option<(usize, usize)>,
}

impl<'a> Frame<'a> {
    /// Reads a message; none if it is no frame.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        if message.len() > MAX_FRAME {
            return None;
        }
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let [kind, id @ ..] = *head;
        let id = u64::from_le_bytes(id);
        if kind != PIECE {
            return Some(Self { kind: Kind::of(kind)?, id, text: rest, piece: None });
        }
        let (head, text) = rest.split_first_chunk::<{ PIECE_HEAD - HEAD }>()?;
        let [kind, t0, t1, t2, t3, o0, o1, o2, o3] = *head;
        let length = |bytes| usize::try_from(u32::from_le_bytes(bytes)).ok();
        let (total, offset) = (length([t0, t1, t2, t3])?, length([o0, o1, o2, o3])?);
        let inside = offset.checked_add(text.len()).is_some_and(|end| end <= total);
        if !inside || text.is_empty() {
            return None;
        }
        Some(Self { kind: Kind::of(kind)?, id, text, piece: Some((total, offset)) })
    }
}

/// A text that comes in pieces, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Gathering(Option<(Kind, u64, usize, Vec<u8>)>);

impl Gathering {
    /// Adds a frame. Returns the text when it is whole; the error says how the rules were broken.
    pub(crate) fn add(
        &mut self,
        frame: Frame<'_>,
        most: usize,
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let Frame { kind, id, text, piece } = frame;
        let Some((total, offset)) = piece else { return Ok(Some(text.to_vec())) };
        if total > most {
            return Err("it sends a longer text than there may be");
        }
        let (of_kind, of_id, of_total, mut so_far) =
            self.0.take().unwrap_or((kind, id, total, Vec::new()));
        if (of_kind, of_id, of_total, so_far.len()) != (kind, id, total, offset) {
            return Err("a piece does not follow the one before");
        }
        so_far.extend_from_slice(text);
        if text.len() < LEAST_PIECE && offset > 0 && so_far.len() < total {
            return Err("its pieces are too small");
        }
        if so_far.len() < total {
            self.0 = Some((kind, id, total, so_far));
            return Ok(None);
        }
        Ok(Some(so_far))
    }
}

/// Cuts a text into frames: their heads and bodies.
pub(crate) fn cut(kind: Kind, id: u64, text: &[u8]) -> impl Iterator<Item = (Head, &[u8])> {
    let whole = text.len() <= MAX_FRAME - HEAD;
    let size = if whole { text.len().max(1) } else { MAX_FRAME - PIECE_HEAD };
    let pieces = text.chunks(size).enumerate().map(move |(index, body)| {
        if whole {
            return (Head::whole(kind, id), body);
        }
        (Head::piece(kind, id, text.len(), index * size), body)
    });
    let nothing = text.is_empty().then(|| (Head::whole(kind, id), text));
    nothing.into_iter().chain(pieces)
}

/// The head of a frame.
pub(crate) struct Head {
    bytes: [u8; PIECE_HEAD],
    length: usize,
}

impl Head {
    fn whole(kind: Kind, id: u64) -> Self {
        let mut bytes = [0; PIECE_HEAD];
        bytes[0] = kind as u8;
        bytes[1..HEAD].copy_from_slice(&id.to_le_bytes());
        Self { bytes, length: HEAD }
    }

    fn piece(kind: Kind, id: u64, total: usize, offset: usize) -> Self {
        let length = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut head = Self::whole(kind, id);
        head.bytes[0] = PIECE;
        head.bytes[HEAD] = kind as u8;
        head.bytes[HEAD + 1..HEAD + 5].copy_from_slice(&length(total));
        head.bytes[HEAD + 5..].copy_from_slice(&length(offset));
        head.length = PIECE_HEAD;
        head
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Sends a text and waits until the socket has room for it. Written, not sent: a confined process may have
/// no right to send.
pub(super) fn write(socket: impl AsFd, kind: Kind, id: u64, text: &[u8]) -> io::Result<()> {
    for (head, body) in cut(kind, id, text) {
        let parts = [IoSlice::new(head.bytes()), IoSlice::new(body)];
        rustix::io::retry_on_intr(|| rustix::io::writev(&socket, &parts))?;
    }
    Ok(())
}

/// Sends a short text with a descriptor.
pub(super) fn send_with(
    socket: impl AsFd,
    kind: Kind,
    text: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let head = Head::whole(kind, 0);
    let parts = [IoSlice::new(head.bytes()), IoSlice::new(text)];
    rustix::net::sendmsg(&socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends one frame if the socket has room for it; false if it has not.
pub(crate) fn try_send(socket: impl AsFd, head: &[u8], body: &[u8]) -> io::Result<bool> {
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let send = || rustix::net::sendmsg(&socket, &parts, &mut SendAncillaryBuffer::default(), flags);
    match rustix::io::retry_on_intr(send) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What came of looking for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes of the buffer. One more than a frame has means that it was longer.
    Message(usize),
    /// Nothing yet.
    Nothing,
    /// The other side has gone.
    End,
}

/// Takes a message if there is one.
pub(super) fn try_receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let receive = || rustix::net::recv(&socket, &mut *buffer, RecvFlags::DONTWAIT);
    match rustix::io::retry_on_intr(receive) {
        Ok((0, _)) => Ok(Received::End),
        Ok((length, _)) => Ok(Received::Message(length)),
        Err(Errno::AGAIN) => Ok(Received::Nothing),
        Err(Errno::CONNRESET) => Ok(Received::End),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(kind: Kind, id: u64, text: &[u8]) -> Vec<Vec<u8>> {
        cut(kind, id, text).map(|(head, body)| [head.bytes(), body].concat()).collect()
    }

    #[test]
    fn a_text_survives_being_cut() {
        for length in [0, 1, MAX_FRAME - HEAD, MAX_FRAME - HEAD + 1, 3 * MAX_FRAME] {
            let text: Vec<u8> = (0..=250).cycle().take(length).collect();
            let mut whole = Vec::new();
            let messages = messages(Kind::Answer, 7, &text);
            for message in &messages {
                let frame = Frame::read(message).unwrap();
                assert_eq!((frame.kind, frame.id), (Kind::Answer, 7));
                assert_eq!(frame.piece.is_some(), messages.len() > 1);
                if let Some((total, offset)) = frame.piece {
                    assert_eq!((total, offset), (length, whole.len()));
                }
                whole.extend_from_slice(frame.text);
            }
            assert_eq!(whole, text);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let piece = |total: u32, offset: u32, text: &[u8]| {
            let head = [&[PIECE][..], &7_u64.to_le_bytes(), &[Kind::Answer as u8]].concat();
            [&head[..], &total.to_le_bytes(), &offset.to_le_bytes(), text].concat()
        };
        assert!(Frame::read(&piece(10, 2, b"text")).is_some());
        for bad in [
            Vec::new(),
            vec![Kind::Answer as u8; HEAD - 1],
            vec![0; HEAD],
            vec![99; 100],
            vec![Kind::Answer as u8; MAX_FRAME + 1],
            piece(10, 8, b"text"),
            piece(10, u32::MAX, b"text"),
            piece(0, 0, b""),
        ] {
            assert_eq!(Frame::read(&bad), None, "{bad:?}");
        }
    }
}

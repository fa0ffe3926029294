//! What holds whatever a worker says on its wire, tried with messages that nobody thought of.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::asked::AT_ONCE;
use super::ending::Ending;
use super::frame::{Frame, Gathering, Kind, MAX_FRAME};
use super::link::{Answer, Link, Reading, Said};

/// Calls that are under way when the messages come.
const CALLS: u64 = 4;

/// Messages: mostly frames, some that only look like frames, some that do not.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let text = || vec(any::<u8>(), 0..24);
    let whole = (0..15_u8, 0..CALLS + 2, text())
        .prop_map(|(kind, id, text)| [&[kind][..], &id.to_le_bytes(), &text].concat());
    let piece = (0..15_u8, 0..CALLS + 2, 0..48_u32, 0..48_u32, text()).prop_map(
        |(kind, id, total, offset, text)| {
            let numbers = [total.to_le_bytes(), offset.to_le_bytes()].concat();
            [&[9][..], &id.to_le_bytes(), &[kind], &numbers, &text].concat()
        },
    );
    let answer = (6..8_u8, 1..=CALLS, "[a-z]{0,9}")
        .prop_map(|(kind, id, text)| [&[kind][..], &id.to_le_bytes(), text.as_bytes()].concat());
    prop_oneof![4 => answer, 2 => whole, 2 => piece, 2 => ask(), 1 => vec(any::<u8>(), 0..80)]
}

/// Questions: of calls under way, of others, and such as nobody can understand.
fn ask() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        4 => Just(r#"{"type":"retrieve","call_id":"name"}"#),
        1 => Just(r#"{"type":"retrieve","call_id":"other"}"#),
        1 => Just(r#"{"type":"retrieve"}"#),
        1 => Just("{"),
    ];
    let id = 0..3_u64;
    (id, text).prop_map(|(id, text)| [&[11][..], &id.to_le_bytes(), text.as_bytes()].concat())
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn read_all(link: &Link) -> Reading {
    loop {
        match link.read(&|_| ()) {
            Reading::More => {}
            reading => return reading,
        }
    }
}

proptest! {
    #[test]
    fn what_is_read_as_a_frame_stays_within_its_text(bytes in vec(any::<u8>(), 0..200)) {
        if let Some(Frame { text, piece: Some((total, offset)), .. }) = Frame::read(&bytes) {
            prop_assert!(!text.is_empty() && offset + text.len() <= total);
        }
    }

    #[test]
    fn no_gathered_text_is_longer_than_it_may_be(messages in vec(message(), 0..60), most in 0..64_usize) {
        let mut gathering = Gathering::default();
        for message in &messages {
            let Some(frame) = Frame::read(message) else { continue };
            let total = frame.piece.map(|(total, _)| total);
            if let Ok(Some(text)) = gathering.add(frame, most) {
                prop_assert_eq!(text.len(), total.unwrap_or(frame.text.len()));
                let bound = total.map_or(MAX_FRAME, |_| most);
                prop_assert!(text.len() <= bound);
            }
        }
    }

    #[test]
    fn pieces_in_their_order_are_the_text_again(text in vec(any::<u8>(), 0..300_000)) {
        let mut gathering = Gathering::default();
        let mut whole = None;
        for (head, body) in super::frame::cut(Kind::Answer, 7, &text) {
            prop_assert!(whole.is_none());
            let message = [head.bytes(), body].concat();
            whole = gathering.add(Frame::read(&message).unwrap(), text.len()).unwrap();
        }
        prop_assert_eq!(whole, Some(text));
    }

    #[test]
    fn every_question_is_passed_on_within_bounds_or_refused(
        questions in vec(ask(), 0..40),
        answered in vec(any::<bool>(), 40),
    ) {
        let (ours, theirs) = pair();
        let link = Link::new(ours, false);
        prop_assert!(link.call(1, "name", "{}", Box::new(|_| ()), &|_| ()).is_ok());
        let open = Mutex::new(0_usize);
        let passed = Mutex::new(0_usize);
        for (message, answered) in questions.iter().zip(answered) {
            rustix::io::write(&theirs, message).unwrap();
            let reading = link.read(&|said| {
                let Said::Ask { id, call, call_id, .. } = said else { return };
                assert_eq!((call, call_id), (1, "name"), "only calls that it has may ask");
                *passed.lock().unwrap() += 1;
                if answered {
                    link.tell(id, call, Ok("{}"));
                } else {
                    *open.lock().unwrap() += 1;
                }
            });
            prop_assert_eq!(reading, Reading::Read);
            prop_assert!(*open.lock().unwrap() <= AT_ONCE);
        }
        // Each gets an answer, but for those that are open; the first message is the call.
        let mut messages = 0;
        while rustix::io::read(&theirs, &mut [0_u8; 1024]).is_ok() {
            messages += 1;
        }
        prop_assert_eq!(messages, 1 + questions.len() - *open.lock().unwrap());
        prop_assert!(*passed.lock().unwrap() <= questions.len());
    }

    #[test]
    fn every_call_ends_once_whatever_a_worker_says(
        messages in vec(message(), 0..40),
        late in vec(message(), 0..10),
        guarded: bool,
    ) {
        let (ours, theirs) = pair();
        let link = Link::new(ours, guarded);
        let ends: Arc<Mutex<Vec<u64>>> = Arc::default();
        for id in 1..=CALLS {
            let ends = Arc::clone(&ends);
            let done = Box::new(move |_: Answer| ends.lock().unwrap().push(id));
            let called = link.call(id, "name", "{}", done, &|_| ());
            prop_assert!(called.is_ok());
        }
        for message in &messages {
            rustix::io::write(&theirs, message).unwrap();
        }
        let reading = read_all(&link);
        let answered = ends.lock().unwrap().len();
        prop_assert!(link.load() + answered == usize::try_from(CALLS).unwrap());
        for message in &late {
            rustix::io::write(&theirs, message).unwrap();
        }
        let then = read_all(&link);
        if reading != Reading::Read {
            // Nothing is believed after the rules were broken.
            prop_assert_eq!(then, Reading::End);
            prop_assert_eq!(ends.lock().unwrap().len(), answered);
        }
        link.fail(&Ending::Stopped);
        let mut ends = ends.lock().unwrap().clone();
        ends.sort_unstable();
        prop_assert_eq!(ends, (1..=CALLS).collect::<Vec<_>>());
        let called = link.call(9, "name", "{}", Box::new(|_| ()), &|_| ());
        prop_assert!(called.is_err());
    }
}

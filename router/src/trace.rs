//! W3C trace context: who asked for something, in the words of tracing systems.
//!
//! See <https://www.w3.org/TR/trace-context/>. What is malformed is not there: the recommendation wants a
//! new trace then, and no refusal.

use std::cell::RefCell;
use std::fmt;

/// The longest `tracestate` that is carried on.
const MAX_STATE: usize = 512;
/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// A place in a trace, as the header `traceparent` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace; not all zero.
    pub trace_id: [u8; 16],
    /// The span that asks; not all zero.
    pub span_id: [u8; 8],
    /// The lowest bit says that the trace is recorded.
    pub flags: u8,
}

impl TraceContext {
    /// The flag that says that the trace is recorded.
    pub const SAMPLED: u8 = 1;

    /// Reads the text of a `traceparent` header. Of a version that is not known, what it shares with
    /// version 00 is taken.
    #[must_use]
    pub fn parse(traceparent: &str) -> Option<Self> {
        let text = traceparent.as_bytes();
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let [version] = bytes(&head[..2])?;
        let follows = match version {
            0xff => return None,
            0 => rest.is_empty(),
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        let dashed = [2, 35, 52].into_iter().all(|place| head[place] == b'-');
        let context = Self {
            trace_id: bytes(&head[3..35])?,
            span_id: bytes(&head[36..52])?,
            flags: bytes::<1>(&head[53..])?[0],
        };
        let present = context.trace_id != [0; 16] && context.span_id != [0; 8];
        (follows && dashed && present).then_some(context)
    }

    /// Begins a trace that is not recorded unless somebody decides so.
    #[must_use]
    pub fn new_root() -> Self {
        let (trace_id, span_id) = (random(), random());
        Self { trace_id, span_id, flags: 0 }
    }

    /// Returns a place of its own below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: random(), ..*self }
    }

    /// Says whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// Returns the id of the trace as text.
    #[must_use]
    pub fn trace_id_text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }
}

impl fmt::Display for TraceContext {
    /// Writes the text of a `traceparent` header of version 00.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) =
            (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", self.flags)
    }
}

/// Reads lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Returns random bytes that are not all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness of the system there is still the time, which is unique enough for a trace.
    if !take_random(&mut bytes) || bytes == [0; N] {
        let spare = uuid::Uuid::now_v7().into_bytes();
        bytes.copy_from_slice(&spare[16 - N..]);
    }
    bytes
}

/// Fills the bytes with random ones. The system is asked for many at once, since each request needs a few. Returns
/// false if it has none.
fn take_random(bytes: &mut [u8]) -> bool {
    const POOL: usize = 512;
    thread_local! {
        static LEFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(|left| {
        if left.len() < bytes.len() {
            left.resize(POOL, 0);
            if getrandom::fill(left).is_err() {
                left.clear();
                return false;
            }
        }
        let rest = left.len() - bytes.len();
        bytes.copy_from_slice(&left[rest..]);
        left.truncate(rest);
        true
    })
}

/// What tracing systems along the way keep for themselves: the header `tracestate`, carried on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceState(String);

impl TraceState {
    /// Takes the text of the header, unless it is empty, too long, or not printable ASCII.
    #[must_use]
    pub fn parse(tracestate: &str) -> Option<Self> {
        let text = tracestate.trim_matches([' ', '\t']);
        let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
        (!text.is_empty() && text.len() <= MAX_STATE && printable).then(|| Self(text.to_owned()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn reads_what_the_recommendation_shows() {
        let context = TraceContext::parse(GOOD).unwrap();
        assert_eq!(context.trace_id_text(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), GOOD);
    }

    #[test]
    fn later_versions_are_read_by_their_beginning() {
        let later = |text: &str| TraceContext::parse(&format!("cc{}{text}", &GOOD[2..]));
        assert_eq!(later(""), TraceContext::parse(GOOD));
        assert_eq!(later("-what-the-future-will-be"), TraceContext::parse(GOOD));
        assert_eq!(later(".what"), None);
    }

    #[test]
    fn what_is_malformed_is_not_there() {
        let (zero_trace, zero_span) = ("0".repeat(32), "0".repeat(16));
        let bad = [
            String::new(),
            "00".to_owned(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-"),
            format!("{GOOD}-more"),
            format!(" {}", &GOOD[..54]),
            format!("ff{}", &GOOD[2..]),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            format!("0g{}", &GOOD[2..]),
            format!("00-{zero_trace}-00f067aa0ba902b7-01"),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{zero_span}-01"),
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01".to_owned(),
        ];
        for text in bad {
            assert_eq!(TraceContext::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn children_stay_in_the_trace() {
        let root = TraceContext::new_root();
        let child = root.child();
        assert_eq!((child.trace_id, child.flags), (root.trace_id, root.flags));
        assert_ne!(child.span_id, root.span_id);
        assert_ne!(TraceContext::new_root().trace_id, root.trace_id);
    }

    #[test]
    fn state_is_bounded_and_printable() {
        assert_eq!(
            TraceState::parse(" rojo=00f0,congo=t61 ").unwrap().as_str(),
            "rojo=00f0,congo=t61"
        );
        assert!(TraceState::parse(&"a".repeat(512)).is_some());
        for bad in [
            String::new(),
            "  ".to_owned(),
            "a".repeat(513),
            "a=\r\nb".to_owned(),
            "é=1".to_owned(),
        ] {
            assert_eq!(TraceState::parse(&bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>(), flags: u8) {
            prop_assume!(trace != [0; 16] && span != [0; 8]);
            let context = TraceContext { trace_id: trace, span_id: span, flags };
            prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }

        #[test]
        fn whatever_is_read_is_written_in_the_same_way(text in "(00|01|ff|[0-9a-f]{2})-[0-9a-fA-F]{31,33}-[0-9a-f]{15,17}-[0-9a-f]{2}(-.{0,8})?") {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(&context.to_string()[2..], &text[2..55]);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            drop((TraceContext::parse(&text), TraceState::parse(&text)));
        }
    }
}

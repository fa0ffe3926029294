//! Says at a glance that a text or a key holds no secret: true of nearly all, and found without allocating.
//!
//! Nothing is decided here: what might hold a secret is looked at closely by the scanner.

use super::token::{FORMED, ISSUED, SHORTEST};

/// Every secret key holds one of these, in whatever case.
pub(super) const STEMS: &[&str] =
    &["pass", "pwd", "secret", "token", "cookie", "cred", "auth", "key", "jwt", "bearer", "sig"];

/// Words before credentials.
pub(super) const SCHEMES: &[&str] = &["basic", "bearer"];

/// Stands between a key and its value.
const SIGN: u8 = 1;
const DASH: u8 = 1 << 1;
const PERCENT: u8 = 1 << 2;
const AT: u8 = 1 << 3;
/// Stands in tokens.
const TOKEN: u8 = 1 << 4;
/// Stands in words.
const WORD: u8 = 1 << 5;
/// Begins a scheme or a known token.
const START: u8 = 1 << 6;
/// Stands between words.
const BLANK: u8 = 1 << 7;

static MARKS: [u8; 256] = marks();

/// The bits that tell letters apart, whatever their case.
const LETTER: u8 = 0x1f;

/// For each first letter of a stem, the second ones, a bit for each.
static STEM_PAIRS: [u32; 256] = stem_pairs();

/// Says that a text holds no secret; no when in doubt.
pub(super) fn is_plain_text(text: &str) -> bool {
    let (mut seen, mut run, mut longest) = (0, 0_usize, 0);
    for byte in text.bytes() {
        let marks = MARKS[usize::from(byte)];
        seen |= marks;
        run = if marks & TOKEN == 0 { 0 } else { run + 1 };
        longest = longest.max(run);
    }
    let named = seen & SIGN != 0 || (seen & DASH != 0 && text.contains("--"));
    if named && (seen & PERCENT != 0 || holds_stem(text)) {
        return false;
    }
    if seen & SIGN != 0 && text.contains("://") && (seen & AT != 0 || has_colon_in_authority(text))
    {
        return false;
    }
    // The scheme needs no sign, and neither does a token; but each begins a word.
    let begun = seen & START != 0 && (longest >= SHORTEST || seen & BLANK != 0);
    !(begun && holds_start(text))
}

/// Says that a key holds no secret; no when in doubt.
pub(super) fn is_plain_key(key: &str) -> bool {
    // The Kelvin sign is the one other character whose lower case is an ASCII letter of a stem.
    let kelvin = !key.is_ascii() && key.contains('\u{212a}');
    !holds_stem(key) && !kelvin && !key.as_bytes().contains(&b'%')
}

fn holds_stem(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(2).enumerate().any(|(at, pair)| {
        STEM_PAIRS[usize::from(pair[0])] >> (pair[1] & LETTER) & 1 == 1
            && STEMS.iter().any(|stem| begins_with(&bytes[at..], stem))
    })
}

/// Says whether a word begins as a scheme or a known token does.
fn holds_start(text: &str) -> bool {
    let mut inside = false;
    text.bytes().enumerate().any(|(at, byte)| {
        let marks = MARKS[usize::from(byte)];
        let begins = marks & START != 0 && !inside;
        inside = marks & WORD != 0;
        let rest = &text.as_bytes()[at..];
        begins
            && (SCHEMES
                .iter()
                .any(|scheme| begins_with(rest, scheme) && blank_at(rest, scheme.len()))
                || ISSUED.iter().chain(FORMED).any(|token| rest.starts_with(token.as_bytes())))
    })
}

/// Says whether a URL of the text has a port or a password.
fn has_colon_in_authority(text: &str) -> bool {
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#') || byte.is_ascii_whitespace();
    text.match_indices("://").any(|(at, sign)| {
        let mut authority = text.as_bytes()[at + sign.len()..].iter().take_while(|it| !ends(it));
        authority.any(|byte| *byte == b':')
    })
}

/// Says whether a text begins with a lower-case word, in whatever case.
fn begins_with(text: &[u8], word: &str) -> bool {
    let mut letters = text.iter().zip(word.bytes());
    text.len() >= word.len() && letters.all(|(letter, lower)| letter | 0x20 == lower)
}

fn blank_at(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\t'))
}

const fn marks() -> [u8; 256] {
    let mut marks = [0; 256];
    let mut byte: u8 = 0;
    while byte.is_ascii() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'%' {
            marks[byte as usize] |= WORD | TOKEN;
        }
        byte += 1;
    }
    marks[b'=' as usize] |= SIGN;
    marks[b':' as usize] |= SIGN;
    marks[b'-' as usize] |= DASH | TOKEN;
    marks[b'.' as usize] |= TOKEN;
    marks[b'%' as usize] |= PERCENT;
    marks[b'@' as usize] |= AT;
    marks[b' ' as usize] |= BLANK;
    marks[b'\t' as usize] |= BLANK;
    mark_first_letters(&mut marks, SCHEMES);
    mark_first_letters(&mut marks, ISSUED);
    mark_first_letters(&mut marks, FORMED);
    marks
}

const fn mark_first_letters(marks: &mut [u8; 256], words: &[&str]) {
    let mut index = 0;
    while index < words.len() {
        let first = words[index].as_bytes()[0];
        marks[first.to_ascii_lowercase() as usize] |= START;
        marks[first.to_ascii_uppercase() as usize] |= START;
        index += 1;
    }
}

const fn stem_pairs() -> [u32; 256] {
    let mut pairs = [0; 256];
    let mut index = 0;
    while index < STEMS.len() {
        let stem = STEMS[index].as_bytes();
        let second = 1 << (stem[1] & LETTER);
        pairs[stem[0] as usize] |= second;
        pairs[stem[0].to_ascii_uppercase() as usize] |= second;
        index += 1;
    }
    pairs
}

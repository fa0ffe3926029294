//! Finds the end of what needs no escape in a string of JSON.

/// Returns how many bytes at the start are neither control characters nor `"` or `\`.
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        let stops = stops(u64::from_le_bytes(*chunk));
        if stops != 0 {
            return bytes.len() - rest.len() + stops.trailing_zeros() as usize / 8;
        }
        rest = tail;
    }
    let last = rest.iter().position(|byte| matches!(byte, ..b' ' | b'"' | b'\\'));
    bytes.len() - rest.len() + last.unwrap_or(rest.len())
}

/// Marks the highest bit of the bytes that are a control character, `"` or `\`.
///
/// A mark may be wrong only above a right one, so the lowest is right.
const fn stops(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const fn below(word: u64, bound: u64) -> u64 {
        word.wrapping_sub(ONES * bound) & !word
    }
    let marks = below(word, 0x20)
        | below(word ^ (ONES * b'"' as u64), 1)
        | below(word ^ (ONES * b'\\' as u64), 1);
    marks & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::plain_len;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_stop_is_found(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            quiet in any::<prop::sample::Index>(),
        ) {
            let mut bytes = bytes;
            let quiet = quiet.index(bytes.len() + 1);
            bytes[..quiet].fill(b'~');
            let expected = bytes.iter().position(|byte| matches!(byte, ..0x20 | b'"' | b'\\'));
            prop_assert_eq!(plain_len(&bytes), expected.unwrap_or(bytes.len()));
        }
    }
}

//! Base64 as Python reads it when it is not told to be strict: what is not in the alphabet is passed over.

/// Decodes base64. Padding that completes four characters ends the text; what follows is not looked at.
///
/// Nothing is gained by tricks here: signatures and keys have a length of their own, and are checked.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    // Python turns the text into ASCII first, and gives up if it is none.
    if !text.is_ascii() {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut place, mut left, mut pads) = (0_u8, 0_u8, 0_u8);
    for character in text.bytes() {
        if character == b'=' {
            pads = pads.saturating_add(1);
            if place >= 2 && place.saturating_add(pads) >= 4 {
                return Some(bytes);
            }
            continue;
        }
        let Some(bits) = value(character) else { continue };
        pads = 0;
        match place {
            0 => {}
            1 => bytes.push(left << 2 | bits >> 4),
            2 => bytes.push(left << 4 | bits >> 2),
            _ => bytes.push(left << 6 | bits),
        }
        left = bits;
        place = (place + 1) % 4;
    }
    (place == 0).then_some(bytes)
}

fn value(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    #[test]
    fn foreign_characters_are_passed_over_and_padding_ends_the_text() {
        for (text, expected) in [
            ("", Some("")),
            ("YWI=", Some("ab")),
            (" Y\nW!I - =", Some("ab")),
            ("YWI=YWI=", Some("ab")),
            ("YQ==", Some("a")),
            ("YQ=x=", Some("a\x0c")),
            ("YWJj", Some("abc")),
            ("====", Some("")),
            ("=YWI=", Some("ab")),
            ("YWI", None),
            ("Y", None),
            ("YQ=", None),
            ("YWI=é", None),
        ] {
            let decoded = decode(text).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(decoded.as_deref(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_base64_comes_out_whole(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&STANDARD.encode(&bytes)), Some(bytes));
        }

        #[test]
        fn nothing_makes_it_fall(text in any::<String>()) {
            decode(&text);
        }
    }
}

//! Texts that are not RFC 8785, and what is told of them; texts that are, by a judge of its own.

use nexus_router_sdk::testing::passive::jcs;
use nexus_router_translate::{MAX_BYTES, MAX_DEPTH, MAX_VALUES, is_canonical};
use proptest::prelude::*;
use serde_json::Value;

fn code(text: &str) -> &'static str {
    is_canonical(text.as_bytes()).map_or_else(|refusal| &refusal.rule.code[8..], |()| "ok")
}

#[test]
fn numbers_have_one_form() {
    for text in [
        "0",
        "-1",
        "1.5",
        "1e+21",
        "1e-7",
        "0.000001",
        "9007199254740992",
        "-9007199254740992",
        "5e-324",
    ] {
        assert_eq!(code(text), "ok", "{text}");
    }
    for (text, expected) in [
        ("-0", "NOT_CANONICAL"),
        ("1.0", "NOT_CANONICAL"),
        ("1E21", "NOT_CANONICAL"),
        ("1e21", "NOT_CANONICAL"),
        ("0.0000001", "NOT_CANONICAL"),
        ("1e400", "NOT_CANONICAL"),
        ("9007199254740993", "NUMBER_INEXACT"),
        ("100000000000000000000", "NUMBER_INEXACT"),
        ("01", "NOT_JSON"),
        ("-", "NOT_JSON"),
        ("+1", "NOT_JSON"),
        (".5", "NOT_JSON"),
        ("1.", "NOT_JSON"),
        ("1e", "NOT_JSON"),
        ("1e+", "NOT_JSON"),
        ("--1", "NOT_JSON"),
        ("-inf", "NOT_JSON"),
        ("NaN", "NOT_JSON"),
        ("Infinity", "NOT_JSON"),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
}

#[test]
fn strings_have_one_form() {
    for text in
        [r#""""#, r#""\b\f\n\r\t\"\\""#, r#""\u0000\u001f""#, "\"/\u{7f}\u{2028}\u{feff}é😀\""]
    {
        assert_eq!(code(text), "ok", "{text}");
    }
    for (text, expected) in [
        (r#""\/""#, "NOT_CANONICAL"),
        (r#""\u000a""#, "NOT_CANONICAL"),
        (r#""\u001F""#, "NOT_CANONICAL"),
        (r#""\u0041""#, "NOT_CANONICAL"),
        (r#""\u007f""#, "NOT_CANONICAL"),
        (r#""\ud83d\ude00""#, "NOT_CANONICAL"),
        (r#""\ud83d""#, "LONE_SURROGATE"),
        (r#""\ud83dxx\ude00""#, "LONE_SURROGATE"),
        (r#""\ude00""#, "LONE_SURROGATE"),
        (r#""\x""#, "NOT_JSON"),
        (r#""\u12""#, "NOT_JSON"),
        (r#""\u12g4""#, "NOT_JSON"),
        ("\"a\nb\"", "NOT_JSON"),
        ("\"a", "NOT_JSON"),
        ("\"a\\", "NOT_JSON"),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
    // Wherever it stands among the bytes that are read together.
    for length in 0..24 {
        let pad = "é".repeat(length / 2) + &"x".repeat(length % 2 + length / 3);
        assert_eq!(code(&format!("\"{pad}\"")), "ok");
        assert_eq!(code(&format!("\"{pad}\\n{pad}\"")), "ok");
        assert_eq!(code(&format!("\"{pad}\u{1f}{pad}\"")), "NOT_JSON");
        assert_eq!(code(&format!("\"{pad}")), "NOT_JSON");
    }
}

#[test]
fn names_are_sorted_by_code_units() {
    assert_eq!(
        code("{\"\\r\":0,\"1\":0,\"\u{80}\":0,\"ö\":0,\"€\":0,\"😀\":0,\"\u{fb33}\":0}"),
        "ok"
    );
    assert_eq!(code("{\"\u{fb33}\":0,\"😀\":0}"), "NOT_CANONICAL");
    assert_eq!(code(r#"{"b":0,"a":0}"#), "NOT_CANONICAL");
    assert_eq!(code(r#"{"a":0,"a":0}"#), "DUPLICATE_KEY");
    assert_eq!(code(r#"{"\n":0,"\n":0}"#), "DUPLICATE_KEY");
    assert_eq!(code(r#"{"":0,"a":0,"aa":0}"#), "ok");
}

#[test]
fn refusal_tells_the_place() {
    for (text, pointer, offset) in [
        (r#"{"a":[1,{"b":01}]}"#, "/a/1/b", 13),
        (r#"{"a":[1,2 ]}"#, "/a/2", 9),
        (r#"{"a":{"d":1,"c":1}}"#, "/a/c", 12),
        (r#"{"a/b~c":tru}"#, "/a~1b~0c", 9),
        (r#"{"a":1}x"#, "", 7),
        ("[[],[],[", "/2/0", 8),
        ("", "", 0),
        ("1 ", "", 1),
    ] {
        let refusal = is_canonical(text.as_bytes()).unwrap_err();
        assert_eq!(
            (refusal.pointer.as_str(), refusal.offset),
            (pointer, Some(offset)),
            "{text}: {refusal}"
        );
    }
}

#[test]
fn no_document_decides_how_long_an_error_is() {
    let long = "é".repeat(1_000_000);
    for text in [
        format!("{{\"{long}\":01}}"),
        format!("{{\"{long}\":0,\"a\":0}}"),
        "9".repeat(1_000_000),
        format!("1e{}", "0".repeat(1_000_000)),
    ] {
        let refusal = is_canonical(text.as_bytes()).unwrap_err();
        assert!(refusal.pointer.len() + refusal.message.len() < 1000, "{}", refusal.rule.code);
    }
}

#[test]
fn limits_hold_in_bounded_time_and_memory() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(code(&nested(MAX_DEPTH)), "ok");
    assert_eq!(code(&nested(MAX_DEPTH + 1)), "TOO_DEEP");
    assert_eq!(code(&nested(20_000)), "TOO_DEEP");
    assert_eq!(code(&"[".repeat(20_000)), "TOO_DEEP");
    assert_eq!(code(&"{\"a\":".repeat(20_000)), "TOO_DEEP");
    assert_eq!(code(&format!("\"{}\"", "a".repeat(MAX_BYTES - 2))), "ok");
    assert_eq!(code(&format!("\"{}\"", "a".repeat(MAX_BYTES - 1))), "TOO_LARGE");
    assert_eq!(code(&"a".repeat(100_000_000)), "TOO_LARGE");
    let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    assert_eq!(code(&list(MAX_VALUES - 1)), "ok");
    assert_eq!(code(&list(MAX_VALUES)), "TOO_MANY_VALUES");
    assert_eq!(is_canonical(b"\"\xff\"").unwrap_err().rule.code, "X.nexus.NOT_UTF8");
    assert_eq!(is_canonical(b"\"\xed\xa0\x80\"").unwrap_err().rule.code, "X.nexus.NOT_UTF8");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        // Whole doubles beyond 2^53 and below 10^21 are written as integers, which are refused.
        (-1e15..1e15).prop_map(Value::from),
        (-1e-300..1e-300).prop_map(Value::from),
        ".*".prop_map(Value::from),
        "[\\x00-\\x22\\x5c]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".{0,3}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_canonically_is_canonical(value in values()) {
        let text = jcs(&value);
        prop_assert!(is_canonical(text.as_bytes()).is_ok(), "{text}");
    }

    #[test]
    fn what_is_canonical_reads_and_writes_as_the_same(
        value in values(),
        place in any::<prop::sample::Index>(),
        change in r#"[\[\]{},:"\\ +.0-9eEtrufalsnx\-]{0,3}"#,
    ) {
        let mut text: Vec<char> = jcs(&value).chars().collect();
        let place = place.index(text.len());
        text.splice(place..=place, change.chars());
        let text: String = text.into_iter().collect();
        if is_canonical(text.as_bytes()).is_ok() {
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(jcs(&read), text);
        }
    }
}

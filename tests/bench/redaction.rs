//! Cost of redaction per byte, of ordinary and of hostile texts, beside a search for one byte in the same text.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its figures"
)]

use std::hint::black_box;
use std::time::Instant;

use nexus_router_sdk::redact;

/// Texts that are repeated up to the size under test.
const UNITS: &[(&str, &str)] = &[
    ("prose", "The quick brown fox jumps over the lazy dog, and reads chapter 3 of the book. "),
    (
        "log lines",
        "2026-11-18T05:17:30Z INFO server: request done path=/v1/runs status=200 ms=12\n",
    ),
    ("json text", "{\"id\": 17, \"name\": \"alpha\", \"tags\": [\"a\", \"b\"], \"size\": 1.5}, "),
    ("source code", "    let token_count = self.tokens.len(); // keys: author\n"),
    ("base64", "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24"),
    ("base64, token", "token TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24: "),
    ("hex", "0123456789abcdef"),
    ("bearer", "Bearer "),
    ("basic", "basic /basic"),
    ("password", "password: "),
    ("token", "token="),
    ("pairs", "a="),
    ("auth", "auth="),
    ("tokens", "tokens=\""),
    ("keys", "api key id "),
    ("key", "key "),
    ("keys with signs", "key: "),
    ("pem", "-----BEGIN "),
    ("pem keys", "-----BEGIN PRIVATE KEY"),
    ("quotes", "\"'`"),
    ("quoted keys", "\"token\":\""),
    ("escaped quotes", "\\\""),
    ("backslashes", "token=\\"),
    ("brackets", "password=[{"),
    ("brackets closed", "password=[]"),
    ("urls", "a://b:c"),
    ("urls with users", "a://b:c@d "),
    ("urls in urls", "a://b?token=a://"),
    ("cookies", "Cookie: \""),
    ("cookies quoted", "\"Cookie: \" a"),
    ("flags", "--password -"),
    ("flags with values", "--password x "),
    ("percent", "%70=%"),
    ("dashes", "a-"),
    ("camel", "aB"),
    ("known tokens", "ghp_0123456789abcdef "),
    ("jwt", "eyJhbGciOi.eyJzdWIiOi.abc-_def "),
    ("nested pairs", "token: password: "),
    ("blanks", "token "),
    ("no break", "password:\u{e9}"),
    ("quote runs", "password=\"a\"b\"c\" "),
];

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let size = if smoke { 1 << 12 } else { 1 << 22 };
    println!("{:20} {:>10} {:>10} {:>8}", "text", "ns/byte", "search", "ratio");
    for (name, unit) in UNITS {
        if only.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let text = unit.repeat(size / unit.len());
        let baseline = per_byte(&text, |text| text.bytes().filter(|byte| *byte == b'=').count());
        let figure = per_byte(&text, |text| redact::text_if_secret(text).map_or(0, |it| it.len()));
        println!("{name:20} {figure:>10.2} {baseline:>10.3} {:>8.0}", figure / baseline);
    }
}

/// Returns the best of three times per byte, in nanoseconds.
fn per_byte(text: &str, work: impl Fn(&str) -> usize) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        black_box(work(black_box(text)));
        best = best.min(begun.elapsed().as_nanos() as f64 / text.len() as f64);
    }
    best
}

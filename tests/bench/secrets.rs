//! Cost per byte of the search for known secrets, beside a search for one byte in the same text.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its figures"
)]

use std::hint::black_box;
use std::time::Instant;

use nexus_router::secret::Secrets;

const TEXTS: &[(&str, &str)] = &[
    ("prose", "The quick brown fox jumps over the lazy dog, and reads chapter 3 of the book. "),
    ("bearer", "Bearer "),
    ("start of secrets", "Bearer sk-00000000000000000000"),
    ("base64", "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24"),
    ("percent", "%42%65%61%72"),
    ("backslashes", "\\u0042\\u0065"),
];

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let size = if smoke { 1 << 12 } else { 1 << 22 };
    for count in [1, 20, 200] {
        let secrets = (0..count).map(|number| format!("Bearer sk-{number:0>36}"));
        let begun = Instant::now();
        let secrets = Secrets::empty().with_hidden_values(secrets);
        println!("{count} secrets, prepared in {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
        for (name, unit) in TEXTS {
            let text = unit.repeat(size / unit.len());
            let baseline = per_byte(&text, |text| text.bytes().filter(|it| *it == b'=').count());
            let figure = per_byte(&text, |text| {
                secrets.replace_known_text(text).map_or(0, |replaced| replaced.len())
            });
            println!("  {name:20} {figure:>9.2} ns/byte {:>7.0} × search", figure / baseline);
        }
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

//! Attempts on the wire: an adapter that speaks to the router as if it were its own worker.

use std::io;

use nexus_router_sdk::Object;
use serde_json::Value;

use crate::Attempt;

/// The descriptor of the wire, as long as nobody moves it.
const WIRE: i32 = 3;
/// The kind of a frame that is only a piece.
const PIECE: u8 = 9;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("speak", speak),
    ("close_wire", |_| attempt!(libc::close(WIRE))),
    ("hang", |_| {
        loop {
            std::thread::park();
        }
    }),
];

/// Sends `frames`, all of them `times` times.
fn speak(args: &Object) -> io::Result<Value> {
    let frames = args.get("frames").and_then(Value::as_array);
    let messages: Vec<Vec<u8>> = frames.into_iter().flatten().map(message).collect();
    let times = args.get("times").and_then(Value::as_u64).unwrap_or(1);
    for _ in 0..times {
        for message in &messages {
            drop(attempt!(
                i32::try_from(libc::write(WIRE, message.as_ptr().cast(), message.len()))
                    .unwrap_or(-1)
            )?);
        }
    }
    Ok(Value::Null)
}

/// Makes a message of its parts: `kind`, `id` and `text`, with `total` and `offset` if it is a piece; or `bytes`
/// as they are. `fill` stands for a text of this length.
fn message(frame: &Value) -> Vec<u8> {
    if let Some(bytes) = frame["bytes"].as_array() {
        return bytes.iter().map(byte).collect();
    }
    let mut message = vec![byte(&frame["kind"])];
    message.extend(frame["id"].as_u64().unwrap_or_default().to_le_bytes());
    if let Some(total) = frame["total"].as_u64() {
        message[0] = PIECE;
        message.push(byte(&frame["kind"]));
        for number in [Some(total), frame["offset"].as_u64()] {
            let number = u32::try_from(number.unwrap_or_default()).unwrap_or(u32::MAX);
            message.extend(number.to_le_bytes());
        }
    }
    if let Some(text) = frame["text"].as_array() {
        message.extend(text.iter().map(byte));
    }
    message.extend(frame["text"].as_str().unwrap_or_default().as_bytes());
    let fill = frame["fill"].as_u64().and_then(|fill| usize::try_from(fill).ok());
    message.extend(std::iter::repeat_n(b'x', fill.unwrap_or_default()));
    message
}

fn byte(value: &Value) -> u8 {
    value.as_u64().and_then(|byte| u8::try_from(byte).ok()).unwrap_or_default()
}

//! Instances that load, and fail when they are called.

use nexus_router_sdk::{AdapterError, CallContext, Level, Object, code};
use serde_json::Value;

use crate::harm;
use crate::raw::{Raw, raw_adapter};
use crate::stub::{Answer, stub};

stub!(call_panics { call: |_, _| panic!("the call gave up") });
stub!(call_panics_with_a_bomb { call: |_, _| std::panic::panic_any(harm::Bomb) });
stub!(call_overflows_the_stack { call: |_, _| answer(harm::overflow(0)) });
stub!(call_allocates_without_end { call: |_, _| harm::allocate_forever() });
stub!(call_exits_0 { call: |_, _| std::process::exit(0) });
stub!(call_exits_7 { call: |_, _| std::process::exit(7) });
stub!(call_hangs { call: |_, _| harm::hang() });
stub!(call_prints_without_end { call: |_, _| harm::print_forever() });
stub!(call_aborts { call: |_, _| std::process::abort() });
stub!(call_segfaults {
    call: |_, args| {
        harm::segfault();
        Ok(args)
    }
});
stub!(call_tells_a_secret { call: tell_a_secret });
stub!(call_sends_large_notices { call: |context, args| notify(context, args, 500 * 1024, 10) });
stub!(call_sends_many_notices { call: |context, args| notify(context, args, 1, 1_500) });

/// Exports a factory whose instance answers every call with a text.
macro_rules! answering {
    ($name:ident, $call:expr) => {
        raw_adapter!($name, Ok(Raw { call: $call, ..Raw::default() }));
    };
}

answering!(call_returns_an_array, || Ok(r#"{"output":[1,2]}"#.to_owned()));
answering!(call_returns_null, || Ok("null".to_owned()));
answering!(call_returns_no_output, || Ok("{}".to_owned()));
answering!(call_returns_no_json, || Ok("well done".to_owned()));
answering!(call_returns_nothing, || Ok(String::new()));
answering!(call_returns_deep_json, || Ok("{\"output\":".repeat(100_000)));
answering!(call_returns_100_mb, || Ok("x".repeat(100 * 1024 * 1024)));
answering!(call_error_is_no_error_object, || Err(r#"{"oops":true}"#.to_owned()));
answering!(call_error_is_100_mb, || Err("x".repeat(100 * 1024 * 1024)));
answering!(call_panics_unguarded, || panic!("nothing holds this"));

fn answer(value: impl Into<Value>) -> Answer {
    Ok(Object::from_iter([("value".to_owned(), value.into())]))
}

/// Fails, and tells a secret that the caller and the configuration know.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a call")]
fn tell_a_secret(_: &CallContext, args: Object) -> Answer {
    let secret = args.get("secret").and_then(Value::as_str).unwrap_or("none");
    let message = format!("could not log in with {secret}");
    let details = serde_json::json!({ "tried": secret });
    Err(AdapterError::operational(code::CONNECTION_FAILED, message).details(details))
}

/// Sends more to the host than any host wants to keep.
fn notify(context: &CallContext, args: Object, length: usize, count: usize) -> Answer {
    let line = "x".repeat(length);
    for _ in 0..count {
        context.log(Level::Info, &line);
    }
    Ok(args)
}

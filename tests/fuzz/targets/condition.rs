//! Any text as a condition: it is compiled or refused, and evaluation of it ends without a panic.
#![no_main]

use nexus_router::clock::Timestamp;
use nexus_router::condition::{CallEvaluation, CallFacts, Condition};
use nexus_router::json::{Limits, parse};

const ARGS: &str = r#"{"n":7,"f":1.5,"s":"text","l":[1,2,3],"m":{"k":"v"},"z":null,"b":true}"#;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let condition = match Condition::compile(text) {
        Ok(condition) => condition,
        Err(error) => return drop((error.message(), error.hint().to_owned())),
    };
    let args = parse(ARGS.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap();
    let facts = CallFacts {
        args: &args,
        adapter: "shop",
        tool: "orders",
        method: "buy",
        class: "",
        caller_name: "ci",
        caller_scope: "apply",
        caller_role: "",
        hints: [Some(true), None, None, Some(false)],
        run_id: "r",
        run_mode: "apply",
        run_goal: "",
        now: Timestamp::from_millis(0),
    };
    let results = [(); 2].map(|()| CallEvaluation::new(facts).evaluate(&condition));
    assert_eq!(results[0], results[1]);
});

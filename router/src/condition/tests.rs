//! Tests of conditions: results, faults and bounds.

mod parity;

use super::*;
use crate::clock::Timestamp;
use crate::json::{Limits, Object, parse};

const ARGS: &str = r#"{"n":7,"m":-2,"f":1.5,"big":18446744073709551615,"huge":123456789012345678901234567890,
    "s":"héllo","e":"","list":[1,2,3,2],"texts":["a","b"],"map":{"k":"v","n":null},"null":null,"t":true,
    "nested":[[1,2],[3]],"at":"2026-11-16T10:30:15.250Z"}"#;

fn object(text: &str) -> Object {
    parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
}

fn facts(args: &Object) -> CallFacts<'_> {
    CallFacts {
        args,
        adapter: "shop",
        tool: "orders",
        method: "buy",
        class: "",
        caller_name: "ci",
        caller_scope: "apply",
        caller_role: "",
        hints: [Some(true), None, None, Some(false)],
        run_id: "r1",
        run_mode: "apply",
        run_goal: "",
        now: Timestamp::parse("2026-11-16T10:30:15.250Z").unwrap(),
    }
}

fn evaluate(text: &str, args: &Object) -> Result<bool, String> {
    let condition = Condition::compile(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    CallEvaluation::new(facts(args)).evaluate(&condition).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> (String, String) {
    let error = Condition::compile(text).expect_err(text);
    (error.message(), error.hint().to_owned())
}

#[test]
fn conditions_read_every_variable() {
    let args = object(ARGS);
    for text in [
        "args.n == 7 && args['n'] == 7 && args.map.k == 'v' && args.list[0] == 1",
        "adapter == 'shop' && tool == 'orders' && method == 'buy' && class == ''",
        "caller.name == 'ci' && caller.scope == 'apply' && caller.role == ''",
        "size(caller.claims) == 0 && !has(caller.claims.team) && has(caller.role)",
        "hints.read_only && has(hints.open_world) && !hints.open_world && !has(hints.destructive)",
        "run.id == 'r1' && run.mode == 'apply' && run.goal == ''",
        "now == timestamp('2026-11-16T10:30:15.250Z') && now.getHours() == 10",
        "now - duration('1h30m') < now && now.getDayOfWeek() == 1 && now.getHours('+02:00') == 12",
    ] {
        assert_eq!(evaluate(text, &args), Ok(true), "{text}");
    }
}

#[test]
fn failed_evaluation_names_the_reason_without_values() {
    let args = object(ARGS);
    for (text, reason) in [
        ("args.absent == 1", "a member is missing"),
        ("hints.destructive", "a member is missing"),
        ("caller.claims.team == 'x'", "a member is missing"),
        ("args.list[9] == 1", "a list has no element at the index"),
        ("args.s > 3", "a value has the wrong type"),
        ("args.n", "a value has the wrong type"),
        ("args.s.n == 1", "a value has the wrong type"),
        ("args.n + 9223372036854775807 > 0", "a number is out of range"),
        ("-(-9223372036854775807 - args.list[0]) > 0", "a number is out of range"),
        ("args.n / 0 == 1", "a number is divided by zero"),
        ("args.n % 0 == 1", "a number is divided by zero"),
        ("int(args.s) == 1", "a value cannot be converted"),
        ("now + duration(args.s) > now", "a value cannot be converted"),
        ("timestamp(args.n * 999999999999) > now", "a number is out of range"),
        ("{args.s: 1, args.s: 2}.x == 1", "a map has a key twice"),
    ] {
        assert_eq!(evaluate(text, &args), Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn wrong_names_and_types_are_refused() {
    for (text, problem, hint) in [
        ("arg.n == 1", "unknown variable arg at character 1", "did you mean args?"),
        ("caller.nme == 'x'", "unknown member caller.nme", "did you mean name?"),
        ("hints.readonly", "unknown member hints.readonly", "did you mean read_only?"),
        ("run.status == 'x'", "unknown member run.status", "Known are id, mode, goal"),
        ("caller == 'x'", "uses caller without a member", "caller."),
        ("siz(args.l) > 1", "unknown function siz", "did you mean size?"),
        ("adapter.startWith('a')", "unknown function startWith", "did you mean startsWith?"),
        ("adapter > 3", "orders values of type string and int", "one type"),
        ("adapter == 3", "compares values of type string and int", "one type"),
        ("now == 'x'", "compares values of type google.protobuf.Timestamp and string", "one type"),
        ("adapter + 1 == 'a'", "applies + to values of type string and int", "convert"),
        ("adapter in [1, 2]", "looks for string in a list of int", "list"),
        ("adapter in tool", "uses in with string and string", "list"),
        ("adapter && true", "uses a value of type string as bool at character 1", "comparison"),
        ("!adapter", "uses a value of type string as bool", "comparison"),
        ("-adapter == 1", "negates a value of type string", "int"),
        ("adapter.x == 1", "selects .x of a value of type string", "maps"),
        ("adapter[0] == 's'", "indexes with string and int", "index"),
        ("adapter.all(x, true)", "loops over a value of type string", "list"),
        ("adapter", "is of type string, not bool", "comparison"),
        ("size(args)", "is of type int, not bool", "comparison"),
        ("now < now ? 1 : 2", "is of type int, not bool", "comparison"),
        ("size(1) == 1", "calls size with a value of type int", "convert"),
        ("size() == 1", "calls size with 0 arguments", "give 1"),
        ("size('a', 'b') == 1", "calls size with 2 arguments", "give 1"),
        ("adapter.int() == 1", "calls int on a value", "int(value)"),
        ("contains('a', 'b')", "calls contains without a value", "value.contains()"),
        ("adapter.matches('(')", "has an invalid pattern", "regular expression"),
        ("adapter.matches(args.p)", "a pattern that is not a literal", "literal"),
        ("adapter.matches('((a{99}){99}){99}')", "a pattern that is too large", "simpler"),
        ("now.getHours('Mars/Base') == 1", "a literal that it cannot read", "UTC"),
        ("now < timestamp('tomorrow')", "a literal that it cannot read", "literal"),
        ("now - now < duration('1 fortnight')", "a literal that it cannot read", "literal"),
        ("Msg{a: 1} == 1", "has a message literal", "map"),
        ("{1.5: 1} == {}", "a map key of type double", "keys"),
        ("args.a.?b == 1", "is not a CEL expression", "Common Expression Language"),
        ("args.n ==", "is not a CEL expression", "Common Expression Language"),
        ("args.n == 1 &&\n caller.nme == 'x'", "at line 2, character", "name"),
        ("'é' == 'é' && arg.n == 1", "unknown variable arg at character 15", "args"),
        ("", "is not a CEL expression", ""),
    ] {
        let (message, given) = refusal(text);
        assert!(message.contains(problem), "{text}: {message}");
        assert!(given.contains(hint), "{text}: {given}");
    }
}

#[test]
fn bounds_of_a_text_are_kept() {
    let long = format!("adapter == '{}'", "a".repeat(Condition::MAX_TEXT));
    assert!(refusal(&long).0.contains("has 4109 bytes"));
    let two = "args.list.all(x, args.list.exists(y, x == y))";
    assert!(Condition::compile(two).is_ok());
    assert!(Condition::compile("args.a.map(x, x).filter(y, y > 1).all(z, z > 2)").is_ok());
    let three = "args.list.all(x, args.list.all(y, args.list.exists_one(z, x == z)))";
    assert!(refusal(three).0.contains("more than 2 macros inside of each other"));
}

#[test]
fn deep_texts_are_refused_without_overflow() {
    let deep = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    for (text, is_refused) in [
        (deep("(", "true", ")", 2000), true),
        (deep("(", "true", ")", 90), false),
        (deep("!", "true", "", 4000), false),
        (deep("-", "1", "", 4000), true),
        (deep("[", "1", "]", 2000), true),
        (deep("{1:", "1", "}", 800), true),
        (deep("size(", "args", ")", 600), true),
        (deep("true ? true : ", "true", "", 250), true),
        (deep("1 + ", "1 > 1", "", 400), true),
        (deep("1 + ", "1 > 1", "", 40), false),
        (format!("args{} == 1", ".a".repeat(2000)), true),
        (format!("args{} == 1", "[0]".repeat(1300)), true),
        (deep("(", "", "", 4096), true),
        (deep("args.a.map(x, ", "x", ")", 200), true),
        (deep("true && ", "true", "", 400), false),
    ] {
        let start = &text[..20];
        match Condition::compile(&text) {
            Err(error) => assert!(is_refused, "{start}: {error:?}"),
            Ok(condition) => {
                assert!(!is_refused, "{start}");
                let args = Object::new();
                let result = CallEvaluation::new(facts(&args)).evaluate(&condition);
                assert_eq!(result, Ok(true), "{start}");
            }
        }
    }
}

#[test]
fn evaluation_cost_is_bounded() {
    let zeros = |count: usize| {
        object(&format!(r#"{{"l":[{}0],"s":"{}"}}"#, "0,".repeat(count), "x".repeat(count)))
    };
    let args = zeros(80_000);
    let spent = format!("it takes more than {} steps", Condition::MAX_STEPS);
    for text in [
        "args.l.all(x, args.l.all(y, x == y))",
        "args.l.map(x, args.l).size() == 0 || args.l.all(x, args.l == args.l)",
        "args.l.all(x, x in args.l && !(1 in args.l))",
        "args.l.all(x, args.s.matches('y') || true)",
        "args.l.all(x, args.s.contains('y') || true)",
        "args.l.map(x, args.s + args.s).size() == 1",
        "args.l.map(x, args.l + args.l).size() == 1",
        "args.l.all(x, args.s < args.s || true)",
        "args.l.exists(x, size(args.s) == 0)",
        // The text of a double may be long.
        "args.l.map(x, string(1e308)).size() == 0",
        // An error of a spent budget is not absorbed.
        "args.l.all(x, args.l.all(y, x == y)) || true",
    ] {
        assert_eq!(evaluate(text, &args), Err(spent.clone()), "{text}");
    }
    let unused = "true || args.l.all(x, args.l.all(y, x == y))";
    assert_eq!(evaluate(unused, &args), Ok(true), "the other side is not evaluated");
    assert_eq!(evaluate("args.l.all(x, x == 0)", &args), Ok(true));
    // The budget is one for all conditions of a call.
    let heavy = Condition::compile("args.l.all(x, x == 0)").unwrap();
    let mut call = CallEvaluation::new(facts(&args));
    let results: Vec<_> = (0..40).map(|_| call.evaluate(&heavy).is_ok()).collect();
    assert!(results[0] && !results[39], "{results:?}");
}

#[test]
fn patterns_cost_their_size() {
    let args = object(&format!(r#"{{"s":"{}"}}"#, "ab".repeat(120_000)));
    let spent = format!("it takes more than {} steps", Condition::MAX_STEPS);
    assert_eq!(evaluate("args.s.matches('^[ab]+c$')", &args), Ok(false));
    for heavy in ["a.{0,40}c", "[ab]{1,100}a[ab]{100}c", r"\\w+@\\w+"] {
        let text = format!("args.s.matches('{heavy}')");
        assert_eq!(evaluate(&text, &args), Err(spent.clone()), "{text}");
    }
    for usual in [r"^\\d{4}-\\d\\d-\\d\\d$", r"^\\w+@\\w+[.]com$", "^[a-z0-9-]{1,63}$"] {
        let text = format!("args.s.matches('{usual}')");
        assert_eq!(evaluate(&text, &object(r#"{"s":"?"}"#)), Ok(false), "{text}");
    }
    for large in ["a.{0,200}c", "[ab]{1,1000}a[ab]{1000}c"] {
        let (message, _) = refusal(&format!("args.s.matches('{large}')"));
        assert!(message.contains("a pattern that is too large"), "{large}: {message}");
    }
}

#[test]
fn names_are_read_in_lower_case() {
    let args = object("{}");
    let facts =
        CallFacts { adapter: "Shop", tool: "Orders.\u{212a}", method: "BUY", ..facts(&args) };
    let holds = |text: &str| {
        let condition = Condition::compile(text).unwrap();
        CallEvaluation::new(facts).evaluate(&condition)
    };
    for text in [
        "adapter == 'shop' && tool == 'orders.k' && method == 'buy'",
        "tool in ['orders.k'] && method.startsWith('b') && 'a' < method",
        "[adapter, method].all(name, name in ['shop', 'buy'])",
        "tool.matches('^Orders') && method.matches('^[A-Z]+$')",
        "caller.name != 'CI' && tool + '.' + method == 'orders.k.buy'",
    ] {
        assert_eq!(holds(text), Ok(true), "{text}");
    }
}

#[test]
fn upper_case_compared_with_names_is_refused() {
    for text in [
        "tool == 'Greeter'",
        "'Greeter' != tool",
        "method < 'B'",
        "adapter in ['echo', 'Shop']",
        "tool in {'Greeter': 1}",
        "{'Greeter': true}[tool]",
        "tool.startsWith('Gr') || method.endsWith('Y') || adapter.contains('X')",
        "adapter + '.' + tool == 'Shop.orders'",
        "(args.n > 1 ? tool : method) == 'Buy'",
        "['Greeter', 'b'].exists(name, tool.startsWith(name))",
        "[tool, method].exists(name, name == 'Buy')",
        "string(tool) == 'Ü'",
    ] {
        let (message, hint) = refusal(text);
        assert!(message.contains("a name with a text that has upper case"), "{text}: {message}");
        assert!(hint.contains("lower case"), "{text}: {hint}");
    }
    for text in ["args.s == 'Greeter'", "caller.name == 'CI'", "args.Tool == tool"] {
        assert!(Condition::compile(text).is_ok(), "{text}");
    }
}

#[test]
fn integers_beyond_64_bits_compare_exactly() {
    let args = object(
        r#"{"a":123456789012345678901234567890,"b":123456789012345678901234567891,
            "c":1234567890123456789012345678900,"m":-123456789012345678901234567890,
            "n":-123456789012345678901234567891,"i":7,"u":18446744073709551615,
            "l":[123456789012345678901234567890],"p":1000000000000000000000}"#,
    );
    for text in [
        "args.a != args.b && args.a < args.b && args.b > args.a && args.a == args.a",
        "args.b < args.c && args.n < args.m && args.m < args.a && args.m != args.n",
        "args.a > args.i && args.i < args.a && args.m < args.i && args.a > args.u",
        "args.a in args.l && !(args.b in args.l)",
        "args.p == 1e21 && args.a != 1.2345678901234568e29 && args.a > 1.5 && args.m < -0.5",
        "args.a < double('inf') && args.m > double('-inf') && args.a != double('NaN')",
        "args.a > 1e29 && args.a < 2e29 && args.m > -2e29",
        "string(args.a) == '123456789012345678901234567890'",
        "double(args.p) == 1e21 && args.p + 0.0 == 1e21 && -args.p == -1e21",
    ] {
        assert_eq!(evaluate(text, &args), Ok(true), "{text}");
    }
    for text in ["int(args.a) > 1", "uint(args.a) > 1u"] {
        assert_eq!(evaluate(text, &args), Err("a number is out of range".to_owned()), "{text}");
    }
    let digits = |last: u8| format!("{}{last}", "9".repeat(4000));
    let list = format!(
        r#"{{"d":{},"l":[{}{}]}}"#,
        digits(1),
        format!("{},", digits(2)).repeat(63),
        digits(3)
    );
    let spent = format!("it takes more than {} steps", Condition::MAX_STEPS);
    let text = "args.l.all(x, args.l.all(y, x + 0.0 != args.d))";
    assert_eq!(evaluate(text, &object(&list)), Err(spent), "digits are charged");
}

#[test]
fn literals_of_bytes_are_not_copied() {
    let condition = Condition::compile("b'abc' == b'abc'").unwrap();
    let Node::Equal(one, _) = &condition.0.root else { panic!("{:?}", condition.0.root) };
    let Node::Literal(node::Literal::Bytes(literal)) = one.as_ref() else { panic!("{one:?}") };
    let args = Object::new();
    let facts = ReadableFacts::new(facts(&args));
    let mut budget = Budget::new(10);
    let value = Evaluation::new(&facts, &mut budget).value(one).unwrap();
    let value::Value::Bytes(found) = value else { panic!("{value:?}") };
    assert!(std::ptr::eq(found, literal.as_ref()));
}

#[test]
fn large_arguments_are_refused_only_where_they_are_read() {
    let args = object(&format!(r#"{{"s":"{}"}}"#, "x".repeat(Condition::MAX_ARGS - 8)));
    assert_eq!(evaluate("args.s != ''", &args), Ok(true));
    let args = object(&format!(r#"{{"s":"{}"}}"#, "x".repeat(Condition::MAX_ARGS - 7)));
    let reason = "the arguments exceed 262144 bytes".to_owned();
    assert_eq!(evaluate("args.s != ''", &args), Err(reason));
    assert_eq!(evaluate("adapter == 'shop'", &args), Ok(true));
}

#[test]
fn logical_operators_absorb_errors_of_the_other_side() {
    let args = object(ARGS);
    for (text, expected) in [
        ("args.absent == 1 || true", Ok(true)),
        ("true || args.absent == 1", Ok(true)),
        ("args.absent == 1 && false", Ok(false)),
        ("args.absent == 1 || false", Err("a member is missing".to_owned())),
        ("args.list.exists(x, x / (x - 2) == 3)", Ok(true)),
        ("args.list.all(x, x / (x - 2) > -2)", Err("a number is divided by zero".to_owned())),
    ] {
        assert_eq!(evaluate(text, &args), expected, "{text}");
    }
}

//! Comparison of the evaluator with that of the crate `cel`.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::json::Value;

/// Evaluates with the evaluator of the crate.
fn reference(text: &str, args: &Object) -> Result<bool, ()> {
    let program = cel::Program::compile(text).map_err(|_| ())?;
    let mut context = cel::Context::default();
    context.add_variable_from_value("args", to_reference(&Value::Object(args.clone())));
    for (name, value) in [("adapter", "shop"), ("tool", "orders"), ("method", "buy")] {
        context.add_variable_from_value(name, value);
    }
    match program.execute(&context) {
        Ok(cel::Value::Bool(value)) => Ok(value),
        _ => Err(()),
    }
}

fn to_reference(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Int(value) => cel::Value::Int(*value),
        Value::BigInt(digits) => match digits.parse() {
            Ok(value) => cel::Value::UInt(value),
            Err(_) => cel::Value::Float(digits.parse().unwrap()),
        },
        Value::Float(value) => cel::Value::Float(*value),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_reference).collect())),
        Value::Object(object) => {
            let entries: std::collections::HashMap<String, cel::Value> =
                object.iter().map(|(key, value)| (key.to_owned(), to_reference(value))).collect();
            entries.into()
        }
    }
}

#[test]
fn results_equal_those_of_the_crate() {
    let args = object(ARGS);
    for text in [
        "args.n > 3",
        "args.n >= 7.0",
        "args.n < 7.5",
        "args.big > args.n",
        "args.huge > args.big",
        "args.f * 2.0 == 3.0",
        "args.f + 1 > 0",
        "args.n * 2 == 14",
        "args.n / 2 == 3",
        "args.n % 4 == 3",
        "args.m % 3 == -2",
        "args.n - 10 == -3",
        "-args.n == -7",
        "args.s == 'héllo'",
        "size(args.s) == 5",
        "args.s.size() == 5",
        "args.s.contains('éll')",
        "args.s.startsWith('h')",
        "args.s.endsWith('lo')",
        "args.s.matches('^h.*o$')",
        "matches(args.s, 'l+')",
        "args.e == ''",
        "args.s + args.e == args.s",
        "args.list == [1, 2, 3, 2]",
        "args.list + [4] == [1,2,3,2,4]",
        "args.list[1] == 2",
        "args.list[1u] == 2",
        "args.list[1.0] == 2",
        "args.list[-1] == 2",
        "2 in args.list",
        "9 in args.list",
        "'k' in args.map",
        "'z' in args.map",
        "args.map == {'k': 'v', 'n': null}",
        "args.map['k'] == 'v'",
        "has(args.map.k)",
        "has(args.map.z)",
        "has(args.z.k)",
        "args.null == null",
        "args.map.n == null",
        "args.n == null",
        "args.t",
        "!args.t",
        "args.t && args.n == 7",
        "args.n",
        "args.s && true",
        "args.list.all(x, x > 0)",
        "args.list.all(x, x > 1)",
        "args.list.exists(x, x == 3)",
        "args.list.exists_one(x, x == 2)",
        "args.list.exists_one(x, x == 3)",
        "args.list.map(x, x * 2) == [2,4,6,4]",
        "args.list.filter(x, x > 1) == [2,3,2]",
        "args.list.map(x, x > 1, x * 10) == [20,30,20]",
        "args.map.all(k, k != 'z')",
        "args.nested.all(x, x.all(y, y > 0))",
        "args.nested.exists(x, size(x) == 1)",
        "args.list.all(x, 6 / (x - 2) > 0)",
        "args.list.exists(x, 6 / (x - 2) > 5)",
        "args.list.exists(x, x == 'a')",
        "args.n == 7 ? args.t : args.n",
        "args.n == 8 ? args.t : args.n == 1",
        "int('12') == 12",
        "int(1.9) == 1",
        "int(-1.9) == -1",
        "int(args.big) == 1",
        "uint(args.n) == 7u",
        "uint(args.m) == 7u",
        "double(args.n) == 7.0",
        "double('1.5') == args.f",
        "string(args.n) == '7'",
        "string(args.f) == '1.5'",
        "string(args.t) == 'true'",
        "bool('true')",
        "bool('maybe')",
        "string(b'abc') == 'abc'",
        "bytes(args.s) == b'h\\xc3\\xa9llo'",
        "size(bytes(args.s)) == 6",
        "type(args.n) == int",
        "type(args.s) == string",
        "type(args.list) == list",
        "type(args.map) == map",
        "type(args.null) == null_type",
        "type(args.f) == double",
        "type(1u) == uint",
        "dyn(args.n) == 7",
        "timestamp(args.at) > timestamp('2026-01-01T00:00:00Z')",
        "timestamp(args.at).getFullYear() == 2026",
        "timestamp(args.at).getMonth() == 10",
        "timestamp(args.at).getDate() == 16",
        "timestamp(args.at).getDayOfMonth() == 15",
        "timestamp(args.at).getDayOfWeek() == 1",
        "timestamp(args.at).getDayOfYear() == 319",
        "timestamp(args.at).getHours() == 10",
        "timestamp(args.at).getHours('+02:00') == 12",
        "timestamp(args.at).getMinutes() == 30",
        "timestamp(args.at).getSeconds() == 15",
        "timestamp(args.at).getMilliseconds() == 250",
        "int(timestamp(args.at)) == 1794825015",
        "timestamp(args.at) - timestamp(args.at) == duration('0s')",
        "duration('90m').getHours() == 1",
        "duration('1h30m') == duration('5400s')",
        "duration('1.5s').getMilliseconds() == 1500",
        "timestamp(args.at) + duration('1h') > timestamp(args.at)",
        "duration(args.s) == duration('1s')",
        "string(duration('90s')) == '90s'",
        "timestamp(args.s) == timestamp(args.at)",
        "args['s'] == 'héllo'",
        "args[1] == 1",
        "args.t > false",
        "args.s > 'a'",
        "args.list > [1]",
        "args.map > {}",
        "1 == 1.0 && 1u == 1",
        "{'a': 1}.a == 1",
        "{'a': 1, 'a': 2}.a == 1",
        "{1: 'x'}[1] == 'x'",
        "{1: 'x'}[1.0] == 'x'",
        "[args.n, args.s].size() == 2",
        "args.n == 7 || args.absent",
        "args.absent || args.n == 7",
        "args.absent && args.n == 8",
        "adapter + '.' + tool == 'shop.orders'",
        "adapter in ['shop', 'mail']",
        "r'\\d' == '\\\\d'",
        "9223372036854775807 + args.n > 0",
        "args.n / 0 == 1",
        "args.f / 0.0 > 1.0",
        "args.big + 1u > 0u",
        "args.f % 1.0 == 0.5",
    ] {
        let Ok(condition) = Condition::compile(text) else {
            // Our checker refuses more than the crate; such a text has no result there either, or is wrongly typed.
            assert!(reference(text, &args) != Ok(true), "{text}: refused");
            continue;
        };
        let ours = CallEvaluation::new(facts(&args)).evaluate(&condition).map_err(|_| ());
        assert_eq!(ours, reference(text, &args), "{text}");
    }
}

#[test]
fn numbers_of_different_types_compare_exactly() {
    let args = object(ARGS);
    for text in [
        "9007199254740993 == 9007199254740992.0",
        "args.big == 18446744073709551616.0",
        "9223372036854775807 >= 9223372036854775808.0",
    ] {
        assert_eq!(evaluate(text, &args), Ok(false), "{text}");
    }
}

/// Expressions over the arguments, most of them well formed.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "args.n",
        "args.m",
        "args.f",
        "args.s",
        "args.e",
        "args.list",
        "args.map",
        "args.t",
        "args.null",
        "args.big",
        "args.nested",
        "args.absent",
        "adapter",
        "1",
        "0",
        "-1",
        "2u",
        "1.5",
        "'a'",
        "''",
        "true",
        "false",
        "null",
        "[1, 2]",
        "{'k': 'v'}",
        "[]",
        "x",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators =
            vec!["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"];
        let functions = vec!["size", "int", "double", "string", "uint", "type", "dyn", "bool"];
        let macros = vec!["all", "exists", "exists_one", "map", "filter"];
        let members = vec!["contains", "startsWith", "endsWith"];
        prop_oneof![
            (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(one, operator, other)| format!("({one} {operator} {other})")),
            (prop::sample::select(functions), inner.clone())
                .prop_map(|(name, one)| format!("{name}({one})")),
            (inner.clone(), prop::sample::select(macros), inner.clone())
                .prop_map(|(range, name, body)| format!("{range}.{name}(x, {body})")),
            (inner.clone(), prop::sample::select(members), inner.clone())
                .prop_map(|(one, name, other)| format!("{one}.{name}({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, index)| format!("{one}[{index}]")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(test, then, other)| format!("({test} ? {then} : {other})")),
            inner.clone().prop_map(|one| format!("!{one}")),
            inner.prop_map(|one| format!("-{one}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_expressions_equal_those_of_the_crate(text in expressions()) {
        let args = object(ARGS);
        let mut text = text;
        for _ in 0..2 {
            if let Ok(condition) = Condition::compile(&text) {
                let ours = CallEvaluation::new(facts(&args)).evaluate(&condition).map_err(|_| ());
                prop_assert_eq!(ours, reference(&text, &args), "{}", text);
            }
            text = format!("({text}) == ({text})");
        }
    }

    #[test]
    fn no_text_ends_the_process(text in "\\PC{0,80}", soup in "[a-zA-Z0-9_.,:?!&|()\\[\\]{}'\"+*/%<>= \\\\-]{0,120}") {
        for text in [text, soup] {
            let mut whole = String::new();
            let _ = write!(whole, "args.n == 7 && ({text})");
            for text in [text, whole] {
                if let Ok(condition) = Condition::compile(&text) {
                    let args = object(ARGS);
                    let _ = CallEvaluation::new(facts(&args)).evaluate(&condition);
                }
            }
        }
    }
}

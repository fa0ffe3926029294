//! Arguments as the query of a URL, for services that are asked with GET.

use nexus_router_sdk::{AdapterError, Object, code};
use serde_json::Value;
use url::Url;

/// How long a query may be; servers commonly refuse a request line of more than 8 KiB.
const MAX_QUERY: usize = 6144;

/// Adds the arguments in their order; a list stands as its name with each item. What is null is left out.
///
/// # Errors
/// `INVALID_ARGUMENT` for an argument that is no plain value, or when the query is too long. No value is repeated.
pub(crate) fn add(url: &mut Url, args: &Object) -> Result<(), AdapterError> {
    let refuse = |name: &str, problem: &str| {
        let message = format!("argument '{name}' cannot stand in a query: {problem}");
        AdapterError::operational(code::INVALID_ARGUMENT, message)
            .details(serde_json::json!({ "argument": name }))
    };
    let mut pairs: Vec<(&str, String)> = Vec::with_capacity(args.len());
    for (name, value) in args {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for item in items {
            let text = match item {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => item.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(refuse(
                        name,
                        "it must be a text, a number, true or false, or a list of these",
                    ));
                }
            };
            pairs.push((name, text));
        }
    }
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    let length = url.query().map_or(0, str::len);
    if length > MAX_QUERY {
        let message =
            format!("the arguments make a query of {length} bytes; the limit is {MAX_QUERY}");
        return Err(AdapterError::operational(code::INVALID_ARGUMENT, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn added(args: &Value) -> Result<Option<String>, AdapterError> {
        let mut url = Url::parse("http://h/t/m").unwrap();
        add(&mut url, args.as_object().unwrap())?;
        Ok(url.query().map(str::to_owned))
    }

    #[test]
    fn plain_values_stand_in_their_order_and_nothing_breaks_out() {
        let args = json!({ "q": "a b&c=d#é?", "n": 1.5, "on": true, "no": null, "x y": ["1", 2] });
        let query = added(&args).unwrap().unwrap();
        assert_eq!(query, "q=a+b%26c%3Dd%23%C3%A9%3F&n=1.5&on=true&x+y=1&x+y=2");
        assert_eq!(added(&json!({})).unwrap(), None);
        assert_eq!(added(&json!({ "a": [] })).unwrap(), None);
    }

    #[test]
    fn what_is_no_plain_value_and_what_is_too_long_is_refused() {
        for args in [json!({ "a": {} }), json!({ "a": [[1]] }), json!({ "a": [{ "b": 1 }] })] {
            let error = added(&args).unwrap_err();
            assert_eq!(
                (error.code.as_str(), &error.details["argument"]),
                (code::INVALID_ARGUMENT, &json!("a"))
            );
        }
        let error = added(&json!({ "a": "x".repeat(MAX_QUERY) })).unwrap_err();
        assert!(error.message.contains("the limit is"), "{error}");
        assert!(!error.message.contains("xxx"), "{error}");
    }
}

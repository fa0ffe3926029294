//! Holds JSON values to JSON Schemas that others wrote.

mod cost;

use std::error::Error;
use std::fmt;

use boon::{Compiler, Draft, ErrorKind, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

use cost::Cost;

/// A longer schema is refused: every caller is told it.
const MAX_TEXT: usize = 1024 * 1024;
/// A message names so many mistakes at most.
const MAX_SHOWN: usize = 5;
/// Where a schema stands that has no address.
const ADDRESS: &str = "urn:nexus-router:schema";

/// A schema that values can be held to.
pub struct Schema {
    cost: Cost,
    compiled: Schemas,
    index: SchemaIndex,
}

/// A value does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where in the value, as a JSON pointer.
    pub pointer: String,
    /// What is wrong, a mistake each.
    pub mistakes: Vec<String>,
    /// The JSON pointer of each mistake.
    places: Vec<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistakes.join("; "))
    }
}

impl Misfit {
    /// Returns the mistakes without any property of a secret value.
    ///
    /// `known` has the mistakes of the same value with references in place of the secrets, which are at `secrets`. The
    /// text of a mistake that both have does not depend on a secret. Of every other mistake only the place remains.
    #[must_use]
    pub fn without_values(self, known: Option<&Self>, secrets: &[String]) -> Self {
        let Self { pointer, mistakes, places } = self;
        let generic = |(mistake, place): (String, &String)| {
            if known.is_some_and(|known| known.mistakes.contains(&mistake)) {
                return mistake;
            }
            let is_secret = secrets.iter().any(|secret| {
                place
                    .strip_prefix(secret.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            match is_secret {
                true => format!("{}: the secret does not fit the schema", shown(place)),
                false => format!("{}: does not fit the schema", shown(place)),
            }
        };
        let texts = mistakes.into_iter().zip(&places).map(generic).collect::<Vec<_>>();
        let mut placed: Vec<(String, String)> = texts.into_iter().zip(places).collect();
        placed.dedup();
        let (mistakes, places) = placed.into_iter().unzip();
        Self { pointer, mistakes, places }
    }
}

/// Returns the display form of a pointer.
fn shown(pointer: &str) -> &str {
    if pointer.is_empty() { "the whole" } else { pointer }
}

/// Nothing is fetched: what a schema refers to must stand in it.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("{url} is not fetched; put it under $defs").into())
    }
}

impl Schema {
    /// Reads a schema; without `$schema` it is one of 2020-12.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub fn read(schema: &Value) -> Result<Self, String> {
        if schema.to_string().len() > MAX_TEXT {
            return Err(format!("it has more than {MAX_TEXT} bytes"));
        }
        // The library panics at patterns that it takes for sound and cannot compile.
        std::panic::catch_unwind(|| Self::compile(schema))
            .unwrap_or_else(|_| Err("it cannot be compiled".to_owned()))
    }

    fn compile(schema: &Value) -> Result<Self, String> {
        let cost = Cost::of(schema)?;
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(Nowhere));
        let mut compiled = Schemas::new();
        compiler.add_resource(ADDRESS, schema.clone()).map_err(|error| error.to_string())?;
        let index = compiler.compile(ADDRESS, &mut compiled).map_err(|error| error.to_string())?;
        Ok(Self { cost, compiled, index })
    }

    /// Holds a value to the schema.
    ///
    /// # Errors
    /// With what does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        if let Some(depth) = self.cost.exceeded(value) {
            let mistakes =
                vec![format!("the whole: is nested deeper than {depth} for this schema")];
            return Err(Misfit { pointer: String::new(), mistakes, places: vec![String::new()] });
        }
        let Err(error) = self.compiled.validate(value, self.index) else { return Ok(()) };
        let mut mistakes = Vec::new();
        gather(&error, &mut mistakes);
        // The library has no order of its own for some of them.
        mistakes.sort_unstable();
        mistakes.dedup();
        mistakes.truncate(MAX_SHOWN);
        let pointer = mistakes.first().map(|(pointer, _)| pointer.clone()).unwrap_or_default();
        let texts = mistakes.iter().map(|(pointer, text)| format!("{}: {text}", shown(pointer)));
        let texts = texts.collect();
        let places = mistakes.into_iter().map(|(pointer, _)| pointer).collect();
        Err(Misfit { mistakes: texts, pointer, places })
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// Takes the mistakes at the ends of the tree, each with its place; what is above only says that there are some.
fn gather(error: &boon::ValidationError<'_, '_>, mistakes: &mut Vec<(String, String)>) {
    if error.causes.is_empty() {
        mistakes.push((error.instance_location.to_string(), told(&error.kind)));
    }
    for cause in &error.causes {
        gather(cause, mistakes);
    }
}

/// Tells a mistake without the text that has it, which may be a secret.
fn told(kind: &ErrorKind<'_, '_>) -> String {
    match kind {
        ErrorKind::Pattern { want, .. } => format!("does not match the pattern {want}"),
        ErrorKind::Format { want, .. } => format!("is no valid {want}"),
        ErrorKind::ContentEncoding { want, .. } => format!("is not encoded as {want}"),
        ErrorKind::ContentMediaType { want, .. } => format!("is not of the media type {want}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_held_to_their_schema() {
        let schema = Schema::read(&json!({
            "type": "object",
            "properties": { "n": { "$ref": "#/$defs/count" } },
            "required": ["n"],
            "$defs": { "count": { "type": "integer", "minimum": 1 } },
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({ "n": 1, "more": true })), Ok(()));
        let misfit = schema.check(&json!({ "n": 0 })).unwrap_err();
        assert_eq!(misfit.pointer, "/n");
        assert!(misfit.to_string().contains("/n"), "{misfit}");
        assert!(schema.check(&json!({})).unwrap_err().to_string().contains("n"));
    }

    #[test]
    fn mistakes_are_told_in_order_and_without_the_texts_that_have_them() {
        let schema = Schema::read(&json!({
            "properties": {
                "b": { "pattern": "^x+$" },
                "a": { "type": "integer" },
                "c": { "contentEncoding": "base64", "minLength": 3 },
            },
            "propertyNames": { "pattern": "^[a-z]$" },
            "unevaluatedProperties": false,
        }))
        .unwrap();
        let value = json!({ "b": "zq9'Lm-77x", "a": "hunter22", "c": "!", "z": 1, "y": 2, "x": 3 });
        let told = schema.check(&value).unwrap_err();
        assert_eq!(told.mistakes.len(), MAX_SHOWN);
        assert_eq!(told.pointer, "/a");
        assert!(told.to_string().contains("/b: does not match the pattern ^x+$"), "{told}");
        for secret in ["zq9", "hunter22"] {
            assert!(!told.to_string().contains(secret), "{told}");
        }
        assert!((0..50).all(|_| schema.check(&value).unwrap_err() == told));
    }

    #[test]
    fn mistakes_of_secrets_show_places_only() {
        let schema = Schema::read(&json!({
            "properties": {
                "key": { "anyOf": [{ "maxLength": 4, "type": "string" }, { "type": "integer" }] },
                "n": { "type": "integer" },
                "list": { "uniqueItems": true },
            },
            "required": ["q"],
            "if": { "properties": { "key": { "minLength": 8 } } },
            "then": { "properties": { "m": { "maximum": 3 } } },
        }))
        .unwrap();
        let reference = json!({ "$secret": "K" });
        let with = |secret: serde_json::Value| json!({ "key": secret, "n": "x", "m": 5, "list": [secret, "hunter22"] });
        let known = schema.check(&with(reference)).unwrap_err();
        let secrets = ["/key".to_owned(), "/list/0".to_owned()];
        let told = |secret: &str| {
            let misfit = schema.check(&with(secret.into())).unwrap_err();
            misfit.without_values(Some(&known), &secrets).to_string()
        };
        let told_long = told("hunter22");
        for part in [
            "the whole: missing properties 'q'",
            "/key: the secret does not fit the schema",
            "/list: does not fit the schema",
        ] {
            assert!(told_long.contains(part), "{told_long}");
        }
        // Neither a length nor a type of the secret, and no index of an equal item.
        for part in ["got 8", "length", "string", "items at"] {
            assert!(!told_long.contains(part), "{told_long}");
        }
        assert!(told("longer-than-the-other").contains("/key: the secret does not fit the schema"));
        let bare = schema.check(&with("hunter22".into())).unwrap_err().without_values(None, &[]);
        assert!(bare.mistakes.iter().all(|it| it.ends_with(": does not fit the schema")), "{bare}");
    }

    #[test]
    fn nothing_is_fetched_for_a_schema() {
        for url in ["file:///etc/passwd", "https://example.com/schema.json"] {
            let refused = Schema::read(&json!({ "$ref": url })).unwrap_err();
            assert!(refused.contains("not fetched") || refused.contains(url), "{refused}");
        }
        assert!(Schema::read(&json!({ "type": 1 })).is_err());
        let bomb = "((((a{1,1000}){1,1000}){1,1000}){1,1000})";
        assert!(Schema::read(&json!({ "pattern": bomb })).is_err());
        assert!(Schema::read(&json!({ "title": "x".repeat(MAX_TEXT) })).is_err());
    }

    #[test]
    fn deepest_values_and_schemas_that_are_taken_fit_a_small_stack() {
        let list = json!({ "allOf": [{ "anyOf": [{ "properties": { "a": { "$ref": "#" } } }] }] });
        let mut chain = json!({ "$ref": "#/$defs/d0", "$defs": {} });
        for n in 0..150 {
            chain["$defs"][format!("d{n}")] = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        }
        chain["$defs"]["d150"] = json!({ "type": "string" });
        let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let list = Schema::read(&list).unwrap();
            let deepest = (0..512).rev().find(|depth| {
                let value = (0..*depth).fold(json!(1), |inner, _| json!({ "a": inner }));
                let misfit = list.check(&value);
                !misfit.is_err_and(|misfit| misfit.to_string().contains("nested deeper"))
            });
            assert!(deepest.is_some_and(|depth| depth >= 90), "{deepest:?}");
            assert!(Schema::read(&chain).unwrap().check(&json!(1)).is_err());
        });
        checked.unwrap().join().unwrap();
    }
}

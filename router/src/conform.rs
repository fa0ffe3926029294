//! Holds JSON values to JSON Schemas that others wrote.

mod cost;

use std::error::Error;
use std::fmt;

use boon::{Compiler, Draft, SchemaIndex, Schemas, UrlLoader};
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
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistakes.join("; "))
    }
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
        let cost = Cost::of(schema).ok_or("its references unfold to too much")?;
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
            return Err(Misfit { pointer: String::new(), mistakes });
        }
        let Err(error) = self.compiled.validate(value, self.index) else { return Ok(()) };
        let mut misfit = Misfit { pointer: String::new(), mistakes: Vec::new() };
        gather(&error, &mut misfit);
        Err(misfit)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// Takes the mistakes at the ends of the tree; what is above only says that there are some.
fn gather(error: &boon::ValidationError<'_, '_>, misfit: &mut Misfit) {
    if !error.causes.is_empty() {
        for cause in &error.causes {
            gather(cause, misfit);
        }
        return;
    }
    if misfit.mistakes.len() >= MAX_SHOWN {
        return;
    }
    let pointer = error.instance_location.to_string();
    let place = if pointer.is_empty() { "the whole" } else { pointer.as_str() };
    misfit.mistakes.push(format!("{place}: {}", error.kind));
    if misfit.mistakes.len() == 1 {
        misfit.pointer = pointer;
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
}

//! What is not computed but retrieved: asked of the router, by the name of a source.

use std::collections::BTreeMap;

use nexus_router_sdk::{AdapterError, CallContext, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::SOURCE_FAILED;
use crate::arguments::{Arguments, invalid};
use crate::output::{Class, output};

/// The most hits that a search returns.
const MOST_HITS: usize = 100;

/// How a search API is asked, and where its hits are.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Search {
    query: String,
    limit: String,
    hits: String,
    url: String,
    title: String,
    snippet: String,
}

impl Default for Search {
    fn default() -> Self {
        let owned = |text: &str| text.to_owned();
        Self {
            query: owned("query"),
            limit: owned("limit"),
            hits: owned("/results"),
            url: owned("/url"),
            title: owned("/title"),
            snippet: owned("/snippet"),
        }
    }
}

impl Search {
    pub(crate) fn pointers(&self, name: &str) -> Vec<(String, &str)> {
        let Self { hits, url, title, snippet, .. } = self;
        let all = [("hits", hits), ("url", url), ("title", title), ("snippet", snippet)];
        let place = |(key, pointer)| (format!("searches.{name}.{key}"), String::as_str(pointer));
        all.map(place).to_vec()
    }
}

/// Where the parts of a document are in an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Document {
    text: Option<String>,
    title: Option<String>,
    url: Option<String>,
}

impl Document {
    pub(crate) fn pointers(&self, name: &str) -> Vec<(String, &str)> {
        let all = [("text", &self.text), ("title", &self.title), ("url", &self.url)];
        let given = all.into_iter().filter_map(|(key, one)| Some((key, one.as_deref()?)));
        given.map(|(key, one)| (format!("documents.{name}.{key}"), one)).collect()
    }
}

/// What a source answered.
struct Answer {
    source: String,
    sha256: String,
    output: Value,
}

/// Asks a source, or the only one that there is for calls of this class.
fn retrieve(context: &CallContext, source: String, input: &Object) -> Result<Answer, AdapterError> {
    let request = json!({ "type": "retrieve", "source": source, "input": input });
    let mut answer = context.ask(request)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (sha256, output) = (text(&answer["sha256"]), answer["output"].take());
    if output["isError"] == true {
        let told = content(&output).unwrap_or_else(|| "it does not say why".to_owned());
        let message = format!("source '{source}' failed: {told}");
        return Err(AdapterError::operational(SOURCE_FAILED, message));
    }
    Ok(Answer { source, sha256, output })
}

/// Returns the source that is named, or the only one.
fn chosen(context: &CallContext, args: &mut Arguments) -> Result<String, AdapterError> {
    if let Some(source) = args.text("source")? {
        return Ok(source);
    }
    let known = context.ask(json!({ "type": "sources" }))?;
    let names = known["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    match names {
        [Value::String(only)] => Ok(only.clone()),
        [] => Err(invalid("there is no source for calls of this class")),
        several => {
            let names: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            Err(invalid(format!("source is missing; there are {}", names.join(", "))))
        }
    }
}

/// Searches with a source.
pub(crate) fn search(
    context: &CallContext,
    searches: &BTreeMap<String, Search>,
    args: Object,
) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let (query, limit) = (args.needed("query")?, args.count("limit", 10, MOST_HITS)?);
    let source = chosen(context, &mut args)?;
    args.end()?;
    let usual = Search::default();
    let search = searches.get(&source).unwrap_or(&usual);
    let mut input = Object::new();
    input.insert(search.query.clone(), query.as_str().into());
    if !search.limit.is_empty() {
        input.insert(search.limit.clone(), limit.into());
    }
    let answer = retrieve(context, source, &input)?;
    let Some(hits) = answer.output.pointer(&search.hits).and_then(Value::as_array) else {
        let message = format!(
            "the answer of source '{}' has no list at {:?}; say where its hits are with searches.{0}.hits",
            answer.source, search.hits
        );
        return Err(AdapterError::operational(SOURCE_FAILED, message));
    };
    let sources: Vec<Value> = hits
        .iter()
        .take(limit)
        .enumerate()
        .map(|(index, hit)| {
            let mut found = Object::new();
            found.insert("rank".to_owned(), (index + 1).into());
            for (name, pointer) in
                [("url", &search.url), ("title", &search.title), ("snippet", &search.snippet)]
            {
                if let Some(text) = hit.pointer(pointer).and_then(shown) {
                    found.insert(name.to_owned(), text.into());
                }
            }
            found.into()
        })
        .collect();
    let result = json!({
        "query": query,
        "source": answer.source,
        "answer_sha256": answer.sha256,
        "count": sources.len(),
    });
    Ok(output(Class::WebSearch, result, sources))
}

/// Retrieves a document from a source.
pub(crate) fn document(
    context: &CallContext,
    documents: &BTreeMap<String, Document>,
    args: Object,
) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let input = args.object("input")?;
    let source = chosen(context, &mut args)?;
    args.end()?;
    let answer = retrieve(context, source, &input)?;
    let usual = Document::default();
    let document = documents.get(&answer.source).unwrap_or(&usual);
    let at = |pointer: &Option<String>| {
        pointer.as_deref().and_then(|pointer| answer.output.pointer(pointer)).and_then(shown)
    };
    let text = match &document.text {
        Some(_) => at(&document.text),
        None => content(&answer.output),
    };
    let mut result = Object::new();
    let mut cited = json!({ "source": answer.source, "sha256": answer.sha256 });
    for (name, value) in [("title", at(&document.title)), ("url", at(&document.url))] {
        if let Some(value) = value {
            cited[name] = value.as_str().into();
            result.insert(name.to_owned(), value.into());
        }
    }
    match text {
        Some(text) => result.insert("text".to_owned(), text.into()),
        None => result.insert("document".to_owned(), answer.output),
    };
    Ok(output(Class::DocRetrieval, result.into(), vec![cited]))
}

/// Looks up data at a source.
pub(crate) fn look_up(context: &CallContext, args: Object) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let input = args.object("input")?;
    let source = chosen(context, &mut args)?;
    args.end()?;
    let answer = retrieve(context, source, &input)?;
    let cited = json!({ "source": answer.source, "sha256": answer.sha256 });
    let result = json!({ "data": answer.output });
    Ok(output(Class::DataLookup, result, vec![cited]))
}

/// Returns a text, or a number as one.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Finds the text of an answer where services put it: blocks of MCP, `text` or `content`.
fn content(output: &Value) -> Option<String> {
    for name in ["content", "contents"] {
        let Some(blocks) = output[name].as_array() else { continue };
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        if !texts.is_empty() {
            return Some(texts.join("\n"));
        }
    }
    ["text", "content"].into_iter().find_map(|name| output[name].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, code};

    /// Calls a scout whose host answers everything with the same output, and returns what it asked last.
    fn answered(tool: &str, config: Value, args: &Value, given: Value) -> (Value, Value) {
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Value::Null));
        let heard = std::sync::Arc::clone(&asked);
        let host = Recorder::default().answering(move |request| {
            *heard.lock().unwrap() = request.clone();
            match request["type"].as_str() {
                Some("sources") => Ok(json!({ "sources": ["only"] })),
                _ => Ok(json!({ "source": request["source"], "sha256": "d", "output": given })),
            }
        });
        let scout = crate::create_adapter(None, serde_json::from_value(config).unwrap()).unwrap();
        let args = args.as_object().cloned().unwrap();
        let output = match scout.call(&host.context(), tool, "call", args) {
            Ok(output) => output.into(),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let asked = asked.lock().unwrap().clone();
        (output, asked)
    }

    #[test]
    fn a_search_is_asked_and_read_as_its_source_says() {
        let config = json!({ "searches": { "meili": { "query": "q", "hits": "/hits",
            "url": "/id", "snippet": "/_formatted/overview" } } });
        let given = json!({ "hits": [
            { "id": 7, "title": "B", "_formatted": { "overview": "b…" } },
            { "id": "x", "title": null },
            { "id": "cut off" },
        ] });
        let args = json!({ "query": "sea", "limit": 2, "source": "meili" });
        let (output, asked) = answered("web_search", config, &args, given);
        assert_eq!(asked["input"], json!({ "q": "sea", "limit": 2 }));
        assert_eq!(
            output["result"],
            json!({ "query": "sea", "source": "meili",
            "answer_sha256": "d", "count": 2 })
        );
        assert_eq!(
            output["sources"],
            json!([
                { "rank": 1, "url": "7", "title": "B", "snippet": "b…" },
                { "rank": 2, "url": "x" },
            ])
        );
        let keys: Vec<&str> = output.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "adapter_role",
                "adapter_version",
                "action_class",
                "ok",
                "result",
                "sources",
                "errors"
            ]
        );
    }

    #[test]
    fn an_answer_without_hits_names_the_remedy() {
        let (output, _) = answered("web_search", json!({}), &json!({ "query": "q" }), json!({}));
        let error = output["error"].as_str().unwrap();
        assert!(
            error.starts_with("SOURCE_FAILED") && error.contains("searches.only.hits"),
            "{error}"
        );
    }

    #[test]
    fn the_only_source_need_not_be_named() {
        let given = json!({ "text": "Hello." });
        let (output, asked) = answered("doc_retrieval", json!({}), &json!({}), given);
        assert_eq!(asked["source"], "only");
        assert_eq!(output["result"], json!({ "text": "Hello." }));
        assert_eq!(output["sources"], json!([{ "source": "only", "sha256": "d" }]));
    }

    #[test]
    fn documents_are_found_where_services_put_them() {
        let blocks = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "image" },
            { "type": "text", "text": "b" }] });
        let resource = json!({ "contents": [{ "uri": "x", "text": "r" }] });
        let placed = json!({ "doc": { "body": "p", "name": "N", "href": "u" } });
        let config = json!({ "documents": { "only": { "text": "/doc/body", "title": "/doc/name",
            "url": "/doc/href" } } });
        for (config, given, result) in [
            (json!({}), blocks, json!({ "text": "a\nb" })),
            (json!({}), resource, json!({ "text": "r" })),
            (config, placed, json!({ "title": "N", "url": "u", "text": "p" })),
            (json!({}), json!({ "rows": [1] }), json!({ "document": { "rows": [1] } })),
        ] {
            let (output, _) = answered("doc_retrieval", config, &json!({}), given);
            assert_eq!(output["result"], result);
        }
    }

    #[test]
    fn a_source_that_failed_is_a_failure() {
        let given = json!({ "isError": true, "content": [{ "type": "text", "text": "no disk" }] });
        let (output, _) = answered("data_lookup", json!({}), &json!({}), given);
        assert_eq!(output["error"], "SOURCE_FAILED: source 'only' failed: no disk");
    }

    #[test]
    fn arguments_are_held_to_their_form() {
        for (tool, args, told) in [
            ("web_search", json!({}), "query is missing"),
            ("web_search", json!({ "query": 1 }), "query must be a text"),
            ("web_search", json!({ "query": "q", "limit": 0 }), "limit must be a whole number"),
            ("web_search", json!({ "query": "q", "x": 0 }), "there is no argument 'x'"),
            ("doc_retrieval", json!({ "input": [] }), "input must be an object"),
            ("data_lookup", json!({ "url": "http://x" }), "there is no argument 'url'"),
        ] {
            let (output, _) = answered(tool, json!({}), &args, json!({}));
            let error = output["error"].as_str().unwrap_or_default();
            assert!(error.starts_with(code::INVALID_ARGUMENT) && error.contains(told), "{output}");
        }
    }
}

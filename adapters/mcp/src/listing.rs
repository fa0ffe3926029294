//! What a server lists: all pages of it, and no more than anybody needs.

use std::collections::HashSet;

use nexus_router_sdk::{Catalog, Level, Object, Tool, code};
use serde_json::Value;

use crate::connection::{Connection, Question};
use crate::ending::Ending;
use crate::failure::{self, Failure, METHOD_NOT_FOUND, UPSTREAM_ERROR};
use crate::operation::CALL;

/// Bounds of all lists of a server together.
const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 16 << 20;

/// Pages that one list may have, also empty ones.
const MAX_PAGES: usize = 1000;

/// What is left of the bounds.
pub(crate) struct Room {
    entries: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, bytes: MAX_BYTES }
    }
}

impl Room {
    /// Says whether one more entry has room.
    fn take(&mut self, entry: &Object) -> bool {
        let size = serde_json::to_vec(entry).map_or(usize::MAX, |text| text.len());
        if self.entries == 0 || size > self.bytes {
            // What does not fit ends the list; a smaller one after it would be out of place.
            (self.entries, self.bytes) = (0, 0);
            return false;
        }
        self.entries -= 1;
        self.bytes -= size;
        true
    }
}

/// Lists the tools.
pub(crate) async fn tools(
    connection: &Connection,
    ending: &Ending,
    room: &mut Room,
) -> Result<Vec<Tool>, Failure> {
    if connection.offers().tools.is_none() {
        return Ok(Vec::new());
    }
    let listed = pages(connection, "tools/list", "tools", ending, room).await?;
    let (mut tools, mut names) = (Vec::new(), HashSet::new());
    for definition in listed {
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
        let sound = !name.is_empty() && definition.get("inputSchema").is_some_and(Value::is_object);
        if !sound || !names.insert(name.to_owned()) {
            let name = failure::short(name, 200);
            let text =
                format!("the MCP server lists a tool {name:?} without a name or schema, or twice");
            connection.wire().log().tell(Level::Warn, &text);
            continue;
        }
        tools.push(Tool {
            tool: name.to_owned(),
            method: CALL.to_owned(),
            definition,
            content: true,
            interactive: connection.is_modern(),
            long: false,
        });
    }
    Ok(tools)
}

/// Lists everything but the tools, which are given.
pub(crate) async fn rest(
    connection: &Connection,
    tools: Vec<Tool>,
    ending: &Ending,
    room: &mut Room,
) -> Result<Catalog, Failure> {
    let offers = connection.offers();
    let mut catalog = Catalog { tools, ..Catalog::default() };
    if let Some(resources) = &offers.resources {
        catalog.resources = pages(connection, "resources/list", "resources", ending, room).await?;
        catalog.resource_templates =
            pages(connection, "resources/templates/list", "resourceTemplates", ending, room)
                .await?;
        catalog.subscribes = resources.subscribe == Some(true);
    }
    if offers.prompts.is_some() {
        catalog.prompts = pages(connection, "prompts/list", "prompts", ending, room).await?;
    }
    catalog.completes = offers.completions.is_some();
    Ok(catalog)
}

/// Reads all pages of one list.
async fn pages(
    connection: &Connection,
    method: &str,
    member: &str,
    ending: &Ending,
    room: &mut Room,
) -> Result<Vec<Object>, Failure> {
    let mut entries = Vec::new();
    let mut cursor: Option<Value> = None;
    let mut seen = HashSet::new();
    for _ in 0..MAX_PAGES {
        let mut params = Object::new();
        if let Some(cursor) = &cursor {
            params.insert("cursor".to_owned(), cursor.clone());
        }
        let question = Question { method, params, context: None, kind: "list" };
        let mut page = match connection.request(question, ending).await {
            Ok(page) => page,
            // Some offer what they do not have.
            Err(failure) if is_unknown(&failure) => return Ok(entries),
            Err(failure) => return Err(failure),
        };
        let Some(Value::Array(listed)) = page.remove(member) else {
            return Err(Failure::malformed(&format!("to {method} has no {member}")));
        };
        for entry in listed {
            let Value::Object(entry) = entry else { continue };
            if !room.take(&entry) {
                let text = format!(
                    "the MCP server lists more than {MAX_ENTRIES} things or {MAX_BYTES} bytes; {method} is cut off"
                );
                connection.wire().log().tell(Level::Warn, &text);
                return Ok(entries);
            }
            entries.push(entry);
        }
        cursor = page.remove("nextCursor").filter(Value::is_string);
        let Some(next) = &cursor else { return Ok(entries) };
        if !seen.insert(next.to_string()) {
            break;
        }
    }
    let text = format!("the MCP server's pages of {method} have no end; they are cut off");
    connection.wire().log().tell(Level::Warn, &text);
    Ok(entries)
}

fn is_unknown(failure: &Failure) -> bool {
    failure.error.code == UPSTREAM_ERROR
        && failure.error.details.get("code").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND)
}

/// Says whether a failure is the server's word, and not the lack of a connection.
pub(crate) fn is_answer(failure: &Failure) -> bool {
    failure.error.code == UPSTREAM_ERROR || failure.error.code == code::INVALID_JSON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_until_there_is_none() {
        let entry: Object = [("name".to_owned(), "x".into())].into_iter().collect();
        let mut room = Room { entries: 2, bytes: 1000 };
        assert_eq!([(); 3].map(|()| room.take(&entry)), [true, true, false]);
        let size = serde_json::to_vec(&entry).unwrap().len();
        let mut room = Room { entries: 9, bytes: size * 2 + 1 };
        assert_eq!([(); 3].map(|()| room.take(&entry)), [true, true, false]);
    }
}

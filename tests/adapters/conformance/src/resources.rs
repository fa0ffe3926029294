//! Resources: three that are listed, and those of a template.

use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::content::PNG;
use crate::fixture::{Answer, Call, not_found, object};

/// The resource that clients follow.
pub(crate) const WATCHED: &str = "test://watched-resource";

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const BEFORE_ID: &str = "test://template/";
const AFTER_ID: &str = "/data";

pub(crate) fn resources() -> Vec<Object> {
    [
        (TEXT, "Static text", "A text that never changes", "text/plain"),
        (BINARY, "Static picture", "A picture that never changes", "image/png"),
        (WATCHED, "Watched text", "A text that can be followed", "text/plain"),
    ]
    .map(|(uri, name, description, mime_type)| {
        object(json!({
            "uri": uri, "name": name, "description": description, "mimeType": mime_type,
        }))
    })
    .into()
}

pub(crate) fn templates() -> Vec<Object> {
    vec![object(json!({
        "uriTemplate": format!("{BEFORE_ID}{{id}}{AFTER_ID}"),
        "name": "Data by id",
        "description": "Data that depends on an id",
        "mimeType": "application/json",
    }))]
}

/// Reads a resource.
pub(crate) fn read(call: &Call<'_>) -> Answer {
    let uri = call.text("uri")?;
    let contents = contents(uri, call).ok_or_else(|| not_found("resource", uri))?;
    Ok(object(json!({ "contents": [contents] })))
}

/// Begins or ends to follow a resource; every change is told, so there is nothing to remember.
pub(crate) fn follow(call: &Call<'_>) -> Answer {
    let uri = call.text("uri")?;
    contents(uri, call).map(|_| Object::new()).ok_or_else(|| not_found("resource", uri))
}

fn contents(uri: &str, call: &Call<'_>) -> Option<Value> {
    let text = |text: &str| json!({ "uri": uri, "mimeType": "text/plain", "text": text });
    match uri {
        TEXT => Some(text("This is the content of the static text resource.")),
        BINARY => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        WATCHED => Some(text(&match call.changes.of_watched() {
            0 => "Watched resource content".to_owned(),
            count => format!("Watched resource content, changed {count} times"),
        })),
        _ => {
            let id = uri.strip_prefix(BEFORE_ID)?.strip_suffix(AFTER_ID)?;
            let fits = !id.is_empty() && !id.contains('/');
            let data =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            fits.then(
                || json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() }),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::call;
    use nexus_router_sdk::{Catalog, code};

    use super::*;
    use crate::tests::adapter;

    #[test]
    fn resources_are_read_by_uri_and_by_template() {
        let (tool, method) = Catalog::READ;
        let read = |uri: &str| call(&adapter(), tool, method, json!({ "uri": uri }));
        for resource in resources() {
            let uri = resource["uri"].as_str().unwrap();
            let contents = &read(uri).unwrap()["contents"][0];
            assert_eq!(contents["uri"], uri);
            assert_eq!(contents["mimeType"], resource["mimeType"]);
        }
        let contents = &read("test://template/123/data").unwrap()["contents"][0];
        assert_eq!(
            contents["text"],
            r#"{"id":"123","templateTest":true,"data":"Data for ID: 123"}"#
        );
        for uri in ["test://template//data", "test://template/1/2/data", "test://template/data"] {
            assert_eq!(read(uri).unwrap_err().code, code::NOT_FOUND, "{uri}");
        }
    }
}
